// Arithmetic with constants becomes part of the weights of the product before it.
#include "graph/rules/constants.h"
#include "graph/rules/rules.h"

#include <algorithm>
#include <cmath>

namespace kumiko::graph {

namespace {

// y = scale · x + shift, for each index of one axis.
struct Affine {
    std::vector<double> scale, shift;
};

// The node as such a function of its input `data`, along an axis of its result, if it is one and
// `data` has the result's extents.
std::optional<Affine> affine_of(const Rewriter &g, const Node &n, const std::string &data, size_t axis) {
    if (!n.domain.empty() || n.outputs.size() != 1) return {};
    const Extents &extents = g.extents(n.outputs[0]);
    const Type type = g.value(data).type;
    if ((type != f32 && type != f64) || g.value(n.outputs[0]).type != type || g.extents(data) != extents) return {};
    const auto count = size_t(extents[axis]);
    if (n.op == "BatchNormalization") {
        if (axis != 1 || n.inputs.size() != 5 || n.inputs[0] != data || n.integer("training_mode", 0) != 0) return {};
        std::vector<std::vector<double>> parameters;
        for (size_t p = 1; p < 5; p++) {
            const Buffer<> *b = g.constant(n, p);
            const auto numbers = b ? numbers_of(*b) : std::nullopt;
            if (!numbers || numbers->size() != count) return {};
            parameters.push_back(*numbers);
        }
        Affine made;
        const double epsilon = n.number("epsilon", 1e-5f);
        for (size_t c = 0; c < count; c++) {
            const double scale = parameters[0][c] / std::sqrt(parameters[3][c] + epsilon);
            made.scale.push_back(scale), made.shift.push_back(parameters[1][c] - parameters[2][c] * scale);
        }
        return made;
    }
    if (n.op == "Neg") return Affine{std::vector<double>(count, -1), std::vector<double>(count, 0)};
    if (n.inputs.size() != 2) return {};
    const bool first = n.inputs[0] == data;
    const Buffer<> *b = g.constant(n, first ? 1 : 0);
    const auto numbers = b ? along_axis(*b, extents, axis) : std::nullopt;
    if (!numbers) return {};
    Affine made{std::vector<double>(count, 1), std::vector<double>(count, 0)};
    for (size_t c = 0; c < count; c++) {
        const double v = (*numbers)[c];
        if (n.op == "Mul")
            made.scale[c] = v;
        else if (n.op == "Div" && first)
            made.scale[c] = 1 / v;
        else if (n.op == "Add")
            made.shift[c] = v;
        else if (n.op == "Sub")
            made.scale[c] = first ? 1 : -1, made.shift[c] = first ? -v : v;
        else
            return {};
    }
    return made;
}

bool is_one(const std::vector<double> &all) {
    return std::all_of(all.begin(), all.end(), [](double v) { return v == 1; });
}
bool is_zero(const std::vector<double> &all) {
    return std::all_of(all.begin(), all.end(), [](double v) { return v == 0; });
}

// A node with constant weights, and where its outputs' channels are.
struct Product {
    const Buffer<> *weights = nullptr;
    const Buffer<> *bias = nullptr;
    size_t weights_input = 1;
    size_t axis = 1;      // of the channels in the result
    bool may_bias = true; // the operator has a bias
};

std::optional<Product> product_of(const Rewriter &g, const Node &n) {
    if (!n.domain.empty() || n.outputs.size() != 1 || n.inputs.size() < 2) return {};
    const bool conv = n.op == "Conv" || n.op == "ConvTranspose", gemm = n.op == "Gemm";
    if (!conv && !gemm && n.op != "MatMul") return {};
    const KnownValue &made = g.value(n.outputs[0]);
    Product p;
    p.weights = g.constant(n, 1);
    if (!p.weights || (made.type != f32 && made.type != f64) || made.constant) return {};
    if (n.has_input(2)) {
        p.bias = g.constant(n, 2);
        if (!p.bias || !along_axis(*p.bias, conv ? Extents{made.extents[1]} : made.extents, conv ? 0 : 1)) return {};
    }
    if (!conv) p.axis = made.extents.size() - 1;
    if (n.op == "MatMul") {
        // A vector of weights has no axis in the result.
        if (p.weights->rank() < 2 || made.extents.empty()) return {};
        p.may_bias = false;
    }
    if (gemm && !p.bias && n.opset < 11) p.may_bias = false; // there the bias is not optional
    return p;
}

// The weights times a factor for each channel of the result, rounded once.
Buffer<> scaled_weights(const Node &n, const Buffer<> &weights, const std::vector<double> &scale) {
    std::vector<double> all = *numbers_of(weights);
    const Extents extents = weights.extents();
    const auto channels = int64_t(scale.size());
    const auto count = int64_t(all.size());
    const auto channel = [&](int64_t at) -> int64_t {
        if (n.op == "Conv" || (n.op == "Gemm" && n.integer("transB", 0) != 0)) return at / (count / channels);
        if (n.op != "ConvTranspose") return at % channels;
        // [inputs, outputs / group, …]
        const int64_t group = n.integer("group", 1), outputs = extents[1];
        const int64_t inside = count / (extents[0] * outputs);
        const int64_t input = at / (outputs * inside), output = at / inside % outputs;
        return input / (extents[0] / group) * outputs + output;
    };
    for (int64_t at = 0; at < count; at++) all[size_t(at)] *= scale[size_t(channel(at))];
    return rounded_to(weights.type(), extents, all);
}

bool fold_into_weights(Rewriter &g, const Node &n) {
    const auto product = product_of(g, n);
    if (!product) return false;
    const Extents &extents = g.extents(n.outputs[0]);
    const auto channels = size_t(extents[product->axis]);
    const Type type = g.value(n.outputs[0]).type;
    std::vector<double> scale(channels, 1), shift(channels, 0);
    if (product->bias) {
        const bool conv = n.op != "Gemm";
        shift = *along_axis(*product->bias, conv ? Extents{extents[1]} : extents, conv ? 0 : 1);
        if (!conv) {
            for (double &v : shift) v *= double(n.number("beta", 1));
        }
    }
    const bool own_weights = g.is_read_once(n.inputs[1]);
    std::vector<const Node *> chain = {&n};
    std::string last = n.outputs[0];
    while (const Node *next = g.only_reader(last)) {
        const auto step = affine_of(g, *next, last, product->axis);
        if (!step || (!is_one(step->scale) && !own_weights)) break;
        if (!product->may_bias && !is_zero(step->shift)) break;
        for (size_t c = 0; c < channels; c++) {
            scale[c] *= step->scale[c];
            shift[c] = shift[c] * step->scale[c] + step->shift[c];
        }
        chain.push_back(next);
        last = next->outputs[0];
    }
    if (chain.size() == 1) return false;
    Node made = n;
    made.outputs = {last};
    if (!is_one(scale)) {
        const Buffer<> weights = scaled_weights(n, *product->weights, scale);
        if (!all_finite(weights)) return false;
        made.inputs[1] = g.add_constant(n.inputs[1], "scaled", weights);
    }
    if (product->may_bias) {
        const Buffer<> bias = rounded_to(type, {int64_t(channels)}, shift);
        if (!all_finite(bias)) return false;
        made.inputs.resize(3);
        made.inputs[2] = g.add_constant(product->bias ? n.inputs[2] : n.inputs[1], "bias", bias);
        made.attributes.erase("beta");
    }
    g.substitute(chain, {{&n, made}});
    return true;
}

bool sum_as_bias(Rewriter &g, const Node &n) {
    const auto product = product_of(g, n);
    if (!product || product->bias || !product->may_bias) return false;
    const Node *next = g.only_reader(n.outputs[0]);
    if (!next || (next->op != "Add" && next->op != "Sub")) return false;
    const auto step = affine_of(g, *next, n.outputs[0], product->axis);
    if (!step || !is_one(step->scale)) return false;
    Node made = n;
    made.outputs = next->outputs;
    made.inputs.resize(3);
    const Buffer<> bias = rounded_to(g.value(n.outputs[0]).type, {int64_t(step->shift.size())}, step->shift);
    made.inputs[2] = g.add_constant(n.inputs[1], "bias", bias);
    made.attributes.erase("beta");
    g.substitute({&n, next}, {{&n, made}});
    return true;
}

// A BatchNormalization that is not behind a product with weights of its own.
bool normalise_by_two(Rewriter &g, const Node &n) {
    if (n.op != "BatchNormalization" || n.inputs.empty() || n.opset < 7) return false;
    const auto step = affine_of(g, n, n.inputs[0], 1);
    if (!step) return false;
    const KnownValue &made = g.value(n.outputs[0]);
    Extents extents(made.extents.size() - 1, 1);
    extents[0] = made.extents[1];
    const Buffer<> scale = rounded_to(made.type, extents, step->scale),
                   shift = rounded_to(made.type, extents, step->shift);
    if (!all_finite(scale) || !all_finite(shift)) return false;
    const std::string product = g.new_name(n.outputs[0] + "/scaled");
    g.substitute({&n},
                 {{&n, make_node(n, "Mul", {n.inputs[0], g.add_constant(n.inputs[1], "scale", scale)}, {product})},
                  {&n, make_node(n, "Add", {product, g.add_constant(n.inputs[2], "shift", shift)}, n.outputs)}});
    return true;
}

} // namespace

std::vector<Rule> weights_rules() {
    return {
        {"fold_into_weights",
         "A Conv, ConvTranspose, Gemm or MatMul with constant weights has one reader, which is a BatchNormalization, "
         "a Neg, or a Mul, Div, Add or Sub with a constant for each channel; so may be the readers after it.",
         "All of them become new weights and a new bias, computed in f64 and rounded once. Weights with other readers "
         "are not scaled.",
         Rounding::Close, "ONNX Runtime: ConvBNFusion, ConvMulFusion, ConvAddFusion, MatmulBNFusion",
         "(float[1, 1, 2, 2] x) => (float[1, 2, 2, 2] y) "
         "<float[2, 1, 1, 1] w = {1, 2}, float[2] s = {3, 4}, float[2] b = {5, 6}, float[2] m = {7, 8}, "
         "float[2] v = {0.99999, 3.99999}, float[2, 1, 1] d = {2, 4}> "
         "{ c = Conv(x, w) n = BatchNormalization(c, s, b, m, v) y = Div(n, d) }",
         "(float[1, 1, 2, 2] x) => (float[1, 2, 2, 2] y) "
         "<float[2, 1, 1, 1] w = {1.5, 1}, float[2] b = {-8, -2.5}> { y = Conv(x, w, b) }",
         fold_into_weights},
        {"sum_as_bias",
         "A Conv, ConvTranspose or Gemm with constant weights and without a bias has one reader, which adds or "
         "subtracts a constant for each channel.",
         "The constant becomes the bias.", Rounding::Exact, "ONNX Runtime: ConvAddFusion",
         "(float[1, 1, 2, 2] x) => (float[1, 2, 2, 2] y) <float[2, 1, 1, 1] w = {1, 2}, float[1, 2, 1, 1] d = {3, 4}> "
         "{ c = Conv(x, w) y = Sub(c, d) }",
         "(float[1, 1, 2, 2] x) => (float[1, 2, 2, 2] y) <float[2, 1, 1, 1] w = {1, 2}, float[2] d = {-3, -4}> "
         "{ y = Conv(x, w, d) }",
         sum_as_bias},
        {"normalise_by_two", "A BatchNormalization with constant parameters has no product before it.",
         "It becomes a Mul and an Add, with constants computed in f64 and rounded once.", Rounding::Close,
         "onnxslim, TVM: SimplifyInference",
         "(float[1, 2, 2, 2] x) => (float[1, 2, 2, 2] y) <float[2] s = {3, 4}, float[2] b = {5, 6}, "
         "float[2] m = {7, 8}, float[2] v = {0.99999, 3.99999}> { y = BatchNormalization(x, s, b, m, v) }",
         "(float[1, 2, 2, 2] x) => (float[1, 2, 2, 2] y) <float[2, 1, 1] s = {3, 2}, float[2, 1, 1] d = {-16, -10}> "
         "{ z = Mul(x, s) y = Add(z, d) }",
         normalise_by_two},
    };
}

} // namespace kumiko::graph
