#include "targets/chip/stage/root_reduction.h"

#include "machine/machine.h"
#include "sim/config.h"
#include "support/error.h"

#include <algorithm>

namespace kumiko::chip {

namespace {

int64_t extent_of(const StageState &s, const std::string &loop) {
    const auto n = Halide::Internal::as_const_int(Halide::Internal::simplify(s.loop(loop).extent));
    if (!n) throw UserError("stage " + s.name() + ": the extent of loop " + loop + " is known only at run time");
    return *n;
}

// The two stages of `s`, what is reduced first.
std::pair<StageState, StageState> divided(const StageState &s) {
    if (!s.accumulate)
        throw UserError(
            "stage " + s.name() +
            " is a reduction at the root, but its sums have no place; accumulate_in(\"GRF0\", …) at the loop "
            "around those that reduce");
    const std::string at = s.accumulate->loop;
    const size_t depth = s.position(at);
    StageState reduced = s, stored = s;
    for (size_t l = 0; l <= depth; l++) {
        if (s.loop(s.order[l]).reduction)
            throw Unsupported("stage " + s.name() + ": reduction loop " + s.order[l] + " stands outside of " + at +
                              ", so sums would leave and come back; the chip keeps them until they are complete");
    }
    reduced.def.name += ".reduced";
    for (Component &c : reduced.def.components) c.tensor = reduced.def.name;
    reduced.order.assign(s.order.begin() + int64_t(depth) + 1, s.order.end());
    reduced.accumulate.reset();
    reduced.placement = {Placement::Kind::At, s.name(), at};

    stored.accumulate.reset();
    stored.def.kind = Stage::Kind::Pointwise;
    stored.def.type = s.def.components.front().type;
    std::vector<Expr> indices(s.def.axes.begin(), s.def.axes.end());
    stored.def.value = read_tensor(stored.def.type, reduced.def.name, indices);
    stored.def.components.clear();
    stored.def.reduction_axes.clear();
    const auto reduces = [&](const std::string &loop) { return s.find_loop(loop)->reduction; };
    std::erase_if(stored.order, reduces);
    std::erase_if(stored.relations, [&](const Relation &r) {
        const auto *split = std::get_if<SplitRelation>(&r);
        return split ? reduces(split->inner) : reduces(std::get<FuseRelation>(r).fused);
    });
    int64_t lanes = 1;
    bool kept_lanes = false;
    std::string last;
    for (size_t l = depth + 1; l < s.order.size(); l++) {
        const LoopState &loop = s.loop(s.order[l]);
        if (loop.kind == LoopKind::Vectorized) {
            lanes *= extent_of(s, loop.name);
            kept_lanes = kept_lanes || !loop.reduction;
        }
        if (loop.kind == LoopKind::Serial && !loop.reduction) last = loop.name;
    }
    if (kept_lanes || lanes == 1) return {reduced, stored};
    if (last.empty())
        throw Unsupported("stage " + s.name() + " has one result below loop " + at +
                          ", the same in all lanes; a loop of results inside it fills words");
    const auto cut = [&](const std::string &loop, int64_t factor, const std::string &outer, const std::string &inner) {
        const int64_t n = extent_of(stored, loop);
        stored.relations.push_back(SplitRelation{loop, outer, inner, factor, Tail::Auto});
        LoopState o{outer, Expr(int((n + factor - 1) / factor))}, i{inner, Expr(int(factor))};
        stored.loops.push_back(o);
        stored.loops.push_back(i);
        const auto place = std::find(stored.order.begin(), stored.order.end(), loop);
        *place = outer;
        return extent_of(stored, outer);
    };
    const int64_t words = cut(last, lanes, last + ".word", last + ".lane");
    stored.order.push_back(last + ".lane");
    stored.loop(last + ".lane").kind = LoopKind::Vectorized;
    if (words < sim::pes_per_mab) return {reduced, stored};
    cut(last + ".word", sim::pes_per_mab, last + ".step", last + ".PE");
    stored.order.insert(stored.order.end() - 1, last + ".PE");
    stored.loop(last + ".PE").kind = LoopKind::Bound;
    stored.loop(last + ".PE").unit = "PE";
    return {reduced, stored};
}

} // namespace

ScheduleState with_results_stored(const ScheduleState &state) {
    ScheduleState made = state;
    made.stages.clear();
    for (const StageState &s : state.stages) {
        if (!s.def.is_reduction() || s.tensorize || s.placement.kind != Placement::Kind::Root ||
            !s.finished_into.empty() || !state.op.is_output(s.name())) {
            made.stages.push_back(s);
            continue;
        }
        auto [reduced, stored] = divided(s);
        for (StageState &copy : made.stages) { // its operands come to the part that reduces
            if (!copy.is_copy || copy.placement.consumer != s.name()) continue;
            copy.placement.consumer = reduced.name();
            if (!reduced.has_loop(copy.placement.loop))
                copy.placement.loop = s.name() + " " + copy.placement.loop; // an outer one
        }
        for (StageState &other : made.stages) { // what is computed at it
            if (!other.is_copy && other.placement.kind == Placement::Kind::At && other.placement.consumer == s.name() &&
                other.placement.loop != reduced.placement.loop)
                throw Unsupported("stage " + other.name() + " is computed at loop " + other.placement.loop + " of " +
                                  s.name() + ", which accumulates at " + reduced.placement.loop +
                                  "; on the chip both are one loop");
        }
        made.stages.push_back(std::move(reduced));
        made.stages.push_back(std::move(stored));
    }
    return made;
}

} // namespace kumiko::chip
