// Graphs of ONNX and their sessions in the process of bench/python_peer.h.
#pragma once

#include "bench/peer_cases.h"
#include "bench/python_peer.h"

#include <memory>
#include <string>
#include <vector>

namespace kumiko::bench {

using OnnxShape = std::vector<int64_t>;
using OnnxName = std::string; // name of a value; "": an omitted input

size_t onnx_bytes(Dtype type, const OnnxShape &shape);

// A result of a graph.
struct OnnxOutput {
    OnnxName name;
    Dtype type;
    OnnxShape shape;
};

// A graph in the format of the process.
class OnnxGraph {
public:
    // A constant may be converted to another layout when the session is made. An input is read in
    // each run.
    OnnxName input(Dtype type, const OnnxShape &shape, const void *data, bool constant = false);
    OnnxName numbers(const char *type, const Json &values, const OnnxShape &shape);
    // A list of s64 with one value per axis.
    OnnxName list(const OnnxShape &values) { return numbers("s64", values, {static_cast<int64_t>(values.size())}); }
    OnnxName node(const std::string &op, const std::vector<OnnxName> &inputs, const Json &attributes = Json::object(),
                  const std::string &domain = "");
    // An operator with several results.
    std::vector<OnnxName> nodes(size_t results, const std::string &op, const std::vector<OnnxName> &inputs,
                                const Json &attributes = Json::object(), const std::string &domain = "");
    // The request that makes a session of it. Each output is written to the file of the same
    // position.
    Json request(const std::vector<OnnxOutput> &outputs, const std::vector<std::unique_ptr<SharedFile>> &files,
                 int threads) const;

private:
    Json inputs_ = Json::array(), nodes_ = Json::array();
    std::vector<std::unique_ptr<SharedFile>> files_;
    int names_ = 0;

    OnnxName next_name() { return "v" + std::to_string(names_++); }
};

// A graph loaded in the process; the destructor drops it.
class OnnxSession {
public:
    enum class Clock { Wall, Processor }; // Processor: time of the thread that calls ONNX Runtime

    // `flush_denormals`: ONNX Runtime treats denormal numbers as zeros.
    OnnxSession(std::shared_ptr<PythonPeer> process, const OnnxGraph &graph, const std::vector<OnnxOutput> &outputs,
                int threads, bool flush_denormals = false);
    ~OnnxSession();
    OnnxSession(const OnnxSession &) = delete;
    OnnxSession &operator=(const OnnxSession &) = delete;

    // The reason for which the process rejects the graph; "" if it accepts it. After a rejection no
    // other member may be called.
    const std::string &refusal() const { return refusal_; }
    // The total seconds of `times` runs, after one untimed run.
    double run(int times, Clock clock = Clock::Wall);
    // Copies the results of the last run, in the order of the outputs.
    void collect(const std::vector<void *> &to);

private:
    std::shared_ptr<PythonPeer> process_;
    std::vector<std::unique_ptr<SharedFile>> results_;
    int64_t id_ = -1;
    std::string refusal_;
};

// The name of function(x), or "" if ONNX has no operator for the function.
OnnxName onnx_function(OnnxGraph &graph, const std::string &function, const OnnxName &x);

} // namespace kumiko::bench
