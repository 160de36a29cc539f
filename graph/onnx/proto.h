// The protocol buffers, schemas and checker of ONNX. Only sources of graph/onnx include this
// header: its library is compiled with hidden symbols, in a namespace of its own, so that a program
// may hold another copy.
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#include <onnx/checker.h>
#include <onnx/defs/function.h>
#include <onnx/defs/schema.h>
#include <onnx/onnx-data.pb.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>
#pragma GCC diagnostic pop

namespace kumiko::graph {

namespace onnx = kumiko_onnx;

} // namespace kumiko::graph
