#include "schedules/rolling.h"

#include "schedules/primitives/steps.h"
#include "schedules/shared_loops.h"
#include "schedules/traits.h"

namespace kumiko {

bool rolls(const StageState &s) { return s.computed && s.computed->consumer == s.placement.consumer; }

std::string not_rolling(const ScheduleState &state, const StageState &s, const std::string &loop) {
    const StageState &host = state.stage(s.placement.consumer);
    const std::string &kept = s.placement.loop, where = "loop " + loop + " of " + host.name();
    if (!host.has_loop(loop)) return where + " no longer exists";
    if (host.position(loop) != host.position(kept) + 1)
        return where + " is not directly inside of " + kept + ", where " + s.name() + " is stored";
    const LoopState &l = host.loop(loop);
    if (l.reduction) return where + " is a reduction";
    if (l.kind != LoopKind::Serial && l.kind != LoopKind::Unrolled)
        return where + " is " + kind_name(l.kind) + ", so its iterations do not run one after another";
    if (host.scattered == loop) return where + " visits the elements that its index selects";
    if (const Exclusion why = excluded(state, host, Trait::RingHost)) return why.reason;
    if (std::any_of(host.peels.begin(), host.peels.end(), [&](const Peel &p) { return p.loop == loop; }))
        return where + " is peeled";
    for (const std::string &name : state.consumers(s.name())) {
        if (const std::string why = runs_outside(state, name, host, loop); !why.empty()) return why;
    }
    const auto runs_in_nest = [&](const StageState *r) { // in this stage or nested in its loops
        while (r && r != &s && r != &loops_of(state, s))
            r = r->computed_at().kind == Placement::Kind::At ? state.find(r->computed_at().consumer) : nullptr;
        return r != nullptr;
    };
    // Inputs of new planes must exist before iteration 0.
    for (const StageState &other : state.stages) {
        const Placement &at = other.computed_at();
        if (at.kind != Placement::Kind::At || at.consumer != host.name() || at.loop != loop || rolls(other)) continue;
        const auto readers = state.consumers(other.name());
        if (std::any_of(readers.begin(), readers.end(), [&](const auto &r) { return runs_in_nest(state.find(r)); }))
            return other.name() + ", which it reads, is recomputed in each iteration of " + loop +
                   "; store that with store_at too, or compute it in loops of " + s.name();
    }
    return "";
}

} // namespace kumiko
