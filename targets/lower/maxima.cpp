// exp(x - max), where max is the maximum of what x is one of: its argument is at most zero, which code generation uses.
#include "targets/lower/lowering.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

// Both behind the same casts.
std::pair<Expr, Expr> without_casts(Expr a, Expr b) {
    for (;;) {
        const auto *x = a.as<Cast>(), *y = b.as<Cast>();
        if (!x || !y || x->type != y->type) return {a, b};
        a = Expr(x->value), b = Expr(y->value);
    }
}

const Call *read_of(const Expr &e) {
    const auto *read = e.as<Call>();
    return read && read->call_type == Call::Image ? read : nullptr;
}

// What a copy holds is the tensor's.
std::string original(const ScheduleState &state, const std::string &tensor) {
    const StageState *s = state.find(tensor);
    return s && s->is_copy ? s->copied : tensor;
}

const std::vector<Axis> *axes_of(const Op &op, const std::string &tensor) {
    if (const Input *in = op.find_input(tensor)) return &in->axes;
    for (const Stage &s : op.stages()) {
        if (s.name == tensor) return &s.axes;
    }
    return nullptr;
}

// Whether `max` reads a stage of the formula that is a maximum along whole axes of a tensor, and `x` an element among these.
bool is_maximum_of(const ScheduleState &state, Expr x, Expr max) {
    std::tie(x, max) = without_casts(x, max);
    const Call *element = read_of(x), *top = read_of(max);
    if (!element || !top || !axes_of(state.op, top->name) || state.op.find_input(top->name)) return false;
    const Stage &m = state.op.stage(top->name);
    if (m.reduction_kind != "maximum" || m.components.size() != 1) return false;
    std::map<std::string, Expr> index;
    for (size_t d = 0; d < m.axes.size(); d++) index[m.axes[d].name()] = top->args[d];
    const Expr term = m.components[0].term;
    const Call *of = read_of(term);
    const std::string tensor = original(state, element->name);
    const std::vector<Axis> *axes = axes_of(state.op, tensor);
    if (!of || !axes || of->name != tensor || of->args.size() != element->args.size()) return false;
    std::set<std::string> along;
    for (size_t d = 0; d < of->args.size(); d++) {
        const auto *v = of->args[d].as<Variable>();
        const auto a = std::find_if(m.reduction_axes.begin(), m.reduction_axes.end(),
                                    [&](const Axis &a) { return v && a.name() == v->name; });
        if (a == m.reduction_axes.end()) {
            if (!equal(substitute(index, of->args[d]), element->args[d])) return false;
        } else if (!along.insert(v->name).second || !can_prove(a->extent() == (*axes)[d].extent())) {
            return false;
        }
    }
    return true;
}

} // namespace

Expr exps_of_nonpositive(const ScheduleState &state, const Expr &e) {
    struct Mark : IRGraphMutator {
        using IRGraphMutator::visit;
        const ScheduleState *state;
        Expr visit(const Call *op) override {
            const Expr e = IRGraphMutator::visit(op);
            op = e.as<Call>();
            if (!op || op->call_type != Call::PureExtern || op->name != "exp_f32") return e;
            const auto *difference = op->args[0].as<Sub>();
            if (!difference || !is_maximum_of(*state, difference->a, difference->b)) return e;
            return Call::make(op->type, exp_nonpositive, op->args, Call::PureExtern);
        }
    } mark;
    mark.state = &state;
    return mark.mutate(e);
}

} // namespace kumiko
