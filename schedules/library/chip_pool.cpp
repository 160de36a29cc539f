#include "schedules/library/chip_pool.h"

#include "machine/machine.h"
#include "schedules/library/structure.h"

#include <algorithm>
#include <numeric>

namespace kumiko::library {

namespace {

namespace ir = Halide::Internal;

struct Windows {
    const Stage *reduction = nullptr, *output = nullptr; // output: the reduction or its consumer
    std::string image;                                   // tensor that the reduction reads
    std::vector<Expr> index;
    size_t channel = 0, row = 0, column = 0; // output axes; windows move along row and column
    int lanes = 2;
    int64_t extent(size_t axis) const { return *constant_extent(output->axes[axis]); }
    // Elements of the image, along a window's axis, that `results` neighbouring results read.
    int64_t reach(size_t axis, int64_t results) const {
        for (const Expr &e : index) {
            if (!ir::expr_uses_var(e, output->axes[axis].name())) continue;
            std::map<std::string, Expr> first, last;
            for (const auto *axes : {&reduction->axes, &reduction->reduction_axes}) {
                for (const Axis &a : *axes) {
                    first[a.name()] = 0;
                    last[a.name()] = int(a.name() == output->axes[axis].name() ? results - 1 : *constant_extent(a) - 1);
                }
            }
            if (const auto n = ir::as_const_int(ir::simplify(ir::substitute(last, e) - ir::substitute(first, e))))
                return *n + 1;
        }
        return results;
    }
};

std::optional<Windows> windows(const Op &op) {
    if (op.outputs().size() != 1) return std::nullopt;
    Windows w;
    w.output = &op.stage(op.outputs()[0]);
    for (const Stage &s : op.stages()) {
        for (const auto *axes : {&s.axes, &s.reduction_axes}) {
            for (const Axis &a : *axes) {
                if (!constant_extent(a)) return std::nullopt;
            }
        }
        if (s.is_reduction()) {
            if (w.reduction || s.components.size() != 1 || !s.properties.associative || !s.properties.commutative)
                return std::nullopt;
            w.reduction = &s;
            if (s.components.front().type.bytes() == 2) w.lanes = 4;
        } else if (s.kind != Stage::Kind::Padding) {
            if (&s != w.output) return std::nullopt;
            if (s.type.bytes() == 2) w.lanes = 4;
        }
    }
    if (!w.reduction || w.output->axes.size() != w.reduction->axes.size() || op.inputs().size() != 1)
        return std::nullopt;
    if (op.inputs()[0].type.bytes() == 2) w.lanes = 4;
    const auto reads = tensor_reads(w.reduction->components.front().term);
    if (reads.size() != 1) return std::nullopt;
    w.image = reads[0]->name;
    w.index = reads[0]->args;
    if (w.output != w.reduction) { // at its own axes
        for (const ir::Call *read : tensor_reads(w.output->value)) {
            for (size_t d = 0; d < w.output->axes.size(); d++) {
                const ir::Variable *v = read->name == w.reduction->name ? read->args[d].as<ir::Variable>() : nullptr;
                if (!v || v->name != w.output->axes[d].name() || w.reduction->axes[d].name() != v->name)
                    return std::nullopt;
            }
        }
    }
    std::vector<size_t> moved, plain;
    for (size_t d = 0; d < w.reduction->axes.size(); d++) {
        bool alone = false, with = false;
        for (const Expr &e : w.index) {
            if (!ir::expr_uses_var(e, w.reduction->axes[d].name())) continue;
            for (const Axis &k : w.reduction->reduction_axes) with = with || ir::expr_uses_var(e, k.name());
            alone = alone || e.as<ir::Variable>();
        }
        if (with) moved.push_back(d);
        if (alone) plain.push_back(d);
    }
    if (moved.size() != 2 || plain.empty()) return std::nullopt;
    w.row = moved[0], w.column = moved[1];
    w.channel =
        *std::max_element(plain.begin(), plain.end(), [&](size_t a, size_t b) { return w.extent(a) < w.extent(b); });
    return w;
}

// Number of window loops outside the copy of the image: 0; if the smallest tile exceeds LM, 1
// (window rows) or 2.
int64_t loops_around(const Windows &w, int64_t lm, int64_t words) {
    if (words * w.reach(w.row, 1) * w.reach(w.column, 1) <= lm) return 0;
    return words * w.reach(w.column, 1) <= lm ? 1 : 2;
}

} // namespace

bool is_chip_pool(const Op &op) { return windows(op).has_value(); }

ChipPoolParameters chip_pool_parameters(const Op &op, const Machine &machine) {
    const Windows w = *windows(op);
    const int64_t lm = machine.level("LM0").bytes / 8, words = w.lanes * op.inputs()[0].type.bytes() / 8;
    // Sums take a quarter of the registers.
    const int64_t parts = w.lanes * w.reduction->components.front().type.bytes() / 8;
    const int64_t sums = machine.level("GRF0").bytes / 8 / 4 / parts;
    const int64_t all_rows = w.extent(w.row), all_columns = w.extent(w.column);
    const int64_t around = loops_around(w, lm, words);
    const auto fits = [&](int64_t rows, int64_t columns) {
        return rows * columns <= std::max<int64_t>(sums, 4) &&
               words * (around > 0 ? rows : w.reach(w.row, rows)) *
                       (around > 1 ? columns : w.reach(w.column, columns)) <=
                   lm;
    };
    std::vector<int64_t> rows{1}, columns{1};
    for (int64_t n = 2; n < 2 * all_columns; n *= 2) {
        if (std::min(n, all_columns) > columns.back() && fits(1, std::min(n, all_columns)))
            columns.push_back(std::min(n, all_columns));
    }
    for (int64_t n = 2; n < 2 * all_rows; n *= 2) {
        if (std::min(n, all_rows) > rows.back() && fits(std::min(n, all_rows), columns.back()))
            rows.push_back(std::min(n, all_rows));
    }
    ChipPoolParameters p;
    // The units above the MABs divide rows.
    const int64_t units = machine.units_in_all("L1B");
    int64_t wish = 1;
    for (const int64_t n : rows) {
        if (n == 1 || n * units <= all_rows * w.extent(w.channel == 0 ? 1 : 0)) wish = n;
    }
    p.rows = Tile::nearest(wish, rows);
    p.columns = Tile::nearest(columns.back(), columns);
    return p;
}

namespace {

// The output's loops while they are split.
class OutputLoops {
public:
    OutputLoops(StageHandle stage, const Windows &w) : stage_(std::move(stage)), axes_(w.output->axes) {
        for (size_t d = 0; d < axes_.size(); d++) {
            rest_.push_back(axes_[d].name());
            extents_.push_back(w.extent(d));
        }
    }

    // Splits an inner loop with `factor` iterations off an axis.
    std::string split(size_t axis, int64_t factor, const std::string &name) {
        const std::string loop = unit_loop(axis, name);
        stage_.split(rest_[axis], factor, {loop + ".o", loop});
        rest_[axis] = loop + ".o";
        extents_[axis] = (extents_[axis] + factor - 1) / factor;
        return loop;
    }
    // Splits a loop off an axis for the units of a level.
    void distribute(size_t axis, int64_t units, const std::string &level) {
        bound_.push_back({split(axis, units, level), level});
    }
    // Distributes axes over all units of a level that they fill, the longest axis first; over MABs,
    // the channels come before.
    void distribute_over(const std::string &level, int64_t units, size_t channel) {
        if (level == "MAB") distribute_part(channel, units, level);
        std::vector<size_t> axes(extents_.size());
        std::iota(axes.begin(), axes.end(), 0);
        while (units > 1) {
            const auto longest = std::max_element(axes.begin(), axes.end(),
                                                  [&](size_t a, size_t b) { return extents_[a] < extents_[b]; });
            if (longest == axes.end() || extents_[*longest] == 1) break;
            const size_t axis = *longest;
            axes.erase(longest);
            const auto same = [&](const auto &b) { return b.first == unit_loop(axis, level); };
            if (std::none_of(bound_.begin(), bound_.end(), same)) distribute_part(axis, units, level);
        }
    }
    // The loops over units, outermost first.
    std::vector<LoopName> unit_loops() const {
        std::vector<LoopName> loops;
        for (const char *level : {"group", "L2B", "L1B", "MAB", "PE"}) {
            for (size_t b = bound_.size(); b-- > 0;) {
                if (bound_[b].second == level) loops.push_back(bound_[b].first);
            }
        }
        return loops;
    }
    void bind() {
        for (const auto &[loop, level] : bound_) stage_.bind(loop, level);
    }
    // The outer loop of an axis, which remains after all splits.
    const std::string &rest(size_t axis) const { return rest_[axis]; }
    size_t rank() const { return rest_.size(); }

private:
    std::string unit_loop(size_t axis, const std::string &level) const { return axes_[axis].name() + "." + level; }
    // Distributes an axis over a power of two of the units, and divides their number by it.
    void distribute_part(size_t axis, int64_t &units, const std::string &level) {
        int64_t n = 1;
        while (2 * n <= units && n < extents_[axis]) n *= 2;
        if (n == 1) return;
        distribute(axis, n, level);
        units /= n;
    }

    StageHandle stage_;
    const std::vector<Axis> &axes_;
    std::vector<std::string> rest_;                          // of each axis
    std::vector<int64_t> extents_;                           // of `rest_`
    std::vector<std::pair<std::string, std::string>> bound_; // loop, level; innermost first
};

// The loops over a tile and over the window.
struct TileLoops {
    std::string row, column, lanes;
    std::vector<std::string> window;
    int64_t around; // number of window loops outside the copy of the image

    // Appends all but the lanes to `loops`. Returns the loop of the copy; `outer` if no window loop
    // is around it.
    std::string append_to(std::vector<LoopName> &loops, std::string outer) const {
        loops.insert(loops.end(), window.begin(), window.begin() + around);
        loops.push_back(row);
        loops.push_back(column);
        loops.insert(loops.end(), window.begin() + around, window.end());
        return around ? window[size_t(around - 1)] : outer;
    }
};

// Computes the reduction in the output's loop `at`, one tile at a time. Returns the loop of the
// copy of the image.
std::string reduce_in_output(StageHandle S, const Windows &w, const TileLoops &tile, const std::string &at,
                             const ChipPoolParameters &p) {
    const std::string output = w.output->name;
    const auto axis = [&](size_t d) { return w.output->axes[d].name(); };
    S.compute_at(output, at);
    S.split(axis(w.channel), w.lanes, {axis(w.channel) + ".w", tile.lanes});
    S.split(axis(w.row), p.rows, {axis(w.row) + ".o", tile.row});
    S.split(axis(w.column), p.columns, {axis(w.column) + ".o", tile.column});
    std::vector<LoopName> order;
    for (size_t d = 0; d < w.output->axes.size(); d++)
        order.push_back(axis(d) + (d == w.channel ? ".w" : d == w.row || d == w.column ? ".o" : ""));
    const std::string copied = tile.append_to(order, order.back().name);
    order.push_back(tile.lanes);
    S.reorder(order).vectorize(tile.lanes).place_in("GRF1");
    return copied;
}

} // namespace

Schedule schedule_chip_pool(const Op &op, const Machine &machine, const ChipPoolParameters &p) {
    const Windows w = *windows(op);
    Schedule s(op, machine);
    StageHandle Y = s.stage(w.output->name);
    OutputLoops loops(Y, w);
    TileLoops tile;
    tile.lanes = loops.split(w.channel, w.lanes, "v");
    tile.column = loops.split(w.column, p.columns, "t");
    tile.row = loops.split(w.row, p.rows, "t");
    for (const Axis &k : w.reduction->reduction_axes) tile.window.push_back(k.name());
    tile.around = loops_around(w, machine.level("LM0").bytes / 8, w.lanes * op.inputs()[0].type.bytes() / 8);
    loops.distribute(w.channel, machine.unit("PE").count, "PE");
    for (const char *level : {"MAB", "L1B", "L2B", "group"})
        loops.distribute_over(level, machine.unit(level).count, w.channel);

    std::vector<LoopName> order = loops.unit_loops();
    for (size_t d = 0; d < loops.rank(); d++) {
        if (d != w.column) order.push_back(loops.rest(d));
    }
    const std::string at = loops.rest(w.column);
    order.push_back(at);
    std::string copied;
    if (w.output == w.reduction)
        copied = tile.append_to(order, at);
    else
        order.insert(order.end(), {tile.row, tile.column});
    order.push_back(tile.lanes);
    Y.reorder(order);
    loops.bind();
    Y.vectorize(tile.lanes);
    if (w.output == w.reduction)
        s.accumulate_in(Y.name(), "GRF0", at);
    else
        copied = reduce_in_output(s.stage(w.reduction->name), w, tile, at, p);
    s.place_in(w.image, "LM0", w.reduction->name, copied).double_buffer();
    return s;
}

} // namespace kumiko::library
