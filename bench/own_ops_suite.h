// The suite `own-ops`: default and hand schedules of ops that no library schedule covers
// completely, compared with plain loops compiled by the machine's compiler.
#pragma once

#include "bench/suite.h"
#include "dsl/buffers.h"

namespace kumiko::bench {

// Times are medians in seconds; 0 if there is none.
struct OwnOpRow {
    std::string name, schedule; // schedule: the candidate that compile(op) selected
    double plain_default = 0, hand = 0, loop = 0, tuned = 0, known = 0;
    double best = 0;        // the minimum of these
    double halide = 0;      // by Halide's autoscheduler
    double onnxruntime = 0; // of the graph in bench/own_ops/onnx.cpp
    // Speed of the default and of the tuned schedule, relative to the loop and to the fastest:
    // medians over rounds. `best` and the fastest exclude Halide and ONNX Runtime.
    double default_to_loop = 0, default_to_best = 0, tuned_to_loop = 0, tuned_to_best = 0;
    double default_to_halide = 0, default_to_onnxruntime = 0;
    int halide_beam = 0;   // HalidePeer::beam
    double spread = 0;     // of the default: (p90 − p10) / median
    std::string no_halide; // why Halide was not measured although requested; "" otherwise
    // Why ONNX Runtime was not measured although there is a graph and peers were requested; ""
    // otherwise.
    std::string no_onnxruntime;
    std::string failure; // why it was not measured; "" if it was
    Json json() const;
};

struct OwnOpsOptions {
    std::string only;  // ops whose name contains it
    std::string known; // file of known schedules (bench/known.h); "": none
    int explore = 0;   // trials of tuning each op first, stored in BenchOptions::database
    Sizes sizes = {};  // in place of the suite's own, at least as large
};

// Runs on one thread and measures processor time, which excludes other processes. With
// BenchOptions::halide, the formula scheduled by Halide's autoscheduler (bench/halide_peer.h) is
// measured too, if its results are the same. With BenchOptions::peers, ONNX Runtime runs the ops
// that have a graph in bench/own_ops/onnx.h; processor time of its calling thread is measured. The
// schedule of an op in the file `known` is measured too, and replaced if the tuned one is faster by
// more than 5 % than all others of this run. An op whose results differ, including those of ONNX
// Runtime, has a `failure`. Throws UserError if no op has that name, or if one of the ops lacks one
// of `sizes` or has a larger one.
std::vector<OwnOpRow> run_own_ops_suite(const Target &target, const BenchOptions &options, const OwnOpsOptions &own,
                                        const std::function<void(const std::string &)> &progress = {});
std::string own_ops_suite_text(const std::vector<OwnOpRow> &rows);

} // namespace kumiko::bench
