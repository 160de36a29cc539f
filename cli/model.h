// ONNX models on the command line.
#pragma once

#include "graph/build/open_program.h"
#include "graph/onnx/model.h"
#include "graph/rules/rules.h"
#include "support/progress.h"

#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace kumiko::cli {

// Whether the argument names a file of ONNX instead of an op.
bool is_model(const std::string &name);

// "f32[1,3]": the type and extents of an array.
std::string shape_text(const Buffer<> &b);

// The options --size and --constant, which may be repeated.
void add_size_options(CLI::App &command, std::vector<std::string> &sizes, std::vector<std::string> &constants);
void add_constant_option(CLI::App &command, std::vector<std::string> &constants);
// The option --rounding: exact, close or fast; "" if it is not given, which means close.
void add_rounding_option(CLI::App &command, std::string &rounding);
graph::Rounding rounding_of(const std::string &argument);
// From "NAME=N". Throws UserError.
std::map<std::string, int64_t> sizes_of(const std::vector<std::string> &arguments);
// Whether it is a range, "NAME=LO..HI" or "NAME=LO..HI:STEP".
bool is_range(const std::string &argument);
// From ranges. Throws UserError.
std::vector<graph::OpenSize> ranges_of(const std::vector<std::string> &arguments);
// From "NAME=1,2,3", in the input's type, or "NAME=FILE.npy". Throws UserError.
std::map<std::string, Buffer<>> constants_of(const std::vector<std::string> &arguments, const graph::Model &model);

// The options --state and --bound, which may be repeated.
void add_state_option(CLI::App &command, std::vector<std::string> &states);
void add_bound_option(CLI::App &command, std::vector<std::string> &bounds);
// From "IN=OUT", or "auto" for those that graph::find_states finds. Throws UserError.
graph::StatePairs states_of(const std::vector<std::string> &arguments, const graph::Model &model);
// From "NODE=N". Throws UserError.
std::map<std::string, int64_t> bounds_of(const std::vector<std::string> &arguments);

// Shows the phases of compiling a model. The progress must outlive the function.
graph::CompileProgress phases_of(Progress &progress);

struct ShowModel {
    std::string path;
    // "": the model as it is; "fixed": its sizes are numbers; "simplified": by the rules of graphs.
    std::string stage;
    // As of sizes_of(), constants_of() and bounds_of().
    std::vector<std::string> sizes, constants, bounds;
    std::string rounding; // as of rounding_of()
    std::string output;   // the stage is also written to this file
};
// Prints the model's opsets, inputs, nodes with inferred types, and outputs.
void show_model(const ShowModel &arguments);
// Writes a page about the model, compiled with default schedules but not run, to the file.
void report_model(const ShowModel &arguments, const std::string &file);

struct RunModel {
    std::string path;
    // "FILE" in the order of the model's inputs or outputs, or "NAME=FILE": .npy, or .pb of ONNX.
    std::vector<std::string> inputs, outputs;
    int threads = 1;
    // Program: all of it is compiled, as `build` does. Nodes: each node is a kernel. Interpret: by
    // the formulas.
    enum class Mode { Program, Nodes, Interpret } mode = Mode::Program;
    std::vector<std::string> constants; // as of constants_of()
    std::vector<std::string> bounds;    // as of bounds_of(), for a program
    std::string rounding;               // as of rounding_of(), for a program
    // "onnxruntime": every value is compared with that of ONNX Runtime; "f64": as
    // compare_with_f64() (cli/against_f64.h); "": none.
    std::string against;
    double tolerance = 0;             // as CompareOptions::tolerance (cli/against.h)
    std::string saved = "difference"; // the folder of the first node that differs
};
// Runs the model once, writes its outputs and prints their shapes. Throws UserError if values
// differ from those that they are compared with.
void run_model(const RunModel &arguments);

} // namespace kumiko::cli
