// A separate C program that calls kernels of a library which `build_library` wrote, as a user's
// program does.
#pragma once

#include "bench/line_process.h"
#include "bench/python_peer.h"
#include "driver/library.h"
#include "dsl/buffers.h"
#include "support/temporary_folder.h"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kumiko::bench {

// The placement of arrays. Malloc: 16 bytes after the start of a cache line, as malloc places large
// blocks. Lines: at the start of a cache line. Pages: additionally on large pages, as
// allocate_bytes (support/memory.h) requests them.
enum class Placement { Malloc, Lines, Pages };
inline constexpr std::array placements = {Placement::Malloc, Placement::Lines, Placement::Pages};

class OutsideProgram {
public:
    // Builds the library for this machine, compiles the program by $CC, or cc, and starts it. The
    // kernels' `test_sizes` are the sizes that calls pass. At its start the program allocates
    // blocks of many sizes, fills them with denormal numbers and frees most of them. Throws
    // UserError if the C compiler is missing or fails.
    OutsideProgram(const std::vector<LibraryKernel> &kernels, int threads);

    // Allocates the arrays of a kernel, fills its inputs, packs those that the kernel takes packed,
    // and calls it once. One kernel at a time is open in each placement. Throws UserError if the
    // kernel returns an error.
    void open(size_t kernel, Placement placement, const std::vector<Buffer<>> &inputs);
    // One untimed call and `calls` timed ones; returns the total seconds of these.
    double time(Placement placement, int calls);
    // Copies of the current outputs.
    std::vector<Buffer<>> outputs(Placement placement);
    // Frees the arrays of that placement.
    void close(Placement placement);

private:
    struct Opened {
        const LibraryKernel *kernel = nullptr;
        size_t input_bytes = 0, bytes = 0;
        std::unique_ptr<SharedFile> file; // inputs, then outputs
    };

    TemporaryFolder folder_;
    std::vector<LibraryKernel> kernels_;
    std::optional<LineProcess> process_;
    std::array<Opened, placements.size()> opened_;

    std::string ask(const std::string &request);
};

// The C source of the program. `manifest` is that of the library; `kernels` are its kernels.
std::string outside_program_source(const std::vector<LibraryKernel> &kernels, const Json &manifest);

} // namespace kumiko::bench
