#include "schedules/library/records.h"

#include "machine/machine.h"
#include "schedules/library/elementwise_loops.h"
#include "schedules/library/elementwise_reads.h"
#include "schedules/library/inlining.h"
#include "schedules/library/register_tile.h"
#include "schedules/library/structure.h"

namespace kumiko::library {

namespace {

// Stages without vectors unroll records of at most this many elements, for example a small matrix.
constexpr int64_t elements_of_record = 16;

// Whether an element needs a float division or a square root.
bool divides_values(const Stage &stage) {
    struct Divides : Halide::Internal::IRVisitor {
        using IRVisitor::visit;
        bool found = false;
        void visit(const Halide::Internal::Div *op) override {
            found = found || op->type.is_float();
            IRVisitor::visit(op);
        }
        void visit(const Halide::Internal::Call *op) override {
            found = found || (op->is_pure() && op->name.starts_with("sqrt"));
            IRVisitor::visit(op);
        }
    } divides;
    for (const Expr &e : stage.expressions()) e.accept(&divides);
    return divides.found;
}

} // namespace

std::vector<size_t> record_ranks(const Stage &stage, const Machine &machine) {
    constexpr int64_t min_operations = 6; // per element, besides its strided store
    std::vector<size_t> ranks;
    if (stage.is_reduction() || !stage.strides.empty()) return ranks;
    int64_t elements = 1;
    for (size_t rank = 1; rank < stage.axes.size(); rank++) {
        const auto n = constant_extent(stage.axes[stage.axes.size() - rank]);
        if (!n) break;
        elements *= *n;
        if (rank == 1 ? elements > shuffled_step : elements > elements_of_record || operations(stage) < min_operations)
            break;
        const auto records = constant_extent(stage.axes[stage.axes.size() - rank - 1]);
        const bool pays = machine.vector_bits >= 512 || (machine.vector_bits >= 256 && divides_values(stage));
        const bool whole = stage.type.bits() >= 32 && records && *records >= vector_lanes(machine, stage.type);
        if (rank == 1 || (pays && whole)) ranks.push_back(rank);
    }
    return ranks;
}

std::optional<LoopName> vectorize_across_records(Schedule &s, StageHandle S, const Stage &stage, size_t rank,
                                                 int lanes) {
    const size_t first = stage.axes.size() - rank;
    const Axis &points = stage.axes[first - 1];
    const std::string &across = points.name();
    int64_t elements = 1;
    std::vector<std::string> record;
    for (size_t d = first; d < stage.axes.size(); d++) {
        elements *= *constant_extent(stage.axes[d]);
        record.push_back(stage.axes[d].name());
    }
    const auto records = constant_extent(points);
    const int64_t parts = divisor_of(stage, points);
    const auto step = farthest_step(s.op(), at_multiples(stage, across, parts), across);
    if (records && elements * *records > elements_of_record) lanes = fitting_lanes(stage.type, lanes, *records / parts);
    const std::vector<std::string> &order = S.state().order;
    if (!step || *step > std::max(elements, shuffled_step) || (records && *records < lanes * parts) ||
        order.size() < rank || !std::equal(record.rbegin(), record.rend(), order.rbegin()) ||
        !S.state().has_loop(across) || holds_stages(s, stage.name, across))
        return std::nullopt;
    LoopName whole = across;
    std::vector<LoopName> inside(record.begin(), record.end());
    if (parts > 1) {
        const auto [o, part] = S.split(across, parts);
        whole = o;
        inside.insert(inside.begin(), part);
        S.unroll(part);
    }
    const bool inwards = records && *records / parts % lanes && tail_may_overlap(s.op());
    auto [o, i] = S.split(whole, lanes, {.tail = inwards ? Tail::Shift : Tail::Auto});
    inside.push_back(i);
    S.reorder(inside).vectorize(i);
    for (const std::string &axis : record) S.unroll(axis);
    return o;
}

void unroll_record(StageHandle S, const Stage &stage) {
    constexpr int64_t max_operations = 512;
    if (stage.is_reduction()) return;
    int64_t elements = 1;
    for (size_t d = stage.axes.size(); d-- > 0;) {
        const std::string &axis = stage.axes[d].name();
        const auto n = constant_extent(stage.axes[d]);
        elements *= n.value_or(1);
        if (!n || elements > elements_of_record || elements * operations(stage) > max_operations ||
            !S.state().has_loop(axis) || S.state().order[d] != axis)
            return;
        if (d > 0) S.unroll(axis);
    }
}

} // namespace kumiko::library
