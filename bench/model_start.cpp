#include "bench/model_start.h"

#include "bench/model_peers.h"
#include "driver/library_files.h"
#include "dsl/types.h"
#include "graph/build/model_library.h"
#include "support/command.h"
#include "support/error.h"
#include "support/table.h"
#include "support/temporary_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace kumiko::bench {

namespace {

constexpr int program_runs = 7;

// Prints seconds until the library is ready, of the first run and of a later one, and the largest
// resident memory in KiB.
const char *const start_program = R"(
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "net.h"

enum { RUNS = 15 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static void *array(size_t bytes) { return aligned_alloc(64, (bytes + 127) / 64 * 64); }

int main(void) {
    double begin = now(), warm[RUNS];
    void *library = dlopen("./libnet.so", RTLD_NOW | RTLD_LOCAL);
    if (!library) return printf("%s\n", dlerror()), 1;
    int (*run)(const net_io *, void *, const kumiko_context *) =
        (int (*)(const net_io *, void *, const kumiko_context *))dlsym(library, "net_run");
    const double ready = now() - begin;
    ((void (*)(int))dlsym(library, "net_set_num_threads"))(1);
    net_io io = {0};
ARRAYS
    begin = now();
    void *arena = array(NET_ARENA_BYTES);
    if (run(&io, arena, NULL)) return printf("the first run failed\n"), 1;
    const double first = now() - begin;
    for (int n = 0; n < RUNS; n++) {
        begin = now();
        if (run(&io, arena, NULL)) return printf("a run failed\n"), 1;
        warm[n] = now() - begin;
    }
    qsort(warm, RUNS, sizeof warm[0], by_value);
    char line[256];
    long resident = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "VmHWM:", 6)) resident = atol(line + 6);
    printf("%.9f %.9f %.9f %ld\n", ready, first, warm[RUNS / 2], resident);
    return 0;
}
)";

// C that allocates the arrays and fills the inputs: floats in [-1, 1), integers of 0 and 1.
std::string arrays_of(const LibraryModel &model) {
    std::string text;
    for (const LibraryTensor &t : model.inputs) {
        const std::string type = c_element_type(t.type);
        const bool real = type == "float" || type == "double";
        text += fmt::format("    {0} *{1} = array({2} * sizeof({0}));\n"
                            "    for (long n = 0; n < {2}L; n++) {1}[n] = ({0}){3};\n    io.{1} = {1};\n",
                            type, t.name, t.elements(),
                            real                                      ? "((double)(n * 7919 % 65536) / 32768 - 1)"
                            : t.type.is_float() || t.type.is_bfloat() ? "0"
                                                                      : "(n * 7919 % 3 == 1)");
    }
    for (const LibraryTensor &t : model.outputs)
        text += fmt::format("    io.{0} = array({1} * sizeof({2}));\n", t.name, t.elements(), c_element_type(t.type));
    return text;
}

std::string must_succeed(const std::string &command, const std::string &what) {
    std::string printed;
    if (run_command(command, printed) != 0) throw UserError(what + " failed: " + printed);
    return printed;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

int64_t onnxruntime_bytes(const ModelCase &model, const graph::Model &loaded, std::string &reason) {
    PythonPeer process(PythonPeer::Library::OnnxRuntime);
    reason = process.reason();
    if (!reason.empty()) return 0;
    const graph::Program program = graph::make_program(graph::make_graph(loaded, model.options), model.options.groups);
    std::vector<Buffer<>> inputs;
    for (const graph::ProgramTensor &t : program.inputs) {
        inputs.emplace_back(t.type, t.extents);
        std::fill_n(static_cast<uint8_t *>(inputs.back().data()), inputs.back().size_in_bytes(), uint8_t(0));
    }
    ModelPeer peer(process, model.file, program, inputs, model.options.constants, 1);
    reason = peer.refusal();
    if (!reason.empty()) return 0;
    peer.run(3);
    return process.ask({{"do", "resident"}}).at("bytes").get<int64_t>();
}

std::string megabytes(int64_t bytes) { return bytes ? fmt::format("{:.1f}", double(bytes) / (1 << 20)) : "-"; }

// Builds the model in the folder as libnet.so, and runs it in a C program.
ModelStartRow run_start_program(const graph::Model &loaded, const graph::CompileModelOptions &options,
                                const TemporaryFolder &folder) {
    ModelStartRow row;
    const std::string at = folder.path().string();
    graph::ModelLibraryOptions library;
    library.name = "net", library.threads = 1, library.model = options;
    const LibraryDescription description = graph::describe_library(loaded, library);
    build_library(description, at, {.self_test = false, .shared = true});
    row.file_bytes = int64_t(std::filesystem::file_size(folder.path() / "libnet.so"));
    std::string program = start_program;
    const std::string place = "ARRAYS\n";
    program.replace(program.find(place), place.size(), arrays_of(description.models[0]));
    std::ofstream(folder.path() / "start.c") << program;
    must_succeed("cd '" + at + "' && cc -std=c11 -O1 start.c -ldl -o start", "the C program of model-start");
    std::vector<double> ready, first, warm, resident;
    for (int n = 0; n < program_runs; n++) {
        std::istringstream printed(must_succeed("cd '" + at + "' && ./start", "running the C program of model-start"));
        double values[4] = {};
        for (double &v : values) printed >> v;
        ready.push_back(values[0]), first.push_back(values[1]), warm.push_back(values[2]);
        resident.push_back(values[3]);
    }
    row.ready_seconds = median(ready), row.first_seconds = median(first), row.warm_seconds = median(warm);
    row.resident_bytes = int64_t(median(resident)) * 1024;
    return row;
}

} // namespace

ModelStartRow measure_model_start(const ModelCase &model, const BenchOptions &options) {
    const TemporaryFolder folder;
    const graph::Model loaded = graph::Model::load(model.file);
    ModelStartRow row = run_start_program(loaded, model.options, folder);
    row.name = model.name;
    if (options.peers) row.peer_bytes = onnxruntime_bytes(model, loaded, row.without_peer);
    return row;
}

PythonCall measure_python_call() {
    PythonCall call;
    const std::string modules = KUMIKO_DEPS "/python";
    for (const char *module : {"numpy", "tvm_ffi"}) {
        if (std::filesystem::exists(modules + "/" + module)) continue;
        call.not_measured = fmt::format("there is no {}/{}; ./run setup fetches it", modules, module);
        return call;
    }
    const TemporaryFolder folder;
    const auto model = graph::Model::parse_text("<ir_version: 10, opset_import: [\"\" : 21]> "
                                                "g (float[16] x) => (float[16] y) { y = Relu(x) }",
                                                "small");
    call.model_seconds = run_start_program(model, {}, folder).warm_seconds;
    const std::string command = fmt::format("PYTHONPATH='{}' python3 '{}/bench/python_call.py' '{}/libnet.so' 16",
                                            modules, KUMIKO_SOURCE_DIR, folder.path().string());
    must_succeed(command, "bench/python_call.py"); // its files are in the system's cache afterwards
    const Json seconds = parse_json(must_succeed(command, "bench/python_call.py"), "python_call.py's answer");
    call.import_seconds = seconds.at("import"), call.first_seconds = seconds.at("first"),
    call.numpy_seconds = seconds.at("numpy");
    call.tvm_ffi_seconds = seconds.at("tvm_ffi");
    return call;
}

Json PythonCall::json() const {
    Json j = {{"suite", "model-start"}, {"case", "a call from Python"}};
    if (!not_measured.empty()) {
        j["failure"] = not_measured;
        return j;
    }
    j["import_ms"] = 1e3 * import_seconds, j["first_ms"] = 1e3 * first_seconds, j["model_us"] = 1e6 * model_seconds;
    j["numpy_us"] = 1e6 * numpy_seconds, j["tvm_ffi_us"] = 1e6 * tvm_ffi_seconds;
    return j;
}

Json ModelStartRow::json() const {
    Json j = {{"suite", "model-start"}, {"case", name}};
    if (!failure.empty()) {
        j["failure"] = failure;
        return j;
    }
    j["ready_ms"] = 1e3 * ready_seconds, j["first_ms"] = 1e3 * first_seconds, j["warm_ms"] = 1e3 * warm_seconds;
    j["file_bytes"] = file_bytes, j["resident_bytes"] = resident_bytes;
    if (peer_bytes) j["onnxruntime_resident_bytes"] = peer_bytes;
    if (!without_peer.empty()) j["no_onnxruntime"] = without_peer;
    return j;
}

std::string model_start_text(const std::vector<ModelStartRow> &rows, const PythonCall &call) {
    Table table({"model", "ready ms", "first ms", "warm ms", "first - 1.3 warm", "file MiB", "resident MiB",
                 "ONNX Runtime MiB"});
    std::string notes;
    for (const ModelStartRow &r : rows) {
        if (!r.failure.empty()) {
            notes += fmt::format("{}: not measured: {}\n", r.name, r.failure);
            continue;
        }
        table.row({r.name, fmt::format("{:.3f}", 1e3 * r.ready_seconds), fmt::format("{:.2f}", 1e3 * r.first_seconds),
                   fmt::format("{:.2f}", 1e3 * r.warm_seconds),
                   fmt::format("{:.2f}", 1e3 * (r.first_seconds - 1.3 * r.warm_seconds)), megabytes(r.file_bytes),
                   megabytes(r.resident_bytes), megabytes(r.peer_bytes)});
        if (!r.without_peer.empty()) notes += fmt::format("{}: without ONNX Runtime: {}\n", r.name, r.without_peer);
    }
    if (call.not_measured.empty())
        notes += fmt::format("from Python, of a model that takes {:.2f} us: a call takes {:.2f} us on arrays of NumPy, "
                             "{:.2f} us on tensors of TVM FFI;\nthe first answer comes {:.1f} ms after loading begins, "
                             "and importing numpy and tvm_ffi takes {:.0f} ms\n",
                             1e6 * call.model_seconds, 1e6 * call.numpy_seconds, 1e6 * call.tvm_ffi_seconds,
                             1e3 * call.first_seconds, 1e3 * call.import_seconds);
    else
        notes += "from Python: not measured: " + call.not_measured + "\n";
    return table.text() + notes;
}

} // namespace kumiko::bench
