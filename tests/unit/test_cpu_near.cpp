// Loads whose lanes are at known, nearby places: every lane is its element or zero, and no memory
// before the first or after the last of them is accessed.
#include "tests/property/guarded.h"
#include "tests/unit/test_cpu_builders.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

using namespace kumiko;
using namespace kumiko::test;
using namespace Halide::Internal;

namespace {

struct Pattern {
    const char *name;
    std::function<Expr(int lanes)> index;
    std::function<int(int lane)> place;
};

Expr all(int value, int lanes) { return Broadcast::make(value, lanes); }

int halves(int x) { return x < 0 ? (x - 1) / 2 : x / 2; }

const std::vector<Pattern> patterns = {
    {"each twice", [](int n) { return Div::make(ramp(0, n), all(2, n)); }, [](int i) { return i / 2; }},
    {"each twice from the middle", [](int n) { return Div::make(ramp(-1, n), all(2, n)); },
     [](int i) { return halves(i - 1); }},
    {"each three times", [](int n) { return Div::make(ramp(1, n), all(3, n)); }, [](int i) { return (i + 1) / 3; }},
    {"clamped below", [](int n) { return Max::make(ramp(-2, n), all(0, n)); },
     [](int i) { return std::max(i - 2, 0); }},
    {"clamped above", [](int n) { return Min::make(ramp(0, n), all(2, n)); }, [](int i) { return std::min(i, 2); }},
    {"backwards and clamped", [](int n) { return Max::make(ramp(5, n, -1), all(1, n)); },
     [](int i) { return std::max(5 - i, 1); }},
    {"around", [](int n) { return Mod::make(ramp(1, n), all(3, n)); }, [](int i) { return (i + 1) % 3; }},
    {"of two halves",
     [](int n) { return Mul::make(Div::make(ramp(0, n), all(2, n)), all(3, n)) + Mod::make(ramp(0, n), all(2, n)); },
     [](int i) { return i / 2 * 3 + i % 2; }},
    {"far apart", [](int n) { return Mul::make(Div::make(ramp(0, n), all(2, n)), all(9, n)); },
     [](int i) { return i / 2 * 9; }},
    {"all the same", [](int n) { return Min::make(ramp(3, n), all(3, n)); }, [](int) { return 3; }},
};

// y of `lanes` = x at the pattern's places from a non-constant base, for the lanes [first, end).
// scaled: the base is part of a product.
void check(const Pattern &p, Type t, int lanes, int first, int end, bool scaled = false) {
    CAPTURE(p.name);
    CAPTURE(t.bits());
    CAPTURE(lanes);
    CAPTURE(first);
    CAPTURE(end);
    int least = p.place(first), most = least;
    for (int i = first; i < end; i++) least = std::min(least, p.place(i)), most = std::max(most, p.place(i));
    const int n = most - least + 1, rounds = 2;
    const bool whole = first == 0 && end == lanes;
    const Expr on = whole ? Expr() : all(first, lanes) <= ramp(0, lanes) && ramp(0, lanes) < all(end, lanes);
    Nest nest;
    nest.name = "near";
    nest.tensors = {tensor("x", t, false, rounds * n), tensor("y", t, true, rounds * lanes)};
    const Expr base = Broadcast::make(var("r") * n - least, lanes);
    nest.body =
        loop("r", 0, rounds,
             store("y", load(t.with_lanes(lanes), "x", p.index(lanes) + base, on), ramp(var("r") * lanes, lanes)));
    const JitModule m({nest});
    for (const bool at_end : {false, true}) {
        const property::Guarded x(size_t(rounds * n * t.bytes()), at_end),
            y(size_t(rounds * lanes * t.bytes()), at_end);
        for (int i = 0; i < rounds * n * t.bytes(); i++) x.data()[i] = i % t.bytes() == 0 ? char(i / t.bytes() + 1) : 0;
        std::memset(y.data(), 0x55, y.bytes());
        CHECK(run(m, "near", {x.data(), y.data()}) == 0);
        for (int i = 0; i < rounds * lanes; i++) {
            const int lane = i % lanes, round = i / lanes;
            const int expected = lane < first || lane >= end ? 0 : round * n + p.place(lane) - least + 1;
            CHECK(int(uint8_t(y.data()[i * t.bytes()])) == uint8_t(expected));
        }
    }
}

} // namespace

TEST_CASE("lanes at known places near each other") {
    for (const Type t : {UInt(8), Int(16), Int(32), Int(64)})
        for (const int lanes : {2, 3, 4, 8, 13, 16, 32})
            for (const Pattern &p : patterns) {
                check(p, t, lanes, 0, lanes);
                check(p, t, lanes, 0, lanes, true);
                check(p, t, lanes, 1, lanes);
                check(p, t, lanes, 0, (lanes + 1) / 2);
                check(p, t, lanes, lanes - 1, lanes);
            }
}
