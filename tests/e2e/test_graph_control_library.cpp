// Control flow and states in C libraries: the same bits as the program in the process, on two
// threads, twice, with arenas full of NaN, in a program with sanitizers.
// Links: graph/build
// Levels: no
// Sanitized: no
// Cost: 40
#include "graph/build/model_library.h"
#include "tests/e2e/shell.h"
#include "tests/unit/control_flow_models.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <fstream>

using namespace kumiko;
using namespace kumiko::e2e;
using namespace kumiko::control_flow;
namespace fs = std::filesystem;

namespace {

std::string upper(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
    return text;
}

std::string bytes_of(const Buffer<> &b) {
    const Buffer<> dense = b.copy();
    return {static_cast<const char *>(dense.data()), dense.size_in_bytes()};
}

constexpr const char *common = R"(
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "flow.h"

/* Exactly as many bytes as the header says, so that sanitizers see accesses of others. */
static void *array(size_t bytes) {
    void *a = NULL;
    if (posix_memalign(&a, 64, bytes ? bytes : 1)) exit(2);
    memset(a, 0xff, bytes);
    return a;
}

static void *from_file(const char *name, size_t offset, size_t bytes) {
    FILE *file = fopen(name, "rb");
    void *a = array(bytes);
    if (!file || fseek(file, (long)offset, SEEK_SET) || fread(a, 1, bytes, file) != bytes) exit(3);
    fclose(file);
    return a;
}
)";

// A function that runs the model twice and compares the outputs with the file.
std::string checker(const LibraryModel &m) {
    const std::string big = upper(m.name);
    std::string text = fmt::format("static void check_{0}(void) {{\n    for (int again = 0; again < 2; again++) {{\n"
                                   "        {0}_io io;\n        void *arena = array({1}_ARENA_BYTES);\n",
                                   m.name, big);
    std::string after, release = "        free(arena);\n";
    int64_t in = 0, out = 0;
    for (const LibraryTensor &t : m.inputs) {
        text += fmt::format("        io.{} = from_file(\"{}.in\", {}, {});\n", t.name, m.name, in, t.bytes());
        release += fmt::format("        free((void *)io.{});\n", t.name);
        in += t.bytes();
    }
    for (const LibraryTensor &t : m.outputs) {
        text += fmt::format("        io.{} = array({});\n", t.name, t.bytes());
        after += fmt::format("        void *want{0} = from_file(\"{1}.out\", {2}, {3});\n"
                             "        if (memcmp(want{0}, io.{4}, {3})) printf(\"{1}: {4} differs\\n\");\n",
                             out, m.name, out, t.bytes(), t.name);
        release += fmt::format("        free(want{});\n        free(io.{});\n", out, t.name);
        out += t.bytes();
    }
    return text +
           fmt::format("        if ({0}_run(&io, arena, NULL)) printf(\"{0}: %s\\n\", flow_error());\n", m.name) +
           after + release + "    }\n}\n";
}

} // namespace

TEST_CASE("random control flow in a C library") {
    LibraryDescription library;
    library.name = "flow";
    const fs::path folder = scratch("graph_control", "flow");
    fs::create_directories(folder);
    for (uint32_t seed = 0; seed < 24; seed++) {
        const graph::Model m = random_model(seed);
        graph::ModelLibraryOptions options;
        options.name = fmt::format("m{}", seed);
        add_model(library, m, options);
        const graph::CompiledModel compiled = graph::CompiledModel::compile(m);
        std::vector<Buffer<>> inputs;
        std::ofstream in(folder / (options.name + ".in"), std::ios::binary),
            out(folder / (options.name + ".out"), std::ios::binary);
        for (const graph::ProgramTensor &t : compiled.program().inputs) {
            inputs.push_back(input_of(t.type, t.extents, seed + uint32_t(inputs.size())));
            in << bytes_of(inputs.back());
        }
        for (const Buffer<> &output : compiled.run(inputs)) out << bytes_of(output);
    }
    build_library(library, folder.string());
    std::string text = common, calls;
    for (const LibraryModel &m : library.models) {
        text += checker(m);
        calls += fmt::format("    check_{}();\n", m.name);
    }
    std::ofstream(folder / "app.c") << text << "static void *all(void *unused) {\n"
                                    << calls << R"(    return unused;
}
int main(void) {
    pthread_t threads[2];
    for (int n = 0; n < 2; n++) pthread_create(&threads[n], NULL, all, NULL);
    for (int n = 0; n < 2; n++) pthread_join(threads[n], NULL);
    return 0;
}
)";
    const std::string in_folder = "cd " + folder.string() + " && ";
    CHECK_EQ(must_run(in_folder + "cc -std=gnu11 -g -fsanitize=address,undefined app.c libflow.a -lm -lpthread -o app "
                                  "&& ./app"),
             "");
    must_run(in_folder + "cc flow_selftest.c libflow.a -lm -lpthread -o selftest && ./selftest");
}

TEST_CASE("the states of a C library stay from one run to the next, until they are reset") {
    const auto scan = [](int steps) {
        return model(fmt::format("(float[{}, 2] x, float[2] s) => (float[{}, 2] y, float[2] sn)", steps, steps),
                     "sn, y = Scan <num_scan_inputs = 1, body = l (float[2] p, float[2] u) => (float[2] q, float[2] g) "
                     "{ q = Sub(u, p) g = Identity(q) }> (s, x)");
    };
    LibraryDescription library;
    library.name = "flow";
    graph::ModelLibraryOptions options;
    options.name = "part";
    options.model.states = {{"s", "sn"}};
    add_model(library, scan(3), options);
    const fs::path folder = scratch("graph_control", "states");
    build_library(library, folder.string());
    const std::string header = read(folder / "flow.h");
    CHECK_NE(header.find("#define PART_STATE_BYTES 64 "), std::string::npos);
    CHECK_NE(header.find("void part_reset(void *state);"), std::string::npos);

    Buffer<float> zero({2});
    zero.fill(0);
    const Buffer<> x = input_of(f32, {12, 2}, 5);
    std::ofstream(folder / "x", std::ios::binary) << bytes_of(x);
    std::ofstream(folder / "y", std::ios::binary)
        << bytes_of(graph::CompiledModel::compile(scan(12)).run({x, zero})[0]);
    std::ofstream(folder / "app.c") << common << R"(
int main(void) {
    float *x = from_file("x", 0, 96), *y = from_file("y", 0, 96), *made = array(96);
    part_io io = {.state = array(PART_STATE_BYTES)};
    void *arena = array(PART_ARENA_BYTES);
    for (int again = 0; again < 2; again++) {
        part_reset(io.state);
        for (int n = 0; n < 4; n++) {
            io.x = x + 6 * n, io.y = made + 6 * n;
            if (part_run(&io, arena, NULL)) printf("%s\n", flow_error());
        }
        if (memcmp(made, y, 96)) printf("the chunks differ from the whole\n");
    }
    io.state = NULL;
    printf("%d %s\n", part_run(&io, arena, NULL), flow_error());
    return 0;
}
)";
    const std::string in_folder = "cd " + folder.string() + " && ";
    CHECK_EQ(must_run(in_folder + "cc -std=gnu11 app.c libflow.a -lm -lpthread -o app && ./app"),
             "1 part_run: state is a null pointer\n");
    must_run(in_folder + "cc flow_selftest.c libflow.a -lm -lpthread -o selftest && ./selftest");
}
