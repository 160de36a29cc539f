// ONNX models on the command line.
#pragma once

#include <string>
#include <vector>

namespace kumiko::cli {

// Whether the argument names a file of ONNX instead of an op.
bool is_model(const std::string &name);

// Prints the model's opsets, inputs, nodes with inferred types, and outputs.
void show_model(const std::string &path);

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
