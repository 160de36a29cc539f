// Runs the nodes of one graph. Internal to graph/eval.
#pragma once

#include "graph/eval/evaluate.h"

namespace kumiko::graph {

class Evaluation {
public:
    // `outer`: the evaluation of the enclosing graph, whose values this graph may read.
    Evaluation(const EvaluateOptions &options, const std::map<std::string, int> &opsets,
               const Evaluation *outer = nullptr)
        : options_(options), opsets_(opsets), outer_(outer) {}
    std::map<std::string, Value> values;

    void run(const Node &node);
    // The value, of this graph or an enclosing one. Throws UserError if none has it.
    const Value &value(const std::string &name, const std::string &reader) const;

private:
    // The value of an input. The second throws UserError if it is no tensor.
    const Value &input(const Node &node, size_t n) const { return value(node.inputs.at(n), node.label()); }
    const Buffer<> &tensor(const Node &node, const std::string &name) const;
    const Buffer<> &tensor(const Node &node, size_t n) const { return tensor(node, node.inputs.at(n)); }
    void run_formula(const Node &node);
    // Runs the operator's definition in other operators.
    void run_body(const Node &node);
    ValueInfo info_of(const std::string &name, const Node &reader) const;
    // Runs an inner graph, which may read the values of this one.
    std::vector<Value> run_graph(const Node &node, const Graph &graph, const std::vector<Value> &inputs);
    std::vector<Value> run_graph(const Node &node, const Graph &graph, const std::vector<Value> &inputs,
                                 const EvaluateOptions &options);
    void keep(const Node &node, const std::vector<Value> &results);
    void keep(const std::string &name, const Value &value);

    // ---- Control flow (control_flow.cpp)
    // Joins the rows that an output of a body makes along an axis; a negative axis counts from the
    // end. Without an iteration, the body declares their type and shape, or else an iteration over
    // `inputs` gives them.
    Buffer<> stacked_rows(const Node &node, const Graph &body, size_t output, const std::vector<Buffer<>> &rows,
                          int64_t axis, const std::vector<Value> &inputs);
    void run_if(const Node &node);
    void run_loop(const Node &node);
    // One pass of a Scan over slices of its inputs: the last states, then the stacked results.
    struct ScanAxes {
        std::vector<size_t> along;              // of the inputs
        std::vector<int64_t> backward;          // of the inputs
        std::vector<int64_t> out, out_backward; // of the results
    };
    std::vector<Buffer<>> scanned(const Node &node, const Graph &body, std::vector<Buffer<>> state,
                                  const std::vector<Buffer<>> &sources, const ScanAxes &axes, int64_t steps);
    void run_scan(const Node &node);
    // Scan of opset 8: one pass for each batch, each with a length of its own.
    std::vector<Buffer<>> scanned_batches(const Node &node, const Graph &body, const std::vector<Buffer<>> &state,
                                          const std::vector<Buffer<>> &sources, const ScanAxes &axes);

    // ---- Sequences and optionals (sequences.cpp)
    // Returns false, and does nothing, if the node takes and makes tensors only.
    bool run_structure(const Node &node);
    const Value::Sequence &sequence(const Node &node, size_t n) const;
    // The position that an optional input has in a sequence.
    size_t position(const Node &node, size_t n, const Value::Sequence &of, int64_t otherwise, bool insertion = false);
    Value split_to_sequence(const Node &node);
    void run_concat(const Node &node);
    void run_map(const Node &node);

    const EvaluateOptions &options_;
    const std::map<std::string, int> &opsets_;
    const Evaluation *outer_;
    int bodies_ = 0;
};

// Copies of tensors as values, and back. Throws UserError, naming the node, if one is no tensor.
std::vector<Value> as_values(const std::vector<Buffer<>> &tensors);
const Buffer<> &as_tensor(const Value &value, const Node &node, const std::string &name);

} // namespace kumiko::graph
