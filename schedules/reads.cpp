#include "schedules/reads.h"

#include "dsl/reach.h"

namespace kumiko {

std::string read_outside(const ScheduleState &state, const Facts &facts) {
    std::map<std::string, std::vector<Axis>> known; // with the facts substituted
    const AxesInside inside = [&](const std::string &tensor) {
        std::vector<Axis> &axes = known[tensor];
        if (axes.empty()) {
            for (const Axis &a : state.axes_of(tensor))
                axes.emplace_back(a.name(), Halide::Internal::simplify(facts.apply(a.extent())));
        }
        const StageState *source = state.producer(tensor);
        while (source && source->is_copy && state.find(source->copied)) source = state.find(source->copied);
        std::vector<const Axis *> all;
        for (size_t d = 0; d < axes.size(); d++)
            all.push_back(source && source->def.kind == Stage::Kind::Padding && pads(source->def, d) ? nullptr
                                                                                                     : &axes[d]);
        return all;
    };
    for (const StageState &s : state.stages) {
        if (s.is_copy) continue; // its reads are those of the copied tensor
        if (std::string text = reach_of(s.def, inside).outside; !text.empty()) return text;
    }
    for (const Requirement &r : state.op.requirements()) {
        if (Halide::Internal::is_const_zero(Halide::Internal::simplify(facts.apply(r.condition))))
            return r.text + " does not hold";
    }
    return "";
}

} // namespace kumiko
