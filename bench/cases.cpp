// The cases of the suites.
#include "bench/shapes.h"
#include "bench/suite.h"

#include "driver/library.h"
#include "driver/op_text.h"
#include "ops/registry.h"
#include "support/error.h"
#include "support/names.h"

namespace kumiko::bench {

namespace {

struct Suite {
    const char *name, *summary;
    const char *op; // the op of --shape; "" if the shape begins with "op=…"
    Shapes cases;
    const char *example = ""; // a shape, if the suite has several ops
};

const std::vector<Suite> &suites() {
    static const std::vector<Suite> all = {
        {"gemm-f32", "matrix products: square, skinny, and the shapes of BERT-base and ResNet-50", "matmul",
         gemm_f32_shapes()},
        {"gemm-f64", "matrix products in float64", "matmul", gemm_f64_shapes()},
        {"gemm-bf16", "matrix products of bf16 with float32 sums", "matmul", gemm_bf16_shapes()},
        {"gemm-int8", "matrix products of u8 and s8 with s32 sums", "matmul", gemm_int8_shapes()},
        {"gemm-small", "square matrix products of size 3 to 64", "matmul", gemm_small_shapes()},
        {"gemv", "matrix-vector products, with the vector on either side", "gemv", gemv_shapes()},
        {"conv-f32", "convolutions of ResNet-50, MobileNetV2 and VGG-16, NCHW", "conv2d", conv_f32_shapes()},
        {"conv-int8", "convolutions of ResNet-50 with s8 images and weights and s32 sums, NCHW", "conv2d",
         conv_int8_shapes()},
        {"conv-u8s8", "convolutions of ResNet-50 with u8 images, s8 weights and s32 sums, NCHW", "conv2d",
         conv_u8s8_shapes()},
        {"depthwise-f32", "depthwise convolutions of MobileNetV2, NCHW", "depthwise_conv2d", depthwise_shapes()},
        {"rows", "softmax, norms and reductions", "", rows_shapes(), "softmax,m=64,n=1024"},
        {"elementwise", "elementwise functions", "", elementwise_shapes(), "relu,n=1024"},
        {"transpose", "matrix transposes and permutations of axes", "transpose", transpose_shapes()},
        {"pool", "maximum and average pooling of ResNet-50, VGG-16 and Inception, NCHW and NHWC", "", pool_shapes(),
         "max_pool,c=64,h=56,w=56"},
        {"moves", "gathers, image resizing, running sums, concatenation, padding and slicing", "", moves_shapes(),
         "gather,m=64,n=1024,w=16"},
        {"attention", "softmax(Q K^T) V for each head", "attention", attention_shapes()},
        {"recurrent", "recurrent layers: RNN, GRU and LSTM", "", recurrent_shapes(), "lstm,t=50,i=64,u=256"},
        {"compile", "compile time and overhead of a call", "", {}},
        {"chip-gemm", "matrix products on the simulated chip, relative to the bound", "", {}},
        {"chip-conv",
         "convolutions on the simulated chip, relative to the bound, with images in DRAM and in LM",
         "",
         {}},
        {"sim-speed", "speed of the chip's simulator", "", {}},
        {"chip-rows",
         "elementwise ops, reductions and norms on the simulated chip, relative to the rate of DRAM and of LM",
         "",
         {}},
        {"chip-move", "moves between layouts on the simulated chip", "", {}},
    };
    return all;
}

const Suite &find(const std::string &name) {
    std::vector<std::string> names;
    for (const Suite &s : suites()) {
        if (s.name == name) return s;
        names.push_back(s.name);
    }
    throw UserError("there is no suite \"" + name + "\"" + suggest(name, names));
}

std::string number(const Json &p, const char *name) {
    return p.at(name).is_string() ? p.at(name).get<std::string>() : p.at(name).dump();
}

// Channels and sizes of images, and the operation on them; "" for another op.
std::string images_text(const std::string &op, const Json &p) {
    const bool pools = op == "max_pool" || op == "average_pool", resizes = op.starts_with("resize_");
    if (!pools && !resizes && op != "batch_norm" && op != "group_norm") return "";
    std::string s = op + " " + (p.at("n") == 1 ? "" : number(p, "n") + "x") + number(p, "c") + " @ " + number(p, "h") +
                    "x" + number(p, "w");
    if (pools && p.at("kh") == p.at("h") && p.at("kw") == p.at("w"))
        s += ", whole";
    else if (pools)
        s += ", " + number(p, "kh") + "x" + number(p, "kw") + " /" + number(p, "stride");
    if (resizes) s += " to " + number(p, "oh") + "x" + number(p, "ow");
    if (resizes && p.at("coordinates") != "half_pixel") s += ", " + p.at("coordinates").get<std::string>();
    if (op == "group_norm") s += " by " + number(p, "groups");
    return p.at("layout") == "nchw" ? s : s + ", " + p.at("layout").get<std::string>();
}

// The description of an op that moves elements; "" for another op.
std::string move_text(const std::string &op, const Json &p) {
    if (op == "permute") return p.at("shape").dump() + " to " + p.at("order").dump();
    if (op == "gather") return op + " " + number(p, "m") + " of " + number(p, "n") + "x" + number(p, "w");
    if (op == "embedding")
        return op + " " + number(p, "b") + "x" + number(p, "s") + " of " + number(p, "n") + "x" + number(p, "w");
    if (op == "cumulative_sum") return op + " " + p.at("shape").dump() + " along " + number(p, "axis");
    if (op == "concat")
        return op + " " + p.at("parts").dump() + " of " + p.at("shared").dump() + " along " + number(p, "axis");
    if (op == "pad")
        return op + " " + p.at("shape").dump() + " by " + p.at("before").dump() + " and " + p.at("after").dump();
    if (op == "slice") {
        const std::string s = op + " " + p.at("extents").dump() + " of " + p.at("shape").dump();
        return p.at("step").empty() ? s : s + " by " + p.at("step").dump();
    }
    if (op == "quantise") return op + " to " + number(p, "to") + " " + number(p, "n");
    if (op == "dequantise") return op + " from " + number(p, "from") + " " + number(p, "n");
    return "";
}

std::string shape_text(const std::string &op, const Json &p) {
    for (const auto text : {images_text, move_text}) {
        if (const std::string s = text(op, p); !s.empty()) return s;
    }
    if (op == "matmul") {
        std::string s = number(p, "m") + "x" + number(p, "n") + "x" + number(p, "k");
        return p.at("output") == "same" || p.at("type") == "f32" ? s : s + " to " + number(p, "output");
    }
    if (op == "gemv") return number(p, "m") + "x" + number(p, "k") + " x vector";
    if (op == "transpose") return number(p, "m") + "x" + number(p, "n");
    if (op == "attention") {
        std::string s = number(p, "heads") + " heads, " + number(p, "s");
        if (p.at("s") != p.at("t")) s += " of " + number(p, "t");
        s += "x" + number(p, "d");
        if (p.value("groups", 0)) s += ", " + number(p, "groups") + " of keys";
        return p.value("causal", false) ? s + ", causal" : s;
    }
    if (op == "rnn" || op == "gru" || op == "lstm")
        return op + " " + number(p, "t") + " steps, " + number(p, "b") + "x" + number(p, "i") + " to " + number(p, "u");
    if (op == "conv2d" || op == "depthwise_conv2d") {
        std::string s = number(p, "c") + (p.contains("o") ? "->" + number(p, "o") : "") + " " + number(p, "kh") + "x" +
                        number(p, "kw") + " @ " + number(p, "h") + "x" + number(p, "w");
        return p.value("stride", 1) != 1 ? s + " /" + number(p, "stride") : s;
    }
    std::string s;
    for (const char *key : {"kind", "m", "rows", "n"}) {
        if (!p.contains(key) || p.at(key) == 0) continue;
        s += (s.empty() ? "" : "x") + number(p, key);
    }
    if (p.contains("shape")) s += " " + p.at("shape").dump() + " over " + p.at("axes").dump();
    return op + " " + s;
}

BenchCase make_case(const std::string &suite, const std::string &op, const Json &parameters) {
    const Json complete = ops::complete_parameters(ops::find_operator(op), parameters);
    return {suite, shape_text(op, complete), op, complete};
}

} // namespace

std::vector<std::string> suite_names() {
    std::vector<std::string> names;
    for (const Suite &s : suites()) names.push_back(s.name);
    return names;
}

std::string suite_summary(const std::string &suite) { return find(suite).summary; }

std::vector<BenchCase> suite_cases(const std::string &suite, const std::string &shape) {
    const Suite &s = find(suite);
    std::vector<BenchCase> cases;
    if (shape.empty()) {
        for (const auto &[op, parameters] : s.cases) cases.push_back(make_case(suite, op, parameters));
        return cases;
    }
    std::string op = s.op;
    Json parameters = Json::object();
    const Json given = parse_op_parameters(shape); // items() only refers to it
    for (const auto &[key, value] : given.items()) {
        if (key == "op")
            op = value.get<std::string>();
        else
            parameters[key] = value;
        if (key.size() == 1 && (value == 0 || value == "0"))
            throw UserError("--shape " + key + "=0: nothing would be computed; sizes of a benchmark are at least 1");
    }
    // Parameters other than sizes that all cases of the suite share.
    if (op == s.op && !s.cases.empty()) {
        const Json &first = s.cases[0].second;
        for (const auto &[key, value] : first.items()) {
            if (!value.is_string() || parameters.contains(key)) continue;
            const auto says = [&, &key = key, &value = value](const auto &c) {
                return c.first == op && c.second.contains(key) && c.second.at(key) == value;
            };
            if (std::all_of(s.cases.begin(), s.cases.end(), says)) parameters[key] = value;
        }
    }
    if (op.empty())
        throw UserError("suite " + suite + " has several ops: name one in the shape, as --shape op=" + s.example);
    return {make_case(suite, op, parameters)};
}

std::vector<BenchCase> library_cases(const std::string &file) {
    std::vector<BenchCase> cases;
    for (const LibraryKernel &k : LibraryDescription::load(file).kernels)
        cases.push_back({k.name, k.name, k.op_name, k.parameters, k.ahead});
    for (BenchCase &c : cases) c.suite = file;
    return cases;
}

} // namespace kumiko::bench
