// Convolutions by Winograd's method compute conv2d, within the rounding bound that ops/conv.h
// states.
// Links: driver
// Sanitized: --test-case=errors*,*ahead*
#include "driver/default_schedule.h"
#include "schedules/library/table.h"
#include "targets/lower/nest.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/op_reference.h"

using namespace kumiko;

namespace {

using Matrix = std::vector<std::vector<double>>;

struct Shape {
    int C, H, W, O, pad, tile, stride = 1;
    ops::ImageLayout layout = ops::ImageLayout::NCHW;

    ops::Conv2dOptions options() const {
        ops::Conv2dOptions o;
        o.padding(pad).stride(stride), o.layout = layout;
        return o;
    }
};

// The transforms' entries without their signs.
Matrix input_of(const Shape &s) {
    if (s.stride == 2 && s.tile == 2)
        return {{1, 0, 1, 0, 0}, {0, 0, 1, 0, 0}, {0, 0, 1, 0, 1}, {0, 1, 0, 0, 0}, {0, 0, 0, 1, 0}};
    if (s.stride == 2)
        return {{2, 0, 1, 0, 2, 0, 1, 0, 0}, {0, 0, 2, 0, 1, 0, 1, 0, 0}, {0, 0, 2, 0, 3, 0, 1, 0, 0},
                {0, 0, 1, 0, 0, 0, 1, 0, 0}, {0, 0, 2, 0, 1, 0, 2, 0, 1}, {0, 1, 0, 0, 0, 0, 0, 0, 0},
                {0, 0, 0, 1, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 1, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 1, 0}};
    if (s.tile == 2) return {{1, 0, 1, 0}, {0, 1, 1, 0}, {0, 1, 1, 0}, {0, 1, 0, 1}};
    return {{4, 0, 5, 0, 1, 0}, {0, 4, 4, 1, 1, 0}, {0, 4, 4, 1, 1, 0},
            {0, 2, 1, 2, 1, 0}, {0, 2, 1, 2, 1, 0}, {0, 4, 0, 5, 0, 1}};
}

// One row per row of the input's matrix.
Matrix weights_of(const Shape &shape) {
    const double h = 0.5, s = 1.0 / 6, t = 1.0 / 12, f = 1.0 / 24;
    if (shape.stride == 2 && shape.tile == 2) return {{1, 0, 0}, {1, 0, 1}, {0, 0, 1}, {0, 1, 0}, {0, 1, 0}};
    if (shape.stride == 2)
        return {{h, 0, 0}, {h, 0, h}, {s, 0, s}, {s, 0, 2 * s}, {0, 0, 1}, {0, 1, 0}, {0, 1, 0}, {0, 1, 0}, {0, 1, 0}};
    if (shape.tile == 2) return {{1, 0, 0}, {h, h, h}, {h, h, h}, {0, 0, 1}};
    return {{0.25, 0, 0}, {s, s, s}, {s, s, s}, {f, t, s}, {f, t, s}, {0, 0, 1}};
}

Matrix output_of(const Shape &s) {
    if (s.stride == 2 && s.tile == 2) return {{1, 1, 0, 1, 0}, {0, 1, 1, 0, 1}};
    if (s.stride == 2)
        return {{1, 1, 1, 1, 0, 1, 0, 0, 0},
                {0, 1, 1, 2, 0, 0, 1, 0, 0},
                {0, 1, 1, 4, 0, 0, 0, 1, 0},
                {0, 1, 1, 8, 1, 0, 0, 0, 1}};
    if (s.tile == 2) return {{1, 1, 1, 0}, {0, 1, 1, 1}};
    return {{1, 1, 1, 1, 1, 0}, {0, 1, 1, 2, 2, 0}, {0, 1, 1, 4, 4, 0}, {0, 1, 1, 8, 8, 1}};
}

// Error bound of the result of filter o at (y, x), without the roundoff and the number of steps.
double spread(const Shape &s, const float *X, const float *K, int o, int y, int x) {
    const Matrix B = input_of(s), G = weights_of(s), A = output_of(s);
    const int n = int(B.size()), step = s.tile * s.stride;
    const int top = y / s.tile * step - s.pad, left = x / s.tile * step - s.pad;
    double all = 0;
    for (int u = 0; u < n; u++) {
        for (int v = 0; v < n; v++) {
            const double weight = A[y % s.tile][u] * A[x % s.tile][v];
            if (weight == 0) continue;
            double point = 0;
            for (int c = 0; c < s.C; c++) {
                double d = 0, g = 0;
                for (int i = 0; i < n; i++) {
                    for (int j = 0; j < n; j++) {
                        if (top + i < 0 || top + i >= s.H || left + j < 0 || left + j >= s.W) continue;
                        d += B[u][i] * B[v][j] * std::abs(double(X[(int64_t(c) * s.H + top + i) * s.W + left + j]));
                    }
                }
                for (int i = 0; i < 3; i++) {
                    for (int j = 0; j < 3; j++)
                        g += G[u][i] * G[v][j] * std::abs(double(K[((int64_t(o) * s.C + c) * 3 + i) * 3 + j]));
                }
                point += d * g;
            }
            all += weight * point;
        }
    }
    return all;
}

Op winograd(Type t, const Shape &s) { return ops::winograd_conv2d(t, 1, s.C, s.H, s.W, s.O, s.tile, s.options()); }

Op direct(Type t, const Shape &s) { return ops::conv2d(t, 1, s.C, s.H, s.W, s.O, 3, 3, s.options()); }

// The compiled kernel in float32 against the direct sum in float64.
void check_bound(const Shape &s) {
    CAPTURE(s.C);
    CAPTURE(s.tile);
    CAPTURE(s.stride);
    const Op op = winograd(f32, s), exact = direct(f64, s);
    std::vector<Buffer<>> in, wide;
    for (size_t i = 0; i < 2; i++) {
        in.push_back(make_input(op.inputs()[i], {}));
        fill_random(in.back(), i + 1, -1, 1);
        wide.push_back(make_input(exact.inputs()[i], {}));
        for (size_t e = 0; e < in[i].number_of_elements(); e++)
            reinterpret_cast<double *>(wide[i].data())[e] = reinterpret_cast<const float *>(in[i].data())[e];
    }
    const Buffer<> meant = interpret(exact, wide);
    std::vector<Buffer<>> args = in;
    args.push_back(make_output(op, "Y", {}));
    compile(default_schedule(op, Machine::host()))(args);
    const int height = (s.H + 2 * s.pad - 3) / s.stride + 1, width = (s.W + 2 * s.pad - 3) / s.stride + 1;
    const auto *X = reinterpret_cast<const float *>(in[0].data()), *K = reinterpret_cast<const float *>(in[1].data());
    double worst = 0, largest = 0;
    for (int o = 0; o < s.O; o++) {
        for (int y = 0; y < height; y++) {
            for (int x = 0; x < width; x++) {
                const int64_t p = (int64_t(o) * height + y) * width + x;
                const double error = std::abs(at_position(args[2], p) - at_position(meant, p));
                worst = std::max(worst, error / (spread(s, X, K, o, y, x) * (s.C + 32) * std::ldexp(1, -24)));
                largest = std::max(largest, error);
            }
        }
    }
    CHECK(worst < 1);
    CHECK(largest > 0); // it does round otherwise
}

} // namespace

TEST_CASE("Winograd's products are the convolution, whatever the tiles leave over") {
    const auto nchw = ops::ImageLayout::NCHW, nhwc = ops::ImageLayout::NHWC;
    for (const auto &[tile, stride, layout] :
         {std::tuple(2, 1, nchw), {4, 1, nchw}, {2, 2, nchw}, {4, 2, nchw}, {2, 1, nhwc}, {4, 2, nhwc}}) {
        for (const auto &[size, pad] :
             {std::pair(8, 1), std::pair(7, 1), std::pair(9, 0), std::pair(3, 0), std::pair(6, 2)}) {
            const Shape s{3, size, size + 2, 5, pad, tile, stride, layout};
            CAPTURE(tile);
            CAPTURE(stride);
            CAPTURE(size);
            const std::vector<Buffer<>> in = random_inputs(winograd(f64, s));
            const Buffer<> ours = interpret(winograd(f64, s), in), meant = interpret(direct(f64, s), in);
            REQUIRE(ours.number_of_elements() == meant.number_of_elements());
            double worst = 0;
            for (size_t i = 0; i < ours.number_of_elements(); i++)
                worst = std::max(worst, std::abs(at_position(ours, int64_t(i)) - at_position(meant, int64_t(i))));
            CHECK(worst < 1e-12);
        }
    }
}

TEST_CASE("Winograd's products in float32 stay within the bound") {
    check_bound({3, 9, 10, 8, 1, 2});
    check_bound({3, 9, 10, 8, 1, 4});
    check_bound({40, 14, 14, 24, 1, 4});
    check_bound({130, 7, 8, 16, 0, 4});
    check_bound({3, 9, 10, 8, 1, 2, 2});
    check_bound({3, 19, 20, 8, 1, 4, 2});
    check_bound({130, 13, 9, 16, 0, 4, 2});
}

TEST_CASE("Winograd's products of halves and whole numbers are exact with small tiles, under any schedule") {
    const auto nchw = ops::ImageLayout::NCHW, nhwc = ops::ImageLayout::NHWC;
    for (const auto &[more, layout, stride] : {std::tuple(false, nchw, 1),
                                               {true, nchw, 1},
                                               {false, nhwc, 1},
                                               {true, nhwc, 1},
                                               {true, nchw, 2},
                                               {false, nhwc, 2}}) {
        ops::Conv2dOptions o;
        o.padding(1).stride(stride), o.layout = layout;
        o.bias = o.residual = more;
        if (more) o.activation = "relu";
        const Op op = ops::winograd_conv2d(f32, 2, 12, 11, 14, 20, 2, o);
        const LibraryTemplate *t = library::find_template(op);
        REQUIRE(t);
        CHECK_EQ(t->name, "winograd");
        const auto space = t->make_space(op, Machine::host());
        check_runs(space->schedule(space->default_point()));
        Json ahead = space->to_json(space->default_point());
        ahead["weights"] = "ahead", ahead["rows"] = 2;
        CHECK(!space->reason_against(space->from_json(ahead)).empty());
        check_runs(space->schedule(space->from_json(ahead)));
        check_runs(Schedule(op));
        Random random(3);
        for (int n = 0; n < 3; n++) check_runs(space->schedule(space->sample(random)));
    }
    Size H("H"), W("W");
    const Op op = ops::winograd_conv2d(f32, 1, 8, H, W, 8, 2, ops::Conv2dOptions().padding(1));
    check_runs(default_schedule(op, Machine::host()), {{"H", 9}, {"W", 12}});
}

namespace {

// F(2 × 2, 3 × 3) of an image [channel, row, column] or [row, column, channel], with no name of
// winograd_conv2d and other orders of axes. `finish` makes the output of the results at (filter,
// row, column) of the tiles.
struct OtherNames {
    int channels = 10, filters = 20, height = 9, width = 11; // of the results
    bool channels_last = false;
    Axis k{"k", channels}, f{"f", filters};
    Tensor image = input("image", f32, axes_of_image());
    Tensor kernel = input("kernel", f32, {Axis("dy", 3), Axis("dx", 3), f, k});

    std::vector<Axis> axes_of_image() const {
        const Axis r("r", height), c("s", width);
        return channels_last ? std::vector<Axis>{r, c, k} : std::vector<Axis>{k, r, c};
    }
    static Expr rows_of(const std::vector<std::vector<double>> &m, const Axis &row,
                        const std::function<Expr(int)> &at) {
        Expr all;
        for (size_t r = m.size(); r-- > 0;) {
            Expr sum;
            for (size_t i = 0; i < m[r].size(); i++) {
                if (m[r][i] == 0) continue;
                const Expr term = at(int(i)) * float(m[r][i]);
                sum = sum.defined() ? sum + term : term;
            }
            all = all.defined() ? Halide::select(row == int(r), sum, all) : sum;
        }
        return all;
    }

    // The tiles of the convolution of `from`, read at a channel, row and column.
    Tensor tiles(const std::function<Expr(const Expr &, const Expr &, const Expr &)> &from) const {
        const std::vector<std::vector<double>> in = {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}},
                                               of_kernel = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}},
                                               out = {{1, 1, 1, 0}, {0, 1, -1, -1}};
        const Axis p("p", 4), q("q", 4), m("m", 4), g("g", (height + 1) / 2), h("h", (width + 1) / 2), d("d", 2),
            e("e", 2);
        const Tensor first = compute("first", {k, m, p, h, g},
                                     rows_of(in, p, [&](int i) { return from(k, g * 2 + i - 1, h * 2 + m - 1); }));
        const Tensor both =
            compute("both", {p, q, k, g, h}, rows_of(in, q, [&](int i) { return first(k, i, p, h, g); }));
        const Tensor known = compute("known", {k, f, q, p}, rows_of(of_kernel, p, [&](int y) {
                                         return rows_of(of_kernel, q, [&](int x) { return kernel(y, x, f, k); });
                                     }));
        const Tensor sums = compute("sums", {f, h, p, g, q}, sum(known(k, f, q, p) * both(p, q, k, g, h), k));
        const Tensor back =
            compute("back", {h, g, f, d, q}, rows_of(out, d, [&](int i) { return sums(f, h, i, g, q); }));
        return compute("square", {e, d, f, g, h}, rows_of(out, e, [&](int i) { return back(h, g, f, d, i); }));
    }
    Expr result(const Tensor &square, const Axis &r, const Axis &c) const {
        return square(c % 2, r % 2, f, r / 2, c / 2);
    }
    Expr at_image(const Tensor &t, const Expr &channel, const Expr &y, const Expr &x) const {
        return channels_last ? Expr(t(y, x, channel)) : Expr(t(channel, y, x));
    }
    std::vector<Axis> axes_of_result(const Axis &r, const Axis &c) const {
        return channels_last ? std::vector<Axis>{r, c, f} : std::vector<Axis>{f, r, c};
    }
};

} // namespace

TEST_CASE("Winograd's stages are found by their structure, whatever their names, axes and epilogue") {
    for (const bool channels_last : {false, true}) {
        OtherNames n{.channels_last = channels_last};
        const Axis r("r", n.height), c("s", n.width);
        const Tensor padded = zero_padded(n.image);
        const Tensor square =
            n.tiles([&](const Expr &k, const Expr &y, const Expr &x) { return n.at_image(padded, k, y, x); });
        const Tensor residual = input("residual", f32, n.axes_of_result(r, c)), bias = input("bias", f32, {n.f});
        const auto at = [&](const Tensor &t) { return n.at_image(t, n.f, r, c); };
        // v + relu(v), whose parts are stages; exact for whole numbers.
        const Tensor v = compute("v", n.axes_of_result(r, c), n.result(square, r, c) + bias(n.f) + at(residual));
        const Tensor a = compute("a", n.axes_of_result(r, c), max(at(v), 0.0f) * 2.0f);
        const Tensor y = compute("y", n.axes_of_result(r, c), at(v) + at(a));
        const Op op("other", {n.image, n.kernel, bias, residual}, {y});
        const LibraryTemplate *t = library::find_template(op);
        REQUIRE(t);
        CHECK_EQ(t->name, "winograd");
        check_runs(default_schedule(op, Machine::host()));
        const auto space = t->make_space(op, Machine::host());
        Json ahead = space->to_json(space->default_point());
        ahead["weights"] = "ahead";
        check_runs(space->schedule(space->from_json(ahead)));
        Random random(5);
        for (int i = 0; i < 3; i++) check_runs(space->schedule(space->sample(random)));
        check_runs(default_schedule(op, Machine::named("x86-64-avx2")));
        // A stage between that the caller reads too ends the convolution.
        const Op two("two", {n.image, n.kernel, bias, residual}, {v, y});
        CHECK_EQ(library::find_template(two)->name, "elementwise");
        const std::string nest(default_schedule(two, Machine::host()).nest());
        CHECK(nest.find("tiles") != std::string::npos);
        check_runs(default_schedule(two, Machine::host()));
    }
}

TEST_CASE("Winograd's stages inside of a larger op get their schedule, and the others theirs") {
    OtherNames n;
    const Axis r("r", n.height), c("s", n.width), k("k", n.channels), f("f", n.filters);
    const Tensor before = compute("before", {k, r, c}, max(n.image(k, r, c), 0.0f));
    const Tensor padded = zero_padded(before);
    const Tensor square = n.tiles([&](const Expr &ch, const Expr &y, const Expr &x) { return padded(ch, y, x); });
    const Tensor conv = compute("conv", {f, r, c}, n.result(square, r, c) + 1.0f);
    const Tensor rows = compute("rows", {f, r}, sum(conv(f, r, c), c));
    const Tensor both = compute("both_sums", {f}, sum(rows(f, r) + before(0, r, 0), r));
    const Op op("larger", {n.image, n.kernel}, {both, before});
    CHECK_EQ(library::find_template(op)->name, "elementwise");
    const Schedule s = default_schedule(op, Machine::host());
    const std::string nest(s.nest());
    CAPTURE(nest);
    CHECK(nest.find("tiles") != std::string::npos); // the loop that schedule_winograd fuses
    check_runs(s);
    // Other readers of a stage inside leave no such group.
    const Axis g("g", 5), h("h", 6);
    const Tensor spectrum = compute("spectrum", {f}, sum(square(0, 0, f, g, h), {g, h}));
    const Op opened("opened", {n.image, n.kernel}, {conv, spectrum});
    const Schedule other = default_schedule(opened, Machine::host());
    CHECK(std::string(other.nest()).find("tiles") == std::string::npos);
    check_runs(other);
}

TEST_CASE("errors of winograd_conv2d") {
    const auto told = [](int tile, const ops::Conv2dOptions &o, Type t = f32, int size = 8) {
        return refusal([&] { ops::winograd_conv2d(t, 1, 4, size, size, 4, tile, o); });
    };
    CHECK(told(3, {}) == "winograd_conv2d: tile is 3; legal is 2 or 4");
    CHECK(told(4, ops::Conv2dOptions().stride(3)) ==
          "winograd_conv2d: the stride is 3 down and 3 across; legal is 1 or 2 both ways, conv2d for others");
    ops::Conv2dOptions down;
    down.stride_y = 2;
    CHECK(told(4, down).find("the stride is 2 down and 1 across") != std::string::npos);
    CHECK(told(4, ops::Conv2dOptions().dilation(2)).find("the dilation is not 1") != std::string::npos);
    CHECK(told(4, {}, f16).find("the type is f16; legal is f32 or f64") != std::string::npos);
    CHECK(told(4, {}, f32, 2).find("the height of the input is 2 with its padding; legal is 3 or more") !=
          std::string::npos);
    ops::Conv2dOptions o;
    o.groups = 2;
    CHECK(told(4, o).find("there are groups") != std::string::npos);
}

TEST_CASE("a stage of one input is computed ahead of time") {
    Axis i("i", 6), k("k", 10);
    Tensor A = input("A", f32, {i, k}), B = input("B", f32, {Axis("j", 10)});
    Tensor twice = compute("twice", {i, k}, A(i, k) * 2.0f + 1.0f), both = compute("both", {i, k}, A(i, k) + B(k));
    Schedule s(Op("weighted", {A, B}, {compute("C", {i}, sum(twice(i, k) * B(k), k))}));
    StageHandle ahead = s.prepack("twice", {"k/4", "i", "k%4"});
    CHECK(ahead.name() == "twice");
    ahead.vectorize("k", 2);
    CHECK(std::string(s.nest()).find("ahead of time: compute twice") != std::string::npos);
    check_runs(s);
    const Kernel kernel = compile(s);
    CHECK(kernel.nest().tensors[0].packed_from == "A");
    CHECK_THROWS_WITH(Schedule(s).prepack("A", {"i", "k"}), doctest::Contains("A is prepacked already"));
    CHECK_THROWS_WITH(Schedule(s).prepack("C", {"i"}),
                      doctest::Contains("C cannot be computed ahead of time: it is an output"));

    Schedule padded(s.op());
    padded.stage("twice").split("k", 4, {.tail = Tail::Pad});
    CHECK_THROWS_WITH(padded.prepack("twice", {"i", "k"}), doctest::Contains("loop k has a padded tail"));
    Schedule laid(s.op());
    laid.stage("twice").layout({"k", "i"});
    CHECK_THROWS_WITH(laid.prepack("twice", {"i", "k"}), doctest::Contains("it has a layout"));
    Axis m("m", Size("M"));
    Tensor times = compute("times", {m, k}, B(k) * cast(f32, m));
    Schedule sized(Op("sized", {B}, {compute("F", {m}, sum(times(m, k), k))}));
    CHECK_THROWS_WITH(sized.prepack("times", {"m", "k"}),
                      doctest::Contains("it depends on size M, which the shape of B does not determine"));

    Schedule two(Op("two", {A, B}, {compute("D", {i}, sum(both(i, k), k))}));
    CHECK_THROWS_WITH(two.prepack("both", {"i", "k"}),
                      doctest::Contains("both cannot be computed ahead of time: it reads 2 tensors"));
    Schedule shared(Op("shared", {A}, {compute("E", {i}, sum(twice(i, k) * A(i, k), k))}));
    CHECK_THROWS_WITH(shared.prepack("twice", {"i", "k"}), doctest::Contains("another stage reads A too"));
}
