// Convolutions: all distinct ones of three networks, for one image, NCHW.
#include "bench/shapes.h"

namespace kumiko::bench {

namespace {

struct Layer {
    int c, side, o, kernel, stride = 1;
};

// The three layers of a block, and the parallel one where the image shrinks (in the 3x3 layer).
const Layer resnet50[] = {
    {3, 224, 64, 7, 2},                                                                   // first
    {64, 56, 64, 1},    {64, 56, 64, 3},      {64, 56, 256, 1},   {256, 56, 64, 1},       // 56x56
    {256, 56, 128, 1},  {128, 56, 128, 3, 2}, {128, 28, 512, 1},  {256, 56, 512, 1, 2},   // to 28x28
    {512, 28, 128, 1},  {128, 28, 128, 3},                                                // 28x28
    {512, 28, 256, 1},  {256, 28, 256, 3, 2}, {256, 14, 1024, 1}, {512, 28, 1024, 1, 2},  // to 14x14
    {1024, 14, 256, 1}, {256, 14, 256, 3},                                                // 14x14
    {1024, 14, 512, 1}, {512, 14, 512, 3, 2}, {512, 7, 2048, 1},  {1024, 14, 2048, 1, 2}, // to 7x7
    {2048, 7, 512, 1},  {512, 7, 512, 3}};                                                // 7x7

// The first layer and the 1x1 layers; the depthwise ones between them are a separate suite.
const Layer mobilenet_v2[] = {{3, 224, 32, 3, 2}, {32, 112, 16, 1}, {16, 112, 96, 1}, {96, 56, 24, 1},
                              {24, 56, 144, 1},   {144, 56, 24, 1}, {144, 28, 32, 1}, {32, 28, 192, 1},
                              {192, 28, 32, 1},   {192, 14, 64, 1}, {64, 14, 384, 1}, {384, 14, 64, 1},
                              {384, 14, 96, 1},   {96, 14, 576, 1}, {576, 14, 96, 1}, {576, 7, 160, 1},
                              {160, 7, 960, 1},   {960, 7, 160, 1}, {960, 7, 320, 1}, {320, 7, 1280, 1}};

const Layer vgg16[] = {{3, 224, 64, 3},   {64, 224, 64, 3},  {64, 112, 128, 3}, {128, 112, 128, 3}, {128, 56, 256, 3},
                       {256, 56, 256, 3}, {256, 28, 512, 3}, {512, 28, 512, 3}, {512, 14, 512, 3}};

const Layer mobilenet_v2_depthwise[] = {{32, 112, 0, 3},    {96, 112, 0, 3, 2}, {144, 56, 0, 3}, {144, 56, 0, 3, 2},
                                        {192, 28, 0, 3},    {192, 28, 0, 3, 2}, {384, 14, 0, 3}, {576, 14, 0, 3},
                                        {576, 14, 0, 3, 2}, {960, 7, 0, 3}};

Json parameters(const Layer &l) {
    Json p = {{"c", l.c},
              {"h", l.side},
              {"w", l.side},
              {"kh", l.kernel},
              {"kw", l.kernel},
              {"stride", l.stride},
              {"padding", l.kernel / 2}};
    if (l.o) p["o"] = l.o;
    return p;
}

} // namespace

Shapes conv_f32_shapes() {
    Shapes shapes;
    for (const Layer &l : resnet50) shapes.push_back({"conv2d", parameters(l)});
    for (const Layer &l : mobilenet_v2) shapes.push_back({"conv2d", parameters(l)});
    for (const Layer &l : vgg16) shapes.push_back({"conv2d", parameters(l)});
    return shapes;
}

Shapes conv_int8_shapes() {
    Shapes shapes;
    for (const Layer &l : resnet50) {
        shapes.push_back({"conv2d", parameters(l)});
        shapes.back().second["type"] = "i8";
    }
    return shapes;
}

Shapes conv_u8s8_shapes() {
    Shapes shapes;
    for (const Layer &l : resnet50) {
        shapes.push_back({"conv2d", parameters(l)});
        shapes.back().second["type"] = "u8";
        shapes.back().second["w_type"] = "i8";
    }
    return shapes;
}

Shapes depthwise_shapes() {
    Shapes shapes;
    for (const Layer &l : mobilenet_v2_depthwise) shapes.push_back({"depthwise_conv2d", parameters(l)});
    return shapes;
}

} // namespace kumiko::bench
