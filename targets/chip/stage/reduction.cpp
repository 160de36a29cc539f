// Reductions of a chain: over time loops in accumulators, then over the lanes of a word, over the
// PEs of a MAB by rotation, and over MABs and L1Bs by the tree, which broadcasts the result to all
// participants. Sums of fp16 are kept in f32 if the formula says so; fp16 lanes are widened where
// they are combined.
//
// The order, for bit-exact comparison: each accumulator in loop order; several accumulators of one
// point (used if a unit has few points, to hide latency) pairwise by neighbours; then word with
// word, lane with lane, PE p with p + 2 and with p + 1, and the tree's neighbours in pairs.
#include "targets/chip/stage/chain.h"
#include "targets/chip/stage/root_reduction.h"

#include "dsl/print.h"
#include "support/error.h"

#include <bit>
#include <fmt/format.h>

namespace kumiko::chip {

using namespace sim;

namespace {

constexpr int accumulator_read = 1000, position_read = 2000,
              small_position_read = 3000; // read numbers beyond those of the formula

// Passes an operand through the ALU's forward, so that it shares no port with the others.
Operand passed(Micro &m, const Operand &a) {
    m.use(Unit::Alu);
    Alu u;
    u.op = AluOp::Pass;
    u.type = sim::Type::I32;
    u.a = m.read(a, 1);
    m.word().alu = u;
    m.next();
    return aluf();
}

} // namespace

struct Chain::Folding {
    std::string kind;
    sim::Type type; // the type in words and in the tree: f32 or i32
    bool floats() const { return type == sim::Type::F32; }
    AluOp alu() const {
        return kind == "maximum"            ? AluOp::Max
               : kind == "minimum"          ? AluOp::Min
               : kind == "sum" && !floats() ? AluOp::Add
                                            : AluOp::None;
    }
    // Emits the operation on two values; the first comes from the forward.
    void fold(Micro &m, const Operand &a, const Operand &b, const Operand &to) const {
        if (alu() != AluOp::None) {
            m.use(Unit::Alu);
            Alu u;
            u.op = alu();
            u.type = type;
            u.a = m.read(a, 1);
            u.b = m.read(b, 1);
            u.to = m.write(to, 1);
            m.word().alu = u;
            return;
        }
        m.use(Unit::Mau).use(Unit::F32);
        Mau u;
        u.op = kind == "product" ? MauOp::Vmul : MauOp::Vadd;
        u.precision = sim::Type::F32;
        u.a = m.read(a, 1);
        (kind == "product" ? u.b : u.c) = m.read(b, 1);
        u.to = m.write(to, 1);
        m.word().mau = u;
    }
    Reduction tree() const {
        if (kind == "sum") return floats() ? Reduction::AddF32 : Reduction::AddI32;
        if (kind == "maximum") return floats() ? Reduction::MaxF32 : Reduction::MaxI32;
        return floats() ? Reduction::MinF32 : Reduction::MinI32;
    }
};

int64_t Chain::chains(const ChainStage &s) const {
    int64_t steps = 1;
    for (const size_t l : s.reduced) steps *= s.plan->loops()[l].extent;
    const int64_t groups = (s.points + cycles_per_step - 1) / cycles_per_step;
    // Use at most an eighth of the registers.
    const int64_t room = c_.config.sizes.grf / 4 / (groups * cycles_per_step * (four_ ? 2 : 1));
    return groups >= 3 ? 1 : std::max<int64_t>(1, std::min({steps, room, int64_t(groups == 2 ? 2 : 4)}));
}

void Chain::alu(AluOp op, sim::Type type, const Operand &a, const std::optional<Operand> &b, const Operand &to,
                int width) {
    Micro m;
    m.use(Unit::Alu);
    Alu u;
    u.op = op;
    u.type = type;
    u.width = uint8_t(op == AluOp::Widen || op == AluOp::Narrow ? 1 : width);
    u.a = m.read(a, op == AluOp::Narrow ? 2 : width);
    if (b) u.b = m.read(*b, width);
    u.to = m.write(to, op == AluOp::Widen ? 2 : width);
    m.word().alu = u;
    c_.packer.place(m);
}

// The reduction axes whose end some unit or lane exceeds at these time steps.
std::vector<Chain::Limit> Chain::limits(const ChainStage &s, const Values &values) const {
    std::vector<Limit> all;
    for (size_t a = 0; a < s.stage->def.reduction_axes.size(); a++) {
        const Axis &axis = s.stage->def.reduction_axes[a];
        const Affine &at = s.plan->axis(axis.name());
        const int64_t extent = *as_const_int(Halide::Internal::simplify(axis.extent())), now = at.at(values);
        int64_t most = now;
        for (size_t l = s.plan->first_own(); l < s.plan->loops().size(); l++) {
            const PlannedLoop &p = s.plan->loops()[l];
            if (p.kind != PlannedLoop::Kind::Time) most += at.coefficients[l] * (p.extent - 1);
        }
        if (most >= extent) all.push_back({a, extent - now});
    }
    return all;
}

// Combines the term with the accumulator, unless it is the first; beyond the limits the term is the
// identity.
const VectorProgram &Chain::folding(const ChainStage &s, bool first, const std::vector<Limit> &limits,
                                    const Values &values) {
    const auto &axes = s.stage->def.reduction_axes;
    std::vector<int64_t> now; // positions of the first unit and lane
    for (size_t a = 0; s.uses_position && a < axes.size(); a++) now.push_back(s.plan->axis(axes[a].name()).at(values));
    const auto known = foldings_.find({&s, first, limits, now});
    if (known != foldings_.end()) return known->second;
    const std::string who = "stage " + s.name;
    VectorBuilder b;
    const TakeRead read = [&](const Expr &e) -> Id {
        for (size_t i = 0; i < s.reads.size(); i++) {
            if (Halide::Internal::equal(s.reads[i].read, e)) return b.read(int(i), vector_type(e.type(), who));
        }
        if (!is_position(e)) return -1;
        size_t a = 0;
        while (axes[a].name() != position_axis(e)) a++;
        const Id begin = b.number(double(now[a]));
        return stands_still(s, a) ? begin : b.add(b.read(position_read + int(a), sim::Type::F32), begin);
    };
    Id term = take_expression(b, s.value, who, read);
    for (const Limit &l : limits) {
        const bool small = bits_of(b.type(term)) == 16;
        const sim::Type t = small ? sim::Type::I16 : sim::Type::F32;
        const Id at = b.read((small ? small_position_read : position_read) + int(l.axis), t);
        term =
            b.select(b.less(at, b.number(double(l.below), t)), term, take_expression(b, s.fold->identity, who, read));
    }
    if (!first) {
        const Id sum = b.read(accumulator_read, vector_type(s.type, who));
        const std::string kind = s.stage->def.reduction_kind;
        const bool floats = s.type.is_float();
        if (kind == "sum")
            term = floats ? b.add(term, sum) : b.alu(AluOp::Add, term, sum);
        else if (kind == "product" && floats)
            term = b.mul(term, sum);
        else if (kind == "maximum" || kind == "minimum")
            term = b.alu(kind == "maximum" ? AluOp::Max : AluOp::Min, term, sum);
        else
            throw Unsupported(who + ": the chip reduces by sum, maximum, minimum and product (of floats), not by " +
                              kind);
    }
    b.result(term);
    return foldings_[{&s, first, limits, now}] = b.program();
}

bool Chain::stands_still(const ChainStage &s, size_t axis) const {
    const auto &loops = s.plan->loops();
    const Affine &index = s.plan->axis(s.stage->def.reduction_axes[axis].name());
    for (size_t l = 0; l < loops.size(); l++) {
        if (loops[l].kind != PlannedLoop::Kind::Time && loops[l].extent > 1 && index.depends(l)) return false;
    }
    return true;
}

Operand Chain::positions(const ChainStage &s, size_t axis, bool small) {
    const StagePlan &plan = *s.plan;
    const Affine &index = plan.axis(s.stage->def.reduction_axes[axis].name());
    std::string text = small ? "i16" : "f32";
    for (size_t l = 0; l < plan.loops().size(); l++) {
        const PlannedLoop &p = plan.loops()[l];
        if (p.kind != PlannedLoop::Kind::Time)
            text += fmt::format(" {}:{}:{}", int(p.level), p.extent, index.coefficients[l]);
    }
    const auto known = positions_.find(text);
    if (known != positions_.end()) return known->second;
    if (small) { // from those in f32
        const Operand wide = positions(s, axis, false), pair = code_->take(2, 0), narrow = code_->take(1, 1);
        for (int w = 0; w < 2; w++)
            alu(AluOp::Round, sim::Type::F32, next_word(wide, w), std::nullopt, next_word(pair, w));
        alu(AluOp::Narrow, sim::Type::I32, pair, std::nullopt, narrow);
        code_->give_back(pair);
        return positions_[text] = narrow;
    }
    // $id has 16 bits for each unit number: PE, MAB, L1B, and L2B over all groups. Shifts and masks
    // extract the values of the loops.
    std::array<uint64_t, 4> shift{}, mask{};
    std::array<float, 4> times{};
    const auto refuse = [&](const PlannedLoop &p) {
        throw Unsupported(fmt::format(
            "stage {}: reduction axis {} ends inside what loop {} of {} iterations deals out over {}; "
            "ends are found where one loop of a level deals it out, in powers of two, groups next to all of their L2Bs",
            s.name, s.stage->def.reduction_axes[axis].name(), p.name, p.extent, level_names[size_t(p.level)]));
    };
    for (const Tier tier : {Tier::Pe, Tier::Mab, Tier::L1b, Tier::L2b, Tier::Group}) {
        const size_t lane = size_t(Tier::Pe) - size_t(std::max(tier, Tier::L2b));
        int64_t stride = tier == Tier::Group ? c_.config.l2bs : 1, count = 0;
        for (size_t l = plan.loops().size(); l-- > 0;) {
            const PlannedLoop &p = plan.loops()[l];
            if (p.kind != PlannedLoop::Kind::Unit || p.level != tier) continue;
            if (index.depends(l)) {
                const int64_t step = index.coefficients[l];
                if (count++ || !std::has_single_bit(uint64_t(stride)) || !std::has_single_bit(uint64_t(p.extent)))
                    refuse(p);
                if (!mask[lane])
                    shift[lane] = uint64_t(std::countr_zero(uint64_t(stride))), times[lane] = float(step);
                else if (shift[lane] || int64_t(mask[lane]) + 1 != stride || step != stride * int64_t(times[lane]))
                    refuse(p); // a group's number does not continue where its L2Bs' numbers end
                mask[lane] |= uint64_t(p.extent - 1) * uint64_t(stride) >> shift[lane];
            }
            stride *= p.extent;
        }
    }
    const auto quarters = [](const std::array<uint64_t, 4> &v) {
        return immediate(v[0] | v[1] << 16 | v[2] << 32 | v[3] << 48);
    };
    const auto floats = [](float a, float b) {
        return immediate(uint64_t(__builtin_bit_cast(uint32_t, a)) | uint64_t(__builtin_bit_cast(uint32_t, b)) << 32);
    };
    const auto fused = [&](const Operand &a, const Operand &by, const std::optional<Operand> &c, const Operand &to) {
        Micro m;
        const Operand first = passed(m, a);
        m.use(Unit::Mau).use(Unit::F32);
        Mau u;
        u.op = c ? MauOp::Vfma : MauOp::Vmul;
        u.precision = sim::Type::F32;
        u.a = m.read(first, 1);
        u.b = m.read(by, 1);
        if (c) u.c = m.read(*c, 1);
        u.to = m.write(to, 1);
        m.word().mau = u;
        c_.packer.place(m);
    };
    const Operand id = code_->take(1, 0), wide = code_->take(2, 1), pair = code_->take(2, 0);
    alu(AluOp::Shr, sim::Type::U16, unit_id(), quarters(shift), id);
    alu(AluOp::And, sim::Type::U16, id, quarters(mask), id);
    alu(AluOp::Widen, sim::Type::I16, id, std::nullopt, wide);
    for (int w = 0; w < 2; w++)
        alu(AluOp::ToFloat, sim::Type::I32, next_word(wide, w), std::nullopt, next_word(wide, w));
    fused(next_word(wide, 1), floats(times[2], times[3]), std::nullopt, pair);
    fused(next_word(wide, 0), floats(times[0], times[1]), pair, pair);
    const Operand other = swapped_lanes(pair);
    const Folding add{"sum", sim::Type::F32};
    Micro sum;
    add.fold(sum, passed(sum, other), pair, id);
    c_.packer.place(sum);
    const Operand result = code_->take(2, 1);
    const auto lane = [&](int e) {
        int64_t rest = e, at = 0;
        for (size_t i = s.lanes.size(); i-- > 0;) {
            at += rest % plan.loops()[s.lanes[i]].extent * index.coefficients[s.lanes[i]];
            rest /= plan.loops()[s.lanes[i]].extent;
        }
        return float(at);
    };
    for (int w = 0; w < (four_ ? 2 : 1); w++) {
        Micro m;
        add.fold(m, id, floats(lane(2 * w), lane(2 * w + 1)), next_word(result, w));
        c_.packer.place(m);
    }
    for (const Operand &o : {id, wide, pair, other}) code_->give_back(o);
    return positions_[text] = result;
}

// The first word of a pair with its 32-bit lanes swapped; the second one is overwritten. Halves are
// narrowed into a word in which they can be shifted past each other.
Operand Chain::swapped_lanes(const Operand &pair) {
    const Operand halves = code_->take(2, 1), result = code_->take(1, 1);
    alu(AluOp::Shr, sim::Type::U32, pair, immediate_i32(16), next_word(pair, 1));
    // Low 0, low 1, high 0, high 1.
    alu(AluOp::Narrow, sim::Type::I32, pair, std::nullopt, next_word(halves, 1));
    alu(AluOp::Shr, sim::Type::U32, next_word(halves, 1), immediate_i32(16), halves);
    // Low 1, high 1, low 0, high 0.
    alu(AluOp::Narrow, sim::Type::I32, halves, std::nullopt, result);
    code_->give_back(halves);
    return result;
}

void Chain::over_units(const ChainStage &s, const Folding &f, const std::vector<Operand> &values,
                       const std::function<void(size_t, uint32_t, int64_t)> &arrived) {
    const StagePlan &plan = *s.plan;
    const TensorAccess own = plan.own();
    bool l1bs = false, l2bs = false;
    for (size_t l = plan.first_own(); l < plan.loops().size(); l++) {
        const PlannedLoop &p = plan.loops()[l];
        if (!p.reduction || p.kind != PlannedLoop::Kind::Unit || p.extent == 1) continue;
        l1bs = l1bs || p.level <= Tier::L1b;
        l2bs = l2bs || p.level <= Tier::L2b;
    }
    if (f.kind == "product")
        throw Unsupported("stage " + s.name +
                          " reduces by product over units; the tree reduces by sum, maximum and minimum");
    // For each part, the units that share a result.
    const auto sets = [&](Tier tier, bool all) {
        std::vector<uint32_t> sets(size_t(plan.parts(own, tier)));
        for (int u = 0; u < (all ? units_of(c_.config, tier) : int(plan.used(tier))); u++)
            sets[size_t(plan.part(own, tier, u))] |= 1u << u;
        return sets;
    };
    const auto from_mabs = sets(Tier::Mab, false), to_mabs = sets(Tier::Mab, true), from_l1bs = sets(Tier::L1b, false),
               to_l1bs = sets(Tier::L1b, true);
    const int64_t step = pes_per_mab * cycles_per_step; // words of a value in L1BM
    // The number of values that L2 transfers at a time.
    const size_t together = l1bs ? size_t(64 / step) : size_t(1);
    for (size_t first = 0; first < values.size(); first += together) {
        for (size_t q = 0; q < from_mabs.size(); q++) {
            const int64_t l1bm = tree_l1bm_.next(step * int64_t(together));
            for (size_t i = 0; i < together; i++) { // fill words must be defined
                Micro m;
                m.use(Unit::L1);
                L1 l1;
                l1.op = L1Op::MabReduce;
                l1.reduction = f.tree();
                l1.mabs = from_mabs[q];
                l1.at.at = uint16_t(l1bm + int64_t(i) * step);
                l1.from = m.read(values[std::min(first + i, values.size() - 1)], 1);
                m.word().l1 = l1;
                m.touch_range(Space::L1bm, l1.at.at, step, true);
                c_.packer.place(m);
            }
            for (size_t r = 0; l1bs && r < from_l1bs.size(); r++) {
                const int64_t l2bm = tree_l2bm_.next(64);
                for (const bool up : {true, false}) {
                    if (!up && l2bs) over_l2bs(s, f, l2bm);
                    Micro m;
                    m.use(Unit::L2);
                    L2 l2;
                    l2.op = up ? L2Op::Reduce : L2Op::Broadcast;
                    l2.reduction = f.tree();
                    const uint32_t set = up ? from_l1bs[r] : to_l1bs[r];
                    if (set != (1u << c_.config.l1bs) - 1) l2.l1bs = set;
                    l2.l2bm.at = uint16_t(l2bm);
                    l2.l1bm.at = uint16_t(l1bm);
                    m.touch_range(Space::L2bm, l2bm, 64, up, true);
                    m.touch_range(Space::L1bm, l1bm, 64, !up, true);
                    m.word().l2 = l2;
                    c_.packer.place(m);
                }
            }
            for (size_t i = 0; i < together && first + i < values.size(); i++)
                arrived(first + i, to_mabs[q], l1bm + int64_t(i) * step);
        }
    }
}

// Reduces 64 LW of L2BM over the L2Bs that share a result: via DRAM, and back to all of them.
void Chain::over_l2bs(const ChainStage &s, const Folding &f, int64_t l2bm) {
    const StagePlan &plan = *s.plan;
    const TensorAccess own = plan.own();
    const int per_group = c_.config.l2bs, groups = c_.config.groups;
    struct Set {
        uint32_t from = 0, to = 0;
    };
    std::map<std::pair<int64_t, int64_t>, Set> sets;
    for (int u = 0; u < c_.config.total_l2bs(); u++) {
        const int g = u / per_group, l = u % per_group;
        Set &set = sets[{plan.part(own, Tier::Group, g), plan.part(own, Tier::L2b, l)}];
        set.to |= 1u << u;
        if (g < plan.used(Tier::Group) && l < plan.used(Tier::L2b)) set.from |= 1u << u;
    }
    std::vector<Mv> up, down;
    for (const auto &[part, set] : sets) {
        const size_t n = up.size(), group = n % size_t(groups), slot = n / size_t(groups);
        if (slot == tree_dram_.size())
            tree_dram_.push_back(c_.planner.take(Bank::Dram, c_.config.moves.block, "sums over L2Bs"));
        Mv m;
        m.op = MvOp::Reduce;
        m.reduction = f.tree();
        m.chip = true;
        m.groups = uint16_t(1u << group);
        m.l2bs = set.from;
        m.address = uint32_t(tree_dram_[slot]);
        m.l2bm = uint16_t(l2bm);
        up.push_back(m);
        m.op = MvOp::Broadcast;
        m.reduction = {};
        m.l2bs = set.to;
        down.push_back(m);
    }
    tree_done_ = c_.packer.place(down, c_.packer.place(up, tree_done_));
}

void Chain::reduce(ChainStage &s) {
    const StagePlan &plan = *s.plan;
    const sim::Type type = vector_type(s.type, "stage " + s.name);
    if (type != sim::Type::F32 && type != sim::Type::F16 && type != sim::Type::I32)
        throw Unsupported("stage " + s.name + " reduces elements of " + kumiko::type_name(s.type) +
                          "; the chip's reductions have f16, f32 and i32");
    const int n = code_->parts(type);
    const int64_t groups = (s.points + cycles_per_step - 1) / cycles_per_step, side_by_side = chains(s);
    const auto accumulator = [&](int64_t chain, int64_t group) {
        return grf0(int(accumulators_ + (chain * groups + group) * cycles_per_step * n), n);
    };
    // Reductions after the time loops: lanes, PEs, and the tree.
    bool tree = false;
    std::vector<int> rotations;
    int64_t stride = 1;
    for (size_t l = plan.loops().size(); l-- > 0;) {
        const PlannedLoop &p = plan.loops()[l];
        if (p.kind != PlannedLoop::Kind::Unit) continue;
        tree = tree || (p.reduction && p.level != Tier::Pe && p.extent > 1);
        if (p.level != Tier::Pe) continue;
        if (p.reduction && p.extent > 1) {
            if ((p.extent != 2 && p.extent != 4) || stride * p.extent != plan.used(Tier::Pe))
                throw Unsupported(fmt::format(
                    "stage {}: reduction loop {} of {} iterations is bound to PE; 2 or 4 are built, outside of "
                    "other loops bound to PE",
                    s.name, p.name, p.extent));
            for (int64_t r = p.extent / 2; r > 0; r /= 2) rotations.push_back(int(r * stride));
        }
        stride *= p.extent;
    }
    const auto home = [&](int64_t g, int part) {
        Four at;
        for (int t = 0; t < cycles_per_step; t++) at[size_t(t)] = s.at + (g * cycles_per_step + t) * n + part;
        return words_at(c_.config, s.home, at);
    };
    // Complete sums are then written home directly: a pass would need the port through which sums
    // are read.
    const bool direct = !tree && rotations.empty() && !s.reduced_lanes && type != sim::Type::F16 && side_by_side == 1 &&
                        (s.home == Bank::Grf0 || s.home == Bank::Grf1);
    // Reduce over time.
    int64_t steps = 1;
    for (const size_t l : s.reduced) steps *= plan.loops()[l].extent;
    for (int64_t q = 0; q < steps; q++) {
        for (int64_t g = 0; g < groups; g++) {
            Group four = group(s, g * cycles_per_step);
            for (Values &v : four.values) {
                int64_t rest = q;
                for (size_t i = s.reduced.size(); i-- > 0;) {
                    v[s.reduced[i]] = rest % plan.loops()[s.reduced[i]].extent;
                    rest /= plan.loops()[s.reduced[i]].extent;
                }
            }
            for (const ChainRead &r : s.reads) { // a copy inside of reduction loops
                if (r.loader) r.loader->ensure(of_loader(r, four.values[0]));
            }
            const Operand to = accumulator(q % side_by_side, g);
            const auto beyond = limits(s, four.values[0]);
            code_->run(
                folding(s, q < side_by_side, beyond, four.values[0]),
                [&](int which, int part) {
                    if (which >= small_position_read) return positions(s, size_t(which - small_position_read), true);
                    if (which >= position_read)
                        return next_word(positions(s, size_t(which - position_read), false), part);
                    if (which == accumulator_read) return next_word(to, part);
                    return word(four, which, part);
                },
                [&](int part) { return direct && q == steps - 1 ? home(g, part) : next_word(to, part); });
            done(four);
        }
    }
    if (direct) return;
    const bool lanes = s.reduced_lanes;
    Folding f{s.stage->def.reduction_kind, type == sim::Type::F16 ? sim::Type::F32 : type};
    const bool widened = type == sim::Type::F16;
    const int words = widened || n == 2 ? 2 : 1; // words of a point being combined
    const auto forwarded = [&](AluOp op, int rotate, const Operand &a, const Operand &b, const Operand &to) {
        Micro m; // a passes through the ALU and its forward
        m.use(Unit::Alu);
        Alu u;
        u.op = op;
        u.type = sim::Type::I32;
        u.rotate = uint8_t(rotate);
        u.a = m.read(a, 1);
        m.word().alu = u;
        m.next();
        f.fold(m, aluf(), b, to);
        c_.packer.place(m);
    };
    for (int64_t g = 0; g < groups; g++) {
        // The values being combined: one for all lanes, or two words.
        const Operand pair = code_->take(2, 1);
        if (widened) alu(AluOp::Widen, sim::Type::F16, accumulator(0, g), std::nullopt, pair);
        for (int64_t chain = 1; chain < side_by_side; chain++) {
            if (!widened) {
                for (int w = 0; w < words; w++)
                    forwarded(AluOp::Pass, 0, next_word(accumulator(chain, g), w), next_word(accumulator(0, g), w),
                              next_word(accumulator(0, g), w));
                continue;
            }
            const Operand more = code_->take(2, 0);
            alu(AluOp::Widen, sim::Type::F16, accumulator(chain, g), std::nullopt, more);
            for (int w = 0; w < words; w++)
                forwarded(AluOp::Pass, 0, next_word(more, w), next_word(pair, w), next_word(pair, w));
            code_->give_back(more);
        }
        const Operand &from = widened ? pair : accumulator(0, g);
        int left = words;
        if (lanes) {
            if (words == 2)
                forwarded(AluOp::Pass, 0, from, next_word(from, 1), pair);
            else
                alu(AluOp::Pass, sim::Type::I32, from, std::nullopt, pair);
            const Operand other = swapped_lanes(pair);
            forwarded(AluOp::Pass, 0, other, pair, pair);
            code_->give_back(other);
            left = 1;
        } else if (!widened) {
            alu(AluOp::Pass, sim::Type::I32, from, std::nullopt, pair, words);
        }
        for (const int r : rotations) {
            for (int w = 0; w < left; w++)
                forwarded(AluOp::Rotate, r, next_word(pair, w), next_word(pair, w), next_word(pair, w));
        }
        // Write to the result's location; for fp16, narrow pairs of words first.
        if (!tree) {
            if (widened) {
                if (left == 1) alu(AluOp::Pass, sim::Type::I32, pair, std::nullopt, next_word(pair, 1));
                alu(AluOp::Narrow, sim::Type::F32, pair, std::nullopt, home(g, 0));
            } else {
                for (int w = 0; w < n; w++)
                    alu(AluOp::Pass, sim::Type::I32, next_word(pair, left == 1 ? 0 : w), std::nullopt, home(g, w));
            }
            code_->give_back(pair);
            continue;
        }
        std::vector<Operand> values;
        for (int w = 0; w < left; w++) values.push_back(next_word(pair, w));
        const Operand back = code_->take(2, 0);
        over_units(s, f, values, [&](size_t value, uint32_t mabs, int64_t l1bm) {
            for (int w = int(value); w < (left == 1 ? words : int(value) + 1); w++) {
                Micro m;
                m.use(Unit::L1);
                L1 l1;
                l1.op = L1Op::MabBroadcast;
                if (mabs != (1u << c_.config.mabs) - 1) l1.mabs = mabs;
                l1.at.at = uint16_t(l1bm);
                m.touch_range(Space::L1bm, l1bm, pes_per_mab * cycles_per_step, false);
                l1.to = m.write(widened ? next_word(back, w) : home(g, w), 1);
                m.word().l1 = l1;
                c_.packer.place(m);
            }
        });
        if (widened) alu(AluOp::Narrow, sim::Type::F32, back, std::nullopt, home(g, 0));
        code_->give_back(back);
        code_->give_back(pair);
    }
}

} // namespace kumiko::chip
