// Compiles expressions to the flat programs of program.h.
//
// One file, because it is one class: a method for each kind of expression.
#include "dsl/interpreter/program.h"
#include "dsl/interpreter/scatter.h"
#include "dsl/print.h"
#include "dsl/recurrence.h"
#include "dsl/types.h"
#include "support/error.h"

#include <cmath>
#include <optional>

namespace kumiko::interpreter {

using namespace Halide::Internal;

namespace {

Affine combined(const Affine &a, int64_t fa, const Affine &b, int64_t fb) {
    Affine r;
    r.constant = a.constant * fa + b.constant * fb;
    std::map<int, int64_t> terms;
    for (const auto &[l, c] : a.terms) terms[l] += c * fa;
    for (const auto &[l, c] : b.terms) terms[l] += c * fb;
    for (const auto &[l, c] : terms) {
        if (c) r.terms.emplace_back(l, c);
    }
    return r;
}

class Compiler {
public:
    Compiler(const Context &context, Program &program) : context_(context), p_(program) {}

    std::map<std::string, int> bound_variables; // registers of accumulators and terms

    int compile(const Expr &e, int mask) {
        const auto key = std::make_pair(e.get(), mask);
        if (auto it = done_.find(key); it != done_.end()) return it->second;
        kept_.push_back(e);
        const int reg = compile_node(e, mask);
        return done_[key] = reg;
    }

    int add_register(Type type, bool row, int level) {
        p_.registers.push_back({context_.domain(type), type, row, level});
        return static_cast<int>(p_.registers.size()) - 1;
    }

    int constant(Type type, int64_t i, double d) {
        const int reg = add_register(type, false, 0);
        p_.constants.push_back({reg, i, d});
        return reg;
    }

    // Appends the instruction to the code of the innermost loop that one of its operands depends
    // on.
    int emit(Code code, Type type, int a, int b = -1, int c = -1, int mask = -1, int extra = -1, bool row = false,
             int level = 0) {
        for (int operand : {a, b, c}) {
            if (operand < 0) continue;
            row = row || p_.registers[operand].row;
            level = std::max(level, p_.registers[operand].level);
        }
        if (mask >= 0) level = std::max(level, p_.masks[mask].level);
        const int dst = add_register(type, row, level);
        p_.code[level].push_back({code, type, dst, a, b, c, mask, extra});
        return dst;
    }

private:
    const Context &context_;
    Program &p_;
    std::map<std::pair<const void *, int>, int> done_;
    std::vector<Expr> kept_;
    std::map<std::string, int> lets_;

    int level_of(const std::string &name) const {
        for (size_t l = 0; l < p_.loops.size(); l++) {
            if (p_.loops[l].name == name) return static_cast<int>(l) + 1;
        }
        return 0;
    }

    std::optional<Affine> affine(const Expr &e) const {
        if (const auto *i = e.as<IntImm>()) return Affine{i->value, {}};
        if (const auto *v = e.as<Variable>()) {
            if (const int l = level_of(v->name)) return Affine{0, {{l, 1}}};
            if (auto it = context_.sizes.find(v->name); it != context_.sizes.end()) return Affine{it->second, {}};
            return std::nullopt;
        }
        const auto both = [&](const Expr &a, const Expr &b, int64_t fb) -> std::optional<Affine> {
            const auto x = affine(a), y = affine(b);
            if (!x || !y) return std::nullopt;
            return combined(*x, 1, *y, fb);
        };
        if (const auto *n = e.as<Add>()) return both(n->a, n->b, 1);
        if (const auto *n = e.as<Sub>()) return both(n->a, n->b, -1);
        if (const auto *n = e.as<Mul>()) {
            const auto x = affine(n->a), y = affine(n->b);
            if (!x || !y) return std::nullopt;
            if (x->terms.empty()) return combined(*y, x->constant, {}, 0);
            if (y->terms.empty()) return combined(*x, y->constant, {}, 0);
        }
        if (const auto *n = e.as<Div>()) {
            const auto x = affine(n->a), y = affine(n->b);
            if (x && y && x->terms.empty() && y->terms.empty() && y->constant > 0) {
                return Affine{div_imp(x->constant, y->constant), {}};
            }
        }
        return std::nullopt;
    }

    // The range of an affine function over the loops. Saturates far outside any index.
    std::pair<int64_t, int64_t> range(const Affine &a) const {
        __int128 low = a.constant, high = a.constant;
        for (const auto &[l, c] : a.terms) {
            const Loop &loop = p_.loops[l - 1];
            const __int128 first = static_cast<__int128>(c) * loop.begin,
                           reach = static_cast<__int128>(c) * (loop.extent - 1);
            low += first + (c > 0 ? 0 : reach);
            high += first + (c > 0 ? reach : 0);
        }
        const auto clamp = [](__int128 v) {
            return static_cast<int64_t>(std::clamp<__int128>(v, INT64_MIN / 4, INT64_MAX / 4));
        };
        return {clamp(low), clamp(high)};
    }

    static int level(const Affine &a) { return a.terms.empty() ? 0 : a.terms.back().first; }
    int64_t row_coefficient(const Affine &a) const {
        for (const auto &[l, c] : a.terms) {
            if (l == p_.row_level) return c;
        }
        return 0;
    }

    int add_affine(const Affine &a) {
        p_.affines.push_back(a);
        return static_cast<int>(p_.affines.size()) - 1;
    }

    // If e is a conjunction of affine comparisons: the affines that are all >= 0 exactly if e
    // holds.
    bool conjuncts(const Expr &e, std::vector<Affine> &out) const {
        const auto compare = [&](const Expr &small, const Expr &large, int64_t gap) {
            if (small.type() != Int(32)) return false;
            const auto a = affine(small), b = affine(large);
            if (!a || !b) return false;
            out.push_back(combined(*b, 1, *a, -1));
            out.back().constant -= gap;
            return true;
        };
        if (const auto *n = e.as<And>()) return conjuncts(n->a, out) && conjuncts(n->b, out);
        if (const auto *n = e.as<LT>()) return compare(n->a, n->b, 1);
        if (const auto *n = e.as<LE>()) return compare(n->a, n->b, 0);
        if (const auto *n = e.as<GT>()) return compare(n->b, n->a, 1);
        if (const auto *n = e.as<GE>()) return compare(n->b, n->a, 0);
        if (const auto *u = e.as<UIntImm>()) return u->value == 1;
        return false;
    }

    // mask ∧ conjuncts ∧ reg.
    int add_mask(int mask, const std::vector<Affine> &conjunct, int reg) {
        Mask m;
        if (mask >= 0) m = p_.masks[mask];
        for (const Affine &a : conjunct) {
            m.conjuncts.push_back(add_affine(a));
            m.level = std::max(m.level, level(a));
            m.row = m.row || row_coefficient(a) != 0;
        }
        if (reg >= 0) {
            if (m.reg >= 0) reg = emit(Code::And, Bool(), m.reg, reg);
            m.reg = reg;
            m.row = m.row || p_.registers[reg].row;
            m.level = std::max(m.level, p_.registers[reg].level);
        }
        p_.masks.push_back(m);
        return static_cast<int>(p_.masks.size()) - 1;
    }

    int conditional(const Expr &cond, const Expr &a, const Expr &b, int mask) {
        std::vector<Affine> all;
        if (conjuncts(cond, all)) {
            std::vector<Affine> open;
            for (const Affine &c : all) {
                const auto [low, high] = range(c);
                if (high < 0) return compile(b, mask);
                if (low < 0) open.push_back(c);
            }
            if (open.empty()) return compile(a, mask);
            const int inside = add_mask(mask, open, -1);
            const int ra = compile(a, inside);
            // Masked-off lanes are zero already.
            if (is_plain_zero(b) && is_masked_load(ra, inside)) return ra;
            const int own = add_mask(-1, open, -1);
            int outside = mask;
            if (!is_const(b)) {
                const int rc = emit(Code::Blend, Bool(), constant(Bool(), 0, 0), constant(Bool(), 1, 0), -1, own, own,
                                    p_.masks[own].row);
                outside = add_mask(mask, {}, rc);
            }
            const int rb = compile(b, outside);
            return emit(Code::Blend, a.type(), ra, rb, -1, own, own, p_.masks[own].row);
        }
        const int rc = compile(cond, mask);
        const int ra = compile(a, add_mask(mask, {}, rc));
        const int rb = compile(b, add_mask(mask, {}, emit(Code::Not, Bool(), rc)));
        return emit(Code::Select, a.type(), ra, rb, rc);
    }

    static bool is_plain_zero(const Expr &e) { // not −0
        const auto *f = e.as<FloatImm>();
        return is_const_zero(e) && !(f && std::signbit(f->value));
    }

    bool is_masked_load(int reg, int mask) const {
        for (const auto &level : p_.code) {
            if (!level.empty() && level.back().dst == reg)
                return level.back().code == Code::Load && level.back().mask == mask;
        }
        return false;
    }

    int read(const Call *call, int mask) {
        const std::string &name = call->name;
        if (const Stage *s = context_.op->find_stage(name); s && s->kind == Stage::Kind::Padding) {
            std::map<std::string, Expr> at;
            for (size_t d = 0; d < s->axes.size(); d++) at[s->axes[d].name()] = call->args[d];
            return compile(substitute(at, s->value), mask);
        }
        const auto it = context_.array_of.find(name);
        if (it == context_.array_of.end())
            throw InternalError("the interpreter reads \"" + name + "\" before it is computed");
        const Array &array = context_.arrays[it->second];
        Access access;
        access.array = it->second;
        access.address.constant = -array.origin;
        int at_level = 0;
        bool row = false;
        for (size_t d = 0; d < call->args.size(); d++) {
            if (const auto a = affine(call->args[d])) {
                access.address = combined(access.address, 1, *a, array.strides[d]);
                at_level = std::max(at_level, level(*a));
                row = row || row_coefficient(*a) != 0;
                const auto [low, high] = range(*a);
                const Range held = array.held(d);
                if (low < held.begin || high >= held.end) access.checked.push_back({*a, -1, d});
            } else {
                const int reg = compile(call->args[d], mask);
                access.checked.push_back({{}, reg, d});
                access.gather = access.gather || p_.registers[reg].row;
                row = row || p_.registers[reg].row;
                at_level = std::max(at_level, p_.registers[reg].level);
            }
        }
        p_.accesses.push_back(access);
        if (mask >= 0) row = row || p_.masks[mask].row;
        return emit(Code::Load, call->type, -1, -1, -1, mask, static_cast<int>(p_.accesses.size()) - 1, row, at_level);
    }

    int binary(Code code, const Expr &a, const Expr &b, Type type, int mask) {
        const int ra = compile(a, mask), rb = compile(b, mask);
        return emit(code, type, ra, rb, -1, mask);
    }

    int variable(const Variable *v) {
        if (auto it = lets_.find(v->name); it != lets_.end()) return it->second;
        if (auto it = bound_variables.find(v->name); it != bound_variables.end()) return it->second;
        if (auto it = context_.sizes.find(v->name); it != context_.sizes.end() && !level_of(v->name)) {
            return constant(v->type, it->second, 0);
        }
        const int l = level_of(v->name);
        if (!l)
            throw UserError("stage \"" + p_.stage + "\" uses \"" + v->name +
                            "\", which is neither an axis of it nor a size");
        return emit(Code::Affine, v->type, -1, -1, -1, -1, add_affine({0, {{l, 1}}}), l == p_.row_level, l);
    }

    int compile_node(const Expr &e, int mask) {
        const Type t = e.type();
        switch (e.node_type()) {
        case IRNodeType::IntImm:
            return constant(t, e.as<IntImm>()->value, 0);
        case IRNodeType::UIntImm:
            return constant(t, static_cast<int64_t>(e.as<UIntImm>()->value), 0);
        case IRNodeType::FloatImm:
            return constant(t, 0, e.as<FloatImm>()->value);
        case IRNodeType::Variable:
            return variable(e.as<Variable>());
        case IRNodeType::Cast: {
            const int a = compile(e.as<Cast>()->value, mask);
            return p_.registers[a].type == t ? a : emit(Code::Cast, t, a);
        }
        case IRNodeType::Reinterpret:
            return emit(Code::Reinterpret, t, compile(e.as<Reinterpret>()->value, mask));
        case IRNodeType::Add:
            return binary(Code::Add, e.as<Add>()->a, e.as<Add>()->b, t, mask);
        case IRNodeType::Sub:
            return binary(Code::Sub, e.as<Sub>()->a, e.as<Sub>()->b, t, mask);
        case IRNodeType::Mul:
            return binary(Code::Mul, e.as<Mul>()->a, e.as<Mul>()->b, t, mask);
        case IRNodeType::Div:
            return binary(Code::Div, e.as<Div>()->a, e.as<Div>()->b, t, mask);
        case IRNodeType::Mod:
            return binary(Code::Mod, e.as<Mod>()->a, e.as<Mod>()->b, t, mask);
        case IRNodeType::Min:
            return binary(Code::Min, e.as<Min>()->a, e.as<Min>()->b, t, mask);
        case IRNodeType::Max:
            return binary(Code::Max, e.as<Max>()->a, e.as<Max>()->b, t, mask);
        case IRNodeType::EQ:
            return binary(Code::EQ, e.as<EQ>()->a, e.as<EQ>()->b, t, mask);
        case IRNodeType::NE:
            return binary(Code::NE, e.as<NE>()->a, e.as<NE>()->b, t, mask);
        case IRNodeType::LT:
            return binary(Code::LT, e.as<LT>()->a, e.as<LT>()->b, t, mask);
        case IRNodeType::LE:
            return binary(Code::LE, e.as<LE>()->a, e.as<LE>()->b, t, mask);
        case IRNodeType::GT:
            return binary(Code::LT, e.as<GT>()->b, e.as<GT>()->a, t, mask);
        case IRNodeType::GE:
            return binary(Code::LE, e.as<GE>()->b, e.as<GE>()->a, t, mask);
        case IRNodeType::And:
            return binary(Code::And, e.as<And>()->a, e.as<And>()->b, t, mask);
        case IRNodeType::Or:
            return binary(Code::Or, e.as<Or>()->a, e.as<Or>()->b, t, mask);
        case IRNodeType::Not:
            return emit(Code::Not, t, compile(e.as<Not>()->a, mask));
        case IRNodeType::Select: {
            const Select *s = e.as<Select>();
            const int c = compile(s->condition, mask), a = compile(s->true_value, mask),
                      b = compile(s->false_value, mask);
            return emit(Code::Select, t, a, b, c);
        }
        case IRNodeType::Let: {
            const Let *l = e.as<Let>();
            lets_[l->name] = compile(l->value, mask);
            return compile(l->body, mask);
        }
        case IRNodeType::Call:
            return compile_call(e.as<Call>(), mask);
        default:
            throw Unsupported("the interpreter does not know the expression " + to_string(e));
        }
    }

    int compile_call(const Call *c, int mask) {
        if (c->call_type == Call::Image) return read(c, mask);
        const auto &args = c->args;
        if (c->is_intrinsic(Call::if_then_else) && args.size() == 3)
            return conditional(args[0], args[1], args[2], mask);
        for (auto pass :
             {Call::likely, Call::likely_if_innermost, Call::promise_clamped, Call::unsafe_promise_clamped}) {
            if (c->is_intrinsic(pass)) return compile(args[0], mask);
        }
        if (c->is_intrinsic(Call::return_second)) return compile(args[1], mask);
        if (c->is_intrinsic(Call::undef)) return constant(c->type, 0, 0);
        if (c->is_intrinsic(Call::abs)) return emit(Code::Abs, c->type, compile(args[0], mask), -1, -1, mask);
        const struct {
            Call::IntrinsicOp intrinsic;
            Code code;
        } one_to_one[] = {{Call::bitwise_and, Code::BitAnd},
                          {Call::bitwise_or, Code::BitOr},
                          {Call::bitwise_xor, Code::BitXor},
                          {Call::bitwise_not, Code::BitNot},
                          {Call::shift_left, Code::ShiftLeft},
                          {Call::shift_right, Code::ShiftRight},
                          {Call::div_round_to_zero, Code::DivToZero},
                          {Call::mod_round_to_zero, Code::ModToZero},
                          {Call::count_leading_zeros, Code::LeadingZeros},
                          {Call::count_trailing_zeros, Code::TrailingZeros},
                          {Call::popcount, Code::PopCount},
                          {Call::strict_add, Code::Add},
                          {Call::strict_sub, Code::Sub},
                          {Call::strict_mul, Code::Mul},
                          {Call::strict_div, Code::Div},
                          {Call::strict_min, Code::Min},
                          {Call::strict_max, Code::Max},
                          {Call::strict_lt, Code::LT},
                          {Call::strict_le, Code::LE},
                          {Call::strict_eq, Code::EQ}};
        for (const auto &[intrinsic, code] : one_to_one) {
            if (!c->is_intrinsic(intrinsic)) continue;
            return args.size() == 1 ? emit(code, c->type, compile(args[0], mask))
                                    : binary(code, args[0], args[1], c->type, mask);
        }
        // Intrinsics that are shorthand for other expressions.
        for (auto each :
             {Call::widening_add, Call::widening_sub, Call::widening_mul, Call::widen_right_add, Call::widen_right_sub,
              Call::widen_right_mul, Call::widening_shift_left, Call::widening_shift_right, Call::rounding_shift_left,
              Call::rounding_shift_right, Call::saturating_add, Call::saturating_sub, Call::saturating_cast,
              Call::halving_add, Call::halving_sub, Call::rounding_halving_add, Call::mul_shift_right,
              Call::rounding_mul_shift_right, Call::sorted_avg}) {
            if (c->is_intrinsic(each)) return compile(lower_intrinsic(c), mask);
        }
        if (c->is_intrinsic(Call::lerp)) return compile(lower_lerp(c->type, args[0], args[1], args[2], {}), mask);
        if (c->is_intrinsic(Call::mux)) return compile(lower_mux(c), mask);
        if (c->is_intrinsic(Call::extract_bits)) return compile(lower_extract_bits(c), mask);
        if (c->is_intrinsic(Call::concat_bits)) return compile(lower_concat_bits(c), mask);
        if (c->is_intrinsic(Call::absd)) {
            const Type w = args[0].type().is_float() ? args[0].type() : Int(64);
            Expr d = Sub::make(cast(w, args[0]), cast(w, args[1]));
            return compile(cast(c->type, Select::make(LT::make(d, make_zero(w)), Sub::make(make_zero(w), d), d)), mask);
        }
        return compile_function(c, mask);
    }

    // A call by name, of a function of libm or of a predicate.
    int compile_function(const Call *c, int mask) {
        const auto &args = c->args;
        std::string name = c->name;
        for (const char *suffix : {"_bf16", "_f16", "_f32", "_f64"}) {
            if (c->call_type == Call::PureExtern && name.ends_with(suffix)) {
                name.resize(name.size() - std::string(suffix).size());
                break;
            }
        }
        if (name == "is_nan") return emit(Code::IsNan, c->type, compile(args[0], mask));
        if (name == "is_inf") return emit(Code::IsInf, c->type, compile(args[0], mask));
        if (name == "is_finite") return emit(Code::IsFinite, c->type, compile(args[0], mask));
        if (name == "abs" && args.size() == 1) return emit(Code::Abs, c->type, compile(args[0], mask));
        for (size_t f = 0; f < unary_functions().size() && args.size() == 1; f++) {
            if (name == unary_functions()[f].name) {
                return emit(Code::Unary, c->type, compile(args[0], mask), -1, -1, -1, static_cast<int>(f));
            }
        }
        for (size_t f = 0; f < binary_functions().size() && args.size() == 2; f++) {
            if (name == binary_functions()[f].first) {
                const int a = compile(args[0], mask), b = compile(args[1], mask);
                return emit(Code::Binary, c->type, a, b, -1, -1, static_cast<int>(f));
            }
        }
        throw Unsupported("the interpreter does not know the function \"" + c->name + "\" of stage \"" + p_.stage +
                          "\"");
    }
};

// Estimated cost in ns of rows along an axis: a fixed cost per row, plus a cost per element that is
// higher for strided access.
double row_cost(double total, int64_t extent, double element) {
    const double lanes = static_cast<double>(std::min(std::max<int64_t>(extent, 1), row_lanes));
    return total / lanes * 80 + total * element;
}

// The instruction that folds a term into the accumulator; Move if there is none.
Code fold_of(const Stage &stage) {
    if (stage.components.size() != 1) return Code::Move;
    const Expr &c = stage.components[0].combined;
    const std::string acc = accumulator_variable(0), term = term_variable(0);
    const auto folds = [&](const auto *n, const std::string &first, const std::string &second) {
        if (!n) return false;
        const auto *a = n->a.template as<Variable>();
        const auto *b = n->b.template as<Variable>();
        return a && b && a->name == first && b->name == second;
    };
    if (folds(c.as<Add>(), acc, term)) return Code::Add;
    if (folds(c.as<Mul>(), acc, term)) return Code::Mul;
    if (folds(c.as<Min>(), term, acc)) return Code::Min;
    if (folds(c.as<Max>(), term, acc)) return Code::Max;
    return Code::Move;
}

// Which loop runs in lanes: along an axis (−1: none), or along the innermost reduction axis.
struct RowLoop {
    int axis = -1;
    bool folds = false;
};

// Lanes run along the cheapest pure axis, or along the innermost reduction axis if that is much
// cheaper.
RowLoop choose_row_loop(const Stage &stage, const std::vector<int64_t> &extents,
                        const std::vector<int64_t> &reduction_extents, Code fold) {
    double total = 1;
    for (int64_t e : extents) total *= static_cast<double>(e);
    for (int64_t e : reduction_extents) total *= static_cast<double>(e);
    RowLoop row;
    double best = std::numeric_limits<double>::infinity();
    const std::string named = scatter_axis(stage);
    for (size_t d = extents.size(); d-- > 0;) {
        if (!carried_by_other_axes(stage, stage.axes[d].name()) || stage.axes[d].name() == named) continue;
        const double cost = row_cost(total, extents[d], d + 1 == extents.size() ? 1 : 3);
        if (cost < best) {
            best = cost;
            row.axis = static_cast<int>(d);
        }
    }
    if (stage.is_reduction()) {
        const double cost = row_cost(total, reduction_extents.back(), fold == Code::Move ? 60 : 3);
        row.folds = named.empty() && (row.axis < 0 || cost < best);
    }
    return row;
}

// Compiles the identities, terms and folds of a reduction, whose loops are set.
void compile_reduction(Compiler &compiler, Program &p, const Stage &stage) {
    for (const Component &c : stage.components) {
        p.identities.push_back(compiler.compile(c.identity, -1));
        p.terms.push_back(compiler.compile(c.term, -1));
    }
    const int innermost = static_cast<int>(p.loops.size()), step = p.fold_lanes ? innermost + 1 : innermost;
    for (size_t c = 0; c < stage.components.size(); c++) {
        const Type t = stage.components[c].type;
        p.accumulators.push_back(compiler.add_register(t, !p.fold_lanes, step));
        compiler.bound_variables[accumulator_variable(c)] = p.accumulators[c];
        if (p.fold_lanes) p.fold_terms.push_back(compiler.add_register(t, false, step));
        compiler.bound_variables[term_variable(c)] = p.fold_lanes ? p.fold_terms[c] : p.terms[c];
    }
    for (const Component &c : stage.components) p.results.push_back(compiler.compile(c.combined, -1));
    std::vector<Instruction> &code = p.code[step];
    if (p.results.size() == 1 && p.results[0] != p.terms[0] && !code.empty() && code.back().dst == p.results[0]) {
        code.back().dst = p.accumulators[0]; // in place
    } else {
        for (size_t c = 0; c < p.results.size(); c++) {
            code.push_back({Code::Move, stage.components[c].type, p.accumulators[c], p.results[c]});
        }
    }
}

} // namespace

Program compile(const Context &context, const Stage &stage, const std::vector<int64_t> &extents,
                const std::vector<int64_t> &reduction_extents, const std::vector<int64_t> &begins) {
    Program p;
    p.stage = stage.name;
    const auto pure_loop = [&](size_t d) {
        return Loop{stage.axes[d].name(), extents[d], begins.empty() ? 0 : begins[d]};
    };
    const Code fold = stage.is_reduction() ? fold_of(stage) : Code::Move;
    const RowLoop row = choose_row_loop(stage, extents, reduction_extents, fold);
    p.fold_lanes = row.folds;
    // Loop order: pure loops, the row loop last among them; then the reduction loops in formula
    // order.
    for (size_t d = 0; d < extents.size(); d++) {
        if (p.fold_lanes || static_cast<int>(d) != row.axis) p.loops.push_back(pure_loop(d));
    }
    if (!p.fold_lanes && row.axis >= 0) {
        p.loops.push_back(pure_loop(static_cast<size_t>(row.axis)));
        p.row_level = static_cast<int>(p.loops.size());
    }
    p.first_reduction_level = static_cast<int>(p.loops.size()) + 1;
    for (size_t d = 0; d < reduction_extents.size(); d++) {
        p.loops.push_back({stage.reduction_axes[d].name(), reduction_extents[d]});
    }
    if (p.fold_lanes) p.row_level = static_cast<int>(p.loops.size());
    p.code.resize(p.loops.size() + 2);

    Compiler compiler(context, p);
    if (stage.is_reduction()) {
        compile_reduction(compiler, p, stage);
        if (p.fold_lanes && fold != Code::Move) p.fold_code = static_cast<int>(fold);
    } else {
        for (const Expr &e : stage.expressions()) p.results.push_back(compiler.compile(e, -1));
    }
    return p;
}

} // namespace kumiko::interpreter
