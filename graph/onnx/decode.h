// From protocol buffers to the parts of a graph, and back.
#pragma once

#include "graph/ir/graph.h"
#include "graph/onnx/proto.h"

namespace kumiko::graph {

// Where a model's messages say that something is, and where its external data are.
struct Source {
    std::string name, folder;
    std::map<std::string, int> opsets;
};

// Throws UserError if the tensor's data do not fit its shape; Unsupported for element types that
// Kumiko does not compute with.
Buffer<> decode_tensor(const onnx::TensorProto &tensor, const Source &source);
onnx::TensorProto encode_tensor(const Buffer<> &tensor, const std::string &name);

ValueInfo decode_value(const onnx::ValueInfoProto &value);
onnx::ValueInfoProto encode_value(const ValueInfo &value);
Node decode_node(const onnx::NodeProto &node, const Source &source);
onnx::NodeProto encode_node(const Node &node);
// `outer`: names of values that an enclosing graph gives.
Graph decode_graph(const onnx::GraphProto &graph, const Source &source, const std::set<std::string> &outer = {});

} // namespace kumiko::graph
