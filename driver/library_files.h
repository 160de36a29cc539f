// The text files of a generated library. Each is a pure function of its arguments.
#pragma once

#include "driver/library.h"
#include "targets/cpu/entry.h"
#include "targets/lower/nest.h"

namespace kumiko {

// A kernel for one target. Its functions are <symbol>.<target's name>, hidden.
struct PackagedVariant {
    Target target;
    uint64_t features = 0; // required features: runtime/cpu_features.h
    Nest nest;             // has the kernel's symbol as name; so do the nests in nest.packs
    ChosenSchedule schedule;

    const std::string &name() const { return target.cpu.name; }
};

// A kernel of a library for all its targets, the most demanding target first.
struct PackagedKernel {
    const LibraryKernel *kernel = nullptr;
    std::string symbol;
    std::vector<PackagedVariant> variants;
    // The kernel, then for each packed input the packing function and its element count.
    std::vector<Entry> entries;

    // The C signature is the same for all variants, except for the extents of packed inputs.
    const Nest &nest() const { return variants.front().nest; }
};

// How programs link the library.
struct LibraryUse {
    bool freestanding = false;
    bool runtime_source = false; // <name>_runtime.c is next to the archive, which has no runtime
    std::string compiler;        // first words of the command

    // The command that compiles `source` with the library in `folder`.
    std::string command(const std::string &name, const std::string &folder, const std::string &source) const;
    // What the program must provide itself, in one sentence; "" if nothing.
    std::string brings(const std::string &name) const;
};

// Fills in the entries of all kernels. Throws UserError if the variants of a kernel take different
// arguments, Unsupported for an any-shape kernel with pre-packed inputs.
void make_entries(std::vector<PackagedKernel> &kernels);

std::string library_header(const LibraryDescription &library, const std::vector<PackagedKernel> &kernels);
std::string library_cmake(const LibraryDescription &library, const LibraryUse &use);
std::string library_cmake_version(const LibraryDescription &library);
std::string library_pkg_config(const LibraryDescription &library, const LibraryUse &use);
// The C declarations of a model: sizes, the struct of its arrays, and its function.
std::string model_declarations(const std::string &library, const LibraryModel &model);
// The functions of a model's programs, in their order. `kernels`: of the library, in its order.
std::vector<Sequence> model_sequences(const LibraryDescription &library, const LibraryModel &model,
                                      const std::vector<PackagedKernel> &kernels);
Json model_manifest(const LibraryModel &model);
// The bytes of <name>.weights (runtime/kumiko_runtime.h).
std::string weights_file(const LibraryModel &model);
// A C type for elements: float, or uint16_t for the bits of 16-bit floats.
std::string c_element_type(Type type);
Json library_manifest(const LibraryDescription &library, const std::vector<Target> &targets,
                      const std::vector<PackagedKernel> &kernels);
// A C program that runs each kernel and model on generated inputs and compares samples of the
// outputs with stored values. They are computed here by the interpreter, for large ops by the
// unscheduled kernel, and for models by LibraryModel::reference. It prints the numbers of functions
// and samples compared, and of functions passed and failed. For a freestanding library it needs no
// C library: the board provides <name>_selftest_write(text).
std::string library_self_test(const LibraryDescription &library, const std::vector<PackagedKernel> &kernels,
                              const LibraryUse &use);

} // namespace kumiko
