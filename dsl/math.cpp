#include "dsl/math.h"

#include "dsl/types.h"
#include "support/error.h"

namespace kumiko {

using Halide::Internal::Call;

namespace {

Expr math_call(const char *name, const Expr &x) {
    return Call::make(x.type(), std::string(name) + "_" + type_name(x.type()), {x}, Call::PureExtern);
}

// Of a float type.
Element checked(const char *name, const Expr &x) {
    if (!x.defined()) throw UserError(std::string(name) + " of an undefined expression");
    if (!x.type().is_float())
        throw UserError(std::string(name) + " of a " + type_name(x.type()) + " expression; cast it to a float type");
    return Element(x);
}

// f(x) in x's type; 16-bit floats through f32.
template<typename F>
Element in_f32(const Element &x, const F &f) {
    if (x.type().bits() != 16) return f(x);
    return Element(cast(x.type(), f(Element(cast(f32, x)))));
}

} // namespace

Element sigmoid(const Expr &x) { return Element(math_call("sigmoid", checked("sigmoid", x))); }
Element rsqrt(const Expr &x) { return Element(math_call("rsqrt", checked("rsqrt", x))); }
Element erfc(const Expr &x) { return Element(math_call("erfc", checked("erfc", x))); }
Element expm1(const Expr &x) { return Element(math_call("expm1", checked("expm1", x))); }
Element log1p(const Expr &x) { return Element(math_call("log1p", checked("log1p", x))); }
Element erf(const Expr &x) { return Element(math_call("erf", checked("erf", x))); }
Element erf(Expr &x) { return kumiko::erf(static_cast<const Expr &>(x)); }
Element erf(Expr &&x) { return kumiko::erf(static_cast<const Expr &>(x)); }
Element erf(const Element &x) { return kumiko::erf(static_cast<const Expr &>(x)); }
Element square(const Expr &x) { return Element(x) * x; }

Element relu(const Expr &x) { return max(Element(x), 0); }
Element relu6(const Expr &x) { return min(relu(x), 6); }
Element silu(const Expr &x) { return Element(math_call("silu", checked("silu", x))); }
Element gelu(const Expr &x) { return Element(math_call("gelu", checked("gelu", x))); }
Element gelu_tanh(const Expr &x) { return Element(math_call("gelu_tanh", checked("gelu_tanh", x))); }
Element softplus(const Expr &x) {
    return in_f32(checked("softplus", x), [](const Element &e) { return log1p(exp(-abs(e))) + max(e, 0); });
}
// x + 3 is exact where the result is small, x/6 + 1/2 is not.
Element hard_sigmoid(const Expr &x) {
    return in_f32(checked("hard_sigmoid", x), [](const Element &e) { return max(min(e + 3, 6), 0) * (1.0 / 6); });
}
Element hard_swish(const Expr &x) {
    return in_f32(checked("hard_swish", x), [](const Element &e) { return e * hard_sigmoid(e); });
}

} // namespace kumiko
