// Neighbouring strided loads, with some lanes disabled by constants: every lane is its element or
// zero, and no memory is accessed beyond what the loads read.
#include "tests/property/guarded.h"
#include "tests/unit/test_cpu_builders.h"

#include <doctest/doctest.h>

#include <sstream>

using namespace kumiko;
using namespace kumiko::test;
using namespace Halide::Internal;
using Halide::MemoryType;

namespace {

Expr lanes_from(int lanes, int first, int end) {
    return Broadcast::make(first, lanes) <= ramp(0, lanes) && ramp(0, lanes) < Broadcast::make(end, lanes);
}

// Taps t, element t + lane * stride each, of the lanes [first, end): stored one after another.
void check_taps(Type t, int lanes, int stride, int taps, int first, int end) {
    CAPTURE(t.bits());
    CAPTURE(lanes);
    CAPTURE(stride);
    CAPTURE(first);
    CAPTURE(end);
    const int skipped = first * stride; // the first element that is read is element 0 of x
    const int n = (end - 1 - first) * stride + taps;
    Nest nest;
    nest.name = "taps";
    nest.tensors = {tensor("x", t, false, n), tensor("y", t, true, taps * lanes)};
    std::vector<Stmt> stores;
    for (int k = 0; k < taps; k++)
        stores.push_back(
            store("y", load(t.with_lanes(lanes), "x", ramp(k - skipped, lanes, stride), lanes_from(lanes, first, end)),
                  ramp(k * lanes, lanes)));
    nest.body = Block::make(stores);
    const JitModule m({nest});
    for (const bool at_end : {false, true}) {
        const property::Guarded x(size_t(n * t.bytes()), at_end), y(size_t(taps * lanes * t.bytes()), at_end);
        for (int i = 0; i < n * t.bytes(); i++) x.data()[i] = i % t.bytes() == 0 ? char(i / t.bytes() + 1) : 0;
        std::memset(y.data(), 0x55, y.bytes());
        CHECK(run(m, "taps", {x.data(), y.data()}) == 0);
        for (int k = 0; k < taps; k++) {
            for (int i = 0; i < lanes; i++) {
                const int expected = i < first || i >= end ? 0 : k + (i - first) * stride + 1;
                CHECK(int(uint8_t(y.data()[(k * lanes + i) * t.bytes()])) == expected);
            }
        }
    }
}

} // namespace

TEST_CASE("neighbouring taps") {
    for (const Type t : {Int(8), Int(16), Int(32), Int(64)}) {
        for (int lanes : {2, 3, 4, 8, 16}) {
            for (int stride : {2, 3, 4}) {
                for (int taps : {1, 2, 3, 5}) {
                    check_taps(t, lanes, stride, taps, 0, lanes);
                    check_taps(t, lanes, stride, taps, 1, lanes);
                    check_taps(t, lanes, stride, taps, 0, lanes - 1);
                }
            }
        }
    }
}

TEST_CASE("taps of one store share their pieces") {
    if (!CpuTarget::level("x86-64-avx512").missing_on(CpuTarget::host()).empty()) return;
    for (const int stride : {2, 3, 4}) {
        Nest nest;
        nest.name = "sum";
        nest.tensors = {tensor("x", Float(32), false, 16 * stride), tensor("y", Float(32), true, 16)};
        Expr sum;
        for (int k = 0; k < stride; k++) {
            const Expr tap = load(Float(32, 16), "x", ramp(k, 16, stride));
            sum = sum.defined() ? sum + tap : tap;
        }
        nest.body = store("y", sum, ramp(0, 16));
        JitOptions options;
        options.codegen.target = CpuTarget::level("x86-64-avx512");
        options.keep_text = true;
        std::istringstream text(JitModule({nest}, options).assembly());
        size_t loads = 0; // vectors of x, whose address is in rdi
        for (std::string line; std::getline(text, line);)
            loads += line.find("(%rdi)") != std::string::npos && line.find("%zmm") != std::string::npos;
        CHECK(loads == size_t(stride));
        check_taps(Float(32), 16, stride, stride, 0, 16);
    }
}

TEST_CASE("a store does not write lanes that constants disable") {
    for (const Type t : {Int(8), Int(16), Int(32), Int(64)}) {
        for (int lanes : {4, 8, 16}) {
            for (int first : {0, 1, 3}) {
                for (int end : {first + 1, lanes - 1, lanes}) {
                    CAPTURE(t.bits());
                    CAPTURE(lanes);
                    CAPTURE(first);
                    CAPTURE(end);
                    Nest nest;
                    nest.name = "some";
                    nest.tensors = {tensor("y", t, true, end - first)};
                    nest.body = store("y", Cast::make(t.with_lanes(lanes), ramp(1, lanes)), ramp(-first, lanes),
                                      lanes_from(lanes, first, end));
                    const JitModule m({nest});
                    for (const bool at_end : {false, true}) {
                        const property::Guarded y(size_t((end - first) * t.bytes()), at_end);
                        CHECK(run(m, "some", {y.data()}) == 0);
                        for (int i = first; i < end; i++) CHECK(int(y.data()[(i - first) * t.bytes()]) == i + 1);
                    }
                }
            }
        }
    }
}

TEST_CASE("accumulators of strided elements, read in order") {
    for (const bool also_dense : {false, true}) { // which has an order of its own
        const Type f = Float(32), v = Float(32, 8);
        Nest nest;
        nest.name = "sum";
        nest.tensors = {tensor("x", f, false, 18), tensor("w", f, false, 3), tensor("y", f, true, 16)};
        std::vector<Stmt> steps = {store("a", make_zero(v), ramp(0, 8)), store("a", make_zero(v), ramp(8, 8))};
        for (int k = 0; k < 3; k++) {
            for (int a = 0; a < 2; a++) {
                Expr x = load(v, "x", ramp(k - a, 8, 2), lanes_from(8, a, 8));
                if (also_dense && k == 1) x = load(v, "x", ramp(k, 8));
                steps.push_back(
                    store("a", load(v, "a", ramp(8 * a, 8)) + x * Broadcast::make(load(f, "w", k), 8), ramp(8 * a, 8)));
            }
        }
        for (int a = 0; a < 2; a++) steps.push_back(store("y", load(v, "a", ramp(8 * a, 8)) + 1.f, ramp(8 * a, 8)));
        nest.body = allocate("a", f, MemoryType::Register, {16}, Block::make(steps));
        const JitModule m({nest});
        std::vector<float> x(18), w = {1, 100, 10000}, y(16);
        for (int i = 0; i < 18; i++) x[size_t(i)] = float(i + 1);
        CHECK(run(m, "sum", {x.data(), w.data(), y.data()}) == 0);
        for (int a = 0; a < 2; a++) {
            for (int i = 0; i < 8; i++) {
                float expected = 1;
                for (int k = 0; k < 3; k++) {
                    const bool dense = also_dense && k == 1;
                    const int at = dense ? k + i : k - a + 2 * i;
                    if (dense || i >= a) expected += x[size_t(at)] * w[size_t(k)];
                }
                CHECK(y[size_t(8 * a + i)] == expected);
            }
        }
    }
}
