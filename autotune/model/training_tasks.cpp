#include "autotune/model/training_tasks.h"

#include "ops/registry.h"

#include <nlohmann/json.hpp>

namespace kumiko {

namespace {

// An operator of the registry and its parameters.
constexpr std::pair<const char *, const char *> tasks[] = {
    {"matmul", R"({"m": 256, "n": 256, "k": 256})"},
    {"matmul", R"({"m": 384, "n": 768, "k": 320})"},
    {"matmul", R"({"m": 1000, "n": 200, "k": 150})"},
    {"matmul", R"({"m": 64, "n": 1024, "k": 512})"},
    {"matmul", R"({"m": 24, "n": 2048, "k": 256})"},
    {"matmul", R"({"m": 96, "n": 96, "k": 1536})"},
    {"matmul", R"({"m": 200, "n": 300, "k": 400, "transpose_b": true})"},
    {"matmul", R"({"m": 320, "n": 160, "k": 240, "transpose_a": true})"},
    {"matmul", R"({"m": 256, "n": 384, "k": 192, "bias": true, "activation": "relu"})"},
    {"matmul", R"({"m": 192, "n": 192, "k": 192, "type": "f64"})"},
    {"matmul", R"({"m": 256, "n": 320, "k": 256, "type": "u8", "b_type": "i8"})"},
    {"matmul", R"({"m": 256, "n": 256, "k": 320, "type": "bf16", "output": "f32"})"},
    {"matmul", R"({"m": 48, "n": 48, "k": 48, "batch": 32})"},
    {"gemv", R"({"m": 2048, "k": 1024})"},
    {"conv2d", R"({"c": 32, "h": 28, "w": 28, "o": 64, "kh": 3, "kw": 3, "padding": 1})"},
    {"conv2d", R"({"c": 128, "h": 14, "w": 14, "o": 128, "kh": 3, "kw": 3, "padding": 1})"},
    {"conv2d", R"({"c": 256, "h": 7, "w": 7, "o": 192, "kh": 3, "kw": 3, "padding": 1})"},
    {"conv2d", R"({"c": 3, "h": 112, "w": 112, "o": 32, "kh": 3, "kw": 3, "stride": 2, "padding": 1})"},
    {"conv2d", R"({"c": 96, "h": 28, "w": 28, "o": 128, "kh": 1, "kw": 1})"},
    {"conv2d", R"({"c": 192, "h": 14, "w": 14, "o": 64, "kh": 1, "kw": 1})"},
    {"conv2d", R"({"c": 64, "h": 28, "w": 28, "o": 96, "kh": 3, "kw": 3, "stride": 2, "padding": 1})"},
    {"conv2d",
     R"({"c": 48, "h": 30, "w": 30, "o": 40, "kh": 5, "kw": 5, "padding": 2, "bias": true, "activation": "relu"})"},
    {"depthwise_conv2d", R"({"c": 96, "h": 28, "w": 28, "padding": 1})"},
    {"depthwise_conv2d", R"({"c": 144, "h": 56, "w": 56, "stride": 2, "padding": 1})"},
    {"depthwise_conv2d", R"({"c": 384, "h": 14, "w": 14, "kh": 5, "kw": 5, "padding": 2})"},
    {"softmax", R"({"m": 512, "n": 256})"},
    {"softmax", R"({"m": 64, "n": 3000})"},
    {"log_softmax", R"({"m": 256, "n": 1000})"},
    {"layer_norm", R"({"m": 256, "n": 512})"},
    {"layer_norm", R"({"m": 1000, "n": 100})"},
    {"rms_norm", R"({"m": 256, "n": 2048})"},
    {"group_norm", R"({"c": 64, "h": 28, "w": 28, "groups": 8})"},
    {"attention", R"({"heads": 4, "s": 128, "t": 128, "d": 64})"},
    {"attention", R"({"heads": 2, "s": 256, "t": 256, "d": 32})"},
    {"reduce", R"({"shape": [256, 1024], "axes": [1]})"},
    {"reduce", R"({"shape": [512, 512], "axes": [0]})"},
    {"reduce", R"({"shape": [64, 128, 128], "axes": [1, 2], "kind": "max"})"},
    {"transpose", R"({"m": 1024, "n": 768})"},
    {"permute", R"({"shape": [16, 64, 28, 28], "order": [0, 2, 3, 1]})"},
    {"gelu", R"({"n": 262144})"},
    {"add", R"({"n": 500000})"},
    {"sigmoid", R"({"n": 100000})"},
    {"max_pool", R"({"c": 64, "h": 56, "w": 56, "kh": 3, "kw": 3, "stride": 2, "padding": 1})"},
    {"average_pool", R"({"c": 96, "h": 28, "w": 28, "kh": 2, "kw": 2, "stride": 2})"},
};

} // namespace

std::vector<TrainingTask> training_tasks() {
    std::vector<TrainingTask> all;
    for (const auto &[op, text] : tasks) {
        const Json parameters(nlohmann::json::parse(text));
        std::string name = op;
        char separator = ' ';
        for (const auto &[key, value] : parameters.items()) {
            name += separator + key + "=" + (value.is_string() ? value.template get<std::string>() : value.dump());
            separator = ',';
        }
        all.push_back({std::move(name), ops::make(op, parameters)});
    }
    return all;
}

} // namespace kumiko
