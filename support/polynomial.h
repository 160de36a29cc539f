// Polynomials with integer coefficients: numbers that follow from the sizes of a model.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kumiko {

// A polynomial in numbered variables.
class Polynomial {
public:
    Polynomial(int64_t constant = 0);
    static Polynomial variable(size_t number);

    // Coefficients by exponents: {1, 2} are x0 · x1^2. The last exponent is not 0; none are the
    // constant's. No coefficient is 0.
    const std::map<std::vector<int>, int64_t> &terms() const { return terms_; }
    // nullopt if it has variables.
    std::optional<int64_t> constant() const;
    // Throws UserError if the value does not fit 64 bits.
    int64_t value(const std::vector<int64_t> &variables) const;
    // An upper bound of the value of variables from 0 ≤ least to most.
    int64_t bound(const std::vector<int64_t> &least, const std::vector<int64_t> &most) const;
    // "2 * batch * seq + 1", with these names of variables.
    std::string text(const std::vector<std::string> &names) const;

    friend Polynomial operator+(const Polynomial &a, const Polynomial &b);
    friend Polynomial operator*(const Polynomial &a, const Polynomial &b);
    bool operator==(const Polynomial &other) const = default;

private:
    void add(const std::vector<int> &exponents, int64_t coefficient);
    std::map<std::vector<int>, int64_t> terms_;
};

// Finds polynomials from their values at points. Each variable has an exponent of at most 2 in each
// term, and all together of at most 3.
class PolynomialFit {
public:
    // `points`: the values of all variables at each. Throws InternalError if they do not determine
    // a polynomial: they are fewer than terms(), or on a common curve.
    explicit PolynomialFit(std::vector<std::vector<int64_t>> points);
    // The number of terms that a polynomial may have.
    static size_t terms(size_t variables);
    // The polynomial with these values, one for each point. nullopt if no polynomial with integer
    // coefficients below 2^60 has all of them.
    std::optional<Polynomial> through(const std::vector<int64_t> &values) const;
    // The largest value of each variable at the points.
    std::vector<int64_t> largest() const;

private:
    std::vector<std::vector<int64_t>> points_;
    std::vector<std::vector<int>> exponents_;
    std::vector<size_t> chosen_;                 // points that determine the coefficients
    std::vector<std::vector<uint64_t>> inverse_; // of the terms' values at these, modulo a prime
};

} // namespace kumiko
