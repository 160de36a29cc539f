#include "schedules/library/register_tile.h"

#include "dsl/halide_passes.h"
#include "dsl/interpreter/parts.h"
#include "dsl/reads.h"
#include "dsl/scatter.h"
#include "schedules/library/structure.h"

namespace kumiko::library {

namespace {

// By how many elements the read moves at the next index of the axis; 1 if only its last index uses
// the axis. Nothing if that is not constant.
std::optional<int64_t> step_of(const Op &op, const Halide::Internal::Call *read, const std::string &axis) {
    const auto used = [&](const Expr &index) { return Halide::Internal::expr_uses_var(index, axis); };
    if (read->args.empty() || std::none_of(read->args.begin(), read->args.end() - 1, used)) return 1;
    const Input *in = op.find_input(read->name);
    const std::vector<Axis> &axes = in ? in->axes : interpreter::stage_of(op, read->name)->axes;
    int64_t distance = 0, stride = 1;
    for (size_t d = read->args.size(); d-- > 0;) {
        if (in && in->stated_strides) {
            const auto stated = Halide::Internal::as_const_int(in->strides[d]);
            if (!stated) return std::nullopt;
            stride = *stated;
        }
        const Expr &index = read->args[d];
        if (used(index)) {
            const auto step = slope_of(index, axis);
            if (!step || stride == 0) return std::nullopt;
            distance += *step * stride;
        }
        stride *= constant_extent(axes[d]).value_or(0); // 0: unknown from here on
    }
    return std::abs(distance);
}

// A tensor that is copied so that vectors along the stage's last axis are contiguous.
struct TransposedCopy {
    size_t dimension; // the tensor's dimension along that axis
    int64_t elements; // elements per index of that axis and of the stage's other axes
    int64_t times;    // how often each element is read
    bool again;       // also read by iterations of loops outside of the tile's rows
};

// The tensors that are read far apart along the stage's last axis, each at one place only, indexed
// by axes and constants. Nothing if such a read has another form, if it uses the axis of the rows
// (its copy would be read once), or if a panel of the copy exceeds L2.
std::optional<std::map<std::string, TransposedCopy>> transposed_for_vectors(const Op &op, const Stage &stage,
                                                                            const std::string &rows) {
    // With the columns of a tile, at most half of L2.
    constexpr int64_t max_elements = 2048, unknown_extent = 8;
    const std::string &last = stage.axes.back().name();
    std::map<std::string, TransposedCopy> copies;
    std::map<std::string, std::set<Expr, Halide::Internal::IRDeepCompare>> places;
    for (const Expr &e : stage.expressions()) {
        for (const Halide::Internal::Call *read : tensor_reads(e)) {
            places[read->name].insert(Expr(read));
            if (const auto step = step_of(op, read, last); step && *step <= shuffled_step) continue;
            std::set<std::string> axes;
            TransposedCopy copy{0, 1, 1, false};
            for (size_t d = 0; d < read->args.size(); d++) {
                if (Halide::Internal::is_const(read->args[d])) continue;
                const auto *v = read->args[d].as<Halide::Internal::Variable>();
                if (!v || v->name == rows || !axes.insert(v->name).second) return std::nullopt;
                if (v->name == last) copy.dimension = d;
                for (const Axis &a : stage.reduction_axes) {
                    if (a.name() == v->name) copy.elements *= constant_extent(a).value_or(max_elements + 1);
                }
            }
            if (copy.elements > max_elements) return std::nullopt;
            for (const Axis &a : stage.axes) {
                if (axes.count(a.name())) continue;
                copy.times *= constant_extent(a).value_or(unknown_extent);
                const bool outside = a.name() != rows || a.name() == stage.step_axis;
                copy.again = copy.again || (outside && constant_extent(a) != 1);
            }
            copies[read->name] = copy;
        }
    }
    for (const auto &[tensor, copy] : copies) {
        if (places[tensor].size() > 1) return std::nullopt;
    }
    return copies;
}

// The innermost axis whose iterations share loaded vectors: some read uses the last axis but not
// this one. A recurrence runs one step at a time, so its step axis comes after all others. Empty if
// there is none.
std::string axis_that_shares_vectors(const Stage &stage) {
    const std::string &last = stage.axes.back().name();
    std::vector<Axis> axes(stage.axes.begin(), stage.axes.end() - 1);
    std::stable_partition(axes.begin(), axes.end(), [&](const Axis &a) { return a.name() == stage.step_axis; });
    for (size_t d = axes.size(); d-- > 0;) {
        const std::string &axis = axes[d].name();
        if (constant_extent(axes[d]).value_or(2) < 2) continue;
        for (const Expr &e : stage.expressions()) {
            for (const Halide::Internal::Call *read : tensor_reads(e)) {
                const Expr all(read);
                if (Halide::Internal::expr_uses_var(all, last) && !Halide::Internal::expr_uses_var(all, axis))
                    return axis;
            }
        }
    }
    return "";
}

constexpr int shortest_tiled = 8; // steps for each element

double reduction_steps(const Stage &stage) {
    double steps = 1;
    for (const Axis &a : stage.reduction_axes)
        steps *= static_cast<double>(constant_extent(a).value_or(shortest_tiled));
    return steps;
}

// The number of steps in a block that all tiles take before the next block, such that half of L2
// holds a block's operands. Without blocks, tiles of few rows and columns would each load both
// operands from L3 or memory. Nothing if the operands fit.
std::optional<int64_t> depth_of_tiles(const Stage &stage, const std::string &rows, const Machine &machine) {
    // steps, so that loading and storing the accumulators costs little
    constexpr int64_t least = 64;
    const auto steps = constant_extent(stage.reduction_axes.front()), height = constant_extent(*find_axis(stage, rows)),
               width = constant_extent(stage.axes.back());
    if (stage.reduction_axes.size() != 1 || !steps || !height || !width) return std::nullopt;
    const int64_t l2 = cache_bytes(machine, "L2", 512 << 10), step = stage.type.bytes() * (*height + *width),
                  depth = l2 / 2 / std::max<int64_t>(1, step);
    if (depth < least || *steps < 4 * depth) return std::nullopt;
    return balanced_block(*steps, depth, 8);
}

} // namespace

std::optional<int64_t> farthest_step(const Op &op, const Stage &stage, const std::string &axis,
                                     const std::function<bool(const Halide::Internal::Call *)> &left_out) {
    int64_t farthest = 1;
    for (const Expr &e : stage.expressions()) {
        for (const Halide::Internal::Call *read : tensor_reads(e)) {
            if (left_out && left_out(read)) continue;
            const auto step = step_of(op, read, axis);
            if (!step) return std::nullopt;
            farthest = std::max(farthest, *step);
        }
    }
    return farthest;
}

std::string rows_of_tile(const Stage &stage) {
    if (!stage.is_reduction() || stage.axes.empty() || stage.components.size() != 1 || scattered(stage) ||
        reduction_steps(stage) < shortest_tiled)
        return "";
    return axis_that_shares_vectors(stage);
}

// A transposed copy pays from so many reads of each element on.
static constexpr int64_t min_reads = 8;

bool pays_to_tile(const Op &op, const Stage &stage) {
    const std::string rows = rows_of_tile(stage);
    const auto copies = rows.empty() ? std::nullopt : transposed_for_vectors(op, stage, rows);
    return copies &&
           std::all_of(copies->begin(), copies->end(), [](const auto &copy) { return copy.second.times >= min_reads; });
}

bool gets_tile(const Op &op, const Stage &stage, const Machine &machine) {
    if (stage.axes.empty() || !stage.properties.associative || !stage.properties.commutative) return false;
    const auto extent = constant_extent(stage.axes.back());
    const int lanes = fitting_lanes(stage.type, vector_lanes(machine, stage.type), extent);
    return lanes > 1 && (!extent || *extent >= lanes) && pays_to_tile(op, stage);
}

namespace {

// Loops of a register tile. Each iteration of `columns` has a panel of `width` columns.
struct TileNest {
    LoopName columns, outermost;
    int64_t width;
};

// Copies tensors that are read across their rows, one panel per block of columns.
void copy_transposed(Schedule &s, const Stage &stage, const std::map<std::string, TransposedCopy> &copies,
                     const TileNest &loops, const std::optional<RowsOfPart> &part) {
    const Machine &machine = s.machine();
    for (const auto &[tensor, copy] : copies) {
        const std::string level =
            smallest_level(machine, copy.elements * loops.width * s.state().type_of(tensor).bytes());
        const std::vector<Axis> axes = s.state().axes_of(tensor);
        const std::string &x = axes[copy.dimension].name(), w = std::to_string(loops.width);
        std::vector<std::string> layout = {x + "/" + w};
        for (const Axis &a : axes) {
            if (a.name() != x) layout.push_back(a.name());
        }
        layout.push_back(x + "%" + w);
        const bool far = part && loops.outermost.name != loops.columns.name;
        StageHandle made = s.place_in(tensor, level, stage.name, far ? loops.outermost : loops.columns).layout(layout);
        if (far) made.compute_at(part->host, part->outside);
        const Input *in = s.op().find_input(tensor);
        if (copy.again && !part && in && !in->inout) made.compute_root();
        const std::string &along = axes.back().name();
        constexpr int64_t across_lanes = 8, run = 4; // a block that is transposed in registers
        if (along == x || constant_extent(axes.back()).value_or(run) < run) continue;
        auto [xo, xi] = made.split(x, across_lanes);
        auto [ao, ai] = made.split(along, run);
        std::vector<LoopName> loops;
        for (const Axis &a : axes) {
            if (a.name() != x && a.name() != along) loops.push_back(a.name());
        }
        loops.insert(loops.end(), {xo, ao, ai, xi});
        made.reorder(loops).unroll(ai).vectorize(xi);
    }
}

} // namespace

LoopName tile_in_registers(Schedule &s, StageHandle S, const Stage &stage, int lanes,
                           const std::optional<RowsOfPart> &part) {
    const std::string rows = rows_of_tile(stage);
    const auto copies = *transposed_for_vectors(s.op(), stage, rows);
    const double steps = reduction_steps(stage);
    const std::string &last = stage.axes.back().name();
    const Machine &machine = s.machine();
    const auto extent = constant_extent(stage.axes.back()), height = constant_extent(*find_axis(stage, rows));
    // Partial blocks end anywhere along the last axis; narrow tiles compute little beyond the end.
    const int64_t all = extent ? (*extent + lanes - 1) / lanes : 4;
    int64_t vectors = std::min<int64_t>(balanced_vectors(all), has_wide_tiles(machine) && !part ? 4 : 2);
    // an extra vector then costs less than a narrow tile's loads
    constexpr int64_t many_vectors = 16;
    if (vectors == 1 && all >= many_vectors) vectors = 2;
    const int64_t width = vectors * lanes;
    std::string rows_loop = rows;
    for (const std::string &l : S.state().order) {
        if (S.state().derived_from(l, rows)) rows_loop = l;
    }
    const auto block = Halide::Internal::as_const_int(S.state().loop(rows_loop).extent);
    int64_t most = std::min(height.value_or(1 << 20), block.value_or(1 << 20));
    if (part) most = std::min(most, part->rows);
    if (rows == stage.step_axis) most = 1;
    const int64_t tile = balanced_block(most, accumulator_registers(machine) / vectors, 1);
    std::vector<LoopName> order;
    for (const std::string &l : S.state().order) {
        if (l != rows_loop && l != last && !S.state().loop(l).reduction) order.push_back(l);
    }
    auto [i, row] = S.split(rows_loop, tile);
    auto [j, lane] = S.split(last, width);

    // With row blocks outside, vectors are reread from L2. If they do not fit, column blocks are
    // outside, whose vectors stay in L1.
    const double bytes = steps * static_cast<double>(stage.type.bytes() * extent.value_or(1 << 20));
    const bool rows_outside = copies.empty() && 2 * bytes <= static_cast<double>(cache_bytes(machine, "L2", 512 << 10));
    const std::optional<int64_t> depth = copies.empty() && !part ? depth_of_tiles(stage, rows, machine) : std::nullopt;
    LoopName steps_loop = stage.reduction_axes.front().name(), tiles = rows_outside ? i : j;
    if (depth) {
        // Threads divide the tiles outside of the blocks of steps, whose loop is not parallel.
        const auto count = Halide::Internal::as_const_int(S.state().loop(tiles).extent);
        const bool alone = std::all_of(order.begin(), order.end(), [&](const LoopName &l) {
            return Halide::Internal::is_const_one(S.state().loop(l).extent);
        });
        if (const int64_t threads = threads_of(machine); threads > 1 && alone && count) {
            const auto [share, inside] = S.split(tiles, (*count + threads - 1) / threads);
            order.insert(order.begin(), share);
            tiles = inside;
        }
        LoopName blocks = steps_loop;
        std::tie(blocks, steps_loop) = S.split(steps_loop, *depth);
        order.push_back(blocks);
    }
    order.push_back(tiles);
    const LoopName outermost = order.front(), inner = rows_outside ? j : i;
    order.push_back(inner);
    order.push_back(steps_loop);
    for (size_t d = 1; d < stage.reduction_axes.size(); d++) order.push_back(stage.reduction_axes[d].name());
    order.insert(order.end(), {row, lane});
    S.reorder(order).vectorize(lane, lanes);
    if (vectors > 1) S.unroll(lane.name + ".o");
    S.unroll(row);
    s.accumulate_in(S.name(), "registers", inner);
    copy_transposed(s, stage, copies, {j, outermost, width}, part);
    return outermost;
}

} // namespace kumiko::library
