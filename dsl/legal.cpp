#include "dsl/legal.h"

#include "dsl/definition.h"
#include "dsl/float_casts.h"
#include "dsl/interpreter/program.h"
#include "dsl/nested.h"
#include "dsl/print.h"
#include "dsl/recurrence.h"
#include "dsl/residues.h"
#include "dsl/types.h"
#include "support/error.h"
#include "support/names.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

constexpr Call::IntrinsicOp known_intrinsics[] = {
    Call::abs,
    Call::absd,
    Call::bitwise_and,
    Call::bitwise_not,
    Call::bitwise_or,
    Call::bitwise_xor,
    Call::concat_bits,
    Call::count_leading_zeros,
    Call::count_trailing_zeros,
    Call::div_round_to_zero,
    Call::extract_bits,
    Call::halving_add,
    Call::halving_sub,
    Call::if_then_else,
    Call::lerp,
    Call::likely,
    Call::likely_if_innermost,
    Call::mod_round_to_zero,
    Call::mul_shift_right,
    Call::mux,
    Call::popcount,
    Call::return_second,
    Call::round,
    Call::rounding_halving_add,
    Call::rounding_mul_shift_right,
    Call::rounding_shift_left,
    Call::rounding_shift_right,
    Call::saturating_add,
    Call::saturating_cast,
    Call::saturating_sub,
    Call::shift_left,
    Call::shift_right,
    Call::sorted_avg,
    Call::strict_add,
    Call::strict_div,
    Call::strict_eq,
    Call::strict_le,
    Call::strict_lt,
    Call::strict_max,
    Call::strict_min,
    Call::strict_mul,
    Call::strict_sub,
    Call::widen_right_add,
    Call::widen_right_mul,
    Call::widen_right_sub,
    Call::widening_add,
    Call::widening_mul,
    Call::widening_shift_left,
    Call::widening_shift_right,
    Call::widening_sub,
};

// Whether it is "exp_f32" or the like: a function in the interpreter's tables.
bool known_function(const Call *c) {
    if (c->call_type != Call::PureExtern) return false;
    const size_t dash = c->name.rfind('_');
    if (dash == std::string::npos) return false;
    const std::string name = c->name.substr(0, dash), suffix = c->name.substr(dash + 1);
    if (suffix != "f16" && suffix != "bf16" && suffix != "f32" && suffix != "f64") return false;
    if (c->args.size() == 1) {
        for (const char *test : {"is_nan", "is_inf", "is_finite", "abs"}) {
            if (name == test) return true;
        }
        for (const interpreter::NamedUnary &f : interpreter::unary_functions()) {
            if (name == f.name) return true;
        }
    }
    if (c->args.size() == 2) {
        for (const auto &[each, f] : interpreter::binary_functions()) {
            if (name == each) return true;
        }
    }
    return false;
}

bool is_identifier(const std::string &name) {
    bool good = !name.empty() && !isdigit(static_cast<unsigned char>(name[0]));
    for (char c : name) good = good && (isalnum(static_cast<unsigned char>(c)) || c == '_');
    return good;
}

class Check : public IRGraphVisitor {
public:
    Check(std::string owner, const std::source_location &where) : owner_(std::move(owner)), where_(where) {}
    bool in_combiner = false, in_size = false;

    void run(const Expr &e) { include(e); }

protected:
    using IRGraphVisitor::visit;

    void include(const Expr &e) override {
        if (e.type().lanes() != 1) {
            refuse("holds a vector, " + type_name(e.type()) +
                   "; a formula defines one element, and vectorize(…) of a schedule makes vectors");
        }
        if (in_size && e.type() != Int(32) && !e.type().is_bool()) {
            refuse("is of type " + type_name(e.type()) +
                   " in a part of it; legal are int32 numbers and sizes under + - * / %");
        }
        if (e.type().is_handle()) {
            if (!e.as<StringImm>()) refuse("holds a pointer; legal are numbers");
        } else {
            check_element_type(e.type(), owner_, where_);
        }
        IRGraphVisitor::include(e);
    }

    void visit(const Variable *v) override {
        if (lets_.count(v->name)) return;
        const bool of_fold = v->name.starts_with(accumulator_name) || v->name.starts_with(term_name);
        if (in_combiner) {
            if (!of_fold)
                refuse("uses \"" + v->name +
                       "\" in the combiner of a reduce, which may use its two arguments and numbers only");
            return;
        }
        if (v->reduction_domain.defined()) {
            refuse("uses \"" + v->name + "\" of a Halide reduction domain; reduce over an Axis, as in sum(…, k)");
        }
        if (v->param.defined() && !is_size(v)) {
            refuse("uses the Halide parameter \"" + v->name +
                   "\"; legal is a Size, for an int32, or an input without axes: input(\"" + v->name + "\", " +
                   type_name(v->type) + ", {})");
        }
        if (v->image.defined() || v->type.is_handle()) refuse("uses the buffer \"" + v->name + "\"; name an input(…)");
        if (v->type != Int(32)) {
            refuse("uses \"" + v->name + "\", a variable of type " + type_name(v->type) +
                   "; variables are axes and sizes, which are i32; pass other numbers as input(…)");
        }
        // Within sizes, derived names are allowed; Op checks those.
        if (!in_size && !is_identifier(v->name)) {
            refuse("uses \"" + v->name + "\", which is neither an Axis nor a Size; name it as one of them");
        }
    }

    void visit(const Let *l) override {
        l->value.accept(this);
        lets_.insert(l->name);
        l->body.accept(this);
    }

    void visit(const Call *c) override {
        if (is_reference(c)) {
            if (in_combiner)
                refuse("reads a tensor in the combiner of a reduce, which may use its two arguments and numbers only");
            if (in_size) refuse("reads a tensor; legal are int32 numbers and sizes under + - * / %");
            for (size_t a = 0; a + 1 < c->args.size(); a++) include(c->args[a]);
            return;
        }
        if (is_written(c)) return include(decode_written(c).value);
        if (is_earlier(c) && !in_combiner && !in_size) {
            for (size_t a = 1; a < c->args.size(); a++) include(c->args[a]);
            return;
        }
        if (kumiko::is_reduction(c) || is_nested(c)) {
            if (in_combiner || in_size)
                refuse("contains a reduction, which is not allowed there; compute it as a stage of its own");
            return; // its parts are checked when it becomes a stage
        }
        if (c->is_intrinsic(Call::shift_left) || c->is_intrinsic(Call::shift_right)) {
            for (const Expr &arg : c->args) {
                if (arg.type().is_float())
                    refuse("shifts by or of a " + type_name(arg.type()) + "; legal are integers");
            }
        }
        if (c->is_intrinsic(Call::signed_integer_overflow)) refuse("overflows 32 bits; legal is up to 2147483647");
        switch (c->call_type) {
        case Call::Image:
            refuse("reads the Halide image \"" + c->name + "\"; read a tensor made by input(…)");
        case Call::Halide:
            refuse("calls the Halide Func \"" + c->name + "\"; write it as a tensor, by compute(…)");
        default:
            break;
        }
        bool known = known_function(c);
        for (Call::IntrinsicOp each : known_intrinsics) known = known || c->is_intrinsic(each);
        if (!known) {
            throw Unsupported(where_,
                              owner_ + " calls \"" + c->name +
                                  "\", which formulas do not have: a value depends only on tensors that the formula "
                                  "reads; legal functions are in dsl/math.h and dsl/halide.h");
        }
        IRGraphVisitor::visit(c);
    }

    void visit(const Load *op) override { refuse("loads from \"" + op->name + "\"; read a tensor made by input(…)"); }

private:
    std::string owner_;
    const std::source_location &where_;
    std::set<std::string> lets_;

    [[noreturn]] void refuse(const std::string &what) const { throw UserError(where_, owner_ + " " + what); }
};

std::string tensor_text(const std::string &name) { return "tensor \"" + name + "\""; }

class CheckIndices : public IRGraphVisitor {
public:
    CheckIndices(const Stage &stage, const AxesInside &axes_of, const std::vector<WrittenPart> &written,
                 const std::source_location &where)
        : stage_(stage), axes_of_(axes_of), written_(written), where_(where) {
        for (const auto *axes : {&stage.axes, &stage.reduction_axes}) {
            for (const Axis &a : *axes) scope_.push(a.name(), Interval(0, simplify(a.extent() - 1)));
        }
    }

private:
    using IRGraphVisitor::visit;
    const Stage &stage_;
    const AxesInside &axes_of_;
    const std::vector<WrittenPart> &written_;
    const std::source_location &where_;
    Scope<Interval> scope_;

    void visit(const Call *c) override {
        IRGraphVisitor::visit(c);
        if (c->call_type != Call::Image) return;
        const std::vector<const Axis *> axes = axes_of_(c->name);
        for (size_t d = 0; d < axes.size(); d++) {
            if (!axes[d]) continue;
            // Bounded ranges without data are compared with the axis in dsl/reach.h.
            const bool of_data = reads_data(c->args[d]);
            if (!of_data && has_bounds(simplified(c->args[d]))) continue;
            const Expr extent = axes[d]->extent();
            if (inside(c->args[d], extent)) continue;
            const auto number = as_const_int(extent);
            const std::string last = number ? std::to_string(*number - 1) : to_string(extent) + " - 1";
            throw UserError(
                where_, tensor_text(stage_.name) + " reads \"" + c->name + "\" at " + to_string(c->args[d], written_) +
                            (of_data ? ", a data-dependent index that" : ", an index of unknown range that") +
                            " may be outside of axis \"" + axes[d]->name() +
                            "\"; legal are indices that are always inside: clamp(…, 0, " + last + "), … % " +
                            to_string(extent) + ", or a read of zero_padded(" + c->name + ") or clamped(" + c->name +
                            ")");
        }
    }

    bool has_bounds(const Expr &index) const {
        return range_of(index, scope_).is_bounded() || range_by_residues(index, scope_).is_bounded();
    }

    bool inside(const Expr &index, const Expr &extent) const {
        // Tries the expression as written, where clamps are outermost, and simplified.
        const Expr simpler = simplified(index);
        return (not_negative(index) || not_negative(simpler)) && (below(index, extent) || below(simpler, extent));
    }

    // Uses the form of the expression if it is a clamp, otherwise its range.
    bool not_negative(const Expr &e) const {
        if (const auto *op = e.as<Max>()) return not_negative(op->a) || not_negative(op->b);
        if (const auto *op = e.as<Min>()) return not_negative(op->a) && not_negative(op->b);
        const Interval range = range_of(e, scope_);
        return range.has_lower_bound() && holds(0 <= range.min);
    }
    bool below(const Expr &e, const Expr &extent) const {
        if (const auto *op = e.as<Max>()) return below(op->a, extent) && below(op->b, extent);
        if (const auto *op = e.as<Min>()) return below(op->a, extent) || below(op->b, extent);
        const Interval range = range_of(e, scope_);
        return range.has_upper_bound() && holds(range.max < extent);
    }

    // Whether it holds for all sizes >= 1.
    static bool holds(const Expr &condition) {
        struct Sizes : IRVisitor {
            using IRVisitor::visit;
            Scope<Interval> sizes;
            void visit(const Variable *v) override {
                if (!sizes.contains(v->name)) sizes.push(v->name, Interval(1, Interval::pos_inf()));
            }
        } visitor;
        condition.accept(&visitor);
        return is_const_one(simplify(condition, true, visitor.sizes));
    }
};

} // namespace

const std::string &check_name(const std::string &name, const char *what, const std::source_location &where) {
    if (is_identifier(name)) return name;
    throw UserError(where, std::string(what) + " name \"" + name +
                               "\" is not an identifier; legal are letters, digits and _, not starting with a digit");
}

void check_element_type(Type type, const std::string &what, const std::source_location &where) {
    static const Type known[] = {boolean, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64};
    for (Type t : known) {
        if (t == type) return;
    }
    throw UserError(where, what + " has elements of type " + type_name(type) +
                               "; legal are bool, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64");
}

void check_formula(const Expr &e, const std::string &owner, const std::source_location &where) {
    Check(tensor_text(owner), where).run(e);
}

void check_depth(const Expr &e, const std::string &owner, const std::source_location &where) {
    if (nesting_depth(e) <= deepest_expression) return;
    const std::string deep = "nested more than " + std::to_string(deepest_expression) + " deep";
    if (nesting_depth(e, false) > deepest_expression)
        throw UserError(where, tensor_text(owner) + " has an expression that is " + deep +
                                   "; divide it into several stages, by compute(…)");
    throw UserError(where, tensor_text(owner) + " is the last of a chain of stages whose expressions are " + deep +
                               " in all; divide the chain into several ops");
}

void check_fold(const ReductionTerm &r, const std::string &owner, const std::source_location &where) {
    if (r.kind != "reduce" && r.kind != "scan") return;
    Check check(tensor_text(owner), where);
    check.in_combiner = true;
    for (size_t c = 0; c < r.combined.size(); c++) {
        check.run(r.combined[c]);
        check.run(r.identities[c]);
        if (is_const(simplify(r.identities[c]))) continue;
        throw UserError(where, tensor_text(owner) + (r.kind == "scan" ? " scans" : " reduces") + " from the identity " +
                                   to_string(r.identities[c]) + "; legal is a number");
    }
}

void check_size_expression(const Expr &e, const std::string &what, const std::source_location &where) {
    Check check(what, where);
    check.in_size = true;
    check.run(e);
}

void check_indices(const Stage &stage, const AxesInside &axes_of, const std::vector<WrittenPart> &written,
                   const std::source_location &where) {
    CheckIndices check(stage, axes_of, written, where);
    for (const Expr &e : stage.expressions()) e.accept(&check);
}

} // namespace kumiko
