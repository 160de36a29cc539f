// The suites' shapes.
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
    const char *op;                                  // what --shape means; "" where the shape says "op=…" first
    std::vector<std::pair<std::string, Json>> cases; // op, parameters
};

Json gemm(int m, int n, int k) { return {{"m", m}, {"n", n}, {"k", k}}; }

Json conv(int c, int h, int o, int kernel, int stride = 1, int padding = 0) {
    return {{"c", c},       {"h", h},       {"w", h},           {"o", o},
            {"kh", kernel}, {"kw", kernel}, {"stride", stride}, {"padding", padding}};
}

Json depthwise(int c, int h, int stride = 1) {
    return {{"c", c}, {"h", h}, {"w", h}, {"kh", 3}, {"kw", 3}, {"stride", stride}, {"padding", 1}};
}

const std::vector<Suite> &suites() {
    static const std::vector<Suite> all = {
        {"gemm-f32",
         "products of matrices: squares, BERT-base's, a slim and a tall one",
         "matmul",
         {{"matmul", gemm(128, 128, 128)},
          {"matmul", gemm(256, 256, 256)},
          {"matmul", gemm(512, 512, 512)},
          {"matmul", gemm(1024, 1024, 1024)},
          {"matmul", gemm(128, 768, 768)},
          {"matmul", gemm(128, 3072, 768)},
          {"matmul", gemm(128, 768, 3072)},
          {"matmul", gemm(16, 1024, 1024)},
          {"matmul", gemm(2048, 64, 512)}}},
        {"conv-f32",
         "convolutions of ResNet-50, NCHW",
         "conv2d",
         {{"conv2d", conv(64, 56, 64, 3, 1, 1)},
          {"conv2d", conv(256, 56, 64, 1)},
          {"conv2d", conv(512, 7, 512, 3, 1, 1)},
          {"conv2d", conv(128, 28, 128, 3, 1, 1)},
          {"conv2d", conv(256, 14, 256, 3, 1, 1)},
          {"conv2d", conv(3, 224, 64, 7, 2, 3)}}},
        {"depthwise-f32",
         "depthwise convolutions of MobileNetV2, NCHW",
         "depthwise_conv2d",
         {{"depthwise_conv2d", depthwise(144, 56)},
          {"depthwise_conv2d", depthwise(96, 112, 2)},
          {"depthwise_conv2d", depthwise(384, 14)}}},
        {"rows",
         "softmax and norms along rows",
         "",
         {{"softmax", {{"m", 1536}, {"n", 128}}},
          {"softmax", {{"m", 128}, {"n", 1000}}},
          {"layer_norm", {{"m", 512}, {"n", 768}}},
          {"rms_norm", {{"m", 512}, {"n", 768}}},
          {"reduce", {{"kind", "sum"}, {"shape", {4096, 1024}}, {"axes", {1}}}}}},
        {"elementwise",
         "functions of each element",
         "",
         {{"relu", {{"n", 1 << 20}}},
          {"gelu", {{"n", 512 * 3072}}},
          {"exp", {{"n", 1 << 20}}},
          {"tanh", {{"n", 1 << 20}}},
          {"sigmoid", {{"n", 1 << 20}}},
          {"silu", {{"n", 1 << 20}}},
          {"add", {{"n", 1 << 20}}},
          {"add", {{"rows", 512}, {"n", 3072}}}}},
        {"compile", "time to compile, size of a call", "", {}},
        {"chip-gemm", "matrix products on the simulated chip: how near to the bound", "", {}},
        {"chip-conv",
         "convolutions on the simulated chip: how near to the bound, with images in DRAM and in LM",
         "",
         {}},
        {"sim-speed", "how fast the chip is simulated", "", {}},
        {"chip-rows",
         "elementwise ops, reductions and norms on the simulated chip: how near to the rate of DRAM, and of LM",
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

std::string shape_text(const std::string &op, const Json &p) {
    if (op == "matmul") return number(p, "m") + "x" + number(p, "n") + "x" + number(p, "k");
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
    if (p.contains("shape")) s += " " + p.at("shape").dump();
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
    if (op.empty())
        throw UserError("suite " + suite + " has several ops: say which in the shape, as --shape op=" +
                        (suite == "rows" ? std::string("softmax,m=64") : std::string("relu")) + ",n=1024");
    return {make_case(suite, op, parameters)};
}

std::vector<BenchCase> library_cases(const std::string &file) {
    std::vector<BenchCase> cases;
    for (const LibraryKernel &k : LibraryDescription::load(file).kernels)
        cases.push_back({k.name, k.name, k.op_name, k.parameters});
    for (BenchCase &c : cases) c.suite = file;
    return cases;
}

} // namespace kumiko::bench
