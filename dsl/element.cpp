#include "dsl/element.h"

#include "dsl/print.h"
#include "dsl/types.h"
#include "support/error.h"

#include <cmath>

namespace kumiko {

using namespace Halide::Internal;

namespace {

bool is_number(const Expr &e) { return is_const(e); }

// The constant `e` as one of `type`.
Expr adapted(const Expr &e, Type type, const char *operation) {
    const auto refuse = [&](const std::string &advice) {
        throw UserError(fmt::format("\"{}\" has a {} on one side and the number {} on the other; {}", operation,
                                    type_name(type), to_string(e), advice));
    };
    const auto low = [&] { return type.is_uint() ? 0 : int64_t(-(uint64_t(1) << (type.bits() - 1))); };
    const auto high = [&] { return ~uint64_t(0) >> (64 - type.bits() + type.is_int()); };
    const auto range = [&] {
        refuse(fmt::format("a {} holds {} to {}: cast one of them", type_name(type), low(), high()));
    };
    if (const auto *f = as_const_float(e) ? e.as<FloatImm>() : nullptr) {
        if (type.is_float()) {
            const Expr number = make_const(type, f->value);
            if (std::isfinite(f->value) && !std::isfinite(number.as<FloatImm>()->value))
                refuse(std::string("a ") + type_name(type) + " cannot hold it: cast one of them");
            return number;
        }
        if (f->value != std::floor(f->value)) refuse("cast the " + type_name(type) + " to a float type");
        if (f->value < double(low()) || f->value > double(high())) range();
        return f->value < 0 ? make_const(type, int64_t(f->value)) : make_const(type, uint64_t(f->value));
    }
    if (const auto *n = e.as<IntImm>()) {
        if (type.is_float()) return make_const(type, double(n->value));
        if (n->value < low() || (n->value > 0 && uint64_t(n->value) > high())) range();
        return make_const(type, n->value);
    }
    if (const auto *n = e.as<UIntImm>()) {
        if (type.is_float()) return make_const(type, double(n->value));
        if (n->value > high()) range();
        return make_const(type, n->value);
    }
    return Halide::cast(type, e);
}

struct Pair {
    Expr a, b;
};

Pair of_one_type(const char *operation, const Expr &a, const Expr &b) {
    for (const Expr *e : {&a, &b}) {
        if (!e->defined()) throw UserError(fmt::format("\"{}\" has an undefined expression on one side", operation));
    }
    if (a.type() == b.type()) return {a, b};
    if (is_number(b)) return {a, adapted(b, a.type(), operation)};
    if (is_number(a)) return {adapted(a, b.type(), operation), b};
    throw UserError("\"" + std::string(operation) + "\" has a " + type_name(a.type()) + " on its left and a " +
                    type_name(b.type()) +
                    " on its right; cast one of them, so that the type of the arithmetic is stated");
}

// What Halide itself refuses, as an error of ours.
template<typename F>
Element guarded(const char *operation, F f) {
    try {
        return Element(f());
    } catch (const Halide::Error &e) {
        throw UserError(fmt::format("\"{}\": {}", operation, e.what()));
    }
}

void require_bool(const char *operation, const Expr &e) {
    if (!e.type().is_bool())
        throw UserError(
            fmt::format("\"{}\" takes bool, not {}; compare it, as in x != 0", operation, type_name(e.type())));
}

} // namespace

void require_same_type(const Expr &a, const Expr &b, const char *operation) { of_one_type(operation, a, b); }

namespace typed {

Element binary(const char *operation, const Expr &a, const Expr &b, Binary f) {
    const Pair p = of_one_type(operation, a, b);
    return guarded(operation, [&] { return f(p.a, p.b); });
}

Element logical(const char *operation, const Expr &a, const Expr &b, Binary f) {
    for (const Expr *e : {&a, &b}) require_bool(operation, *e);
    return guarded(operation, [&] { return f(a, b); });
}

Element unary(const char *operation, const Expr &x, Unary f) {
    return guarded(operation, [&] { return f(x); });
}

Element of_float(const char *operation, const Expr &x, Unary f) {
    if (!x.type().is_float())
        throw UserError(fmt::format("{} of a {} expression; cast it to a float type", operation, type_name(x.type())));
    return guarded(operation, [&] {
        if (x.type() == bf16) return Halide::cast(bf16, f(Halide::cast(f32, x)));
        return f(x);
    });
}

Element choose(const Expr &condition, const Expr &a, const Expr &b) {
    if (!condition.defined()) throw UserError("the condition of a select is undefined");
    require_bool("select", condition);
    const Pair p = of_one_type("select", a, b);
    return guarded("select", [&] { return Halide::select(condition, p.a, p.b); });
}

} // namespace typed

Element operator!(const Element &x) {
    require_bool("!", x);
    return typed::unary("!", x, [](const Expr &e) -> Expr { return !e; });
}

} // namespace kumiko
