#include "autotune/features/affine.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kumiko {

namespace ir = Halide::Internal;

double Affine::coefficient(int loop) const {
    for (const auto &[l, c] : terms) {
        if (l == loop) return c;
    }
    return 0;
}

double Affine::at(const std::vector<double> &values) const {
    double sum = constant;
    for (const auto &[l, c] : terms) sum += c * values[static_cast<size_t>(l)];
    return sum;
}

Affine &Affine::operator+=(const Affine &other) {
    constant += other.constant;
    known = known && other.known;
    std::vector<std::pair<int, double>> merged;
    auto a = terms.begin();
    auto b = other.terms.begin();
    while (a != terms.end() || b != other.terms.end()) {
        if (b == other.terms.end() || (a != terms.end() && a->first < b->first)) {
            merged.push_back(*a++);
        } else if (a == terms.end() || b->first < a->first) {
            merged.push_back(*b++);
        } else {
            if (a->second + b->second != 0) merged.emplace_back(a->first, a->second + b->second);
            a++, b++;
        }
    }
    terms = std::move(merged);
    return *this;
}

Affine &Affine::operator*=(double factor) {
    constant *= factor;
    if (factor == 0) terms.clear();
    for (auto &[l, c] : terms) c *= factor;
    return *this;
}

namespace {

Affine constant(double value) { return {value, {}, true}; }
Affine unknown() { return {0, {}, false}; }

} // namespace

AffineScope::AffineScope(const Sizes &sizes) {
    for (const auto &[name, value] : sizes) names_[name].push_back(constant(static_cast<double>(value)));
}

void AffineScope::push(const std::string &name, Affine value) { names_[name].push_back(std::move(value)); }

void AffineScope::pop(const std::string &name) {
    const auto found = names_.find(name);
    found->second.pop_back();
    if (found->second.empty()) names_.erase(found);
}

Affine AffineScope::of(const Expr &e) const {
    if (!e.defined()) return unknown();
    if (const auto *imm = e.as<ir::IntImm>()) return constant(static_cast<double>(imm->value));
    if (const auto *imm = e.as<ir::UIntImm>()) return constant(static_cast<double>(imm->value));
    if (const auto *var = e.as<ir::Variable>()) {
        const auto found = names_.find(var->name);
        return found == names_.end() ? unknown() : found->second.back();
    }
    if (const auto *op = e.as<ir::Add>()) {
        Affine a = of(op->a);
        return a += of(op->b);
    }
    if (const auto *op = e.as<ir::Sub>()) {
        Affine a = of(op->a), b = of(op->b);
        return a += b *= -1;
    }
    if (const auto *op = e.as<ir::Mul>()) {
        Affine a = of(op->a), b = of(op->b);
        if (!a.terms.empty() && !b.terms.empty()) return unknown();
        const bool known = a.known && b.known;
        if (a.terms.empty()) std::swap(a, b);
        a *= b.constant;
        a.known = known;
        return a;
    }
    if (const auto *op = e.as<ir::Div>()) {
        Affine a = of(op->a);
        const Affine b = of(op->b);
        if (!b.terms.empty() || b.constant == 0) return unknown();
        const double first = std::floor(a.constant / b.constant);
        a *= 1 / b.constant;
        a.constant = first;
        return a;
    }
    if (const auto *op = e.as<ir::Mod>()) {
        // Terms that are multiples of the modulus do not change the remainder.
        Affine a = of(op->a);
        const Affine b = of(op->b);
        if (!b.terms.empty() || b.constant == 0) return unknown();
        std::erase_if(a.terms, [&](const auto &t) { return std::fmod(t.second, b.constant) == 0; });
        a.constant -= std::floor(a.constant / b.constant) * b.constant;
        return a;
    }
    // A clamped index reaches its bound only at borders: the operand with more varying terms
    // counts.
    const auto varying = [](const Affine &a, const Affine &b) {
        return b.terms.size() > a.terms.size() || !a.known ? b : a;
    };
    if (const auto *op = e.as<ir::Min>()) return varying(of(op->a), of(op->b));
    if (const auto *op = e.as<ir::Max>()) return varying(of(op->a), of(op->b));
    if (const auto *op = e.as<ir::Select>()) return varying(of(op->true_value), of(op->false_value));
    if (const auto *op = e.as<ir::Cast>()) return of(op->value);
    if (const auto *op = e.as<ir::Ramp>()) return of(op->base);
    if (const auto *op = e.as<ir::Broadcast>()) return of(op->value);
    if (const auto *op = e.as<ir::Call>()) {
        if (op->is_tag() || op->is_intrinsic({ir::Call::promise_clamped, ir::Call::unsafe_promise_clamped}))
            return of(op->args[0]);
    }
    return unknown();
}

double AffineScope::value(const Expr &e, const std::vector<double> &values, double otherwise) const {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const auto each = [&](const Expr &x) { return value(x, values, nan); };
    const auto known = [&](double v) { return std::isnan(v) ? otherwise : v; };
    if (const auto *op = e.as<ir::Min>()) return known(std::min(each(op->a), each(op->b)));
    if (const auto *op = e.as<ir::Max>()) return known(std::max(each(op->a), each(op->b)));
    if (const auto *op = e.as<ir::Add>()) return known(each(op->a) + each(op->b));
    if (const auto *op = e.as<ir::Sub>()) return known(each(op->a) - each(op->b));
    if (const auto *op = e.as<ir::Mul>()) return known(each(op->a) * each(op->b));
    if (const auto *op = e.as<ir::Div>()) {
        const double b = each(op->b);
        return known(b == 0 ? 0 : std::floor(each(op->a) / b));
    }
    if (const auto *op = e.as<ir::Mod>()) {
        const double a = each(op->a), b = each(op->b);
        return known(b == 0 ? 0 : a - std::floor(a / b) * b);
    }
    const auto compared = [&](const Expr &a, const Expr &b, auto f) {
        const double x = each(a), y = each(b);
        return std::isnan(x) || std::isnan(y) ? otherwise : static_cast<double>(f(x, y));
    };
    if (const auto *op = e.as<ir::LT>()) return compared(op->a, op->b, std::less<>());
    if (const auto *op = e.as<ir::LE>()) return compared(op->a, op->b, std::less_equal<>());
    if (const auto *op = e.as<ir::GT>()) return compared(op->a, op->b, std::greater<>());
    if (const auto *op = e.as<ir::GE>()) return compared(op->a, op->b, std::greater_equal<>());
    if (const auto *op = e.as<ir::EQ>()) return compared(op->a, op->b, std::equal_to<>());
    if (const auto *op = e.as<ir::NE>()) return compared(op->a, op->b, std::not_equal_to<>());
    if (const auto *op = e.as<ir::And>()) return compared(op->a, op->b, std::logical_and<>());
    if (const auto *op = e.as<ir::Or>()) return compared(op->a, op->b, std::logical_or<>());
    if (const auto *op = e.as<ir::Not>()) {
        const double a = each(op->a);
        return std::isnan(a) ? otherwise : static_cast<double>(a == 0);
    }
    if (const auto *op = e.as<ir::Select>()) {
        const double c = each(op->condition);
        return std::isnan(c) ? otherwise : known(each(c != 0 ? op->true_value : op->false_value));
    }
    if (const auto *op = e.as<ir::Cast>()) return known(each(op->value));
    if (const auto *op = e.as<ir::Broadcast>()) return known(each(op->value));
    if (const auto *op = e.as<ir::Call>()) {
        if (op->is_tag() || op->is_intrinsic({ir::Call::promise_clamped, ir::Call::unsafe_promise_clamped}))
            return known(each(op->args[0]));
    }
    const Affine a = of(e);
    return a.known ? a.at(values) : otherwise;
}

} // namespace kumiko
