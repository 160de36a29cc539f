// Default schedules of convolutions in vectors of filters exist for any number of channels, on
// machines that multiply several channels at once.
// Links: driver
// Sanitized: --test-case=*run*time*
#include "driver/default_schedule.h"
#include "dsl/padding.h"
#include "ops/ops.h"
#include "schedules/library/conv_filters.h"
#include "schedules/library/table.h"
#include "targets/lower/lower.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/space_points.h"

#include <array>

using namespace kumiko;

namespace {

Schedule by_filters(const Op &op, const Machine &machine) {
    return library::schedule_conv_filters(op, machine, library::conv_filters_parameters(op, machine));
}

ops::Conv2dOptions options(ops::ImageLayout layout, int padding, Type weights = {}) {
    ops::Conv2dOptions o;
    o.padding(padding), o.layout = layout, o.w_type = weights;
    return o;
}

// A convolution of one image, without a batch axis; optionally with a 2 x 2 pool of its results.
Op of_one_image(Type image, Type weights, bool last, bool padded, int window, const Expr &channels, bool pooled) {
    const Axis o("o", 19), y("y", 10), x("x", 12), c("c", channels), ky("ky", window), kx("kx", window);
    const Axis h("y", 10 + window - 1), w("x", 12 + window - 1);
    const Axis &rows = padded ? y : h, &columns = padded ? x : w;
    const std::vector<Axis> axes = last ? std::vector{rows, columns, c} : std::vector{c, rows, columns};
    const Tensor X = input("X", image, axes), W = input("W", weights, {o, c, ky, kx});
    const Tensor P = padded ? constant_padded(X, image.is_float() ? Expr(1.f) : Expr(3), {rows, columns}) : X;
    const Expr at_y = y + ky - (padded ? window / 2 : 0), at_x = x + kx - (padded ? window / 2 : 0);
    const Element pixel = last ? P(at_y, at_x, c) : P(c, at_y, at_x);
    const Type sums = image.is_float() ? f32 : i32;
    const Expr term = cast(sums, pixel) * cast(sums, W(o, c, ky, kx));
    const Tensor C = compute("C", last ? std::vector{y, x, o} : std::vector{o, y, x}, sum(term, {c, ky, kx}));
    if (!pooled) return Op("conv", {X, W}, {C});
    const Axis py("py", 5), px("px", 6), dy("dy", 2), dx("dx", 2);
    const Element result = last ? C(py * 2 + dy, px * 2 + dx, o) : C(o, py * 2 + dy, px * 2 + dx);
    return Op("pooled", {X, W},
              {compute("Y", last ? std::vector{py, px, o} : std::vector{o, py, px}, maximum(result, {dy, dx}))});
}

} // namespace

TEST_CASE("one image without an axis of batches, at points of the space") {
    const LibraryTemplate &filters = library::template_named("conv_filters");
    int made = 0;
    uint64_t seed = 1;
    for (const auto &[image, weights] : {std::pair(u8, i8), std::pair(i8, i8), std::pair(f32, f32)}) {
        for (const bool last : {false, true}) {
            for (const bool padded : {false, true}) {
                for (const int window : {1, 3}) {
                    for (const Expr &channels : {Expr(5), Expr(24), Expr(Size("C"))}) {
                        const bool pooled = seed % 3 == 0 && !padded;
                        if (padded && window == 1) continue;
                        const Op op = of_one_image(image, weights, last, padded, window, channels, pooled);
                        INFO(op.to_string());
                        if (!library::is_conv_for_filters(op)) continue;
                        const Sizes sizes = op.sizes().empty() ? Sizes() : Sizes{{"C", 13}};
                        const auto space = filters.make_space(op, Machine::host(), PackedBy::Kernel);
                        for_points(*space, op.sizes().empty() ? 1 : 0, seed++, [&](const Schedule &s) {
                            check_runs(s, sizes);
                            made++;
                        });
                    }
                }
            }
        }
    }
    CHECK(made > 50);
}

TEST_CASE("blocks of channels are multiples of the instruction's steps") {
    int made = 0;
    for (const char *name : {"x86-64-avx2", "x86-64-avx512-bf16", "aarch64-dotprod"}) {
        const Machine machine = Machine::named(name);
        CAPTURE(name);
        for (const auto &[type, weights] : {std::pair(u8, i8), std::pair(i8, i8), std::pair(bf16, bf16)}) {
            for (const auto layout : {ops::ImageLayout::NCHW, ops::ImageLayout::NHWC}) {
                for (const int channels : {36, 100, 130, 148, 260, 332, 516}) {
                    for (const int window : {1, 3}) {
                        const Op op = ops::conv2d(type, 1, channels, 12, 12, 64, window, window,
                                                  options(layout, window / 2, weights));
                        INFO(op.to_string());
                        if (!library::is_conv_by_filters(op)) continue;
                        CHECK_NOTHROW(by_filters(op, machine));
                        made++;
                    }
                }
            }
        }
    }
    CHECK(made > 200);
}

TEST_CASE("padded sizes of weights select the cache level") {
    ops::Conv2dOptions o = options(ops::ImageLayout::NHWC, 1);
    o.stride(3);
    const Machine machine = Machine::named("x86-64-avx512");
    CHECK_NOTHROW(body_of(by_filters(ops::conv2d(f32, 2, 332, 28, 31, 8, 7, 7, o), machine)));
    CHECK_NOTHROW(body_of(by_filters(ops::conv2d(bf16, 1, 148, 9, 9, 17, 7, 7), machine)));
}

TEST_CASE("padded images of sizes known at run time") {
    for (const auto &[type, weights] : {std::pair(u8, i8), std::pair(bf16, bf16), std::pair(f32, f32)}) {
        for (const bool both : {false, true}) {
            const Expr H = Size("H"), W = both ? Expr(Size("W")) : Expr(13);
            const Op op = ops::conv2d(type, 1, 16, H, W, 32, 3, 3, options(ops::ImageLayout::NHWC, 1, weights));
            INFO(op.to_string());
            REQUIRE(library::is_conv_by_filters(op));
            Sizes sizes = {{"H", 9}};
            if (both) sizes["W"] = 13;
            check_runs(by_filters(op, Machine::host()), sizes);
        }
    }
}

TEST_CASE("where the caller packs weights, few pixels and few filters are no reason against vectors of filters") {
    int others = 0;
    for (const auto &[type, weights] : {std::pair(f32, f32), std::pair(u8, i8), std::pair(bf16, bf16)}) {
        for (const auto layout : {ops::ImageLayout::NCHW, ops::ImageLayout::NHWC}) {
            for (const auto &[channels, size, filters, window, stride] : std::vector<std::array<int, 5>>{
                     {8, 5, 16, 3, 1}, {3, 1, 5, 1, 1}, {24, 20, 40, 1, 1}, {7, 6, 9, 3, 2}}) {
                ops::Conv2dOptions o = options(layout, window / 2, weights);
                o.stride(stride);
                const Op op = ops::conv2d(type, 1, channels, size, size, filters, window, window, o);
                INFO(op.to_string());
                const Schedule s = default_schedule(op, Machine::host(), PackedBy::Caller);
                CHECK(lower(s).packs.size() == 1);
                check_runs(s);
                others += !library::is_conv_by_filters(op);
            }
        }
    }
    CHECK(others > 5);
}

TEST_CASE("weights that are read between two visits to the results follow each other, where blocks of channels are "
          "whole ones") {
    const auto of = [](int channels) {
        return ops::conv2d(f32, 1, channels, 6, 5, 40, 3, 3, options(ops::ImageLayout::NHWC, 1, f32));
    };
    for (const auto &[channels, depth, blocks] : {std::tuple(96, 32, true), {96, 96, false}, {84, 32, false}}) {
        const Op op = of(channels);
        library::ConvFiltersParameters p = library::conv_filters_parameters(op, Machine::host());
        std::vector<int64_t> depths = {depth};
        p.depth = Tile(depth, depths);
        for (const char *weights : {"copied", "ahead"}) {
            p.weights.set(weights, "weights");
            const Schedule s = library::schedule_conv_filters(op, Machine::host(), p);
            INFO(s.nest());
            CHECK((s.nest().find(fmt::format("c/{}, ky, kx, c%{}", depth, depth)) != std::string::npos) == blocks);
            check_runs(s);
        }
    }
}

TEST_CASE("few filters leave vectors of filters to machines whose lanes they fill") {
    const auto of = [](int filters, int width, int stride = 1, Type weights = {},
                       ops::ImageLayout layout = ops::ImageLayout::NCHW) {
        ops::Conv2dOptions o = options(layout, 1, weights);
        o.stride(stride), o.bias = true, o.activation = "relu";
        return ops::conv2d(weights.bits() ? i8 : f32, 1, 16, 6, width, filters, 3, 3, o);
    };
    const Machine wide = Machine::named("x86-64-avx512"), narrow = Machine::named("x86-64-avx2");
    const auto name_of = [](const Op &op, const Machine &machine) {
        std::string name;
        default_schedule(op, machine, PackedBy::Kernel, nullptr, &name);
        CHECK_EQ(library::fitting_template(op, machine)->name, name);
        return name;
    };
    CHECK_EQ(name_of(of(8, 32), wide), "conv");
    CHECK_EQ(name_of(of(8, 64, 2), wide), "conv");
    CHECK_EQ(name_of(of(8, 32), narrow), "conv_filters");
    CHECK_EQ(name_of(of(16, 32), wide), "conv_filters");
    CHECK_EQ(name_of(of(8, 7), wide), "conv_filters"); // vectors of pixels are emptier
    CHECK_EQ(name_of(of(8, 32, 1, {}, ops::ImageLayout::NHWC), wide), "conv_filters");
    CHECK_EQ(name_of(of(8, 32, 1, i8), wide), "conv_filters");

    CHECK(library::pays_to_pack_ahead(of(16, 32), wide));
    CHECK(library::pays_to_pack_ahead(of(8, 32), narrow));
    CHECK_FALSE(library::pays_to_pack_ahead(of(8, 32), wide));
    for (const Machine &machine : {wide, narrow}) CHECK_FALSE(library::pays_to_pack_ahead(of(1, 32), machine));
    // A caller who asks for packed weights still gets them.
    CHECK_EQ(library::find_template(of(1, 32), wide, PackedBy::Caller)->name, "conv_filters");
    CHECK_FALSE(library::pays_to_pack_ahead(ops::unary("relu", f32, 8), wide));
    for (const int filters : {1, 8}) check_runs(default_schedule(of(filters, 32), Machine::host()));
}

TEST_CASE("short sums whose results a residual is added to have vectors of pixels") {
    const Machine wide = Machine::named("x86-64-avx512");
    const auto of = [](int channels, bool residual) {
        ops::Conv2dOptions o = options(ops::ImageLayout::NCHW, 0, f32);
        o.residual = residual;
        return ops::conv2d(f32, 1, channels, 16, 16, 32, 1, 1, o);
    };
    // A residual would be transposed as the results are, which costs as much as some products.
    for (const auto &[channels, residual, pays] :
         {std::tuple(96, true, false), {96, false, true}, {32, false, false}, {48, false, true}, {256, true, true}}) {
        CAPTURE(channels);
        CHECK_EQ(library::pays_to_pack_ahead(of(channels, residual), wide), pays);
    }
    check_runs(default_schedule(of(96, true), Machine::host()));
}
