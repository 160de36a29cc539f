#include "targets/chip/stage/context.h"

#include "dsl/reads.h"

#include "support/error.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace kumiko::chip {

using namespace sim;

std::vector<Expr> reads_with_casts(const Expr &e) {
    struct Find : Halide::Internal::IRGraphVisitor {
        using IRGraphVisitor::visit;
        std::vector<Expr> reads;
        void visit(const Halide::Internal::Cast *op) override {
            const Halide::Internal::Call *read = op->value.as<Halide::Internal::Call>();
            if (read && read->call_type == Halide::Internal::Call::Image)
                reads.push_back(Expr(op));
            else
                IRGraphVisitor::visit(op);
        }
        void visit(const Halide::Internal::Call *op) override {
            if (op->call_type == Halide::Internal::Call::Image) reads.push_back(Expr(op));
            IRGraphVisitor::visit(op);
        }
    } find;
    e.accept(&find);
    return find.reads;
}

std::vector<Expr> reads_in(const Expr &e) {
    const auto reads = tensor_reads(e);
    return {reads.begin(), reads.end()};
}

int64_t Context::take_dram(std::shared_ptr<const StagePlan> plan, std::shared_ptr<const TransferPath> path,
                           const std::string &name, bool output) {
    const int64_t words = (path->dram_words() + 63) / 64 * 64;
    const int64_t at = planner.take(Bank::Dram, words, name);
    l3 += fmt::format("{} in DRAM at {}, {} LW of a group, packed: {}\n", name, at, words, path->to_string());
    tensors.push_back({name, output, at, words, [plan, path](const WordVisitor &v) { path->each_word(v); }});
    return at;
}

int64_t Context::take_dram(std::shared_ptr<const DramOrder> order, const std::string &name, bool output) {
    const int64_t words = order->words();
    const int64_t at = planner.take(Bank::Dram, words, name);
    l3 += fmt::format("{} in DRAM at {}, {} LW of a group: {}\n", name, at, words, order->to_string());
    tensors.push_back({name, output, at, words, [order](const WordVisitor &v) { order->each_word(v); }});
    return at;
}

int64_t Context::table(int group, const std::vector<uint32_t> &entries) {
    std::vector<uint64_t> words((entries.size() + 1) / 2);
    for (size_t i = 0; i < entries.size(); i++) words[i / 2] |= uint64_t(entries[i]) << (i % 2 ? 32 : 0);
    for (const HostConstant &k : constants) {
        if (k.group == group && k.words == words) return k.dram;
    }
    const int64_t at = planner.take(Bank::Dram, int64_t(words.size() + 63) / 64 * 64, "a table of moves");
    constants.push_back({group, at, std::move(words)});
    return at;
}

namespace {

Bank memory_named(const std::string &level, const std::string &who) {
    for (const Bank m : {Bank::Lm, Bank::Lm0, Bank::Lm1, Bank::Grf1, Bank::L1bm, Bank::L2bm}) {
        if (level == memory_name(m)) return m;
    }
    throw Unsupported(who + " is placed in " + level +
                      "; copies of inputs may be in L2BM, L1BM, LM, LM0, LM1 and GRF1");
}

} // namespace

std::vector<Copy> copies_of(const ScheduleState &state, const StagePlan &plan, const std::string &tensor,
                            std::string &source, const StageState **packed, Border *border) {
    std::vector<Copy> all;
    source = tensor;
    if (packed) *packed = nullptr;
    if (border) *border = Border::None;
    while (!state.is_input(source)) {
        const StageState *s = state.producer(source);
        // Zeros around an input are added by its path.
        if (s && s->def.kind == Stage::Kind::Padding && !s->is_copy) {
            namespace ir = Halide::Internal;
            const ir::Call *choice = s->def.value.as<ir::Call>();
            const ir::Call *read =
                choice && choice->is_intrinsic(ir::Call::if_then_else) ? choice->args[1].as<ir::Call>() : nullptr;
            const StageState *before = read ? state.producer(read->name) : nullptr;
            const ir::FloatImm *around = read ? choice->args[2].as<ir::FloatImm>() : nullptr;
            bool same = read && ir::is_const_zero(choice->args[2]) && !(around && std::signbit(around->value)) &&
                        (state.is_input(read->name) || (before && before->prepacked));
            if (border && choice && choice->call_type == ir::Call::Image && state.is_input(choice->name)) {
                *border = Border::Nearest; // clamped
                source = choice->name;
                continue;
            }
            for (size_t d = 0; same && d < s->def.axes.size(); d++) {
                const ir::Variable *v = read->args[d].as<ir::Variable>();
                same = v && v->name == s->def.axes[d].name();
            }
            if (!same)
                throw Unsupported("stage " + plan.stage().name() + " reads " + source +
                                  "; the only padding on the chip is zeros around an input");
            if (border) *border = Border::Zeros;
            source = read->name;
            continue;
        }
        if (s && s->prepacked) {
            if (packed) *packed = s;
            source = s->copied;
            continue;
        }
        if (!s || !s->is_copy)
            throw Unsupported("stage " + plan.stage().name() + " reads " + source +
                              ", which another stage computes; the chip runs one stage, with those that are inlined or "
                              "finished in it");
        if (!s->relations.empty() || !s->layout.empty())
            throw Unsupported("copy " + s->name() +
                              " has loops or a layout of its own; on the chip the stage that reads it determines them");
        for (const std::string &l : s->order) {
            if (s->loop(l).kind != LoopKind::Serial)
                throw Unsupported("loop " + l + " of copy " + s->name() + " is " + kind_name(s->loop(l).kind) +
                                  "; on the chip the stage that reads a copy determines its distribution");
        }
        if (s->placement.kind != Placement::Kind::At || s->placement.consumer != plan.stage().name())
            throw Unsupported("copy " + s->name() + " is not made at a loop of stage " + plan.stage().name());
        all.push_back({s, memory_named(s->level, s->name()), plan.loop(s->placement.loop)});
        source = s->copied;
    }
    if (all.empty())
        throw UserError("stage " + plan.stage().name() + " reads " + tensor +
                        " in DRAM, which no unit can read; place_in(\"" + tensor +
                        "\", …) copies it to a memory that units read");
    if (all.size() > 2 || (all.size() == 2 && (all[1].memory != Bank::L2bm || all[1].at > all[0].at)))
        throw Unsupported("the copies of " + source + " for stage " + plan.stage().name() +
                          " have another order than L2BM at an outer loop, then LM or L1BM");
    return all;
}

int buffers_of(const Copy &copy, int most) {
    const int n = copy.stage->buffers;
    if (n > most)
        throw Unsupported(fmt::format("copy {} in {} has {} buffers; here {}", copy.stage->name(),
                                      memory_name(copy.memory), n,
                                      most == 1 ? "its rows pass through a ring that needs no second copy"
                                                : fmt::format("at most {} are supported", most)));
    return n;
}

std::vector<size_t> storage_order(const ScheduleState &state, const std::string &input, const StageState *packed) {
    const std::vector<Axis> &axes = state.axes_of(input);
    std::vector<size_t> order;
    for (size_t a = 0; a < axes.size(); a++) order.push_back(a);
    if (!packed) return order;
    order.clear();
    for (const LayoutTerm &t : packed->layout) {
        if (t.part != LayoutTerm::Part::Whole)
            throw Unsupported("prepack of " + input + " cuts axis " + t.axis +
                              " into blocks; on the chip prepack can only order whole axes");
        for (size_t a = 0; a < axes.size(); a++) {
            if (axes[a].name() == t.axis) order.push_back(a);
        }
    }
    return order;
}

std::vector<Rings>
share_rings(Context &c, const std::vector<std::pair<const TransferPath *, std::pair<bool, bool>>> &users, int moves) {
    std::vector<Rings> all(users.size());
    int64_t l1_users = 0, l2_users = 0;
    for (const auto &[path, through] : users) l1_users += through.first, l2_users += through.second;
    const int64_t l1_share = l1_users ? c.planner.free_words(Bank::L1bm) / l1_users : 0;
    // If few moves are in flight, paths with little data leave their share to the others, and
    // results get room for two: one is stored while the next is produced.
    std::vector<int64_t> shares(users.size(), l2_users ? c.planner.free_words(Bank::L2bm) / l2_users : 0),
        few(users.size(), moves);
    if (moves == 1) {
        int64_t room = c.planner.free_words(Bank::L2bm), parts = 0;
        std::vector<bool> served(users.size(), false);
        const auto weight = [&](size_t i) { return users[i].first->shape().store ? 2 : 1; };
        for (size_t i = 0; i < users.size(); i++) {
            served[i] = !users[i].second.second;
            if (!served[i]) parts += weight(i);
        }
        for (bool again = true; again;) {
            again = false;
            for (size_t i = 0; i < users.size(); i++) {
                const int64_t wanted = std::min<int64_t>(2, users[i].first->tiles()) * users[i].first->l2_words();
                if (served[i] || wanted > room / parts * weight(i)) continue;
                shares[i] = wanted;
                room -= wanted;
                parts -= weight(i);
                served[i] = again = true;
            }
        }
        for (size_t i = 0; i < users.size(); i++) {
            if (!served[i]) shares[i] = room / parts * weight(i);
            few[i] = users[i].first->shape().store || shares[i] >= 4096 ? 2 : 1;
        }
    }
    for (size_t i = 0; i < users.size(); i++) {
        const TransferPath &r = *users[i].first;
        const int64_t l2_share = shares[i];
        moves = int(few[i]);
        if (users[i].second.first) {
            const int64_t wanted = std::min<int64_t>({l1_share, 16 * r.chunk(), r.l1_words()}) / r.chunk() * r.chunk();
            const int64_t words = std::max(wanted, r.chunk());
            all[i].l1 = Ring(c.planner.take(Bank::L1bm, words, "the way of " + r.shape().name), words);
        }
        if (users[i].second.second) {
            // One move in use, one arriving, perhaps one more.
            const int64_t most =
                std::max<int64_t>(1, std::min<int64_t>(l2_share / r.l2_chunk() / moves, 4096 / r.l2_chunk()));
            const int64_t total = r.l1_words() / r.chunk(), pieces = (total + most - 1) / most;
            const int64_t chunks = (total + pieces - 1) / pieces; // of about equal size
            all[i].move = chunks * r.chunk();
            const int64_t step = chunks * r.l2_chunk();
            const int64_t words = std::max(step, l2_share / step * step);
            all[i].l2 = Ring(c.planner.take(Bank::L2bm, words, "the way of " + r.shape().name), words);
        } else {
            // Half a copy at a time, so that the first half is replaced while the second is used.
            const int64_t most =
                std::min<int64_t>(128 * c.config.moves.dram_rate, r.shape().together * r.l2_words() / 2);
            all[i].move = std::max<int64_t>(1, most / r.l2_chunk()) * r.chunk();
        }
    }
    return all;
}

Operand lm_operand(const Config &config, int64_t at, int64_t stride) {
    return at >= config.sizes.lm ? lm1(int(at - config.sizes.lm), int(stride)) : lm0(int(at), int(stride));
}

Loader::Loader(Context &c, std::shared_ptr<const TransferPath> path, std::vector<Copy> copies, int64_t dram,
               const StagePlan &plan)
    : c_(c), path_(std::move(path)), copies_(std::move(copies)), dram_(dram) {
    const Copy &own = copies_.front();
    const int64_t words = path_->unit_words();
    const int64_t lm = c.config.sizes.lm;
    const auto nth = [](const Copy &copy, int i) {
        return copy.stage->name() + (i == 0 ? "" : i == 1 ? " (second)" : fmt::format(" (copy {})", i + 1));
    };
    if (own.stage->buffers > 2 && (own.memory == Bank::Lm0 || own.memory == Bank::Lm1))
        throw Unsupported(fmt::format("copy {} has {} buffers, and {} has one port; LM0 and LM1 hold one each, "
                                      "so 2 are supported there, and more in LM, L1BM and L2BM",
                                      own.stage->name(), own.stage->buffers, memory_name(own.memory)));
    for (int i = 0; i < own.stage->buffers; i++) {
        Bank m = own.memory;
        // An LM has one port: the second copy goes to the other one.
        if (i == 1 && (m == Bank::Lm0 || m == Bank::Lm1)) m = m == Bank::Lm0 ? Bank::Lm1 : Bank::Lm0;
        const int64_t at = c.planner.take(m, words, nth(own, i));
        slots_.push_back({m == Bank::Lm1 ? at + lm : at});
    }
    if (path_->shape().transposed) {
        const Bank m = own.memory == Bank::Lm1 ? Bank::Lm0 : Bank::Lm1;
        untransposed_ = c.planner.take(m, words, own.stage->name() + " as it lies") + (m == Bank::Lm1 ? lm : 0);
    }
    if (copies_.size() < 2) return;
    const Copy &l2 = copies_.back();
    tiles_per_l2_tile_ = path_->shape().together;
    for (int i = 0; i < l2.stage->buffers; i++) {
        const int64_t at = c.planner.take(Bank::L2bm, tiles_per_l2_tile_ * path_->l2_words(), nth(l2, i));
        l2_slots_.push_back({at});
    }
}

int Loader::find(std::vector<Slot> &slots, int64_t key, bool &there) {
    int oldest = 0;
    there = true;
    for (int i = 0; i < int(slots.size()); i++) {
        if (slots[size_t(i)].key == key) {
            slots[size_t(i)].used = ++clock_;
            return i;
        }
        if (slots[size_t(i)].used < slots[size_t(oldest)].used) oldest = i;
    }
    there = false;
    slots[size_t(oldest)].key = key;
    slots[size_t(oldest)].used = ++clock_;
    return oldest;
}

bool Loader::crosses_lm() const {
    const int64_t lm = c_.config.sizes.lm, words = path_->unit_words();
    return std::any_of(slots_.begin(), slots_.end(), [&](const Slot &s) { return s.at < lm && s.at + words > lm; });
}

void Loader::ensure(const Values &values) {
    const int64_t key = path_->key(values);
    bool there;
    current_ = find(slots_, key, there);
    if (!there) slots_[size_t(current_)].loaded = 0;
}

void Loader::need(int64_t access) {
    Slot &slot = slots_[size_t(current_)];
    const TransferPath &r = *path_;
    const int64_t words_of_access = r.access_words();
    if (r.at_once()) access = r.l1_words() / words_of_access - 1;
    if ((access + 1) * words_of_access > slot.loaded) load(slot, (access + 1) * words_of_access);
}

// Continues until that many words of L1BM are in flight.
void Loader::load(Slot &slot, int64_t until) {
    const int64_t key = slot.key, at = slot.at;
    last_key_ = key;
    const TransferPath &r = *path_;
    Packer &p = c_.packer;
    const bool transposed = r.shape().transposed;
    int64_t resident = -1;
    if (!through_l2()) {
        bool there;
        const int64_t tile = key / tiles_per_l2_tile_;
        const Slot &l2 = l2_slots_[size_t(find(l2_slots_, tile, there))];
        const int64_t tiles = std::max<int64_t>(1, rings_.move / r.l1_words());
        for (int64_t b = 0; b < tiles_per_l2_tile_ && !there; b += tiles) {
            const int64_t key = tile * tiles_per_l2_tile_ + b, at = l2.at + b * r.l2_words();
            if (r.l1_words() <= rings_.move) {
                r.moves(p, key, 0, r.l1_words(), dram_, at, std::min(tiles, tiles_per_l2_tile_ - b));
                continue;
            }
            for (int64_t x = 0; x < r.l1_words(); x += rings_.move)
                r.moves(p, key, x, std::min(rings_.move, r.l1_words() - x), dram_, at + x / r.chunk() * r.l2_chunk());
        }
        resident = l2.at + key % tiles_per_l2_tile_ * r.l2_words();
    }
    while (slot.loaded < std::min(until, r.l1_words())) {
        const int64_t x = slot.loaded, n = std::min(rings_.move, r.l1_words() - x);
        slot.loaded += n;
        int64_t l2bm = resident + x / r.chunk() * r.l2_chunk();
        if (resident < 0) {
            l2bm = rings_.l2.next(n / r.chunk() * r.l2_chunk());
            r.moves(p, key, x, n, dram_, l2bm);
        }
        if (!through_l1()) {
            r.l2(p, n, l2bm, at + x);
            continue;
        }
        for (int64_t y = 0; y < n; y += r.chunk()) {
            const int64_t l1bm = rings_.l1.next(r.chunk());
            r.l2(p, r.chunk(), l2bm + y / r.chunk() * r.l2_chunk(), l1bm);
            r.l1_down(p, x + y, r.chunk(), l1bm, transposed ? untransposed_ : at);
        }
    }
    if (transposed) r.transpose(p, untransposed_, at);
}

int64_t store_parts(const TransferPath &r, const Rings &rings) { return (r.l1_words() + rings.move - 1) / rings.move; }

StoredPart store_part(Context &c, const TransferPath &r, Rings &rings, int64_t dram, int64_t key, int64_t part,
                      const std::function<void(int64_t n, int w, int64_t l1bm)> &gather) {
    Packer &p = c.packer;
    // LW of L1BM per operation.
    const int64_t per_step = r.per_address() * cycles_per_step;
    const int64_t groups = (r.accesses() + cycles_per_step - 1) / cycles_per_step;
    const int64_t x = part * rings.move, n = std::min(rings.move, r.l1_words() - x);
    // A last, smaller part gets the same room, so that no part overlaps the previous one, which may
    // still be waiting.
    const int64_t l2bm = rings.l2.next(rings.move / r.chunk() * r.l2_chunk());
    for (int64_t y = 0; y < n; y += r.chunk()) {
        const int64_t l1bm = rings.l1.next(r.chunk());
        for (int64_t z = 0; z < r.chunk(); z += per_step) {
            const int64_t number = (x + y + z) / per_step, group = number / r.words();
            // The fill of the last chunk is never read, but must be defined.
            gather(group < groups ? group : 0, int(number % r.words()), l1bm + z);
        }
        r.l2(p, r.chunk(), l2bm + y / r.chunk() * r.l2_chunk(), l1bm);
    }
    return {l2bm, n / r.chunk() * r.l2_chunk(),
            [&c, &r, key, x, n, dram, l2bm](uint32_t groups) { r.moves(c.packer, key, x, n, dram, l2bm, 1, groups); }};
}

} // namespace kumiko::chip
