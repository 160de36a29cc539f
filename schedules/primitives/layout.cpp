#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"
#include "schedules/traits.h"

namespace kumiko {

namespace {

LayoutTerm parse_term(const ScheduleState &state, const StageState &stage, const Directive &d,
                      const std::string &text) {
    LayoutTerm t;
    const size_t at = text.find_first_of("/%");
    t.axis = text.substr(0, at);
    if (at != std::string::npos) {
        t.part = text[at] == '/' ? LayoutTerm::Part::Outer : LayoutTerm::Part::Inner;
        const std::string digits = text.substr(at + 1);
        if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos ||
            std::stoll(digits) < 1) {
            refuse(state, d, "\"" + text + "\" is not a storage dimension", nullptr, "",
                   "\"j\", \"j/32\" or \"j%32\" for an axis j");
        }
        t.block = std::stoll(digits);
    }
    bool known = false;
    std::string names;
    for (const Axis &a : stage.def.axes) {
        known = known || a.name() == t.axis;
        names += (names.empty() ? "" : ", ") + a.name();
    }
    if (!known) refuse(state, d, stage.name() + " has no axis \"" + t.axis + "\"", nullptr, "", "its axes " + names);
    return t;
}

} // namespace

std::vector<LayoutTerm> parse_layout(const ScheduleState &state, const StageState &stage, const Directive &d,
                                     const std::vector<std::string> &texts) {
    std::vector<LayoutTerm> terms;
    for (const std::string &text : texts) terms.push_back(parse_term(state, stage, d, text));
    for (const Axis &a : stage.def.axes) {
        int whole = 0, outer = 0, inner = 0;
        int64_t outer_block = 0, inner_block = 0;
        for (const LayoutTerm &t : terms) {
            if (t.axis != a.name()) continue;
            switch (t.part) {
            case LayoutTerm::Part::Whole:
                whole++;
                break;
            case LayoutTerm::Part::Outer:
                outer++;
                outer_block = t.block;
                break;
            case LayoutTerm::Part::Inner:
                inner++;
                inner_block = t.block;
                break;
            }
        }
        const bool covered =
            (whole == 1 && !outer && !inner) || (!whole && outer == 1 && inner == 1 && outer_block == inner_block);
        if (!covered) {
            refuse(state, d, "the storage order does not cover axis " + a.name() + " exactly once", nullptr, "",
                   "\"" + a.name() + "\", or \"" + a.name() + "/n\" and \"" + a.name() + "%n\" with one block size n");
        }
    }
    return terms;
}

namespace {

void apply_layout(ScheduleState &state, const Directive &d, size_t) {
    StageState &stage = stage_argument(state, d);
    refuse_excluded(state, d, stage, Trait::Laid);
    stage.layout = parse_layout(state, stage, d, names_argument(d, "terms"));
}

} // namespace

StageHandle &StageHandle::layout(const std::vector<std::string> &terms, Place where) {
    return apply("layout", {{"terms", terms}}, where);
}

const Primitive &layout_primitive() {
    static const Primitive record = {
        "layout",
        "memory",
        "Sets the order in which a stage's elements are stored, outermost dimension first. "
        "An axis j may be stored in blocks: \"j/32\" is the block and \"j%32\" the index in the block.",
        "The stage is internal, for example a copy made by place_in. "
        "The terms cover each axis once.",
        {{"stage", ArgumentKind::Stage, "the stage"},
         {"terms", ArgumentKind::Names, "the storage dimensions, outermost first"}},
        apply_layout,
        {"matmul",
         {{"split", {{"stage", "C"}, {"loop", "k"}, {"factor", 64}}, {}},
          {"reorder", {{"stage", "C"}, {"loops", {"k.o", "i", "j", "k.i"}}}, {}},
          {"place_in", {{"tensor", "B"}, {"level", "L2"}, {"consumer", "C"}, {"loop", "k.o"}}, {}}},
         {"layout", {{"stage", "B.L2"}, {"terms", {"j/32", "k", "j%32"}}}, {}}},
        {.order = 40},
    };
    return record;
}

} // namespace kumiko
