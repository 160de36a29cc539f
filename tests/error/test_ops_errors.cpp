// The errors of the op factories: sizes, types, layouts and options that no op has.
#include "ops/ops.h"
#include "ops/registry.h"
#include "support/error.h"
#include "tests/unit/refusal.h"

#include <doctest/doctest.h>

using namespace kumiko;

namespace {

std::string made(const char *name, const Json &parameters) {
    return refusal([&] { ops::make(name, parameters); });
}

} // namespace

TEST_CASE("errors of requests for an op") {
    CHECK(made("matmull", {}) == "unknown op \"matmull\" (did you mean 'matmul'?)");
    CHECK(made("softmax", {{"m", 4}}) == "op \"softmax\" needs the parameter \"n\": columns");
    CHECK(made("softmax", {{"m", 4}, {"n", "-4"}}) ==
          "op \"softmax\": parameter \"n\" is \"-4\"; legal is a number from 0 to 2147479552, or the name of a size");
    const auto shifted = [](const Json &by) {
        return made(
            "matmul",
            {{"m", 4}, {"n", 4}, {"k", 4}, {"type", "i8"}, {"output", "i8"}, {"requantise", true}, {"zero_point", by}});
    };
    for (const char *beyond : {"2147483648", "-2147483649", "99999999999999999999", "1.5"}) {
        CHECK(shifted(beyond) == "op \"matmul\": parameter \"zero_point\" is \"" + std::string(beyond) +
                                     "\"; legal is a whole number from -2147483648 to 2147483647");
    }
    CHECK(shifted(UINT64_MAX) == "op \"matmul\": parameter \"zero_point\" is 18446744073709551615; legal is a whole "
                                 "number from -2147483648 to 2147483647");
    for (const std::string end : {"2147483647", "-2147483648"}) // taken, and refused by the formula
        CHECK(shifted(end) == "matmul: the zero point is " + end + "; legal is a value of i8, -128 to 127");
    CHECK(made("softmax", {{"m", 4}, {"n", 4}, {"rows", 3}}) ==
          "op \"softmax\" has no parameter \"rows\"; there are: m, n, type");
    CHECK(made("softmax", {{"m", 4}, {"n", 4}, {"type", "f31"}})
              .starts_with("unknown type \"f31\"; the types are bool, i8"));
    CHECK(made("softmax", {{"m", 4}, {"n", 4}, {"type", "i8"}}) == "softmax takes floats, not i8");
    CHECK(made("exp", {{"n", 4}, {"type", "i32"}}) == "\"exp\" takes floats, not i32; cast first");
    CHECK(made("matmul", {{"m", 4}, {"n", "i"}, {"k", 4}}) ==
          "op \"matmul\" uses \"i\" both as an axis and as a size; give one of them another name");
    CHECK(made("matmul", {{"m", 4}, {"n", 4}, {"k", 4}, {"activation", "rellu"}}) ==
          "op \"matmul\": parameter \"activation\" is \"rellu\" (did you mean 'relu'?)");
    CHECK(made("conv2d", {{"c", 6}, {"h", 8}, {"w", 8}, {"o", 4}, {"groups", 4}}) ==
          "conv2d: 4 groups do not divide the 6 input channels");
    CHECK(made("conv2d", {{"c", 6}, {"h", 8}, {"w", 8}, {"o", 4}, {"stride", 0}}) ==
          "conv2d: stride_y is 0; legal is 1 or more");
    CHECK(made("conv2d", {{"c", 6}, {"h", 1}, {"w", 8}, {"o", 4}}) ==
          "the height of the input is 1, and 1 with its padding, but the weights cover 3; legal is an input no smaller "
          "than that");
    CHECK(made("depthwise_conv2d", {{"c", 6}, {"h", 8}, {"w", 2}, {"dilation", 2}, {"padding", 1}}) ==
          "the width of the input is 2, and 4 with its padding, but the weights cover 5; legal is an input no smaller "
          "than that");
    CHECK(made("reduce", {{"shape", {3, 4}}, {"axes", {2}}}) == "reduction: axis 2 is not one of the 2 axes");
    CHECK(made("reduce", {{"shape", {3, 4}}, {"axes", {1, -1}}}) == "reduction: axis -1 is named twice");
}

TEST_CASE("errors of requests for quantisation") {
    CHECK(refusal([] { ops::quantise(f32, i16, 4); }) == "quantise gives i8 or u8, not i16");
    CHECK(refusal([] { ops::quantise(i32, i8, 4); }) == "quantise takes floats, not i32");
    CHECK(refusal([] { ops::dequantise(u16, f32, 4); }) == "dequantise takes i8, u8 or i32, not u16");
    CHECK(refusal([] { ops::dequantise(u8, i32, 4); }) == "dequantise gives floats, not i32");
    CHECK(made("quantise", {{"n", 4}, {"scale", 0}}) == "quantise: the scale is 0; legal is a number above 0");
    CHECK(made("quantise", {{"n", 4}, {"scale", -2}}) == "quantise: the scale is -2; legal is a number above 0");
    CHECK(made("quantise", {{"n", 4}, {"scale", 1e-60}}) == "quantise: the scale is 1e-60; legal is a number above 0");
    CHECK(made("quantise", {{"n", 4}, {"zero_point", 128}}) ==
          "quantise: the zero point is 128; legal is a value of i8, -128 to 127");
    CHECK(made("requantise", {{"n", 4}, {"to", "u8"}, {"zero_point", -1}}) ==
          "requantise: the zero point is -1; legal is a value of u8, 0 to 255");
    CHECK(made("dequantise", {{"n", 4}, {"from", "u8"}, {"zero_point", 300}}) ==
          "dequantise: the zero point is 300; legal is a value of u8, 0 to 255");
}

TEST_CASE("errors of requests to move elements") {
    CHECK(made("pad", {{"shape", {3, 4}}, {"before", {1}}}) ==
          "pad: before has 1 numbers, but the array has 2 axes; legal is one for each axis, or none");
    CHECK(made("pad", {{"shape", {3, 4}}, {"after", {0, -1}}}) == "pad: after of axis 1 is -1; legal is 0 or more");
    CHECK(made("pad", {{"shape", {3}}, {"before", {1}}, {"value", 0.5}, {"type", "i32"}}) ==
          "pad: value is 0.5; legal are values of i32");
    CHECK(made("pad", {{"shape", {3}}, {"value", 256}, {"type", "u8"}}) == "pad: value is 256; legal are values of u8");
    CHECK(made("pad", {{"shape", Json::array()}}) == "pad: the array needs at least one axis");
    CHECK(made("slice", {{"shape", {5, 4}}, {"extents", {3}}}) ==
          "slice: 1 extents are taken of an array of 2 axes; legal is one for each axis");
    CHECK(made("slice", {{"shape", {5}}, {"extents", {3}}, {"begin", {3}}}) ==
          "slice: 3 elements from 3 by 1 of axis 0 end at 5, but it has 5 elements");
    CHECK(made("slice", {{"shape", {5}}, {"extents", {3}}, {"begin", {3}}, {"step", {-2}}}) ==
          "slice: 3 elements from 3 by -2 of axis 0 end at -1, but it has 5 elements");
    CHECK(made("slice", {{"shape", {5}}, {"extents", {3}}, {"step", {0}}}) ==
          "slice: step of axis 0 is 0; legal is any number but 0");
    CHECK(made("slice", {{"shape", {5}}, {"extents", {3}}, {"begin", {-1}}}) ==
          "slice: begin of axis 0 is -1; legal is 0 or more");
    CHECK(made("concat", {{"parts", Json::array()}, {"shared", {3}}}) == "concat: of no array; legal are one or more");
    CHECK(made("concat", {{"parts", {5, 2}}, {"shared", {3}}, {"axis", 2}}) ==
          "concat: axis 2 is not one of the 2 axes of the result");
    CHECK(made("concat", {{"parts", {5, 2}}, {"shared", {3}}, {"axis", -3}}) ==
          "concat: axis -3 is not one of the 2 axes of the result");
    CHECK(made("one_hot", {{"m", 3}, {"n", 3}, {"off", -1}, {"type", "u16"}}) ==
          "one_hot: off is -1; legal are values of u16");
}

TEST_CASE("errors of requests for image ops") {
    CHECK(made("batch_norm", {{"c", 6}, {"h", 2}, {"w", 2}, {"eps", -1}}) ==
          "batch_norm: eps is -1; legal are 0 and more, for roots are taken of variances with it");
    CHECK(made("layer_norm", {{"m", 6}, {"n", 2}, {"eps", -1e-5}}) ==
          "layer_norm: eps is -1e-05; legal are 0 and more, for roots are taken of variances with it");
    CHECK(made("group_norm", {{"c", 6}, {"h", 2}, {"w", 2}, {"groups", 4}}) ==
          "group_norm: 4 groups do not divide the 6 channels");
    CHECK(made("group_norm", {{"c", 6}, {"h", 2}, {"w", 2}, {"groups", 0}}) ==
          "group_norm: 0 groups do not divide the 6 channels");
    CHECK(made("group_norm", {{"c", 6}, {"h", 2}, {"w", 2}, {"type", "i32"}}) == "group_norm takes floats, not i32");
    CHECK(made("conv1d", {{"c", 6}, {"w", 8}, {"o", 4}, {"stride", {1, 2}}}) ==
          "conv1d: stride has 2 numbers; legal is one");
    CHECK(made("conv3d", {{"c", 6}, {"d", 8}, {"h", 8}, {"w", 8}, {"o", 4}, {"padding", {1, 2}}}) ==
          "conv3d: padding has 2 numbers; legal is one, or 3");
    CHECK(made("conv3d", {{"c", 6}, {"d", 8}, {"h", 8}, {"w", 8}, {"o", 4}, {"stride", {1, 0, 1}}}) ==
          "conv3d: stride_y is 0; legal is 1 or more");
    CHECK(made("conv3d", {{"c", 6}, {"d", 2}, {"h", 8}, {"w", 8}, {"o", 4}}) ==
          "the depth of the input is 2, and 2 with its padding, but the weights cover 3; legal is an input no smaller "
          "than that");
    CHECK(made("conv1d", {{"c", 6}, {"w", 8}, {"o", 4}, {"groups", 4}}) ==
          "conv1d: 4 groups do not divide the 6 input channels");
    CHECK(made("conv_transpose2d", {{"c", 6}, {"h", 8}, {"w", 8}, {"o", 4}, {"stride", 2}, {"output_padding", 2}}) ==
          "conv_transpose2d: output_padding_y is 2; legal is 0 to 1, the stride less 1");
    CHECK(made("conv_transpose2d", {{"c", 6}, {"h", 8}, {"w", 8}, {"o", 4}, {"stride", 0}}) ==
          "conv_transpose2d: stride_y is 0; legal is 1 or more");
    CHECK(made("conv_transpose2d", {{"c", 6}, {"h", 8}, {"w", 1}, {"o", 4}, {"padding", 2}}) ==
          "conv_transpose2d: the width of the result is -1; legal is a padding that leaves 1 or more");
    CHECK(made("resize_nearest", {{"c", 1}, {"h", 0}, {"w", 1}, {"oh", 2}, {"ow", 2}}) ==
          "resize_nearest: the height of the input is 0; legal is 1 or more");
    CHECK(made("resize_bilinear", {{"c", 1}, {"h", 1}, {"w", 1}, {"oh", 2}, {"ow", 0}}) ==
          "resize_bilinear: the width of the result is 0; legal is 1 or more");
    CHECK(made("resize_bilinear", {{"c", 1}, {"h", 1}, {"w", 1}, {"oh", 2}, {"ow", 2}, {"type", "u8"}}) ==
          "resize_bilinear takes floats, not u8");
    CHECK(made("resize_nearest", {{"c", 1}, {"h", 100000}, {"w", 1}, {"oh", 100000}, {"ow", 2}}) ==
          "resize_nearest: the heights 100000 and 100000 make coordinates beyond 32 bits; legal is a product below "
          "536870911");
    CHECK(made("resize_nearest", {{"c", 1}, {"h", 2}, {"w", 1}, {"oh", 2}, {"ow", 2}, {"coordinates", "corner"}})
              .starts_with("op \"resize_nearest\": parameter \"coordinates\" is \"corner\""));
}

TEST_CASE("errors of requests for attention") {
    CHECK(made("attention", {{"s", 2}, {"t", 2}, {"d", 4}, {"heads", 0}}) ==
          "attention: heads is 0; legal is 1 or more");
    CHECK(made("attention", {{"s", 2}, {"t", 2}, {"d", 4}, {"heads", 6}, {"groups", 4}}) ==
          "attention: 4 groups of keys do not divide the 6 heads");
    CHECK(made("attention", {{"s", 2}, {"t", 2}, {"d", 0}}) == "attention: keys have 0 elements; legal is 1 or more");
    CHECK(made("attention", {{"s", 2}, {"t", 2}, {"d", 4}, {"type", "i8"}}) == "attention takes floats, not i8");
}
