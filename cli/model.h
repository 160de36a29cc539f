// ONNX models on the command line.
#pragma once

#include "graph/onnx/model.h"
#include "graph/rules/rules.h"

#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace kumiko::cli {

// Whether the argument names a file of ONNX instead of an op.
bool is_model(const std::string &name);

// The options --size and --constant, which may be repeated.
void add_size_options(CLI::App &command, std::vector<std::string> &sizes, std::vector<std::string> &constants);
// The option --rounding: exact, close or fast; "" if it is not given, which means close.
void add_rounding_option(CLI::App &command, std::string &rounding);
graph::Rounding rounding_of(const std::string &argument);
// From "NAME=N". Throws UserError.
std::map<std::string, int64_t> sizes_of(const std::vector<std::string> &arguments);
// From "NAME=1,2,3", in the input's type, or "NAME=FILE.npy". Throws UserError.
std::map<std::string, Buffer<>> constants_of(const std::vector<std::string> &arguments, const graph::Model &model);

struct ShowModel {
    std::string path;
    // "": the model as it is; "fixed": its sizes are numbers; "simplified": by the rules of graphs.
    std::string stage;
    std::vector<std::string> sizes, constants; // as of sizes_of() and constants_of()
    std::string rounding;                      // as of rounding_of()
    std::string output;                        // the stage is also written to this file
};
// Prints the model's opsets, inputs, nodes with inferred types, and outputs.
void show_model(const ShowModel &arguments);

struct RunModel {
    std::string path;
    // "FILE" in the order of the model's inputs or outputs, or "NAME=FILE": .npy, or .pb of ONNX.
    std::vector<std::string> inputs, outputs;
    int threads = 1;
    bool interpret = false; // by the formulas instead of compiled kernels
};
// Runs the model once and writes its outputs, or prints their shapes and first elements.
void run_model(const RunModel &arguments);

} // namespace kumiko::cli
