// Pooling and resizing of images, and ops that only move elements.
#include "bench/shapes.h"

namespace kumiko::bench {

// Layers of ResNet-50, VGG-16, Inception-v3 and DenseNet, in order.
Shapes pool_shapes() {
    Shapes shapes;
    const auto pool = [&](const char *op, int c, int size, int k, int stride, int padding,
                          const char *layout = "nchw") {
        shapes.push_back({op,
                          {{"c", c},
                           {"h", size},
                           {"w", size},
                           {"kh", k},
                           {"kw", k},
                           {"stride", stride},
                           {"padding", padding},
                           {"layout", layout}}});
    };
    pool("max_pool", 64, 112, 3, 2, 1);
    for (const auto &[c, size] : {std::pair(64, 224), {128, 112}, {256, 56}, {512, 28}, {512, 14}})
        pool("max_pool", c, size, 2, 2, 0);
    for (const auto &[c, size] : {std::pair(64, 147), {192, 71}, {288, 35}}) pool("max_pool", c, size, 3, 2, 0);
    pool("max_pool", 192, 28, 3, 1, 1);
    pool("average_pool", 192, 35, 3, 1, 1);
    pool("average_pool", 768, 17, 3, 1, 1);
    pool("average_pool", 128, 56, 2, 2, 0);
    pool("average_pool", 2048, 7, 7, 1, 0);
    pool("average_pool", 1280, 7, 7, 1, 0);
    pool("average_pool", 64, 112, 112, 1, 0);
    pool("max_pool", 512, 14, 14, 1, 0);
    pool("max_pool", 64, 112, 3, 2, 1, "nhwc");
    pool("max_pool", 128, 112, 2, 2, 0, "nhwc");
    pool("average_pool", 192, 35, 3, 1, 1, "nhwc");
    pool("average_pool", 128, 56, 2, 2, 0, "nhwc");
    pool("average_pool", 2048, 7, 7, 1, 0, "nhwc");
    return shapes;
}

namespace {

void add_resizing(Shapes &shapes) {
    const auto resize = [&](const char *op, int c, int from, int to, const char *coordinates, const char *layout) {
        shapes.push_back({op,
                          {{"c", c},
                           {"h", from},
                           {"w", from},
                           {"oh", to},
                           {"ow", to},
                           {"coordinates", coordinates},
                           {"layout", layout}}});
    };
    resize("resize_nearest", 256, 13, 26, "half_pixel", "nchw"); // from a detector's pyramid
    resize("resize_nearest", 64, 56, 112, "asymmetric", "nchw");
    resize("resize_nearest", 256, 26, 52, "half_pixel", "nhwc");
    resize("resize_bilinear", 256, 28, 56, "half_pixel", "nchw");
    resize("resize_bilinear", 64, 56, 112, "align_corners", "nchw");
    // A photograph as input of a network.
    resize("resize_bilinear", 3, 512, 224, "half_pixel", "nchw");
    resize("resize_bilinear", 128, 28, 56, "half_pixel", "nhwc");
}

} // namespace

Shapes moves_shapes() {
    Shapes shapes;
    const auto add = [&](const char *op, const Json &parameters) { shapes.push_back({op, parameters}); };
    add("gather", {{"m", 4096}, {"n", 16384}, {"w", 16}}); // nodes of a graph
    add("gather", {{"m", 16384}, {"n", 16384}, {"w", 256}});
    add("embedding", {{"b", 1}, {"s", 128}, {"n", 30522}, {"w", 768}}); // BERT-base
    add("embedding", {{"b", 32}, {"s", 512}, {"n", 30522}, {"w", 768}});
    add("one_hot", {{"m", 4096}, {"n", 1000}});
    add("one_hot", {{"m", 65536}, {"n", 10}});
    add_resizing(shapes);
    add("cumulative_sum", {{"shape", {4096, 1024}}, {"axis", 1}});
    add("cumulative_sum", {{"shape", {4096, 1024}}, {"axis", 0}});
    add("cumulative_sum", {{"shape", {1 << 20}}, {"axis", 0}});
    // Channels of Inception, then the same with channels last.
    add("concat", {{"parts", {64, 128, 32, 32}}, {"shared", {784}}, {"axis", 0}});
    add("concat", {{"parts", {64, 128, 32, 32}}, {"shared", {784}}, {"axis", 1}});
    // A key appended to the cached ones.
    add("concat", {{"parts", {511, 1}}, {"shared", {12, 64}}, {"axis", 1}});
    add("concat", {{"parts", {2048, 2048}}, {"shared", {4096}}, {"axis", 1}});
    add("pad", {{"shape", {64, 56, 56}}, {"before", {0, 1, 1}}, {"after", {0, 1, 1}}});
    add("pad", {{"shape", {224, 224, 3}}, {"before", {3, 3, 0}}, {"after", {3, 3, 0}}});
    add("pad", {{"shape", {128, 1000}}, {"before", {0, 0}}, {"after", {0, 24}}});
    // The keys of Q, K, V.
    add("slice", {{"shape", {512, 2304}}, {"extents", {512, 768}}, {"begin", {0, 768}}});
    add("slice", {{"shape", {3, 256, 256}}, {"extents", {3, 224, 224}}, {"begin", {0, 16, 16}}});
    add("slice", {{"shape", {256, 56, 56}}, {"extents", {256, 28, 28}}, {"step", {1, 2, 2}}});
    // Mirrored.
    add("slice", {{"shape", {1024, 1024}}, {"extents", {1024, 1024}}, {"begin", {0, 1023}}, {"step", {1, -1}}});
    return shapes;
}

} // namespace kumiko::bench
