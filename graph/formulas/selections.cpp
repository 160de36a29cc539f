// Operators that select elements by their values, so that the size of the result depends on them.
#include "dsl/buffer_elements.h"
#include "dsl/types.h"
#include "graph/formulas/formula.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <numeric>

namespace kumiko::graph {

namespace {

// --- NonMaxSuppression ---

struct Box {
    float top, left, bottom, right;
    float area() const { return (bottom - top) * (right - left); }
};

Box box_of(const float *p, bool by_centre) {
    if (by_centre) return {p[1] - p[3] / 2, p[0] - p[2] / 2, p[1] + p[3] / 2, p[0] + p[2] / 2};
    return {std::min(p[0], p[2]), std::min(p[1], p[3]), std::max(p[0], p[2]), std::max(p[1], p[3])};
}

// Whether the boxes' intersection is more than a part of their union.
bool overlap(const Box &a, const Box &b, float threshold) {
    const float width = std::min(a.right, b.right) - std::max(a.left, b.left),
                height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
    if (!(width > 0 && height > 0)) return false;
    const float common = width * height, all = a.area() + b.area() - common;
    if (!(a.area() > 0 && b.area() > 0 && all > 0)) return false;
    return common / all > threshold;
}

Results non_max_suppression(Call &c) {
    const Extents &b = c.extents(0), &s = c.extents(1);
    if (b.size() != 3 || b[2] != 4 || s.size() != 3 || s[0] != b[0] || s[2] != b[1] || c.type(0) != f32 ||
        c.type(1) != f32)
        c.fail("its inputs are not boxes [batches, boxes, 4] and scores [batches, classes, boxes] of f32");
    const bool by_centre = c.node.integer("center_point_box", 0) != 0;
    const int64_t most = c.has(2) ? std::max<int64_t>(c.integers(2).at(0), 0) : 0;
    const float threshold = c.has(3) ? static_cast<float>(c.numbers(3).at(0)) : 0;
    const bool has_least = c.has(4);
    const float least = has_least ? static_cast<float>(c.numbers(4).at(0)) : 0;
    const Buffer<> boxes = c.value(0).copy(), scores = c.value(1).copy();
    const auto *corners = static_cast<const float *>(boxes.data()), *score = static_cast<const float *>(scores.data());
    std::vector<int64_t> flat;
    for (int64_t batch = 0; batch < b[0]; batch++) {
        for (int64_t kind = 0; kind < s[1]; kind++) {
            const float *own = score + (batch * s[1] + kind) * s[2];
            std::vector<int64_t> order;
            for (int64_t n = 0; n < b[1]; n++) {
                if (!has_least || own[n] > least) order.push_back(n);
            }
            std::stable_sort(order.begin(), order.end(), [&](int64_t x, int64_t y) { return own[x] > own[y]; });
            std::vector<Box> kept;
            for (const int64_t n : order) {
                if (static_cast<int64_t>(kept.size()) >= most) break;
                const Box box = box_of(corners + (batch * b[1] + n) * 4, by_centre);
                if (std::any_of(kept.begin(), kept.end(), [&](const Box &k) { return overlap(box, k, threshold); }))
                    continue;
                kept.push_back(box);
                flat.insert(flat.end(), {batch, kind, n});
            }
        }
    }
    return {int64_tensor(flat, {static_cast<int64_t>(flat.size()) / 3, 3})};
}

// --- Unique ---

// Compares two elements of a type: negative, 0 or positive. NaN is equal to itself and the largest.
int compared(Type type, const uint8_t *a, const uint8_t *b) {
    if (type.bits() == 64 && !is_floating(type)) { // a double has not all of these
        uint64_t x = 0, y = 0;
        std::memcpy(&x, a, sizeof x), std::memcpy(&y, b, sizeof y);
        if (x == y) return 0;
        return (type.is_int() ? static_cast<int64_t>(x) < static_cast<int64_t>(y) : x < y) ? -1 : 1;
    }
    const double x = read_element(type, a), y = read_element(type, b);
    if (std::isnan(x) || std::isnan(y)) return int(std::isnan(x)) - int(std::isnan(y));
    return x < y ? -1 : x > y ? 1 : 0;
}

Results unique(Call &c) {
    const Buffer<> x = c.value(0).copy();
    const bool flat = !c.node.has("axis"), sorted = c.node.integer("sorted", 1) != 0;
    Extents extents = flat ? Extents{static_cast<int64_t>(x.number_of_elements())} : c.extents(0);
    const size_t axis = flat ? 0 : c.axis(c.node.integer("axis", 0), extents.size());
    const Type type = x.type();
    const int64_t bytes = type.bytes(), all = extents[axis];
    int64_t inside = 1, outside = 1;
    for (size_t d = 0; d < extents.size(); d++) {
        if (d != axis) (d < axis ? outside : inside) *= extents[d];
    }
    const auto *from = static_cast<const uint8_t *>(x.data());
    // Slices along the axis in the order of their elements.
    const auto order = [&](int64_t a, int64_t b) {
        for (int64_t o = 0; o < outside; o++) {
            for (int64_t n = 0; n < inside; n++) {
                const int result = compared(type, from + ((o * all + a) * inside + n) * bytes,
                                            from + ((o * all + b) * inside + n) * bytes);
                if (result != 0) return result;
            }
        }
        return 0;
    };
    std::vector<int64_t> slices(static_cast<size_t>(all));
    std::iota(slices.begin(), slices.end(), 0);
    std::stable_sort(slices.begin(), slices.end(), [&](int64_t a, int64_t b) { return order(a, b) < 0; });
    std::vector<int64_t> firsts, counts, group(static_cast<size_t>(all)); // of equal slices
    for (size_t n = 0; n < slices.size(); n++) {
        if (n == 0 || order(slices[n - 1], slices[n]) != 0) firsts.push_back(slices[n]), counts.push_back(0);
        counts.back()++;
        group[size_t(slices[n])] = static_cast<int64_t>(firsts.size()) - 1;
    }
    std::vector<size_t> results(firsts.size());
    std::iota(results.begin(), results.end(), 0);
    if (!sorted) std::sort(results.begin(), results.end(), [&](size_t a, size_t b) { return firsts[a] < firsts[b]; });
    std::vector<int64_t> place(firsts.size()), indices, inverse, how_many;
    for (size_t n = 0; n < results.size(); n++) {
        place[results[n]] = static_cast<int64_t>(n);
        indices.push_back(firsts[results[n]]), how_many.push_back(counts[results[n]]);
    }
    for (const int64_t g : group) inverse.push_back(place[size_t(g)]);
    extents[axis] = static_cast<int64_t>(results.size());
    Buffer<> made(type, extents);
    auto *to = static_cast<uint8_t *>(made.data());
    for (int64_t o = 0; o < outside; o++) {
        for (const int64_t n : indices) {
            std::memcpy(to, from + (o * all + n) * inside * bytes, static_cast<size_t>(inside * bytes));
            to += inside * bytes;
        }
    }
    const Extents found = {extents[axis]};
    return {made, int64_tensor(indices, found), int64_tensor(inverse, {all}), int64_tensor(how_many, found)};
}

} // namespace

std::vector<Operator> selection_operators() {
    return {{"NonMaxSuppression", 10, non_max_suppression}, {"Unique", 11, unique}};
}

} // namespace kumiko::graph
