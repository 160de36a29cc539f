#include "dsl/residues.h"

#include <numeric>

namespace kumiko {

using namespace Halide::Internal;

namespace {

constexpr int64_t largest_modulus = 16, max_classes = 64;

// The place of the constant argument of a bitwise operation; the first one if both are constants.
size_t place_of_constant(const Call *op) { return as_const_int(op->args[0]) ? 0 : 1; }

// The smallest power of two above the constant operand of an exclusive or; nullopt for other calls.
std::optional<int64_t> modulus_of_xor(const Call *op) {
    const auto by = op->is_intrinsic(Call::bitwise_xor) ? as_const_int(op->args[place_of_constant(op)]) : std::nullopt;
    if (!by || *by < 1 || *by >= largest_modulus) return std::nullopt;
    int64_t modulus = 2;
    while (modulus <= *by) modulus *= 2;
    return modulus;
}

// The modulus per variable: its residue classes are analysed separately.
std::map<std::string, int64_t> moduli_of(const Expr &e, const Ranges &scope) {
    struct Find : IRGraphVisitor {
        using IRGraphVisitor::visit;
        const Ranges *scope;
        std::map<std::string, int64_t> found;
        void add(const Expr &of, int64_t modulus) {
            for (auto v = scope->cbegin(); v != scope->cend(); ++v) {
                if (!v.value().is_bounded() || !expr_uses_var(of, v.name())) continue;
                int64_t &m = found.emplace(v.name(), 1).first->second;
                m = std::lcm(m, modulus);
            }
        }
        void visit(const Mod *op) override {
            const auto modulus = as_const_int(op->b);
            if (modulus && *modulus > 1 && *modulus <= largest_modulus) add(op->a, *modulus);
            IRGraphVisitor::visit(op);
        }
        void visit(const Call *op) override {
            if (const auto modulus = modulus_of_xor(op)) add(op->args[1 - place_of_constant(op)], *modulus);
            IRGraphVisitor::visit(op);
        }
    } find;
    find.scope = &scope;
    e.accept(&find);
    return find.found;
}

// Rewrites x ^ c as x plus a number, where the low bits of x are known.
Expr without_xor(const Expr &e) {
    struct Replace : IRMutator {
        using IRMutator::visit;
        Expr visit(const Call *op) override {
            const Expr same = IRMutator::visit(op);
            const auto *call = same.as<Call>();
            const auto modulus = call ? modulus_of_xor(call) : std::nullopt;
            if (!modulus) return same;
            const size_t by_place = place_of_constant(call);
            const Expr &value = call->args[1 - by_place];
            const ModulusRemainder x = modulus_remainder(value);
            if (x.modulus != 0 && x.modulus % *modulus != 0) return same;
            const int64_t low = mod_imp(x.remainder, *modulus), by = *as_const_int(call->args[by_place]);
            return value + static_cast<int>((low ^ by) - low);
        }
    } replace;
    return replace.mutate(e);
}

} // namespace

Interval range_by_residues(const Expr &e, const Ranges &scope) {
    const std::map<std::string, int64_t> moduli = moduli_of(e, scope);
    int64_t classes = 1;
    for (const auto &[variable, modulus] : moduli) classes = std::min(classes * modulus, max_classes + 1);
    if (classes == 1 || classes > max_classes) return range_of(e, scope);
    Interval all = Interval::nothing();
    for (int64_t n = 0; n < classes; n++) {
        Ranges ranges;
        for (auto v = scope.cbegin(); v != scope.cend(); ++v) ranges.push(v.name(), v.value());
        std::map<std::string, Expr> values;
        bool none = false;
        int64_t rest = n;
        for (const auto &[variable, modulus] : moduli) {
            const int m = static_cast<int>(modulus), r = static_cast<int>(rest % modulus);
            rest /= modulus;
            const Interval &v = scope.get(variable);
            const Interval q(simplify((v.min - r + (m - 1)) / m), simplify((v.max - r) / m));
            none = none || is_const_zero(simplify(q.min <= q.max));
            const std::string name = variable + ".quotient";
            ranges.push(name, q);
            values[variable] = Variable::make(Int(32), name) * m + r;
        }
        if (none) continue;
        all.include(range_of(simplified(without_xor(simplified(substitute(values, e)))), ranges));
    }
    if (all.is_empty()) return range_of(e, scope);
    return {simplify(all.min), simplify(all.max)};
}

} // namespace kumiko
