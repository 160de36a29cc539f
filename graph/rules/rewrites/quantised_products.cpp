// Products of quantised tensors become sums of products of integers. The sum is i32. One product of
// f32 converts it to the result:
//
//   MatMulInteger or ConvInteger → Add (bias, i32) → Cast → Mul (f32) → QuantizeLinear (scale 1)
//
// One file, because all rules write the same nodes.
#include "graph/rules/constants.h"
#include "graph/rules/quantised.h"
#include "graph/rules/rules.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace kumiko::graph {

namespace {

// The first opsets with ConvInteger and MatMulInteger, and with Pads of bytes.
constexpr int integer_products = 10, pad_of_bytes = 11;

// Constant weights less their zero point, as bytes. If no byte holds the differences, another
// number is subtracted, and `rest` is still to be subtracted from each.
struct CentredWeights {
    Buffer<> bytes;            // i8; u8 if they do not fit
    std::vector<int64_t> sums; // of the bytes, for each channel of the result
    int64_t count = 0;         // bytes of a channel
    int64_t rest = 0;
};

// `axis`: of the channels of the result. `zero`: one, or one for each channel. `whole`: requires a
// `rest` of 0. Nothing if the weights are not i8 or u8, or if no such bytes exist.
std::optional<CentredWeights> centred(const Buffer<> &constant, size_t axis, const std::vector<int64_t> &zero,
                                      bool whole) {
    const auto numbers = numbers_of(constant);
    const Type type = constant.type();
    if (!numbers || (type != i8 && type != u8)) return {};
    const Extents extents = constant.extents();
    const int64_t channels = extents[axis];
    int64_t inside = 1;
    for (size_t d = axis + 1; d < extents.size(); d++) inside *= extents[d];
    const auto less = [&](const std::vector<int64_t> &by) {
        std::vector<int64_t> all;
        for (size_t at = 0; at < numbers->size(); at++)
            all.push_back(int64_t((*numbers)[at]) - by[by.size() == 1 ? 0 : size_t(int64_t(at) / inside % channels)]);
        return all;
    };
    const auto fit = [](const std::vector<int64_t> &all, Type t) {
        return std::all_of(all.begin(), all.end(), [&](int64_t v) { return v >= least(t) && v <= most(t); });
    };
    CentredWeights made;
    made.count = int64_t(numbers->size()) / channels;
    std::vector<int64_t> all = less(zero);
    const bool same = std::all_of(zero.begin(), zero.end(), [&](int64_t z) { return z == zero[0]; });
    Type held = i8;
    if (!fit(all, i8) && same && !whole) {
        const int64_t middle = type == u8 ? 128 : 0;
        all = less({middle});
        made.rest = zero[0] - middle;
    } else if (!fit(all, i8)) {
        held = u8;
        if (!fit(all, u8)) return {};
    }
    made.sums.assign(size_t(channels), 0);
    made.bytes = Buffer<>(held, extents);
    auto *bytes = static_cast<uint8_t *>(made.bytes.data());
    for (size_t at = 0; at < all.size(); at++) {
        bytes[at] = uint8_t(all[at]);
        made.sums[size_t(int64_t(at) / inside % channels)] += all[at];
    }
    return made;
}

Buffer<> integers(Type type, const Extents &extents, const std::vector<int64_t> &values) {
    Buffer<> made(type, extents);
    for (size_t n = 0; n < values.size(); n++)
        std::memcpy(static_cast<uint8_t *>(made.data()) + n * size_t(type.bytes()), &values[n], size_t(type.bytes()));
    return made;
}

// A product of a tensor of bytes with constant weights.
struct IntegerProduct {
    const Node *node = nullptr; // Conv, MatMul, Gemm, or one of integers
    std::string bytes;          // the tensor
    Type type;                  // of its elements
    int64_t zero = 0;           // its zero point
    CentredWeights weights;
    bool window = false; // a convolution
};

// Writes the nodes of a product of integers.
class ProductWriter {
public:
    ProductWriter(Rewriter &g, const IntegerProduct &p) : g_(g), p_(p), channels_(int64_t(p.weights.sums.size())) {
        const size_t rank = g.extents(p.node->outputs[0]).size();
        along_ = Extents(p.window ? rank - 1 : 1, 1);
        along_[0] = channels_;
    }

    // The sum plus a bias: the name of a value of i32. `bias`: one number for each channel, or
    // empty.
    std::string sum(std::vector<int64_t> bias, const std::string &name = "") {
        if (p_.zero != 0) {
            bias.resize(size_t(channels_), 0);
            for (size_t c = 0; c < bias.size(); c++) bias[c] -= p_.zero * excess(c);
        }
        const bool biased = std::any_of(bias.begin(), bias.end(), [](int64_t b) { return b != 0; });
        std::string made = products(biased || name.empty() ? "" : name);
        if (biased) made = add("Add", {made, constant("bias", integers(i32, along_, bias))}, name);
        return made;
    }
    // The sum for a zero point of the bytes that is known at run time only: a value of i32.
    std::string sum_less(const std::string &zero, const std::string &name) {
        const std::string all = products("");
        const std::string wide = add("Cast", {zero}, "");
        made_.back().node.attributes["to"].value = int64_t(onnx_type(i32));
        Extents scalar;
        std::string factor = wide;
        if (!g_.extents(zero).empty()) {
            factor = g_.new_name(wide + "/scalar");
            made_.push_back({p_.node, make_reshape(g_, *p_.node, wide, factor, scalar)});
        }
        std::vector<int64_t> sums;
        for (size_t c = 0; c < size_t(channels_); c++) sums.push_back(excess(c));
        const std::string less = add("Mul", {factor, constant("sums", integers(i32, along_, sums))}, "");
        return add("Sub", {all, less}, name);
    }

    // value · factor in f32; one factor a channel.
    std::string scaled(const std::string &value, const std::vector<float> &factor, const std::string &name) {
        const std::string real = add("Cast", {value}, "");
        made_.back().node.attributes["to"].value = int64_t(onnx_type(f32));
        return add("Mul", {real, constant("factor", floats(factor))}, name);
    }
    std::string plus(const std::string &value, const std::vector<float> &bias, const std::string &name) {
        return add("Add", {value, constant("bias", floats(bias))}, name);
    }
    std::string add(const std::string &op, const std::vector<std::string> &inputs, const std::string &name) {
        const std::string made = name.empty() ? g_.new_name(base() + "/" + op + std::to_string(made_.size())) : name;
        made_.push_back({p_.node, make_node(*p_.node, op, inputs, {made})});
        return made;
    }
    std::string constant(const std::string &suffix, const Buffer<> &value) {
        return g_.add_constant(base(), suffix, value);
    }
    Node &last() { return made_.back().node; }

    void replace(std::vector<const Node *> old) {
        std::sort(old.begin(), old.end(), [&](const Node *a, const Node *b) { return g_.precedes(*a, *b); });
        g_.substitute(old, made_);
    }

private:
    const std::string &base() const { return p_.node->outputs[0]; }

    Buffer<> floats(const std::vector<float> &values) const {
        const bool same = std::all_of(values.begin(), values.end(), [&](float v) { return v == values[0]; });
        std::vector<double> all(values.begin(), values.end());
        if (same) all.resize(1);
        return rounded_to(f32, same ? Extents{} : along_, all);
    }

    // The sum of a channel's weights less their zero point.
    int64_t excess(size_t channel) const { return p_.weights.sums[channel] - p_.weights.rest * p_.weights.count; }

    // The sum of products of the bytes, without regard to their zero point, and of the weights less
    // theirs.
    std::string products(const std::string &name) {
        const std::string made = product("weights", p_.weights.bytes, p_.weights.rest == 0 ? name : "");
        if (p_.weights.rest == 0) return made;
        Extents one = p_.weights.bytes.extents();
        one[p_.window ? 0 : 1] = 1;
        const std::string bytes =
            product("ones", integers(i8, one, std::vector<int64_t>(size_t(p_.weights.count), 1)), "");
        const std::string rest = add("Mul", {bytes, constant("rest", integers(i32, {}, {p_.weights.rest}))}, "");
        return add("Sub", {made, rest}, name);
    }

    std::string product(const std::string &kind, const Buffer<> &weights, const std::string &name) {
        Node made =
            make_node(*p_.node, p_.window ? "ConvInteger" : "MatMulInteger", {p_.bytes, constant(kind, weights)},
                      {name.empty() ? g_.new_name(base() + "/" + kind + "/sum") : name});
        if (p_.window) {
            made.attributes = p_.node->attributes;
            if (p_.zero != 0 || zero_name_) pad(made);
        }
        made_.push_back({p_.node, made});
        return made.outputs[0];
    }

    // The padding of the window has the zero point as its value, so it becomes a node of its own.
    void pad(Node &window) {
        const Extents pads = pads_of(g_, *p_.node);
        if (std::all_of(pads.begin(), pads.end(), [](int64_t v) { return v == 0; })) return;
        const size_t axes = pads.size() / 2;
        Extents all(2 * (axes + 2), 0);
        for (size_t d = 0; d < axes; d++) all[2 + d] = pads[d], all[axes + 4 + d] = pads[axes + d];
        const std::string value = zero_name_ ? *zero_name_ : constant("zero", integers(p_.type, {}, {p_.zero}));
        if (padded_.empty())
            padded_ = add("Pad", {p_.bytes, constant("pads", int64_tensor(all, {int64_t(all.size())})), value}, "");
        window.inputs[0] = padded_;
        window.attributes.erase("auto_pad");
        window.attributes["pads"].value = Extents(pads.size(), 0);
    }

public:
    // Padding before and after each axis of the image.
    static Extents pads_of(const Rewriter &g, const Node &window) {
        const Extents &image = g.extents(window.inputs[0]), &result = g.extents(window.outputs[0]);
        const size_t axes = image.size() - 2;
        const std::string automatic = window.text("auto_pad", "NOTSET");
        const Extents ones(axes, 1), zeros(2 * axes, 0);
        if (automatic == "NOTSET") return window.integers("pads", zeros);
        if (automatic == "VALID") return zeros;
        const size_t weights = window.op == "QLinearConv" ? 3 : 1;
        const Extents strides = window.integers("strides", ones), dilations = window.integers("dilations", ones);
        Extents pads = zeros;
        for (size_t d = 0; d < axes; d++) {
            const int64_t reach = (g.extents(window.inputs[weights])[2 + d] - 1) * dilations[d] + 1,
                          total = std::max<int64_t>(0, (result[2 + d] - 1) * strides[d] + reach - image[2 + d]);
            pads[d] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
            pads[axes + d] = total - pads[d];
        }
        return pads;
    }
    void set_zero(const std::string &name) { zero_name_ = name; }

private:
    Rewriter &g_;
    const IntegerProduct &p_;
    const int64_t channels_;
    Extents along_; // of a constant for each channel
    std::optional<std::string> zero_name_;
    std::string padded_; // the image with its padding
    std::vector<NewNode> made_;
};

// Whether the window's padding needs a Pad of bytes, and may have one.
bool may_pad(const Rewriter &g, const Node &n, bool window, bool zero) {
    if (!window || !zero || n.opset >= pad_of_bytes) return true;
    const Extents pads = ProductWriter::pads_of(g, n);
    return std::all_of(pads.begin(), pads.end(), [](int64_t v) { return v == 0; });
}

// --- products of dequantised tensors ---

struct Dequantised {
    IntegerProduct product;
    std::vector<float> scale;               // of the sums: one for each channel
    std::optional<std::vector<float>> bias; // one for each channel
};

std::optional<Dequantised> dequantised_product(const Rewriter &g, const Node &n) {
    if (!n.domain.empty() || n.opset < integer_products || n.inputs.size() < 2 || n.outputs.size() != 1) return {};
    const bool window = n.op == "Conv", gemm = n.op == "Gemm";
    if (!window && !gemm && n.op != "MatMul") return {};
    const Node *left = dequantising(g, n.inputs[0]), *right = dequantising(g, n.inputs[1]);
    if (!left || !right || g.value(left->inputs[0]).constant) return {};
    const auto x = quantisation_of(g, *left), w = quantisation_of(g, *right);
    const Buffer<> *constant = g.constant(*right, 0);
    if (!x || !w || !constant || !x->is_single() || (x->type != u8 && x->type != i8)) return {};
    const bool turned = gemm && n.integer("transB", 0) != 0;
    if (gemm && (n.number("alpha", 1) != 1 || n.number("beta", 1) != 1 || n.integer("transA", 0) != 0)) return {};
    const size_t rank = g.extents(n.outputs[0]).size();
    if (!window && (constant->rank() != 2 || g.extents(n.inputs[0]).size() < 2)) return {};
    const size_t axis = window || turned ? 0 : 1; // of the channels
    if (!w->is_single() && w->axis != axis) return {};
    Dequantised made;
    const Buffer<> matrix = turned ? transposed_copy(*constant, {1, 0}) : *constant;
    const auto weights = centred(matrix, turned ? 1 : axis, w->zero, n.integer("group", 1) != 1);
    if (!weights || !may_pad(g, n, window, x->zero[0] != 0)) return {};
    made.product = {&n, left->inputs[0], x->type, x->zero[0], *weights, window};
    const size_t channels = weights->sums.size();
    for (size_t c = 0; c < channels; c++) made.scale.push_back(x->scale[0] * w->scale[w->is_single() ? 0 : c]);
    if (n.has_input(2)) {
        const Buffer<> *b = g.constant(n, 2);
        const auto numbers =
            b ? along_axis(*b, window ? Extents{int64_t(channels)} : g.extents(n.outputs[0]), window ? 0 : rank - 1)
              : std::nullopt;
        if (!numbers) return {};
        made.bias.emplace(numbers->begin(), numbers->end());
    }
    return made;
}

// The bias in steps of the sums; nothing if i32 does not hold it.
std::optional<std::vector<int64_t>> whole_bias(const std::vector<float> &bias, const std::vector<float> &scale) {
    std::vector<int64_t> made;
    for (size_t c = 0; c < bias.size(); c++) {
        const double whole = std::nearbyint(double(bias[c]) / double(scale[c]));
        if (!(std::abs(whole) < 0x1p30)) return {};
        made.push_back(int64_t(whole));
    }
    return made;
}

// The nodes after a product up to a QuantizeLinear, if the sums can stay unrounded until there: an
// Add of a constant for each channel, Relu, Clip.
struct Ending {
    std::vector<const Node *> nodes;
    std::optional<std::vector<float>> bias;
    std::vector<const Node *> bounds; // Relu, Clip
    const Node *quantise = nullptr;
    Quantisation to;
};

std::optional<Ending> ending_of(const Rewriter &g, const Dequantised &d) {
    Ending made;
    made.bias = d.bias;
    const Node &n = *d.product.node;
    std::string last = n.outputs[0];
    const Extents &extents = g.extents(last);
    while (const Node *next = g.only_reader(last)) {
        if (!next->domain.empty()) return {};
        made.nodes.push_back(next);
        if (next->op == "QuantizeLinear" && next->inputs[0] == last) {
            const auto to = quantisation_of(g, *next);
            if (!to || !to->is_single()) return {};
            made.quantise = next, made.to = *to;
            return made;
        }
        if (next->op == "Add" && !made.bias && made.bounds.empty()) {
            const Buffer<> *b = g.constant(*next, next->inputs[0] == last ? 1 : 0);
            const auto numbers = b ? along_axis(*b, extents, d.product.window ? 1 : extents.size() - 1) : std::nullopt;
            if (!numbers || g.extents(next->outputs[0]) != extents) return {};
            made.bias.emplace(numbers->begin(), numbers->end());
        } else if (next->op == "Relu" || (next->op == "Clip" && next->inputs[0] == last)) {
            for (size_t i = 1; i < next->inputs.size(); i++) {
                const Buffer<> *b = next->has_input(i) ? g.constant(*next, i) : nullptr;
                if (next->has_input(i) && (!b || Type(b->type()) != f32 || b->number_of_elements() != 1)) return {};
            }
            made.bounds.push_back(next);
        } else {
            return {};
        }
        last = next->outputs[0];
    }
    return {};
}

// The Relu or Clip of values in steps of the result.
void write_bound(Rewriter &g, ProductWriter &to, const Node &bound, std::string &value, float step) {
    const auto in_steps = [&](float v) { return rounded_to(f32, {}, {double(v / step)}); };
    Node made = bound;
    std::vector<std::string> inputs = {value};
    for (size_t i = 1; i < bound.inputs.size(); i++) {
        const Buffer<> *b = g.constant(bound, i);
        inputs.push_back(b ? to.constant("bound" + std::to_string(i), in_steps(float((*numbers_of(*b))[0]))) : "");
    }
    value = to.add(bound.op, inputs, "");
    to.last().attributes = bound.attributes;
    for (const char *name : {"min", "max"}) {
        if (bound.has(name)) to.last().attributes[name].value = bound.number(name, 0) / step;
    }
}

bool sum_integers(Rewriter &g, const Node &n) {
    const auto found = dequantised_product(g, n);
    if (!found) return false;
    const Dequantised &d = *found;
    ProductWriter to(g, d.product);
    const auto ending = ending_of(g, d);
    const auto whole = ending && ending->bias ? whole_bias(*ending->bias, d.scale) : std::nullopt;
    if (!ending || (ending->bias && !whole)) { // the result stays a real number
        std::string value = to.sum({});
        value = to.scaled(value, d.scale, d.bias ? "" : n.outputs[0]);
        if (d.bias) to.plus(value, *d.bias, n.outputs[0]);
        to.replace({&n});
        return true;
    }
    const Quantisation &q = ending->to;
    std::vector<float> factor;
    for (const float s : d.scale) factor.push_back(s / q.scale[0]);
    std::string value = to.scaled(to.sum(whole.value_or(std::vector<int64_t>())), factor, "");
    for (const Node *bound : ending->bounds) {
        if (bound->op == "Relu" && q.zero[0] == least(q.type)) continue; // saturates
        write_bound(g, to, *bound, value, q.scale[0]);
    }
    const Node &last = *ending->quantise;
    std::vector<std::string> inputs = {value, to.constant("one", rounded_to(f32, {}, {1}))};
    if (last.has_input(2)) inputs.push_back(to.constant("zero_of_result", integers(q.type, {}, {q.zero[0]})));
    to.add("QuantizeLinear", inputs, last.outputs[0]);
    if (last.has("output_dtype")) to.last().attributes["output_dtype"] = last.attributes.at("output_dtype");
    std::vector<const Node *> old = ending->nodes;
    old.push_back(&n);
    to.replace(old);
    return true;
}

// --- QLinearConv and QLinearMatMul ---

bool sum_linear_integers(Rewriter &g, const Node &n) {
    const bool window = n.op == "QLinearConv";
    if (!n.domain.empty() || (!window && n.op != "QLinearMatMul") || n.inputs.size() < 8) return false;
    const Buffer<> *constant = g.constant(n, 3);
    if (!constant || g.value(n.inputs[0]).constant) return false;
    if (!window && (constant->rank() != 2 || g.extents(n.inputs[0]).size() < 2)) return false;
    const size_t axis = window ? 0 : 1;
    const Type result = g.value(n.outputs[0]).type;
    const auto x = quantisation_of(g, n, 1, 2, g.value(n.inputs[0]).type, g.extents(n.inputs[0]), 1),
               w = quantisation_of(g, n, 4, 5, constant->type(), constant->extents(), int64_t(axis)),
               y = quantisation_of(g, n, 6, 7, result, g.extents(n.outputs[0]), 1);
    if (!x || !w || !y || !x->is_single() || !y->is_single() || !may_pad(g, n, window, x->zero[0] != 0)) return false;
    const auto weights = centred(*constant, axis, w->zero, n.integer("group", 1) != 1);
    if (!weights) return false;
    const IntegerProduct p{&n, n.inputs[0], x->type, x->zero[0], *weights, window};
    std::vector<int64_t> bias;
    if (n.has_input(8)) {
        const Buffer<> *b = g.constant(n, 8);
        const auto numbers = b ? numbers_of(*b) : std::nullopt;
        if (!numbers || numbers->size() != weights->sums.size()) return false;
        bias.assign(numbers->begin(), numbers->end());
    }
    std::vector<float> factor;
    for (size_t c = 0; c < weights->sums.size(); c++) {
        const float product = x->scale[0] * w->scale[w->is_single() ? 0 : c];
        factor.push_back(product / y->scale[0]);
    }
    ProductWriter to(g, p);
    const std::string value = to.scaled(to.sum(bias), factor, "");
    to.add("QuantizeLinear",
           {value, to.constant("one", rounded_to(f32, {}, {1})),
            to.constant("zero_of_result", integers(result, {}, {y->zero[0]}))},
           n.outputs[0]);
    to.replace({&n});
    return true;
}

// --- ConvInteger and MatMulInteger ---

bool is_zero(const Rewriter &g, const Node &n, size_t input) {
    if (!n.has_input(input)) return true;
    const Buffer<> *b = g.constant(n, input);
    const auto numbers = b ? numbers_of(*b) : std::nullopt;
    return numbers && std::all_of(numbers->begin(), numbers->end(), [](double v) { return v == 0; });
}

bool sum_without_zero_points(Rewriter &g, const Node &n) {
    const bool window = n.op == "ConvInteger";
    if (!n.domain.empty() || (!window && n.op != "MatMulInteger")) return false;
    const Buffer<> *constant = g.constant(n, 1);
    const bool of_weights = !is_zero(g, n, 3), of_bytes = !is_zero(g, n, 2);
    if (!constant || (!of_weights && !of_bytes)) return false;
    if (!window && (constant->rank() != 2 || g.extents(n.inputs[0]).size() < 2)) return false;
    const size_t axis = window ? 0 : 1;
    std::vector<int64_t> zeros = {0};
    if (n.has_input(3)) {
        const Buffer<> *b = g.constant(n, 3);
        const auto numbers = b ? numbers_of(*b) : std::nullopt;
        if (!numbers || (numbers->size() != 1 && int64_t(numbers->size()) != constant->extent(axis))) return false;
        zeros.assign(numbers->begin(), numbers->end());
    }
    const auto weights = centred(*constant, axis, zeros, n.integer("group", 1) != 1);
    if (!weights || !may_pad(g, n, window, of_bytes)) return false;
    IntegerProduct p{&n, n.inputs[0], g.value(n.inputs[0]).type, 0, *weights, window};
    const Buffer<> *known = of_bytes ? g.constant(n, 2) : nullptr;
    if (of_bytes && g.value(n.inputs[2]).bytes() != 1) return false; // one for each row
    if (known) p.zero = int64_t((*numbers_of(*known))[0]);
    ProductWriter to(g, p);
    if (of_bytes && !known) {
        to.set_zero(n.inputs[2]);
        to.sum_less(n.inputs[2], n.outputs[0]);
    } else {
        to.sum({}, n.outputs[0]);
    }
    to.replace({&n});
    return true;
}

} // namespace

std::vector<Rule> quantised_products_rules() {
    return {
        {"sum_integers",
         "A Conv, Gemm or MatMul multiplies a dequantised tensor of bytes by dequantised constant bytes, with one "
         "scale or one for each channel of the result. A sum with a constant, Relu, Clip and a QuantizeLinear may "
         "follow.",
         "The products of the integers are summed in i32, with the bias, and multiplied by one factor of f32. "
         "QuantizeLinear rounds that.",
         Rounding::Close, "Jacob et al. 2018; ONNX Runtime: QDQSelectorActionTransformer",
         "(uint8[1, 2] x) => (uint8[1, 2] y) <float s = {0.5}, uint8 z = {3}, int8[2, 2] w = {1, 2, 3, 4}, "
         "float[2] t = {0.5, 2}, float[2] b = {1, 2}, float u = {2}, uint8 v = {7}> { a = DequantizeLinear(x, s, z) "
         "m = DequantizeLinear<axis = 1>(w, t) p = MatMul(a, m) c = Add(p, b) y = QuantizeLinear(c, u, v) }",
         "(uint8[1, 2] x) => (uint8[1, 2] y) <int8[2, 2] w = {1, 2, 3, 4}, int32[2] b = {-8, -16}, "
         "float[2] f = {0.125, 0.5}, float o = {1}, uint8 v = {7}> { p = MatMulInteger(x, w) a = Add(p, b) "
         "r = Cast<to = 1>(a) m = Mul(r, f) y = QuantizeLinear(m, o, v) }",
         sum_integers},
        {"sum_linear_integers", "A QLinearConv or QLinearMatMul has constant weights, scales and zero points.",
         "The products of the integers are summed in i32, with the bias, and multiplied by one factor of f32, which is "
         "rounded as the operator has it: the product of the two scales, divided by that of the result. QuantizeLinear "
         "rounds that.",
         Rounding::Exact, "",
         "(uint8[1, 1, 3] x) => (uint8[1, 2, 3] y) <float s = {0.5}, uint8 z = {2}, uint8[2, 1, 3] w = {4, 5, 6, 7, 8, "
         "9}, float[2] t = {0.5, 2}, uint8[2] k = {5, 7}, float u = {2}, uint8 v = {7}, int32[2] b = {1, 2}> "
         "{ y = QLinearConv<pads = [1, 1]>(x, s, z, w, t, k, u, v, b) }",
         "(uint8[1, 1, 3] x) => (uint8[1, 2, 3] y) <int64[6] p = {0, 0, 1, 0, 0, 1}, uint8 z = {2}, "
         "int8[2, 1, 3] w = {-1, 0, 1, 0, 1, 2}, int32[2, 1] b = {1, -4}, float[2, 1] f = {0.125, 0.5}, "
         "float o = {1}, uint8 v = {7}> { q = Pad(x, p, z) a = ConvInteger<pads = [0, 0]>(q, w) c = Add(a, b) "
         "r = Cast<to = 1>(c) m = Mul(r, f) y = QuantizeLinear(m, o, v) }",
         sum_linear_integers},
        {"sum_without_zero_points",
         "A ConvInteger or MatMulInteger has constant weights and zero points that are not 0.",
         "The zero point of the weights is subtracted from them. That of the other tensor, times the sums of the "
         "weights, is subtracted from the result. Windows are padded with the zero point of the other tensor before.",
         Rounding::Exact, "gemmlowp",
         "(uint8[1, 2] x, uint8 z) => (int32[1, 2] y) <uint8[2, 2] w = {4, 5, 6, 7}, uint8 k = {5}> "
         "{ y = MatMulInteger(x, w, z, k) }",
         "(uint8[1, 2] x, uint8 z) => (int32[1, 2] y) <int8[2, 2] w = {-1, 0, 1, 2}, int32[2] s = {0, 2}> "
         "{ p = MatMulInteger(x, w) c = Cast<to = 6>(z) m = Mul(c, s) y = Sub(p, m) }",
         sum_without_zero_points},
    };
}

} // namespace kumiko::graph
