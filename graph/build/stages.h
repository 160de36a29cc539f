// The stages of a model on its way to kernels, as models of ONNX: for viewers, and to run them
// elsewhere.
#pragma once

#include "graph/build/program.h"

namespace kumiko::graph {

// Each group of nodes is a node: a call of a function of the model, "Conv_Relu_3" of the domain
// "kumiko". Throws as Model::of_graph.
Model fused_model(const FixedGraph &graph, const GroupOptions &options = {});

// The same in the order of the steps. Metadata state the plan: of nodes kumiko.step and
// kumiko.kernel (equal numbers share a kernel), of values kumiko.place ("arena 4096", a byte, or
// "output y") and, if channels are stored last, kumiko.layout "channels_last"; of the model
// kumiko.arena_bytes and kumiko.arena_bound_bytes. `seconds`: as that of make_program. Throws as
// Model::of_graph and make_program.
Model planned_model(const FixedGraph &graph, const GroupOptions &options = {}, const OpSeconds &seconds = nullptr);

// The place of a value: "arena 4096", a byte, "input x", "output y + 64", "constant" or "state 0".
std::string place_text(const Location &location, const Program &program);

} // namespace kumiko::graph
