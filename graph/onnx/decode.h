// From protocol buffers to the parts of a graph, and back.
#pragma once

#include "graph/ir/graph.h"
#include "graph/ir/value.h"
#include "graph/onnx/proto.h"

namespace kumiko::graph {

// The file of a model.
struct Source {
    std::string name;                  // for messages
    std::string folder;                // of its external data
    std::map<std::string, int> opsets; // versions of the operator sets, by domain
};

constexpr size_t max_file_bytes = INT32_MAX; // of a protocol buffer
// Throws UserError if the file cannot be read, or is larger.
std::string file_bytes(const std::string &path);
// "float8e4m3fn" for a number of TensorProto.DataType.
std::string data_type_name(int type);

// Throws UserError if the tensor's data do not fit its shape; Unsupported for element types that
// Kumiko does not compute with.
Buffer<> decode_tensor(const onnx::TensorProto &tensor, const Source &source);
// The same of values that are no tensors.
Value decode_sequence(const onnx::SequenceProto &sequence, const Source &source);
Value decode_optional(const onnx::OptionalProto &optional, const Source &source);
onnx::TensorProto encode_tensor(const Buffer<> &tensor, const std::string &name);

ValueInfo decode_value(const onnx::ValueInfoProto &value);
onnx::ValueInfoProto encode_value(const ValueInfo &value);
// Throws UserError if `source` has no version for the node's domain.
Node decode_node(const onnx::NodeProto &node, const Source &source);
onnx::NodeProto encode_node(const Node &node);
// `outer`: names of values that an enclosing graph gives.
Graph decode_graph(const onnx::GraphProto &graph, const Source &source, const std::set<std::string> &outer = {});

} // namespace kumiko::graph
