#include "ops/ops.h"
#include "support/error.h"

#include <doctest/doctest.h>

using namespace kumiko;

namespace {

template<typename F>
std::string error_of(F f) {
    try {
        f();
    } catch (const UserError &e) {
        return e.what();
    }
    return "no error";
}

} // namespace

TEST_CASE("what a wrong request for an op is told") {
    const auto made = [](const char *name, const Json &parameters) {
        return error_of([&] { ops::make(name, parameters); });
    };
    CHECK(made("matmull", {}) == "unknown op \"matmull\" (did you mean 'matmul'?)");
    CHECK(made("softmax", {{"m", 4}}) == "op \"softmax\" needs the parameter \"n\": columns");
    CHECK(made("softmax", {{"m", 4}, {"n", "-4"}}) ==
          "op \"softmax\": parameter \"n\" is \"-4\"; legal is a number from 0 to 2147479552, or the name of a size");
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
    CHECK(made("reduce", {{"shape", {3, 4}}, {"axes", {1, -1}}}) == "reduction: axis -1 stands twice");
}
