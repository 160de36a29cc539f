// Other programs that run ONNX models, in processes of their own: for the suite `models`.
#pragma once

#include "bench/python_peer.h"
#include "graph/build/program.h"
#include "graph/ir/graph.h"

#include <memory>

namespace kumiko::bench {

// A part of a model that a peer computes at once.
struct PeerLayer {
    std::vector<std::string> names; // each begins with the name of a node or of its result
    double seconds = 0;             // of a run
};

// A model as a peer runs it.
class ModelPeer {
public:
    // `inputs`: of the program. `constants`: the other inputs of the model. If the peer refuses the
    // model, refusal() has its reason, and no other member may be called. Throws UserError if the
    // process ends.
    ModelPeer(PythonPeer &process, const std::string &file, const graph::Program &program,
              const std::vector<Buffer<>> &inputs, const std::map<std::string, Buffer<>> &constants, int threads);
    ~ModelPeer();
    ModelPeer(const ModelPeer &) = delete;
    ModelPeer &operator=(const ModelPeer &) = delete;

    const std::string &refusal() const { return refusal_; }
    // The seconds of this many runs, after one untimed run.
    double run(int times);
    // The model's own outputs. Those whose sizes depend on data have their actual sizes.
    std::vector<Buffer<>> outputs(const graph::Program &program);
    // Times each layer in several runs. Returns the medians.
    std::vector<PeerLayer> profile();

private:
    PythonPeer &process_;
    std::vector<std::unique_ptr<SharedFile>> files_;
    size_t first_output_ = 0;
    int64_t id_ = -1;
    std::string refusal_;
};

// An output of the program, whose actual size is that of one of `all`, in this size.
Buffer<> cut_to_size(const graph::Program &program, const std::vector<Buffer<>> &all, size_t output);

// The seconds of each step of the program in the peer's profile. A layer belongs to the step that
// has the node of its first known name, or else to the first step that uses what this node
// computes. `graph`: the model's own. Layers that belong to no step are summed in the last element.
std::vector<double> seconds_of_steps(const std::vector<PeerLayer> &layers, const graph::Graph &graph,
                                     const graph::Program &program);

} // namespace kumiko::bench
