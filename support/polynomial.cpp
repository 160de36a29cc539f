#include "support/polynomial.h"

#include "support/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace kumiko {

Polynomial::Polynomial(int64_t constant) { add({}, constant); }

Polynomial Polynomial::variable(size_t number) {
    std::vector<int> exponents(number + 1, 0);
    exponents.back() = 1;
    Polynomial made;
    made.add(exponents, 1);
    return made;
}

void Polynomial::add(const std::vector<int> &exponents, int64_t coefficient) {
    int64_t &sum = terms_[exponents];
    if (__builtin_add_overflow(sum, coefficient, &sum))
        throw UserError("a number that follows from sizes exceeds 2^63");
    if (sum == 0) terms_.erase(exponents);
}

std::optional<int64_t> Polynomial::constant() const {
    if (terms_.empty()) return 0;
    if (terms_.size() > 1 || !terms_.begin()->first.empty()) return {};
    return terms_.begin()->second;
}

int64_t Polynomial::value(const std::vector<int64_t> &variables) const {
    int64_t sum = 0;
    bool overflow = false;
    for (const auto &[exponents, coefficient] : terms_) {
        int64_t product = coefficient;
        for (size_t v = 0; v < exponents.size(); v++) {
            for (int n = 0; n < exponents[v]; n++)
                overflow = __builtin_mul_overflow(product, variables.at(v), &product) || overflow;
        }
        overflow = __builtin_add_overflow(sum, product, &sum) || overflow;
    }
    if (overflow) throw UserError("a number that follows from sizes exceeds 2^63");
    return sum;
}

int64_t Polynomial::bound(const std::vector<int64_t> &least, const std::vector<int64_t> &most) const {
    int64_t sum = 0;
    for (const auto &[exponents, coefficient] : terms_) {
        Polynomial term;
        term.add(exponents, coefficient);
        const int64_t value = term.value(coefficient < 0 ? least : most);
        if (__builtin_add_overflow(sum, value, &sum)) throw UserError("a number that follows from sizes exceeds 2^63");
    }
    return sum;
}

std::string Polynomial::text(const std::vector<std::string> &names) const {
    std::string made;
    for (auto term = terms_.rbegin(); term != terms_.rend(); ++term) {
        const auto &[exponents, coefficient] = *term;
        std::vector<std::string> factors;
        for (size_t v = 0; v < exponents.size(); v++) factors.insert(factors.end(), size_t(exponents[v]), names.at(v));
        const uint64_t magnitude = coefficient < 0 ? -uint64_t(coefficient) : uint64_t(coefficient);
        if (factors.empty() || magnitude != 1) factors.insert(factors.begin(), std::to_string(magnitude));
        made += made.empty() ? (coefficient < 0 ? "-" : "") : coefficient < 0 ? " - " : " + ";
        made += fmt::format("{}", fmt::join(factors, " * "));
    }
    return made.empty() ? "0" : made;
}

Polynomial operator+(const Polynomial &a, const Polynomial &b) {
    Polynomial made = a;
    for (const auto &[exponents, coefficient] : b.terms_) made.add(exponents, coefficient);
    return made;
}

Polynomial operator*(const Polynomial &a, const Polynomial &b) {
    Polynomial made;
    for (const auto &[left, x] : a.terms_) {
        for (const auto &[right, y] : b.terms_) {
            std::vector<int> exponents(std::max(left.size(), right.size()), 0);
            for (size_t v = 0; v < left.size(); v++) exponents[v] += left[v];
            for (size_t v = 0; v < right.size(); v++) exponents[v] += right[v];
            int64_t product;
            if (__builtin_mul_overflow(x, y, &product))
                throw UserError("a number that follows from sizes exceeds 2^63");
            made.add(exponents, product);
        }
    }
    return made;
}

namespace {

// Numbers modulo the prime 2^61 − 1. Integers below 2^60 in magnitude are determined by theirs.
constexpr uint64_t prime = (uint64_t(1) << 61) - 1;

uint64_t modular(int64_t x) {
    const int64_t rest = x % int64_t(prime);
    return rest < 0 ? uint64_t(rest + int64_t(prime)) : uint64_t(rest);
}
uint64_t times(uint64_t a, uint64_t b) { return uint64_t(static_cast<unsigned __int128>(a) * b % prime); }
uint64_t minus(uint64_t a, uint64_t b) { return a >= b ? a - b : a + prime - b; }

uint64_t inverse_of(uint64_t a) { // a^(prime − 2)
    uint64_t made = 1;
    for (uint64_t e = prime - 2; e > 0; e >>= 1, a = times(a, a)) {
        if (e & 1) made = times(made, a);
    }
    return made;
}

std::vector<std::vector<int>> exponents_of(size_t variables) {
    constexpr int most_of_one = 2, most_of_all = 3;
    std::vector<std::vector<int>> all;
    std::vector<int> current(variables, 0);
    const std::function<void(size_t, int)> add = [&](size_t v, int left) {
        if (v == variables) {
            all.push_back(current);
            return;
        }
        for (int e = 0; e <= std::min(most_of_one, left); e++) {
            current[v] = e;
            add(v + 1, left - e);
        }
        current[v] = 0;
    };
    add(0, most_of_all);
    return all;
}

} // namespace

size_t PolynomialFit::terms(size_t variables) { return exponents_of(variables).size(); }

// Gauss–Jordan elimination of the terms' values beside a unit matrix. A point whose row depends on
// those before it is left out.
PolynomialFit::PolynomialFit(std::vector<std::vector<int64_t>> points)
    : points_(std::move(points)), exponents_(exponents_of(points_.at(0).size())) {
    const size_t n = exponents_.size();
    std::vector<std::vector<uint64_t>> rows; // values, then the combination of points
    std::vector<size_t> pivots;
    for (size_t p = 0; p < points_.size() && rows.size() < n; p++) {
        std::vector<uint64_t> row(2 * n, 0);
        for (size_t t = 0; t < n; t++) {
            row[t] = 1;
            for (size_t v = 0; v < points_[p].size(); v++) {
                for (int e = 0; e < exponents_[t][v]; e++) row[t] = times(row[t], modular(points_[p][v]));
            }
        }
        row[n + rows.size()] = 1;
        const auto subtract = [n](std::vector<uint64_t> &from, const std::vector<uint64_t> &what, uint64_t factor) {
            for (size_t c = 0; c < 2 * n; c++) from[c] = minus(from[c], times(what[c], factor));
        };
        for (size_t r = 0; r < rows.size(); r++) subtract(row, rows[r], row[pivots[r]]);
        const auto pivot = size_t(
            std::find_if(row.begin(), row.begin() + int64_t(n), [](uint64_t x) { return x != 0; }) - row.begin());
        if (pivot == n) continue;
        const uint64_t scale = inverse_of(row[pivot]);
        for (uint64_t &x : row) x = times(x, scale);
        for (std::vector<uint64_t> &other : rows) subtract(other, row, other[pivot]);
        rows.push_back(row);
        pivots.push_back(pivot);
        chosen_.push_back(p);
    }
    if (rows.size() < n)
        throw InternalError(fmt::format("{} points determine {} of {} terms", points_.size(), rows.size(), n));
    inverse_.resize(n);
    for (size_t r = 0; r < n; r++) inverse_[pivots[r]].assign(rows[r].begin() + int64_t(n), rows[r].end());
}

std::vector<int64_t> PolynomialFit::largest() const {
    std::vector<int64_t> most = points_.at(0);
    for (const auto &point : points_) {
        for (size_t v = 0; v < most.size(); v++) most[v] = std::max(most[v], point[v]);
    }
    return most;
}

std::optional<Polynomial> PolynomialFit::through(const std::vector<int64_t> &values) const {
    if (std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == values[0]; })) return values.at(0);
    Polynomial made;
    for (size_t t = 0; t < exponents_.size(); t++) {
        uint64_t sum = 0;
        for (size_t p = 0; p < chosen_.size(); p++)
            sum = minus(sum, prime - times(inverse_[t][p], modular(values.at(chosen_[p]))));
        const int64_t coefficient = sum > prime / 2 ? int64_t(sum) - int64_t(prime) : int64_t(sum);
        Polynomial term = coefficient;
        for (size_t v = 0; v < exponents_[t].size(); v++) {
            for (int e = 0; e < exponents_[t][v]; e++) term = term * Polynomial::variable(v);
        }
        made = made + term;
    }
    try {
        for (size_t p = 0; p < points_.size(); p++) {
            if (made.value(points_[p]) != values.at(p)) return {};
        }
    } catch (const UserError &) {
        return {};
    }
    return made;
}

} // namespace kumiko
