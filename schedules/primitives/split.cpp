#include "schedules/online.h"
#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"

namespace kumiko {

namespace {

// Whether iterations past the end of a loop only reach indices past the end of its axis: the loop
// is the axis, or counts whole blocks of it. Past the end of a block are elements of the next
// block.
bool ends_with_axis(const StageState &stage, const std::string &loop) {
    for (const Relation &r : stage.relations) {
        if (const auto *s = std::get_if<SplitRelation>(&r)) {
            if (s->inner == loop) return false;
            if (s->outer == loop) return s->tail != Tail::Shift && ends_with_axis(stage, s->parent);
        } else if (const auto &f = std::get<FuseRelation>(r); f.fused == loop) {
            return ends_with_axis(stage, f.outer);
        }
    }
    return true;
}

} // namespace

void check_loop_name(const ScheduleState &state, const Directive &d, const StageState &stage, const std::string &loop,
                     const std::string &fresh) {
    bool good = !fresh.empty() && !isdigit(static_cast<unsigned char>(fresh[0])) && fresh[0] != '.';
    for (char c : fresh) good = good && (isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.');
    if (good) return;
    refuse(state, d, "\"" + fresh + "\" is not a valid loop name", &stage, loop,
           "letters, digits, _ and ., not starting with a digit or a .");
}

namespace {

// Why a shifted tail would repeat elements whose sums are already under way; "" if all repeated
// sums are computed from the start.
std::string repeats_steps(const StageState &s, const std::string &blocks) {
    if (!s.def.is_reduction()) return "";
    if (!s.scattered.empty() || s.waiting || s.online) return s.name() + " keeps its sums between blocks";
    size_t begin = s.first_reduction(); // the position at which sums start
    if (s.accumulate && s.has_loop(s.accumulate->loop)) begin = std::min(begin, s.position(s.accumulate->loop) + 1);
    if (s.tensorize && s.has_loop(s.tensorize->loop)) begin = std::min(begin, s.position(s.tensorize->loop));
    for (const std::string &l : s.order) {
        if (!s.derived_from(l, blocks)) continue;
        if (s.position(l) >= begin)
            return "the sums of " + s.name() + " begin outside of loop " + l + ", so terms would be added twice";
        if (s.loop(l).kind == LoopKind::Parallel)
            return "loop " + l + " is parallel, and two threads would add to the same sums";
    }
    return "";
}

} // namespace

void check_repeated_sums(ScheduleState &state, const StageState &stage, const Directive &d, size_t index,
                         const std::string &loop, const std::string &blocks) {
    if (!stage.def.is_reduction()) return;
    if (const std::string why = repeats_steps(stage, blocks); !why.empty())
        refuse(state, d, "a shifted tail repeats elements: " + why, &stage, loop,
               "the tails guard and mask, or a loop outside of all reduction loops");
    state.obligations.push_back({index, [name = stage.name(), blocks](const ScheduleState &s) {
                                     return repeats_steps(*s.find(name), blocks);
                                 }});
}

// The two new loops take the place of the old one in the order.
void split_loop(ScheduleState &state, StageState &stage, const Directive &d, const std::string &name, int64_t factor,
                const std::string &outer, const std::string &inner, Tail tail) {
    const LoopState loop = stage.loop(name);
    if (factor < 1) {
        refuse(state, d, "the factor " + std::to_string(factor) + " is not positive", &stage, name,
               "a factor of 1 or more");
    }
    if (factor > (1 << 30)) {
        refuse(state, d, "the factor " + std::to_string(factor) + " exceeds the largest extent of a loop", &stage, name,
               "a factor of 1 to 1073741824");
    }
    const auto n = Halide::Internal::as_const_int(loop.extent);
    if (n && *n % factor != 0 && *n > INT32_MAX - (factor - 1)) {
        refuse(state, d,
               "the last block of " + std::to_string(factor) + " in the " + std::to_string(*n) +
                   " iterations of loop " + name + " ends beyond 2147483647",
               &stage, name,
               "a factor of 1 to " + std::to_string(INT32_MAX - *n + 1) + ", or one that divides " +
                   std::to_string(*n));
    }
    if (loop.kind != LoopKind::Serial) {
        refuse(state, d, "loop " + name + " is already " + kind_name(loop.kind), &stage, name,
               "split before the directive that made it " + std::string(kind_name(loop.kind)));
    }
    if (tail == Tail::Shift && loop.reduction) {
        refuse(state, d, "a shifted tail would add some elements of the reduction twice", &stage, name,
               "the tails guard, or a factor that divides the extent");
    }
    if (tail == Tail::Pad && loop.reduction) {
        refuse(state, d, "a padded tail would add elements past the end of the reduction", &stage, name,
               "the tail guard, or a factor that divides the extent");
    }
    if (tail == Tail::Pad && !ends_with_axis(stage, name)) {
        refuse(state, d, "a padded tail of loop " + name + " would write into the elements of the next block", &stage,
               name, "the tails guard and mask, or pad on a loop that ends where its axis does");
    }
    if (tail == Tail::Pad && follows(stage)) {
        refuse(state, d,
               "a padded tail writes beyond the extent, and " + stage.name() + " is kept across the blocks of loop " +
                   stage.online->loop,
               &stage, name, "the tails guard and mask");
    }
    if (tail == Tail::Pad && stage.prepacked) {
        refuse(state, d,
               "a padded tail writes beyond the extent, and " + stage.name() + " is stored in the caller's array",
               &stage, name, "the tails guard and mask");
    }
    if (tail == Tail::Pad && (state.op.is_output(stage.name()) || !stage.finished_into.empty())) {
        const std::string written = stage.finished_into.empty() ? stage.name() : stage.finished_into;
        refuse(state, d,
               "a padded tail writes beyond the extent, and " + written +
                   (state.op.is_output(written) ? " is an output in the caller's array"
                                                : " is not stored by " + stage.name()),
               &stage, name, "the tails guard, mask, or pad on an internal stage");
    }
    for (const std::string &fresh : {outer, inner}) {
        if (stage.find_loop(fresh) || outer == inner) {
            refuse(state, d, "stage " + stage.name() + " already has a loop named " + fresh, &stage, name,
                   "names that are not taken");
        }
    }
    for (const std::string &fresh : {outer, inner}) check_loop_name(state, d, stage, name, fresh);
    using Halide::Internal::simplify;
    const Expr f = static_cast<int>(factor);
    stage.loops.push_back({outer, simplify(count_blocks(loop.extent, factor)), loop.reduction, LoopKind::Serial});
    stage.loops.push_back({inner, f, loop.reduction, LoopKind::Serial});
    stage.relations.push_back(SplitRelation{name, outer, inner, factor, tail});
    const size_t at = stage.position(name);
    stage.order[at] = outer;
    stage.order.insert(stage.order.begin() + at + 1, inner);
}

namespace {

void apply_split(ScheduleState &state, const Directive &d, size_t index) {
    StageState &stage = stage_argument(state, d);
    const LoopState loop = loop_argument(stage, d);
    const Tail tail = tail_from_name(text_argument(d, "tail", "auto"));
    const std::string outer = text_argument(d, "outer", loop.name + ".o");
    split_loop(state, stage, d, loop.name, integer_argument(d, "factor"), outer,
               text_argument(d, "inner", loop.name + ".i"), tail);
    if (tail == Tail::Shift) check_repeated_sums(state, stage, d, index, loop.name, outer);
}

} // namespace

std::pair<LoopName, LoopName> StageHandle::split(LoopName loop, int64_t factor, SplitNames names, Place where) {
    nlohmann::json args = {{"loop", loop.name}, {"factor", factor}};
    if (!names.outer.empty()) args["outer"] = names.outer;
    if (!names.inner.empty()) args["inner"] = names.inner;
    if (names.tail != Tail::Auto) args["tail"] = tail_name(names.tail);
    apply("split", args, where);
    return {names.outer.empty() ? loop.name + ".o" : names.outer, names.inner.empty() ? loop.name + ".i" : names.inner};
}

namespace {

std::string split_cpp(const Directive &d) {
    std::string names;
    for (const char *n : {"outer", "inner"}) {
        if (d.arguments.contains(n))
            names += std::string(names.empty() ? "." : ", .") + n + " = " + d.arguments[n].dump();
    }
    if (d.arguments.contains("tail")) names += (names.empty() ? ".tail = " : ", .tail = ") + cpp_tail(d);
    return cpp_call(d, cpp_arguments(d, {"outer", "inner", "tail"}) + (names.empty() ? "" : ", {" + names + "}"));
}

} // namespace

const Primitive &split_primitive() {
    static const Primitive record = {
        "split",
        "loops",
        "Splits a loop in two: loop = outer * factor + inner. "
        "If the factor does not divide the extent, the tail strategy determines the last block. "
        "guard skips the iterations past the end. "
        "mask runs them with loads of inputs and stores switched off in their lanes. "
        "shift moves the last block inwards, so that it repeats some elements. "
        "pad stores zeros past the end, in storage that is rounded up. "
        "By default, the last block gets its own body if vectors or unrolled copies are inside, else a guard.",
        "The loop exists and is serial. "
        "The factor is at least 1. "
        "shift: for a reduction, the outer loop is outside of all reduction loops and is not parallel. "
        "pad: the loop is not a reduction loop and ends where its axis ends; the stage is not an output.",
        {{"stage", ArgumentKind::Stage, "the stage"},
         {"loop", ArgumentKind::Loop, "the loop to split"},
         {"factor", ArgumentKind::Integer, "the extent of the inner loop"},
         {"outer", ArgumentKind::Text, "name of the outer loop; <loop>.o by default", true},
         {"inner", ArgumentKind::Text, "name of the inner loop; <loop>.i by default", true},
         {"tail", ArgumentKind::Text, "the tail strategy", true, {"auto", "guard", "mask", "shift", "pad"}}},
        apply_split,
        {"matmul", {}, {"split", {{"stage", "C"}, {"loop", "i"}, {"factor", 14}}, {}}},
        {.order = 10,
         .cpp = split_cpp,
         .candidates = {{"outer", nullptr, 0.9}, {"inner", nullptr, 0.9}, {"tail", nullptr, 0.4}}},
    };
    return record;
}

} // namespace kumiko
