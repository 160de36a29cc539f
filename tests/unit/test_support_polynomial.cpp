// Polynomials, and their fit to values.
// Links: support
#include "support/polynomial.h"

#include "support/error.h"

#include <doctest/doctest.h>

using namespace kumiko;

namespace {

const Polynomial x = Polynomial::variable(0), y = Polynomial::variable(1);

std::vector<std::vector<int64_t>> points(size_t count) {
    std::vector<std::vector<int64_t>> all;
    for (size_t n = 0; n < count; n++) all.push_back({int64_t(4 + n * 7 % 23), int64_t(5 + n * n * 3 % 31)});
    return all;
}

std::vector<int64_t> values_of(const Polynomial &p, const std::vector<std::vector<int64_t>> &points) {
    std::vector<int64_t> values;
    for (const auto &point : points) values.push_back(p.value(point));
    return values;
}

} // namespace

TEST_CASE("polynomials are added, multiplied, evaluated and printed") {
    const Polynomial p = 2 * (x * y) + x * x + -3;
    CHECK_EQ(p.value({4, 5}), 2 * 20 + 16 - 3);
    CHECK_EQ(p.text({"batch", "seq"}), "batch * batch + 2 * batch * seq - 3");
    CHECK_EQ((p + Polynomial(-1) * p).constant(), 0);
    CHECK_EQ(Polynomial(7).constant(), 7);
    CHECK_FALSE(p.constant());
    CHECK_EQ(Polynomial().text({}), "0");
    CHECK_EQ((512 + -1 * x + x * y).bound({1, 1}, {500, 2}), 512 - 1 + 1000);
    CHECK_THROWS_AS((x * x).value({int64_t(1) << 40}), UserError);
}

TEST_CASE("a fit finds each polynomial of its terms, and no other") {
    const auto at = points(PolynomialFit::terms(2) + 3);
    const PolynomialFit fit(at);
    for (const Polynomial &p : {Polynomial(64), x, y + -1, 384 * (x * y), x * x * y + -5 * y, (int64_t(1) << 40) * x})
        CHECK_EQ(fit.through(values_of(p, at)), p);
    std::vector<int64_t> halves, cubes;
    for (const auto &point : at) halves.push_back(point[0] / 2), cubes.push_back(point[0] * point[0] * point[0]);
    CHECK_FALSE(fit.through(halves));
    CHECK_FALSE(fit.through(cubes));
}

TEST_CASE("points that determine no polynomial are refused") {
    CHECK_THROWS_AS(PolynomialFit({{1}, {2}}), InternalError);
    CHECK_THROWS_AS(PolynomialFit({{1}, {2}, {2}, {1}}), InternalError);
}
