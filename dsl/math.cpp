#include "dsl/math.h"

#include "dsl/types.h"
#include "support/error.h"

namespace kumiko {

using Halide::Internal::Call;

namespace {

Expr math_call(const char *name, const Expr &x) {
    if (!x.type().is_float()) {
        throw UserError(std::string(name) + " of a " + type_name(x.type()) + " expression; cast it to a float type");
    }
    return Call::make(x.type(), std::string(name) + "_" + type_name(x.type()), {x}, Call::PureExtern);
}

Expr number(const Expr &like, double value) { return Halide::Internal::make_const(like.type(), value); }

} // namespace

Expr sigmoid(const Expr &x) { return math_call("sigmoid", x); }
Expr rsqrt(const Expr &x) { return math_call("rsqrt", x); }
Expr erf(const Expr &x) { return math_call("erf", x); }
Expr erf(Expr &x) { return math_call("erf", x); }
Expr erf(Expr &&x) { return math_call("erf", x); }
Expr square(const Expr &x) { return x * x; }

Expr relu(const Expr &x) { return max(x, Halide::Internal::make_zero(x.type())); }
Expr relu6(const Expr &x) { return min(relu(x), Halide::Internal::make_const(x.type(), 6)); }
Expr leaky_relu(const Expr &x, const Expr &slope) {
    return select(x > Halide::Internal::make_zero(x.type()), x, x * Halide::cast(x.type(), slope));
}
Expr silu(const Expr &x) { return x * sigmoid(x); }
Expr gelu(const Expr &x) {
    return number(x, 0.5) * x * (number(x, 1.0) + math_call("erf", x * number(x, 0.70710678118654752440)));
}
Expr gelu_tanh(const Expr &x) {
    Expr inner = number(x, 0.79788456080286535588) * (x + number(x, 0.044715) * x * x * x);
    return number(x, 0.5) * x * (number(x, 1.0) + tanh(inner));
}
Expr softplus(const Expr &x) {
    return max(x, Halide::Internal::make_zero(x.type())) + log(number(x, 1.0) + exp(-abs(x)));
}
Expr hard_sigmoid(const Expr &x) {
    return max(min(x * number(x, 1.0 / 6) + number(x, 0.5), number(x, 1.0)), Halide::Internal::make_zero(x.type()));
}
Expr hard_swish(const Expr &x) { return x * hard_sigmoid(x); }

} // namespace kumiko
