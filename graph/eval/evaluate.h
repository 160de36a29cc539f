// Runs a model node by node.
#pragma once

#include "graph/ir/value.h"
#include "graph/onnx/model.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace kumiko {
class Op;
}

namespace kumiko::graph {

struct GroupOp;

// Computes an op's outputs from its inputs.
using RunOp = std::function<std::vector<Buffer<>>(const Op &op, const std::vector<Buffer<>> &inputs)>;

// Runs the op of a group, which has one. Arrays of narrow types are passed as they are stored.
// `run`: null for `interpret`.
std::vector<Buffer<>> run_group(const GroupOp &group, const std::vector<Buffer<>> &inputs, const RunOp &run);

struct EvaluateOptions {
    // How a node's op is run; by default by `interpret`, in the types of the model.
    RunOp run = nullptr;
    // Values that replace the defaults of inputs, by name of the input.
    std::map<std::string, Buffer<>> given = {};
    // Called with each result of a node.
    std::function<void(const std::string &name, const Buffer<> &value)> made = nullptr;
};

// Checks arrays against the types and shapes of the graph's inputs, which are in the same order.
// Returns the sizes by symbol; the symbol of an axis without one is "<input>:<axis>". Throws as
// evaluate().
std::map<std::string, int64_t> check_inputs(const Model &model, const std::vector<Buffer<>> &inputs);

// `inputs`: in the order of the graph's inputs. Returns its outputs.
// Throws UserError, naming the input, if their number, types or shapes are not the model's;
// Unsupported, naming the node, for an operator without a formula.
std::vector<Buffer<>> evaluate(const Model &model, const std::vector<Buffer<>> &inputs,
                               const EvaluateOptions &options = {});

// The same of values of all kinds.
std::vector<Value> evaluate_values(const Model &model, const std::vector<Value> &inputs,
                                   const EvaluateOptions &options = {});

} // namespace kumiko::graph
