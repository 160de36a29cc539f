#include "cli/against.h"

#include "bench/python_peer.h"
#include "cli/model.h"
#include "dsl/buffer_elements.h"
#include "dsl/dense.h"
#include "dsl/npy.h"
#include "dsl/types.h"
#include "graph/build/compiled_model.h"
#include "support/error.h"
#include "support/temporary_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <set>

namespace kumiko::cli {

namespace {

using Values = std::map<std::string, Buffer<>>;

// Functions such as sigmoid have errors of this order near 0, as the tolerances of ONNX's tests
// allow: 1e-7 for f32.
constexpr double absolute = 1e-4;

double tolerance_of(Type type, double given) {
    if (!type.is_float()) return 0;
    if (given > 0) return given;
    return type == f64 ? 1e-7 : type == f32 ? 1e-3 : type == f16 ? 1e-2 : 4e-2;
}

struct Difference {
    std::string text;    // "" if the tensors agree
    double relative = 0; // the largest one, to the largest element
    size_t steps = 0;    // bytes that are one step away
};

Difference compare(const Buffer<> &our, const Buffer<> &their, double given_tolerance) {
    const Buffer<> ours = dense(our), theirs = dense(their);
    if (ours.type() != theirs.type() || ours.extents() != theirs.extents())
        return {fmt::format("it is {}, and {} there", shape_text(ours), shape_text(theirs)), INFINITY};
    const Type type = theirs.type();
    const auto *a = static_cast<const uint8_t *>(ours.data()), *b = static_cast<const uint8_t *>(theirs.data());
    const size_t count = theirs.number_of_elements(), bytes = size_t(type.bytes());
    if (!type.is_float()) {
        // Floats that differ within their tolerance may be quantised to neighbours.
        const bool quantised = type == u8 || type == i8;
        size_t steps = 0;
        for (size_t i = 0; i < count; i++) {
            if (std::equal(a + i * bytes, a + (i + 1) * bytes, b + i * bytes)) continue;
            const double x = read_element(type, a + i * bytes), y = read_element(type, b + i * bytes);
            if (quantised && std::abs(x - y) == 1) {
                steps++;
                continue;
            }
            return {fmt::format("element {} is {}, and {} there; legal {}", i, x, y,
                                quantised ? "is a difference of 1" : "are equal integers"),
                    INFINITY};
        }
        return {"", 0, steps};
    }
    double largest = 0, most = 0;
    size_t at = 0;
    bool special = false; // NaN or an infinity in one of them
    for (size_t i = 0; i < count; i++) {
        const double x = read_element(type, a + i * bytes), y = read_element(type, b + i * bytes);
        if (std::isfinite(y)) largest = std::max(largest, std::abs(y));
        if (x == y || (std::isnan(x) && std::isnan(y))) continue;
        const double distance = std::abs(x - y);
        if (special || (std::isfinite(distance) && distance <= most)) continue;
        special = !std::isfinite(distance);
        most = distance, at = i;
    }
    const double bound = tolerance_of(type, given_tolerance) * (largest + absolute);
    if (!special && most <= bound) return {"", largest > 0 ? most / largest : 0};
    return {fmt::format("element {} is {:.7g}, and {:.7g} there; legal is a difference of {:.3g}, {:g} of the largest "
                        "element",
                        at, read_element(type, a + at * bytes), read_element(type, b + at * bytes), bound,
                        tolerance_of(type, given_tolerance)),
            INFINITY};
}

// The type in the requests of bench/peer_process.py.
std::string peer_type(Type t) {
    const std::string name = type_name(t);
    return name[0] == 'i' ? "s" + name.substr(1) : name;
}

} // namespace

PeerValues run_onnxruntime(const graph::Model &model, const Values &given) {
    bench::PythonPeer peer(bench::PythonPeer::Library::OnnxRuntime);
    if (!peer.reason().empty()) throw UserError("ONNX Runtime is not here: " + peer.reason());
    const TemporaryFolder folder;
    std::vector<std::unique_ptr<bench::SharedFile>> files;
    Json request = {{"do", "values"},
                    {"model", std::filesystem::absolute(model.name()).string()},
                    {"inputs", Json::array()},
                    {"folder", folder.path().string()}};
    for (const graph::ValueInfo &in : model.graph().inputs) {
        const Buffer<> array = dense(given.at(in.name));
        files.push_back(std::make_unique<bench::SharedFile>(array.size_in_bytes()));
        files.back()->write(array.data());
        request["inputs"].push_back({{"name", in.name},
                                     {"type", peer_type(array.type())},
                                     {"shape", array.extents()},
                                     {"file", files.back()->path()}});
    }
    const Json answer = peer.ask(request);
    if (answer.contains("refused"))
        throw UserError("ONNX Runtime refuses the model: " + answer.at("refused").get<std::string>());
    PeerValues all{peer.version(), {}};
    for (const auto &[name, file] : answer.at("values").items()) {
        try {
            all.values[name] = load_npy((folder.path() / file.get<std::string>()).string());
        } catch (const Unsupported &) { // of a type that Kumiko does not have: not compared
        }
    }
    return all;
}

namespace {

// Adds the names of values that the node and its inner graphs read from outside of it.
void add_reads(const graph::Node &node, std::set<std::string> &reads) {
    for (const std::string &name : node.inputs) {
        if (!name.empty()) reads.insert(name);
    }
    for (const auto &[name, attribute] : node.attributes) {
        const auto *graph = std::get_if<std::shared_ptr<const graph::Graph>>(&attribute.value);
        if (!graph) continue;
        std::set<std::string> inner;
        for (const graph::Node &n : (*graph)->nodes) add_reads(n, inner);
        for (const graph::ValueInfo &o : (*graph)->outputs) inner.insert(o.name);
        for (const graph::Node &n : (*graph)->nodes) {
            for (const std::string &o : n.outputs) inner.erase(o);
        }
        for (const graph::ValueInfo &i : (*graph)->inputs) inner.erase(i.name);
        for (const auto &[constant, value] : (*graph)->constants) inner.erase(constant);
        reads.insert(inner.begin(), inner.end());
    }
}

// The nodes that compute a value from values that both have, and from constants.
struct Cut {
    graph::Graph graph;
    std::vector<std::string> nodes; // labels
};

Cut cut_before(const graph::Graph &whole, size_t last, const std::string &value, const Values &ours,
               const Values &theirs) {
    std::set<std::string> needed = {value}, inputs;
    std::vector<const graph::Node *> nodes;
    Cut cut;
    for (size_t n = last + 1; n-- > 0;) {
        const graph::Node &node = whole.nodes[n];
        const auto made_here = [&](const std::string &name) { return needed.count(name) && !inputs.count(name); };
        if (std::none_of(node.outputs.begin(), node.outputs.end(), made_here)) continue;
        nodes.insert(nodes.begin(), &node);
        cut.nodes.insert(cut.nodes.begin(), node.label());
        std::set<std::string> reads;
        add_reads(node, reads);
        for (const std::string &name : reads) {
            needed.insert(name);
            if (const auto constant = whole.constants.find(name); constant != whole.constants.end())
                cut.graph.constants.insert(*constant);
            else if (ours.count(name) && theirs.count(name))
                inputs.insert(name);
        }
    }
    cut.graph.name = "difference";
    for (const std::string &name : inputs)
        cut.graph.inputs.push_back(graph::ValueInfo::of(name, theirs.at(name).type(), theirs.at(name).extents()));
    cut.graph.outputs = {graph::ValueInfo::of(value, theirs.at(value).type(), theirs.at(value).extents())};
    for (const graph::Node *node : nodes) cut.graph.nodes.push_back(*node);
    return cut;
}

void save_test(const graph::Model &model, const Values &values, const std::string &folder) {
    namespace fs = std::filesystem;
    const fs::path data = fs::path(folder) / "test_data_set_0";
    std::error_code error;
    fs::create_directories(data, error);
    if (error) throw UserError(fmt::format("cannot make the folder {}: {}", data.string(), error.message()));
    for (const fs::directory_entry &old : fs::directory_iterator(data)) {
        const std::string name = old.path().filename().string();
        if (old.path().extension() == ".pb" && (name.starts_with("input_") || name.starts_with("output_")))
            fs::remove(old.path());
    }
    model.save((fs::path(folder) / "model.onnx").string());
    const auto save = [&](const char *kind, const std::vector<graph::ValueInfo> &of) {
        for (size_t n = 0; n < of.size(); n++)
            graph::save_tensor((data / fmt::format("{}_{}.pb", kind, n)).string(), values.at(of[n].name), of[n].name);
    };
    save("input", model.graph().inputs);
    save("output", model.graph().outputs);
}

// Whether the nodes alone differ, on the inputs that ONNX Runtime has computed, as a sentence.
std::string run_alone(const graph::Model &model, const Values &theirs, const CompareOptions &options) {
    std::vector<Buffer<>> inputs, results;
    for (const graph::ValueInfo &in : model.graph().inputs) inputs.push_back(theirs.at(in.name));
    try {
        if (options.compiled) {
            const graph::CompiledModel compiled = graph::CompiledModel::compile(model);
            std::vector<Buffer<>> open;
            for (const graph::ProgramTensor &in : compiled.program().inputs) open.push_back(theirs.at(in.name));
            results = compiled.run(open);
        } else {
            results = graph::evaluate(model, inputs, {.run = graph::run_by_kernels()});
        }
    } catch (const std::exception &e) {
        return fmt::format("Alone they cannot be run: {}", e.what());
    }
    const std::string differs = compare(results[0], theirs.at(model.graph().outputs[0].name), options.tolerance).text;
    return differs.empty() ? "On ONNX Runtime's inputs they agree: the difference grows from those of their inputs."
                           : "On ONNX Runtime's inputs they differ too: " + differs + ".";
}

} // namespace

void compare_with_onnxruntime(const graph::Model &model, const Values &ours, const CompareOptions &options) {
    const PeerValues peer = run_onnxruntime(model, ours);
    Values theirs = peer.values;
    for (const graph::ValueInfo &in : model.graph().inputs) theirs[in.name] = ours.at(in.name);
    const graph::Graph &graph = model.graph();
    size_t compared = 0, hidden = 0, steps = 0;
    double largest = 0;
    std::string largest_of;
    for (size_t n = 0; n < graph.nodes.size(); n++) {
        for (const std::string &name : graph.nodes[n].outputs) {
            const auto mine = ours.find(name);
            const auto other = theirs.find(name);
            if (name.empty() || other == theirs.end()) continue;
            if (mine == ours.end()) {
                hidden++;
                continue;
            }
            const Difference difference = compare(mine->second, other->second, options.tolerance);
            if (difference.text.empty()) {
                compared++, steps += difference.steps;
                if (difference.relative >= largest) largest = difference.relative, largest_of = name;
                continue;
            }
            const Cut cut = cut_before(graph, n, name, ours, theirs);
            const graph::Model test = graph::Model::of_graph(cut.graph, "difference");
            save_test(test, theirs, options.folder);
            throw UserError(fmt::format("\"{}\" differs from ONNX Runtime {}: {}.\n  It is computed by {}; {} values "
                                        "before it agree. {}\n  saved as a test: {}",
                                        name, peer.version, difference.text, fmt::join(cut.nodes, ", "), compared,
                                        run_alone(test, theirs, options), options.folder));
        }
    }
    if (compared == 0) throw UserError("no value of the model is known to both, so that nothing is compared");
    std::cout << fmt::format("{} values agree with ONNX Runtime {}; the largest difference is {:.2g} of the largest "
                             "element, of \"{}\"\n",
                             compared, peer.version, largest, largest_of);
    if (steps) std::cout << fmt::format("{} elements of bytes are one step away\n", steps);
    if (hidden) std::cout << fmt::format("{} values exist only inside of kernels; --nodes compares all\n", hidden);
}

} // namespace kumiko::cli
