#include "schedules/library/reduce.h"

#include "dsl/inout.h"
#include "dsl/reads.h"
#include "machine/machine.h"
#include "schedules/library/structure.h"
#include "schedules/primitives/expand.h"

namespace kumiko::library {

namespace {

// The op's only reduction; all other stages compute elementwise from its results.
struct ReduceRoles {
    const Stage *reduction = nullptr;
    bool whole = false; // all axes are reduced
};

bool reads_scalars(const Stage &s) {
    for (const Expr &e : s.expressions()) {
        for (const Halide::Internal::Call *read : tensor_reads(e)) {
            if (read->args.empty()) return true;
        }
    }
    return false;
}

std::optional<ReduceRoles> reduce_roles(const Op &op) {
    if (op.outputs().size() != 1) return std::nullopt;
    ReduceRoles r;
    for (const Stage &s : op.stages()) {
        if (s.kind == Stage::Kind::Padding || s.reads_itself()) return std::nullopt;
        if (!s.is_reduction()) continue;
        if (is_shifted_contraction(s)) return std::nullopt; // it has a form for instructions
        if (r.reduction || !s.properties.associative || !s.properties.commutative) return std::nullopt;
        r.reduction = &s;
    }
    if (!r.reduction || r.reduction != &op.stages().front()) return std::nullopt;
    r.whole = r.reduction->axes.empty();
    const Axis &last = r.whole ? r.reduction->reduction_axes.back() : r.reduction->axes.back();
    if (reads_scalars(*r.reduction) || !reads_along(*r.reduction, last.name())) return std::nullopt;
    // Two or four columns do not fill a vector; the rules of elementwise.h fold them along the
    // rows.
    const int64_t columns = r.whole ? 0 : constant_extent(last).value_or(0);
    if (columns == 2 || columns == 4) return std::nullopt;
    for (const Stage &s : op.stages()) {
        if (s.axes.size() != r.reduction->axes.size()) return std::nullopt;
        for (size_t d = 0; d < s.axes.size(); d++) {
            if (s.axes[d].name() != r.reduction->axes[d].name()) return std::nullopt;
        }
    }
    return r;
}

// Whether the stages after the sums can run block by block: they read the sums at their own
// indices, replace nothing that the sums read, and all blocks have the same length. Sums of many
// rows with a partial last vector would be stored and loaded under masks, which costs more than
// another pass.
bool can_follow(const Op &op, const ReduceRoles &r, int64_t lanes, int64_t block) {
    const auto extent = constant_extent(r.reduction->axes.back());
    if (op.stages().size() < 2 || !extent || *extent < lanes || reads_before_update(op)) return false;
    if (*extent > block && !tail_may_overlap(op)) return false;
    for (const Stage &s : op.stages()) {
        for (const Expr &e : s.expressions()) {
            for (const Halide::Internal::Call *read : tensor_reads(e)) {
                if (op.find_input(read->name)) continue;
                for (size_t d = 0; d < read->args.size(); d++) {
                    const auto *v = read->args[d].as<Halide::Internal::Variable>();
                    if (!v || v->name != s.axes[d].name()) return false;
                }
            }
        }
    }
    int64_t rows = 1;
    for (const Axis &a : r.reduction->reduction_axes) rows *= constant_extent(a).value_or(1 << 20);
    constexpr int64_t few_rows = 16;
    return *extent > block || *extent % lanes == 0 || rows <= few_rows;
}

} // namespace

bool is_reduce(const Op &op) { return reduce_roles(op).has_value(); }

ReduceParameters reduce_parameters(const Op &op, const Machine &machine) {
    const ReduceRoles r = *reduce_roles(op);
    const Type t = r.reduction->type;
    const int64_t lanes = vector_lanes(machine, t);
    ReduceParameters p;
    p.steps = Tile(r.reduction->components.size() == 1 ? 4 : 1, {1, 2, 4, 8});
    p.vectors = Tile(r.whole ? 8 : 2, {1, 2, 4, 8});
    const int64_t fits = cache_bytes(machine, "L1", 32 << 10) / 4 / t.bytes();
    std::vector<int64_t> blocks;
    for (int64_t n = 8 * lanes; n <= std::max(fits, 8 * lanes); n *= 2) blocks.push_back(n);
    p.block = Tile::nearest(fits, blocks);
    p.parallel = Flag(!r.whole && pays_to_share(op, machine));
    return p;
}

Schedule schedule_reduce(const Op &op, const Machine &machine, const ReduceParameters &p) {
    const ReduceRoles r = *reduce_roles(op);
    Schedule s(op, machine);
    StageHandle R = s.stage(r.reduction->name);
    const int lanes = vector_lanes(machine, r.reduction->type);
    if (r.whole) {
        reduce_row(s, r.reduction->name, lanes, p.vectors);
        return s;
    }
    const std::string last = r.reduction->axes.back().name(), reduced = r.reduction->reduction_axes.back().name();
    const auto extent = constant_extent(r.reduction->axes.back());
    const int64_t run = extent && *extent < lanes * p.vectors ? lanes : lanes * p.vectors;
    const int64_t all = extent ? (std::max<int64_t>(*extent, 1) + run - 1) / run * run : int64_t(p.block);
    const int64_t block = std::max(std::min<int64_t>(p.block, all), run);
    std::vector<LoopName> outer;
    for (const Axis &a : r.reduction->axes) {
        if (a.name() != last) outer.push_back(a.name());
    }
    const bool follows = can_follow(op, r, lanes, block);
    StageHandle H = follows ? s.stage(op.outputs()[0]) : R;
    const bool shift = follows && *extent > block;
    const int64_t length = shift ? balanced_block(*extent, block, run) : follows ? *extent : block;
    auto [blocks, inner] = H.split(last, length, {.tail = shift ? Tail::Shift : Tail::Auto});
    outer.push_back(blocks);
    if (follows) {
        std::vector<LoopName> order = outer;
        order.push_back(inner);
        H.reorder(order);
        if (lanes > 1) H.vectorize(inner, lanes);
    }
    auto [runs, lane] = R.split(follows ? LoopName(last) : inner, run);
    std::vector<LoopName> order = outer;
    if (follows) order.assign(outer.begin(), outer.end() - 1);
    for (const Axis &a : r.reduction->reduction_axes) {
        if (a.name() != reduced) order.push_back(a.name());
    }
    if (p.steps > 1) {
        auto [rounds, step] = R.split(reduced, p.steps);
        order.insert(order.end(), {rounds, runs, step, lane});
        R.reorder(order).unroll(step);
        s.accumulate_in(R.name(), "registers", runs);
    } else {
        order.insert(order.end(), {LoopName(reduced), runs, lane});
        R.reorder(order);
    }
    if (lanes > 1 && (!extent || *extent >= lanes)) R.vectorize(lane, lanes);
    for (size_t n = op.stages().size(); n-- > 0;) { // consumers before producers
        const Stage &stage = op.stages()[n];
        if (stage.name == H.name()) continue;
        StageHandle S = s.stage(stage.name);
        if (follows) S.compute_at(H.name(), blocks);
        if (!stage.is_reduction() && lanes > 1 && (!extent || *extent >= lanes)) S.vectorize(last, lanes);
    }
    if (p.parallel) {
        for (const LoopName &l : outer) {
            if (Halide::Internal::is_const_one(H.state().loop(l.name).extent)) continue;
            H.parallel(l);
            break;
        }
    }
    return s;
}

} // namespace kumiko::library
