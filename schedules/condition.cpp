#include "schedules/condition.h"

#include "schedules/values.h"
#include "support/error.h"
#include "support/names.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

// Precedence levels: 1 ||, 2 &&, 3 comparisons, 4 + −, 5 * / %, 6 atoms.
std::string text_of(const Expr &e, int level) {
    const auto binary = [&](const auto *op, const char *sign, int own) {
        const std::string text = text_of(op->a, own) + " " + sign + " " + text_of(op->b, own + 1);
        return own < level ? "(" + text + ")" : text;
    };
    if (const auto n = as_const_int(e)) return std::to_string(*n);
    if (const auto n = as_const_uint(e)) return e.type().is_bool() ? (*n ? "true" : "false") : std::to_string(*n);
    if (const auto *v = e.as<Variable>()) return v->name;
    if (const auto *op = e.as<Add>()) return binary(op, "+", 4);
    if (const auto *op = e.as<Sub>()) return binary(op, "-", 4);
    if (const auto *op = e.as<Mul>()) return binary(op, "*", 5);
    if (const auto *op = e.as<Div>()) return binary(op, "/", 5);
    if (const auto *op = e.as<Mod>()) return binary(op, "%", 5);
    if (const auto *op = e.as<EQ>()) return binary(op, "==", 3);
    if (const auto *op = e.as<NE>()) return binary(op, "!=", 3);
    if (const auto *op = e.as<LT>()) return binary(op, "<", 3);
    if (const auto *op = e.as<LE>()) return binary(op, "<=", 3);
    if (const auto *op = e.as<GT>()) return binary(op, ">", 3);
    if (const auto *op = e.as<GE>()) return binary(op, ">=", 3);
    if (const auto *op = e.as<And>()) return binary(op, "&&", 2);
    if (const auto *op = e.as<Or>()) return binary(op, "||", 1);
    if (const auto *op = e.as<Not>()) return "!" + text_of(op->a, 6);
    if (const auto *op = e.as<Min>()) return "min(" + text_of(op->a, 1) + ", " + text_of(op->b, 1) + ")";
    if (const auto *op = e.as<Max>()) return "max(" + text_of(op->a, 1) + ", " + text_of(op->b, 1) + ")";
    if (const auto w = values_condition(e))
        return fmt::format("within(\"{}\", {}, {})", w->input, w->range.min, w->range.max);
    throw UserError(
        "a condition may use sizes, numbers, + - * / %, min, max, comparisons, within(input, min, max), && || and "
        "!, but nothing else");
}

class Parser {
public:
    Parser(const Op &op, const std::string &text) : op_(op), text_(text) {}

    Expr run() {
        Expr e = disjunction();
        skip();
        if (at_ != text_.size()) fail("unexpected \"" + text_.substr(at_, 1) + "\"");
        return e;
    }

private:
    const Op &op_;
    const std::string &text_;
    size_t at_ = 0;

    [[noreturn]] void fail(const std::string &why) const {
        throw UserError("the condition \"" + text_ + "\" cannot be read at character " + std::to_string(at_ + 1) +
                        ": " + why);
    }
    void skip() {
        while (at_ < text_.size() && isspace(static_cast<unsigned char>(text_[at_]))) at_++;
    }
    bool take(const std::string &token) {
        skip();
        if (text_.compare(at_, token.size(), token)) return false;
        at_ += token.size();
        return true;
    }
    void demand_same(const Expr &a, const Expr &b) const {
        if (a.type().is_bool() || b.type().is_bool()) fail("a number is needed, not a condition");
    }
    void demand_bool(const Expr &a) const {
        if (!a.type().is_bool()) fail("a condition is needed, not a number");
    }
    Expr disjunction() {
        Expr e = conjunction();
        while (take("||")) {
            Expr r = conjunction();
            demand_bool(e), demand_bool(r);
            e = Or::make(e, r);
        }
        return e;
    }
    Expr conjunction() {
        Expr e = comparison();
        while (take("&&")) {
            Expr r = comparison();
            demand_bool(e), demand_bool(r);
            e = And::make(e, r);
        }
        return e;
    }
    Expr comparison() {
        Expr e = additive();
        for (const char *sign : {"==", "!=", "<=", ">=", "<", ">"}) {
            if (!take(sign)) continue;
            Expr r = additive();
            demand_same(e, r);
            const std::string s = sign;
            if (s == "==") return EQ::make(e, r);
            if (s == "!=") return NE::make(e, r);
            if (s == "<=") return LE::make(e, r);
            if (s == ">=") return GE::make(e, r);
            return s == "<" ? LT::make(e, r) : GT::make(e, r);
        }
        return e;
    }
    Expr additive() {
        Expr e = multiplicative();
        while (true) {
            const bool plus = take("+");
            if (!plus && !take("-")) return e;
            Expr r = multiplicative();
            demand_same(e, r);
            e = plus ? Add::make(e, r) : Sub::make(e, r);
        }
    }
    Expr multiplicative() {
        Expr e = atom();
        while (true) {
            const char sign = take("*") ? '*' : take("/") ? '/' : take("%") ? '%' : 0;
            if (!sign) return e;
            Expr r = atom();
            demand_same(e, r);
            e = sign == '*' ? Mul::make(e, r) : sign == '/' ? Div::make(e, r) : Mod::make(e, r);
        }
    }
    // Parses the arguments of "within": (input, smallest, largest).
    Expr values() {
        if (!take("(")) fail("\"(\" is missing");
        if (!take("\"")) fail("the name of an input in quotes is needed");
        const size_t end = text_.find('"', at_);
        if (end == std::string::npos) fail("the quote is not closed");
        ValuesWithin w{text_.substr(at_, end - at_), {}};
        at_ = end + 1;
        for (int64_t *bound : {&w.range.min, &w.range.max}) {
            if (!take(",")) fail("\",\" is missing");
            const Expr e = simplify(additive());
            const auto n = as_const_int(e);
            if (!n) fail("a number is needed");
            *bound = *n;
        }
        if (!take(")")) fail("\")\" is missing");
        if (const std::string why = values_refused(op_, w); !why.empty()) fail(why);
        return within(w.input, w.range.min, w.range.max);
    }
    Expr atom() {
        skip();
        if (take("(")) {
            Expr e = disjunction();
            if (!take(")")) fail("\")\" is missing");
            return e;
        }
        if (take("!")) {
            Expr e = atom();
            demand_bool(e);
            return Not::make(e);
        }
        size_t end = at_ + (at_ < text_.size() && text_[at_] == '-');
        while (end < text_.size() && isdigit(static_cast<unsigned char>(text_[end]))) end++;
        if (end > at_ && isdigit(static_cast<unsigned char>(text_[end - 1]))) {
            if (end - at_ > 10) fail("the number is too large");
            const int64_t n = std::stoll(text_.substr(at_, end - at_));
            if (n != static_cast<int32_t>(n)) fail("the number is too large");
            at_ = end;
            return static_cast<int>(n);
        }
        end = at_;
        while (end < text_.size() && (isalnum(static_cast<unsigned char>(text_[end])) || text_[end] == '_')) end++;
        const std::string name = text_.substr(at_, end - at_);
        if (name.empty()) fail("a number, a size or \"(\" is needed");
        if (name == "true" || name == "false") {
            at_ = end;
            return name == "true" ? const_true() : const_false();
        }
        if (name == "within") {
            at_ = end;
            return values();
        }
        if (name == "min" || name == "max") {
            at_ = end;
            if (!take("(")) fail("\"(\" is missing");
            Expr a = additive();
            if (!take(",")) fail("\",\" is missing");
            Expr b = additive();
            if (!take(")")) fail("\")\" is missing");
            demand_same(a, b);
            return name == "min" ? Min::make(a, b) : Max::make(a, b);
        }
        const auto &sizes = op_.sizes();
        if (std::find(sizes.begin(), sizes.end(), name) == sizes.end()) {
            fail("\"" + name + "\" is not a size of op " + op_.name() + suggest(name, sizes));
        }
        at_ = end;
        return Variable::make(Int(32), name);
    }
};

} // namespace

std::string condition_text(const Expr &condition) {
    if (!condition.defined()) throw UserError("the condition is undefined");
    return text_of(condition, 1);
}

Expr parse_condition(const Op &op, const std::string &text) {
    Expr e = Parser(op, text).run();
    if (!e.type().is_bool()) throw UserError("the condition \"" + text + "\" is a number; compare it with something");
    return e;
}

void check_condition(const Op &op, const Expr &condition, const std::string &what, const std::source_location &where) {
    if (!condition.defined()) throw UserError(where, what + ": the condition is undefined");
    if (!condition.type().is_bool())
        throw UserError(where, what + ": the condition is a number; compare it with something");
    try {
        parse_condition(op, condition_text(condition));
    } catch (const UserError &e) {
        throw UserError(where, what + ": " + e.what());
    }
}

} // namespace kumiko
