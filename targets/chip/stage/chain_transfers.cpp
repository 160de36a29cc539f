// The transfers of a chain: the copies that its stages read, and the store of the root's results.
#include "targets/chip/stage/chain.h"

#include "dsl/print.h"
#include "support/error.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace kumiko::chip {

using namespace sim;
namespace ir = Halide::Internal;

// Row-major if the loops take whole blocks. Several stages, reductions, and elements of several
// widths use tensors in consumption order, which the host packs.
std::shared_ptr<const TransferPath> Chain::transfer_path_of(const ChainStage &s, TransferPathShape &shape) const {
    if (transposes_) {
        shape.table = [this](int group, const std::vector<uint32_t> &entries) { return c_.table(group, entries); };
        return std::make_shared<const TransferPath>(*s.plan, c_.config, shape);
    }
    const bool alone = stages_.size() == 1 && !s.stage->def.is_reduction() && !four_;
    if (shape.order && !alone) {
        TransferPathShape packed = shape;
        packed.order = nullptr;
        const auto path = std::make_shared<const TransferPath>(*s.plan, c_.config, packed);
        if (!path->takes_row_major(*shape.order)) {
            shape.order = nullptr;
            return path;
        }
    }
    return std::make_shared<const TransferPath>(*s.plan, c_.config, shape);
}

// The number of consecutive accesses along the tensor's last axis, if lanes and PEs run along
// another axis and the stage is a copy; otherwise 0.
int64_t Chain::transposed(const ChainStage &s, const TransferPathShape &shape) const {
    const auto &loops = s.plan->loops();
    const size_t last = shape.access.index.size() - 1;
    if (stages_.size() > 1 || !s.value.as<ir::Call>()) return 0;
    bool other = false;
    for (const size_t l : s.lanes) {
        if (shape.access.index[last].depends(l)) return 0;
        other = other || shape.access.depends(l);
    }
    if (!other) return 0;
    int64_t run = 1;
    for (size_t d = shape.digits.size(); d-- > 0;) {
        if (shape.access.index[last].coefficients[shape.digits[d]] != run) break;
        run *= loops[shape.digits[d]].extent;
    }
    const int64_t side = sim::pes_per_mab * (four_ ? 4 : 2);
    if (run % side != 0)
        throw Unsupported(fmt::format("{}: its lanes are not along its last axis, along which a unit computes {} "
                                      "consecutive elements; the matrix unit transposes multiples of {}",
                                      shape.name, run, side));
    return run;
}

// Divides the loops on which the access depends into keys, outside of the copy, and digits inside.
// For a stage with its own loops inside the chain's, copies are made outside of them, except for
// reduction loops.
void Chain::place_copy(const ChainStage &s, const std::vector<Copy> &copies, TransferPathShape &shape) const {
    const auto &loops = s.plan->loops();
    const size_t own = s.plan->first_own(), at = copies.front().at;
    for (size_t l = own; &s != root_ && l < loops.size() && l <= at; l++) {
        if (loops[l].kind == PlannedLoop::Kind::Time && loops[l].extent > 1 && !loops[l].reduction)
            throw Unsupported("copy " + shape.name + " is made inside loop " + loops[l].name + " of " + s.name +
                              ", which is computed at a loop of " + root_->name +
                              "; on the chip, copies for the stages of a chain are outside of their own loops, except "
                              "for loops that reduce");
    }
    for (size_t l = 0; l < loops.size(); l++) {
        if (loops[l].kind != PlannedLoop::Kind::Time || !shape.access.depends(l)) continue;
        (l <= at ? shape.keys : shape.digits).push_back(l);
    }
    for (const size_t k : shape.keys) {
        if (copies.size() > 1 && k > copies.back().at) shape.together *= loops[k].extent;
    }
}

// The loops around a chain of one stage: those down to the copy with the most of them.
void Chain::add_loops_around(size_t at) {
    const auto &loops = root_->plan->loops();
    size_t last = SIZE_MAX;
    for (size_t l = 0; l <= at; l++) {
        if (loops[l].kind == PlannedLoop::Kind::Time) last = l;
    }
    std::vector<size_t> around;
    for (size_t l = 0; last != SIZE_MAX && l <= last; l++) {
        if (loops[l].kind == PlannedLoop::Kind::Time) around.push_back(l);
    }
    if (around.size() > outer_.size()) outer_ = around;
}

// Describes the words that copies hold at any time, by the loops that distribute them.
Chain::Loaded Chain::describe_copies(const ChainStage &s, const std::string &source, const std::vector<Copy> &copies,
                                     const TransferPathShape &shape) const {
    const TensorAccess &access = shape.access;
    const auto &loops = s.plan->loops();
    std::vector<std::pair<std::string, size_t>> distributed;
    for (size_t l = 0; l < loops.size(); l++) {
        if (!access.depends(l) || loops[l].extent == 1) continue;
        std::string text = fmt::format(" {}:{}:{}:", int(loops[l].kind), int(loops[l].level), loops[l].extent);
        for (const Affine &a : access.index) text += fmt::format("{},", a.coefficients[l]);
        if (std::find(shape.keys.begin(), shape.keys.end(), l) != shape.keys.end()) text += "key";
        distributed.push_back({text, l});
    }
    std::sort(distributed.begin(), distributed.end());
    std::string text = fmt::format("{} {} {}", source, memory_name(copies.front().memory), copies.size());
    for (const Affine &a : access.index) text += fmt::format(" {}", a.constant);
    std::vector<size_t> from;
    for (const auto &[t, l] : distributed) text += t, from.push_back(l);
    return {text, from, nullptr};
}

// Copies that hold the same words at the same time are merged. Whether there is such a copy, which
// the read then uses.
bool Chain::share_loader(ChainRead &r, const Loaded &made, const Copy &copy) const {
    for (const Loaded &known : loaders_) {
        if (known.text != made.text) continue;
        const StageState &a = *known.loader->copy().stage, &b = *copy.stage;
        if (a.buffers != b.buffers && std::max(a.buffers, b.buffers) > 2)
            throw Unsupported(
                fmt::format("copies {} and {}, which hold the same words and are merged on the chip, have "
                            "{} and {} buffers; give both the same number",
                            a.name(), b.name(), a.buffers, b.buffers));
        r.loader = known.loader;
        for (size_t i = 0; i < made.loops.size(); i++) r.loops.push_back({made.loops[i], known.loops[i]});
        return true;
    }
    return false;
}

void Chain::load(ChainStage &s, ChainRead &r) {
    const TensorAccess &access = r.access;
    std::string source;
    const StageState *packed = nullptr;
    Border border;
    const std::vector<Copy> copies = copies_of(state_, *s.plan, access.tensor, source, &packed, &border);
    if (copies.front().memory == Bank::L1bm || copies.front().memory == Bank::L2bm)
        throw Unsupported(source + " of " + s.name + " is placed in " + memory_name(copies.front().memory) +
                          "; vectors read LM, LM0 and LM1");
    TransferPathShape shape;
    shape.name = copies.front().stage->name();
    shape.access = access;
    shape.type = access.type;
    shape.form = Form::Pe;
    shape.lanes = s.lanes;
    shape.copies = four_ ? 4 : 2;
    shape.zeros = border == Border::Zeros;
    shape.clamped = border == Border::Nearest;
    place_copy(s, copies, shape);
    const size_t at = copies.front().at;
    if (&s == root_ && stages_.size() > 1) { // a copy for each tile of results
        std::vector<size_t> around;
        for (size_t l = depth_ + 1; l <= at; l++) {
            if (s.plan->loops()[l].kind == PlannedLoop::Kind::Time) around.push_back(l);
        }
        if (around.size() > tiles_.size()) tiles_ = around;
    }
    Loaded made = describe_copies(s, source, copies, shape);
    if (share_loader(r, made, copies.front())) return;
    if (!packed && !access.period) {
        std::vector<size_t> order(access.extents.size());
        std::iota(order.begin(), order.end(), 0);
        shape.order = std::make_shared<const DramOrder>(access.extents, access.type.bytes(), c_.config, order);
        if (copies.size() > 1)
            throw Unsupported("copy " + copies.back().stage->name() + ": rows of " + source +
                              " pass through L2BM; prepack it to keep a copy there");
        shape.transposed = transposed(s, shape);
        transposes_ = transposes_ || shape.transposed;
    }
    const auto path = transfer_path_of(s, shape);
    if (path->words() != 1 && !(four_ && path->words() == 2))
        throw Unsupported("stage " + s.name + " reads elements of " + type_name(access.type) +
                          " beside others of another width; vectorize four");
    if (&s == root_ && stages_.size() == 1) add_loops_around(at);
    const int64_t dram =
        shape.order ? c_.take_dram(shape.order, source, false) : c_.take_dram(s.plan, path, source, false);
    r.loader = std::make_shared<Loader>(c_, path, copies, dram, *s.plan);
    for (const size_t l : made.loops) r.loops.push_back({l, l});
    made.loader = r.loader;
    loaders_.push_back(std::move(made));
}

void Chain::make_store() {
    if (loaders_.empty()) throw Unsupported("stage " + root_->name + " reads no tensor");
    ChainStage &r = *root_;
    const auto &loops = r.plan->loops();
    r.time.clear();
    r.points = 1;
    TransferPathShape s;
    s.name = r.name;
    s.access = r.plan->own();
    s.type = r.type;
    s.form = Form::Pe;
    s.lanes = r.lanes;
    s.store = true;
    for (size_t l = 0; l < loops.size(); l++) {
        if (loops[l].kind != PlannedLoop::Kind::Time) continue;
        const bool around = std::find(outer_.begin(), outer_.end(), l) != outer_.end() ||
                            std::find(tiles_.begin(), tiles_.end(), l) != tiles_.end();
        if (!s.access.depends(l)) throw InternalError("a loop without iterations");
        (around ? s.keys : s.digits).push_back(l);
        if (!around) r.time.push_back(l), r.points *= loops[l].extent;
    }
    std::vector<size_t> order(s.access.index.size());
    std::iota(order.begin(), order.end(), 0);
    DramOrder rows(s.access.extents, s.type.bytes(), c_.config, order);
    s.nowhere = rows.words();
    if (transposes_) rows.take_more(nowhere_room * c_.config.moves.granule);
    s.order = std::make_shared<const DramOrder>(rows);
    store_ = transfer_path_of(r, s);
    if (store_->words() != 1 && !(four_ && store_->words() == 2))
        throw Unsupported("stage " + r.name + " computes elements of " + type_name(s.type) +
                          " from narrower ones; vectorize four");
    store_dram_ = s.order ? c_.take_dram(s.order, r.name, true) : c_.take_dram(r.plan, store_, r.name, true);
}

} // namespace kumiko::chip
