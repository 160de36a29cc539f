// Normalizations by means, deviations and norms.
#include "dsl/math.h"
#include "dsl/padding.h"
#include "dsl/reduction.h"
#include "dsl/types.h"
#include "graph/formulas/formula.h"

#include <fmt/format.h>
#include <numeric>

namespace kumiko::graph {

namespace {

// The view's mean over axes, kept with one element.
View mean(Call &c, const View &v, const std::vector<size_t> &axes, const std::string &name) {
    std::vector<Axis> loops;
    double count = 1;
    Extents extents = v.extents;
    for (const size_t d : axes) {
        loops.push_back(c.loop(v.extents[d]));
        count *= static_cast<double>(v.extents[d]);
        extents[d] = 1;
    }
    const View sums = {v.type, extents, [=](const Indices &i) -> Element {
                           Indices at = i;
                           for (size_t n = 0; n < axes.size(); n++) at[axes[n]] = loops[n];
                           return loops.empty() ? v.at(at) : Element(sum(v.at(at), loops));
                       }};
    return c.stored(mapped(sums, v.type, [=](const Element &e) -> Element { return e / number(v.type, count); }), name);
}

struct Normalized {
    View values, mean, variance, inverse; // inverse of the deviation
};

// (x − mean) / sqrt(variance + epsilon) over axes, the variance in a second pass.
Normalized normalized(Call &c, const View &x, const std::vector<size_t> &axes, double epsilon) {
    const View centre = mean(c, x, axes, "mean");
    const View off = c.stored(zipped(c, x, centre, x.type, subtract), "off");
    const View variance =
        mean(c, mapped(off, x.type, [](const Element &e) { return multiply(e, e); }), axes, "variance");
    const View inverse = mapped(variance, x.type, [=](const Element &e) -> Element {
        return number(e.type(), 1) / sqrt(Element(e + number(e.type(), epsilon)));
    });
    return {zipped(c, off, inverse, x.type, multiply), centre, variance, inverse};
}

std::vector<size_t> from(size_t first, size_t rank) {
    std::vector<size_t> all(rank < first ? 0 : rank - first);
    std::iota(all.begin(), all.end(), first);
    return all;
}

// A parameter per channel, for an image [batch, channels, …].
View per_channel(const View &v, size_t rank) {
    Extents extents(rank, 1);
    extents[1] = v.elements();
    return reshaped(v, extents);
}

// Normalizes by the mean and variance of the batch, and updates the running ones.
Results batch_normalization_in_training(Call &c) {
    const View x = c.in(0);
    const Type t = x.type, in = c.type(3) == f64 || t == f64 ? f64 : f32;
    const double momentum = c.node.number("momentum", 0.9f);
    std::vector<size_t> axes = from(2, x.rank());
    axes.insert(axes.begin(), 0);
    const auto channel = [&](size_t n) { return per_channel(converted(c.in(n), in), x.rank()); };
    const Normalized n = normalized(c, converted(x, in), axes, c.node.number("epsilon", 1e-5f));
    const auto moved = [&](const View &batch, size_t input) {
        return zipped(c, converted(c.in(input), in), reshaped(batch, {x.extents[1]}), in,
                      [=](const Element &old, const Element &own) -> Element {
                          return old * number(in, momentum) + own * number(in, 1 - momentum);
                      });
    };
    const View made = zipped(c, zipped(c, n.values, channel(1), in, multiply), channel(2), in, add);
    return {converted(made, t), converted(moved(n.mean, 3), c.type(3)), converted(moved(n.variance, 4), c.type(4))};
}

Results batch_normalization(Call &c) {
    if (c.node.opset < 7 && c.node.integer("is_test", 0) == 0 && c.wants(1))
        c.unsupported("training; supported is inference, and training from opset 14 on");
    const View x = c.in(0);
    if (x.rank() < 2) c.fail("an image of fewer than 2 axes");
    if (c.node.integer("training_mode", 0) != 0) return batch_normalization_in_training(c);
    const Type t = x.type, in = c.type(3) == f64 || t == f64 ? f64 : f32;
    const double epsilon = c.node.number("epsilon", 1e-5f);
    const auto channel = [&](size_t n) { return per_channel(converted(c.in(n), in), x.rank()); };
    const View scale = channel(1), bias = channel(2), centre = channel(3), variance = channel(4);
    const View inverse =
        mapped(variance, in, [=](const Element &e) -> Element { return sqrt(Element(e + number(in, epsilon))); });
    View made = zipped(c, converted(x, in), centre, in, subtract);
    made = zipped(c, made, inverse, in, [](const Element &a, const Element &b) -> Element { return a / b; });
    return {converted(zipped(c, zipped(c, made, scale, in, multiply), bias, in, add), t)};
}

Results instance_normalization(Call &c) {
    const View x = c.in(0);
    if (x.rank() < 3) c.fail("an image of fewer than 3 axes");
    const Type t = x.type, in = accumulator(t);
    const Normalized n = normalized(c, converted(x, in), from(2, x.rank()), c.node.number("epsilon", 1e-5f));
    const View scale = per_channel(converted(c.in(1), in), x.rank()),
               bias = per_channel(converted(c.in(2), in), x.rank());
    return {converted(zipped(c, zipped(c, n.values, scale, in, multiply), bias, in, add), t)};
}

Results group_normalization(Call &c) {
    const View x = c.in(0);
    const Type t = x.type, in = accumulator(t);
    const int64_t groups = c.node.integer("num_groups", 1), channels = x.extents.at(1);
    if (groups < 1 || channels % groups) c.fail(fmt::format("{} groups of {} channels", groups, channels));
    const View grouped =
        reshaped(converted(x, in), {x.extents[0], groups, x.elements() / std::max<int64_t>(x.extents[0] * groups, 1)});
    const Normalized n = normalized(c, grouped, {2}, c.node.number("epsilon", 1e-5f));
    View made = reshaped(n.values, x.extents);
    const auto parameter = [&](size_t input) {
        View v = converted(c.in(input), in);
        if (c.node.opset >= 21) return per_channel(v, x.rank());
        // one for each group
        const View own = v;
        const View all = {
            in, {channels}, [=](const Indices &i) { return own.at({i[0] / static_cast<int>(channels / groups)}); }};
        return per_channel(all, x.rank());
    };
    return {converted(zipped(c, zipped(c, made, parameter(1), in, multiply), parameter(2), in, add), t)};
}

Results layer_normalization(Call &c) {
    const View x = c.in(0);
    const Type t = x.type, in = accumulator(t);
    const size_t axis = c.axis(c.node.integer("axis", -1), x.rank());
    const Normalized n = normalized(c, converted(x, in), from(axis, x.rank()), c.node.number("epsilon", 1e-5f));
    View made = zipped(c, n.values, converted(c.in(1), in), in, multiply);
    if (c.has(2)) made = zipped(c, made, converted(c.in(2), in), in, add);
    const auto type = type_of_onnx(static_cast<int>(c.node.integer("stash_type", 1)));
    Results all = {converted(made, t)};
    if (c.wants(1))
        all.push_back(converted(n.mean, type.value_or(f32)));
    else if (c.wants(2))
        c.unsupported("the deviation without the mean");
    if (c.wants(2)) all.push_back(converted(n.inverse, type.value_or(f32)));
    return all;
}

Results rms_normalization(Call &c) {
    const View x = c.in(0);
    const Type t = x.type, in = accumulator(t);
    const size_t axis = c.axis(c.node.integer("axis", -1), x.rank());
    const double epsilon = c.node.number("epsilon", 1e-5f);
    const View wide = converted(x, in);
    const View squares =
        mean(c, mapped(wide, in, [](const Element &e) { return multiply(e, e); }), from(axis, x.rank()), "squares");
    const View scaled = zipped(c, wide, squares, in, [=](const Element &e, const Element &s) -> Element {
        return e / sqrt(Element(s + number(in, epsilon)));
    });
    return {converted(zipped(c, scaled, converted(c.in(1), in), in, multiply), t)};
}

Results mean_variance_normalization(Call &c) {
    const View x = c.in(0);
    const Type t = x.type, in = accumulator(t);
    const std::vector<size_t> axes = c.axes(c.node.integers("axes", {0, 2, 3}), x.rank());
    const View wide = converted(x, in), centre = mean(c, wide, axes, "mean");
    const View off = c.stored(zipped(c, wide, centre, in, subtract), "off");
    const View variance = mean(c, mapped(off, in, [](const Element &e) { return multiply(e, e); }), axes, "variance");
    return {converted(
        zipped(c, off, variance, in,
               [=](const Element &e, const Element &v) -> Element { return e / (sqrt(v) + number(in, 1e-9)); }),
        t)};
}

Results lp_normalization(Call &c) {
    const View x = c.in(0);
    const Type t = x.type, in = accumulator(t);
    const size_t axis = c.axis(c.node.integer("axis", -1), x.rank());
    const bool absolute = c.node.integer("p", 2) == 1;
    const View wide = converted(x, in);
    const Axis loop = c.loop(x.extents[axis]);
    Extents extents = x.extents;
    extents[axis] = 1;
    const View sums = c.stored({in, extents,
                                [=](const Indices &i) -> Element {
                                    Indices at = i;
                                    at[axis] = loop;
                                    const Element e = wide.at(at);
                                    return sum(absolute ? Element(abs(e)) : Element(e * e), loop);
                                }},
                               "norm");
    return {converted(zipped(c, wide, sums, in,
                             [=](const Element &e, const Element &s) -> Element {
                                 const Element by = absolute ? s : Element(sqrt(s));
                                 return select(by == number(in, 0), number(in, 0), e / by);
                             }),
                      t)};
}

Results local_response_normalization(Call &c) {
    const View x = c.in(0);
    const Type t = x.type, in = accumulator(t);
    const double alpha = c.node.number("alpha", 1e-4f), beta = c.node.number("beta", 0.75f),
                 bias = c.node.number("bias", 1);
    const int64_t size = c.node.integer("size", 1);
    if (x.rank() < 2 || size < 1) c.fail("a size below 1, or a tensor without channels");
    const Tensor padded = zero_padded(c.tensor(0));
    const Axis loop = c.loop(size);
    const int before = static_cast<int>((size - 1) / 2);
    const View squares = c.stored({in, x.extents,
                                   [=](const Indices &i) -> Element {
                                       Indices at = i;
                                       at[1] = i[1] + loop - before;
                                       const Element e = cast(in, padded.at(at));
                                       return sum(e * e, loop);
                                   }},
                                  "squares");
    return {converted(zipped(c, converted(x, in), squares, in,
                             [=](const Element &e, const Element &s) -> Element {
                                 return e / pow(Element(number(in, bias) +
                                                        number(in, alpha / static_cast<double>(size)) * s),
                                                number(in, beta));
                             }),
                      t)};
}

} // namespace

std::vector<Operator> normalization_operators() {
    return {
        {"BatchNormalization", 1, batch_normalization, "", Dependence::Pointwise},
        {"InstanceNormalization", 1, instance_normalization},
        {"GroupNormalization", 18, group_normalization},
        {"LayerNormalization", 17, layer_normalization},
        {"RMSNormalization", 23, rms_normalization},
        {"MeanVarianceNormalization", 9, mean_variance_normalization},
        {"LpNormalization", 1, lp_normalization},
        {"LRN", 1, local_response_normalization},
    };
}

} // namespace kumiko::graph
