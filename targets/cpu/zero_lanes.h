// Finds selects between a load and zero that are redundant: code generation already zeroes every
// lane that a load's predicate disables.
#pragma once

#include "dsl/halide_passes.h"

#include <cmath>
#include <optional>

namespace kumiko::cpu {

// Whether an expression reads neither a variable nor memory.
inline bool is_constant(const Expr &e) {
    struct Find : Halide::Internal::IRVisitor {
        using IRVisitor::visit;
        bool found = false;
        void visit(const Halide::Internal::Variable *) override { found = true; }
        void visit(const Halide::Internal::Load *) override { found = true; }
    } find;
    e.accept(&find);
    return !find.found;
}

// The lanes of a constant condition; nullopt for any other.
inline std::optional<std::vector<int64_t>> constant_condition(const Expr &e) {
    using namespace Halide::Internal;
    using Lanes = std::optional<std::vector<int64_t>>;
    const auto both = [&](const auto *op, auto join) -> Lanes {
        Lanes a = constant_condition(op->a);
        const Lanes b = constant_condition(op->b);
        if (!a || !b || a->size() != b->size()) return std::nullopt;
        for (size_t i = 0; i < a->size(); i++) (*a)[i] = join((*a)[i], (*b)[i]);
        return a;
    };
    if (const auto n = as_const_int(e); n && e.type().is_scalar()) return std::vector<int64_t>{*n};
    if (const auto *u = e.as<UIntImm>()) return std::vector<int64_t>{static_cast<int64_t>(u->value)};
    if (const auto *op = e.as<Broadcast>(); op && op->value.type().is_scalar()) {
        const Lanes one = constant_condition(op->value);
        return one ? Lanes(std::vector<int64_t>(static_cast<size_t>(op->lanes), one->front())) : std::nullopt;
    }
    if (const auto *op = e.as<Ramp>(); op && op->base.type().is_scalar()) {
        const Lanes base = constant_condition(op->base), stride = constant_condition(op->stride);
        if (!base || !stride) return std::nullopt;
        std::vector<int64_t> all;
        for (int i = 0; i < op->lanes; i++) all.push_back(base->front() + i * stride->front());
        return all;
    }
    if (const auto *op = e.as<And>()) return both(op, [](int64_t a, int64_t b) { return a && b; });
    if (const auto *op = e.as<LT>()) return both(op, [](int64_t a, int64_t b) { return a < b; });
    if (const auto *op = e.as<LE>()) return both(op, [](int64_t a, int64_t b) { return a <= b; });
    if (const auto *op = e.as<Min>()) return both(op, [](int64_t a, int64_t b) { return std::min(a, b); });
    if (const auto *op = e.as<Max>()) return both(op, [](int64_t a, int64_t b) { return std::max(a, b); });
    return std::nullopt;
}

// Whether the lanes of a load are zero wherever `condition` fails, because the load's predicate
// implies it.
inline bool is_zero_beyond(const Expr &e, const Expr &condition) {
    using namespace Halide::Internal;
    if (const auto *cast = e.as<Cast>()) return is_zero_beyond(cast->value, condition);
    const auto *load = e.as<Load>();
    if (!load) return false;
    const auto lanes = constant_condition(load->predicate), wanted = constant_condition(condition);
    if (lanes && wanted && lanes->size() == wanted->size()) {
        for (size_t i = 0; i < lanes->size(); i++) {
            if ((*lanes)[i] && !(*wanted)[i]) return false;
        }
        return true;
    }
    std::vector<Expr> on, needed;
    split_into_ands(load->predicate, on);
    split_into_ands(condition, needed);
    return std::all_of(needed.begin(), needed.end(), [&](const Expr &n) {
        return std::any_of(on.begin(), on.end(), [&](const Expr &o) { return equal(n, o); });
    });
}

// Positive zero.
inline bool is_plain_zero(const Expr &e) {
    using namespace Halide::Internal;
    if (const auto *b = e.as<Broadcast>()) return is_plain_zero(b->value);
    if (const auto *f = e.as<FloatImm>()) return f->value == 0 && !std::signbit(f->value);
    return e.type().is_int_or_uint() && is_const_zero(e);
}

// The load, for a select between it and zero that its predicate already implements; undefined for
// other selects.
inline Expr loaded_or_zero(const Halide::Internal::Select *op) {
    return is_plain_zero(op->false_value) && is_zero_beyond(op->true_value, op->condition) ? op->true_value : Expr();
}

} // namespace kumiko::cpu
