// Convolutions of bytes: with instructions that take one factor as unsigned, and with others if
// weights are large.
// Links: driver
// Sanitized: --test-case=pre-packed*,*exact*sums*,*without*a*sign*
#include "driver/kernel.h"
#include "driver/target.h"
#include "ops/ops.h"
#include "schedules/library/conv_filters.h"
#include "targets/cpu/object.h"
#include "targets/lower/nest.h"
#include "tests/unit/check_runs.h"

using namespace kumiko;

namespace {

struct Shape {
    int c, size, o, window;
    ops::Conv2dOptions options;
};

std::vector<Shape> shapes() {
    ops::Conv2dOptions bias, nhwc = ops::Conv2dOptions().padding(1), grouped = nhwc;
    bias.bias = true;
    nhwc.layout = ops::ImageLayout::NHWC;
    grouped.groups = 2;
    return {
        {34, 7, 24, 1, {}},
        {12, 9, 16, 3, ops::Conv2dOptions().padding(1)},
        {18, 9, 20, 3, ops::Conv2dOptions().padding(2).dilation(2)},
        {25, 15, 16, 1, ops::Conv2dOptions().stride(2)},
        {40, 8, 16, 1, bias},
        {3, 17, 16, 7, ops::Conv2dOptions().padding(3).stride(2)}, // a first layer: columns of the window, and one more
        {3, 9, 24, 3, ops::Conv2dOptions().padding(1)},
        {5, 9, 16, 5, ops::Conv2dOptions().padding(2)},
        {6, 9, 16, 3, ops::Conv2dOptions().padding(2).dilation(2)}, // columns in no run
        {16, 10, 16, 3, nhwc},
        {16, 7, 64, 3, grouped}};
}

Op conv(const Shape &s, Type image = i8) {
    ops::Conv2dOptions o = s.options;
    o.w_type = i8;
    return ops::conv2d(image, 2, s.c, s.size, s.size, s.o, s.window, s.window, o);
}

// A layer of a quantised network.
Op quantised(const Shape &s, Type output) {
    ops::Conv2dOptions o = s.options;
    o.bias = o.requantise = true;
    o.activation = "relu", o.w_type = i8, o.output = output, o.zero_point = 3;
    return ops::conv2d(u8, 2, s.c, s.size, s.size, s.o, s.window, s.window, o);
}

// Filters per group.
int filters(const Shape &s) { return s.o / s.options.groups; }

bool takes(const Schedule &s, const std::string &instruction) {
    return body_of(s).find("kumiko.inst." + instruction) != std::string::npos;
}

// Compares bits with the formula for every value of an image byte, and for weights of seven bits,
// of eight, and of the minimum only.
void check_values(const Schedule &s) {
    const Op &op = s.op();
    const Kernel k = compile(s);
    for (const auto &[low, high] : {std::pair(-64, 64), std::pair(-65, 127), std::pair(-128, -128)}) {
        CAPTURE(low);
        std::vector<Buffer<>> args, meant;
        for (const Input &in : op.inputs()) {
            args.push_back(make_input(in, {}));
            const bool weights = in.name == "W", image = in.name == "X";
            const int least = in.type.is_uint() ? 0 : -128, greatest = in.type.is_uint() ? 255 : 127;
            if (in.type.is_float())
                // results of all sizes, and beyond 8 bits
                fill_random(args.back(), args.size(), 0.0001, 0.02);
            else
                fill_random_integers(args.back(), args.size(), weights ? low : least, weights ? high : greatest);
            if (image && low == high) {
                const int extreme = in.type.is_uint() ? greatest : least;
                fill_random_integers(args.back(), 1, extreme, extreme);
            }
        }
        meant = args;
        meant.push_back(make_output(op, "Y", {}));
        interpret(op, meant);
        for (size_t t = 0; t < op.inputs().size(); t++) {
            if (!k.nest().tensors[t].packed_from.empty()) args[t] = k.pack(op.inputs()[t].name, args[t]);
        }
        args.push_back(make_output(op, "Y", {}));
        fill_unwritten(args.back());
        k(args);
        CHECK(difference(args.back(), meant.back()) == "");
    }
}

} // namespace

TEST_CASE("convolutions of bytes choose by the weights of each call") {
    const Machine avx2 = Machine::named("x86-64-avx2");
    for (const Shape &shape : shapes()) {
        const Op op = conv(shape);
        INFO(op.to_string());
        REQUIRE(library::is_conv_by_filters(op));
        for (const char *weights : {"copied", "ahead"}) {
            CAPTURE(weights);
            library::ConvFiltersParameters p = library::conv_filters_parameters(op, avx2);
            CHECK(p.narrow);
            p.weights = Choice(weights, {weights});
            const Schedule s = library::schedule_conv_filters(op, avx2, p);
            CHECK(takes(s, "avx2.vpmaddubsw"));
            CHECK(takes(s, "avx2.vpmaddwd"));
            p.narrow = Flag(false, {false, true});
            CHECK(!takes(library::schedule_conv_filters(op, avx2, p), "avx2.vpmaddubsw"));
            if (Machine::host().has("avx2")) check_values(s);
        }
    }
}

TEST_CASE("where a machine has exact sums of four products, one kernel takes them") {
    for (const auto &[level, instruction, lanes] : {std::tuple("x86-64-avx512-vnni", "avx512.vpdpbusd", 16),
                                                    std::tuple("x86-64-avx2-vnni", "avx_vnni.vpdpbusd", 8)}) {
        for (const Shape &shape : shapes()) {
            const Machine vnni = Machine::named(level);
            const Op op = conv(shape);
            INFO(op.to_string());
            REQUIRE(library::is_conv_by_filters(op));
            for (const char *weights : {"copied", "ahead"}) {
                library::ConvFiltersParameters p = library::conv_filters_parameters(op, vnni);
                CHECK(!p.narrow);
                p.weights = Choice(weights, {weights});
                if (filters(shape) < lanes) continue;
                CHECK(std::string(p.multiply) == instruction);
                const Schedule s = library::schedule_conv_filters(op, vnni, p);
                CHECK(takes(s, instruction));
                if (Machine::host().has(vnni.features.count("avx512_vnni") ? "avx512_vnni" : "avx_vnni"))
                    check_values(s);
            }
        }
    }
}

TEST_CASE("pre-packed weights have the form of the second kernel") {
    // its vectors are twice as wide as eight filters
    const Machine vnni = Machine::named("x86-64-avx512-vnni");
    for (const ops::ImageLayout layout : {ops::ImageLayout::NCHW, ops::ImageLayout::NHWC}) {
        ops::Conv2dOptions o;
        o.layout = layout;
        const Op op = ops::conv2d(i8, 1, 36, 6, 6, 8, 1, 1, o);
        REQUIRE(library::is_conv_by_filters(op));
        const library::ConvFiltersParameters first = library::conv_filters_parameters(op, vnni);
        for (const std::string &way : first.multiply.legal()) {
            CAPTURE(way);
            library::ConvFiltersParameters p = first;
            p.multiply.set(way, "multiply");
            p.weights.set("ahead", "weights");
            CHECK_NOTHROW(library::schedule_conv_filters(op, vnni, p));
        }
    }
}

TEST_CASE("images without a sign are multiplied as they are") {
    const Machine avx2 = Machine::named("x86-64-avx2"), vnni = Machine::named("x86-64-avx512-vnni");
    for (const Shape &shape : shapes()) {
        const Op op = conv(shape, u8);
        INFO(op.to_string());
        REQUIRE(library::is_conv_by_filters(op));
        library::ConvFiltersParameters p = library::conv_filters_parameters(op, avx2);
        CHECK(p.narrow);
        for (const char *weights : {"copied", "ahead"}) {
            CAPTURE(weights);
            p.weights = Choice(weights, {weights});
            const Schedule s = library::schedule_conv_filters(op, avx2, p);
            CHECK(takes(s, "avx2.vpmaddubsw"));
            CHECK(takes(s, "avx2.vpmaddwd"));
            CHECK(s.to_cpp().find("offset(") == std::string::npos);
            if (Machine::host().has("avx2")) check_values(s);
        }
        if (filters(shape) < 16) continue;
        const Schedule s = library::schedule_conv_filters(op, vnni, library::conv_filters_parameters(op, vnni));
        CHECK(takes(s, "avx512.vpdpbusd"));
        CHECK(s.to_cpp().find("offset(") == std::string::npos);
        if (Machine::host().has("avx512_vnni")) check_values(s);
    }
}

TEST_CASE("sums of bytes requantised before they are stored") {
    const Machine avx2 = Machine::named("x86-64-avx2");
    for (const Shape &shape : shapes()) {
        for (const Type output : {u8, i8}) {
            const Op op = quantised(shape, output);
            INFO(op.to_string());
            REQUIRE(library::is_conv_by_filters(op));
            const Schedule s = library::schedule_conv_filters(op, avx2, library::conv_filters_parameters(op, avx2));
            CHECK(takes(s, "avx2.vpmaddubsw"));
            CHECK(s.nest().find("at the end: Y(…) = …") != std::string::npos);
            if (Machine::host().has("avx2")) check_values(s);
        }
    }
}
