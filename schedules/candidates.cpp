#include "schedules/candidates.h"

#include "dsl/reach.h"

namespace kumiko {

Values reductions(const ScheduleState &state, const Directive &) {
    return stages_where(state, [](const StageState &s) { return s.def.is_reduction(); });
}

Values reduction_loops(const ScheduleState &state, const Directive &d) {
    return loops_where(state, d, [](const StageState &s, const std::string &loop) { return s.loop(loop).reduction; });
}

Values readers_of_argument(const ScheduleState &state, const Directive &d) {
    const std::vector<std::string> all =
        state.readers(text_argument(d, d.arguments.contains("tensor") ? "tensor" : "stage"));
    return {all.begin(), all.end()};
}

Values consumer_loops(const ScheduleState &state, const Directive &d) {
    const StageState *consumer = state.find(text_argument(d, "consumer"));
    return consumer ? Values(consumer->order.begin(), consumer->order.end()) : Values();
}

Values sums_of_products(const ScheduleState &state, const Directive &) {
    return stages_where(state, [](const StageState &s) {
        return s.def.is_reduction() && s.def.components[0].term.as<Halide::Internal::Mul>() &&
               !tensors_read(s.def.components[0].term).empty();
    });
}

Values factor_tensors(const ScheduleState &state, const Directive &d) {
    const Stage &sum = state.stage(text_argument(d, "stage")).def;
    if (!sum.is_reduction()) return {};
    const std::set<std::string> read = tensors_read(sum.components[0].term);
    return {read.begin(), read.end()};
}

} // namespace kumiko
