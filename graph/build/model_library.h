// Libraries for C programs from models.
#pragma once

#include "driver/library.h"
#include "graph/build/open_program.h"

namespace kumiko::graph {

struct ModelLibraryOptions {
    std::string name;                            // of the library and the model, a C identifier
    std::vector<std::string> targets = {"host"}; // as LibraryDescription::targets
    // At most so many threads run a loop whose iterations have workspaces; the arena has a part for
    // each of them. At least 1.
    int threads = 8;
    bool weights_file = false; // as LibraryModel::weights_file
    CompileModelOptions model;
    // Sizes that each call chooses. States may not depend on them.
    std::vector<OpenSize> ranges = {};
};

// A library with the function <name>_run (driver/library_model.h). Throws as fix_sizes,
// make_program and make_open_program, and UserError for a name that is no C identifier.
LibraryDescription describe_library(const Model &model, const ModelLibraryOptions &options);

// Adds a further model to a library. Kernels with equal formulas and schedules are shared.
// `options.targets` are the library's. Throws as describe_library, and UserError for a model with
// the name of another one.
void add_model(LibraryDescription &library, const Model &model, const ModelLibraryOptions &options);

// A kernel of a model as a task for the tuner.
struct ModelTask {
    std::string name; // operators of its first group: "Conv Relu"
    Op op;
    bool packed = false; // takes pre-packed weights
    int calls = 0;       // in one run of the model
};
// The kernels that can be tuned, which are all but copies. Throws as describe_library.
std::vector<ModelTask> tuning_tasks(const Model &model, const CompileModelOptions &options, const Target &target);

// A C identifier from the name of a file or value: "input:0" becomes "input_0".
std::string c_identifier(const std::string &name);

} // namespace kumiko::graph
