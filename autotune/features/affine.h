// Index expressions as affine functions of loop variables: how an access moves per loop step.
#pragma once

#include "dsl/buffers.h"
#include "dsl/halide.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace kumiko {

// constant + sum of coefficient × loop. Divisions and remainders are approximated by their average
// effect: x / 4 moves a quarter as far. `known` is false if the value is data-dependent.
struct Affine {
    double constant = 0;
    std::vector<std::pair<int, double>> terms; // loops in ascending order; coefficients are not 0
    bool known = true;

    double coefficient(int loop) const;
    // The value with loop i at values[i].
    double at(const std::vector<double> &values) const;

    Affine &operator+=(const Affine &other);
    Affine &operator*=(double factor);
};

// Names in scope: loop variables are numbered; other names map to values; sizes are given.
class AffineScope {
public:
    explicit AffineScope(const Sizes &sizes);

    void push(const std::string &name, Affine value);
    void pop(const std::string &name);

    // Returns the affine form of a scalar, or of the first lane of a ramp or broadcast.
    Affine of(const Expr &e) const;
    // The numeric value of the expression, including comparisons and selects, with loop i at
    // values[i]; `otherwise` if it is unknown.
    double value(const Expr &e, const std::vector<double> &values, double otherwise) const;

private:
    std::map<std::string, std::vector<Affine>> names_;
};

} // namespace kumiko
