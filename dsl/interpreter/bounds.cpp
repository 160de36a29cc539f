// Error bounds. Each value is evaluated in double, together with a bound on the error of the same
// formula in the declared float types, in any summation order, with or without FMA contraction.
// First-order forward error analysis (N. Higham, "Accuracy and Stability of Numerical Algorithms",
// ch. 3): a rounding contributes u·|result|.
#include "dsl/interpreter/bounds.h"

#include "dsl/interpreter/machine.h"

#include <cmath>

namespace kumiko::interpreter {

double unit_roundoff(Type t) {
    if (!t.is_float()) return 0;
    // Twice the roundoff, because the reference is also computed in double.
    if (t.bits() == 64) return 0x1p-52;
    if (t.bits() == 32) return 0x1p-24;
    return t.is_bfloat() ? 0x1p-8 : 0x1p-11;
}

// Below this value a result may be flushed to zero or be denormal.
double smallest(Type t) {
    if (!t.is_float()) return 0;
    if (t.bits() == 64) return 2.3e-308;
    return t.bits() == 16 && !t.is_bfloat() ? 6.2e-8 : 1.2e-38;
}

double largest(Type t) {
    if (t.bits() == 64) return std::numeric_limits<double>::max();
    if (t.bits() == 16 && !t.is_bfloat()) return 65504;
    return t.is_bfloat() ? 0x1.fep127 : std::numeric_limits<float>::max();
}

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// The bound of a result r of type t that has error e before it is rounded.
double after_rounding(double r, double e, Type t, double roundings = 1) {
    if (std::isnan(r) || std::isinf(r)) return e > 0 ? infinity : 0;
    const double bound = e + roundings * unit_roundoff(t) * (std::abs(r) + e) + smallest(t);
    return std::abs(r) + bound > largest(t) ? infinity : bound;
}

double of_unary(const NamedUnary &f, double a, double ea, double r, Type t) {
    const std::string name = f.name;
    const bool exact = name == "floor" || name == "ceil" || name == "trunc" || name == "round";
    double e = 0;
    if (ea > 0) {
        const double up = f.f(a + ea), down = f.f(a - ea);
        e = std::max(std::abs(up - r), std::abs(down - r));
        if (name == "sin" || name == "cos") e = std::min(ea, 2.0);
        if (name == "cosh") e = std::cosh(std::abs(a) + ea) - r;
        if ((name == "sqrt" || name == "log") && a - ea < 0)
            e = name == "sqrt" && a >= 0 ? std::sqrt(a + ea) : infinity;
        if (name.ends_with("sqrt") && name != "sqrt" && a - ea <= 0) e = infinity;
        if (name.ends_with("inverse") && std::abs(a) <= ea) e = infinity;
        if (std::isnan(e)) e = std::isnan(r) ? 0 : infinity;
    }
    if (exact) return e;
    return after_rounding(r, e, t, name == "sqrt" ? 1 : 8); // accurate to 4 ulp
}

} // namespace

double propagated(Code code, Type t, Type from, const NamedUnary *unary, double r, double a, double b, double c,
                  double ea, double eb, double ec) {
    const bool is_float = t.is_float();
    switch (code) {
    case Code::Add:
    case Code::Sub:
        return is_float ? after_rounding(r, ea + eb, t) : ea + eb;
    case Code::Mul: {
        double e = 0; // 0 · ∞ counts as 0 here: an exact zero stays exact
        if (ea > 0) e += ea * (std::abs(b) + eb);
        if (eb > 0) e += eb * std::abs(a);
        if (std::isnan(e)) e = infinity;
        return is_float ? after_rounding(r, e, t) : e;
    }
    case Code::Div:
        if (!is_float) return ea > 0 || eb > 0 ? infinity : 0;
        if (ea == 0 && eb == 0) return after_rounding(r, 0, t);
        if (std::abs(b) <= eb) return infinity;
        return after_rounding(r, (ea + std::abs(r) * eb) / (std::abs(b) - eb), t);
    case Code::
        // a − b·floor(a / b): the product is off by a rounding of a; near an integer quotient, the
        // floor can be off by one.
        Mod: {
        if (ea > 0 || eb > 0) return infinity;
        if (!is_float || std::isnan(r) || b == 0) return is_float ? after_rounding(r, 0, t) : 0;
        const double off = 4 * unit_roundoff(t) * std::abs(a) + 2 * smallest(t), room = std::abs(b) - std::abs(r);
        return after_rounding(r, std::abs(r) <= off || room <= off ? off + std::abs(b) : off, t);
    }
    case Code::Min:
    case Code::Max:
        return std::max(ea, eb);
    case Code::EQ:
    case Code::NE:
    case Code::LT:
    case Code::LE:
        return ea + eb > 0 && !(std::abs(a - b) > ea + eb) ? 1 : 0;
    case Code::And:
        return (ea > 0 && (b != 0 || eb > 0)) || (eb > 0 && a != 0) ? 1 : 0;
    case Code::Or:
        return (ea > 0 && (b == 0 || eb > 0)) || (eb > 0 && a == 0) ? 1 : 0;
    case Code::Not:
    case Code::Abs:
        return ea;
    case Code::Select: {
        const double apart = std::isnan(a - b) ? infinity : std::abs(a - b);
        if (ec > 0) return a == b ? std::max(ea, eb) : std::max(ea, eb) + apart;
        return c != 0 ? ea : eb;
    }
    case Code::Cast:
        if (t.is_float()) {
            const bool exact = from.is_float() ? from.bits() <= t.bits() && (from.bits() < t.bits() || from == t)
                                               : from.bits() <= (t.bits() == 64   ? 53
                                                                 : t.bits() == 32 ? 24
                                                                                  : 8);
            return exact ? ea : after_rounding(r, ea, t);
        }
        if (from.is_float()) return ea > 0 && std::trunc(a - ea) != std::trunc(a + ea) ? std::floor(ea) + 1 : 0;
        return ea;
    case Code::Unary:
        return of_unary(*unary, a, ea, r, t);
    case Code::Binary: {
        if (ea == 0 && eb == 0) return after_rounding(r, 0, t, 8);
        if (a - ea <= 0) return infinity;
        return after_rounding(r, std::abs(r) * (std::abs(b) * ea / (a - ea) + eb * std::abs(std::log(a))) * 1.01, t, 8);
    }
    case Code::IsNan:
    case Code::IsInf:
    case Code::IsFinite:
    case Code::Affine:
        return 0;
    default:
        return ea > 0 || eb > 0 ? infinity : 0;
    }
}

void Machine::propagate(const Instruction &op) {
    if (op.code == Code::Load) {
        load(op);
        for (const Access::Dimension &d :
             program_.accesses[op.extra].checked) { // an uncertain index could read anything
            for (int64_t l = 0; d.reg >= 0 && l < count(op.dst); l++) {
                if (bound(d.reg)[row(d.reg) ? l : 0] > 0) bound(op.dst)[l] = infinity;
            }
        }
        return;
    }
    if (op.code == Code::Move) return copy(op.dst, op.a);
    // The operands before, for the result may take the place of one.
    const int64_t n = count(op.dst);
    struct Operand {
        double v = 0, e = 0;
    };
    std::vector<std::array<Operand, 3>> before(static_cast<size_t>(n));
    const int operands[] = {op.a, op.b, op.c};
    for (int o = 0; o < 3; o++) {
        if (operands[o] < 0) continue;
        for (int64_t l = 0; l < n; l++) {
            before[l][o] = {lane(operands[o], l), bound(operands[o])[row(operands[o]) ? l : 0]};
        }
    }
    execute_one(op);
    const Type from = op.a >= 0 ? program_.registers[op.a].type : op.type;
    const NamedUnary *unary = op.code == Code::Unary ? &unary_functions()[op.extra] : nullptr;
    std::pair<int64_t, int64_t> in = {0, 0};
    if (op.code == Code::Blend) in = interval(program_.masks[op.extra], n);
    for (int64_t l = 0; l < n; l++) {
        const auto &[a, b, c] = before[l];
        if (op.code == Code::Blend) {
            bound(op.dst)[l] = l >= in.first && l < in.second ? a.e : b.e;
        } else {
            bound(op.dst)[l] = propagated(op.code, op.type, from, unary, lane(op.dst, l), a.v, b.v, c.v, a.e, b.e, c.e);
        }
    }
}

} // namespace kumiko::interpreter
