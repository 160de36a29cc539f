#include "schedules/candidates.h"
#include "schedules/parts.h"
#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"
#include "schedules/traits.h"

namespace kumiko {

namespace {

using namespace Halide::Internal;

// Why a stage cannot be divided, or be a part; "" if it can.
std::string not_divided(const ScheduleState &state, const std::string &name) {
    const StageState &s = *state.find(name);
    if (const Exclusion why = excluded(state, s, Trait::Divided)) return why.reason;
    if (s.part && (!s.layout.empty() || !s.level.empty()))
        return "stage " + name + " is a part of " + s.part->tensor + ", so it is stored in the array of " +
               s.part->tensor;
    return "";
}

// A directive on the stage other than splits and reorders; "" if there is none.
std::string more_than_loops(const ScheduleState &state, const StageState &s) {
    for (const std::string &l : s.order) {
        if (s.loop(l).kind != LoopKind::Serial) return "loop " + l + " is " + kind_name(s.loop(l).kind);
    }
    for (const StageState &p : state.stages) {
        if (p.placement.kind == Placement::Kind::At && p.placement.consumer == s.name())
            return p.name() + " is computed at its loop " + p.placement.loop;
    }
    return excluded(state, s, Trait::Dividing, "it").reason;
}

void check_name(const ScheduleState &state, const Directive &d, const std::string &name) {
    bool good = !name.empty() && !isdigit(static_cast<unsigned char>(name[0]));
    for (const char c : name) good = good && (isalnum(static_cast<unsigned char>(c)) || c == '_');
    if (!good)
        refuse(state, d, "\"" + name + "\" is not a valid stage name", nullptr, "",
               "letters, digits and _, not starting with a digit");
    if (state.is_input(name) || state.producer(name))
        refuse(state, d, "there is a tensor or stage named " + name + " already", nullptr, "",
               "a name that is not taken");
}

// The index range of its axis that iterations [first, first + count) of a loop cover, relative to
// the stage's first index.
struct Range {
    std::string axis;
    int64_t first, count;
};

Range range_of_loop(const ScheduleState &state, const Directive &d, const StageState &stage, const std::string &loop,
                    const Range &r) {
    for (const Relation &relation : stage.relations) {
        if (const auto *f = std::get_if<FuseRelation>(&relation); f && f->fused == r.axis) {
            refuse(state, d, "loop " + r.axis + " was fused of " + f->outer + " and " + f->inner, &stage, loop,
                   "an axis, or the outer loop of its splits");
        }
        const auto *s = std::get_if<SplitRelation>(&relation);
        if (!s || (s->outer != r.axis && s->inner != r.axis)) continue;
        if (s->inner == r.axis) {
            refuse(state, d, "loop " + r.axis + " is the inner part of loop " + s->parent + ", and runs several times",
                   &stage, loop, "an axis, or the outer loop of its splits");
        }
        const auto extent = known_extent(state, stage.loop(s->parent));
        if (!extent) refuse(state, d, "the extent of loop " + s->parent + " is known only at run time", &stage, loop);
        const int64_t first = r.first * s->factor;
        return range_of_loop(state, d, stage, loop, {s->parent, first, std::min(r.count * s->factor, *extent - first)});
    }
    return r;
}

void apply_region(ScheduleState &state, const Directive &d, size_t index) {
    const StageState &stage = stage_argument(state, d);
    const LoopState loop = loop_argument(stage, d);
    const int64_t first = integer_argument(d, "first"), count = integer_argument(d, "count");
    const std::string name = text_argument(d, "name"), of = stage.name();
    check_name(state, d, name);
    if (const std::string why = not_divided(state, of); !why.empty())
        refuse(state, d, why, &stage, "",
               "region of a stage that is computed at the root, without a level or a layout");
    if (loop.reduction)
        refuse(state, d, "loop " + loop.name + " is a reduction loop, so a part of it computes no complete elements",
               &stage, loop.name, "a loop that does not reduce");
    if (const std::string why = more_than_loops(state, stage); !why.empty())
        refuse(state, d, "of stage " + of + ", " + why, &stage, loop.name,
               "region while the stage has serial loops alone; then directives for each part");
    const auto extent = known_extent(state, loop);
    if (!extent)
        refuse(state, d, "the extent of loop " + loop.name + " is known only at run time", &stage, loop.name,
               "a loop of constant extent, or assume(…) of its extent");
    if (first < 0 || count < 1 || first > *extent || count > *extent - first)
        refuse(state, d,
               count < 1 ? "it has " + std::to_string(count) + " iterations"
                         : std::to_string(count) + " iterations from " + std::to_string(first) + " on leave loop " +
                               loop.name,
               &stage, loop.name, "1 or more of iterations 0 to " + std::to_string(*extent));
    Range r = range_of_loop(state, d, stage, loop.name, {loop.name, first, count});
    const auto all = known_extent(state, stage.loop(r.axis));
    if (!all) refuse(state, d, "the extent of axis " + r.axis + " is known only at run time", &stage, loop.name);
    const Region box = box_of(state, stage);
    for (size_t a = 0; a < stage.def.axes.size(); a++) {
        if (stage.def.axes[a].name() == r.axis) r.first += *as_const_int(box.min[a]);
    }
    int64_t left = *all - r.count;
    for (const StageState *other : regions_of(state, of)) {
        const Part &p = *other->part;
        if (p.axis != r.axis)
            refuse(state, d, other->name() + " divides stage " + of + " along " + p.axis, &stage, loop.name,
                   "regions of a stage along one axis; a region may be divided along another");
        if (p.first < r.first + r.count && r.first < p.first + p.count)
            refuse(state, d,
                   "of " + r.axis + ", " + std::to_string(p.first) + " to " + std::to_string(p.first + p.count) +
                       " are region " + other->name() + " already",
                   &stage, loop.name, "regions that do not overlap");
        left -= p.count;
    }
    if (left == 0)
        refuse(state, d, "it leaves no iterations to stage " + of, &stage, loop.name,
               "fewer iterations; the stage itself computes the last part");

    StageState made;
    made.def = stage.def;
    made.def.name = name;
    made.loops = stage.loops, made.order = stage.order, made.relations = stage.relations;
    made.part = Part{of, stage.tensor(), r.axis, r.first, r.count};
    const Frame frame(made, box_of(state, made), "");
    for (LoopState &l : made.loops) l.extent = frame.extent(l.name);
    const auto last = std::find_if(state.stages.rbegin(), state.stages.rend(),
                                   [&](const StageState &s) { return s.name() == of || (s.part && s.part->of == of); });
    state.stages.insert(last.base(), std::move(made));
    for (const std::string &part : {of, name}) {
        state.obligations.push_back({index, [part](const ScheduleState &s) { return not_divided(s, part); }});
    }
}

} // namespace

StageHandle StageHandle::region(LoopName loop, int64_t first, int64_t count, const std::string &name, Place where) {
    apply("region", {{"loop", loop.name}, {"first", first}, {"count", count}, {"name", name}}, where);
    return StageHandle(*schedule_, name);
}

const Primitive &region_primitive() {
    static const Primitive record = {
        "region",
        "machine",
        "Makes a stage of its own from some iterations of a loop. "
        "<name> computes those elements of the same tensor, with the current loops and directives of its own. "
        "The stage computes the other elements. "
        "So a border, a last block or a half of the work can be split, ordered and placed differently. "
        "A region may be divided again.",
        "The stage is computed at the root, is not a copy, and has only serial loops so far. "
        "The loop is an axis that is not reduced, or the outer loop of its splits, and has a constant extent. "
        "The iterations are some but not all of the loop, and none belongs to another region. "
        "Afterwards both stages keep their place, and have neither finish_in nor padded tails.",
        {{"stage", ArgumentKind::Stage, "the stage"},
         {"loop", ArgumentKind::Loop, "the loop"},
         {"first", ArgumentKind::Integer, "the first iteration"},
         {"count", ArgumentKind::Integer, "the number of iterations"},
         {"name", ArgumentKind::Text, "the name of the region, by which directives address it"}},
        apply_region,
        {"matmul",
         {{"split", {{"stage", "C"}, {"loop", "i"}, {"factor", 14}}, {}}},
         {"region", {{"stage", "C"}, {"loop", "i.o"}, {"first", 9}, {"count", 1}, {"name", "rest"}}, {}}},
        {.order = 40, .candidates = {{"first", numbers_of<0, 1, 2, 3>}}},
    };
    return record;
}

} // namespace kumiko
