#include "bench/outside_program.h"

#include "dsl/types.h"
#include "support/command.h"
#include "support/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace kumiko::bench {

namespace {

const char *const library_name = "outside";

// Requests are "open PLACEMENT KERNEL FILE", "time PLACEMENT CALLS", "write PLACEMENT" and "close
// PLACEMENT". An answer is a number, or "error: " and a text.
const char *const prelude = R"(#include "outside.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { MALLOC, LINES, PAGES, PLACEMENTS };
enum { MAX_TENSORS = 64 };

/* Denormal in every float type. */
static void fill_with_denormals(void *block, size_t bytes) {
    uint16_t *words = block;
    for (size_t i = 0; i < bytes / 2; i++) words[i] = 1;
}

/* Leaves free blocks of many sizes between used ones, all filled with denormal numbers. Freeing a
 * block of 16 MiB raises glibc's threshold for mmap, so that later arrays are parts of the heap. */
static void use_heap(void) {
    enum { SMALL = 4096, LARGE = 5 };
    static void *small[SMALL], *large[LARGE];
    const size_t large_bytes = (size_t)16 << 20;
    free(malloc(large_bytes));
    for (int i = 0; i < LARGE; i++)
        if ((large[i] = malloc(large_bytes))) fill_with_denormals(large[i], large_bytes);
    for (int i = 0; i < SMALL; i++) {
        const size_t bytes = ((size_t)16 << i % 12) + (size_t)(i * 40503 % 977);
        if ((small[i] = malloc(bytes))) fill_with_denormals(small[i], bytes);
    }
    for (int i = 0; i < SMALL; i++)
        if (i % 4) free(small[i]);
    for (int i = 0; i + 1 < LARGE; i++) free(large[i]);
}

typedef struct {
    int inputs, tensors;
    const size_t *bytes; /* of the tensors before packing */
    int (*call)(void **arrays);
    int (*pack)(void **arrays, int placement);
} kernel;

static struct {
    const kernel *k;
    void *arrays[MAX_TENSORS];
    FILE *file;
} opened[PLACEMENTS];

static struct {
    void *blocks[2 * MAX_TENSORS];
    int count;
} taken[PLACEMENTS];

static void *take(size_t bytes, int placement) {
    char *block = placement == MALLOC ? malloc(bytes + 64) : aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    if (!block) return NULL;
    taken[placement].blocks[taken[placement].count++] = block;
    if (placement == MALLOC) return block + (80 - (uintptr_t)block % 64) % 64;
#if defined(MADV_HUGEPAGE)
    if (placement == PAGES && bytes >= (size_t)4 << 20) {
        char *page = block + (4096 - (uintptr_t)block % 4096) % 4096;
        madvise(page, (size_t)(block + bytes - page), MADV_HUGEPAGE);
    }
#endif
    return block;
}

)";

const char *const main_part = R"(
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void complain(const char *what) {
    printf("error: %s\n", what);
    fflush(stdout);
}

static void answer(double number) {
    printf("%.9g\n", number);
    fflush(stdout);
}

static void close_kernel(int p) {
    while (taken[p].count > 0) free(taken[p].blocks[--taken[p].count]);
    if (opened[p].file) fclose(opened[p].file);
    opened[p].file = NULL;
    opened[p].k = NULL;
}

static const char *open_kernel(int p, int number, const char *path) {
    const kernel *k = &kernels[number];
    void **arrays = opened[p].arrays;
    close_kernel(p);
    opened[p].file = fopen(path, "r+b");
    if (!opened[p].file) return "the file of inputs cannot be opened";
    for (int t = 0; t < k->tensors; t++) {
        arrays[t] = take(k->bytes[t], p);
        if (!arrays[t]) return "there is no memory for the arrays";
        if (t < k->inputs && fread(arrays[t], 1, k->bytes[t], opened[p].file) != k->bytes[t])
            return "the file of inputs is too short";
    }
    if (k->pack && k->pack(arrays, p)) return outside_error();
    if (k->call(arrays)) return outside_error();
    opened[p].k = k;
    return NULL;
}

static const char *time_kernel(int p, int calls, double *seconds) {
    const kernel *k = opened[p].k;
    int failed = k->call(opened[p].arrays);
    const double start = now();
    for (int i = 0; i < calls; i++) failed |= k->call(opened[p].arrays);
    *seconds = now() - start;
    return failed ? outside_error() : NULL;
}

static const char *write_outputs(int p) {
    const kernel *k = opened[p].k;
    long at = 0;
    for (int t = 0; t < k->inputs; t++) at += (long)k->bytes[t];
    if (fseek(opened[p].file, at, SEEK_SET)) return "the file of outputs cannot be written";
    for (int t = k->inputs; t < k->tensors; t++)
        if (fwrite(opened[p].arrays[t], 1, k->bytes[t], opened[p].file) != k->bytes[t])
            return "the file of outputs cannot be written";
    return fflush(opened[p].file) ? "the file of outputs cannot be written" : NULL;
}

int main(int argc, char **argv) {
    char line[4096], path[4096];
    int p, number;
    outside_set_num_threads(argc > 1 ? atoi(argv[1]) : 1);
    use_heap();
    while (fgets(line, sizeof line, stdin)) {
        const char *failure = "unknown request";
        double result = 0;
        if (sscanf(line, "open %d %d %4095s", &p, &number, path) == 3)
            failure = open_kernel(p, number, path);
        else if (sscanf(line, "time %d %d", &p, &number) == 2)
            failure = time_kernel(p, number, &result);
        else if (sscanf(line, "write %d", &p) == 1)
            failure = write_outputs(p);
        else if (sscanf(line, "close %d", &p) == 1)
            close_kernel(p), failure = NULL;
        failure ? complain(failure) : answer(result);
    }
    return 0;
}
)";

size_t bytes_of(const Buffer<> &b) { return b.size_in_bytes(); }

std::vector<Buffer<>> outputs_of(const LibraryKernel &k) {
    std::vector<Buffer<>> all;
    for (const std::string &o : k.op.separate_outputs()) all.push_back(make_output(k.op, o, k.test_sizes));
    return all;
}

// static int pack_2(void **t, int placement): replaces inputs by packed ones. "" if there is none.
std::string pack_function(size_t number, const LibraryKernel &k, const Json &about) {
    std::string body;
    for (const Json &pack : about.at("packs")) {
        const Json &tensors = about.at("tensors");
        size_t t = 0;
        while (tensors.at(t).value("packed_from", "") != pack.at("input").get<std::string>()) t++;
        std::string sizes;
        for (const Json &s : pack.at("sizes"))
            sizes += (sizes.empty() ? "" : ", ") + std::to_string(k.test_sizes.at(s.get<std::string>()));
        body +=
            fmt::format("    const int64_t n{0} = {1}_elements({2});\n"
                        "    void *packed{0} = n{0} < 0 ? NULL : take((size_t)n{0} * {3}, placement);\n"
                        "    if (!packed{0} || {1}(t[{0}], packed{0}{4}{2})) return 1;\n"
                        "    t[{0}] = packed{0};\n",
                        t, pack.at("symbol").get<std::string>(), sizes,
                        type_from_name(tensors.at(t).at("type").get<std::string>()).bytes(), sizes.empty() ? "" : ", ");
    }
    if (body.empty()) return "";
    return fmt::format("static int pack_{}(void **t, int placement) {{\n{}    return 0;\n}}\n", number, body);
}

} // namespace

std::string outside_program_source(const std::vector<LibraryKernel> &kernels, const Json &manifest) {
    std::string text = prelude, table;
    for (size_t i = 0; i < kernels.size(); i++) {
        const LibraryKernel &k = kernels[i];
        const Json &about = manifest.at("kernels").at(i);
        std::vector<size_t> bytes;
        for (const Input &in : k.op.inputs()) bytes.push_back(bytes_of(make_input(in, k.test_sizes)));
        for (const Buffer<> &out : outputs_of(k)) bytes.push_back(bytes_of(out));
        std::vector<std::string> arguments;
        size_t tensor = 0;
        for (const Json &a : about.at("arguments")) {
            const auto size = k.test_sizes.find(a.get<std::string>());
            arguments.push_back(size == k.test_sizes.end() ? fmt::format("t[{}]", tensor++)
                                                           : std::to_string(size->second));
        }
        const std::string pack = pack_function(i, k, about);
        text += fmt::format("static const size_t bytes_{0}[] = {{{1}}};\n"
                            "static int call_{0}(void **t) {{ return {2}({3}); }}\n{4}\n",
                            i, fmt::join(bytes, ", "), about.at("symbol").get<std::string>(),
                            fmt::join(arguments, ", "), pack);
        table += fmt::format("    {{{1}, {2}, bytes_{0}, call_{0}, {3}}},\n", i, k.op.inputs().size(), bytes.size(),
                             pack.empty() ? "NULL" : fmt::format("pack_{}", i));
    }
    return text + "static const kernel kernels[] = {\n" + table + "};\n" + main_part;
}

OutsideProgram::OutsideProgram(const std::vector<LibraryKernel> &kernels, int threads) : kernels_(kernels) {
    LibraryDescription library;
    library.name = library_name;
    library.kernels = kernels_;
    const std::string at = folder_.path().string();
    LibraryOptions options;
    options.self_test = false;
    const LibraryReport report = build_library(library, at, options);
    std::ofstream(folder_.path() / "program.c") << outside_program_source(kernels_, report.manifest);
    const char *named = std::getenv("CC");
    const std::string compiler = named ? named : "cc";
    std::string printed;
    const int status =
        run_command(fmt::format("{0} -std=gnu11 -O2 -o '{1}/program' '{1}/program.c' '{1}/lib{2}.a' -lm -lpthread",
                                compiler, at, library_name),
                    printed);
    if (status != 0)
        throw UserError(fmt::format("the C program that calls the kernels was not compiled by \"{}\"; set CC to a C "
                                    "compiler:\n{}",
                                    compiler, printed.substr(0, 2000)));
    process_.emplace("the C program that calls the kernels",
                     std::vector<std::string>{at + "/program", std::to_string(threads)});
}

std::string OutsideProgram::ask(const std::string &request) {
    const std::string answer = process_.value().ask(request);
    if (answer.starts_with("error: "))
        throw UserError(fmt::format("the C program answers \"{}\" by \"{}\"", request, answer.substr(7)));
    return answer;
}

void OutsideProgram::open(size_t kernel, Placement placement, const std::vector<Buffer<>> &inputs) {
    Opened &o = opened_.at(static_cast<size_t>(placement));
    o.kernel = &kernels_.at(kernel);
    o.input_bytes = o.bytes = 0;
    for (const Buffer<> &b : inputs) o.input_bytes += bytes_of(b);
    o.bytes = o.input_bytes;
    for (const Buffer<> &b : outputs_of(*o.kernel)) o.bytes += bytes_of(b);
    std::vector<char> content(o.bytes);
    size_t at = 0;
    for (const Buffer<> &b : inputs) {
        std::memcpy(content.data() + at, b.data(), bytes_of(b));
        at += bytes_of(b);
    }
    o.file = std::make_unique<SharedFile>(o.bytes);
    o.file->write(content.data());
    ask(fmt::format("open {} {} {}", static_cast<int>(placement), kernel, o.file->path()));
}

double OutsideProgram::time(Placement placement, int calls) {
    return std::stod(ask(fmt::format("time {} {}", static_cast<int>(placement), calls)));
}

std::vector<Buffer<>> OutsideProgram::outputs(Placement placement) {
    ask(fmt::format("write {}", static_cast<int>(placement)));
    const Opened &o = opened_.at(static_cast<size_t>(placement));
    std::vector<char> content(o.bytes);
    o.file->read(content.data());
    std::vector<Buffer<>> all = outputs_of(*o.kernel);
    size_t at = o.input_bytes;
    for (const Buffer<> &b : all) {
        std::memcpy(b.data(), content.data() + at, bytes_of(b));
        at += bytes_of(b);
    }
    return all;
}

void OutsideProgram::close(Placement placement) {
    ask(fmt::format("close {}", static_cast<int>(placement)));
    opened_.at(static_cast<size_t>(placement)) = {};
}

} // namespace kumiko::bench
