// The suites of models, and `kumiko bench model.onnx`.
#pragma once

#include "bench/suite.h"
#include "bench/tune_suite.h"
#include "driver/target.h"

#include <string>
#include <vector>

namespace kumiko::cli {

struct BenchArguments {
    std::vector<std::string> suites;
    std::string shape, json, page, report, trace;
    bench::BenchOptions options;
    std::vector<int> threads = {1};
    bool quiet = false, peers = true;
    bench::TuneSuiteOptions tune;
    std::vector<std::string> sizes, constants, bounds; // of a model
    std::string rounding;                              // of models
};

void run_model_start(const BenchArguments &a, const Target &target);
void run_models(const BenchArguments &a, const Target &target);

} // namespace kumiko::cli
