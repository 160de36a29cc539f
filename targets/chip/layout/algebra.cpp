#include "targets/chip/layout/algebra.h"

#include <fmt/format.h>

#include <algorithm>

namespace kumiko::chip {

namespace {

// Whether each digit of the axis is worth exactly the indices inside it: no windows and no origin.
bool is_plain(const LayoutAxis &axis) {
    int64_t inside = 1;
    for (size_t k = axis.factors.size(); k-- > 0;) {
        const Factor &f = axis.factors[k];
        if (f.size > 1 && f.step != inside) return false;
        inside *= f.size;
    }
    return axis.origin == 0;
}

// Converts one digit of a view to digits of an axis, outermost first; `used` counts how far each
// factor of the axis is covered.
std::vector<Factor> cut(const Layout &layout, const ViewFactor &v, std::vector<int64_t> &used) {
    const LayoutAxis &axis = layout.axes()[size_t(v.axis)];
    std::vector<Factor> pieces;
    int64_t left = v.size, step = v.step, inside = 1;
    for (size_t k = axis.factors.size(); k-- > 0 && left > 1;) {
        const Factor &f = axis.factors[k];
        const int64_t outside = inside * f.size;
        if (step < outside && f.size > 1) {
            const auto fail = [&](const char *cause) {
                throw Unsupported(fmt::format("{}: a digit of size {} and step {} on axis {} {} {}_{}:{}; sizes and "
                                              "steps must divide those of the factors",
                                              layout.to_string(), v.size, v.step, v.axis, cause, f.size,
                                              name_of(f.level), f.stride));
            };
            if (step % inside) fail("begins inside");
            const int64_t q = step / inside, fits = (f.size - 1) / q + 1;
            int64_t here = left;
            if (left > fits) {
                here = f.size / q;
                if (f.size % q || left % here) fail("cuts through");
            }
            pieces.insert(pieces.begin(), Factor{here, f.level, f.stride * q});
            used[k] += (here - 1) * q;
            left /= here;
            step *= here;
        }
        inside = outside;
    }
    return pieces;
}

} // namespace

Layout compose(const Layout &layout, const View &view) {
    // The view must not exceed the tensor.
    std::vector<int64_t> last(layout.rank());
    std::vector<int> uses(layout.rank());
    for (const auto &axis : view)
        for (const ViewFactor &v : axis) {
            if (v.axis < 0 || size_t(v.axis) >= layout.rank())
                throw UserError(
                    fmt::format("a view of {} names axis {}; there are {}", layout.to_string(), v.axis, layout.rank()));
            if (v.size < 1 || v.step < 0)
                throw UserError(fmt::format(
                    "a view's digit of size {} and step {}: sizes are at least 1, steps at least 0", v.size, v.step));
            last[size_t(v.axis)] += (v.size - 1) * v.step;
            uses[size_t(v.axis)]++;
        }
    for (size_t a = 0; a < layout.rank(); a++)
        if (last[a] >= layout.axes()[a].extent)
            throw UserError(fmt::format("a view of {} reaches index {} of axis {}, which has {}", layout.to_string(),
                                        last[a], a, layout.axes()[a].extent));
    const auto only_whole = [&](size_t a) {
        throw Unsupported(
            fmt::format("{}: axis {} has windows or an origin, and can only be used whole", layout.to_string(), a));
    };
    for (size_t a = 0; a < layout.rank(); a++)
        if (!uses[a] && !is_plain(layout.axes()[a])) only_whole(a);
    std::vector<LayoutAxis> axes;
    std::vector<std::vector<int64_t>> used(layout.rank());
    for (size_t a = 0; a < layout.rank(); a++) used[a].resize(layout.axes()[a].factors.size());
    for (const auto &axis : view) {
        LayoutAxis made;
        int64_t extent = 1;
        for (const ViewFactor &v : axis) {
            extent *= v.size;
            const LayoutAxis &from = layout.axes()[size_t(v.axis)];
            // The axis, or a prefix of it, unchanged.
            if (axis.size() == 1 && uses[size_t(v.axis)] == 1 && v.step == 1) {
                made = from;
            } else if (!is_plain(from)) {
                only_whole(size_t(v.axis));
            } else if (v.size > 1 && v.step == 0) {
                made.factors.push_back({v.size, Level::Address, 0});
            } else {
                for (const Factor &f : cut(layout, v, used[size_t(v.axis)])) made.factors.push_back(f);
            }
        }
        made.extent = extent;
        axes.push_back(std::move(made));
    }
    // Digits whose sum exceeds a factor carry into the next factor; that is not a product of
    // factors.
    for (size_t a = 0; a < layout.rank(); a++)
        for (size_t k = 0; k < used[a].size(); k++)
            if (used[a][k] >= layout.axes()[a].factors[k].size)
                throw Unsupported(fmt::format("{}: digits of the view add up to {} on axis {} in a factor of size {}, "
                                              "which carries; digits must not overlap",
                                              layout.to_string(), used[a][k], a, layout.axes()[a].factors[k].size));
    // A level that was named stays named, even if its digits are gone.
    unsigned fixed = layout.fixed();
    for (int l = 0; l <= int(Level::Pe); l++)
        if (layout.names(Level(l))) fixed |= 1u << l;
    Layout made(layout.type(), std::move(axes), layout.copies(), layout.offset(), 0);
    unsigned missing = layout.fixed();
    for (int l = 0; l <= int(Level::Pe); l++)
        if (fixed >> l & 1 && !made.names(Level(l))) missing |= 1u << l;
    return Layout(layout.type(), made.axes(), layout.copies(), layout.offset(), missing);
}

Layout divide(const Layout &layout, int axis, int64_t inner) {
    if (axis < 0 || size_t(axis) >= layout.rank())
        throw UserError(fmt::format("{} has no axis {}; it has {}", layout.to_string(), axis, layout.rank()));
    const int64_t extent = layout.axes()[size_t(axis)].extent;
    if (inner < 1 || extent % inner)
        throw UserError(fmt::format("axis {} of {} has {} elements, which do not divide into tiles of {}", axis,
                                    layout.to_string(), extent, inner));
    View view;
    for (int a = 0; a < int(layout.rank()); a++) {
        const int64_t e = layout.axes()[size_t(a)].extent;
        if (a == axis) {
            view.push_back({{e / inner, a, inner}});
            view.push_back({{inner, a, 1}});
        } else {
            view.push_back({{e, a, 1}});
        }
    }
    return compose(layout, view);
}

Layout permute(const Layout &layout, const std::vector<int> &order) {
    std::vector<bool> seen(layout.rank());
    bool whole = order.size() == layout.rank();
    View view;
    for (const int a : order) {
        whole = whole && a >= 0 && size_t(a) < layout.rank() && !seen[size_t(a)];
        if (!whole) break;
        seen[size_t(a)] = true;
        view.push_back({{layout.axes()[size_t(a)].extent, a, 1}});
    }
    if (!whole)
        throw UserError(
            fmt::format("an order of {} names each of its {} axes once", layout.to_string(), layout.rank()));
    return compose(layout, view);
}

Layout slice(const Layout &layout, int axis, int64_t index) {
    if (axis < 0 || size_t(axis) >= layout.rank() || index < 0 || index >= layout.axes()[size_t(axis)].extent)
        throw UserError(fmt::format("{} has no index {} on axis {}", layout.to_string(), index, axis));
    const LayoutAxis &from = layout.axes()[size_t(axis)];
    if (!is_plain(from))
        throw Unsupported(fmt::format("{}: axis {} has windows or an origin: an index of it has several places",
                                      layout.to_string(), axis));
    std::vector<LayoutAxis> axes = layout.axes();
    axes.erase(axes.begin() + axis);
    std::array<int64_t, layout_level_count> offset = layout.offset();
    unsigned fixed = layout.fixed();
    for (const Factor &f : from.factors) {
        offset[size_t(f.level)] += index / f.step % f.size * f.stride;
        if (f.level <= Level::Pe) fixed |= 1u << int(f.level);
    }
    return Layout(layout.type(), std::move(axes), layout.copies(), offset, fixed);
}

Layout canonical(const Layout &layout) {
    unsigned fixed = layout.fixed();
    const auto keep_level = [&](const Factor &f) {
        if (f.level <= Level::Pe) fixed |= 1u << int(f.level);
    };
    std::vector<LayoutAxis> axes;
    for (const LayoutAxis &axis : layout.axes()) {
        LayoutAxis made{{}, axis.extent, axis.origin};
        const int64_t last = axis.extent - 1 - axis.origin;
        bool whole = false; // an outer digit is used
        for (Factor f : axis.factors) {
            keep_level(f);
            if (!whole) f.size = std::min(f.size, last / f.step + 1);
            if (f.size == 1) continue;
            whole = true;
            if (!made.factors.empty()) {
                Factor &outer = made.factors.back();
                if (outer.level == f.level && outer.stride == f.size * f.stride && outer.step == f.size * f.step) {
                    outer = {outer.size * f.size, f.level, f.stride, f.step};
                    continue;
                }
            }
            made.factors.push_back(f);
        }
        if (!made.factors.empty()) { // merged digits may exceed the extent
            Factor &outer = made.factors.front();
            outer.size = std::min(outer.size, last / outer.step + 1);
        }
        axes.push_back(std::move(made));
    }
    std::vector<Factor> copies;
    for (const Factor &f : layout.copies()) {
        keep_level(f);
        if (f.size > 1) copies.push_back(f);
    }
    std::sort(copies.begin(), copies.end(), [](const Factor &a, const Factor &b) {
        return a.level != b.level ? a.level < b.level : a.stride > b.stride;
    });
    for (size_t k = 0; k + 1 < copies.size();) {
        if (copies[k].level == copies[k + 1].level && copies[k].stride == copies[k + 1].size * copies[k + 1].stride) {
            copies[k] = {copies[k].size * copies[k + 1].size, copies[k].level, copies[k + 1].stride, 1};
            copies.erase(copies.begin() + int64_t(k) + 1);
        } else {
            k++;
        }
    }
    // Only levels that nothing else names must be marked as named by the offset.
    Layout made(layout.type(), axes, copies, layout.offset(), 0);
    unsigned missing = 0;
    for (int l = 0; l <= int(Level::Pe); l++)
        if (fixed >> l & 1 && !made.names(Level(l))) missing |= 1u << l;
    return Layout(layout.type(), std::move(axes), std::move(copies), layout.offset(), missing);
}

bool equal(const Layout &a, const Layout &b, Memory memory, const sim::Config &config) {
    if (a.type() != b.type() || a.extents() != b.extents()) return false;
    if (canonical(a) == canonical(b)) return true;
    // The coarsest forms of one map can differ if there are windows or copies, so compare every
    // element.
    std::vector<int64_t> index(a.rank());
    for (;;) {
        if (places_of({memory, a, 0}, index, config) != places_of({memory, b, 0}, index, config)) return false;
        size_t k = a.rank();
        while (k > 0 && ++index[k - 1] == a.axes()[k - 1].extent) index[--k] = 0;
        if (k == 0) return true;
    }
}

} // namespace kumiko::chip
