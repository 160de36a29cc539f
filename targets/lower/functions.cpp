// Substitutes cheaper functions in special positions (docs/decisions/0038). exp(x - max), where max
// is the maximum over values that include x, has an argument of at most zero; the difference is
// strict, so that it is not contracted with a multiplication. 1 + erf(x) hides how close to zero
// erf(x) is, so it needs less accuracy.
#include "dsl/reads.h"
#include "dsl/type_range.h"
#include "targets/lower/lowering.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

// The axes of a tensor; null for padding, which may be read beyond them.
const std::vector<Axis> *axes_of(const Op &op, const std::string &tensor) {
    if (const Input *in = op.find_input(tensor)) return &in->axes;
    const Stage *s = op.find_stage(tensor);
    return s && s->kind != Stage::Kind::Padding ? &s->axes : nullptr;
}

// Whether a cast is monotonic (order is preserved, ties allowed).
bool keeps_order(const Cast *cast) { return cast->type.is_float() || has_all_values(cast->type, cast->value.type()); }

// Replaces reads of copies by reads of the copied tensors.
Expr without_copies(const ScheduleState &state, const Expr &e) {
    return map_reads(e, [&](const Call *read, const Expr &e) {
        const StageState *s = state.find(read->name);
        return s && s->is_copy ? read_tensor(read->type, s->copied, read->args) : e;
    });
}

// Whether some tensor that `term` reads at the axis has exactly its extent there, so that no valid
// read is beyond it.
bool spans(const Op &op, const Expr &term, const Axis &axis) {
    for (const Call *read : tensor_reads(term)) {
        const std::vector<Axis> *axes = axes_of(op, read->name);
        for (size_t d = 0; axes && d < read->args.size(); d++) {
            const auto *v = read->args[d].as<Variable>();
            if (v && v->name == axis.name() && can_prove((*axes)[d].extent() == axis.extent())) return true;
        }
    }
    return false;
}

// Whether `max` reads a maximum stage of the formula and `x` is one of its terms.
bool is_maximum_of(const ScheduleState &state, Expr x, Expr max) {
    for (const auto *cast = max.as<Cast>(); cast; cast = max.as<Cast>()) {
        const auto *same = x.as<Cast>();
        if (!same || same->type != cast->type || !keeps_order(cast)) return false;
        x = same->value, max = cast->value;
    }
    const auto *top = max.as<Call>();
    const Stage *m = top && top->call_type == Call::Image ? state.op.find_stage(top->name) : nullptr;
    if (!m || m->reduction_kind != "maximum" || m->components.size() != 1) return false;
    const Expr term = m->components[0].term;
    std::map<std::string, Expr> index; // of the term's variables
    if (!expr_match(term, without_copies(state, x), index)) return false;
    for (auto &[name, e] : index) {
        const auto is_named = [n = name](const Axis &a) { return a.name() == n; };
        const auto along = std::find_if(m->reduction_axes.begin(), m->reduction_axes.end(), is_named);
        const auto own = std::find_if(m->axes.begin(), m->axes.end(), is_named);
        const auto *v = e.as<Variable>();
        const bool same = along != m->reduction_axes.end() ? spans(state.op, term, *along)
                          : own != m->axes.end()           ? equal(e, top->args[own - m->axes.begin()])
                                                           : v && v->name == name; // a size
        if (!same) return false;
    }
    return true;
}

} // namespace

Expr functions_in_place(const ScheduleState &state, const Expr &e) {
    struct Mark : IRGraphMutator {
        using IRGraphMutator::visit;
        const ScheduleState *state;
        Expr visit(const Add *op) override {
            const Expr e = IRGraphMutator::visit(op);
            op = e.as<Add>();
            if (!op || op->type != Float(32)) return e;
            const bool first = is_const_one(op->a);
            const auto *call = (first ? op->b : op->a).as<Call>();
            if (!call || call->name != "erf_f32" || !(first || is_const_one(op->b))) return e;
            return Call::make(op->type, one_plus_erf, call->args, Call::PureExtern);
        }
        Expr visit(const Call *op) override {
            const Expr e = IRGraphMutator::visit(op);
            op = e.as<Call>();
            if (!op || op->call_type != Call::PureExtern || !op->name.starts_with("exp_f")) return e;
            const auto *difference = op->args[0].as<Sub>();
            if (difference && op->name == "exp_f32" && is_const_zero(difference->a)) { // exp(-|x|)
                const auto *magnitude = difference->b.as<Call>();
                if (magnitude && magnitude->is_intrinsic(Call::abs))
                    return Call::make(op->type, exp_nonpositive, op->args, Call::PureExtern);
            }
            if (!difference || !is_maximum_of(*state, difference->a, difference->b)) return e;
            // The maximum of products is rounded. Subtracted from an unrounded product, it would
            // leave an error of arbitrary size.
            const Expr rounded =
                Call::make(difference->type, Call::strict_sub, {difference->a, difference->b}, Call::PureIntrinsic);
            const bool shorter = op->name == "exp_f32";
            return Call::make(op->type, shorter ? exp_nonpositive : op->name, {rounded}, Call::PureExtern);
        }
    } mark;
    mark.state = &state;
    return mark.mutate(e);
}

} // namespace kumiko
