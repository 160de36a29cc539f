// Products of matrices and tensors, and convolutions.
#include "dsl/math.h"
#include "dsl/padding.h"
#include "dsl/recurrence.h"
#include "dsl/reduction.h"
#include "dsl/types.h"
#include "graph/formulas/formula.h"
#include "graph/formulas/scales.h"
#include "graph/formulas/windows.h"

#include <fmt/format.h>

#include <numeric>

namespace kumiko::graph {

namespace {

// The sum of products of two elements, in the type that sums are accumulated in. Integers wrap.
Element sum_of_products(const Element &a, const Element &b, const std::vector<Axis> &loops, Type type) {
    int64_t count = 1;
    for (const Axis &k : loops) count *= *Halide::Internal::as_const_int(k.extent());
    const Type bits = summing(type, a.type(), b.type(), count);
    const Element x = cast(bits, a), y = cast(bits, b);
    return cast(type, loops.empty() ? x * y : Element(sum(x * y, loops)));
}

// NumPy's matmul: vectors on either side, and batches that broadcast.
View matmul(Call &c, View a, View b, Type type) {
    const bool vector_a = a.rank() == 1, vector_b = b.rank() == 1;
    if (a.rank() == 0 || b.rank() == 0) c.fail("a product of a tensor without axes");
    if (vector_a) a = reshaped(a, {1, a.extents[0]});
    if (vector_b) b = reshaped(b, {b.extents[0], 1});
    const int64_t m = a.extents[a.rank() - 2], k = a.extents.back(), n = b.extents.back();
    if (b.extents[b.rank() - 2] != k)
        c.fail(fmt::format("a product of rows of {} elements with columns of {}", k, b.extents[b.rank() - 2]));
    const Extents batches = broadcast(
        c, {Extents(a.extents.begin(), a.extents.end() - 2), Extents(b.extents.begin(), b.extents.end() - 2)});
    Extents of_a = batches, of_b = batches, made = batches;
    of_a.insert(of_a.end(), {m, k}), of_b.insert(of_b.end(), {k, n}), made.insert(made.end(), {m, n});
    a = broadcast(a, of_a), b = broadcast(b, of_b);
    const Axis loop = c.loop(k);
    const View product = {type, made, [=](const Indices &i) {
                              Indices row = i, column = i;
                              row.back() = loop, column[column.size() - 2] = loop;
                              return sum_of_products(a.at(row), b.at(column), {loop}, type);
                          }};
    Extents left = batches;
    if (!vector_a) left.push_back(m);
    if (!vector_b) left.push_back(n);
    return reshaped(product, left);
}

Results matmul_operator(Call &c) {
    const Type t = c.type(0);
    return {converted(matmul(c, c.in(0), c.in(1), accumulator(t)), t)};
}

Results gemm(Call &c) {
    const bool ta = c.node.integer("transA", 0) != 0, tb = c.node.integer("transB", 0) != 0;
    const float alpha = c.node.number("alpha", 1), beta = c.node.number("beta", 1);
    const Type t = c.type(0), in = accumulator(t);
    View a = c.in(0), b = c.in(1);
    if (a.rank() != 2 || b.rank() != 2) c.fail("Gemm of other than matrices");
    if (ta) a = transposed(a, {1, 0});
    if (tb) b = transposed(b, {1, 0});
    View made = matmul(c, a, b, in);
    const auto scaled = [&](const View &v, float by) {
        if (by == 1) return v;
        return mapped(v, in, [by, in](const Element &e) -> Element {
            if (in.is_float()) return e * number(in, by);
            return cast(in, cast(f64, e) * Element(Expr(double(by))));
        });
    };
    made = scaled(made, alpha);
    if (c.has(2)) made = zipped(c, made, broadcast(scaled(converted(c.in(2), in), beta), made.extents), in, add);
    return {converted(made, t)};
}

// A zero point broadcast along an axis of a matrix: per row of A, per column of B. Without one, or
// if it is 0, the elements keep their type.
View less_zero_point(Call &c, const View &v, size_t input, bool rows) {
    if (has_no_zero_point(c, input)) return v;
    const View wide = converted(v, i32);
    View zero = converted(c.in(input), i32);
    if (zero.rank() == 1 && zero.extents[0] == 1) zero = reshaped(zero, {});
    if (rows && zero.rank() == 1) zero = reshaped(zero, {zero.extents[0], 1});
    return zipped(c, wide, zero, i32, subtract);
}

Results matmul_integer(Call &c) {
    require_zero_point(c, 2, 0), require_zero_point(c, 3, 1);
    return {matmul(c, less_zero_point(c, c.in(0), 2, true), less_zero_point(c, c.in(1), 3, false), i32)};
}

Results conv_operator(Call &c) {
    const Type t = c.type(0), in = accumulator(t);
    const Window window = window_of(c, c.extents(0), kernel_of(c, 1));
    const auto tile = winograd_tile_of(c.node);
    View made = tile ? convolved_by_winograd(c, c.stored_input(0), c.in(1), window, *tile)
                     : convolved(c, c.stored_input(0), c.in(1), window, in);
    if (c.has(2)) made = with_bias(c, made, 2);
    return {converted(made, t)};
}

Results conv_integer(Call &c) {
    require_zero_point(c, 2, 0), require_zero_point(c, 3, 1);
    Window window = window_of(c, c.extents(0), kernel_of(c, 1));
    View weights = c.in(1);
    if (!has_no_zero_point(c, 3)) {
        const View zero = c.in(3);
        const View own = converted(weights, i32);
        weights.type = i32;
        weights.at = [=](const Indices &i) -> Element {
            const Indices at = zero.rank() == 0 || zero.elements() == 1 ? Indices(zero.rank(), 0) : Indices{i[0]};
            return subtract(own.at(i), Element(cast(i32, zero.at(at))));
        };
    }
    if (!has_no_zero_point(c, 2))
        return {convolved(c, c.stage(less_zero_point(c, c.in(0), 2, false), "image"), weights, window, i32)};
    // A Pad of the same op is the window's padding.
    const auto around = c.in(0).padding;
    const auto none = [](int64_t n) { return n == 0; };
    if (!around || around->before[0] != 0 || around->before[1] != 0 ||
        !std::all_of(window.before.begin(), window.before.end(), none))
        return {convolved(c, c.tensor(0), weights, window, i32)};
    for (size_t d = 0; d < window.before.size(); d++) window.before[d] = around->before[2 + d];
    return {convolved(c, around->inner, weights, window, i32, around->number)};
}

// Where a transposed convolution puts the elements of its image: element i, by weight k, at
// i * stride + k * dilation - before.
struct Spreading {
    std::vector<int64_t> strides, dilations, before;
    int64_t group, outputs; // groups, and outputs of each
};

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

// The phases of one axis. Outputs that are equal modulo the stride read the same weights: these
// are at `step` * n + `shift(phase)`, and element `place` - n of the image meets weight n.
//
// With dilation d and stride s, output o meets weight k if o + before - k * d is a multiple of s:
// for one of s / gcd(s, d) residues of k, or for none.
struct Phases {
    int stride, before, taps;
    int64_t places;
    std::vector<int> first; // weight of each phase; the number of weights if there is none
    int step, back;         // from tap to tap: weights, and elements of the image

    Phases(int64_t s, int64_t d, int64_t before, int64_t kernel, int64_t out)
        : stride(static_cast<int>(s)), before(static_cast<int>(before)) {
        const int64_t common = std::gcd(s, d);
        step = static_cast<int>(s / common), back = static_cast<int>(d / common);
        taps = static_cast<int>((kernel + step - 1) / step);
        places = floor_div(out - 1 + before, s) - floor_div(before, s) + 1;
        for (int64_t phase = 0; phase < s; phase++) {
            int64_t k = 0;
            while (k < step && (phase - k * d) % s != 0) k++;
            first.push_back(static_cast<int>(k < step ? k : kernel));
        }
    }
    int lowest() const { return static_cast<int>(floor_div(before, stride)); }
    // Whether each phase has as many weights as there are taps.
    bool equal(int64_t kernel) const {
        return std::all_of(first.begin(), first.end(), [&](int f) { return f + (taps - 1) * step < kernel; });
    }
    // Whether all elements that windows meet are in an image of this extent.
    bool inside(int64_t dilation, int64_t extent) const {
        return dilation == 1 && lowest() >= (taps - 1) * back && places - 1 + lowest() < extent;
    }
};

// Each output element gathers the image elements whose windows reach it. Those of one phase are a
// convolution of their own, so no products with zeros between the elements are computed.
View by_phases(Call &c, const Spreading &s, const Extents &extents, Type type) {
    const Tensor x = c.tensor(0), w = c.tensor(1);
    const Extents image = view_of(x).extents, weights = view_of(w).extents;
    const size_t dims = s.strides.size();
    const int64_t per = image[1] / s.group;
    std::vector<Phases> phases;
    std::vector<Axis> loops = {c.loop(per)}, of_image, of_weights;
    Extents staged = {extents[0], extents[1]};
    for (size_t d = 0; d < dims; d++) {
        phases.emplace_back(s.strides[d], s.dilations[d], s.before[d], weights[2 + d], extents[2 + d]);
        loops.push_back(c.loop(phases[d].taps));
        if (!phases[d].inside(s.dilations[d], image[2 + d])) of_image.push_back(x.axes()[2 + d]);
        if (!phases[d].equal(weights[2 + d])) of_weights.push_back(w.axes()[2 + d]);
    }
    for (const Phases &p : phases) staged.push_back(p.stride);
    for (const Phases &p : phases) staged.push_back(p.places);
    const Tensor around = of_image.empty() ? x : zero_padded(x, of_image);
    const Tensor taps = of_weights.empty() ? w : zero_padded(w, of_weights);
    const int64_t outputs = s.outputs, group = s.group;
    const std::vector<int64_t> dilations = s.dilations, kernel(weights.begin() + 2, weights.end());
    const View sums = {
        type, staged, [=](const Indices &i) -> Element {
            Indices at = {i[0], group == 1 ? Expr(loops[0])
                                           : i[1] / static_cast<int>(outputs) * static_cast<int>(per) + loops[0]};
            std::optional<Element> reached; // where phases have different numbers of weights
            Indices weight = {at[1], group == 1 ? i[1] : i[1] % static_cast<int>(outputs)};
            for (size_t d = 0; d < dims; d++) {
                const Phases &p = phases[d];
                const Expr phase = i[2 + d], place = i[2 + dims + d];
                const auto dilation = static_cast<int>(dilations[d]);
                Expr first = p.first.back();
                for (int n = p.stride - 1; n-- > 0;) first = Halide::select(phase == n, p.first[size_t(n)], first);
                if (dilation == 1) first = phase; // weight n of phase n
                weight.push_back(loops[1 + d] * p.step + first);
                if (!p.equal(kernel[d])) {
                    const Element here = Element(weight.back() < static_cast<int>(kernel[d]));
                    reached = reached ? *reached && here : here;
                }
                // (o + before - k * dilation) / stride, with o + before = place * stride + phase
                Expr from = place + p.lowest() - loops[1 + d] * p.back;
                if (dilation != 1) from = from + (phase - first * dilation) / p.stride;
                at.push_back(from);
            }
            const Element term = Element(cast(type, around.at(at))) * Element(cast(type, taps.at(weight)));
            // Not by a weight of zero: the element may be infinite.
            return sum(reached ? select(*reached, term, number(type, 0)) : term, loops);
        }};
    const View stored = c.stored(sums, "phase");
    return {type, extents, [=](const Indices &i) {
                Indices at = {i[0], i[1]};
                for (size_t d = 0; d < dims; d++) at.push_back((i[2 + d] + phases[d].before) % phases[d].stride);
                for (size_t d = 0; d < dims; d++)
                    at.push_back((i[2 + d] + phases[d].before) / phases[d].stride - phases[d].lowest());
                return stored.at(at);
            }};
}

Results conv_transpose(Call &c) {
    const View x = c.in(0), w = c.in(1);
    const int64_t group = c.node.integer("group", 1);
    if (x.rank() < 3 || w.rank() != x.rank() || group < 1 || x.extents[1] != w.extents[0] || x.extents[1] % group)
        c.fail("an image [batch, channels, …] and weights [channels, outputs / group, …] that do not fit");
    const size_t dims = x.rank() - 2;
    const int64_t outputs = w.extents[1];
    const std::vector<int64_t> ones(dims, 1), zeros(dims, 0);
    const auto strides = c.lengths("strides", c.node.integers("strides", ones), dims, 1),
               dilations = c.lengths("dilations", c.node.integers("dilations", ones), dims, 1),
               more = c.lengths("output_padding", c.node.integers("output_padding", zeros), dims, -INT32_MAX);
    std::vector<int64_t> wanted = c.node.integers("output_shape"),
                         pads = c.node.integers("pads", std::vector<int64_t>(2 * dims, 0));
    pads = c.lengths("pads", pads, 2 * dims, -INT32_MAX);
    if (!wanted.empty()) wanted = c.lengths("output_shape", wanted, std::max(dims, wanted.size()), 0);
    const std::string automatic = c.choice("auto_pad", "NOTSET", paddings());
    Extents extents = {x.extents[0], outputs * group};
    for (size_t d = 0; d < dims; d++) {
        const int64_t kernel = (w.extents[2 + d] - 1) * dilations[d] + 1, in = x.extents[2 + d];
        int64_t out = strides[d] * (in - 1) + more[d] + kernel - pads[d] - pads[d + dims];
        const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
        if (!wanted.empty() || same) {
            const int64_t to = wanted.empty() ? in * strides[d] : wanted[wanted.size() - dims + d];
            const int64_t total = strides[d] * (in - 1) + more[d] + kernel - to;
            const int64_t half = total >= 0 ? total / 2 : -((1 - total) / 2); // rounded down
            pads[d] = automatic == "SAME_UPPER" ? half : total - half;
            pads[d + dims] = total - pads[d];
            out = to;
        } else if (automatic == "VALID") {
            out += pads[d] + pads[d + dims];
            pads[d] = pads[d + dims] = 0;
        }
        extents.push_back(out);
    }
    const Type t = x.type, in = accumulator(t);
    if (x.elements() == 0) return {constant_view(t, extents, [t](const Indices &) -> Expr { return number(t, 0); })};
    View made = by_phases(c, {strides, dilations, pads, group, outputs}, extents, in);
    if (c.has(2)) made = with_bias(c, made, 2);
    return {converted(made, t)};
}

// An equation of Einsum: a letter for each axis of the operands and of the result. Digits are the
// axes of an ellipsis, counted from the last.
struct Equation {
    std::vector<std::string> terms; // of the operands
    std::string result;
    std::map<char, int64_t> extents; // by letter
};

// Replaces ellipses by digits. Returns the digits of the longest, in the order of axes.
std::string expand_ellipses(const Call &c, const std::string &equation, std::vector<std::string> &terms) {
    const auto digits = [](size_t axes) {
        std::string all;
        for (size_t d = axes; d-- > 0;) all += static_cast<char>('0' + d);
        return all;
    };
    size_t most = 0;
    for (size_t n = 0; n < terms.size(); n++) {
        const size_t dots = terms[n].find("...");
        if (dots == std::string::npos) continue;
        const size_t named = terms[n].size() - 3, rank = c.extents(n).size();
        if (named > rank || rank - named > 9)
            c.fail(fmt::format("\"{}\" names more axes than input {} has", equation, n));
        terms[n].replace(dots, 3, digits(rank - named));
        most = std::max(most, rank - named);
    }
    return digits(most);
}

Equation read_equation(const Call &c) {
    std::string equation;
    for (const char l : c.node.text("equation", "")) {
        if (l != ' ') equation += l;
    }
    const size_t arrow = equation.find("->");
    Equation e;
    e.terms.resize(1);
    for (const char l : equation.substr(0, arrow)) {
        if (l == ',')
            e.terms.emplace_back();
        else
            e.terms.back() += l;
    }
    if (e.terms.size() != c.size())
        c.fail(fmt::format("\"{}\" has {} operands for {} inputs", equation, e.terms.size(), c.size()));
    const std::string implied = expand_ellipses(c, equation, e.terms);
    std::map<char, int> uses;
    for (size_t n = 0; n < e.terms.size(); n++) {
        if (e.terms[n].size() != c.extents(n).size())
            c.fail(fmt::format("\"{}\" does not name the axes of input {}", equation, n));
        for (size_t d = 0; d < e.terms[n].size(); d++) {
            int64_t &extent = e.extents[e.terms[n][d]];
            extent = std::max(extent, c.extents(n)[d]);
            uses[e.terms[n][d]]++;
        }
    }
    if (arrow != std::string::npos) {
        e.result = equation.substr(arrow + 2);
        const size_t dots = e.result.find("...");
        if (dots != std::string::npos) e.result.replace(dots, 3, implied);
    } else {
        e.result = implied;
        for (const auto &[letter, count] : uses) {
            if (count == 1 && std::isalpha(static_cast<unsigned char>(letter))) e.result += letter;
        }
    }
    for (const char l : e.result) {
        if (!e.extents.count(l)) c.fail(fmt::format("\"{}\" has \"{}\" in its result alone", equation, l));
    }
    return e;
}

Results einsum(Call &c) {
    const Equation e = read_equation(c);
    std::map<char, Axis> loops;
    std::vector<Axis> reduced;
    for (const auto &[letter, extent] : e.extents) {
        if (e.result.find(letter) != std::string::npos) continue;
        reduced.push_back(loops.emplace(letter, c.loop(extent)).first->second);
    }
    Extents made;
    for (const char l : e.result) made.push_back(e.extents.at(l));
    const Type t = c.type(0), in = accumulator(t);
    std::vector<View> inputs;
    for (size_t n = 0; n < e.terms.size(); n++) inputs.push_back(c.in(n));
    const View all = {in, made, [=](const Indices &i) -> Element {
                          std::optional<Element> product;
                          for (size_t n = 0; n < inputs.size(); n++) {
                              Indices at;
                              for (size_t d = 0; d < e.terms[n].size(); d++) {
                                  const char l = e.terms[n][d];
                                  const size_t place = e.result.find(l);
                                  at.push_back(inputs[n].extents[d] == 1    ? Expr(0)
                                               : place != std::string::npos ? i[place]
                                                                            : Expr(loops.at(l)));
                              }
                              const Element factor = cast(in, inputs[n].at(at));
                              product = product ? multiply(*product, factor) : factor;
                          }
                          if (reduced.empty()) return *product;
                          const Type bits = wrapping(in);
                          return cast(in, sum(Element(cast(bits, *product)), reduced));
                      }};
    return {converted(all, t)};
}

// By elimination with the largest pivot of each column: a recurrence over its steps. An exchange of
// two rows changes the sign of one of them, so that it keeps the determinant.
Results det(Call &c) {
    const View x = c.in(0);
    if (x.rank() < 2 || x.extents.back() != x.extents[x.rank() - 2]) c.fail("a matrix that is not square");
    const int64_t size = x.extents.back();
    const Type type = x.type, t = accumulator(type);
    const Extents outside(x.extents.begin(), x.extents.end() - 2);
    if (size == 0) return {constant_view(type, outside, [=](const Indices &) { return number(type, 1); })};
    int64_t batches = 1;
    for (const int64_t e : outside) batches *= e;
    const View matrices = reshaped(x, {batches, size, size});
    const Axis k = c.ranging("k", size), b = c.ranging("b", batches), i = c.ranging("i", size),
               j = c.ranging("j", size);
    const Axis row = c.loop(size), step = c.loop(size);
    const Tensor rows = recurrence("rows", t, {k, b, i, j}, number(t, 0), [&](const Earlier &earlier) {
        // The matrix before the step.
        const Tensor before =
            compute("before", {k, b, i, j},
                    select(Element(k == 0), Element(cast(t, matrices.at({b, i, j}))), earlier(k - 1, b, i, j)));
        const Element candidate = select(Element(row >= k), abs(before(k, b, row, k)), number(t, -1));
        const Tensor place = compute("place", {k, b}, argmax(candidate, row));
        const Expr p = Halide::clamp(place(k, b), 0, static_cast<int>(size - 1));
        const auto exchanged = [&](const Expr &column) -> Element {
            const Element own = before(k, b, i, column), pivots = before(k, b, p, column);
            const Element from_top = -before(k, b, k, column);
            return select(Element(i == k), pivots, Element(i == p), from_top, own);
        };
        const Element pivot = before(k, b, p, k);
        const Element factor = select(pivot == number(t, 0), number(t, 0), exchanged(k) / pivot);
        return select(Element(i > k), exchanged(j) - factor * before(k, b, p, j), exchanged(j));
    });
    const View made = {type, {batches}, [=](const Indices &at) -> Element {
                           return cast(type, product(rows(step, at[0], step, step), step));
                       }};
    return {reshaped(made, outside)};
}

} // namespace

std::vector<Operator> product_operators() {
    return {
        {"MatMul", 1, matmul_operator},
        {"Gemm", 7, gemm},
        {"MatMulInteger", 10, matmul_integer, "", Dependence::Other, true},
        {"Conv", 1, conv_operator},
        {"ConvInteger", 10, conv_integer, "", Dependence::Other, true},
        {"ConvTranspose", 1, conv_transpose},
        {"Einsum", 12, einsum},
        {"Det", 11, det},
    };
}

} // namespace kumiko::graph
