// Masks of run-time sizes, and clamped indices. Each active lane has its element; no other memory
// is accessed.
#include "tests/property/guarded.h"
#include "tests/unit/test_cpu_builders.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace kumiko;
using namespace kumiko::test;
using namespace Halide::Internal;

namespace {

Expr all(const Expr &value, int lanes) { return Broadcast::make(value, lanes); }

struct Access {
    const char *name;
    std::function<Expr(int lanes)> from, to; // the places in x of n elements, and in y of 2 n
    std::function<int(int lane, int n)> source, target;
};

const std::vector<Access> accesses = {
    {"in a row", [](int l) { return ramp(0, l); }, [](int l) { return ramp(0, l); }, [](int i, int) { return i; },
     [](int i, int) { return i; }},
    {"clamped", [](int l) { return Max::make(Min::make(ramp(-2, l), all(var("n") - 1, l)), all(0, l)); },
     [](int l) { return ramp(0, l); }, [](int i, int n) { return std::clamp(i - 2, 0, n - 1); },
     [](int i, int) { return i; }},
    {"spread", [](int l) { return all(var("n") - 1, l) - ramp(0, l); }, [](int l) { return ramp(0, l) * all(2, l); },
     [](int i, int n) { return n - 1 - i; }, [](int i, int) { return 2 * i; }},
};

void check(const Access &a, Type t, int lanes) {
    Nest nest;
    nest.name = "masked";
    nest.sizes = {"n"};
    nest.tensors = {tensor("x", t, false, var("n")), tensor("y", t, true, var("n") * 2)};
    const Expr on = ramp(0, lanes) < all(var("n"), lanes);
    nest.body = store("y", load(t.with_lanes(lanes), "x", a.from(lanes), on), a.to(lanes), on);
    const JitModule m({nest});
    for (const int n : {1, 2, lanes / 2 + 1, lanes - 1, lanes}) {
        for (const bool at_end : {false, true}) {
            CAPTURE(a.name);
            CAPTURE(t.bits());
            CAPTURE(lanes);
            CAPTURE(n);
            const size_t each = size_t(t.bytes());
            const property::Guarded x(size_t(n) * each, at_end), y(size_t(2 * n) * each, at_end);
            for (size_t i = 0; i < x.bytes(); i++) x.data()[i] = char(i % each == 0 ? i / each + 1 : 0);
            std::memset(y.data(), 0x55, y.bytes());
            std::vector<char> expected(y.bytes(), 0x55);
            for (int i = 0; i < n; i++)
                std::copy_n(x.data() + size_t(a.source(i, n)) * each, each,
                            expected.data() + size_t(a.target(i, n)) * each);
            CHECK(run(m, "masked", {x.data(), y.data()}, {n}) == 0);
            CHECK(std::equal(expected.begin(), expected.end(), y.data()));
        }
    }
}

} // namespace

TEST_CASE("only lanes that a mask of sizes enables are read and written") {
    for (const Access &a : accesses) {
        for (const Type t : {u8, u16, f16, i32, f32, f64}) {
            for (const int lanes : {8, 16, 17, 32, 64}) check(a, t, lanes);
        }
    }
}

TEST_CASE("gathers of 32-bit elements by loads on processors with slow gathers") {
    if (!CpuTarget::level("x86-64-avx512").missing_on(CpuTarget::host()).empty()) return;
    Nest nest;
    nest.name = "gather";
    nest.tensors = {tensor("x", Int(32), false, 256), tensor("i", UInt(8), false, 16), tensor("y", Int(32), true, 16)};
    const Expr at = Cast::make(Int(32, 16), load(UInt(8, 16), "i", ramp(0, 16)));
    nest.body = store("y", load(Int(32, 16), "x", at), ramp(0, 16));
    for (const bool slow : {true, false}) {
        JitOptions options;
        options.codegen.target = CpuTarget::level("x86-64-avx512");
        if (slow) options.codegen.target.cpu = "znver4";
        if (!options.codegen.target.missing_on(CpuTarget::host()).empty()) continue;
        const JitModule m({nest}, options);
        CHECK((m.assembly().find("vpgather") == std::string::npos) == slow);
        std::vector<int> x(256), y(16);
        std::vector<uint8_t> i(16);
        for (int k = 0; k < 256; k++) x[size_t(k)] = 1000 + k;
        for (int k = 0; k < 16; k++) i[size_t(k)] = uint8_t(255 - 17 * k);
        CHECK(run(m, "gather", {x.data(), i.data(), y.data()}) == 0);
        for (int k = 0; k < 16; k++) CHECK(y[size_t(k)] == 1000 + i[size_t(k)]);
    }
}
