// Kernels for programs: object files, static libraries and C headers, for any CpuTarget.
#pragma once

#include "targets/cpu/options.h"
#include "targets/lower/nest.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace kumiko {

struct ObjectFile {
    std::string bytes; // ELF
    std::vector<std::string> warnings;
    CompileTimes times;
};

// One position-independent object with the kernels of all nests, each function in its own section.
// Every kernel also has its packed form, int NAME_packed(void *const *tensors, const int64_t
// *sizes). A kernel that pre-packs an input also has int64_t NAME_elements(sizes), the number of
// elements it writes. Undefined symbols are the hooks <runtime_prefix>_parallel_for, _malloc, _free
// and _fail that are used, and C math functions if f64 math needs them. Throws as JitModule does,
// and UserError for a kernel with the name of such a C function.
ObjectFile compile_object(const std::vector<Nest> &nests, const CodegenOptions &options);

// The same kernels as readable text; a kernel with the name of a C function gets the suffix
// "_kernel".
std::string compile_assembly(const std::vector<Nest> &nests, const CodegenOptions &options);
// After optimisation.
std::string compile_llvm_ir(const std::vector<Nest> &nests, const CodegenOptions &options);

// The bytes of a static library (System V `ar` with a symbol table) of the members {file name,
// bytes}, in this order. Equal members give equal bytes.
std::string make_archive(const std::vector<std::pair<std::string, std::string>> &members);

// Renames symbols, defined and undefined, in an ELF object. `prefixes` are tried in order on every
// symbol's name: with {"kumiko_", "mylib_"}, kumiko_fail becomes mylib_fail.
std::string rename_symbols(const std::string &object, const std::vector<std::pair<std::string, std::string>> &prefixes);

// The undefined symbols of an object, sorted.
std::vector<std::string> undefined_symbols(const std::string &object);
// The symbols that it defines for other objects, sorted.
std::vector<std::string> defined_symbols(const std::string &object);
// The architecture of its code, as CpuTarget::architecture() names it: "aarch64".
std::string object_architecture(const std::string &object);

// The largest sizes that a kernel accepts; loops count in 32 bits.
struct SizeLimits {
    std::map<std::string, int64_t> most;   // of each size
    std::map<std::string, int64_t> totals; // of products and sums of sizes, as "M * N"
    void include(const SizeLimits &other);
};
SizeLimits size_limits(const Nest &nest);

struct HeaderOptions {
    std::string guard = "KUMIKO_KERNELS_H"; // the include guard
    std::string title;                      // the first line of the comment at the top
    std::string runtime_prefix = "kumiko";  // the hooks' names, declared in the header
    bool declare_packed = true;
    // Kernels whose C parameters are not ordered tensors, then sizes: the positions of these in the
    // C order.
    std::map<std::string, std::vector<size_t>> order;
    std::map<std::string, std::string> notes; // lines for a kernel's comment, above its tensors
    // What a kernel's sizes mean: kernel, size → "rows of C".
    std::map<std::string, std::map<std::string, std::string>> meanings;
    std::map<std::string, SizeLimits> limits; // of a kernel's variants; else the kernel's own
    bool freestanding = false;                // no default allocator or threads
    std::string extra;                        // declarations that precede those of the runtime
};

// A C header (C99 and C++) that declares the kernels, with each tensor's type and shape in a
// comment. f16 and bf16 elements are uint16_t, bool is uint8_t.
std::string c_header(const std::vector<Nest> &nests, const HeaderOptions &options = {});

} // namespace kumiko
