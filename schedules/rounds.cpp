#include "schedules/rounds.h"

#include "dsl/bounded.h"
#include "schedules/facts.h"
#include "schedules/linear.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

// Whether each reduction axis has a step, so that there is a round.
bool surely_steps(const ScheduleState &state, const StageState &s) {
    if (!term_bounds(s.def).empty()) return false; // loops may skip all steps
    const auto &axes = s.def.reduction_axes;
    const auto runs = [](const Axis &a) { return number_of(a.extent()).value_or(0) > 0; };
    if (std::all_of(axes.begin(), axes.end(), runs)) return true;
    std::vector<Expr> assumed;
    for (const Assume &a : state.assumptions) assumed.push_back(a.condition);
    const Facts facts = facts_of(state.op, assumed);
    const Bounds bounds = facts.bounds();
    return std::all_of(axes.begin(), axes.end(),
                       [&](const Axis &a) { return proves(facts.apply(a.extent()) > 0, bounds); });
}

} // namespace

std::optional<std::set<std::string>> reduction_roots(const StageState &stage) {
    std::set<std::string> roots;
    for (const Axis &a : stage.def.reduction_axes) roots.insert(a.name());
    for (const Relation &r : stage.relations) {
        const auto *fuse = std::get_if<FuseRelation>(&r);
        if (!fuse || !stage.loop(fuse->fused).reduction) continue;
        if (!roots.erase(fuse->outer) || !roots.erase(fuse->inner)) return std::nullopt;
        roots.insert(fuse->fused);
    }
    return roots;
}

bool rounds_in_order(const Frame &frame, size_t depth) {
    const StageState &s = frame.stage();
    const auto roots = reduction_roots(s);
    if (!roots) return false;
    for (const std::string &root : *roots) {
        // Number of steps that the loops visited so far, from the innermost outwards, cover.
        int64_t reach = 1;
        int64_t inner_step = 0;
        for (size_t p = s.order.size(); p-- > 0;) {
            const std::string &l = s.order[p];
            if (!s.derived_from(l, root) || is_const_one(frame.extent(l))) continue;
            const auto step = step_along(frame.value(root), frame.prefix() + l);
            if (!step || *step <= inner_step || (p < depth && *step < reach)) return false;
            inner_step = *step;
            if (const auto n = as_const_int(frame.extent(l)))
                reach = std::min<int64_t>(reach + *step * std::max<int64_t>(*n - 1, 0), INT32_MAX);
            else
                reach = INT32_MAX;
        }
    }
    return true;
}

size_t loops_around_end(const ScheduleState &state, const StageState &reduction) {
    const size_t end = reduction.end_of_steps(), first = reduction.first_reduction();
    if (end <= first) return end;
    const bool in_last_round =
        rounds_in_order(Frame(reduction, whole_region(reduction.def), ""), end) && surely_steps(state, reduction);
    return in_last_round ? end : first;
}

} // namespace kumiko
