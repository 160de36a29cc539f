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

} // namespace

Element sigmoid(const Expr &x) { return Element(math_call("sigmoid", checked("sigmoid", x))); }
Element rsqrt(const Expr &x) { return Element(math_call("rsqrt", checked("rsqrt", x))); }
Element erf(const Expr &x) { return Element(math_call("erf", checked("erf", x))); }
Element erf(Expr &x) { return kumiko::erf(static_cast<const Expr &>(x)); }
Element erf(Expr &&x) { return kumiko::erf(static_cast<const Expr &>(x)); }
Element erf(const Element &x) { return kumiko::erf(static_cast<const Expr &>(x)); }
Element square(const Expr &x) { return Element(x) * x; }

Element relu(const Expr &x) { return max(Element(x), 0); }
Element relu6(const Expr &x) { return min(relu(x), 6); }
Element silu(const Expr &x) { return Element(x) * sigmoid(x); }
Element gelu(const Expr &x) {
    const Element e = checked("gelu", x);
    return 0.5 * e * (1 + erf(e * 0.70710678118654752440));
}
Element gelu_tanh(const Expr &x) {
    const Element e = checked("gelu_tanh", x);
    return 0.5 * e * (1 + tanh(0.79788456080286535588 * (e + 0.044715 * e * e * e)));
}
Element softplus(const Expr &x) {
    const Element e = checked("softplus", x);
    return max(e, 0) + log(1 + exp(-abs(e)));
}
Element hard_sigmoid(const Expr &x) { return max(min(checked("hard_sigmoid", x) * (1.0 / 6) + 0.5, 1), 0); }
Element hard_swish(const Expr &x) { return Element(x) * hard_sigmoid(x); }

} // namespace kumiko
