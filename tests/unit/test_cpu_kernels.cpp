// Kernels built from hand-written statements: loops, vectors, tails, register tiles, workspaces,
// threads, entry checks.
#include "runtime/kumiko_runtime.h"
#include "support/error.h"
#include "targets/cpu/jit.h"
#include "tests/property/guarded.h"
#include "tests/unit/test_cpu_builders.h"

#include <doctest/doctest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

using namespace kumiko;
using namespace kumiko::test;
using namespace Halide::Internal;
using Halide::MemoryType;

TEST_CASE("a scalar loop") {
    Nest n;
    n.name = "scale";
    n.tensors = {tensor("x", Float(32), false, var("n")), tensor("y", Float(32), true, var("n"))};
    n.sizes = {"n"};
    n.body = loop("i", 0, var("n"), store("y", load(Float(32), "x", var("i")) * 2.f + 1.f, var("i")));
    JitModule m({n});
    std::vector<float> x(100), y(100, -1);
    for (int i = 0; i < 100; i++) {
        x[i] = i;
    }
    CHECK(run(m, "scale", {x.data(), y.data()}, {100}) == 0);
    for (int i = 0; i < 100; i++) {
        CHECK(y[i] == 2.f * i + 1);
    }
    auto direct = reinterpret_cast<int (*)(float *, float *, int64_t)>(m.symbol("scale"));
    CHECK(direct(x.data(), y.data(), 0) == 0);
    CHECK(run(m, "scale", {nullptr, y.data()}, {100}) == KUMIKO_NULL_POINTER);
    CHECK(std::string(kumiko_error()) == "scale: tensor x is a null pointer");
    CHECK(run(m, "scale", {x.data(), y.data()}, {-1}) == KUMIKO_BAD_SIZE);
    CHECK(run(m, "scale", {x.data(), y.data()}, {int64_t(1) << 31}) == KUMIKO_BAD_SIZE);
    CHECK(run(m, "scale", {x.data(), x.data() + 50}, {100}) == KUMIKO_BAD_SHAPE);
    CHECK(std::string(kumiko_error()) == "scale: output y overlaps x in memory");
    CHECK(run(m, "scale", {x.data(), x.data() + 50}, {50}) == 0);
    CHECK(m.times().total() > 0);
    CHECK(m.assembly().find("scale") != std::string::npos);
    CHECK_THROWS_AS(m.symbol("other"), UserError);
}

TEST_CASE("assumptions are checked on entry") {
    Nest n;
    n.name = "even";
    n.tensors = {tensor("y", Int(32), true, var("n"))};
    n.sizes = {"n"};
    n.assumptions = {{var("n") % 2 == 0, "n % 2 == 0"}};
    n.body = store("y", Expr(7), Expr(0));
    JitModule m({n});
    int32_t y[2] = {};
    CHECK(run(m, "even", {y}, {2}) == 0);
    CHECK(y[0] == 7);
    CHECK(run(m, "even", {y}, {1}) == KUMIKO_FAILED_ASSUMPTION);
    CHECK(std::string(kumiko_error()) == "even: the assumption n % 2 == 0 does not hold");
}

TEST_CASE("vectors with a masked tail access no element beyond the end") {
    Type v = Float(32, 16);
    Expr at = ramp(var("i") * 16, 16);
    Expr mask = at < Broadcast::make(var("n"), 16);
    Nest n;
    n.name = "add";
    n.tensors = {tensor("a", Float(32), false, var("n")), tensor("b", Float(32), false, var("n")),
                 tensor("c", Float(32), true, var("n"))};
    n.sizes = {"n"};
    n.body = loop("i", 0, (var("n") + 15) / 16, store("c", load(v, "a", at, mask) + load(v, "b", at, mask), at, mask));
    JitModule m({n});
    for (int size : {0, 1, 15, 16, 17, 100}) {
        std::vector<float> a(size), b(size), c(size + 20, -1);
        for (int i = 0; i < size; i++) {
            a[i] = i;
            b[i] = 2 * i;
        }
        // An empty vector's data may be null; the entry check requires a pointer.
        float dummy;
        CHECK(run(m, "add", {size ? a.data() : &dummy, size ? b.data() : &dummy, c.data()}, {size}) == 0);
        for (int i = 0; i < size + 20; i++) {
            CHECK(c[i] == (i < size ? 3.f * i : -1.f));
        }
    }
}

TEST_CASE("masked vectors of any width read and write nothing beyond their mask") {
    for (Type t : {Int(64), Float(32), Int(16), Bool()}) {
        for (int lanes = 2; lanes <= 24; lanes++) {
            // Part of the mask is known at compile time: only the first lane can be active.
            const Expr mask =
                ramp(0, lanes) < Broadcast::make(1, lanes) && ramp(var("s"), lanes) < Broadcast::make(var("n"), lanes);
            Nest n;
            n.name = "first";
            n.tensors = {tensor("x", t, false, var("n")), tensor("y", t, true, var("n"))};
            n.sizes = {"n", "s"};
            const Expr at = ramp(var("i") + var("s"), lanes);
            n.body = loop("i", 0, var("n") - var("s"), store("y", load(t.with_lanes(lanes), "x", at, mask), at, mask));
            JitModule m({n});
            Buffer<> x(t, {3}), y(t, {3});
            fill_random_integers(x, 1, 1, 1);
            fill_random_integers(y, 1, 0, 0);
            property::GuardedTensor from(x, true), to(y, true);
            from.copy_from(x);
            to.unwritten();
            CHECK(run(m, "first", {from.data(), to.data()}, {3, 2}) == 0);
            CHECK(element(to.buffer().raw_buffer(), {2}) == 1);
        }
    }
}

TEST_CASE("constant tails of one whole access have no mask, and stay inside the array") {
    for (Type t : {Int(64), Float(32), Int(16)}) {
        for (int count = 1; count <= 16; count++) {
            CAPTURE(count);
            const Expr mask = ramp(0, 16) < Broadcast::make(count, 16), at = ramp(0, 16);
            Nest n;
            n.name = "tail";
            n.tensors = {tensor("x", t, false, count), tensor("y", t, true, count)};
            const Expr one = Halide::cast(t.with_lanes(16), Broadcast::make(1, 16));
            n.body = store("y", load(t.with_lanes(16), "x", at, mask) + one, at, mask);
            JitModule m({n});
            const bool plain = std::has_single_bit(unsigned(count)) && count * t.bytes() >= 4;
            CHECK((m.assembly().find("{%k") == std::string::npos || !plain));
            Buffer<> x(t, {count}), y(t, {count});
            fill_random_integers(x, 1, 1, 1);
            fill_random_integers(y, 1, 0, 0);
            property::GuardedTensor from(x, true), to(y, true);
            from.copy_from(x);
            to.unwritten();
            CHECK(run(m, "tail", {from.data(), to.data()}, {}) == 0);
            for (int i = 0; i < count; i++) CHECK(element(to.buffer().raw_buffer(), {i}) == 2);
        }
    }
}

TEST_CASE("strided, reversed, gathered and scattered accesses") {
    for (int lanes : {3, 4, 8, 16, 32}) {
        for (int stride : {-7, -2, -1, 2, 3, 4, 5}) {
            CAPTURE(lanes);
            CAPTURE(stride);
            Expr base = stride < 0 ? Expr((lanes - 1) * -stride) : Expr(0);
            int span = (lanes - 1) * std::abs(stride) + 1;
            Nest n;
            n.name = "strided";
            n.tensors = {tensor("x", Int(32), false, span), tensor("y", Int(32), true, lanes),
                         tensor("z", Int(32), true, span)};
            Expr v = load(Int(32, lanes), "x", ramp(base, lanes, stride));
            n.body = Block::make(store("y", v, ramp(0, lanes)), store("z", v, ramp(base, lanes, stride)));
            JitModule m({n});
            std::vector<int> x(span), y(lanes), z(span, -1);
            for (int i = 0; i < span; i++) {
                x[i] = 100 + i;
            }
            CHECK(run(m, "strided", {x.data(), y.data(), z.data()}) == 0);
            for (int i = 0; i < lanes; i++) {
                int at = (stride < 0 ? (lanes - 1) * -stride : 0) + i * stride;
                CHECK(y[i] == x[at]);
                CHECK(z[at] == x[at]);
            }
        }
    }
    Nest n;
    n.name = "gather";
    n.tensors = {tensor("x", Float(32), false, 64), tensor("at", Int(32), false, 16), tensor("y", Float(32), true, 16)};
    Expr index = load(Int(32, 16), "at", ramp(0, 16)) * 2 + ramp(0, 16);
    n.body = store("y", load(Float(32, 16), "x", index), ramp(0, 16));
    JitModule m({n});
    std::vector<float> x(64), y(16);
    std::vector<int> at(16);
    for (int i = 0; i < 64; i++) {
        x[i] = i;
    }
    for (int i = 0; i < 16; i++) {
        at[i] = (i * 5) % 16;
    }
    CHECK(run(m, "gather", {x.data(), at.data(), y.data()}) == 0);
    for (int i = 0; i < 16; i++) {
        CHECK(y[i] == x[at[i] * 2 + i]);
    }
}

namespace {

// C[14][32] += A[k][14] * B[k][32], all packed.
Nest register_tile(int rows, int columns, int width) {
    Nest n;
    n.name = "tile";
    n.tensors = {tensor("A", Float(32), false, var("K") * rows), tensor("B", Float(32), false, var("K") * columns),
                 tensor("C", Float(32), true, rows * columns)};
    n.sizes = {"K"};
    std::vector<Stmt> begin, step, end;
    Type v = Float(32, width);
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < columns; j += width) {
            Expr at = ramp(i * columns + j, width);
            begin.push_back(store("acc", make_zero(v), at));
            Expr a = Broadcast::make(load(Float(32), "A", var("k") * rows + i), width);
            step.push_back(
                store("acc", load(v, "acc", at) + a * load(v, "B", ramp(var("k") * columns + j, width)), at));
            end.push_back(store("C", load(v, "acc", at), at));
        }
    }
    n.body = allocate("acc", Float(32), MemoryType::Register, {rows * columns},
                      Block::make({Block::make(begin), loop("k", 0, var("K"), Block::make(step)), Block::make(end)}));
    return n;
}

} // namespace

TEST_CASE("a register tile stays in registers") {
    for (int width : {8, 16, 32}) {
        CAPTURE(width);
        JitModule m({register_tile(14, 32, width)});
        CHECK(JitModule({register_tile(3, 16, width % 16 ? width : 16)}).warnings().empty());
        int K = 17;
        std::vector<float> A(K * 14), B(K * 32), C(14 * 32);
        std::mt19937 random(1);
        for (auto *p : {&A, &B}) {
            for (float &f : *p) {
                f = int(random() % 17) - 8;
            }
        }
        CHECK(run(m, "tile", {A.data(), B.data(), C.data()}, {K}) == 0);
        for (int i = 0; i < 14; i++) {
            for (int j = 0; j < 32; j++) {
                float sum = 0;
                for (int k = 0; k < K; k++) {
                    sum += A[k * 14 + i] * B[k * 32 + j];
                }
                CHECK(C[i * 32 + j] == sum);
            }
        }
    }
}

TEST_CASE("an accumulator larger than the registers is named") {
    JitModule m({register_tile(40, 32, 32)});
    REQUIRE(m.warnings().size() == 1);
    CHECK(m.warnings()[0].starts_with("kernel tile: acc takes "));
}

TEST_CASE("code for another processor is refused here") {
    JitOptions options;
    options.codegen.target = CpuTarget::level(CpuTarget::host().architecture() == "riscv64" ? "aarch64" : "riscv64");
    CHECK_THROWS_AS(JitModule({register_tile(2, 8, 8)}, options), UserError);
}

TEST_CASE("an accumulator with a running index stays in memory, with a warning") {
    Nest n;
    n.name = "moving";
    n.tensors = {tensor("y", Float(32), true, var("n"))};
    n.sizes = {"n"};
    Expr i = var("i");
    n.body = allocate("acc", Float(32), MemoryType::Register, {8},
                      Block::make(loop("i", 0, 8, store("acc", Halide::cast<float>(i), i)),
                                  loop("i2", 0, 8, store("y", load(Float(32), "acc", 7 - var("i2")), var("i2")))));
    JitModule m({n});
    CHECK(m.warnings().size() == 1);
    float y[8];
    CHECK(run(m, "moving", {y}, {8}) == 0);
    CHECK(y[0] == 7);
    CHECK(y[7] == 0);
}

TEST_CASE("workspaces are freed on every exit") {
    static std::atomic<int> live, total;
    live = total = 0;
    static bool refuse;
    JitOptions options;
    options.symbols["kumiko_malloc"] = reinterpret_cast<void *>(+[](size_t bytes) -> void * {
        if (refuse && total == 1) {
            return nullptr;
        }
        live++;
        total++;
        return std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    });
    options.symbols["kumiko_free"] = reinterpret_cast<void *>(+[](void *p) {
        live--;
        std::free(p);
    });
    Nest n;
    n.name = "copy";
    n.tensors = {tensor("x", Float(32), false, var("n")), tensor("y", Float(32), true, var("n"))};
    n.sizes = {"n"};
    Expr i = var("i"), j = var("j");
    Stmt inner = Block::make(loop("i", 0, var("n"), store("t", load(Float(32), "x", i), i)),
                             loop("j", 0, var("n"), store("u", load(Float(32), "t", j) + 1.f, j)));
    inner = Block::make(inner, loop("k", 0, var("n"), store("y", load(Float(32), "u", var("k")), var("k"))));
    n.body = allocate("t", Float(32), MemoryType::Heap, {var("n")},
                      allocate("u", Float(32), MemoryType::Heap, {var("n") + 3, 2}, inner));
    JitModule m({n}, options);
    std::vector<float> x(50, 3.f), y(50);
    refuse = false;
    CHECK(run(m, "copy", {x.data(), y.data()}, {50}) == 0);
    CHECK(y[49] == 4.f);
    CHECK(live == 0);
    CHECK(total == 2);
    total = 0;
    refuse = true;
    CHECK(run(m, "copy", {x.data(), y.data()}, {50}) == KUMIKO_OUT_OF_MEMORY);
    CHECK(std::string(kumiko_error()) == "copy: no memory for workspace u");
    CHECK(live == 0);
}

TEST_CASE("parallel loops, nested, with a workspace in each task") {
    Nest n;
    n.name = "rows";
    n.tensors = {tensor("x", Float(32), false, var("m") * var("n")), tensor("y", Float(32), true, var("m") * var("n"))};
    n.sizes = {"m", "n"};
    Expr i = var("i"), j = var("j");
    Stmt body =
        Block::make(loop("j", 0, var("n"), store("t", load(Float(32), "x", var("row") + j) * Halide::cast<float>(i), j),
                         ForType::Parallel),
                    loop("j2", 0, var("n"), store("y", load(Float(32), "t", var("j2")), var("row") + var("j2"))));
    body = allocate("t", Float(32), MemoryType::Heap, {var("n")}, body);
    n.body = loop("i", 0, var("m"), LetStmt::make("row", i * var("n"), body), ForType::Parallel);
    JitModule m({n});
    int M = 37, N = 29;
    std::vector<float> x(M * N), y(M * N, -1);
    for (int k = 0; k < M * N; k++) {
        x[k] = k % 7;
    }
    CHECK(run(m, "rows", {x.data(), y.data()}, {M, N}) == 0);
    for (int k = 0; k < M * N; k++) {
        CHECK(y[k] == x[k] * (k / N));
    }
}

TEST_CASE("if, let, select, if_then_else, shuffle, reduce") {
    Nest n;
    n.name = "mixed";
    n.tensors = {tensor("x", Int(32), false, var("n")), tensor("y", Int(32), true, var("n")),
                 tensor("s", Int(32), true, 4)};
    n.sizes = {"n"};
    Expr i = var("i");
    Expr x = load(Int(32), "x", i);
    Expr guarded = Call::make(Int(32), Call::if_then_else, {i + 1 < var("n"), load(Int(32), "x", i + 1), Expr(-5)},
                              Call::PureIntrinsic);
    Stmt each = IfThenElse::make(i % 3 == 0, store("y", Select::make(x > 4, x, -x), i),
                                 LetStmt::make("t", x * x, store("y", Variable::make(Int(32), "t") + guarded, i)));
    Expr v = load(Int(32, 8), "x", ramp(0, 8));
    Stmt sums = store("s", VectorReduce::make(VectorReduce::Add, v, 4), ramp(0, 4));
    n.body = Block::make(loop("i", 0, var("n"), each), sums);
    JitModule m({n});
    std::vector<int> x0(9), y(9), s(4);
    for (int k = 0; k < 9; k++) {
        x0[k] = k * 2 - 5;
    }
    CHECK(run(m, "mixed", {x0.data(), y.data(), s.data()}, {9}) == 0);
    for (int k = 0; k < 9; k++) {
        int expected = k % 3 == 0 ? (x0[k] > 4 ? x0[k] : -x0[k]) : x0[k] * x0[k] + (k + 1 < 9 ? x0[k + 1] : -5);
        CHECK(y[k] == expected);
    }
    for (int k = 0; k < 4; k++) {
        CHECK(s[k] == x0[2 * k] + x0[2 * k + 1]);
    }
}

TEST_CASE("indices work beyond 2^31 elements") {
    Nest n;
    n.name = "far";
    n.tensors = {{"x", Int(8), false, {Expr(1)}, {Expr(1)}}, {"y", Int(8), true, {Expr(1)}, {Expr(1)}}};
    n.sizes = {"stride"};
    // x[(i * stride) - 3 * stride * 40000 + ...] with i * stride above 2^31: only the address
    // matters.
    Expr i = var("i");
    n.body = loop("i", 100000, 1,
                  store("y", load(Int(8), "x", i * var("stride") - 99999 * var("stride") - var("stride")), 0));
    JitModule m({n});
    int8_t x = 42, y = 0;
    CHECK(run(m, "far", {&x, &y}, {1000000}) == 0);
    CHECK(y == 42);
}

TEST_CASE("unknown nodes and duplicate names are named") {
    Nest n;
    n.name = "odd";
    n.tensors = {tensor("y", Float(32), true, 1)};
    n.body = store("y", Call::make(Float(32), "mystery", {Expr(1.f)}, Call::PureExtern), 0);
    CHECK_THROWS_WITH_AS(JitModule({n}), "kernel odd: call of \"mystery\", which code generation does not know",
                         Unsupported);
    n.body = store("y", Expr(1.f), 0);
    CHECK_THROWS_WITH_AS(JitModule({n, n}), "two kernels are named odd", UserError);
}
