// An ONNX model: reading, checking and writing. What is read is written again, also what Kumiko
// does not know.
#pragma once

#include "graph/ir/graph.h"
#include "graph/ir/value.h"

namespace kumiko::graph {

class Model {
public:
    // Reads a file. Tensors of external data are mapped, not copied, and their files must be in the
    // model's folder or below. Throws UserError with the file, and the node or tensor where there
    // is one, if the model is truncated, is no ONNX, or is inconsistent.
    static Model load(const std::string &path);
    // The same of bytes in memory; external data are looked for in `folder`. `name` is for
    // messages.
    static Model parse(const std::string &bytes, const std::string &name, const std::string &folder = ".") {
        return parse(bytes, name, folder, "");
    }

    // The same of ONNX's text format:
    // "<ir_version: 10, opset_import: [\"\" : 21]> g (float[2] x) => (float[2] y) { y = Relu(x) }"
    static Model parse_text(const std::string &text, const std::string &name);

    // A model of a graph. `values`: types and shapes of values that nodes make, for viewers. All
    // nodes are stated in one version of each domain's operator set, which is one of theirs. Throws
    // Unsupported, naming a node, if none has all their operators as in the nodes' own versions.
    // Equal names of nodes get numbers.
    static Model of_graph(const Graph &graph, const std::string &name, const std::vector<ValueInfo> &values = {});

    // Nodes that become one: a call of a function of the model, of the domain "kumiko". A single
    // node stays as it is.
    struct Call {
        std::string function;                        // a unique name; unused for a single node
        std::vector<size_t> nodes;                   // positions in the graph, in their order
        std::map<std::string, std::string> metadata; // of the call, as Node::metadata
    };
    // The same model with these calls, in this order, as its nodes. Each node is in one call. The
    // model's metadata are `metadata`.
    static Model of_calls(const Graph &graph, const std::string &name, const std::vector<ValueInfo> &values,
                          const std::vector<Call> &calls, const std::map<std::string, std::string> &metadata);

    // Runs ONNX's checker, with shapes and types. Throws UserError with its message.
    void check() const;
    // Throws UserError if the file cannot be written.
    void save(const std::string &path) const;

    const std::string &name() const; // file or name for messages
    const Graph &graph() const;      // model-local functions are inlined
    // Opsets, inputs, outputs, and a line per node, also of functions; metadata of Kumiko follow.
    std::string text() const;
    int64_t ir_version() const;
    std::map<std::string, int> opsets() const; // version by domain; "" is ai.onnx
    // Inferred types of all values of the graph that ONNX's shape inference knows.
    std::map<std::string, ValueInfo> infer() const;

private:
    // `file`: that the bytes are from, or "".
    static Model parse(const std::string &bytes, const std::string &name, const std::string &folder,
                       const std::string &file);
    struct Contents;
    std::shared_ptr<const Contents> contents_;
};

// One tensor in a file of its own (TensorProto), as in ONNX's tests. Throws UserError.
Buffer<> load_tensor(const std::string &path);
// The same of a value of this kind, in a file of a SequenceProto or OptionalProto.
Value load_value(const std::string &path, ValueInfo::Kind kind);
void save_tensor(const std::string &path, const Buffer<> &tensor, const std::string &name);

// The nodes of an operator that ONNX defines by others, for inputs of these types; nothing if it
// defines none. Names of inner values begin with `prefix`. `opsets`: the model's, for functions
// that do not name theirs.
std::optional<std::vector<Node>> function_body(const Node &node, const std::vector<ValueInfo> &inputs,
                                               const std::string &prefix, const std::map<std::string, int> &opsets);

} // namespace kumiko::graph
