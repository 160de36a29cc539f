// Linear facts derived without the simplifier, for random expressions, checked for all values of
// their variables.
#include "schedules/linear.h"
#include "support/random.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <limits>

using namespace kumiko;
using namespace Halide::Internal;

namespace {

constexpr std::array names = {"x", "y", "z"};

Expr variable(int n) { return Variable::make(Int(32), names[n]); }

struct Source {
    Random random;
    int between(int least, int most) {
        return std::min(most, least + static_cast<int>(random.real() * (most - least + 1)));
    }
    Expr expression(int depth) {
        if (depth == 0 || between(0, 4) == 0) return between(0, 1) ? variable(between(0, 2)) : Expr(between(-6, 6));
        const Expr a = expression(depth - 1), b = expression(depth - 1);
        switch (between(0, 7)) {
        case 0:
        case 1:
            return Add::make(a, b);
        case 2:
            return Sub::make(a, b);
        case 3:
            return Mul::make(a, Expr(between(-5, 5)));
        case 4:
            return Mul::make(Expr(between(-5, 5)), b);
        case 5:
            return Div::make(a, Expr(between(-4, 4)));
        case 6:
            return Mod::make(a, Expr(between(-4, 4)));
        default:
            return between(0, 1) ? Min::make(a, b) : Max::make(a, b);
        }
    }
    Expr condition() {
        const Expr a = expression(3), b = expression(2);
        switch (between(0, 3)) {
        case 0:
            return LE::make(a, b);
        case 1:
            return LT::make(a, b);
        case 2:
            return GE::make(a, b);
        default:
            return GT::make(a, b);
        }
    }
};

using Values = std::array<int64_t, 3>;

int64_t value(const Expr &e, const Values &at) {
    const auto both = [&](const auto *op, auto f) {
        return static_cast<int64_t>(f(value(op->a, at), value(op->b, at)));
    };
    if (const auto *op = e.as<IntImm>()) return op->value;
    if (const auto *op = e.as<Variable>()) return at[op->name[0] - 'x'];
    if (const auto *op = e.as<Add>()) return both(op, std::plus());
    if (const auto *op = e.as<Sub>()) return both(op, std::minus());
    if (const auto *op = e.as<Mul>()) return both(op, std::multiplies());
    if (const auto *op = e.as<Div>()) return both(op, [](int64_t a, int64_t b) { return div_imp(a, b); });
    if (const auto *op = e.as<Mod>()) return both(op, [](int64_t a, int64_t b) { return mod_imp(a, b); });
    if (const auto *op = e.as<Min>()) return both(op, [](int64_t a, int64_t b) { return std::min(a, b); });
    if (const auto *op = e.as<Max>()) return both(op, [](int64_t a, int64_t b) { return std::max(a, b); });
    if (const auto *op = e.as<LE>()) return both(op, std::less_equal());
    if (const auto *op = e.as<LT>()) return both(op, std::less());
    if (const auto *op = e.as<GE>()) return both(op, std::greater_equal());
    if (const auto *op = e.as<GT>()) return both(op, std::greater());
    FAIL("an expression of another kind");
    return 0;
}

// A cube of values, and the least and the greatest value of an expression within it.
struct Cube {
    std::array<int, 3> least, most;
    explicit Cube(Source &source) {
        for (int n = 0; n < 3; n++) {
            least[n] = source.between(-5, 3);
            most[n] = least[n] + source.between(0, 4);
        }
    }
    Bounds bounds() const {
        Bounds all;
        for (int n = 0; n < 3; n++) all.push(names[n], Interval(least[n], most[n]));
        return all;
    }
    std::pair<int64_t, int64_t> range(const Expr &e) const {
        std::pair r{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
        for (int64_t x = least[0]; x <= most[0]; x++) {
            for (int64_t y = least[1]; y <= most[1]; y++) {
                for (int64_t z = least[2]; z <= most[2]; z++) {
                    const int64_t v = value(e, {x, y, z});
                    r = {std::min(r.first, v), std::max(r.second, v)};
                }
            }
        }
        return r;
    }
};

bool linear(const Expr &e) {
    LinearSum sum;
    return sum.add(e, 1);
}

Expr many_times_the_largest(const Expr &e, int times) {
    Expr sum = Mul::make(e, std::numeric_limits<int>::max());
    for (int n = 1; n < times; n++) sum = Add::make(sum, Mul::make(e, std::numeric_limits<int>::max()));
    return sum;
}

} // namespace

TEST_CASE("conditions are proved only where they hold for all values, and always where both sides are linear") {
    Source source{Random(3)};
    int proved = 0, of_sums = 0;
    for (int n = 0; n < 6000; n++) {
        const Cube cube(source);
        const Expr e = source.condition();
        const bool holds = cube.range(e).first == 1, said = proves(e, cube.bounds());
        INFO(Stmt(Evaluate::make(e)));
        if (said) CHECK(holds);
        const auto sides = [](const auto *op) { return op && linear(op->a) && linear(op->b); };
        const bool sums = sides(e.as<LE>()) || sides(e.as<LT>()) || sides(e.as<GE>()) || sides(e.as<GT>());
        if (sums) CHECK(said == holds);
        proved += said;
        of_sums += sums && holds;
    }
    CHECK(proved > 1000);
    CHECK(of_sums > 300);
}

TEST_CASE("ranges of sums and values of numbers are those found by trying all") {
    Source source{Random(4)};
    int sums = 0, numbers = 0;
    for (int n = 0; n < 6000; n++) {
        const Cube cube(source);
        const Expr e = source.expression(3);
        INFO(Stmt(Evaluate::make(e)));
        if (LinearSum sum; sum.add(e, 1)) {
            CHECK(sum.range(cube.bounds()) == cube.range(e));
            sums++;
        }
        if (const auto number = number_of(e)) {
            CHECK(*number == value(e, {0, 0, 0}));
            CHECK(*number == value(e, {5, -7, 3}));
            numbers++;
        }
    }
    CHECK(sums > 1000);
    CHECK(numbers > 500);
}

TEST_CASE("an index beyond 32 bits is not linear, and has no range") {
    const Expr x = variable(0);
    CHECK(linear(many_times_the_largest(x, 1)));
    CHECK_FALSE(
        // four times the largest bound would be 2^64, which is 0 in 64 bits
        linear(many_times_the_largest(x, 4)));
    CHECK_FALSE(linear(many_times_the_largest(Mul::make(x, 3), 1)));
    CHECK_FALSE(linear(many_times_the_largest(Expr(1), 2)));
    LinearSum sum;
    REQUIRE(sum.add(many_times_the_largest(x, 1), 1));
    Bounds wide;
    wide.push("x", Interval(std::numeric_limits<int>::min(), std::numeric_limits<int>::max()));
    CHECK_FALSE(sum.range(wide));
    Bounds wider;
    wider.push("x", Interval(Expr(std::numeric_limits<int64_t>::min() + 1), Expr(std::numeric_limits<int64_t>::max())));
    LinearSum twice;
    REQUIRE(twice.add(Mul::make(x, 2), 1));
    CHECK_FALSE(twice.range(wider)); // ±2^64, which is ±2 in 64 bits
    CHECK_FALSE(sum.range(Bounds()));
}

TEST_CASE("loops that run to quotients of a size are whole where the last block is left out") {
    Source source{Random(5)};
    const Expr size = variable(0), block = variable(1), step = variable(2);
    int proved = 0, held = 0;
    for (int n = 0; n < 2000; n++) {
        const int inner = source.between(1, 4), outer = inner * source.between(1, 3), less = source.between(0, 2),
                  reach = source.between(-2, inner + 2), least = source.between(0, 6);
        const bool up = source.between(0, 1) == 1; // blocks counted up, or down
        Bounds bounds;
        bounds.push("x", Interval(least, 40));
        bounds.push("y", Interval(0, (up ? (size + (outer - 1)) / outer : size / outer) - 1 - less));
        bounds.push("z", Interval(0, outer / inner - 1));
        const Expr end = (block * (outer / inner) + step) * inner + reach;
        const Expr limit = source.between(0, 1) ? size : min(size, block * outer + source.between(0, 2 * outer));
        bool holds = true;
        for (int64_t x = least; x <= 40; x++) {
            const int64_t blocks = (up ? (x + outer - 1) / outer : x / outer) - less;
            for (int64_t y = 0; y < blocks; y++) {
                for (int64_t z = 0; z < outer / inner; z++) holds = holds && value(end <= limit, {x, y, z});
            }
        }
        CAPTURE(inner);
        CAPTURE(outer);
        CAPTURE(less);
        CAPTURE(reach);
        CAPTURE(up);
        INFO(Stmt(Evaluate::make(end <= limit)));
        const bool said = proves(end <= limit, bounds);
        if (said) CHECK(holds);
        const bool whole = limit.same_as(size) && reach <= inner && (less >= 1 || !up);
        if (whole) CHECK(said);
        proved += said, held += holds;
    }
    CHECK(proved > 700);
    CHECK(proved <= held);
}
