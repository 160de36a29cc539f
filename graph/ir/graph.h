// The parts of an ONNX graph, one to one with its protocol buffers: values, nodes, attributes.
// A value is an edge of the graph. It has a name and is made by one node, an input or a constant.
#pragma once

#include "dsl/buffers.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace kumiko::graph {

struct Graph;

// One dimension of a shape: a number, a symbol ("batch"), or neither.
struct Dimension {
    std::optional<int64_t> number;
    std::string symbol;
};

// The type of a value. `type` is unset for element types that Kumiko does not know, and for values
// that are no tensors; `type_text` names every type, as ONNX does: "float", "string", "sequence".
struct ValueInfo {
    enum class Kind { Tensor, Sequence, Optional, Other };
    std::string name;
    std::optional<Type> type;
    std::string type_text;
    std::optional<std::vector<Dimension>> shape; // unset: of any rank
    std::map<std::string, std::string> metadata; // as Node::metadata
    Kind kind = Kind::Tensor;
    // The type in a sequence or optional, without a name.
    std::shared_ptr<const ValueInfo> element = nullptr;
    std::string text() const; // "x: float[batch,3,224,224]"
    // The name of an extent that is no number: its symbol, or "<value>:<axis>" if it has none.
    std::string symbol(size_t axis) const;

    // A value of numbers whose extents are known.
    static ValueInfo of(const std::string &name, Type type, const std::vector<int64_t> &extents);
};

struct Attribute {
    std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>, std::vector<std::string>,
                 Buffer<>, std::shared_ptr<const Graph>, ValueInfo>
        value; // ValueInfo: a type
};

struct Node {
    std::string name, op, domain;
    // The version of the model's operator set of this domain.
    int opset = 0;
    // Names of values; "" for an optional one that is missing.
    std::vector<std::string> inputs, outputs;
    std::map<std::string, Attribute> attributes;
    // Remarks that do not change what the node computes (metadata_props). Those of Kumiko begin
    // with "kumiko.".
    std::map<std::string, std::string> metadata;

    bool has(const std::string &attribute) const { return attributes.count(attribute) != 0; }
    // The attribute's value, or `otherwise` if it is missing. Throw UserError if it has another
    // type.
    int64_t integer(const std::string &attribute, int64_t otherwise) const;
    float number(const std::string &attribute, float otherwise) const;
    std::string text(const std::string &attribute, const std::string &otherwise) const;
    std::vector<int64_t> integers(const std::string &attribute, const std::vector<int64_t> &otherwise = {}) const;
    std::vector<float> numbers(const std::string &attribute, const std::vector<float> &otherwise = {}) const;
    std::optional<Buffer<>> tensor(const std::string &attribute) const;
    // The graph of a node of control flow. Throws UserError if it is missing.
    const Graph &graph(const std::string &attribute) const;

    // "node \"conv1\" (Conv)": for messages.
    std::string label() const;
    bool has_input(size_t n) const { return n < inputs.size() && !inputs[n].empty(); }
    std::vector<std::string> named_outputs() const; // those that are not missing
};

struct Graph {
    std::string name;
    std::vector<ValueInfo> inputs;             // without those that have a constant
    std::vector<ValueInfo> defaults;           // inputs whose default is a constant
    std::vector<ValueInfo> outputs;            // in the order of the model
    std::map<std::string, Buffer<>> constants; // initialisers
    std::vector<Node> nodes;                   // producers before consumers
};

// The element type for a number of TensorProto.DataType; nullopt if Kumiko has no such type.
std::optional<Type> type_of_onnx(int type);
// TensorProto.DataType of an element type.
int onnx_type(Type type);

} // namespace kumiko::graph
