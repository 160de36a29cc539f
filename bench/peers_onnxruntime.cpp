// ONNX Runtime as a peer: a small graph for each case, run by the process of bench/onnxruntime_process.h.
#include "bench/onnxruntime_process.h"
#include "bench/peers.h"

#include <map>

namespace kumiko::bench {

namespace {

using Shape = std::vector<int64_t>;
using Name = std::string; // of a value in a graph

const char *type_name(Dtype type) {
    static const std::map<Dtype, const char *> names = {{Dtype::F32, "f32"}, {Dtype::F64, "f64"},   {Dtype::F16, "f16"},
                                                        {Dtype::U8, "u8"},   {Dtype::BF16, "bf16"}, {Dtype::S8, "s8"},
                                                        {Dtype::S32, "s32"}};
    return names.at(type);
}

size_t bytes_in(Dtype type, const Shape &shape) {
    size_t bytes = bytes_of(type);
    for (int64_t n : shape) bytes *= static_cast<size_t>(n);
    return bytes;
}

// A graph as the process takes it. Its last node's result is the output.
class Graph {
public:
    // A constant may be brought into another layout when the graph is made; an input is read in each run.
    Name input(Dtype type, const Shape &shape, const void *data, bool constant = false) {
        files_.push_back(std::make_unique<SharedFile>(bytes_in(type, shape)));
        files_.back()->write(data);
        const Name name = next_name();
        inputs_.push_back({{"name", name},
                           {"type", type_name(type)},
                           {"shape", shape},
                           {"constant", constant},
                           {"file", files_.back()->path()}});
        return name;
    }
    Name numbers(const char *type, const Json &values, const Shape &shape) {
        const Name name = next_name();
        inputs_.push_back({{"name", name}, {"type", type}, {"shape", shape}, {"constant", true}, {"values", values}});
        return name;
    }
    Name node(const std::string &op, const std::vector<Name> &inputs, const Json &attributes = Json::object(),
              const std::string &domain = "") {
        const Name name = next_name();
        nodes_.push_back(
            {{"op", op}, {"domain", domain}, {"inputs", inputs}, {"outputs", {name}}, {"attributes", attributes}});
        return name;
    }
    // The request that makes a session of it; the result goes to `file`.
    Json request(const Name &output, Dtype type, const Shape &shape, const SharedFile &file, int threads) const {
        const Json result = {{"name", output}, {"type", type_name(type)}, {"shape", shape}, {"file", file.path()}};
        return {{"do", "make"},      {"threads", threads}, {"opsets", {{"", 23}, {"com.microsoft", 1}}},
                {"inputs", inputs_}, {"nodes", nodes_},    {"outputs", Json::array({result})}};
    }

private:
    Json inputs_ = Json::array(), nodes_ = Json::array();
    std::vector<std::unique_ptr<SharedFile>> files_;
    int names_ = 0;

    Name next_name() { return "v" + std::to_string(names_++); }
};

// function(x), or "" where there is no operator for it.
Name function_node(Graph &graph, const std::string &function, const Name &x) {
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
        return graph.node("Clip", {x, graph.numbers("f32", 0, Shape()), graph.numbers("f32", 6, Shape())});
    return "";
}

class OnnxRuntime : public Peer {
public:
    std::string name() const override { return "ONNX Runtime"; }
    std::string version() const override { return process_->version(); }
    bool available() const override { return process_->reason().empty(); }
    std::string reason() const override { return process_->reason(); }

    Result matmul(const MatmulCase &s, const void *a, const void *b, void *c, const PeerOptions &options) override {
        Graph g;
        const auto stacked = [&](bool batch, int64_t rows, int64_t columns) {
            return batch ? Shape{s.batch, rows, columns} : Shape{rows, columns};
        };
        const bool batch = s.batch != 0;
        const Name left = g.input(s.a, s.transpose_a ? stacked(batch, s.k, s.m) : stacked(batch, s.m, s.k), a);
        const bool many_b = batch && !s.shared_b;
        const Name right = g.input(s.b, s.transpose_b ? stacked(many_b, s.n, s.k) : stacked(many_b, s.k, s.n), b,
                                   options.prepack_weights);
        Name product;
        const bool turned = s.transpose_a || s.transpose_b;
        if (s.c == Dtype::S32) {
            if (turned) return {};
            product = g.node("MatMulInteger", {left, right});
        } else if (s.a != s.c || s.b != s.c) {
            return {};
        } else if (batch && turned) {
            product = g.node("FusedMatMul", {left, right},
                             {{"transA", int(s.transpose_a)}, {"transB", int(s.transpose_b)}}, "com.microsoft");
        } else if (!batch && (turned || s.epilogue.bias)) {
            std::vector<Name> operands = {left, right};
            if (s.epilogue.bias) operands.push_back(g.input(s.c, {s.n}, s.epilogue.bias, true));
            product = g.node("Gemm", operands, {{"transA", int(s.transpose_a)}, {"transB", int(s.transpose_b)}});
        } else {
            product = g.node("MatMul", {left, right});
            if (s.epilogue.bias) product = g.node("Add", {product, g.input(s.c, {s.n}, s.epilogue.bias, true)});
        }
        const Shape shape = stacked(batch, s.m, s.n);
        product = finished(g, product, s.epilogue, shape);
        return made(g, product, s.c, shape, c, options, options.prepack_weights ? "weights packed before" : "");
    }

    Result conv2d(const ConvCase &s, const void *src, const void *weights, void *dst,
                  const PeerOptions &options) override {
        if (options.own_activations) return {}; // it keeps its layout within a graph
        Graph g;
        std::vector<Name> operands = {g.input(s.src, {s.n, s.c, s.h, s.w}, src),
                                      g.input(s.weights, {s.filters, s.c / s.groups, s.r, s.s}, weights, true)};
        if (s.epilogue.bias) operands.push_back(g.input(Dtype::F32, {s.filters}, s.epilogue.bias, true));
        if (!s.floats() && s.dst != Dtype::S32) return {};
        const Shape shape = {s.n, s.filters, s.out_h(), s.out_w()};
        const Name sum = g.node(s.floats() ? "Conv" : "ConvInteger", operands,
                                {{"kernel_shape", {s.r, s.s}},
                                 {"strides", {s.stride, s.stride}},
                                 {"pads", {s.pad, s.pad, s.pad, s.pad}},
                                 {"dilations", {s.dilation, s.dilation}},
                                 {"group", s.groups}});
        return made(g, finished(g, sum, s.epilogue, shape), s.dst, shape, dst, options);
    }

    Result rows(const RowsCase &s, const float *src, const float *scale, const float *shift, float *dst,
                const PeerOptions &options) override {
        Graph g;
        const Shape shape = {s.rows, s.columns}, row = {s.columns};
        std::vector<Name> operands = {g.input(Dtype::F32, shape, src)};
        Name y;
        if (s.function == "softmax" || s.function == "log_softmax") {
            y = g.node(s.function == "softmax" ? "Softmax" : "LogSoftmax", operands, {{"axis", -1}});
        } else if (s.function == "layer_norm" || s.function == "rms_norm") {
            operands.push_back(g.input(Dtype::F32, row, scale, true));
            if (shift) operands.push_back(g.input(Dtype::F32, row, shift, true));
            y = g.node(shift ? "LayerNormalization" : "RMSNormalization", operands,
                       {{"axis", -1}, {"epsilon", static_cast<double>(s.epsilon)}});
        } else {
            return {};
        }
        return made(g, y, Dtype::F32, shape, dst, options);
    }

    Result elementwise(const std::string &function, int64_t count, const float *src, float *dst,
                       const PeerOptions &options) override {
        Graph g;
        const Name y = function_node(g, function, g.input(Dtype::F32, {count}, src));
        if (y.empty()) return {};
        return made(g, y, Dtype::F32, {count}, dst, options);
    }

    Result binary(const BinaryCase &s, const float *a, const float *b, float *dst,
                  const PeerOptions &options) override {
        static const std::map<std::string, const char *> operators = {{"add", "Add"}, {"sub", "Sub"}, {"mul", "Mul"},
                                                                      {"div", "Div"}, {"max", "Max"}, {"min", "Min"}};
        const auto found = operators.find(s.function);
        if (found == operators.end()) return {};
        Graph g;
        const Shape shape = {s.rows, s.columns};
        const Name left = g.input(Dtype::F32, shape, a),
                   right = g.input(Dtype::F32, s.row ? Shape{s.columns} : shape, b);
        return made(g, g.node(found->second, {left, right}), Dtype::F32, shape, dst, options);
    }

    Result reduce(const ReduceCase &s, const float *src, float *dst, const PeerOptions &options) override {
        static const std::map<std::string, const char *> operators = {
            {"sum", "ReduceSum"}, {"mean", "ReduceMean"}, {"max", "ReduceMax"}, {"min", "ReduceMin"}};
        const auto found = operators.find(s.kind);
        if (found == operators.end()) return {};
        Graph g;
        Shape left;
        for (size_t i = 0; i < s.shape.size(); i++) {
            if (std::find(s.axes.begin(), s.axes.end(), static_cast<int64_t>(i)) == s.axes.end())
                left.push_back(s.shape[i]);
        }
        const Name x = g.input(Dtype::F32, s.shape, src),
                   axes = g.numbers("s64", s.axes, {static_cast<int64_t>(s.axes.size())});
        return made(g, g.node(found->second, {x, axes}, {{"keepdims", 0}}), Dtype::F32, left, dst, options);
    }

    Result transpose(const TransposeCase &s, const float *src, float *dst, const PeerOptions &options) override {
        Graph g;
        Shape shape;
        for (int64_t axis : s.order) shape.push_back(s.shape[static_cast<size_t>(axis)]);
        const Name y = g.node("Transpose", {g.input(Dtype::F32, s.shape, src)}, {{"perm", s.order}});
        return made(g, y, Dtype::F32, shape, dst, options);
    }

    Result attention(const AttentionCase &s, const float *q, const float *k, const float *v, float *dst,
                     const PeerOptions &options) override {
        if (s.causal && (options.in_steps || s.s != s.t)) return {};
        if (options.in_steps && s.heads != s.groups) return {};
        Graph g;
        const Name queries = g.input(Dtype::F32, {s.b, s.heads, s.s, s.d}, q),
                   keys = g.input(Dtype::F32, {s.b, s.groups, s.t, s.d}, k),
                   values = g.input(Dtype::F32, {s.b, s.groups, s.t, s.v}, v);
        Name y;
        if (options.in_steps) {
            const Name scores =
                g.node("FusedMatMul", {queries, keys}, {{"transB", 1}, {"alpha", s.scale}}, "com.microsoft");
            y = g.node("MatMul", {g.node("Softmax", {scores}, {{"axis", -1}}), values});
        } else {
            y = g.node("Attention", {queries, keys, values}, {{"is_causal", int(s.causal)}, {"scale", s.scale}});
        }
        return made(g, y, Dtype::F32, {s.b, s.heads, s.s, s.v}, dst, options);
    }

private:
    std::shared_ptr<OnnxRuntimeProcess> process_ = std::make_shared<OnnxRuntimeProcess>();

    static Name finished(Graph &g, Name sum, const Epilogue &e, const Shape &shape) {
        if (e.residual) sum = g.node("Add", {sum, g.input(Dtype::F32, shape, e.residual)});
        return e.activation.empty() ? sum : function_node(g, e.activation, sum);
    }

    // The session's number in the process; it goes when nothing uses it any more.
    struct Session {
        std::shared_ptr<OnnxRuntimeProcess> process;
        int64_t id;
        SharedFile output;
        Session(std::shared_ptr<OnnxRuntimeProcess> p, size_t bytes) : process(std::move(p)), id(-1), output(bytes) {}
        ~Session() {
            if (id < 0) return;
            try {
                process->ask({{"do", "drop"}, {"id", id}});
            } catch (const std::exception &) { // it has ended, and its sessions with it
            }
        }
    };

    // A graph that it refuses is one that this peer does not do.
    Result made(const Graph &g, const Name &output, Dtype type, const Shape &shape, void *to,
                const PeerOptions &options, const std::string &note = "") {
        if (!available() || output.empty()) return {};
        auto session = std::make_shared<Session>(process_, bytes_in(type, shape));
        const Json answer = process_->ask(g.request(output, type, shape, session->output, options.threads));
        if (answer.contains("refused")) return {};
        session->id = answer.at("id").get<int64_t>();
        PeerKernel kernel;
        kernel.work = TimedWork(std::function<double(int)>([session](int times) {
            return session->process->ask({{"do", "run"}, {"id", session->id}, {"times", times}})
                .at("seconds")
                .get<double>();
        }));
        kernel.collect = [session, to] {
            session->process->ask({{"do", "collect"}, {"id", session->id}});
            session->output.read(to);
        };
        kernel.note = note;
        return kernel;
    }
};

} // namespace

std::unique_ptr<Peer> make_onnxruntime() { return std::make_unique<OnnxRuntime>(); }

} // namespace kumiko::bench
