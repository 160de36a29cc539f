// Op as text: the formula in mathematical notation.
//
//   matmul(A, B) -> C
//     A: f32[i: 512, k: 256]
//     B: f32[k: 256, j: 128]
//     C: f32[i: 512, j: 128]
//       C(i, j) = sum over k: A(i, k) * B(k, j)
#include "dsl/print.h"

#include "dsl/definition.h"
#include "dsl/extern.h"
#include "dsl/nested.h"
#include "dsl/op.h"
#include "dsl/reads.h"
#include "dsl/recurrence.h"
#include "dsl/types.h"

#include <cmath>
#include <sstream>

namespace kumiko {

using namespace Halide::Internal;

namespace {

// Operator precedence. Parentheses are printed only around a looser operator inside a tighter one.
enum Binding { Loosest, Conditional, OrLevel, AndLevel, Compare, Sum, Product, Unary, Atom };

std::string float_text(double value, Type type) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    std::string text = type.bits() == 64 ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
}

std::string without_type_suffix(const std::string &name) {
    for (const char *suffix : {"_bf16", "_f16", "_f32", "_f64"}) {
        const std::string s = suffix;
        if (name.size() > s.size() && name.ends_with(s)) return name.substr(0, name.size() - s.size());
    }
    return name;
}

// The children that are printed. Reductions and references outside an op also encode their
// definition, which is left out.
std::vector<Expr> printed_children(const Expr &e) {
    const Call *c = e.as<Call>();
    if (c && is_written(c)) return {};
    if (c && is_reduction(c)) return decode_reduction(c).terms;
    if (c && is_reference(c)) return {c->args.begin(), c->args.end() - 1};
    if (c && is_nested(c)) return nested_indices(c);
    return children_of(e);
}

std::string names_of(const std::vector<Axis> &axes) {
    std::string text;
    for (const Axis &a : axes) text += (text.empty() ? "" : ", ") + a.name();
    return text;
}

// Prints one expression. Long common subexpressions are named t1, t2, … and printed after it, so
// that the length of the text stays proportional to the formula.
class Printer {
public:
    explicit Printer(const Expr &root) {
        if (tree_size(root) > 40) share(root);
    }

    std::string print(const Expr &e, Binding outer = Loosest) {
        auto it = shared_.find(e.get());
        if (it == shared_.end()) return print_node(e, outer);
        if (it->second.empty()) {
            const std::string text = print_node(e, Loosest);
            it->second = "t" + std::to_string(where_.size() + 1);
            where_.emplace_back(it->second, text);
        }
        return it->second;
    }

    const std::vector<std::pair<std::string, std::string>> &where() const { return where_; }

private:
    std::map<const void *, double> sizes_;
    std::map<const void *, std::string> shared_;
    std::vector<std::pair<std::string, std::string>> where_;

    double tree_size(const Expr &e) {
        if (auto it = sizes_.find(e.get()); it != sizes_.end()) return it->second;
        double size = 1;
        for (const Expr &c : printed_children(e)) size += tree_size(c);
        return sizes_[e.get()] = size;
    }

    void share(const Expr &root) {
        std::map<const void *, int> uses;
        std::vector<Expr> work = {root};
        while (!work.empty()) {
            const Expr e = work.back();
            work.pop_back();
            if (++uses[e.get()] == 2 && tree_size(e) > 10) shared_[e.get()];
            if (uses[e.get()] == 1) {
                for (const Expr &c : printed_children(e)) work.push_back(c);
            }
        }
    }

    static std::string wrapped(const std::string &text, Binding own, Binding outer) {
        return own < outer ? "(" + text + ")" : text;
    }

    // Left-associative: the right operand needs tighter binding.
    std::string binary(const Expr &a, const char *op, const Expr &b, Binding own, Binding outer) {
        const Binding right = own == OrLevel || own == AndLevel ? own : static_cast<Binding>(own + 1);
        const Binding left = own == Compare ? Sum : own;
        return wrapped(print(a, left) + " " + op + " " + print(b, right), own, outer);
    }

    std::string list(const std::vector<Expr> &args) {
        std::string text;
        for (const Expr &a : args) text += (text.empty() ? "" : ", ") + print(a);
        return text;
    }

    // "sum(X(i, k), k)", "argmax(X(i, k), k).value", "reduce({X(i, k), k}, k)[1]"
    std::string reduction(const ReductionTerm &r) {
        const auto braced = [](const std::string &text, bool several) { return several ? "{" + text + "}" : text; };
        const Select *bound = r.bounded ? r.terms[0].as<Select>() : nullptr;
        const std::string terms = bound ? print(bound->true_value) : list(r.terms);
        std::string text = r.kind + "(" + braced(terms, r.tuple && !r.is_extreme()) + ", " +
                           braced(names_of(r.axes), r.axes.size() > 1) +
                           (bound ? ", where(" + print(bound->condition) + "))" : ")");
        if (r.is_extreme()) return r.component ? text + ".value" : text;
        return r.tuple ? text + "[" + std::to_string(r.component) + "]" : text;
    }

    std::string call(const Call *c, Binding outer) {
        if (c->is_intrinsic(Call::if_then_else) && c->args.size() == 3) {
            return wrapped("if " + print(c->args[0], OrLevel) + " then " + print(c->args[1], OrLevel) + " else " +
                               print(c->args[2], Conditional),
                           Conditional, outer);
        }
        const auto operation = [&](const char *op, Binding b) { return binary(c->args[0], op, c->args[1], b, outer); };
        if (c->is_intrinsic(Call::bitwise_and))
            return wrapped(print(c->args[0], Atom) + " & " + print(c->args[1], Atom), OrLevel, outer);
        if (c->is_intrinsic(Call::bitwise_or))
            return wrapped(print(c->args[0], Atom) + " | " + print(c->args[1], Atom), OrLevel, outer);
        if (c->is_intrinsic(Call::bitwise_xor))
            return wrapped(print(c->args[0], Atom) + " ^ " + print(c->args[1], Atom), OrLevel, outer);
        if (c->is_intrinsic(Call::shift_left)) return operation("<<", Sum);
        if (c->is_intrinsic(Call::shift_right)) return operation(">>", Sum);
        if (c->is_intrinsic(Call::bitwise_not)) return wrapped("~" + print(c->args[0], Unary), Unary, outer);
        if (is_reference(c)) { // a reference in an expression that is not part of an op yet
            return c->name.substr(reference_prefix.size()) + "(" + list({c->args.begin(), c->args.end() - 1}) + ")";
        }
        if (is_written(c)) return decode_written(c).text;
        if (is_reduction(c)) return reduction(decode_reduction(c));
        if (is_earlier(c))
            return c->args[0].as<StringImm>()->value + "(" + list({c->args.begin() + 1, c->args.end()}) + ")";
        if (is_nested(c)) return decode_nested(c).name + "(" + list(nested_indices(c)) + ")";
        const std::string name = c->call_type == Call::PureExtern ? without_type_suffix(c->name) : c->name;
        return name + "(" + list(c->args) + ")";
    }

    std::string print_node(const Expr &e, Binding outer) {
        switch (e.node_type()) {
        case IRNodeType::IntImm: {
            const int64_t v = e.as<IntImm>()->value;
            return wrapped(std::to_string(v), v < 0 ? Unary : Atom, outer);
        }
        case IRNodeType::UIntImm:
            if (e.type().is_bool()) return e.as<UIntImm>()->value ? "true" : "false";
            return std::to_string(e.as<UIntImm>()->value);
        case IRNodeType::FloatImm: {
            const double v = e.as<FloatImm>()->value;
            return wrapped(float_text(v, e.type()), std::signbit(v) ? Unary : Atom, outer);
        }
        case IRNodeType::StringImm:
            return "\"" + e.as<StringImm>()->value + "\"";
        case IRNodeType::Variable: {
            const std::string &name = e.as<Variable>()->name;
            if (name.starts_with("kumiko.")) return name.substr(7);
            return name;
        }
        case IRNodeType::Cast:
            return type_name(e.type()) + "(" + print(e.as<Cast>()->value) + ")";
        case IRNodeType::Reinterpret:
            return "bits_as_" + type_name(e.type()) + "(" + print(e.as<Reinterpret>()->value) + ")";
        case IRNodeType::Add:
            return binary(e.as<Add>()->a, "+", e.as<Add>()->b, Sum, outer);
        case IRNodeType::Sub:
            if (is_const_zero(e.as<Sub>()->a)) return wrapped("-" + print(e.as<Sub>()->b, Unary), Unary, outer);
            return binary(e.as<Sub>()->a, "-", e.as<Sub>()->b, Sum, outer);
        case IRNodeType::Mul:
            return binary(e.as<Mul>()->a, "*", e.as<Mul>()->b, Product, outer);
        case IRNodeType::Div:
            return binary(e.as<Div>()->a, "/", e.as<Div>()->b, Product, outer);
        case IRNodeType::Mod:
            return binary(e.as<Mod>()->a, "%", e.as<Mod>()->b, Product, outer);
        case IRNodeType::Min:
            return "min(" + print(e.as<Min>()->a) + ", " + print(e.as<Min>()->b) + ")";
        case IRNodeType::Max:
            return "max(" + print(e.as<Max>()->a) + ", " + print(e.as<Max>()->b) + ")";
        case IRNodeType::EQ:
            return binary(e.as<EQ>()->a, "==", e.as<EQ>()->b, Compare, outer);
        case IRNodeType::NE:
            return binary(e.as<NE>()->a, "!=", e.as<NE>()->b, Compare, outer);
        case IRNodeType::LT:
            return binary(e.as<LT>()->a, "<", e.as<LT>()->b, Compare, outer);
        case IRNodeType::LE:
            return binary(e.as<LE>()->a, "<=", e.as<LE>()->b, Compare, outer);
        case IRNodeType::GT:
            return binary(e.as<GT>()->a, ">", e.as<GT>()->b, Compare, outer);
        case IRNodeType::GE:
            return binary(e.as<GE>()->a, ">=", e.as<GE>()->b, Compare, outer);
        case IRNodeType::And:
            return conjunction(e, outer);
        case IRNodeType::Or:
            return binary(e.as<Or>()->a, "||", e.as<Or>()->b, OrLevel, outer);
        case IRNodeType::Not:
            return wrapped("!" + print(e.as<Not>()->a, Unary), Unary, outer);
        case IRNodeType::Select: {
            const Select *s = e.as<Select>();
            return "select(" + print(s->condition) + ", " + print(s->true_value) + ", " + print(s->false_value) + ")";
        }
        case IRNodeType::Call:
            return call(e.as<Call>(), outer);
        case IRNodeType::Let: {
            const Let *l = e.as<Let>();
            return wrapped("let " + l->name + " = " + print(l->value) + " in " + print(l->body), Conditional, outer);
        }
        default: {
            std::ostringstream text; // vector nodes do not occur in formulas
            text << e;
            return text.str();
        }
        }
    }

    // Prints `0 <= y && y < H` as `0 <= y < H`.
    std::string conjunction(const Expr &e, Binding outer) {
        std::vector<Expr> terms;
        const std::function<void(const Expr &)> flatten = [&](const Expr &t) {
            if (const And *a = t.as<And>()) {
                flatten(a->a);
                flatten(a->b);
            } else {
                terms.push_back(t);
            }
        };
        flatten(e);
        std::string text;
        for (size_t i = 0; i < terms.size(); i++) {
            if (!text.empty()) text += " && ";
            const LE *low = terms[i].as<LE>();
            const LT *high = i + 1 < terms.size() ? terms[i + 1].as<LT>() : nullptr;
            if (low && high && equal(low->b, high->a)) {
                text += print(low->a, Sum) + " <= " + print(low->b, Sum) + " < " + print(high->b, Sum);
                i++;
            } else {
                text += print(terms[i], AndLevel);
            }
        }
        return wrapped(text, AndLevel, outer);
    }
};

std::string declared(const std::string &name, const std::string &type, const std::vector<Axis> &axes) {
    std::string text = name + ": " + type + "[";
    for (size_t d = 0; d < axes.size(); d++)
        text += (d ? ", " : "") + axes[d].name() + ": " + to_string(axes[d].extent());
    return text + "]";
}

} // namespace

std::string to_string(const Expr &e) {
    if (!e.defined()) return "(undefined)";
    Printer printer(e);
    std::string text = printer.print(e);
    for (const auto &[name, value] : printer.where()) text += ", where " + name + " = " + value;
    return text;
}

std::string to_string(const Expr &e, const std::vector<WrittenPart> &parts) {
    struct Write : IRGraphMutator {
        using IRGraphMutator::mutate;
        const std::vector<WrittenPart> *parts;
        Expr mutate(const Expr &e) override {
            for (const WrittenPart &part : *parts) {
                if (graph_equal(e, part.value)) return written_as(part.text, e);
            }
            return IRGraphMutator::mutate(e);
        }
    } write;
    write.parts = &parts;
    return to_string(write.mutate(e));
}

namespace {

// "(acc + term, acc.1 * term.1)"; no parentheses around a single component.
std::string tuple_text(const Stage &s, Expr Component::*part) {
    std::string text;
    for (const Component &c : s.components) text += (text.empty() ? "" : ", ") + to_string(c.*part);
    return s.components.size() == 1 ? text : "(" + text + ")";
}

bool is_tuple(const Stage &s) { return (s.reduction_kind == "reduce" || !s.is_reduction()) && s.components.size() > 1; }

std::string extern_text(const Stage &s) {
    const std::string &symbol = extern_function(extern_call(s)).symbol;
    std::string text;
    for (const std::string &t : extern_takes(s)) text += (text.empty() ? "" : ", ") + t;
    return "extern " + (symbol.empty() ? "function" : symbol) + "(" + text + ")";
}

// The types of the stage's values: "f32", or "(f32, i32)" for a tuple.
std::string types_text(const Stage &s) {
    if (!is_tuple(s)) return type_name(s.type);
    std::string text;
    for (const Component &c : s.components) text += (text.empty() ? "(" : ", ") + type_name(c.type);
    return text + ")";
}

} // namespace

std::string strides_text(const std::vector<Expr> &strides) {
    if (strides.empty()) return "";
    std::string text = ", strides [";
    for (size_t d = 0; d < strides.size(); d++) text += (d ? ", " : "") + to_string(strides[d]);
    return text + "]";
}

std::string to_string(const Stage &s, const std::string &over) {
    std::string text = s.name + "(" + names_of(s.axes) + ") = ";
    if (is_extern(s)) return text + extern_text(s);
    Expr value = s.value;
    std::string prefix;
    if (s.is_reduction()) {
        value = s.components.back().term; // argmax: the compared value
        prefix = s.reduction_kind + " over " + (over.empty() ? names_of(s.reduction_axes) : over);
        if (s.reduction_kind == "reduce") {
            prefix += " of " + std::string(is_tuple(s) ? "(acc, …)" : "acc") + " = " +
                      tuple_text(s, &Component::combined) + " from " + tuple_text(s, &Component::identity);
        }
        if (const auto *choice = s.bounded ? value.as<Select>() : nullptr) {
            prefix += " where " + to_string(choice->condition);
            value = choice->true_value;
        }
        prefix += ": ";
    }
    if (is_tuple(s)) return text + prefix + tuple_text(s, &Component::term);
    Printer printer(value);
    text += prefix + printer.print(value);
    for (const auto &[name, definition] : printer.where()) text += "\n      where " + name + " = " + definition;
    return text;
}

std::string Op::to_string() const {
    std::string text = name() + "(";
    for (const Input &in : inputs()) text += (&in == &inputs()[0] ? "" : ", ") + in.name;
    text += ") -> ";
    for (size_t o = 0; o < outputs().size(); o++) text += (o ? ", " : "") + outputs()[o];
    text += "\n";
    for (const Input &in : inputs()) {
        text += "  " + declared(in.name, type_name(in.type), in.axes);
        if (in.stated_strides) text += strides_text(in.strides);
        if (in.inout) text += ", inout";
        text += "\n";
    }
    for (const Stage &s : stages()) {
        // The extent of a reduction axis is printed only if no tensor above shows it.
        std::string over;
        for (const Axis &a : s.reduction_axes) {
            bool said = false;
            const auto look = [&](const std::vector<Axis> &axes) {
                for (const Axis &b : axes) said = said || (a.name() == b.name() && equal(a.extent(), b.extent()));
            };
            for (const Input &in : inputs()) look(in.axes);
            over += (over.empty() ? "" : ", ") + a.name() + (said ? "" : " < " + kumiko::to_string(a.extent()));
        }
        text += "  " + declared(s.name, types_text(s), s.axes) + strides_text(s.strides) +
                (s.updates.empty() ? "" : ", in the array of " + s.updates) + "\n    " + kumiko::to_string(s, over) +
                "\n";
    }
    return text;
}

} // namespace kumiko
