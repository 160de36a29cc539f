// Memory-bound shapes, some within the caches, some beyond.
#include "bench/shapes.h"

namespace kumiko::bench {

Shapes rows_shapes() {
    Shapes shapes;
    const auto matrix = [](int m, int n) { return Json{{"m", m}, {"n", n}}; };
    for (const char *op : {"softmax", "log_softmax", "layer_norm", "rms_norm"}) {
        if (op == std::string("softmax")) {
            shapes.push_back({op, matrix(1536, 128)}); // scores of BERT-base's heads
            shapes.push_back({op, matrix(128, 1000)}); // classes
        } else {
            shapes.push_back({op, matrix(512, 768)});
        }
        shapes.push_back({op, matrix(4096, 4096)});
    }
    const auto reduce = [&](const char *kind, const Json &shape, const Json &axes) {
        shapes.push_back({"reduce", {{"kind", kind}, {"shape", shape}, {"axes", axes}}});
    };
    reduce("sum", {4096, 1024}, {1});
    reduce("sum", {4096, 1024}, {0});
    reduce("sum", {16384, 1024}, {1});
    reduce("max", {4096, 1024}, {1});
    reduce("mean", {2048, 7, 7}, {1, 2}); // pooling of a whole image
    reduce("sum", {64, 512, 512}, {0, 2});
    // From a diffusion model.
    shapes.push_back({"group_norm", {{"c", 320}, {"h", 64}, {"w", 64}, {"groups", 32}}});
    return shapes;
}

Shapes elementwise_shapes() {
    Shapes shapes;
    for (const char *function : {"relu", "exp", "tanh", "sigmoid", "silu", "gelu", "add", "mul"})
        shapes.push_back({function, {{"n", 1 << 20}}});
    shapes.push_back({"gelu", {{"n", 512 * 3072}}});
    shapes.push_back({"add", {{"rows", 512}, {"n", 3072}}}); // a bias
    shapes.push_back({"batch_norm", {{"c", 64}, {"h", 112}, {"w", 112}}});
    shapes.push_back({"batch_norm", {{"c", 2048}, {"h", 7}, {"w", 7}}});
    shapes.push_back({"batch_norm", {{"c", 64}, {"h", 112}, {"w", 112}, {"layout", "nhwc"}}});
    for (const int n : {1 << 20, 1 << 24}) {
        shapes.push_back({"quantise", {{"n", n}, {"to", "u8"}, {"scale", 1.0 / 128}, {"zero_point", 128}}});
        shapes.push_back({"dequantise", {{"n", n}, {"from", "u8"}, {"scale", 1.0 / 128}, {"zero_point", 128}}});
    }
    for (const char *function : {"relu", "exp", "gelu", "add"}) shapes.push_back({function, {{"n", 1 << 24}}});
    return shapes;
}

// Between channels last and channels first; weights; squares.
Shapes transpose_shapes() {
    Shapes shapes;
    for (const auto &[m, n] : std::vector<std::pair<int, int>>{{64, 64},
                                                               {256, 256},
                                                               {1000, 1000},
                                                               {1024, 1024},
                                                               {4096, 4096},
                                                               {5000, 3000},
                                                               {768, 3072},
                                                               {64, 3136},
                                                               {3136, 64},
                                                               {3, 50176},
                                                               {50176, 3}})
        shapes.push_back({"transpose", {{"m", m}, {"n", n}}});
    const auto permute = [&](const Json &shape, const Json &order) {
        shapes.push_back({"permute", {{"shape", shape}, {"order", order}}});
    };
    permute({1, 64, 112, 112}, {0, 2, 3, 1}); // channels last, and first again
    permute({1, 112, 112, 64}, {0, 3, 1, 2});
    permute({8, 3, 224, 224}, {0, 2, 3, 1});
    permute({8, 224, 224, 3}, {0, 3, 1, 2});
    permute({1, 128, 12, 64}, {0, 2, 1, 3}); // separates heads, and transposes keys for a product
    permute({8, 512, 12, 64}, {0, 2, 1, 3});
    permute({8, 512, 12, 64}, {0, 2, 3, 1});
    permute({200, 300, 50}, {2, 1, 0});
    permute({200, 300, 50}, {1, 2, 0});
    permute({200, 300, 50}, {2, 0, 1});
    permute({32, 64, 128, 16}, {3, 2, 1, 0});
    return shapes;
}

} // namespace kumiko::bench
