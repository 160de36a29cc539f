// A peer of own-ops: the same formula, scheduled by Halide's autoscheduler Adams2019 (A. Adams et
// al., "Learning to Optimize Halide with Tree Search and Random Programs", 2019) and compiled by
// Halide for this processor, for one thread.
#pragma once

#include "bench/halide_pipeline.h"
#include "dsl/buffers.h"

#include <filesystem>
#include <string>
#include <vector>

namespace kumiko::bench {

class HalidePeer {
public:
    // Schedules and compiles in a separate process, again with HalideForm::beyond_edges if the
    // first result cannot be called. If a search takes more than `limit_seconds` of processor time,
    // a greedy search is used, which keeps 1 state instead of 32. Throws Unsupported for what
    // halide_pipeline does not support, for ops for which the autoscheduler fails or is still too
    // slow, and if the autoscheduler or a C++ compiler, $CXX or c++, is missing.
    HalidePeer(const Op &op, HalideForm form, int limit_seconds);
    ~HalidePeer();
    HalidePeer(const HalidePeer &) = delete;

    // `arrays`: inputs, then outputs, dense. Throws UserError if the function fails.
    void call(void **arrays) const;
    int beam() const { return beam_; } // states that the search kept

private:
    std::filesystem::path folder_;
    void *object_ = nullptr;
    int (*function_)(void **) = nullptr;
    std::vector<Buffer<>> shapes_; // inputs and outputs of a call, for their extents
    int beam_ = 0;

    // Returns why it failed, or "".
    std::string make(const Op &op, const HalideForm &form, int limit_seconds);
    void load(const Op &op);
    void unload();
};

} // namespace kumiko::bench
