#include "schedules/factors.h"

#include "dsl/print.h"
#include "dsl/reach.h"
#include "schedules/traits.h"

#include <fmt/format.h>

namespace kumiko {

using namespace Halide::Internal;

const Call *read_under_cast(const Expr &e) {
    const Cast *cast = e.as<Cast>();
    const Call *read = (cast ? cast->value : e).as<Call>();
    return read && read->call_type == Call::Image ? read : nullptr;
}

Expr sum_apart(const Stage &sum, const Expr &term, const std::string &name, std::vector<StageState> &made) {
    Expr times = make_one(sum.type);
    Stage s = sum;
    s.name = s.components[0].tensor = name;
    s.axes.clear(), s.reduction_axes.clear(), s.strides.clear();
    for (const Axis &a : sum.axes) {
        if (expr_uses_var(term, a.name())) s.axes.push_back(a);
    }
    for (const Axis &a : sum.reduction_axes) {
        if (expr_uses_var(term, a.name()))
            s.reduction_axes.push_back(a);
        else
            times = times * cast(sum.type, max(a.extent(), 0));
    }
    times = simplify(times);
    if (s.reduction_axes.empty()) return term * times;
    s.components[0].term = term;
    made.push_back(stage_of(s));
    const Expr value = read_tensor(sum.type, name, {s.axes.begin(), s.axes.end()});
    return is_const_one(times) ? value : value * times;
}

Factors factors_of(const ScheduleState &state, const StageState &stage, const std::string &tensor, const Directive &d) {
    const Stage &def = stage.def;
    if (!def.is_reduction() || def.reduction_kind != "sum")
        refuse(state, d, stage.name() + " is not a sum", &stage, "", "sums of products");
    const Mul *product = def.components[0].term.as<Mul>();
    for (const bool first : {true, false}) {
        if (!product) break;
        const Expr &own = first ? product->a : product->b, &other = first ? product->b : product->a;
        const Call *read = read_under_cast(own);
        if (read && read->name == tensor && !tensors_read(other).count(tensor)) return {read, other, first};
    }
    refuse(state, d,
           fmt::format("the terms of {} are not products of {} and another factor: they are {}", stage.name(), tensor,
                       to_string(def.components[0].term)),
           &stage, "",
           "terms like cast<int32_t>(" + tensor +
               "(…)) * cast<int32_t>(W(…)); expand() multiplies out a factor from which a number is subtracted, as a "
               "zero point is");
}

void refuse_touched(const ScheduleState &state, const StageState &stage, const Directive &d) {
    if (is_untouched(state, stage)) return;
    refuse(state, d, "other directives rely on " + stage.name() + " already", &stage, "",
           d.primitive + " before any other directive of the stage");
}

StageState stage_of(Stage def) {
    StageState made;
    made.def = std::move(def);
    for (const auto *axes : {&made.def.axes, &made.def.reduction_axes}) {
        for (const Axis &a : *axes) {
            made.loops.push_back({a.name(), a.extent(), axes == &made.def.reduction_axes, LoopKind::Serial});
            made.order.push_back(a.name());
        }
    }
    return made;
}

void insert_before(ScheduleState &state, const std::string &name, std::vector<StageState> made) {
    const auto at =
        std::find_if(state.stages.begin(), state.stages.end(), [&](const StageState &s) { return s.name() == name; });
    state.stages.insert(at, std::make_move_iterator(made.begin()), std::make_move_iterator(made.end()));
}

} // namespace kumiko
