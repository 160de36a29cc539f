#include "schedules/condition.h"
#include "schedules/facts.h"
#include "schedules/primitives/steps.h"
#include "schedules/reads.h"
#include "schedules/schedule.h"
#include "support/error.h"

namespace kumiko {

std::optional<int64_t> known_extent(const ScheduleState &state, const LoopState &loop) {
    using namespace Halide::Internal;
    if (const auto n = as_const_int(loop.extent)) return n;
    if (state.assumptions.empty()) return std::nullopt;
    std::vector<Expr> all;
    for (const Assume &a : state.assumptions) all.push_back(a.condition);
    const Facts facts = facts_of(state.op, all);
    return as_const_int(simplify(facts.apply(loop.extent), true, facts.bounds()));
}

namespace {

void apply_assume(ScheduleState &state, const Directive &d, size_t) {
    try {
        const Expr condition = parse_condition(state.op, text_argument(d, "condition"));
        state.assumptions.push_back({condition, condition_text(condition)});
        std::vector<Expr> all;
        for (const Assume &a : state.assumptions) all.push_back(a.condition);
        const Facts facts = facts_of(state.op, all);
        if (const std::string why = read_outside(facts.apply(state), facts); !why.empty())
            throw UserError("the formula has no meaning there: " + why);
    } catch (const UserError &e) {
        refuse(state, d, e.what());
    }
}

} // namespace

Schedule &Schedule::assume(const Expr &condition, Place where) {
    check_condition(op(), condition, "assume", where);
    return apply({"assume", {{"condition", condition_text(condition)}}, where});
}

const Primitive &assume_primitive() {
    static const Primitive record = {
        "assume",
        "facts",
        "Promises that a condition over the sizes holds. "
        "Each call of the kernel checks it, and the compiler uses it as a fact. "
        "With M % 16 == 0 a split of M by 16 has no tail. "
        "With M == 8 loops over M may be unrolled.",
        "The condition is over the op's sizes, or over the values of an input, as in within(\"B\", -64, 64). "
        "For values each call reads all of the input. "
        "The condition does not contradict earlier assumptions. "
        "The compiler uses equalities (M == 8, M == 2 * N), remainders (M % 16 == 0) and ranges (M >= 16). "
        "Other conditions are only checked. "
        "The formula reads nothing outside of its tensors if the condition holds.",
        {{"condition", ArgumentKind::Condition, "the condition"}},
        apply_assume,
        {"matmul_any",
         {{"split", {{"stage", "C"}, {"loop", "i"}, {"factor", 16}}, {}}},
         {"assume", {{"condition", "M % 16 == 0"}}, {}}},
        {.order = 10},
    };
    return record;
}

} // namespace kumiko
