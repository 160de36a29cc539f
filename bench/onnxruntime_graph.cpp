// Graphs for ONNX Runtime in the format of its process.
#include "bench/onnxruntime_graph.h"

#include <map>

namespace kumiko::bench {

namespace {

const char *type_name(Dtype type) {
    static const std::map<Dtype, const char *> names = {{Dtype::F32, "f32"}, {Dtype::F64, "f64"},   {Dtype::F16, "f16"},
                                                        {Dtype::U8, "u8"},   {Dtype::BF16, "bf16"}, {Dtype::S8, "s8"},
                                                        {Dtype::S32, "s32"}};
    return names.at(type);
}

} // namespace

size_t onnx_bytes(Dtype type, const OnnxShape &shape) {
    size_t bytes = bytes_of(type);
    for (int64_t n : shape) bytes *= static_cast<size_t>(n);
    return bytes;
}

OnnxName OnnxGraph::input(Dtype type, const OnnxShape &shape, const void *data, bool constant) {
    files_.push_back(std::make_unique<SharedFile>(onnx_bytes(type, shape)));
    files_.back()->write(data);
    const OnnxName name = next_name();
    inputs_.push_back({{"name", name},
                       {"type", type_name(type)},
                       {"shape", shape},
                       {"constant", constant},
                       {"file", files_.back()->path()}});
    return name;
}

OnnxName OnnxGraph::numbers(const char *type, const Json &values, const OnnxShape &shape) {
    const OnnxName name = next_name();
    inputs_.push_back({{"name", name}, {"type", type}, {"shape", shape}, {"constant", true}, {"values", values}});
    return name;
}

OnnxName OnnxGraph::node(const std::string &op, const std::vector<OnnxName> &inputs, const Json &attributes,
                         const std::string &domain) {
    return nodes(1, op, inputs, attributes, domain).front();
}

std::vector<OnnxName> OnnxGraph::nodes(size_t results, const std::string &op, const std::vector<OnnxName> &inputs,
                                       const Json &attributes, const std::string &domain) {
    std::vector<OnnxName> names;
    for (size_t n = 0; n < results; n++) names.push_back(next_name());
    nodes_.push_back(
        {{"op", op}, {"domain", domain}, {"inputs", inputs}, {"outputs", names}, {"attributes", attributes}});
    return names;
}

Json OnnxGraph::request(const std::vector<OnnxOutput> &outputs, const std::vector<std::unique_ptr<SharedFile>> &files,
                        int threads) const {
    Json results = Json::array();
    for (size_t n = 0; n < outputs.size(); n++) {
        const OnnxOutput &o = outputs[n];
        results.push_back(
            {{"name", o.name}, {"type", type_name(o.type)}, {"shape", o.shape}, {"file", files[n]->path()}});
    }
    return {{"do", "make"},      {"threads", threads}, {"opsets", {{"", 23}, {"com.microsoft", 1}}},
            {"inputs", inputs_}, {"nodes", nodes_},    {"outputs", results}};
}

OnnxSession::OnnxSession(std::shared_ptr<PythonPeer> process, const OnnxGraph &graph,
                         const std::vector<OnnxOutput> &outputs, int threads, bool flush_denormals)
    : process_(std::move(process)) {
    for (const OnnxOutput &o : outputs) results_.push_back(std::make_unique<SharedFile>(onnx_bytes(o.type, o.shape)));
    Json request = graph.request(outputs, results_, threads);
    request["flush_denormals"] = flush_denormals;
    const Json answer = process_->ask(request);
    if (answer.contains("refused"))
        refusal_ = answer.at("refused").get<std::string>();
    else
        id_ = answer.at("id").get<int64_t>();
}

OnnxSession::~OnnxSession() {
    if (id_ < 0) return;
    try {
        process_->ask({{"do", "drop"}, {"id", id_}});
    } catch (const std::exception &) { // the process has ended, and its sessions with it
    }
}

double OnnxSession::run(int times, Clock clock) {
    const char *name = clock == Clock::Processor ? "processor" : "wall";
    return process_->ask({{"do", "run"}, {"id", id_}, {"times", times}, {"clock", name}}).at("seconds").get<double>();
}

void OnnxSession::collect(const std::vector<void *> &to) {
    process_->ask({{"do", "collect"}, {"id", id_}});
    for (size_t n = 0; n < to.size(); n++) results_[n]->read(to[n]);
}

OnnxName onnx_function(OnnxGraph &graph, const std::string &function, const OnnxName &x) {
    static const std::map<std::string, std::pair<const char *, Json>> operators = {
        {"relu", {"Relu", {}}},
        {"sigmoid", {"Sigmoid", {}}},
        {"tanh", {"Tanh", {}}},
        {"gelu", {"Gelu", {{"approximate", "none"}}}},
        {"exp", {"Exp", {}}},
        {"gelu_tanh", {"Gelu", {{"approximate", "tanh"}}}},
        {"log", {"Log", {}}},
        {"sqrt", {"Sqrt", {}}},
        {"abs", {"Abs", {}}},
        {"neg", {"Neg", {}}},
        {"erf", {"Erf", {}}},
        {"softplus", {"Softplus", {}}},
        {"sin", {"Sin", {}}},
        {"cos", {"Cos", {}}},
        {"floor", {"Floor", {}}},
        {"ceil", {"Ceil", {}}},
        {"round", {"Round", {}}},
        {"sign", {"Sign", {}}},
        {"hard_swish", {"HardSwish", {}}},
        {"reciprocal", {"Reciprocal", {}}},
        {"leaky_relu", {"LeakyRelu", {{"alpha", 0.01}}}},
        {"hard_sigmoid", {"HardSigmoid", {{"alpha", 1.0 / 6}, {"beta", 0.5}}}}};
    if (const auto found = operators.find(function); found != operators.end())
        return graph.node(found->second.first, {x},
                          found->second.second.is_null() ? Json::object() : found->second.second);
    if (function == "silu") return graph.node("QuickGelu", {x}, {{"alpha", 1.0}}, "com.microsoft");
    if (function == "square") return graph.node("Mul", {x, x});
    if (function == "relu6")
        return graph.node("Clip", {x, graph.numbers("f32", 0, OnnxShape()), graph.numbers("f32", 6, OnnxShape())});
    return "";
}

} // namespace kumiko::bench
