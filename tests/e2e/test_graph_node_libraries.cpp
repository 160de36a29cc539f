// ONNX's tests of single operators as C libraries with many models, called from a C program: the
// same bits as the program in the process.
// Links: graph/build
// Levels: no
// Sanitized: no
// Cost: 150
// Timeout: 1800
#include "graph/build/model_library.h"
#include "support/error.h"
#include "tests/e2e/shell.h"
#include "tests/unit/onnx_nodes.h"

#include <fstream>
#include <map>

using namespace kumiko;
using namespace kumiko::e2e;
using namespace kumiko::onnx_nodes;

namespace {

constexpr size_t models_per_library = 64;

// A test that is a model of a library.
struct Member {
    std::string test;
    std::vector<Buffer<>> inputs, outputs; // by the program in the process, then sizes of outputs
};

std::string bytes_of(const Buffer<> &b) {
    const Buffer<> dense = b.copy();
    return {static_cast<const char *>(dense.data()), dense.number_of_elements() * size_t(dense.type().bytes())};
}

// Runs all models: each reads model<n>.in, which has its inputs one after another, and writes its
// outputs to model<n>.out. Arenas and outputs are filled with NaN.
std::string program_of(const LibraryDescription &library) {
    std::string text = R"(
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "nodes.h"

static void *array(size_t bytes) {
    void *a = aligned_alloc(64, (bytes + 128) / 64 * 64);
    memset(a, 0xff, bytes + 1);
    return a;
}

static void *read_array(FILE *file, size_t bytes) {
    void *a = array(bytes);
    if (fread(a, 1, bytes, file) != bytes) exit(2);
    return a;
}

static FILE *open_file(const char *name, const char *mode) {
    FILE *file = fopen(name, mode);
    if (!file) exit(3);
    return file;
}

int main(void) {
    FILE *file;
)";
    for (const LibraryModel &m : library.models) {
        std::string macro = m.name;
        std::transform(macro.begin(), macro.end(), macro.begin(), [](unsigned char c) { return std::toupper(c); });
        std::string fields, writes;
        text += fmt::format("    {{\n        {0}_io io;\n        file = open_file(\"{0}.in\", \"rb\");\n", m.name);
        for (const LibraryTensor &t : m.inputs)
            text += fmt::format("        io.{} = read_array(file, {});\n", t.name, t.bytes());
        for (const LibraryTensor &t : m.outputs) {
            text += fmt::format("        io.{} = array({});\n", t.name, t.bytes());
            std::string written = std::to_string(t.bytes());
            if (t.sized_axis >= 0)
                written += fmt::format(" / {} * *io.{}", *t.extents[size_t(t.sized_axis)].constant(), t.size);
            writes += fmt::format("        fwrite(io.{}, 1, (size_t)({}), file);\n", t.name, written);
        }
        text += fmt::format("        fclose(file);\n        void *arena = array({1}_ARENA_BYTES);\n"
                            "        if ({0}_run(&io, arena, NULL)) printf(\"{0}: %s\\n\", nodes_error());\n"
                            "        file = open_file(\"{0}.out\", \"wb\");\n{2}        fclose(file);\n    }}\n",
                            m.name, macro, writes);
    }
    return text + "    return 0;\n}\n";
}

// Builds and runs one library; the members' outputs are compared in bits.
void check_library(const LibraryDescription &library, const std::map<std::string, Member> &members) {
    const fs::path folder = scratch("graph_node_libraries", "nodes");
    build_library(library, folder.string(), {.self_test = false});
    std::ofstream(folder / "app.c") << program_of(library);
    for (const auto &[name, member] : members) {
        std::ofstream file(folder / (name + ".in"), std::ios::binary);
        for (const Buffer<> &input : member.inputs) file << bytes_of(input);
    }
    CHECK_EQ(must_run("cd " + folder.string() + " && cc -std=c11 app.c libnodes.a -lm -lpthread -o app && ./app"), "");
    for (const auto &[name, member] : members) {
        std::string expected;
        for (const Buffer<> &output : member.outputs) expected += bytes_of(output);
        CHECK_MESSAGE(read(folder / (name + ".out")) == expected, member.test);
    }
}

} // namespace

TEST_CASE("ONNX's tests of operators that pass as programs, as models of C libraries") {
    const std::vector<fs::path> all = cases();
    if (all.empty()) {
        MESSAGE("skipped: ./run setup makes ONNX's tests");
        return;
    }
    const Json listed = failing();
    LibraryDescription library;
    library.name = "nodes";
    std::map<std::string, Member> members;
    size_t count = 0, kernels = 0;
    const auto finish = [&] {
        if (members.empty()) return;
        count += members.size(), kernels += library.kernels.size();
        check_library(library, members);
        library.kernels.clear(), library.models.clear(), members.clear();
    };
    for (size_t n = 0; n < all.size(); n++) {
        const std::string test = all[n].filename().string();
        if (listed.at("fails").contains(test) || listed.at("fails_as_program").contains(test)) continue;
        CAPTURE(test);
        const graph::Model model = node_model(all[n]);
        const NodeProgram program = node_program(model, tensors_of(node_values(model, all[n])));
        graph::ModelLibraryOptions options;
        options.name = fmt::format("model{}", n);
        options.model = program.options;
        add_model(library, model, options);
        const graph::CompiledModel compiled = graph::CompiledModel::compile(model, program.options);
        std::vector<Buffer<>> outputs = compiled.run(program.inputs);
        std::map<size_t, int64_t> sizes; // by the position of the output
        for (const graph::SizedOutput &s : compiled.program().sized) sizes[s.size] = outputs[s.output].extent(s.axis);
        for (const auto &[position, size] : sizes) {
            Buffer<int64_t> b{std::vector<int64_t>()};
            b() = size;
            outputs.push_back(b);
        }
        members[options.name] = {test, program.inputs, outputs};
        if (members.size() == models_per_library) finish();
    }
    finish();
    MESSAGE(count << " tests as libraries, " << kernels << " kernels");
}
