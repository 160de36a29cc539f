#include "dsl/types.h"
#include "machine/machine.h"
#include "schedules/condition.h"
#include "schedules/facts.h"
#include "schedules/primitives/steps.h"
#include "schedules/reads.h"
#include "schedules/schedule.h"
#include "support/error.h"

namespace kumiko {

namespace {

// The pre-packed tensors and layouts, which must not depend on the schedule that runs.
std::set<std::string> packed(const ScheduleState &state) {
    std::set<std::string> all;
    for (const StageState &s : state.stages) {
        if (!s.prepacked) continue;
        std::string text = s.copied + " as " + s.name() + " {";
        for (const LayoutTerm &t : s.layout) text += (&t == &s.layout.front() ? "" : ", ") + t.to_string();
        const Type type = s.def.type, own = state.op.find_input(s.copied)->type;
        all.insert(text + "}" + (type == own ? "" : " held as " + type_name(type)));
    }
    return all;
}

std::string text_of(const std::set<std::string> &all) {
    std::string text;
    for (const std::string &s : all) text += (text.empty() ? "" : ", ") + s;
    return text.empty() ? "nothing" : text;
}

std::string packing_differs(const ScheduleState &state, const Schedule &special) {
    const auto here = packed(state), there = packed(special.state());
    if (here == there) return "";
    return "the specialised schedule prepacks " + text_of(there) + " and the schedule around it " + text_of(here) +
           ", but the kernel takes one form of each array";
}

// The facts under which the specialised schedule runs. Throws UserError if they contradict each
// other.
Facts facts_where(const ScheduleState &state, const Expr &condition, const Schedule &special) {
    std::vector<Expr> all = {condition};
    for (const Assume &a : state.assumptions) all.push_back(a.condition);
    for (const Assume &a : special.state().assumptions) all.push_back(a.condition);
    return facts_of(state.op, all);
}

// Why no call can reach the specialised schedule; "" if one can.
std::string never_runs(const ScheduleState &state, const Expr &condition, const Schedule &special) {
    try {
        const Facts facts = facts_where(state, condition, special);
        const std::string why = read_outside(facts.apply(special.state()), facts);
        return why.empty() ? "" : "the formula has no meaning there: " + why;
    } catch (const UserError &e) {
        return e.what();
    }
}

void apply_specialize(ScheduleState &state, const Directive &d, size_t index) {
    Expr condition;
    auto special = std::make_shared<Schedule>(state.op, *state.machine, state.instructions);
    try {
        condition = parse_condition(state.op, text_argument(d, "condition"));
        for (const auto &one : d.arguments["schedule"]) special->apply(directive_of(one, d.where));
        special->require_applied();
        if (const std::string why = never_runs(state, condition, *special); !why.empty()) throw UserError(why);
    } catch (const UserError &e) {
        refuse(state, d, e.what());
    }
    if (!special->specializations().empty())
        refuse(state, d, "the schedule given is itself specialized", nullptr, "",
               "conditions joined by &&, each specialized once");
    state.specializations.push_back({condition, condition_text(condition), special});
    state.obligations.push_back({index, [condition, special](const ScheduleState &s) {
                                     const std::string never = never_runs(s, condition, *special);
                                     return never.empty() ? packing_differs(s, *special) : never;
                                 }});
}

} // namespace

Schedule &Schedule::specialize(const Expr &condition, Place where) {
    return specialize(condition, Schedule(*this), where);
}

Schedule &Schedule::specialize(const Expr &condition, const Schedule &schedule, Place where) {
    check_condition(op(), condition, "specialize", where);
    schedule.require_applied();
    const std::string text = condition_text(condition);
    if (schedule.op().hash() != op().hash())
        throw UserError(where,
                        "specialize(" + text + "): the schedule given is one of another op, " + schedule.op().name());
    nlohmann::json directives = nlohmann::json::array();
    for (const Directive &d : schedule.directives()) {
        if (d.primitive != "specialize") directives.push_back(directive_json(d));
    }
    return apply({"specialize", {{"condition", text}, {"schedule", directives}}, where});
}

const Primitive &specialize_primitive() {
    static const Primitive record = {
        "specialize",
        "facts",
        "Runs another schedule of the same op if a condition over the sizes or over values holds. "
        "Inside it the condition is a fact, as with assume. "
        "Conditions are tried in the order of the directives. "
        "The surrounding schedule handles all other calls.",
        "The condition is over the op's sizes, or over the values of an input, as for assume. "
        "It can hold together with the assumptions. "
        "The formula reads nothing outside of its tensors if it holds. "
        "The given schedule is legal, prepacks the same inputs, and is not specialized itself.",
        {{"condition", ArgumentKind::Condition, "the condition"},
         {"schedule", ArgumentKind::Schedule, "the directives of the other schedule"}},
        apply_specialize,
        {"matmul_any",
         {},
         {"specialize",
          {{"condition", "M % 16 == 0"},
           {"schedule",
            nlohmann::json::array({{{"primitive", "split"}, {"stage", "C"}, {"loop", "i"}, {"factor", 16}}})}},
          {}}},
        {.order = 20},
    };
    return record;
}

} // namespace kumiko
