// Index expressions as sums of multiples of loop variables: what an access does when a loop takes a step.
#pragma once

#include "dsl/buffers.h"
#include "dsl/halide.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace kumiko {

// constant + sum of coefficient × loop. Divisions and remainders are taken as what they do on the way: x / 4 moves a quarter
// as far. `known` is false where the value depends on what memory holds.
struct Affine {
    double constant = 0;
    std::vector<std::pair<int, double>> terms; // loops in ascending order; coefficients are not 0
    bool known = true;

    double coefficient(int loop) const;
    // With loop number i at values[i].
    double at(const std::vector<double> &values) const;

    Affine &operator+=(const Affine &other);
    Affine &operator*=(double factor);
};

// Names in scope: loop variables are numbered, other names have a value, sizes are given.
class AffineScope {
public:
    explicit AffineScope(const Sizes &sizes);

    void push(const std::string &name, Affine value);
    void pop(const std::string &name);

    // Of a scalar; of a ramp or broadcast, that of its first lane.
    Affine of(const Expr &e) const;
    // A number for the expression, which may compare and choose, with loop i at values[i]; `otherwise` when it cannot be known.
    double value(const Expr &e, const std::vector<double> &values, double otherwise) const;

private:
    std::map<std::string, std::vector<Affine>> names_;
};

} // namespace kumiko
