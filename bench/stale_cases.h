// One op for each way in which the library's schedules lay out loops, with sizes that vectors and
// blocks do not divide. Tests and `kumiko bench stale` run them on memory that holds denormal
// numbers.
#pragma once

#include "support/json.h"

#include <string>
#include <vector>

namespace kumiko {

// Inputs that are indices are below a bound; others are small integers.
struct StaleCase {
    std::string op;
    Json parameters;

    std::string title() const {
        std::string text = op;
        for (const auto &[name, value] : parameters.items()) {
            std::string v = value.is_string() ? value.get<std::string>() : value.dump();
            text += (text == op ? " " : ",") + name + "=" + v;
        }
        return text;
    }
};

// A table of cases.
inline std::vector<StaleCase> stale_cases() {
    std::vector<StaleCase> all;
    const auto add = [&](const char *op, const Json &parameters) { all.push_back({op, parameters}); };
    // Channels that vectors do not divide, filters in vectors or pixels in vectors, both orders of
    // axes.
    for (const char *layout : {"nchw", "nhwc"}) {
        for (const int o : {20, 24, 33}) {
            add("conv2d", {{"c", 16}, {"h", 28}, {"w", 28}, {"o", o}, {"padding", 1}, {"layout", layout}});
        }
        add("conv2d", {{"c", 3}, {"h", 35}, {"w", 37}, {"o", 19}, {"stride", 2}, {"layout", layout}});
        add("conv2d", {{"c", 18}, {"h", 23}, {"w", 23}, {"o", 30}, {"kh", 1}, {"kw", 1}, {"layout", layout}});
        add("conv2d", {{"c", 12}, {"h", 15}, {"w", 17}, {"o", 36}, {"groups", 3}, {"layout", layout}});
        add("conv2d",
            {{"c", 13}, {"h", 20}, {"w", 21}, {"o", 22}, {"padding", 1}, {"pool", "max"}, {"layout", layout}});
        add("conv2d", {{"c", 21},
                       {"h", 14},
                       {"w", 15},
                       {"o", 27},
                       {"padding", 1},
                       {"type", "u8"},
                       {"w_type", "i8"},
                       {"output", "i32"},
                       {"layout", layout}});
        add("conv2d",
            {{"c", 21}, {"h", 14}, {"w", 15}, {"o", 27}, {"padding", 1}, {"type", "bf16"}, {"layout", layout}});
        add("depthwise_conv2d", {{"c", 21}, {"h", 29}, {"w", 31}, {"padding", 1}, {"layout", layout}});
        add("depthwise_conv2d", {{"c", 19}, {"h", 29}, {"w", 31}, {"padding", 1}, {"stride", 2}, {"layout", layout}});
        add("winograd_conv2d", {{"c", 17}, {"h", 22}, {"w", 23}, {"o", 21}, {"padding", 1}, {"layout", layout}});
        for (const char *pool : {"max_pool", "average_pool"})
            add(pool, {{"c", 13},
                       {"h", 29},
                       {"w", 31},
                       {"kh", 3},
                       {"kw", 3},
                       {"stride", 2},
                       {"padding", 1},
                       {"layout", layout}});
        add("resize_bilinear", {{"c", 11}, {"h", 19}, {"w", 23}, {"oh", 37}, {"ow", 45}, {"layout", layout}});
        add("resize_nearest", {{"c", 11}, {"h", 19}, {"w", 23}, {"oh", 37}, {"ow", 45}, {"layout", layout}});
        add("conv_transpose2d",
            {{"c", 11}, {"h", 13}, {"w", 15}, {"o", 21}, {"stride", 2}, {"padding", 1}, {"layout", layout}});
    }
    add("conv1d", {{"c", 64}, {"w", 250}, {"o", 24}, {"kw", 5}});
    add("conv1d", {{"c", 48}, {"w", 125}, {"o", 96}, {"kw", 3}, {"groups", 4}, {"stride", 2}, {"dilation", 3}});
    add("conv3d", {{"c", 5}, {"d", 7}, {"h", 11}, {"w", 13}, {"o", 22}, {"padding", 1}});
    // Products of matrices: sides that blocks do not divide, transposed, batched, in all types.
    for (const char *type : {"f32", "bf16", "f16", "f64"}) {
        add("matmul", {{"m", 37}, {"n", 41}, {"k", 43}, {"type", type}});
        add("matmul", {{"m", 150}, {"n", 203}, {"k", 301}, {"type", type}});
        add("gemv", {{"m", 203}, {"k", 151}, {"type", type}});
    }
    for (const bool a : {false, true}) {
        for (const bool b : {false, true})
            add("matmul", {{"m", 61}, {"n", 75}, {"k", 83}, {"transpose_a", a}, {"transpose_b", b}, {"bias", true}});
    }
    add("matmul", {{"m", 29}, {"n", 35}, {"k", 37}, {"batch", 3}, {"activation", "relu"}, {"residual", true}});
    add("matmul", {{"m", 45}, {"n", 70}, {"k", 67}, {"type", "u8"}, {"b_type", "i8"}, {"output", "i32"}});
    add("matmul", {{"m", 45}, {"n", 70}, {"k", 67}, {"type", "i8"}, {"output", "i32"}});
    add("matmul", {{"m", 33},
                   {"n", 50},
                   {"k", 70},
                   {"type", "u8"},
                   {"b_type", "i8"},
                   {"output", "i8"},
                   {"requantise", true},
                   {"bias", true}});
    for (const int n : {1, 2, 3, 5}) add("matmul", {{"m", 53}, {"n", n}, {"k", 307}});
    for (const int m : {1, 3, 7}) add("matmul", {{"m", m}, {"n", 99}, {"k", 307}});
    add("attention", {{"heads", 2}, {"s", 37}, {"t", 53}, {"d", 20}});
    add("attention", {{"heads", 2}, {"s", 37}, {"t", 37}, {"d", 36}, {"causal", true}});
    add("attention", {{"heads", 4}, {"groups", 2}, {"s", 21}, {"t", 67}, {"d", 24}, {"v", 19}, {"type", "bf16"}});
    for (const char *rows : {"softmax", "log_softmax", "layer_norm", "rms_norm"}) {
        add(rows, {{"m", 23}, {"n", 301}});
        add(rows, {{"m", 9}, {"n", 77}, {"type", "bf16"}});
    }
    add("batch_norm", {{"c", 13}, {"h", 15}, {"w", 17}});
    add("group_norm", {{"c", 12}, {"h", 15}, {"w", 17}, {"groups", 3}});
    for (const char *kind : {"sum", "max", "mean", "argmax"}) {
        for (const auto &axes : {Json{1}, Json{0}, Json{0, 2}, Json::array()})
            add("reduce", {{"kind", kind}, {"shape", {19, 45, 53}}, {"axes", axes}});
    }
    add("cumulative_sum", {{"shape", {37, 91}}});
    add("cumulative_sum", {{"shape", {37, 91}}, {"axis", 0}});
    for (const char *type : {"f32", "u8", "f64"}) add("transpose", {{"m", 77}, {"n", 91}, {"type", type}});
    add("permute", {{"shape", {13, 29, 37}}, {"order", {2, 0, 1}}});
    add("permute", {{"shape", {13, 29, 37}}, {"order", {1, 0, 2}}});
    add("gather", {{"m", 37}, {"n", 29}, {"w", 45}});
    add("embedding", {{"b", 3}, {"s", 13}, {"n", 29}, {"w", 45}});
    add("embedding_gradient", {{"b", 3}, {"s", 13}, {"n", 29}, {"w", 45}});
    add("pad", {{"shape", {29, 37}}, {"before", {1, 3}}, {"after", {2, 5}}});
    add("slice", {{"shape", {29, 67}}, {"extents", {11, 21}}, {"begin", {1, 2}}, {"step", {2, 3}}});
    add("concat", {{"parts", {19, 23, 11}}, {"shared", {37}}});
    add("concat", {{"parts", {19, 23, 11}}, {"shared", {37}}, {"axis", 1}});
    add("one_hot", {{"m", 29}, {"n", 45}});
    add("quantise", {{"n", 301}});
    add("dequantise", {{"n", 301}});
    add("requantise", {{"n", 301}});
    for (const char *each : {"gelu", "sigmoid", "tanh", "exp", "add", "silu_mul"}) {
        add(each, {{"n", 301}});
        add(each, {{"n", 301}, {"type", "bf16"}});
    }
    return all;
}

} // namespace kumiko
