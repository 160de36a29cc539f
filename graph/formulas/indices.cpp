// Operators whose indices are data: gathers, scatters, one-hot, and those whose result's size
// depends on values.
#include "dsl/reduction.h"
#include "dsl/tuple.h"
#include "dsl/types.h"
#include "graph/formulas/formula.h"

#include <fmt/format.h>

namespace kumiko::graph {

namespace {

// An index of data, which may be counted from the end, into `extent` elements. One outside is an
// error that is found before (Call::require_indices); here it reads some element.
Expr data_index(const Element &index, int64_t extent) {
    const Expr i = cast(i32, index);
    const int e = static_cast<int>(extent);
    return Halide::clamp(Halide::select(i < 0, i + e, i), 0, std::max(e, 1) - 1);
}

Results gather(Call &c) {
    const View x = c.in(0), index = c.in(1);
    const size_t axis = c.axis(c.node.integer("axis", 0), x.rank());
    c.require_indices(1, {x.extents[axis]});
    Extents extents(x.extents.begin(), x.extents.begin() + int64_t(axis));
    extents.insert(extents.end(), index.extents.begin(), index.extents.end());
    extents.insert(extents.end(), x.extents.begin() + int64_t(axis) + 1, x.extents.end());
    return {View{x.type, extents, [=](const Indices &i) {
                     const auto begin = i.begin() + int64_t(axis), end = begin + int64_t(index.rank());
                     Indices own(i.begin(), begin);
                     own.push_back(data_index(index.at({begin, end}), x.extents[axis]));
                     own.insert(own.end(), end, i.end());
                     return x.at(own);
                 }}};
}

Results gather_elements(Call &c) {
    const View x = c.in(0), index = c.in(1);
    const size_t axis = c.axis(c.node.integer("axis", 0), x.rank());
    c.require_indices(1, {x.extents[axis]});
    for (size_t d = 0; d < x.rank(); d++) {
        if (index.rank() != x.rank() || (d != axis && index.extents[d] > x.extents[d]))
            c.fail("its indices have more elements along an axis than the tensor, or other axes");
    }
    return {View{x.type, index.extents, [=](const Indices &i) {
                     Indices own = i;
                     own[axis] = data_index(index.at(i), x.extents[axis]);
                     return x.at(own);
                 }}};
}

Results gather_nd(Call &c) {
    const View x = c.in(0), index = c.in(1);
    const auto batch = static_cast<size_t>(c.node.integer("batch_dims", 0));
    if (index.rank() == 0 || batch >= index.rank()) c.fail("indices of too few axes");
    const auto depth = static_cast<size_t>(index.extents.back());
    if (batch + depth > x.rank()) c.fail(fmt::format("indices of {} axes into a tensor of {}", depth, x.rank()));
    if (depth > 0)
        c.require_indices(1, {x.extents.begin() + int64_t(batch), x.extents.begin() + int64_t(batch + depth)});
    Extents extents(index.extents.begin(), index.extents.end() - 1);
    extents.insert(extents.end(), x.extents.begin() + int64_t(batch + depth), x.extents.end());
    return {View{x.type, extents, [=](const Indices &i) {
                     const auto end = i.begin() + int64_t(index.rank()) - 1;
                     Indices own(i.begin(), i.begin() + int64_t(batch));
                     for (size_t d = 0; d < depth; d++) {
                         Indices at(i.begin(), end);
                         at.push_back(static_cast<int>(d));
                         own.push_back(data_index(index.at(at), x.extents[batch + d]));
                     }
                     own.insert(own.end(), end, i.end());
                     return x.at(own);
                 }}};
}

// Joins the updates that meet an element with it, in the order of the updates. `meets`: whether an
// update is for the element; `update`: its value.
Element with_updates(Call &c, const Element &data, const Element &meets, const Element &update,
                     const std::vector<Axis> &loops, const std::string &how) {
    const Type t = data.type();
    if (how == "none") {
        const auto later = [](Values a, Values b) -> Values {
            return {Halide::select(b[0] != 0, b[0], a[0]), Halide::select(b[0] != 0, b[1], a[1])};
        };
        const Tuple last = reduce(later, {Expr(0), Expr(number(t, 0))}, {Element(cast(i32, meets)), update}, loops);
        return select(Element(last[0]) != 0, Element(last[1]), data);
    }
    const auto folded = [&](Expr (*f)(Expr, Expr), const Element &identity) -> Element {
        return reduce(f, identity, select(meets, update, identity), loops);
    };
    // Integers wrap. Narrow floats are accumulated in f32 and rounded once.
    const Type in = accumulator(t);
    const Type bits = wrapping(in);
    const auto meeting = [&](double identity) -> Element {
        return select(meets, Element(cast(bits, update)), number(bits, identity));
    };
    if (how == "add") return cast(t, cast(bits, data) + sum(meeting(0), loops));
    if (how == "mul") return cast(t, cast(bits, data) * product(meeting(1), loops));
    const bool floating = is_floating(t);
    if (how == "max") {
        const Element least = floating ? number(t, -INFINITY) : Element(t.min());
        return max(data, folded([](Expr a, Expr b) -> Expr { return Halide::max(a, b); }, least));
    }
    if (how == "min") {
        const Element most = floating ? number(t, INFINITY) : Element(t.max());
        return min(data, folded([](Expr a, Expr b) -> Expr { return Halide::min(a, b); }, most));
    }
    c.fail("reduction \"" + how + "\"; legal are none, add, mul, max, min");
}

Results scatter_elements(Call &c) {
    const View x = c.in(0), index = c.in(1), updates = c.in(2);
    const size_t axis = c.axis(c.node.integer("axis", 0), x.rank());
    c.require_indices(1, {x.extents[axis]});
    if (updates.extents != index.extents || index.rank() != x.rank())
        c.fail("its updates and indices have different shapes, or not as many axes as the tensor");
    for (size_t d = 0; d < x.rank(); d++) {
        if (d != axis && index.extents[d] > x.extents[d])
            c.fail(fmt::format("axis {} has {} indices of {} elements", d, index.extents[d], x.extents[d]));
    }
    if (updates.elements() == 0) return {x};
    const std::string how = c.node.text("reduction", "none");
    const Axis loop = c.loop(updates.extents[axis]);
    return {View{x.type, x.extents, [=, &c](const Indices &i) {
                     Indices at = i;
                     std::optional<Element> covered; // where there are fewer updates than elements
                     for (size_t d = 0; d < i.size(); d++) {
                         if (d == axis) continue;
                         const int e = static_cast<int>(updates.extents[d]);
                         if (e == x.extents[d]) continue;
                         covered = covered ? *covered && Element(i[d] < e) : Element(i[d] < e);
                         at[d] = Halide::min(i[d], e - 1);
                     }
                     at[axis] = loop;
                     const Element meets = Element(data_index(index.at(at), x.extents[axis]) == i[axis]);
                     return with_updates(c, x.at(i), covered ? *covered && meets : meets, updates.at(at), {loop}, how);
                 }}};
}

Results scatter_nd(Call &c) {
    const View x = c.in(0), index = c.in(1), updates = c.in(2);
    if (index.rank() == 0 || index.extents.back() > int64_t(x.rank()))
        c.fail("indices of more axes than the tensor has");
    const auto depth = static_cast<size_t>(index.extents.back());
    Extents wanted(index.extents.begin(), index.extents.end() - 1);
    wanted.insert(wanted.end(), x.extents.begin() + int64_t(depth), x.extents.end());
    if (updates.extents != wanted) c.fail("its updates have another shape than its indices and the tensor give");
    if (depth > 0) c.require_indices(1, {x.extents.begin(), x.extents.begin() + int64_t(depth)});
    if (updates.elements() == 0) return {x};
    const std::string how = c.node.text("reduction", "none");
    std::vector<Axis> loops;
    for (size_t d = 0; d + 1 < index.rank(); d++) loops.push_back(c.loop(index.extents[d]));
    if (loops.empty()) loops.push_back(c.loop(1));
    return {View{x.type, x.extents, [=, &c](const Indices &i) {
                     Indices at;
                     for (size_t d = 0; d + 1 < index.rank(); d++) at.push_back(loops[d]);
                     std::optional<Expr> meets;
                     for (size_t d = 0; d < depth; d++) {
                         Indices own = at;
                         own.push_back(static_cast<int>(d));
                         const Expr here = data_index(index.at(own), x.extents[d]) == i[d];
                         meets = meets ? *meets && here : here;
                     }
                     at.insert(at.end(), i.begin() + int64_t(depth), i.end());
                     return with_updates(c, x.at(i), Element(meets.value_or(Halide::Internal::const_true())),
                                         updates.at(at), loops, how);
                 }}};
}

// Writes a sequence into a cache from an index on, which may differ for each batch.
Results tensor_scatter(Call &c) {
    const View cache = c.in(0), update = c.in(1);
    const size_t axis = c.axis(c.node.integer("axis", -2), cache.rank());
    const bool circular = c.choice("mode", "linear", {"linear", "circular"}) == "circular";
    if (axis == 0) c.fail("the axis is that of the batch");
    for (size_t d = 0; d < cache.rank(); d++) {
        if (update.rank() != cache.rank() ||
            (d == axis ? update.extents[d] > cache.extents[d] : update.extents[d] != cache.extents[d]))
            c.fail(fmt::format("an update of the extents [{}] of a cache of [{}]", fmt::join(update.extents, ", "),
                               fmt::join(cache.extents, ", ")));
    }
    if (c.has(2) && c.extents(2) != Extents{cache.extents[0]}) c.fail("not one index for each batch");
    if (update.elements() == 0) return {cache};
    const auto own = static_cast<int>(cache.extents[axis]), more = static_cast<int>(update.extents[axis]);
    const std::optional<View> first = c.has(2) ? std::optional(c.in(2)) : std::nullopt;
    return {View{cache.type, cache.extents, [=](const Indices &i) -> Element {
                     Expr at = first ? i[axis] - cast(i32, first->at({i[0]})) : i[axis];
                     if (circular) at = at % own;
                     Indices from = i;
                     from[axis] = Halide::clamp(at, 0, more - 1);
                     return select(Element(at >= 0 && at < more), update.at(from), cache.at(i));
                 }}};
}

Results one_hot(Call &c) {
    const View index = c.in(0), values = c.in(2);
    const auto depth = static_cast<int64_t>(c.numbers(1).at(0));
    if (depth < 0 || depth > INT32_MAX) c.fail(fmt::format("the depth {}; legal are 0 to {}", depth, INT32_MAX));
    const size_t axis = c.axis(c.node.integer("axis", -1), index.rank() + 1);
    Extents extents = index.extents;
    extents.insert(extents.begin() + int64_t(axis), depth);
    return {View{values.type, extents, [=](const Indices &i) -> Element {
                     Indices own = i;
                     own.erase(own.begin() + int64_t(axis));
                     const Element at = cast(i64, index.at(own)), all = cast(i64, Expr(static_cast<int>(depth)));
                     const Element counted = select(at < number(i64, 0), add(at, all), at);
                     return select(counted == Element(cast(i64, i[axis])), values.at({1}), values.at({0}));
                 }}};
}

bool is_zero(const Buffer<> &dense, int64_t n) {
    const auto *bytes = static_cast<const uint8_t *>(dense.data());
    const Type type = dense.type();
    const int size = type.bytes();
    const bool floating = is_floating(type);
    for (int b = 0; b < size; b++) {
        uint8_t byte = bytes[n * size + b];
        if (floating && b == size - 1) byte &= 0x7f; // the sign of zero
        if (byte) return false;
    }
    return true;
}

// The positions of nonzero elements. Their number depends on the values.
Results non_zero(Call &c) {
    const Buffer<> x = c.value(0).copy();
    const Extents &e = c.extents(0);
    std::vector<std::vector<int64_t>> found(std::max<size_t>(e.size(), 1));
    const int64_t all = static_cast<int64_t>(x.number_of_elements());
    for (int64_t n = 0; n < all; n++) {
        if (is_zero(x, n)) continue;
        int64_t rest = n;
        for (size_t d = e.size(); d-- > 0;) {
            found[d].push_back(rest % e[d]);
            rest /= e[d];
        }
        if (e.empty()) found[0].push_back(0);
    }
    std::vector<int64_t> flat;
    if (e.empty()) return {int64_tensor({}, {0, int64_t(found[0].size())})};
    for (const auto &row : found) flat.insert(flat.end(), row.begin(), row.end());
    return {int64_tensor(flat, {int64_t(e.size()), int64_t(found[0].size())})};
}

// Its number of elements depends on values too.
Results compress(Call &c) {
    const std::vector<int64_t> kept = c.integers(1);
    const Buffer<> x = c.value(0).copy();
    const bool flat = !c.node.has("axis");
    Extents extents = flat ? Extents{int64_t(x.number_of_elements())} : c.extents(0);
    const size_t axis = flat ? 0 : c.axis(c.node.integer("axis", 0), extents.size());
    int64_t inside = x.type().bytes(), outside = 1, count = 0;
    for (size_t d = 0; d < extents.size(); d++) {
        if (d != axis) (d < axis ? outside : inside) *= extents[d];
    }
    const int64_t all = extents[axis], named = std::min<int64_t>(all, int64_t(kept.size()));
    for (int64_t n = 0; n < named; n++) count += kept[size_t(n)] != 0;
    extents[axis] = count;
    Buffer<> made(x.type(), extents);
    auto *to = static_cast<uint8_t *>(made.data());
    const auto *from = static_cast<const uint8_t *>(x.data());
    for (int64_t o = 0; o < outside; o++) {
        for (int64_t n = 0; n < named; n++) {
            if (!kept[size_t(n)]) continue;
            std::copy_n(from + (o * all + n) * inside, inside, to);
            to += inside;
        }
    }
    return {made};
}

} // namespace

std::vector<Operator> index_operators() {
    return {
        {"Gather", 1, gather},
        {"GatherElements", 11, gather_elements},
        {"GatherND", 11, gather_nd},
        {"ScatterElements", 11, scatter_elements},
        {"Scatter", 9, scatter_elements},
        {"ScatterND", 11, scatter_nd},
        {"TensorScatter", 24, tensor_scatter},
        {"OneHot", 9, one_hot},
        {"NonZero", 9, non_zero},
        {"Compress", 9, compress},
    };
}

} // namespace kumiko::graph
