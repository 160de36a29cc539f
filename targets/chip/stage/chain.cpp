#include "targets/chip/stage/chain.h"
#include "targets/chip/stage/root_reduction.h"
#include "targets/chip/stage/stages.h"

#include "dsl/print.h"
#include "support/error.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace kumiko::chip {

using namespace sim;
namespace ir = Halide::Internal;

int64_t ChainStage::index(const Values &values) const {
    int64_t k = 0;
    for (const size_t l : time) k = k * plan->loops()[l].extent + values[l];
    return k;
}

void ChainStage::set(Values &values, int64_t point) const {
    point = std::min(point, points - 1);
    for (size_t i = time.size(); i-- > 0;) {
        values[time[i]] = point % plan->loops()[time[i]].extent;
        point /= plan->loops()[time[i]].extent;
    }
}

Chain::Chain(Context &c, const ScheduleState &state, const StageState &root) : c_(c), state_(state) {
    collect(root);
    for (ChainStage &s : stages_) read_all(s);
    make_store();
    place_homes();
    std::vector<std::pair<const TransferPath *, std::pair<bool, bool>>> users;
    for (const Loaded &l : loaders_) users.push_back({&l.loader->path(), {true, l.loader->through_l2()}});
    users.push_back({store_.get(), {true, true}});
    const auto rings = share_rings(c_, users, 1);
    for (size_t i = 0; i < loaders_.size(); i++) loaders_[i].loader->set_rings(rings[i]);
    store_rings_ = rings.back();
    for (const ChainStage &s : stages_) {
        c_.l2 += fmt::format("stage {}{}\n", s.name, &s == root_ ? "" : fmt::format(", {} points a tile", s.points));
    }
    c_.l2 += c_.planner.to_string();
}

Expr Chain::inlined(const Expr &e) const {
    struct Inline : ir::IRGraphMutator {
        using IRGraphMutator::visit;
        const ScheduleState *state;
        Expr visit(const ir::Call *op) override {
            Expr e = IRGraphMutator::visit(op);
            op = e.as<ir::Call>();
            if (!op || op->call_type != ir::Call::Image) return e;
            const StageState *s = state->find(op->name);
            if (!s || s->placement.kind != Placement::Kind::Inline) return e;
            std::map<std::string, Expr> args;
            for (size_t d = 0; d < op->args.size(); d++) args[s->def.axes[d].name()] = op->args[d];
            return mutate(ir::substitute(args, s->def.value));
        }
    } inliner;
    inliner.state = &state_;
    return inliner.mutate(e);
}

// Collects the stages and the region of each that is needed inside the loop at which it is
// computed: readers precede what they read.
void Chain::collect(const StageState &root) {
    std::vector<const StageState *> nested;
    for (const StageState &s : state_.stages) {
        if (s.is_copy || s.placement.kind != Placement::Kind::At || s.name() == root.name()) continue;
        if (s.placement.consumer != root.name())
            throw Unsupported("stage " + s.name() + " is computed at a loop of " + s.placement.consumer +
                              "; on the chip stages are computed at one loop of the stage at the root, " + root.name());
        if (!nested.empty() && nested.front()->placement.loop != s.placement.loop)
            throw Unsupported("stages " + nested.front()->name() + " and " + s.name() + " are computed at loops " +
                              nested.front()->placement.loop + " and " + s.placement.loop + " of " + root.name() +
                              "; the chip computes all of a chain at one");
        nested.push_back(&s);
    }
    const auto begin = [&](const StageState &s, std::shared_ptr<StagePlan> plan) -> ChainStage & {
        ChainStage &made = stages_.emplace_front();
        made.stage = &s;
        made.plan = std::move(plan);
        made.name = s.name();
        made.type = s.def.type;
        if (s.def.is_reduction()) {
            if (s.def.components.size() != 1)
                throw Unsupported("stage " + s.name() + " reduces " + std::to_string(s.def.components.size()) +
                                  " values together; the chip's reductions have one");
            made.fold = s.def.components.front();
            made.type = made.fold->type;
        }
        made.value = inlined(made.fold ? made.fold->term : s.def.value);
        return made;
    };
    const auto plan = std::make_shared<StagePlan>(state_, root, c_.config);
    root_ = &begin(root, plan);
    size_t &depth = depth_;
    if (!nested.empty()) depth = plan->loop(nested.front()->placement.loop);
    for (size_t n = nested.size(); n-- > 0;) {
        const StageState &s = *nested[n];
        Nesting in{plan.get(), depth, {}, {}};
        for (size_t d = 0; d < s.def.axes.size(); d++) {
            const int64_t whole = *ir::as_const_int(ir::simplify(s.def.axes[d].extent()));
            int64_t most = 0;
            Affine first;
            for (const ChainStage &reader : stages_) {
                for (const Expr &e : reads_in(reader.value)) {
                    const ir::Call *call = e.as<ir::Call>();
                    if (call->name != s.name()) continue;
                    Affine at = reader.plan->affine(call->args[d]);
                    for (size_t l = depth + 1; l < at.coefficients.size(); l++) {
                        if (at.coefficients[l] < 0)
                            throw Unsupported("stage " + reader.name + " reads " + s.name() + " backwards");
                    }
                    const int64_t reach = reader.plan->reach(at, depth);
                    at.coefficients.resize(depth + 1);
                    if (most && (at.coefficients != first.coefficients || at.constant != first.constant))
                        throw Unsupported("what reads " + s.name() + " at " + s.def.axes[d].name() +
                                          " does not begin at the same index in all stages");
                    first = at;
                    most = std::max(most, reach);
                }
            }
            if (most == 0) throw Unsupported("no stage of the chain reads " + s.name());
            bool moves = false;
            for (size_t l = 0; l < first.coefficients.size(); l++)
                moves = moves || (first.depends(l) && plan->loops()[l].extent != 1);
            in.first.push_back(first);
            in.extents.push_back(moves ? most : std::min(most, whole));
        }
        begin(s, std::make_shared<StagePlan>(state_, s, c_.config, &in));
    }
    // Classify the loops.
    int64_t lanes = 0;
    for (ChainStage &s : stages_) {
        const auto &loops = s.plan->loops();
        const TensorAccess own = s.plan->own();
        int64_t n = 1;
        bool across = false;
        for (size_t l = s.plan->first_own(); l < loops.size(); l++) {
            if (loops[l].kind == PlannedLoop::Kind::Lane) {
                s.lanes.push_back(l);
                n *= loops[l].extent;
                (loops[l].reduction ? s.reduced_lanes : across) = true;
            } else if (loops[l].kind == PlannedLoop::Kind::Time && (&s != root_ || l > depth || nested.empty())) {
                (loops[l].reduction ? s.reduced : s.time).push_back(l);
            }
        }
        if (across && s.reduced_lanes)
            throw Unsupported(
                "stage " + s.name +
                " has lanes along a reduction axis and along another axis; on the chip lanes are along one of these");
        if (n > 1 && lanes > 1 && n != lanes)
            throw Unsupported(fmt::format("stage {} has {} lanes, another one of its chain {}", s.name, n, lanes));
        if (n > 1) lanes = n;
        for (const size_t l : s.time) s.points *= loops[l].extent;
    }
    if (lanes != 2 && lanes != 4)
        throw UserError(
            fmt::format("stage {}: its vectorized loops have {} iterations; vectors of the chip have 4, or 2 "
                        "where nothing has 16 bits",
                        root.name(), lanes));
    four_ = lanes == 4;
    for (size_t l = 0; l < plan->loops().size() && !nested.empty() && l <= depth; l++) {
        if (plan->loops()[l].kind == PlannedLoop::Kind::Time) outer_.push_back(l);
    }
}

// The reads of a stage's formula, their copies, and the formula as a program. A reduction's program
// combines the term with the accumulator, which is the first read.
void Chain::read_all(ChainStage &s) {
    const std::string who = "stage " + s.name;
    for (const Expr &e : reads_in(s.value)) {
        if (is_position(e)) {
            s.uses_position = true;
            continue;
        }
        bool known = false;
        for (const ChainRead &r : s.reads) known = known || ir::equal(r.read, e);
        if (known) continue;
        ChainRead r;
        r.read = e;
        r.access = s.plan->access(state_, e);
        for (const ChainStage &other : stages_) {
            if (other.name == r.access.tensor) r.from = &other;
        }
        if (!r.from) load(s, r);
        s.reads.push_back(r);
    }
    if (s.fold) return; // reduction.cpp builds its programs
    VectorBuilder b;
    const Id value = take_expression(b, s.value, who, [&](const Expr &e) -> Id {
        for (size_t i = 0; i < s.reads.size(); i++) {
            if (ir::equal(s.reads[i].read, e)) return b.read(int(i), vector_type(e.type(), who));
        }
        return -1;
    });
    b.result(value);
    s.program = b.program();
}

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
        throw Unsupported(fmt::format("{}: its lanes are not along its last axis, of which a unit computes {} elements "
                                      "one after the other; the matrix unit transposes multiples of {}",
                                      shape.name, run, side));
    return run;
}

void Chain::load(ChainStage &s, ChainRead &r) {
    const TensorAccess &access = r.access;
    std::string source;
    const StageState *packed = nullptr;
    Border border;
    const std::vector<Copy> copies = copies_of(state_, *s.plan, access.tensor, source, &packed, &border);
    const auto &loops = s.plan->loops();
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
    // For a stage with its own loops inside the chain's, copies are made outside of them, except
    // for reduction loops.
    const size_t own = s.plan->first_own();
    size_t at = copies.front().at;
    for (size_t l = own; &s != root_ && l < loops.size() && l <= at; l++) {
        if (loops[l].kind == PlannedLoop::Kind::Time && loops[l].extent > 1 && !loops[l].reduction)
            throw Unsupported(
                "copy " + shape.name + " is made inside loop " + loops[l].name + " of " + s.name +
                ", which is computed at a loop of " + root_->name +
                "; the chip copies what the stages of a chain read around those of their loops that do not reduce");
    }
    for (size_t l = 0; l < loops.size(); l++) {
        if (loops[l].kind != PlannedLoop::Kind::Time || !access.depends(l)) continue;
        (l <= at ? shape.keys : shape.digits).push_back(l);
    }
    for (const size_t k : shape.keys) {
        if (copies.size() > 1 && k > copies.back().at) shape.together *= loops[k].extent;
    }
    if (&s == root_ && stages_.size() > 1) { // a copy for each tile of results
        std::vector<size_t> around;
        for (size_t l = depth_ + 1; l <= at; l++) {
            if (loops[l].kind == PlannedLoop::Kind::Time) around.push_back(l);
        }
        if (around.size() > tiles_.size()) tiles_ = around;
    }
    // Copies that hold the same words at the same time are merged.
    std::vector<std::pair<std::string, size_t>> dealt;
    for (size_t l = 0; l < loops.size(); l++) {
        if (!access.depends(l) || loops[l].extent == 1) continue;
        std::string text = fmt::format(" {}:{}:{}:", int(loops[l].kind), int(loops[l].level), loops[l].extent);
        for (const Affine &a : access.index) text += fmt::format("{},", a.coefficients[l]);
        if (std::find(shape.keys.begin(), shape.keys.end(), l) != shape.keys.end()) text += "key";
        dealt.push_back({text, l});
    }
    std::sort(dealt.begin(), dealt.end());
    std::string text = fmt::format("{} {} {}", source, memory_name(copies.front().memory), copies.size());
    for (const Affine &a : access.index) text += fmt::format(" {}", a.constant);
    std::vector<size_t> from;
    for (const auto &[t, l] : dealt) text += t, from.push_back(l);
    for (const Loaded &known : loaders_) {
        if (known.text != text) continue;
        const StageState &a = *known.loader->copy().stage, &b = *copies.front().stage;
        if (a.buffers != b.buffers && std::max(a.buffers, b.buffers) > 2)
            throw Unsupported(
                fmt::format("copies {} and {}, which hold the same words and are one on the chip, are kept "
                            "{} and {} times; say the same for both",
                            a.name(), b.name(), a.buffers, b.buffers));
        r.loader = known.loader;
        for (size_t i = 0; i < from.size(); i++) r.loops.push_back({from[i], known.loops[i]});
        return;
    }
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
    if (&s == root_ && stages_.size() == 1) {
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
    const int64_t dram =
        shape.order ? c_.take_dram(shape.order, source, false) : c_.take_dram(s.plan, path, source, false);
    r.loader = std::make_shared<Loader>(c_, path, copies, dram, *s.plan);
    for (const size_t l : from) r.loops.push_back({l, l});
    loaders_.push_back({text, from, r.loader});
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
        if (!s.access.depends(l)) throw InternalError("a loop over nothing");
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

// Allocates the results of the stages before the root, sums in progress, and intermediate values.
void Chain::place_homes() {
    const auto parts = [&](kumiko::Type t) { return four_ && t.bits() == 32 ? 2 : 1; };
    const auto in_steps = [](int64_t points) {
        return (points + cycles_per_step - 1) / cycles_per_step * cycles_per_step;
    };
    int64_t sums = 0;
    bool over_l1bs = false, over_units = false;
    for (ChainStage &s : stages_) {
        if (&s == root_) continue;
        const std::string level = s.stage->level.empty() ? "GRF1" : s.stage->level;
        bool found = false;
        for (const Bank b : {Bank::Lm0, Bank::Lm1, Bank::Grf0, Bank::Grf1}) {
            if (level == memory_name(b)) s.home = b, found = true;
        }
        if (!found)
            throw Unsupported("stage " + s.name + " is kept in " + level +
                              "; results of a chain stand in GRF0, GRF1, LM0 or LM1");
        s.at = c_.planner.take(s.home, in_steps(s.points) * parts(s.type), s.name);
        if (!s.fold) continue;
        sums = std::max(sums, in_steps(s.points) * parts(s.type) * chains(s));
        for (size_t l = s.plan->first_own(); l < s.plan->loops().size(); l++) {
            const PlannedLoop &p = s.plan->loops()[l];
            over_units = over_units || (p.reduction && p.kind == PlannedLoop::Kind::Unit && p.level <= Tier::Mab);
            over_l1bs = over_l1bs || (p.reduction && p.kind == PlannedLoop::Kind::Unit && p.level <= Tier::L1b);
        }
    }
    if (sums) accumulators_ = c_.planner.take(Bank::Grf0, sums, "sums");
    std::array<RegisterRange, 2> registers;
    for (size_t b = 0; b < 2; b++) {
        const Bank bank = b ? Bank::Grf1 : Bank::Grf0;
        const int64_t words = c_.planner.free_words(bank);
        registers[b] = {int(c_.planner.take(bank, words, "intermediate values")), int(words)};
    }
    code_ = std::make_unique<VectorEmitter>(c_.packer, "stage " + root_->name, registers, four_, 5);
    if (over_units) {
        const int64_t words = over_l1bs ? 256 : 16 * 8;
        tree_l1bm_ = Ring(c_.planner.take(Bank::L1bm, words, "sums over units"), words);
    }
    if (over_l1bs) tree_l2bm_ = Ring(c_.planner.take(Bank::L2bm, 256, "sums over units"), 256);
}

void Chain::run() {
    outer_values_.assign(root_->plan->loops().size(), 0);
    walk(outer_, [&] {
        for (ChainStage &s : stages_) {
            if (&s == root_) break;
            begin(s);
            s.fold ? reduce(s) : compute(s);
        }
        walk(tiles_, [&] { tile(); });
    });
    leave();
}

void Chain::walk(const std::vector<size_t> &loops, const std::function<void()> &inside, size_t depth) {
    if (depth == loops.size()) {
        inside();
        return;
    }
    for (int64_t v = 0; v < root_->plan->loops()[loops[depth]].extent; v++) {
        outer_values_[loops[depth]] = v;
        walk(loops, inside, depth + 1);
    }
    outer_values_[loops[depth]] = 0;
}

void Chain::leave() {
    if (leaving_) leaving_->place(~0u);
    leaving_.reset();
}

void Chain::begin(ChainStage &s) {
    const Values values = group(s, 0).values[0];
    for (const ChainRead &r : s.reads) {
        if (r.loader) r.loader->ensure(of_loader(r, values));
    }
}

void Chain::tile() {
    ChainStage &r = *root_;
    begin(r);
    const int64_t words = store_->per_address() * cycles_per_step;
    const int n_parts = code_->parts(vector_type(r.type, r.name));
    std::optional<std::pair<int64_t, Operand>> made; // both words of four points
    const auto gather = [&](int64_t n, int w, int64_t l1bm) {
        L1 l1;
        if (store_->from_one_mab()) { // a reduction over one MAB, which copies its value
            l1.op = L1Op::MabReduce;
            l1.reduction = Reduction::AddI32;
            l1.mabs = 1;
        } else {
            l1.op = L1Op::Gather;
        }
        l1.at.at = uint16_t(l1bm);
        Micro m;
        if (n_parts == 1) { // the last operation's forward is the result
            Group g = group(r, n * cycles_per_step);
            m = code_->run_to_last(r.program, [&](int which, int part) { return word(g, which, part); });
            done(g);
            l1.from = VectorEmitter::forward(m);
            m.next();
        } else {
            if (!made || made->first != n) {
                if (made) code_->give_back(made->second);
                made = {n, code_->take(2, 1)};
                Group g = group(r, n * cycles_per_step);
                code_->run(
                    r.program, [&](int which, int part) { return word(g, which, part); },
                    [&](int part) {
                        Operand o = made->second;
                        o.address.at[0] = uint16_t(o.address.at[0] + part);
                        return o;
                    });
                done(g);
            }
            Operand o = made->second;
            o.address.at[0] = uint16_t(o.address.at[0] + w);
            l1.from = m.read(o, 1);
        }
        m.use(Unit::L1);
        m.word().l1 = l1;
        m.touch_range(Space::L1bm, l1bm, words, true);
        c_.packer.place(m);
    };
    const int64_t key = store_->key(outer_values_);
    for (int64_t part = 0; part < store_parts(*store_, store_rings_); part++) {
        // A part's move is placed after the loads of the next part, if L2BM has room for both.
        StoredPart stored = store_part(c_, *store_, store_rings_, store_dram_, key, part, gather);
        leave();
        leaving_ = std::move(stored);
        if (store_ahead(*store_, store_rings_) < 1) leave();
    }
    if (made) code_->give_back(made->second);
}

// Computes all points of a stage that is not the root, into its location.
void Chain::compute(ChainStage &s) {
    const int n = code_->parts(vector_type(s.type, s.name));
    for (int64_t p = compute_in_runs(s); p < s.points; p += cycles_per_step) {
        Group g = group(s, p);
        code_->run(
            s.program, [&](int which, int part) { return word(g, which, part); },
            [&](int part) {
                Four at;
                for (int t = 0; t < cycles_per_step; t++) at[size_t(t)] = s.at + (p + t) * n + part;
                return words_at(c_.config, s.home, at);
            });
        done(g);
    }
}

void lower_pointwise(Context &c, const ScheduleState &state, const StageState &stage) { Chain(c, state, stage).run(); }

} // namespace kumiko::chip
