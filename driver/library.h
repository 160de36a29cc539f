// Kernels for C programs: a static library that needs nothing of Kumiko, with all that goes with one.
//
//   build_library(LibraryDescription::load("kernels.json"), "out");
//
// writes into out/
//   lib<name>.a          the kernels, each an object of its own, and the runtime
//   <name>.h             plain C declarations: shapes, types, errors, hooks
//   <name>Config.cmake   find_package(<name>) gives the target <name>::<name>
//   <name>ConfigVersion.cmake
//   <name>.pc            pkg-config, wherever the folder is moved to
//   manifest.json        what is inside: formulas, shapes, schedules and their hashes, measured rates, warnings
//   <name>_selftest.c    runs every kernel and compares samples of its outputs with values computed here
//   <name>_runtime.c     only where no C compiler for the processor was found: the runtime, for the
//                        library's user to compile; the CMake and pkg-config packages do it
//
// Every symbol begins with the library's name, so that several such libraries can be linked into one program; each has its
// own threads, workspaces and errors. All files are written, or none.
//
// A kernel may be compiled for several targets; its C function runs the best one for which the processor has what it needs,
// and refuses, with a code and a text, where there is none. A kernel with `any_shape` is the C function for all sizes: it
// hands sizes for which the library has a kernel of its own to that one.
#pragma once

#include "driver/target.h"
#include "dsl/buffers.h"
#include "machine/machine.h"
#include "schedules/library/packed_by.h"
#include "support/boxed_json.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kumiko {

// A schedule for an op that somebody found to be good, and how good.
struct ChosenSchedule {
    Boxed<Json> schedule;   // Schedule::to_json
    Boxed<Json> parameters; // of the library template that made it, or null
    double seconds = 0;     // measured; 0: unknown
    std::string rate;       // measured, for people: "112 GFLOP/s"; "" when unknown
    std::string origin;     // "tuned", "kernels.json"
};
// Nothing when there is none for this op on this machine, of kernels that are so called.
using ScheduleSource = std::function<std::optional<ChosenSchedule>(const Op &, const Machine &, PackedBy)>;

struct LibraryKernel {
    std::string name; // the symbol is <prefix><name>
    Op op;
    // The schedule to compile; else the source's; else the default one.
    std::optional<ChosenSchedule> schedule = {};
    // How the op was named, for the manifest: a registry name and its parameters. May be empty.
    std::string op_name = {};
    Boxed<Json> parameters = {};
    Boxed<Json> schedule_parameters = nullptr; // of the library's template, in place of `schedule`
    bool tuned = true;                         // ask the source
    // Weights are packed by a function of their own, ahead of all calls: of the source's schedules and of the default one those that take
    // them so. What the library's schedules cannot pack ahead is Unsupported.
    bool ahead = false;
    // Symbolic sizes with which the self-test calls it; those left out are 48.
    Sizes test_sizes = {};
    std::vector<std::string> targets = {}; // in place of the description's
    // Its C parameters are, for each tensor, the pointer and then the sizes that only its strides use (lda), then the other
    // sizes in the order of the op's parameters: sgemm(A, lda, B, ldb, C, ldc, M, N, K). Where
    // another kernel of the library
    // is the same op at fixed sizes, and those are asked for, that one runs.
    bool any_shape = false;

    // Every size of the op: test_sizes, else 48, but strides dense and a bit.
    Sizes sizes_for_test() const;
};

struct LibraryDescription {
    std::string name; // a C identifier
    std::string version = "0.1.0";
    std::optional<std::string> prefix;           // of the kernels' symbols; "<name>_" unless stated, may be ""
    std::vector<std::string> targets = {"host"}; // Target::named; all of one architecture
    std::string database;                        // a tuning database; "" for none
    std::vector<LibraryKernel> kernels;

    // kernels.json:
    //   {"name": "mykernels", "targets": ["x86-64-avx512", "x86-64-avx2"], "tuned": "tuning.db",
    //    "kernels": [{"name": "sgemm_512", "op": "matmul", "type": "f32", "parameters": {"m": 512, "n": 512, "k": 512}},
    //                {"name": "sgemm", "op": "matmul", "type": "f32", "any_shape": true},
    //                {"name": "act", "op": "gelu", "parameters": {"n": "n"}, "test_sizes": {"n": 100}},
    //                {"name": "c1", "op": "conv2d", "parameters": {…}, "schedule": "c1.json"}, …]}
    // A kernel may have "schedule" (a file, or the saved form itself) or "schedule_parameters" (of the library's template for
    // the op; what is not given is the default's), "targets", "ahead": true for weights that are packed ahead, and "tuned": false to pass
    // over the database. An op may be one of a shared object
    // ("./libmyops.so:norm", ops/export.h). Names of files are relative to the file that names them.
    // Throws UserError that names the document, the path and the cause.
    static LibraryDescription load(const std::string &file);
    static LibraryDescription from_json(const Json &json, const std::string &document, const std::string &folder = ".");
};

struct LibraryOptions {
    bool self_test = true;
    // A C compiler for the library's processor, with arguments, that compiles the runtime. Empty:
    // this program carries the runtime of its own architecture; for others a cross compiler in
    // PATH.
    std::string compiler = {};
    ScheduleSource source; // for kernels without a schedule of their own; the description's database when empty
    std::function<void(size_t done, size_t total, const std::string &kernel)>
        progress; // called as "lowering X" for each kernel X, while none is done, then before each kernel and at the end
};

struct LibraryReport {
    std::vector<std::pair<std::string, std::string>> files; // name, purpose
    std::vector<std::string> warnings;
    std::string compiler; // what compiled the runtime; "" where none was needed or found
    std::string link;     // the command that compiles app.c with the library
    std::string brings;   // what the program must bring besides, for people; "" when nothing
    Boxed<Json> manifest;
    double seconds = 0;
};

// Makes `folder` where there is none. Throws UserError: a bad description, a schedule that does not fit, files that cannot be
// written; the folder's files are then as they were.
LibraryReport build_library(const LibraryDescription &description, const std::string &folder,
                            const LibraryOptions &options = {});

} // namespace kumiko
