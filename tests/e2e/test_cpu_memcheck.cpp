// Kernels of a C library under valgrind's memcheck: no branch, address or result depends on
// unwritten memory. Workspaces come from malloc and are freed, so that memcheck sees each as
// unwritten again.
// Links: driver
// Cost: 60
// Sanitized: no
#include "bench/stale_cases.h"
#include "driver/library.h"
#include "ops/registry.h"
#include "support/atomic_file.h"
#include "support/random.h"
#include "targets/cpu/cpu_target.h"
#include "targets/lower/lower.h"
#include "tests/e2e/shell.h"
#include "tests/property/check_pair.h"

#include <fmt/format.h>

using namespace kumiko;
using namespace kumiko::e2e;
namespace fs = std::filesystem;

namespace {

size_t bytes_of(const Buffer<> &b) { return b.number_of_elements() == 0 ? 0 : b.size_in_bytes(); }

// A C program that calls each kernel once on small integers and passes its results to the system,
// so that memcheck checks them.
std::string program(const LibraryDescription &d) {
    std::string text = R"(#include ")" + d.name + R"(.h"
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *take(size_t bytes) { return aligned_alloc(64, (bytes + 127) / 64 * 64); }
static int sink;
/* Integers of -2 to 2, or of 0 to 4: floats by their bytes. */
static void *input(size_t n, int bits, char kind) {
    char *p = malloc(n * (size_t)bits / 8 + 1);
    for (size_t i = 0; i < n; i++) {
        const int v = (int)(i * 7 % 5) - (kind == 'u' ? 0 : 2);
        const float f = (float)v;
        uint32_t word;
        __builtin_memcpy(&word, &f, 4);
        if (kind == 'f' && bits == 64) ((double *)(void *)p)[i] = v;
        else if (kind == 'f' && bits == 32) ((float *)(void *)p)[i] = f;
        else if (kind == 'f') ((uint16_t *)(void *)p)[i] = (uint16_t)(v == 0 ? 0 : 0x3c00 | (v < 0) << 15);
        else if (kind == 'b') ((uint16_t *)(void *)p)[i] = (uint16_t)(word >> 16);
        else if (bits == 8) ((int8_t *)p)[i] = (int8_t)v;
        else if (bits == 16) ((int16_t *)(void *)p)[i] = (int16_t)v;
        else if (bits == 32) ((int32_t *)(void *)p)[i] = v;
        else ((int64_t *)(void *)p)[i] = v;
    }
    return p;
}
static void look_at(void *p, size_t bytes) { if (write(sink, p, bytes) < 0) exit(3); }
int main(void) {
    sink = open("/dev/null", O_WRONLY);
)";
    text += fmt::format("    {0}_set_memory(take, free);\n    {0}_set_num_threads(1);\n", d.name);
    for (const LibraryKernel &k : d.kernels) {
        std::string tensors, results, frees;
        int n = 0;
        for (const Input &in : k.op.inputs()) {
            const size_t bytes = bytes_of(make_input(in, k.test_sizes));
            const char kind = in.type.is_bfloat() ? 'b' : in.type.is_float() ? 'f' : in.type.is_uint() ? 'u' : 'i';
            tensors += fmt::format("input({}, {}, '{}'), ", bytes / in.type.bytes(), 8 * in.type.bytes(), kind);
            if (in.inout) results += fmt::format("look_at(t[{}], {}); ", n, bytes);
            n++;
        }
        for (const std::string &out : k.op.separate_outputs()) {
            const size_t bytes = bytes_of(make_output(k.op, out, k.test_sizes));
            tensors += fmt::format("malloc({}), ", bytes + 1);
            results += fmt::format("look_at(t[{}], {}); ", n++, bytes);
        }
        std::string sizes;
        for (const std::string &s : k.op.sizes()) sizes += fmt::format("{}, ", k.test_sizes.at(s));
        text += fmt::format("    {{\n        void *t[] = {{{}}};\n        const int64_t sizes[] = {{{}0}};\n"
                            "        fprintf(stderr, \"{}: {}\\n\");\n"
                            "        if ({}_{}_packed(t, sizes)) return 1;\n        {}\n"
                            "        for (int i = 0; i < {}; i++) free(t[i]);\n    }}\n",
                            tensors, sizes, k.name, k.op.name(), d.name, k.name, results, n);
    }
    return text + "    puts(\"all ran\");\n    return 0;\n}\n";
}

void check(const LibraryDescription &d, const std::string &name) {
    const fs::path folder = scratch("test_cpu_memcheck", name);
    LibraryOptions options;
    options.self_test = false;
    build_library(d, folder, options);
    const std::string at = folder.string();
    write_file_atomically(at + "/main.c", program(d));
    must_run("cc -O1 -g " + at + "/main.c -I" + at + " " + at + "/libchecked.a -lm -lpthread -o " + at + "/main");
    std::string text;
    const int code = run("valgrind --error-exitcode=9 -q " + at + "/main", text);
    CHECK_MESSAGE(code == 0, text);
    CHECK(text.find("all ran") != std::string::npos);
}

bool memcheck_is_there() {
    std::string text;
    if (run("valgrind --version", text) == 0) return true;
    MESSAGE("left out: valgrind is not there");
    return false;
}

LibraryDescription empty_library(const std::string &level) {
    LibraryDescription d;
    d.name = "checked";
    d.targets = {level};
    return d;
}

bool runs_here(const std::string &level) { return CpuTarget::level(level).missing_on(CpuTarget::host()).empty(); }

} // namespace

TEST_CASE("memcheck finds nothing in kernels of the library") {
    if (!memcheck_is_there()) return;
    // Valgrind does not support AVX-512.
    for (const std::string level : {"x86-64-avx2", "x86-64-sse4.2"}) {
        if (!runs_here(level)) continue;
        LibraryDescription d = empty_library(level);
        for (const StaleCase &c : stale_cases()) {
            // the same schedules for the most part
            if (level != "x86-64-avx2" && d.kernels.size() >= 40) break;
            const Json complete = ops::complete_parameters(ops::find_operator(c.op), c.parameters);
            d.kernels.push_back({"k" + std::to_string(d.kernels.size()), ops::make(c.op, complete)});
            d.kernels.back().op_name = c.op, d.kernels.back().parameters = complete;
        }
        check(d, level);
    }
}

TEST_CASE("memcheck finds nothing in kernels under random schedules") {
    const std::string level = "x86-64-avx2";
    if (!memcheck_is_there() || !runs_here(level)) return;
    const Target target = Target::named(level);
    LibraryDescription d = empty_library(level);
    for (uint64_t seed = 0; d.kernels.size() < 100; seed++) {
        Random random(seed);
        const property::RandomOp r = property::OpGenerator(random(), target.machine).run();
        const Schedule s =
            property::applied(r.op, target.machine, property::random_directives(r, target.machine, random));
        if (s.directives().size() < 2) continue;
        try {
            const Nest nest = lower(s, LowerOptions());
            const auto packed = [](const TensorArgument &t) { return !t.packed_from.empty(); };
            if (std::any_of(nest.tensors.begin(), nest.tensors.end(), packed)) continue;
        } catch (const UserError &) { // errors that only lowering finds
            continue;
        } catch (const Unsupported &) {
            continue;
        }
        d.kernels.push_back({"k" + std::to_string(d.kernels.size()), r.op});
        d.kernels.back().schedule = ChosenSchedule{Json(s.to_json()), nullptr, 0, "", "random"};
        d.kernels.back().test_sizes = r.sizes;
    }
    check(d, "random");
}
