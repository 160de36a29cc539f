// Fourier transforms as products with matrices of sines and cosines, and what belongs to spectra.
#include "dsl/buffer_elements.h"
#include "dsl/halide_passes.h"
#include "dsl/math.h"
#include "dsl/reduction.h"
#include "dsl/types.h"
#include "graph/formulas/formula.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace kumiko::graph {

namespace {

// The cosine or sine of 2π · a · b / length, for a and b from 0 on.
Element rotation(bool sine, const Expr &a, const Expr &b, int64_t length, Type type) {
    const Expr steps = Halide::cast(i64, a) * Halide::cast(i64, b) % Halide::Internal::make_const(i64, length);
    const Element angle = Element(cast(f64, Element(steps))) * number(f64, 2 * M_PI / static_cast<double>(length));
    return cast(type, sine ? Element(sin(angle)) : Element(cos(angle)));
}

// The matrix of rotations [terms, bins], stored once.
View rotations(Call &c, bool sine, int64_t terms, int64_t bins, int64_t length, Type type) {
    if (terms > INT32_MAX / std::max<int64_t>(bins, 1))
        c.unsupported(
            fmt::format("a transform of {} elements into {}; supported are products up to {}", terms, bins, INT32_MAX));
    return c.stored({type, {terms, bins}, [=](const Indices &i) { return rotation(sine, i[0], i[1], length, type); }},
                    sine ? "sines" : "cosines");
}

// The transform along an axis. `x`: real parts, or real and imaginary ones, along the last axis.
// A signal shorter than `length` ends with zeros.
View transformed(Call &c, const View &x, size_t axis, int64_t length, bool inverse, bool one_sided) {
    const Type type = x.type, t = accumulator(type);
    const bool complex = x.extents.back() == 2;
    const int64_t half = length / 2 + 1;
    Extents extents = x.extents;
    if (inverse && one_sided) {
        // Half of a spectrum gives real numbers; the other half is its conjugate.
        const int64_t terms = std::min(x.extents[axis], half);
        const Axis loop = c.loop(terms);
        const View cosines = rotations(c, false, terms, length, length, t),
                   sines = rotations(c, true, terms, length, length, t);
        extents[axis] = length, extents.back() = 1;
        return {type, extents, [=](const Indices &i) -> Element {
                    Indices at = i;
                    at[axis] = loop, at.back() = 0;
                    Element term = Element(cast(t, x.at(at))) * cosines.at({loop, i[axis]});
                    if (complex) {
                        at.back() = 1;
                        term = term - Element(cast(t, x.at(at))) * sines.at({loop, i[axis]});
                    }
                    Expr alone = loop == 0;
                    if (length % 2 == 0) alone = alone || loop == static_cast<int>(half - 1);
                    const Element total = sum(select(Element(alone), term, term * number(t, 2)), loop);
                    return cast(type, total / number(t, static_cast<double>(length)));
                }};
    }
    const int64_t terms = std::min(x.extents[axis], length), bins = one_sided ? half : length;
    const Axis loop = c.loop(terms);
    const View cosines = rotations(c, false, terms, bins, length, t),
               sines = rotations(c, true, terms, bins, length, t);
    extents[axis] = bins, extents.back() = 2;
    return {type, extents, [=](const Indices &i) -> Element {
                Indices at = i;
                at[axis] = loop;
                const Element real = Element(i.back() == 0);
                const Element cosine = cosines.at({loop, i[axis]}), sine = sines.at({loop, i[axis]});
                const Element turned = inverse ? Element(-sine) : sine;
                Element term = number(t, 0);
                if (complex) {
                    const Element own = cast(t, x.at(at));
                    at.back() = 1 - i.back();
                    term = own * cosine + Element(cast(t, x.at(at))) * select(real, turned, -turned);
                } else {
                    at.back() = 0;
                    term = Element(cast(t, x.at(at))) * select(real, cosine, -turned);
                }
                const Element total = sum(term, loop);
                return cast(type, inverse ? Element(total / number(t, static_cast<double>(length))) : total);
            }};
}

int64_t length_of(const Call &c, size_t input, int64_t otherwise) {
    const int64_t length = c.has(input) ? c.integers(input).at(0) : otherwise;
    if (length < 1 || length > INT32_MAX)
        c.fail(fmt::format("a length of {} elements; legal are 1 to {}", length, INT32_MAX));
    return length;
}

Results dft(Call &c) {
    const View x = c.in(0);
    if (x.rank() < 2 || (x.extents.back() != 1 && x.extents.back() != 2))
        c.fail("the last axis of its input has neither 1 element, for real numbers, nor 2, for complex ones");
    const bool inverse = c.node.integer("inverse", 0) != 0, one_sided = c.node.integer("onesided", 0) != 0;
    const int64_t named = c.node.opset < 20 ? c.node.integer("axis", 1) : c.has(2) ? c.integers(2).at(0) : -2;
    const size_t axis = c.axis(named, x.rank());
    if (axis + 1 == x.rank()) c.fail("the axis is that of real and imaginary parts");
    if (one_sided && !inverse && x.extents.back() == 2) c.fail("one side of the transform of complex numbers");
    const int64_t own = x.extents[axis];
    const int64_t length = length_of(c, 1, inverse && one_sided ? 2 * (own - 1) : own);
    return {transformed(c, x, axis, length, inverse, one_sided)};
}

Results stft(Call &c) {
    const View x = c.in(0);
    const bool complex = x.rank() == 3 && x.extents[2] == 2;
    if (x.rank() != 2 && x.rank() != 3) c.fail(fmt::format("a signal of {} axes; legal are 2 and 3", x.rank()));
    if (x.rank() == 3 && x.extents[2] != 1 && !complex)
        c.fail("the last axis of the signal has neither 1 element, for real numbers, nor 2, for complex ones");
    const int64_t step = length_of(c, 1, 0), all = x.extents[1];
    if (c.has(2) && c.extents(2).size() != 1) c.fail("a window of other than one axis");
    const int64_t length = length_of(c, 3, c.has(2) ? c.extents(2)[0] : all);
    if (c.has(2) && c.extents(2)[0] != length)
        c.fail(fmt::format("a window of {} elements for frames of {}", c.extents(2)[0], length));
    if (length > all) c.fail(fmt::format("frames of {} elements of a signal of {}", length, all));
    const bool one_sided = c.node.integer("onesided", 1) != 0;
    if (one_sided && complex) c.fail("one side of the transform of complex numbers");
    const int64_t frames = (all - length) / step + 1;
    const std::optional<View> window = c.has(2) ? std::optional(c.in(2)) : std::nullopt;
    const View framed = {x.type, {x.extents[0], frames, length, complex ? 2 : 1}, [=](const Indices &i) -> Element {
                             Indices at = {i[0], i[1] * static_cast<int>(step) + i[2]};
                             if (x.rank() == 3) at.push_back(i[3]);
                             const Element e = x.at(at);
                             return window ? Element(e * window->at({i[2]})) : e;
                         }};
    return {transformed(c, framed, 2, length, false, one_sided)};
}

// Its size and its elements are of inputs that are constants in every model.
Results mel_weight_matrix(Call &c) {
    const int64_t bins = c.integers(0).at(0), length = c.integers(1).at(0);
    const double rate = static_cast<double>(c.integers(2).at(0)), low = c.numbers(3).at(0), high = c.numbers(4).at(0);
    if (bins < 1 || bins > INT32_MAX || length < 1 || length > INT32_MAX || rate < 1)
        c.fail(fmt::format("{} bins, a transform of {} elements and a rate of {}; legal are numbers from 1 on", bins,
                           length, rate));
    const auto mel = [](double hertz) { return 2595 * std::log1p(hertz / 700) / std::log(10.0); };
    const double step = (mel(high) - mel(low)) / static_cast<double>(bins + 2);
    const int64_t spectrum = length / 2 + 1;
    std::vector<int64_t> edges;
    for (int64_t n = 0; n < bins + 2; n++) {
        const double hertz = 700 * std::expm1((static_cast<double>(n) * step + mel(low)) / 2595 * std::log(10.0));
        const double edge = std::floor(static_cast<double>(length + 1) * hertz / rate);
        if (!(edge >= 0 && edge < static_cast<double>(spectrum)))
            c.fail(
                fmt::format("the frequency {} is beyond a spectrum of {} bins at the rate {}", hertz, spectrum, rate));
        edges.push_back(static_cast<int64_t>(edge));
    }
    const auto type = type_of_onnx(static_cast<int>(c.node.integer("output_datatype", 1)));
    if (!type) c.unsupported("an output of other elements than numbers");
    Buffer<> made(*type, {spectrum, bins});
    std::vector<double> values(static_cast<size_t>(spectrum * bins), 0);
    const auto at = [&](int64_t row, int64_t bin) -> double & { return values[static_cast<size_t>(row * bins + bin)]; };
    for (int64_t b = 0; b < bins; b++) {
        const int64_t left = edges[size_t(b)], centre = edges[size_t(b + 1)], right = edges[size_t(b + 2)];
        if (centre == left) at(centre, b) = 1;
        for (int64_t r = left; r <= centre && centre > left; r++)
            at(r, b) = static_cast<double>(r - left) / static_cast<double>(centre - left);
        for (int64_t r = centre; r < right; r++)
            at(r, b) = static_cast<double>(right - r) / static_cast<double>(right - centre);
    }
    auto *bytes = static_cast<uint8_t *>(made.data());
    for (size_t n = 0; n < values.size(); n++)
        write_element(*type, bytes + n * static_cast<size_t>(type->bytes()), values[n]);
    return {made};
}

} // namespace

std::vector<Operator> signal_operators() {
    return {{"DFT", 17, dft}, {"STFT", 17, stft}, {"MelWeightMatrix", 17, mel_weight_matrix}};
}

} // namespace kumiko::graph
