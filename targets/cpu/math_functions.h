// Private to targets/cpu: math functions on scalars and vectors.
#pragma once

#include "targets/cpu/arithmetic.h"

#include <functional>
#include <optional>

namespace kumiko::cpu {

struct Lanes; // math_lanes.h

// Math functions (math.cpp and math_*.cpp); README.md has their errors.
class MathFunctions : protected Arithmetic {
protected:
    using Arithmetic::Arithmetic;

    // A math function of any float type, by the functions below.
    Value *math(const std::string &function, Type type, std::vector<Value *> args);

private:
    // The same for f32.
    Value *math_f32(const std::string &function, const std::vector<Value *> &args);
    // The value as Lanes, with the target's choice for constants.
    Lanes lanes_for_math(Value *v);
    // The same for f64.
    Value *math_f64(const std::string &function, const std::vector<Value *> &args);
    // math_powers.cpp: null for unsupported exponents.
    Value *constant_power(Value *x, Value *exponent, Type t);
    // math_sin.cpp
    enum class Trigonometric { Sine, Cosine, Tangent };
    Value *trigonometric(Trigonometric function, Value *x);
    Value *trigonometric_f64(const std::string &function, Value *x); // sin or cos
    // math_arcs.cpp: atan, atan2, asin and acos; null for any other function.
    Value *arc_function(const std::string &function, const std::vector<Value *> &args);
    // math_tails.cpp; its head lists the functions.
    std::optional<Value *> tail_function(const std::string &function, Value *x);
    // gelu(x) by a polynomial of the tail.
    Lanes gelu(Lanes x);
    // x sigmoid(z) from a = |x| and z <= 0, with the low part of z if it is given.
    Lanes times_sigmoid(Lanes x, Lanes a, Lanes z, const Lanes *low);
    // gelu by its approximation with tanh.
    Lanes gelu_tanh(Lanes x);
    // The functions below require has_lane_tables(). nonpositive: the result is exact for x up to
    // 60 only and arbitrary above.
    Value *exp_by_table(Value *x, bool nonpositive);
    // erf by 32 polynomials.
    Value *erf_by_table(Value *x);
    // gelu by 32 polynomials.
    Value *gelu_by_table(Value *x);
    Lanes scaled_exp_by_table(Lanes x, const Lanes *low); // low: null means 0
    // Applies f to 16 lanes at a time.
    Value *by_registers(Value *x, const std::function<Lanes(Lanes)> &f);
    // A call of the C library for each lane.
    Value *libm(const std::string &function, Type type, const std::vector<Value *> &args);
};

} // namespace kumiko::cpu
