// How fast models start as C libraries, and how much memory their processes have: the suite
// `model-start`.
#pragma once

#include "bench/model_suite.h"

namespace kumiko::bench {

struct ModelStartRow {
    std::string name;
    double ready_seconds = 0; // dlopen and dlsym, with the file in the system's cache
    double first_seconds = 0; // of the first run, with an arena that was never touched
    double warm_seconds = 0;  // of a later one: the median
    int64_t file_bytes = 0;   // of the shared library, stripped of nothing
    // The largest resident memory of the C program. The same of ONNX Runtime's process, less the
    // memory that Python had before it was loaded. 0: not measured.
    int64_t resident_bytes = 0, peer_bytes = 0;
    std::string without_peer; // why it was not measured
    std::string failure;      // why nothing was measured

    Json json() const;
};

// Builds the model as a shared library for one thread, and runs it in a C program several times;
// each figure is the median over these. Throws UserError if the library or the program cannot be
// compiled, and what graph::describe_library throws.
ModelStartRow measure_model_start(const ModelCase &model, const BenchOptions &options);

// Calls from Python of a model that does next to nothing, through TVM FFI.
struct PythonCall {
    double import_seconds = 0;  // of the modules numpy and tvm_ffi
    double first_seconds = 0;   // from loading the library to the first answer
    double model_seconds = 0;   // of a call from C
    double numpy_seconds = 0;   // of a call on arrays of NumPy
    double tvm_ffi_seconds = 0; // of a call on tensors of TVM FFI
    std::string not_measured;   // why; "" if it was

    Json json() const;
};
PythonCall measure_python_call();

std::string model_start_text(const std::vector<ModelStartRow> &rows, const PythonCall &call);

} // namespace kumiko::bench
