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
    {"matmul", R"({"m": 640, "n": 640, "k": 160})"},
    {"matmul", R"({"m": 60, "n": 70, "k": 80})"},
    {"matmul", R"({"m": 128, "n": 512, "k": 2048})"},
    {"matmul", R"({"m": 2048, "n": 48, "k": 128})"},
    {"matmul", R"({"m": 197, "n": 384, "k": 96, "bias": true, "activation": "gelu"})"},
    {"matmul", R"({"m": 333, "n": 111, "k": 222})"},
    {"matmul", R"({"m": 12, "n": 800, "k": 640})"},
    {"matmul", R"({"m": 100, "n": 100, "k": 3000, "transpose_b": true})"},
    {"matmul", R"({"m": 512, "n": 128, "k": 128, "residual": true})"},
    {"matmul", R"({"m": 128, "n": 256, "k": 512, "type": "u8", "b_type": "i8", "transpose_b": true})"},
    {"matmul", R"({"m": 300, "n": 200, "k": 100, "type": "f64", "transpose_b": true})"},
    {"matmul", R"({"m": 96, "n": 512, "k": 384, "type": "bf16", "output": "f32", "transpose_b": true})"},
    {"matmul", R"({"m": 64, "n": 64, "k": 64, "batch": 24, "transpose_b": true})"},
    {"gemv", R"({"m": 2048, "k": 1024})"},
    {"gemv", R"({"m": 500, "k": 3000})"},
    {"conv2d", R"({"c": 32, "h": 28, "w": 28, "o": 64, "padding": 1})"},
    {"conv2d", R"({"c": 128, "h": 14, "w": 14, "o": 128, "padding": 1})"},
    {"conv2d", R"({"c": 256, "h": 7, "w": 7, "o": 192, "padding": 1})"},
    {"conv2d", R"({"c": 3, "h": 112, "w": 112, "o": 32, "stride": 2, "padding": 1})"},
    {"conv2d", R"({"c": 96, "h": 28, "w": 28, "o": 128, "kh": 1, "kw": 1})"},
    {"conv2d", R"({"c": 192, "h": 14, "w": 14, "o": 64, "kh": 1, "kw": 1})"},
    {"conv2d", R"({"c": 64, "h": 28, "w": 28, "o": 96, "stride": 2, "padding": 1})"},
    {"conv2d",
     R"({"c": 48, "h": 30, "w": 30, "o": 40, "kh": 5, "kw": 5, "padding": 2, "bias": true, "activation": "relu"})"},
    {"conv2d", R"({"c": 16, "h": 56, "w": 56, "o": 32, "padding": 1})"},
    {"conv2d", R"({"c": 64, "h": 20, "w": 20, "o": 48, "padding": 1})"},
    {"conv2d", R"({"c": 24, "h": 40, "w": 40, "o": 72, "kh": 1, "kw": 1})"},
    {"conv2d", R"({"c": 320, "h": 7, "w": 7, "o": 256, "kh": 1, "kw": 1})"},
    {"conv2d", R"({"c": 3, "h": 64, "w": 64, "o": 16, "kh": 5, "kw": 5, "stride": 2, "padding": 2})"},
    {"conv2d", R"({"c": 80, "h": 14, "w": 14, "o": 112, "padding": 1})"},
    {"conv2d", R"({"c": 128, "h": 28, "w": 28, "o": 64, "kh": 1, "kw": 1, "stride": 2})"},
    {"conv2d", R"({"c": 20, "h": 33, "w": 33, "o": 50, "padding": 1, "bias": true})"},
    {"conv2d", R"({"c": 64, "h": 14, "w": 14, "o": 128, "padding": 1, "layout": "nhwc"})"},
    {"conv2d", R"({"c": 64, "h": 28, "w": 28, "o": 64, "kh": 1, "kw": 1, "layout": "nhwc"})"},
    {"conv2d", R"({"c": 32, "h": 28, "w": 28, "o": 32, "padding": 1, "type": "u8", "w_type": "i8", "output": "i32"})"},
    {"conv2d",
     R"({"c": 128, "h": 14, "w": 14, "o": 64, "kh": 1, "kw": 1, "type": "u8", "w_type": "i8", "output": "i32"})"},
    {"conv2d", R"({"c": 32, "h": 28, "w": 28, "o": 64, "padding": 1, "groups": 4})"},
    {"conv2d", R"({"c": 40, "h": 56, "w": 56, "o": 24, "kh": 1, "kw": 1, "bias": true, "activation": "relu6"})"},
    {"conv2d", R"({"c": 16, "h": 48, "w": 48, "o": 24, "kh": 7, "kw": 7, "padding": 3})"},
    {"depthwise_conv2d", R"({"c": 96, "h": 28, "w": 28, "padding": 1})"},
    {"depthwise_conv2d", R"({"c": 144, "h": 56, "w": 56, "stride": 2, "padding": 1})"},
    {"depthwise_conv2d", R"({"c": 384, "h": 14, "w": 14, "kh": 5, "kw": 5, "padding": 2})"},
    {"depthwise_conv2d", R"({"c": 64, "h": 40, "w": 40, "padding": 1})"},
    {"depthwise_conv2d", R"({"c": 240, "h": 28, "w": 28, "kh": 5, "kw": 5, "stride": 2, "padding": 2})"},
    {"depthwise_conv2d", R"({"c": 512, "h": 7, "w": 7, "padding": 1})"},
    {"depthwise_conv2d", R"({"c": 48, "h": 56, "w": 56, "padding": 1, "bias": true, "activation": "relu6"})"},
    {"depthwise_conv2d", R"({"c": 128, "h": 28, "w": 28, "padding": 1, "layout": "nhwc"})"},
    {"softmax", R"({"m": 512, "n": 256})"},
    {"softmax", R"({"m": 64, "n": 3000})"},
    {"softmax", R"({"m": 2000, "n": 50})"},
    {"softmax", R"({"m": 16, "n": 20000})"},
    {"log_softmax", R"({"m": 256, "n": 1000})"},
    {"log_softmax", R"({"m": 1024, "n": 64})"},
    {"layer_norm", R"({"m": 256, "n": 512})"},
    {"layer_norm", R"({"m": 1000, "n": 100})"},
    {"layer_norm", R"({"m": 64, "n": 4096})"},
    {"rms_norm", R"({"m": 256, "n": 2048})"},
    {"rms_norm", R"({"m": 700, "n": 300})"},
    {"group_norm", R"({"c": 64, "h": 28, "w": 28, "groups": 8})"},
    {"group_norm", R"({"c": 32, "h": 40, "w": 40, "groups": 4})"},
    {"attention", R"({"heads": 4, "s": 128, "t": 128, "d": 64})"},
    {"attention", R"({"heads": 2, "s": 256, "t": 256, "d": 32})"},
    {"attention", R"({"heads": 3, "s": 100, "t": 300, "d": 64})"},
    {"reduce", R"({"shape": [256, 1024], "axes": [1]})"},
    {"reduce", R"({"shape": [512, 512], "axes": [0]})"},
    {"reduce", R"({"shape": [64, 128, 128], "axes": [1, 2], "kind": "max"})"},
    {"reduce", R"({"shape": [40, 300, 50], "axes": [1], "kind": "mean"})"},
    {"transpose", R"({"m": 1024, "n": 768})"},
    {"transpose", R"({"m": 300, "n": 2000})"},
    {"permute", R"({"shape": [16, 64, 28, 28], "order": [0, 2, 3, 1]})"},
    {"permute", R"({"shape": [64, 50, 12, 32], "order": [0, 2, 1, 3]})"},
    {"permute", R"({"shape": [8, 100, 64, 20], "order": [3, 1, 0, 2]})"},
    {"gelu", R"({"n": 262144})"},
    {"add", R"({"n": 500000})"},
};

constexpr std::pair<const char *, const char *> tasks_of_chips[] = {
    {"matmul", R"({"m": 128, "n": 128, "k": 128, "type": "f16", "output": "f32", "transpose_b": true})"},
    {"matmul", R"({"m": 256, "n": 256, "k": 128, "type": "f16", "output": "f32", "transpose_b": true})"},
    {"matmul", R"({"m": 64, "n": 512, "k": 256, "type": "f16", "transpose_b": true})"},
    {"matmul", R"({"m": 384, "n": 128, "k": 320, "type": "f16", "output": "f32"})"},
    {"matmul", R"({"m": 100, "n": 200, "k": 150, "type": "f16", "output": "f32", "transpose_b": true})"},
    {"matmul", R"({"m": 192, "n": 96, "k": 512, "type": "f16", "transpose_b": true, "activation": "relu"})"},
    {"matmul", R"({"m": 64, "n": 128, "k": 64, "output": "f32", "transpose_b": true})"},
    {"matmul", R"({"m": 128, "n": 64, "k": 128})"},
    {"matmul", R"({"m": 32, "n": 768, "k": 192, "type": "f16", "output": "f32", "transpose_b": true})"},
    {"matmul", R"({"m": 512, "n": 64, "k": 64, "type": "f16", "output": "f32", "transpose_b": true})"},
    {"conv2d", R"({"c": 32, "h": 14, "w": 14, "o": 32, "padding": 1, "type": "f16", "output": "f32"})"},
    {"conv2d", R"({"c": 16, "h": 28, "w": 28, "o": 32, "padding": 1, "type": "f16", "output": "f32"})"},
    {"conv2d", R"({"c": 64, "h": 14, "w": 14, "o": 64, "kh": 1, "kw": 1, "type": "f16", "output": "f32"})"},
    {"conv2d", R"({"c": 32, "h": 20, "w": 20, "o": 64, "stride": 2, "padding": 1, "type": "f16", "output": "f32"})"},
    {"conv2d", R"({"c": 48, "h": 10, "w": 10, "o": 96, "padding": 1, "type": "f16"})"},
    {"conv2d",
     R"({"c": 8, "h": 24, "w": 24, "o": 16, "kh": 5, "kw": 5, "padding": 2, "type": "f16", "output": "f32"})"},
    {"conv2d", R"({"c": 16, "h": 12, "w": 12, "o": 16, "padding": 1})"},
    {"depthwise_conv2d", R"({"c": 32, "h": 14, "w": 14, "padding": 1})"},
    {"depthwise_conv2d", R"({"c": 48, "h": 20, "w": 20, "padding": 1})"},
    {"depthwise_conv2d", R"({"c": 16, "h": 28, "w": 28, "kh": 5, "kw": 5, "padding": 2})"},
    {"depthwise_conv2d", R"({"c": 64, "h": 14, "w": 14, "stride": 2, "padding": 1})"},
    {"depthwise_conv2d", R"({"c": 32, "h": 16, "w": 16, "padding": 1, "type": "f16", "output": "f16"})"},
    {"softmax", R"({"m": 128, "n": 128})"},
    {"softmax", R"({"m": 64, "n": 512})"},
    {"softmax", R"({"m": 256, "n": 100})"},
    {"softmax", R"({"m": 16, "n": 2048})"},
    {"log_softmax", R"({"m": 96, "n": 256})"},
    {"layer_norm", R"({"m": 64, "n": 256})"},
    {"layer_norm", R"({"m": 32, "n": 1024})"},
    {"layer_norm", R"({"m": 128, "n": 192, "type": "f16"})"},
    {"rms_norm", R"({"m": 64, "n": 384})"},
    {"rms_norm", R"({"m": 200, "n": 128})"},
    {"reduce", R"({"shape": [64, 512], "axes": [1]})"},
    {"reduce", R"({"shape": [128, 300], "axes": [0]})"},
    {"reduce", R"({"shape": [16, 64, 64], "axes": [1, 2], "kind": "max"})"},
    {"reduce", R"({"shape": [500, 64], "axes": [1], "kind": "mean"})"},
    {"reduce", R"({"shape": [8, 4096], "axes": [1]})"},
    {"reduce", R"({"shape": [20, 50, 40], "axes": [1]})"},
    {"max_pool", R"({"c": 32, "h": 28, "w": 28})"},
    {"transpose", R"({"m": 128, "n": 256})"},
    {"gelu", R"({"n": 32768})"},
    {"add", R"({"n": 50000})"},
};

template<size_t N>
std::vector<TrainingTask> all_of(const std::pair<const char *, const char *> (&tasks)[N]) {
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

} // namespace

std::vector<TrainingTask> training_tasks() { return all_of(tasks); }
std::vector<TrainingTask> chip_training_tasks() { return all_of(tasks_of_chips); }

} // namespace kumiko
