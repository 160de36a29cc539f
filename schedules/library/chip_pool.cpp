#include "schedules/library/chip_pool.h"

#include "machine/machine.h"
#include "schedules/library/structure.h"

#include <algorithm>

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

Schedule schedule_chip_pool(const Op &op, const Machine &machine, const ChipPoolParameters &p) {
    const Windows w = *windows(op);
    Schedule s(op, machine);
    StageHandle Y = s.stage(w.output->name);
    std::vector<std::string> rest;
    std::vector<int64_t> extent;
    for (size_t d = 0; d < w.output->axes.size(); d++) {
        rest.push_back(w.output->axes[d].name());
        extent.push_back(w.extent(d));
    }
    const auto cut = [&](size_t axis, int64_t factor, const std::string &name) {
        const std::string loop = w.output->axes[axis].name() + "." + name;
        Y.split(rest[axis], factor, {loop + ".o", loop});
        rest[axis] = loop + ".o";
        extent[axis] = (extent[axis] + factor - 1) / factor;
        return loop;
    };
    std::vector<std::pair<std::string, std::string>> bound; // loop, level; innermost first
    const auto deal = [&](size_t axis, int64_t &left, const std::string &level) {
        int64_t n = 1;
        while (2 * n <= left && n < extent[axis]) n *= 2;
        if (n == 1) return;
        bound.push_back({cut(axis, n, level), level});
        left /= n;
    };
    const std::string lanes = cut(w.channel, w.lanes, "v");
    const std::string column = cut(w.column, p.columns, "t"), row = cut(w.row, p.rows, "t");
    bound.push_back({cut(w.channel, machine.unit("PE").count, "PE"), "PE"});
    for (const char *level : {"MAB", "L1B", "L2B", "group"}) {
        int64_t left = machine.unit(level).count;
        if (std::string(level) == "MAB") deal(w.channel, left, level);
        std::vector<size_t> axes;
        for (size_t d = 0; d < extent.size(); d++) axes.push_back(d);
        while (left > 1) { // longest axis first
            const auto most =
                std::max_element(axes.begin(), axes.end(), [&](size_t a, size_t b) { return extent[a] < extent[b]; });
            if (most == axes.end() || extent[*most] == 1) break;
            const size_t axis = *most;
            axes.erase(most);
            if (std::any_of(bound.begin(), bound.end(), [&](const auto &b) {
                    return b.second == level && b.first == w.output->axes[axis].name() + "." + level;
                }))
                continue;
            deal(axis, left, level);
        }
    }
    std::vector<LoopName> order;
    for (const char *level : {"group", "L2B", "L1B", "MAB", "PE"}) {
        for (size_t b = bound.size(); b-- > 0;) {
            if (bound[b].second == level) order.push_back(bound[b].first);
        }
    }
    for (size_t d = 0; d < rest.size(); d++) {
        if (d != w.column) order.push_back(rest[d]);
    }
    const std::string at = rest[w.column];
    order.push_back(at);
    const bool whole = w.output == w.reduction;
    std::vector<std::string> taps;
    for (const Axis &k : w.reduction->reduction_axes) taps.push_back(k.name());
    const int64_t around = loops_around(w, machine.level("LM0").bytes / 8, w.lanes * op.inputs()[0].type.bytes() / 8);
    // Appends the loops over taps, rows and columns; returns the loop of the copy.
    const auto inside = [&](std::vector<LoopName> &loops, std::string outside) {
        loops.insert(loops.end(), taps.begin(), taps.begin() + around);
        loops.push_back(row);
        loops.push_back(column);
        loops.insert(loops.end(), taps.begin() + around, taps.end());
        return around ? taps[size_t(around - 1)] : outside;
    };
    std::string copied;
    if (whole) {
        copied = inside(order, at);
    } else {
        order.push_back(row);
        order.push_back(column);
    }
    order.push_back(lanes);
    Y.reorder(order);
    for (const auto &[loop, level] : bound) Y.bind(loop, level);
    Y.vectorize(lanes);
    if (whole) {
        s.accumulate_in(Y.name(), "GRF0", at);
        s.place_in(w.image, "LM0", Y.name(), copied).double_buffer();
        return s;
    }
    StageHandle S = s.stage(w.reduction->name);
    S.compute_at(Y.name(), at);
    const auto axis = [&](size_t d) { return w.output->axes[d].name(); };
    S.split(axis(w.channel), w.lanes, {axis(w.channel) + ".w", lanes});
    S.split(axis(w.row), p.rows, {axis(w.row) + ".o", row});
    S.split(axis(w.column), p.columns, {axis(w.column) + ".o", column});
    std::vector<LoopName> own;
    for (size_t d = 0; d < rest.size(); d++)
        own.push_back(d == w.channel ? axis(d) + ".w" : d == w.row || d == w.column ? axis(d) + ".o" : axis(d));
    copied = inside(own, own.back().name);
    own.push_back(lanes);
    S.reorder(own).vectorize(lanes).place_in("GRF1");
    s.place_in(w.image, "LM0", S.name(), copied).double_buffer();
    return s;
}

} // namespace kumiko::library
