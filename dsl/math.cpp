#include "dsl/math.h"

#include "dsl/types.h"
#include "support/error.h"

namespace kumiko {

using Halide::Internal::Call;
using typed::Operand;

namespace {

// Checks that the operand has a float type.
Element checked(const char *name, const Operand &x) {
    if (!x.defined()) throw UserError(x.where(), std::string(name) + " of an undefined expression");
    if (!x.type().is_float())
        throw UserError(x.where(),
                        std::string(name) + " of a " + type_name(x.type()) + " expression; cast it to a float type");
    return Element(x, x.where());
}

Element math_call(const char *name, const Operand &x) {
    const Element e = checked(name, x);
    return Element(Call::make(e.type(), std::string(name) + "_" + type_name(e.type()), {e}, Call::PureExtern),
                   e.where());
}

// f(x) in x's type; 16-bit floats are computed in f32.
template<typename F>
Element in_f32(const Element &x, const F &f) {
    if (x.type().bits() != 16) return f(x);
    return cast(x.type(), f(cast(f32, x)));
}

} // namespace

Element sigmoid(const Operand &x) { return math_call("sigmoid", x); }
Element rsqrt(const Operand &x) { return math_call("rsqrt", x); }
Element erfc(const Operand &x) { return math_call("erfc", x); }
Element expm1(const Operand &x) { return math_call("expm1", x); }
Element log1p(const Operand &x) { return math_call("log1p", x); }
Element erf(const Expr &x) { return math_call("erf", x); }
Element erf(Expr &x) { return kumiko::erf(static_cast<const Expr &>(x)); }
Element erf(Expr &&x) { return kumiko::erf(static_cast<const Expr &>(x)); }
Element erf(const Element &x) { return math_call("erf", x); }
Element square(const Operand &x) {
    const Element e(x, x.where());
    return e * e;
}

Element relu(const Operand &x) { return max(Element(x, x.where()), 0); }
Element relu6(const Operand &x) { return min(relu(x), 6); }
Element silu(const Operand &x) { return math_call("silu", x); }
Element gelu(const Operand &x) { return math_call("gelu", x); }
Element gelu_tanh(const Operand &x) { return math_call("gelu_tanh", x); }
Element softplus(const Operand &x) {
    return in_f32(checked("softplus", x), [](const Element &e) { return log1p(exp(-abs(e))) + max(e, 0); });
}
// x + 3 is exact where the result is small; x/6 + 1/2 is not.
Element hard_sigmoid(const Operand &x) {
    return in_f32(checked("hard_sigmoid", x), [](const Element &e) { return max(min(e + 3, 6), 0) * (1.0 / 6); });
}
Element hard_swish(const Operand &x) {
    return in_f32(checked("hard_swish", x), [](const Element &e) { return e * hard_sigmoid(e); });
}

} // namespace kumiko
