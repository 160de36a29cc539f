#include "schedules/library/held_recurrences.h"

#include "dsl/extern.h"
#include "dsl/recurrence.h"
#include "schedules/library/elementwise_loops.h"
#include "schedules/library/elementwise_reads.h"
#include "schedules/library/inlining.h"
#include "schedules/library/structure.h"

namespace kumiko::library {

namespace {

// The only reader of the recurrence, if rows can be computed in its loops.
std::optional<Stage> reader_of_rows(const Schedule &s, const Stage &stage) {
    const auto consumers = s.state().consumers(stage.name);
    if (stage.takes_steps() || s.op().is_output(stage.name) || consumers.size() != 1 || stage.axes.size() < 2 ||
        carries_dependence(stage, stage.axes[0].name()) ||
        s.state().stage(stage.name).placement.kind != Placement::Kind::Root)
        return std::nullopt;
    const StageState &reader = s.state().stage(consumers[0]);
    const Stage &r = reader.def;
    if (r.kind != Stage::Kind::Pointwise || is_extern(r) || r.reads_itself() || !reader.finished_by.empty() ||
        reader.placement.kind != Placement::Kind::Root || r.axes.size() < 2 || holds_stages(s, r.name) ||
        !Halide::Internal::equal(r.axes[0].extent(), stage.axes[0].extent()))
        return std::nullopt;
    const std::vector<std::string> tensors = stage.tensors();
    for (const auto &[tensor, indices] : reads_of(s.op(), r, kept_tensors(s.state()))) {
        if (!std::count(tensors.begin(), tensors.end(), tensor) && tensor != stage.name) continue;
        const auto *v = indices[0].as<Halide::Internal::Variable>();
        if (!v || v->name != r.axes[0].name()) return std::nullopt;
    }
    return r;
}

} // namespace

RecurrenceBlock block_of_recurrence(const Stage &stage) {
    constexpr int64_t max_operations = 256; // of all steps and rows together
    const int64_t fit = std::max<int64_t>(1, max_operations / std::max<int64_t>(1, operations(stage)));
    const int64_t steps = std::clamp<int64_t>(fit, 1, 8);
    return {steps, std::clamp<int64_t>(fit / steps, 1, 4)};
}

void hold_recurrences(Schedule &s, const std::set<std::string> &apart) {
    constexpr int64_t min_elements = 1 << 13; // per task
    constexpr int64_t shortest_row = 512;     // the reader's vectors would cross row ends
    const int64_t cache = cache_bytes(s.machine(), "L2", 512 << 10);
    const Op op = s.op();
    for (const Stage &stage : op.stages()) {
        if (!stage.reads_itself() || apart.count(stage.name)) continue;
        const auto reader = reader_of_rows(s, stage);
        if (!reader || apart.count(reader->name)) continue;
        const auto rows = constant_extent(stage.axes[0]);
        int64_t row = 1; // elements
        for (size_t d = 1; d < stage.axes.size(); d++) row *= constant_extent(stage.axes[d]).value_or(0);
        if (!rows || row < shortest_row) continue;
        const int64_t bytes = stage.type.bytes() * std::max<int64_t>(1, int64_t(stage.components.size())) * row,
                      unit =
                          carried_by_other_axes(stage, stage.axes.back().name()) ? 1 : block_of_recurrence(stage).rows,
                      share = *rows / (unit * threads_of(s.machine())),
                      together = unit * std::max<int64_t>(1, std::min(min_elements / (unit * row), share));
        if (*rows * bytes <= cache || together * bytes > cache || together >= *rows) continue;
        const LoopName outer = s.stage(reader->name).split(reader->axes[0].name(), together).first;
        s.stage(stage.name).compute_at(reader->name, outer);
    }
}

} // namespace kumiko::library
