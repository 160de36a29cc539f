#include "schedules/library/streams.h"

#include "machine/machine.h"
#include "schedules/library/structure.h"

namespace kumiko::library {

namespace {

// Bytes of an output if it is dense and its rows are multiples of `piece` bytes, or if it is one
// row of whole vectors; else 0.
int64_t dense_bytes(const Stage &stage, int64_t vector, int64_t piece) {
    const int64_t bytes = stage.type.bytes();
    int64_t elements = 1;
    for (const Axis &a : stage.axes) {
        const auto n = constant_extent(a);
        if (!n || *n < 1) return 0;
        elements *= *n;
    }
    if (stage.axes.empty() || !stage.strides.empty()) return 0;
    const int64_t unit = stage.axes.size() == 1 ? vector : piece;
    return *constant_extent(stage.axes.back()) * bytes % unit == 0 ? elements * bytes : 0;
}

int64_t vector_bytes(const Machine &machine) { return std::max<int64_t>(1, machine.vector_bits / 8); }

bool in_vectors(const StageState &s) {
    return std::any_of(s.order.begin(), s.order.end(),
                       [&](const std::string &l) { return s.loop(l).kind == LoopKind::Vectorized; });
}

} // namespace

bool exceeds_caches(int64_t bytes, const Machine &machine) {
    int64_t last = 0;
    for (const char *level : {"L2", "L3"}) last = std::max(last, cache_bytes(machine, level, 0));
    return last > 0 && 2 * bytes > last;
}

bool splits_lines_of_rows(const Schedule &schedule, const std::string &stage) {
    constexpr int64_t long_run = 512; // bytes
    const StageState &s = schedule.state().stage(stage);
    if (vector_bytes(schedule.machine()) >= line_bytes || s.def.axes.empty()) return false;
    const std::string &last = s.def.axes.back().name();
    bool inside = false; // inside a loop along rows
    for (size_t d = 0; d < s.order.size(); d++) {
        if (s.derived_from(s.order[d], last)) {
            inside = true;
            continue;
        }
        const auto rows = Halide::Internal::as_const_int(s.loop(s.order[d]).extent);
        if (!inside || (rows && *rows == 1)) continue;
        int64_t run = s.def.type.bytes();
        for (size_t i = d + 1; i < s.order.size(); i++) {
            if (s.derived_from(s.order[i], last))
                run *= Halide::Internal::as_const_int(s.loop(s.order[i]).extent).value_or(1);
        }
        for (size_t a = 0; run < long_run && a < s.def.axes.size(); a++) {
            if (s.derived_from(s.order[d], s.def.axes[a].name()) &&
                conflict_in_l1(bytes_of(s.def.type, s.def.axes, a + 1, 0), rows.value_or(page_bytes)))
                return true;
        }
    }
    return false;
}

void stream_large_outputs(Schedule &s, int64_t pieces) {
    const auto bytes = [&](const std::string &output) {
        return dense_bytes(s.op().stage(output), vector_bytes(s.machine()), pieces);
    };
    int64_t all = 0;
    for (const std::string &name : s.op().outputs()) all += bytes(name);
    if (!s.op().sizes().empty() || !exceeds_caches(all, s.machine())) return;
    for (const std::string &name : s.op().outputs()) {
        const StageState &o = s.state().stage(name);
        if (bytes(name) && !o.def.is_reduction() && o.finished_by.empty() && !o.def.reads_itself() && in_vectors(o) &&
            s.state().readers(name).empty())
            s.stage(name).stream();
    }
}

} // namespace kumiko::library
