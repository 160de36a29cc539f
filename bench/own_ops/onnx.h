// Graphs of ONNX operators that compute the same as ops of the suite own-ops.
#pragma once

#include "bench/onnxruntime_graph.h"
#include "bench/own_ops/own_ops.h"

#include <memory>
#include <string>
#include <vector>

namespace kumiko::bench {

// The names of the ops that are one ONNX operator or a short chain of them. Each graph has the op's
// inputs and outputs, in their order. ONNX Runtime reads all inputs in each run, except filters of
// convolutions, which are constants that it may pre-pack, as in the suites of convolutions.
std::vector<std::string> ops_with_onnx_graph();
bool has_onnx_graph(const OwnOp &own);

// A session of the op's graph on these inputs (see make_inputs), on one thread. Throws UserError if
// ONNX Runtime refuses the graph, and InternalError if the op has none.
std::shared_ptr<OnnxSession> make_onnx_session(const std::shared_ptr<PythonPeer> &process, const OwnOp &own,
                                               const Op &op, const std::vector<Buffer<>> &inputs);

} // namespace kumiko::bench
