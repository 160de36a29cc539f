// Links: ops
#include "targets/halide/halide_module.h"

#include "dsl/interpret.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "runtime/kumiko_runtime.h"
#include "schedules/schedule.h"
#include "targets/lower/lower.h"

#include <doctest/doctest.h>

#include <cmath>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace kumiko;

namespace {

Op product(Type t, const Expr &m, const Expr &n, const Expr &k) {
    Axis i("i", m), j("j", n), r("k", k);
    Tensor A = input("A", t, {i, r}), B = input("B", t, {r, j});
    return Op("product_of", {A, B}, {compute("C", {i, j}, sum(A(i, r) * B(r, j), r))});
}

Buffer<> run(const Nest &nest, const std::vector<Buffer<>> &inputs, Buffer<> out,
             const std::vector<int64_t> &sizes = {}) {
    const HalideModule module(nest);
    std::vector<void *> tensors;
    for (const Buffer<> &b : inputs) tensors.push_back(b.raw_buffer()->host);
    fill_unwritten(out);
    tensors.push_back(out.raw_buffer()->host);
    CHECK(module.call(tensors.data(), sizes.data()) == 0);
    return out;
}

struct Folder {
    std::filesystem::path path = std::filesystem::temp_directory_path() / ("kumiko_halide_" + std::to_string(getpid()));
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() { std::filesystem::remove_all(path); }
};

} // namespace

TEST_CASE("a tiled, packed and parallel product is the formula's, through Halide") {
    for (Type t : {f32, f64, i32, f16, bf16, u8}) {
        const Op op = product(t, 13, 19, 24);
        Schedule s(op);
        auto C = s.stage("C");
        C.tile({"i", "j"}, {4, 8});
        C.reorder({"i.o", "j.o", "k", "i.i", "j.i"}).vectorize("j.i").unroll("i.i").parallel("i.o");
        s.accumulate_in("C", "registers", "j.o");
        s.place_in("B", "L1", "C", "j.o");
        const Buffer<> a = random_integers(t, {13, 24}, 1, 0, 2), b = random_integers(t, {24, 19}, 2, 0, 2);
        CHECK(difference(run(lower(s), {a, b}, Buffer<>(t, {13, 19})), interpret(op, a, b)) == "");
    }
}

TEST_CASE("sizes are bound at the call, and arguments are checked on entry") {
    Size M("M"), N("N");
    const Op op = product(f32, M, N, 7);
    Schedule s(op);
    s.stage("C").reorder({"i", "k", "j"}).vectorize("j", 8);
    const Nest nest = lower(s);
    const Buffer<> a = random_integers(f32, {5, 7}), b = random_integers(f32, {7, 11}, 2);
    CHECK(difference(run(nest, {a, b}, Buffer<>(f32, {5, 11}), {5, 11}), interpret(op, a, b)) == "");
    const HalideModule module(nest);
    void *none[] = {nullptr, nullptr, nullptr};
    const int64_t sizes[] = {5, 11};
    CHECK(module.call(none, sizes) == KUMIKO_NULL_POINTER);
    CHECK(std::string(kumiko_error()).find("A is a null pointer") != std::string::npos);
    Buffer<> c(f32, {5, 11});
    void *all[] = {a.raw_buffer()->host, b.raw_buffer()->host, c.raw_buffer()->host};
    const int64_t negative[] = {-1, 11};
    CHECK(module.call(all, negative) == KUMIKO_BAD_SIZE);
}

TEST_CASE("a size and a tensor of one name, also inside parallel loops, through Halide") {
    Size A("A"), B("B"), C("C");
    Axis i("i", A), j("j", B), k("k", C);
    Tensor a = input("A", i32, {i, k}), b = input("B", i32, {k, j});
    const Op op("named", {a, b}, {compute("C", {i, j}, sum(a(i, k) * b(k, j), k))});
    Schedule s(op);
    s.stage("C").reorder({"i", "k", "j"}).parallel("i").vectorize("j", 4);
    const Buffer<> x = random_integers(i32, {5, 7}), y = random_integers(i32, {7, 6}, 2);
    const Nest nest = lower(s);
    const Sizes sizes = {{"A", 5}, {"B", 6}, {"C", 7}};
    std::vector<int64_t> values;
    for (const std::string &size : nest.sizes) values.push_back(sizes.at(size));
    CHECK(difference(run(nest, {x, y}, Buffer<>(i32, {5, 6}), values), interpret(op, x, y)) == "");
    CHECK(halide_c_source(nest).find("int named(") != std::string::npos);
}

TEST_CASE("casts saturate, and functions of ours are Halide's") {
    Axis i("i", 6);
    Tensor X = input("X", f32, {i});
    const Op op("casts", {X}, {compute("Y", {i}, cast(i8, X(i)))});
    Buffer<float> x({6});
    const float values[] = {1.5f, -1000, 1000, NAN, INFINITY, -0.5f};
    for (int n = 0; n < 6; n++) x(n) = values[n];
    CHECK(difference(run(lower(Schedule(op)), {x}, Buffer<>(i8, {6})), interpret(op, x)) == "");

    Tensor Z = compute("Z", {i}, sigmoid(X(i)) + kumiko::erf(Expr(X(i))) + rsqrt(abs(X(i)) + 1));
    const Op functions("functions", {X}, {Z});
    const Buffer<float> y = random({6});
    check_close(run(lower(Schedule(functions)), {y}, Buffer<>(f32, {6})), interpret(functions, y), {1e-5, 1e-5});
}

TEST_CASE("a kernel may be named like a function of the C library") {
    Axis i("i", 5);
    Tensor X = input("X", f64, {i});
    const Op op("exp", {X}, {compute("Y", {i}, exp(X(i)))});
    const Buffer<> x = random_integers(f64, {5});
    check_close(run(lower(Schedule(op)), {x}, Buffer<>(f64, {5})), interpret(op, x), {1e-12, 1e-12});
}

TEST_CASE("the sign of zero, and NaN as a half, through Halide") {
    Axis i("i", 4);
    Tensor X = input("X", f32, {i});
    Buffer<float> x({4});
    const float values[] = {-0.0f, NAN, -NAN, -INFINITY};
    for (int n = 0; n < 4; n++) x(n) = values[n];
    const Op magnitude("magnitude", {X}, {compute("Y", {i}, abs(X(i)))});
    const Buffer<float> y(run(lower(Schedule(magnitude)), {x}, Buffer<>(f32, {4})));
    CHECK(!std::signbit(y(0)));
    CHECK(y(3) == INFINITY);
    for (Type t : {f16, bf16}) {
        const Op narrow("narrow", {X}, {compute("Y", {i}, cast(t, X(i)))});
        CHECK(difference(run(lower(Schedule(narrow)), {x}, Buffer<>(t, {4})), interpret(narrow, x)) == "");
    }
}

TEST_CASE("lanes of halves are joined, through Halide") {
    for (Type t : {f16, bf16, f32}) {
        Axis i("i", 3), j("j", 12);
        Tensor X = input("X", t, {i, j});
        for (const bool most : {false, true}) {
            const Op op("rows", {X}, {compute("S", {i}, most ? maximum(X(i, j), j) : sum(X(i, j), j))});
            Schedule s(op);
            s.stage("S").vectorize("j", 6);
            const Buffer<> x = random_integers(t, {3, 12});
            CHECK(difference(run(lower(s), {x}, Buffer<>(t, {3})), interpret(op, x)) == "");
        }
    }
}

TEST_CASE("masked vectors of every width, dense and strided, through Halide") {
    for (const int lanes : {5, 9, 17, 33}) {
        for (const int stride : {1, 2}) {
            Axis i("i", 3 * lanes - 2), a("a", stride * (3 * lanes - 2));
            for (Type t : {u8, f32}) {
                Tensor X = input("X", t, {a});
                const Op op("every", {X}, {compute("Y", {i}, X(i * stride) + X(i * stride))});
                Schedule s(op);
                s.stage("Y").vectorize("i", lanes, Tail::Mask);
                const Buffer<> x = random_integers(t, {stride * (3 * lanes - 2)}, 1, 0, 9);
                CHECK(difference(run(lower(s), {x}, Buffer<>(t, {3 * lanes - 2})), interpret(op, x)) == "");
            }
        }
    }
}

TEST_CASE("arrays of the caller's may begin anywhere, through Halide") {
    Axis k("k", 3), i("i", 40), a("a", 90);
    Tensor X = input("X", f64, {a});
    const Op op("some", {X}, {compute("Y", {k, i}, cast(u8, X(i * 2 + k)) % cast(u8, X(i)))});
    Schedule s(op);
    s.stage("Y").vectorize("i");
    std::vector<double> memory(94);
    std::vector<uint8_t> out(124);
    for (size_t n = 0; n < memory.size(); n++) memory[n] = static_cast<double>(n);
    const HalideModule module(lower(s));
    for (size_t first = 0; first < 4; first++) {
        void *tensors[] = {memory.data() + first, out.data() + first};
        REQUIRE(module.call(tensors, nullptr) == 0);
        CHECK(out[first + 39] == (2 * 39 + first) % (39 + first));
    }
}

TEST_CASE("source and object compile and run elsewhere") {
    const Op op = product(f32, 6, 8, 5);
    Schedule s(op);
    s.stage("C").reorder({"i", "k", "j"}).vectorize("j", 4);
    const Nest nest = lower(s);
    const std::string source = halide_c_source(nest);
    CHECK(source.find("int product_of(") != std::string::npos);
    const Folder folder;
    const std::string text = (folder.path / "k.cpp").string(), library = (folder.path / "k.so").string();
    std::ofstream(text) << source;
    if (std::system("c++ --version > /dev/null 2>&1") == 0) {
        REQUIRE(std::system(("c++ -O1 -w -shared -fPIC -Wl,-z,undefs -o " + library + " " + text).c_str()) == 0);
        void *handle = dlopen(library.c_str(), RTLD_LAZY);
        REQUIRE_MESSAGE(handle, dlerror());
        auto *f = reinterpret_cast<int (*)(void *, void *, void *)>(dlsym(handle, "product_of"));
        REQUIRE(bool(f));
        const Buffer<> a = random_integers(f32, {6, 5}), b = random_integers(f32, {5, 8}, 2);
        Buffer<> c(f32, {6, 8});
        CHECK(f(a.data(), b.data(), c.data()) == 0);
        CHECK(difference(c, interpret(op, a, b)) == "");
        dlclose(handle);
    }
    write_halide_object(nest, folder.path / "k.o", {"arm-64-linux"});
    CHECK(std::filesystem::file_size(folder.path / "k.o") > 100);
    CHECK_THROWS_WITH(write_halide_object(nest, folder.path / "k.o", {"pdp-11"}),
                      "\"pdp-11\" is not the name of a Halide target; one is \"x86-64-linux-avx2\", or \"host\"");
}

TEST_CASE("functions that Halide lacks are composed of those that it has") {
    const int n = 400;
    Buffer<> x(f32, {n});
    for (int i = 0; i < n; i++) {
        const float small = std::ldexp(1.f, -(i / 2 % 40));
        static_cast<float *>(x.data())[i] = i % 2 ? static_cast<float>(i - 200) / 24 : (i % 4 ? small : -small);
    }
    for (const char *f : {"expm1", "log1p", "erfc", "silu", "gelu", "gelu_tanh", "softplus", "hard_swish"}) {
        INFO(std::string(f));
        const Op op = ops::unary(f, f32, n);
        for (const int lanes : {0, 8}) {
            Schedule s(op);
            if (lanes) s.stage("Y").vectorize("i", lanes);
            const Buffer<> y = run(lower(s), {x}, Buffer<>(f32, {n}));
            const Buffer<> z = interpret(op, x).front();
            double worst = 0;
            for (int i = 0; i < n; i++) {
                const double got = static_cast<const float *>(y.data())[i],
                             meant = static_cast<const float *>(z.data())[i];
                if (std::isnan(meant) || std::isinf(meant)) continue;
                worst = std::max(worst, std::abs(got - meant) / std::max(std::abs(meant), 1e-37));
            }
            CAPTURE(f);
            CHECK(worst < 1e-5);
        }
    }
}
