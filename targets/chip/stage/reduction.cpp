// Reductions of a chain: over time loops in accumulators, then over the lanes of a word, over the
// PEs of a MAB by rotation, and over MABs and L1Bs by the tree, which broadcasts the result to all
// participants. Sums of fp16 are kept in f32 if the formula says so; fp16 lanes are widened where
// they are combined.
//
// The order, for bit-exact comparison: each accumulator in loop order; several accumulators of one
// point (used if a unit has few points, to hide latency) pairwise by neighbours; then word with
// word, lane with lane, PE p with p + 2 and with p + 1, and the tree's neighbours in pairs.
#include "targets/chip/stage/chain_folding.h"
#include "targets/chip/stage/root_reduction.h"

#include "dsl/print.h"
#include "support/error.h"

#include <fmt/format.h>

namespace kumiko::chip {

using namespace sim;

namespace {

constexpr int accumulator_read = 1000, position_read = 2000,
              small_position_read = 3000; // read numbers beyond those of the formula

} // namespace

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
    MicroOp m;
    Alu u;
    u.op = op;
    u.type = type;
    u.width = uint8_t(op == AluOp::Widen || op == AluOp::Narrow ? 1 : width);
    u.a = m.read(a);
    if (b) u.b = m.read(*b);
    u.to = m.write(to);
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
        return is_uniform(s, a) ? begin : b.add(b.read(position_read + int(a), sim::Type::F32), begin);
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

Chain::ReductionPlan Chain::plan_reduction(const ChainStage &s) const {
    const StagePlan &plan = *s.plan;
    ReductionPlan r;
    r.type = vector_type(s.type, "stage " + s.name);
    if (r.type != sim::Type::F32 && r.type != sim::Type::F16 && r.type != sim::Type::I32)
        throw Unsupported("stage " + s.name + " reduces elements of " + kumiko::type_name(s.type) +
                          "; the chip's reductions have f16, f32 and i32");
    r.parts = code_->parts(r.type);
    r.groups = (s.points + cycles_per_step - 1) / cycles_per_step;
    r.chains = chains(s);
    int64_t stride = 1;
    for (size_t l = plan.loops().size(); l-- > 0;) {
        const PlannedLoop &p = plan.loops()[l];
        if (p.kind != PlannedLoop::Kind::Unit) continue;
        r.tree = r.tree || (p.reduction && p.level != Tier::Pe && p.extent > 1);
        if (p.level != Tier::Pe) continue;
        if (p.reduction && p.extent > 1) {
            if ((p.extent != 2 && p.extent != 4) || stride * p.extent != plan.used(Tier::Pe))
                throw Unsupported(fmt::format(
                    "stage {}: reduction loop {} of {} iterations is bound to PE; 2 or 4 are supported, outside of "
                    "other loops bound to PE",
                    s.name, p.name, p.extent));
            for (int64_t half = p.extent / 2; half > 0; half /= 2) r.rotations.push_back(int(half * stride));
        }
        stride *= p.extent;
    }
    r.direct = !r.tree && r.rotations.empty() && !s.reduced_lanes && r.type != sim::Type::F16 && r.chains == 1 &&
               (s.result_bank == Bank::Grf0 || s.result_bank == Bank::Grf1);
    return r;
}

Operand Chain::accumulator(const ReductionPlan &r, int64_t chain, int64_t group) const {
    return grf0(int(accumulators_ + (chain * r.groups + group) * cycles_per_step * r.parts), r.parts);
}

// The location of one part of the results of four points.
Operand Chain::result_operand(const ChainStage &s, const ReductionPlan &r, int64_t group, int part) const {
    PointAddresses at;
    for (int t = 0; t < cycles_per_step; t++) at[size_t(t)] = s.at + (group * cycles_per_step + t) * r.parts + part;
    return words_at(c_.config, s.result_bank, at);
}

void Chain::reduce(ChainStage &s) {
    const ReductionPlan r = plan_reduction(s);
    reduce_over_time(s, r);
    if (r.direct) return;
    const Folding f{s.stage->def.reduction_kind, r.type == sim::Type::F16 ? sim::Type::F32 : r.type};
    for (int64_t g = 0; g < r.groups; g++) {
        // The values being combined: one for all lanes, or two words.
        const Operand pair = code_->take(2, 1);
        const int words = combine_in_mab(s, r, f, g, pair);
        if (r.tree)
            combine_over_units(s, r, f, g, pair, words);
        else
            store_result(s, r, g, pair, words);
        code_->give_back(pair);
    }
}

// Folds the terms of all time steps into accumulators. With `direct`, the last step writes the
// results.
void Chain::reduce_over_time(ChainStage &s, const ReductionPlan &r) {
    const StagePlan &plan = *s.plan;
    int64_t steps = 1;
    for (const size_t l : s.reduced) steps *= plan.loops()[l].extent;
    for (int64_t q = 0; q < steps; q++) {
        for (int64_t g = 0; g < r.groups; g++) {
            Group four = group(s, g * cycles_per_step);
            for (Values &v : four.values) {
                int64_t rest = q;
                for (size_t i = s.reduced.size(); i-- > 0;) {
                    v[s.reduced[i]] = rest % plan.loops()[s.reduced[i]].extent;
                    rest /= plan.loops()[s.reduced[i]].extent;
                }
            }
            for (const ChainRead &read : s.reads) { // a copy inside of reduction loops
                if (read.loader) read.loader->ensure(loader_values(read, four.values[0]));
            }
            const Operand to = accumulator(r, q % r.chains, g);
            const auto beyond = limits(s, four.values[0]);
            code_->run(
                folding(s, q < r.chains, beyond, four.values[0]),
                [&](int which, int part) {
                    if (which >= small_position_read) return positions(s, size_t(which - small_position_read), true);
                    if (which >= position_read)
                        return next_word(positions(s, size_t(which - position_read), false), part);
                    if (which == accumulator_read) return next_word(to, part);
                    return read_word(four, which, part);
                },
                [&](int part) {
                    return r.direct && q == steps - 1 ? result_operand(s, r, g, part) : next_word(to, part);
                });
            release(four);
        }
    }
}

// Folds `a`, which passes through the ALU and its forward, into b.
void Chain::fold_forwarded(const Folding &f, AluOp op, int rotate, const Operand &a, const Operand &b,
                           const Operand &to) {
    MicroOp m;
    Alu u;
    u.op = op;
    u.type = sim::Type::I32;
    u.rotate = uint8_t(rotate);
    u.a = m.read(a);
    m.word().alu = u;
    m.next();
    f.fold(m, aluf(), b, to);
    c_.packer.place(m);
}

// Folds the accumulators of four points, then the lanes of a word and the PEs of a MAB, into
// `pair`. Returns the number of its words that hold values: one if lanes were folded.
int Chain::combine_in_mab(const ChainStage &s, const ReductionPlan &r, const Folding &f, int64_t g,
                          const Operand &pair) {
    const bool widened = r.widened();
    const int words = r.words();
    const Operand first = accumulator(r, 0, g);
    if (widened) alu(AluOp::Widen, sim::Type::F16, first, std::nullopt, pair);
    for (int64_t chain = 1; chain < r.chains; chain++) {
        const Operand next = accumulator(r, chain, g);
        if (!widened) {
            for (int w = 0; w < words; w++)
                fold_forwarded(f, AluOp::Pass, 0, next_word(next, w), next_word(first, w), next_word(first, w));
            continue;
        }
        const Operand more = code_->take(2, 0);
        alu(AluOp::Widen, sim::Type::F16, next, std::nullopt, more);
        for (int w = 0; w < words; w++)
            fold_forwarded(f, AluOp::Pass, 0, next_word(more, w), next_word(pair, w), next_word(pair, w));
        code_->give_back(more);
    }
    const Operand &from = widened ? pair : first;
    int left = words;
    if (s.reduced_lanes) {
        if (words == 2)
            fold_forwarded(f, AluOp::Pass, 0, from, next_word(from, 1), pair);
        else
            alu(AluOp::Pass, sim::Type::I32, from, std::nullopt, pair);
        const Operand other = swapped_lanes(pair);
        fold_forwarded(f, AluOp::Pass, 0, other, pair, pair);
        code_->give_back(other);
        left = 1;
    } else if (!widened) {
        alu(AluOp::Pass, sim::Type::I32, from, std::nullopt, pair, words);
    }
    for (const int rotation : r.rotations) {
        for (int w = 0; w < left; w++)
            fold_forwarded(f, AluOp::Rotate, rotation, next_word(pair, w), next_word(pair, w), next_word(pair, w));
    }
    return left;
}

// Writes combined values to the results' location; for fp16, pairs of words are narrowed first.
void Chain::store_result(const ChainStage &s, const ReductionPlan &r, int64_t g, const Operand &pair, int left) {
    if (r.widened()) {
        if (left == 1) alu(AluOp::Pass, sim::Type::I32, pair, std::nullopt, next_word(pair, 1));
        alu(AluOp::Narrow, sim::Type::F32, pair, std::nullopt, result_operand(s, r, g, 0));
        return;
    }
    for (int w = 0; w < r.parts; w++)
        alu(AluOp::Pass, sim::Type::I32, next_word(pair, left == 1 ? 0 : w), std::nullopt, result_operand(s, r, g, w));
}

// Combines the values of all units, which the tree broadcasts to the results' location.
void Chain::combine_over_units(const ChainStage &s, const ReductionPlan &r, const Folding &f, int64_t g,
                               const Operand &pair, int left) {
    std::vector<Operand> values;
    for (int w = 0; w < left; w++) values.push_back(next_word(pair, w));
    const Operand back = code_->take(2, 0);
    over_units(s, f, values, [&](size_t value, uint32_t mabs, int64_t l1bm) {
        for (int w = int(value); w < (left == 1 ? r.words() : int(value) + 1); w++) {
            MicroOp m;
            L1 l1;
            l1.op = L1Op::MabBroadcast;
            if (mabs != (1u << c_.config.mabs) - 1) l1.mabs = mabs;
            l1.at.at = uint16_t(l1bm);
            l1.to = m.write(r.widened() ? next_word(back, w) : result_operand(s, r, g, w));
            m.word().l1 = l1;
            c_.packer.place(m);
        }
    });
    if (r.widened()) alu(AluOp::Narrow, sim::Type::F32, back, std::nullopt, result_operand(s, r, g, 0));
    code_->give_back(back);
}

} // namespace kumiko::chip
