#include "dsl/element.h"

#include "dsl/half.h"
#include "dsl/legal.h"
#include "dsl/print.h"
#include "dsl/types.h"
#include "support/error.h"

#include <cmath>
#include <optional>
#include <string_view>

namespace kumiko {

using namespace Halide::Internal;

namespace {

using typed::Operand;

void require_defined(const char *operation, const Operand &e) {
    if (!e.defined()) throw UserError(e.where(), fmt::format("\"{}\" of an undefined expression", operation));
}

// An operator appears on the same line as its operands or below them.
std::source_location last_of(const Operand &a, const Operand &b) {
    if (a.where().line() == 0) return b.where();
    const bool below =
        std::string_view(a.where().file_name()) == b.where().file_name() && b.where().line() > a.where().line();
    return below ? b.where() : a.where();
}

// The expression as text for an error message, truncated if long.
std::string shown(const Expr &e) {
    constexpr size_t most = 60;
    const std::string text = to_string(e);
    return text.size() <= most ? text : text.substr(0, most) + "…";
}

struct Pair {
    Expr a, b;
    std::source_location where;
};

Pair of_one_type(const char *operation, const Operand &a, const Operand &b) {
    for (const Operand *e : {&a, &b}) require_defined(operation, *e);
    const std::source_location where = last_of(a, b);
    if (a.type() == b.type()) return {a, b, where};
    if (is_const(b)) return {a, typed::adapted(b, a.type(), operation, where), where};
    if (is_const(a)) return {typed::adapted(a, b.type(), operation, where), b, where};
    throw UserError(where, "\"" + std::string(operation) + "\" has a " + type_name(a.type()) + " on its left and a " +
                               type_name(b.type()) +
                               " on its right; cast one of them, so that the type of the arithmetic is stated: " +
                               shown(a) + " and " + shown(b));
}

// Converts Halide's errors to UserError.
template<typename F>
Element guarded(const char *operation, const std::source_location &where, F f) {
    try {
        return Element(f(), where);
    } catch (const Halide::Error &e) {
        throw UserError(where, fmt::format("\"{}\": {}", operation, e.what()));
    }
}

void require_bool(const char *operation, const Operand &e) {
    require_defined(operation, e);
    if (!e.type().is_bool())
        throw UserError(e.where(), fmt::format("\"{}\" takes bool, not {}; compare it, as in x != 0: {}", operation,
                                               type_name(e.type()), shown(e)));
}

void require_float(const char *operation, const Operand &x) {
    require_defined(operation, x);
    if (!x.type().is_float())
        throw UserError(x.where(), fmt::format("{} of a {} expression; cast it to a float type: {}", operation,
                                               type_name(x.type()), shown(x)));
}

} // namespace

void require_same_type(const Expr &a, const Expr &b, const char *operation) { of_one_type(operation, a, b); }

namespace typed {

Expr adapted(const Expr &e, Type type, const char *operation, const std::source_location &where) {
    const auto refuse = [&](const std::string &advice) {
        throw UserError(where, fmt::format("\"{}\" has a {} on one side and the number {} on the other; {}", operation,
                                           type_name(type), to_string(e), advice));
    };
    const auto finite = [&](double value) {
        const Expr number = make_const(type, value);
        if (std::isfinite(value) && !std::isfinite(number.as<FloatImm>()->value))
            refuse("a " + type_name(type) + " cannot hold it: cast one of them");
        return number;
    };
    const int64_t low = type.is_uint() ? 0 : int64_t(-(uint64_t(1) << (type.bits() - 1)));
    const uint64_t high = ~uint64_t(0) >> (64 - type.bits() + type.is_int());
    const auto in_range = [&](bool yes) {
        if (!yes) refuse(fmt::format("a {} holds {} to {}: cast one of them", type_name(type), low, high));
    };
    if (const auto *f = e.as<FloatImm>()) {
        if (type.is_float()) return finite(f->value);
        if (f->value != std::floor(f->value)) refuse("cast the " + type_name(type) + " to a float type");
        in_range(f->value >= double(low) && f->value < std::exp2(type.bits() - type.is_int()));
        return f->value < 0 ? make_const(type, int64_t(f->value)) : make_const(type, uint64_t(f->value));
    }
    if (const auto *n = e.as<IntImm>()) {
        if (type.is_float()) return finite(double(n->value));
        in_range(n->value >= low && (n->value <= 0 || uint64_t(n->value) <= high));
        return make_const(type, n->value);
    }
    if (const auto *n = e.as<UIntImm>()) {
        if (type.is_float()) return finite(double(n->value));
        in_range(n->value <= high);
        return make_const(type, n->value);
    }
    return Halide::cast(type, e);
}

Element binary(const char *operation, const Operand &a, const Operand &b, Binary f) {
    const Pair p = of_one_type(operation, a, b);
    return guarded(operation, p.where, [&] { return f(p.a, p.b); });
}

Element logical(const char *operation, const Operand &a, const Operand &b, Binary f) {
    for (const Operand *e : {&a, &b}) require_bool(operation, *e);
    return guarded(operation, last_of(a, b), [&] { return f(a, b); });
}

Element unary(const char *operation, const Operand &x, Unary f) {
    require_defined(operation, x);
    return guarded(operation, x.where(), [&] { return f(x); });
}

Element of_float(const char *operation, const Operand &x, Unary f) {
    require_float(operation, x);
    return guarded(operation, x.where(), [&] {
        if (x.type() == bf16) return Halide::cast(bf16, f(Halide::cast(f32, x)));
        return f(x);
    });
}

Element of_floats(const char *operation, const Operand &a, const Operand &b, Binary f) {
    const Pair p = of_one_type(operation, a, b);
    require_float(operation, Element(p.a, p.where));
    return guarded(operation, p.where, [&] {
        if (p.a.type() == bf16) return Halide::cast(bf16, f(Halide::cast(f32, p.a), Halide::cast(f32, p.b)));
        return f(p.a, p.b);
    });
}

Element of_integer(const char *operation, const Operand &x, Unary f) {
    require_defined(operation, x);
    if (x.type().is_float())
        throw UserError(x.where(), fmt::format("{} of a {} expression; it takes integers: {}", operation,
                                               type_name(x.type()), shown(x)));
    return guarded(operation, x.where(), [&] { return f(x); });
}

Element choose(const std::vector<Operand> &parts) {
    std::vector<Operand> values;
    for (size_t n = 0; n < parts.size(); n++) {
        if (n % 2 == 0 && n + 1 < parts.size())
            require_bool("select", parts[n]);
        else
            values.push_back(parts[n]);
    }
    const Operand *typical = nullptr;
    for (const Operand &v : values) {
        require_defined("select", v);
        if (!typical && !is_const(v)) typical = &v;
    }
    if (!typical) typical = &values[0];
    std::optional<Element> result;
    for (size_t n = values.size(); n-- > 0;) {
        const Operand value =
            is_const(values[n]) && values[n].type() != typical->type()
                ? Operand(Element(adapted(values[n], typical->type(), "select", typical->where()), values[n].where()))
                : values[n];
        if (!result) {
            result = Element(value, value.where());
            continue;
        }
        const Pair p = of_one_type("select", value, *result);
        const std::source_location where = last_of(parts[2 * n], Element(p.a, p.where));
        result = guarded("select", where, [&] { return Halide::select(parts[2 * n], p.a, p.b); });
    }
    return *result;
}

Element lerp(const Operand &zero, const Operand &one, const Operand &weight) {
    const Pair p = of_one_type("lerp", zero, one);
    require_defined("lerp", weight);
    const Expr w =
        is_const(weight) && p.a.type().is_float() ? adapted(weight, p.a.type(), "lerp", p.where) : Expr(weight);
    if (p.a.type().is_float()) of_one_type("lerp", Element(p.a, p.where), w);
    return guarded("lerp", p.where, [&] { return Halide::lerp(p.a, p.b, w); });
}

} // namespace typed

Element operator!(const Element &x) {
    require_bool("!", x);
    return typed::unary("!", x, [](const Expr &e) -> Expr { return !e; });
}

Element abs(const Element &x) {
    if (x.defined() && x.type().is_uint()) return x;
    return typed::unary("abs", x, [](const Expr &e) -> Expr { return Halide::abs(e); });
}

namespace {

// Made here, because Halide's functions rewrite their operand with strict arithmetic, also in the
// definitions of the tensors that it reads.
Element classify(const char *operation, const Operand &x) {
    require_float(operation, x);
    const Expr e = x.type() == bf16 ? Halide::cast(f32, x) : Expr(x);
    const std::string name = std::string(operation) + "_" + type_name(e.type());
    return Element(Call::make(Bool(), name, {e}, Call::PureExtern), x.where());
}

} // namespace

Element is_nan(const Element &x) { return classify("is_nan", x); }
Element is_inf(const Element &x) { return classify("is_inf", x); }
Element is_finite(const Element &x) { return classify("is_finite", x); }

namespace {

Expr saturated(const Type &type, double x) {
    // One more than the largest value.
    const double limit = std::ldexp(1.0, type.bits() - type.is_int());
    if (std::isnan(x)) return make_zero(type);
    if (x >= limit) return type.max();
    if (x <= (type.is_int() ? -limit : 0.0)) return type.min();
    return type.is_int() ? make_const(type, int64_t(x)) : make_const(type, uint64_t(x));
}

template<typename Number>
Expr rounded(const Type &type, Number x) { // rounds once
    if (type.bits() == 64) return FloatImm::make(type, double(x));
    return FloatImm::make(type, double(type.bits() == 32 ? float(x) : half_value(type, half_bits(type, x))));
}

} // namespace

Element cast(const Type &type, const Element &x) {
    require_defined("cast", x);
    check_element_type(type, "a cast", x.where());
    const auto *f = x.as<FloatImm>();
    const auto *i = x.as<IntImm>();
    const auto *u = x.as<UIntImm>();
    if (type.is_bool() && (f || i || u)) return Element(make_bool(!is_const_zero(x)));
    if (f) return Element(type.is_float() ? rounded(type, f->value) : saturated(type, f->value));
    if (type.is_float() && i) return Element(rounded(type, i->value));
    if (type.is_float() && u) return Element(rounded(type, u->value));
    return guarded("cast", x.where(), [&] { return Halide::cast(type, x); });
}

Element reinterpret(const Type &type, const Element &x) {
    require_defined("reinterpret", x);
    check_element_type(type, "a reinterpret", x.where());
    if (type.bits() != x.type().bits())
        throw UserError(x.where(),
                        fmt::format("reinterpret of a {} as {}, which has other bits; cast converts the value",
                                    type_name(x.type()), type_name(type)));
    return guarded("reinterpret", x.where(), [&] { return Halide::reinterpret(type, x); });
}

} // namespace kumiko
