#include "graph/onnx/microsoft.h"

#include "dsl/narrow_types.h"
#include "support/error.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>

namespace kumiko::graph {

namespace {

using Texts = std::vector<std::string>;

Buffer<> int64_list(const std::vector<int64_t> &all) {
    Buffer<> b(i64, {int64_t(all.size())});
    std::copy(all.begin(), all.end(), static_cast<int64_t *>(b.data()));
    return b;
}

class Body {
public:
    Body(const Node &node, const std::vector<ValueInfo> &inputs, std::string prefix, int opset)
        : node(node), inputs_(inputs), prefix_(std::move(prefix)), opset_(opset) {}

    const Node &node;
    std::vector<Node> nodes;

    // Input n; "" if it is missing.
    std::string in(size_t n) const { return node.has_input(n) ? node.inputs[n] : ""; }
    size_t rank(size_t n) const { return n < inputs_.size() && inputs_[n].shape ? inputs_[n].shape->size() : 0; }
    std::vector<int64_t> extents(size_t n) const {
        std::vector<int64_t> all;
        if (n < inputs_.size() && inputs_[n].shape) {
            for (const Dimension &d : *inputs_[n].shape) all.push_back(d.number.value_or(0));
        }
        return all;
    }
    void require_inputs(size_t count) const {
        if (node.inputs.size() < count)
            throw UserError(
                fmt::format("{} has {} inputs; legal are {} or more", node.label(), node.inputs.size(), count));
    }
    [[noreturn]] void unsupported(const std::string &cause) const { throw Unsupported(node.label() + ": " + cause); }

    // Adds a node. Returns its result, which is named `to`, or has a name of its own.
    std::string add(const std::string &op, Texts inputs, const std::string &to = "") {
        while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
        Node made;
        made.op = op, made.opset = opset_, made.inputs = std::move(inputs);
        made.name = node.name.empty() ? node.op + " of " + node.outputs.at(0) : node.name;
        made.outputs = {to.empty() ? prefix_ + op + std::to_string(nodes.size()) : to};
        nodes.push_back(made);
        return made.outputs[0];
    }
    // Gives the last node an attribute.
    template<typename T>
    void set(const std::string &name, const T &value) {
        nodes.back().attributes[name].value = value;
    }
    void copy(const Texts &names) {
        for (const std::string &name : names) {
            if (node.has(name)) nodes.back().attributes[name] = node.attributes.at(name);
        }
    }
    // A constant list, and a constant byte.
    std::string integers(const std::vector<int64_t> &all) {
        const std::string made = add("Constant", {});
        set("value", int64_list(all));
        return made;
    }
    std::string byte(int value, Type type = u8) {
        Buffer<> b(type, {});
        *static_cast<uint8_t *>(b.data()) = static_cast<uint8_t>(value);
        const std::string made = add("Constant", {});
        set("value", b);
        return made;
    }
    bool is_bytes(size_t n) const { return n < inputs_.size() && inputs_[n].type == u8; }
    // The real numbers of input n, whose scale and zero point are the next two inputs.
    std::string real(size_t n, int64_t axis = 1) {
        const std::string made = add("DequantizeLinear", {in(n), in(n + 1), in(n + 2)});
        if (axis != 1) set("axis", axis);
        return made;
    }
    // The node's result: a value quantised with the scale and zero point in inputs n and n + 1.
    void quantise(const std::string &value, size_t n) {
        add("QuantizeLinear", {value, in(n), in(n + 1)}, node.outputs.at(0));
    }

private:
    const std::vector<ValueInfo> &inputs_;
    const std::string prefix_;
    const int opset_;
};

void require_channels_first(const Body &b) {
    if (b.node.integer("channels_last", 0) != 0) b.unsupported("channels last; supported is channels_last = 0");
}

std::function<void(Body &)> binary(const char *op) {
    return [=](Body &b) {
        b.require_inputs(7);
        const std::string left = b.real(0), right = b.real(3);
        b.quantise(b.add(op, {left, right}), 6);
    };
}

std::function<void(Body &)> unary(const char *op, const Texts &attributes = {}) {
    return [=](Body &b) {
        b.require_inputs(4);
        require_channels_first(b);
        const std::string made = b.add(op, {b.real(0)});
        b.copy(attributes);
        b.quantise(made, 3);
    };
}

void softmax(Body &b) {
    constexpr int64_t one_axis = 13; // opset from which Softmax does not flatten
    const auto rank = int64_t(b.rank(0));
    const int64_t axis = b.node.integer("axis", -1);
    if (b.node.integer("opset", one_axis) < one_axis && axis != -1 && axis != rank - 1)
        b.unsupported(fmt::format("opset {} and axis {}; supported is the last axis, or opset 13",
                                  b.node.integer("opset", 0), axis));
    const std::string made = b.add("Softmax", {b.real(0)});
    b.set("axis", axis);
    b.quantise(made, 3);
}

void concat(Body &b) {
    b.require_inputs(5);
    if (b.node.inputs.size() % 3 != 2)
        throw UserError(fmt::format("{} has {} inputs; legal are the scale and zero point of the result, and a tensor, "
                                    "scale and zero point of each part",
                                    b.node.label(), b.node.inputs.size()));
    Texts parts;
    for (size_t n = 2; n < b.node.inputs.size(); n += 3) parts.push_back(b.real(n));
    const std::string made = b.add("Concat", parts);
    b.copy({"axis"});
    b.quantise(made, 0);
}

// C has the scale of the sums of products.
void gemm(Body &b) {
    b.require_inputs(6);
    std::string scale = b.in(1);
    if (const float alpha = b.node.number("alpha", 1); alpha != 1) {
        const std::string factor = b.add("Constant", {});
        b.set("value_float", alpha);
        scale = b.add("Mul", {scale, factor});
    }
    const int64_t columns = b.node.integer("transB", 0) != 0 ? 0 : 1;
    const std::string left = b.add("DequantizeLinear", {b.in(0), scale, b.in(2)}), right = b.real(3, columns);
    std::string bias;
    if (!b.in(6).empty()) {
        const std::string steps = b.add("Mul", {scale, b.in(4)});
        bias = b.add("DequantizeLinear", {b.in(6), steps});
        b.set("axis", int64_t(b.rank(6)) - 1);
    }
    const bool real = b.in(7).empty();
    const std::string made = b.add("Gemm", {left, right, bias}, real ? b.node.outputs.at(0) : "");
    b.copy({"transA", "transB"});
    if (!real) b.quantise(made, 7);
}

// sums · (scale of a · scale of b) + bias
void scale_sums(Body &b, const std::string &sums, const std::string &of_a, const std::string &of_b,
                const std::string &bias) {
    const std::string real = b.add("Cast", {sums});
    b.set("to", int64_t(onnx_type(f32)));
    const std::string scale = b.add("Mul", {of_a, of_b});
    const std::string made = b.add("Mul", {real, scale}, bias.empty() ? b.node.outputs.at(0) : "");
    if (!bias.empty()) b.add("Add", {made, bias}, b.node.outputs.at(0));
}

void integer_to_float(Body &b) {
    b.require_inputs(4);
    const std::string sums = b.add("MatMulInteger", {b.in(0), b.in(1), b.in(4), b.in(5)});
    scale_sums(b, sums, b.in(2), b.in(3), b.in(6));
}

void dynamic_matmul(Body &b) {
    b.require_inputs(3);
    const std::string bytes = b.add("DynamicQuantizeLinear", {b.in(0)});
    const std::string scale = bytes + "/scale", zero = bytes + "/zero";
    b.nodes.back().outputs = {bytes, scale, zero};
    const std::string sums = b.add("MatMulInteger", {bytes, b.in(1), zero, b.in(3)});
    scale_sums(b, sums, scale, b.in(2), b.in(4));
}

// Integers of a few bits, packed in bytes along the last axis, as a tensor [rows, columns] of u8.
// Bytes may hold more columns.
std::string unpacked(Body &b, std::string bytes, int64_t bits, int64_t rows, int64_t columns) {
    const int64_t parts = 8 / bits, in_row = (columns + parts - 1) / parts;
    bytes = b.add("Reshape", {bytes, b.integers({rows, in_row, 1})});
    Texts all;
    for (int64_t part = 0; part < parts && parts > 1; part++) {
        std::string digit = bytes;
        if (part > 0) digit = b.add("Div", {digit, b.byte(1 << (bits * part))});
        if (part + 1 < parts) digit = b.add("Mod", {digit, b.byte(1 << bits)});
        all.push_back(digit);
    }
    if (parts > 1) {
        bytes = b.add("Concat", all);
        b.set("axis", int64_t(2));
    }
    bytes = b.add("Reshape", {bytes, b.integers({rows, in_row * parts})});
    if (in_row * parts == columns) return bytes;
    return b.add("Slice", {bytes, b.integers({0}), b.integers({columns}), b.integers({1})});
}

// The product with a matrix [N, K] of integers of a few bits, with a scale and a zero point for
// each block of a row. It becomes a DequantizeLinear and a MatMul.
void matmul_bits(Body &b) {
    b.require_inputs(3);
    const int64_t bits = b.node.integer("bits", 4), block = b.node.integer("block_size", 0),
                  rows = b.node.integer("N", 0), columns = b.node.integer("K", 0);
    if (bits != 2 && bits != 4 && bits != 8)
        b.unsupported(fmt::format("weights of {} bits; supported are 2, 4 and 8", bits));
    if (block < 16 || block % 16 || rows < 1 || columns < 1)
        throw UserError(
            fmt::format("{}: K is {}, N {} and block_size {}; legal are 1 or more, and blocks of a multiple "
                        "of 16",
                        b.node.label(), columns, rows, block));
    if (!b.in(4).empty()) b.unsupported("an order of the columns (g_idx); supported are blocks of neighbours");
    if (!b.in(3).empty() && !b.is_bytes(3)) b.unsupported("zero points of floats; supported are packed integers");
    const int64_t blocks = (columns + block - 1) / block;
    const auto elements = [&](size_t n) {
        int64_t count = 1;
        for (const int64_t e : b.extents(n)) count *= e;
        return count;
    };
    if (elements(1) != rows * blocks * block * bits / 8 || elements(2) != rows * blocks)
        throw UserError(fmt::format("{}: weights of {} bytes and {} scales; legal are {} and {}, for {} rows of {} "
                                    "blocks of {} elements of {} bits",
                                    b.node.label(), elements(1), elements(2), rows * blocks * block * bits / 8,
                                    rows * blocks, rows, blocks, block, bits));
    const auto turned = [&](const std::string &matrix) { return b.add("Transpose", {matrix}); };
    const auto cast = [&](const std::string &matrix, Type type) {
        const std::string made = b.add("Cast", {matrix});
        b.set("to", int64_t(onnx_type(type)));
        return made;
    };
    std::string weights = unpacked(b, b.in(1), bits, rows, blocks * block), zero;
    if (blocks * block != columns)
        weights = b.add("Slice", {weights, b.integers({0}), b.integers({columns}), b.integers({1})});
    weights = turned(weights);
    if (b.in(3).empty()) // the zero point is half of the range
        weights = cast(b.add("Sub", {cast(weights, i8), b.byte(1 << (bits - 1), i8)}), bits == 2   ? i2
                                                                                       : bits == 4 ? i4
                                                                                                   : i8);
    else
        weights = cast(weights, bits == 2 ? u2 : bits == 4 ? u4 : u8);
    const std::string scale = turned(b.add("Reshape", {b.in(2), b.integers({rows, blocks})}));
    if (!b.in(3).empty())
        zero = cast(turned(unpacked(b, b.in(3), bits, rows, blocks)), bits == 2 ? u2 : bits == 4 ? u4 : u8);
    const std::string real = b.add("DequantizeLinear", {weights, scale, zero});
    b.set("axis", int64_t(0)), b.set("block_size", block);
    const std::string made = b.add("MatMul", {b.in(0), real}, b.in(5).empty() ? b.node.outputs.at(0) : "");
    if (!b.in(5).empty()) b.add("Add", {made, b.in(5)}, b.node.outputs.at(0));
}

void rename(Body &b, const char *op) {
    b.require_inputs(2);
    b.add(op, b.node.inputs, b.node.outputs.at(0));
    b.copy({"axis", "block_size"});
}

} // namespace

std::optional<std::vector<Node>> microsoft_body(const Node &node, const std::vector<ValueInfo> &inputs,
                                                const std::string &prefix, int opset) {
    static const std::map<std::string, std::function<void(Body &)>> table = {
        {"DequantizeLinear", [](Body &b) { rename(b, "DequantizeLinear"); }},
        {"DynamicQuantizeMatMul", dynamic_matmul},
        {"MatMulIntegerToFloat", integer_to_float},
        {"MatMulNBits", matmul_bits},
        {"QGemm", gemm},
        {"QLinearAdd", binary("Add")},
        {"QLinearAveragePool",
         unary("AveragePool", {"auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"})},
        {"QLinearConcat", concat},
        {"QLinearGlobalAveragePool", unary("GlobalAveragePool")},
        {"QLinearLeakyRelu", unary("LeakyRelu", {"alpha"})},
        {"QLinearMul", binary("Mul")},
        {"QLinearSigmoid", unary("Sigmoid")},
        {"QLinearSoftmax", softmax},
        {"QuantizeLinear", [](Body &b) { rename(b, "QuantizeLinear"); }},
    };
    const auto found = table.find(node.op);
    if (node.domain != "com.microsoft" || found == table.end()) return std::nullopt;
    Body body(node, inputs, prefix, opset);
    found->second(body);
    return body.nodes;
}

} // namespace kumiko::graph
