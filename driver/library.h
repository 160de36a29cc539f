// Kernels for C programs: builds a self-contained static library with headers and package files.
//
//   build_library(LibraryDescription::load("kernels.json"), "out");
//
// writes into out/
//   lib<name>.a          the kernels, one object each, and the runtime
//   <name>.h             C declarations: shapes, types, errors, hooks
//   <name>Config.cmake   find_package(<name>) defines the target <name>::<name>
//   <name>ConfigVersion.cmake
//   <name>.pc            pkg-config, relocatable
//   manifest.json        contents: formulas, shapes, schedules and hashes, measured rates, warnings
//   <name>_selftest.c    runs every kernel and compares samples of its outputs with stored values
//   lib<name>.so         on request: the same, shared; Python calls it by TVM FFI
//   <name>_runtime.c     only if no C compiler for the processor was found: source of the runtime,
//                        which the CMake and pkg-config packages compile into the program
//
// Every symbol starts with the library's name, so a program can link several such libraries; each
// has its own threads, workspaces and errors. Either all files are written or none.
//
// A kernel can be compiled for several targets. Its C function dispatches to the best one that the
// processor supports, and returns an error code and a message if there is none. A kernel with
// `any_shape` is the C function for all sizes; it dispatches to a fixed-size kernel of the library
// where one matches.
//
// A library may also have models: C functions <name>_run that call its kernels.
#pragma once

#include "driver/library_model.h"
#include "driver/target.h"
#include "dsl/buffers.h"
#include "machine/machine.h"
#include "schedules/library/packed_by.h"
#include "support/boxed_json.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kumiko {

// A schedule for an op and its measured speed.
struct ChosenSchedule {
    Boxed<Json> schedule;   // Schedule::to_json
    Boxed<Json> parameters; // of the library template that produced it, or null
    double seconds = 0;     // measured; 0 if unknown
    std::string rate;       // measured, as text: "112 GFLOP/s"; "" if unknown
    std::string origin;     // "tuned", "kernels.json"
};
// Returns nullopt if it has no schedule for this op, machine and packing.
using ScheduleSource = std::function<std::optional<ChosenSchedule>(const Op &, const Machine &, PackedBy)>;

// One kernel of a library: its op, schedule, targets and C parameters.
struct LibraryKernel {
    std::string name; // the symbol is <prefix><name>
    Op op;
    // The schedule to compile. If unset, the source's; otherwise the default one.
    std::optional<ChosenSchedule> schedule = {};
    // The registry name and the parameters of the op, for the manifest. May be empty.
    std::string op_name = {};
    Boxed<Json> parameters = {};
    Boxed<Json> schedule_parameters = nullptr; // of the library template, instead of `schedule`
    bool tuned = true;                         // query the schedule source
    // Pre-packed weights: a separate function packs the weights before all calls. Schedules with
    // pre-packed weights are selected, from the source or by default. build_library() throws
    // Unsupported if the library's schedules cannot pre-pack them.
    bool ahead = false;
    // Symbolic sizes for the self-test; 48 if omitted.
    Sizes test_sizes = {};
    std::vector<std::string> targets = {}; // override the description's targets
    // The C parameters are: for each tensor its pointer, then the sizes that only its strides use
    // (lda); then the other sizes in the order of the op's parameters: sgemm(A, lda, B, ldb, C,
    // ldc, M, N, K). If another kernel of the library is the same op at fixed sizes, a call with
    // these sizes runs that kernel.
    bool any_shape = false;
    // Called by a model of the library only: not declared in the header, and not in the self-test.
    bool internal = false;
    // Of an internal kernel: the least and the largest value of its sizes.
    std::map<std::string, std::pair<int64_t, int64_t>> ranges = {};

    // All sizes for the self-test: test_sizes, otherwise 48; leading dimensions are a little larger
    // than dense.
    Sizes sizes_for_test() const;
};

// A library: its name, targets and kernels.
struct LibraryDescription {
    std::string name; // a C identifier
    std::string version = "0.1.0";
    // Prefix of the kernels' symbols; default "<name>_", may be "".
    std::optional<std::string> prefix;
    std::vector<std::string> targets = {"host"}; // names for Target::named; all of one architecture
    std::string database;                        // path of a tuning database; "" for none
    std::vector<LibraryKernel> kernels;
    std::vector<LibraryModel> models; // graph/build/model_library.h makes them

    // kernels.json:
    //   {"name": "mykernels", "targets": ["x86-64-avx512", "x86-64-avx2"], "tuned": "tuning.db",
    //    "kernels": [{"name": "sgemm_512", "op": "matmul", "type": "f32",
    //                 "parameters": {"m": 512, "n": 512, "k": 512}},
    //                {"name": "sgemm", "op": "matmul", "type": "f32", "any_shape": true},
    //                {"name": "act", "op": "gelu", "parameters": {"n": "n"},
    //                 "test_sizes": {"n": 100}},
    //                {"name": "c1", "op": "conv2d", "parameters": {…}, "schedule": "c1.json"}, …]}
    // A kernel may have
    // - "schedule": a file, or the saved form itself,
    // - "schedule_parameters": of the library template for the op; missing ones are defaults,
    // - "targets",
    // - "ahead": true for pre-packed weights,
    // - "tuned": false to ignore the database.
    //
    // An op may come from a shared object ("./libmyops.so:norm", ops/export.h). File names are
    // relative to the file that contains them. Throws UserError with the document, the path and the
    // cause.
    static LibraryDescription load(const std::string &file);
    static LibraryDescription from_json(const Json &json, const std::string &document, const std::string &folder = ".");
};

// Options of build_library().
struct LibraryOptions {
    bool self_test = true;
    bool shared = false; // also lib<name>.so (driver/library_shared.h), which needs a C compiler
    // A C compiler for the target, with arguments, that compiles the runtime. Empty: the built-in
    // objects for the host's architecture, otherwise a cross compiler from PATH.
    std::string compiler = {};
    ScheduleSource source; // for kernels without a schedule; empty: the description's database
    // Called as "lowering X" for each kernel X (done = 0), then before each kernel is compiled and
    // at the end.
    std::function<void(size_t done, size_t total, const std::string &kernel)> progress;
};

// What build_library() has written, and how programs link it.
struct LibraryReport {
    std::vector<std::pair<std::string, std::string>> files; // name, purpose
    std::vector<std::string> warnings;
    std::string compiler; // that compiled the runtime; "" if none was needed or found
    std::string link;     // command that compiles app.c with the library
    std::string brings;   // what the program must provide itself, as text; "" if nothing
    Boxed<Json> manifest;
    double seconds = 0;
};

// Creates `folder` if it does not exist. Throws UserError for an invalid description, a schedule
// that does not fit, or files that cannot be written; the folder's files are then unchanged.
LibraryReport build_library(const LibraryDescription &description, const std::string &folder,
                            const LibraryOptions &options = {});

} // namespace kumiko
