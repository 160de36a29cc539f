#include "schedules/schedule.h"

#include "schedules/saved_text.h"

#include "machine/instruction.h"
#include "machine/machine.h"
#include "schedules/condition.h"
#include "schedules/extern.h"
#include "schedules/facts.h"
#include "schedules/nest_text.h"
#include "schedules/primitive.h"
#include "schedules/primitives/steps.h"
#include "support/atomic_file.h"
#include "support/error.h"
#include "support/json.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace kumiko {

using nlohmann::json;

namespace {

constexpr int format_version = 1;

std::string indented(const std::string &text, int by) {
    std::string out;
    std::istringstream lines(text);
    for (std::string l; std::getline(lines, l);) out += std::string(by, ' ') + l + "\n";
    return out;
}

std::vector<std::string> plain(const std::vector<LoopName> &loops) {
    std::vector<std::string> names;
    for (const LoopName &l : loops) names.push_back(l.name);
    return names;
}

} // namespace

const StageState &StageHandle::state() const { return schedule_->state().stage(stage_); }

StageHandle &StageHandle::apply(const char *primitive, json arguments, Place where) {
    arguments["stage"] = stage_;
    schedule_->apply({primitive, std::move(arguments), where});
    return *this;
}

std::pair<LoopName, LoopName> StageHandle::split(LoopName loop, int64_t factor, SplitNames names, Place where) {
    json args = {{"loop", loop.name}, {"factor", factor}};
    if (!names.outer.empty()) args["outer"] = names.outer;
    if (!names.inner.empty()) args["inner"] = names.inner;
    if (names.tail != Tail::Auto) args["tail"] = tail_name(names.tail);
    apply("split", args, where);
    return {names.outer.empty() ? loop.name + ".o" : names.outer, names.inner.empty() ? loop.name + ".i" : names.inner};
}

FusedLoop StageHandle::fuse(LoopName outer, LoopName inner, const std::string &fused, Place where) {
    json args = {{"outer", outer.name}, {"inner", inner.name}};
    if (!fused.empty()) args["fused"] = fused;
    apply("fuse", args, where);
    return {*this, fused.empty() ? outer.name + "_" + inner.name : fused};
}

std::vector<LoopName> StageHandle::tile(const std::vector<LoopName> &loops, const std::vector<int64_t> &factors,
                                        Place where) {
    apply("tile", {{"loops", plain(loops)}, {"factors", factors}}, where);
    std::vector<LoopName> made;
    for (const char *part : {".o", ".i"}) {
        for (const LoopName &l : loops) made.push_back(l.name + part);
    }
    return made;
}

StageHandle &StageHandle::reorder(const std::vector<LoopName> &loops, Place where) {
    return apply("reorder", {{"loops", plain(loops)}}, where);
}

StageHandle &StageHandle::unroll(LoopName loop, int64_t factor, Place where) {
    json args = {{"loop", loop.name}};
    if (factor) args["factor"] = factor;
    return apply("unroll", args, where);
}

StageHandle &StageHandle::vectorize(LoopName loop, int64_t width, Tail tail, Place where) {
    json args = {{"loop", loop.name}};
    if (width) args["width"] = width;
    if (tail != Tail::Auto) args["tail"] = tail_name(tail);
    return apply("vectorize", args, where);
}

StageHandle &StageHandle::parallel(LoopName loop, Place where) {
    return apply("parallel", {{"loop", loop.name}}, where);
}

StageHandle &StageHandle::bind(LoopName loop, const std::string &level, Place where) {
    return apply("bind", {{"loop", loop.name}, {"level", level}}, where);
}

StageHandle &StageHandle::write_back(LoopName loop, Place where) {
    return apply("write_back", {{"loop", loop.name}}, where);
}

StageHandle &StageHandle::peel(LoopName loop, int64_t first, int64_t last, Place where) {
    return apply("peel", {{"loop", loop.name}, {"first", first}, {"last", last}}, where);
}

StageHandle StageHandle::region(LoopName loop, int64_t first, int64_t count, const std::string &name, Place where) {
    apply("region", {{"loop", loop.name}, {"first", first}, {"count", count}, {"name", name}}, where);
    return StageHandle(*schedule_, name);
}

StageHandle &StageHandle::compute_at(const std::string &consumer, LoopName loop, Place where) {
    return apply("compute_at", {{"consumer", consumer}, {"loop", loop.name}}, where);
}

StageHandle &StageHandle::store_at(const std::string &consumer, LoopName loop, Place where) {
    return apply("store_at", {{"consumer", consumer}, {"loop", loop.name}}, where);
}

StageHandle &StageHandle::compute_with(const std::string &other, LoopName loop, Place where) {
    return apply("compute_with", {{"with", other}, {"loop", loop.name}}, where);
}

StageHandle &StageHandle::compute_root(Place where) { return apply("compute_root", json::object(), where); }
StageHandle &StageHandle::inline_into(Place where) { return apply("inline_into", json::object(), where); }

StageHandle &StageHandle::finish_in(const std::string &consumer, Place where) {
    return apply("finish_in", {{"consumer", consumer}}, where);
}

StageHandle StageHandle::rfactor(LoopName loop, Place where) {
    const auto &before = schedule_->state().stages;
    std::set<std::string> names;
    for (const StageState &s : before) names.insert(s.name());
    apply("rfactor", {{"loop", loop.name}}, where);
    for (const StageState &s : schedule_->state().stages) {
        if (!names.count(s.name())) return StageHandle(*schedule_, s.name());
    }
    throw InternalError("rfactor made no stage");
}

StageHandle &StageHandle::scatter(LoopName loop, Place where) { return apply("scatter", {{"loop", loop.name}}, where); }
StageHandle StageHandle::interleave(LoopName loop, int64_t n, Place where) {
    std::set<std::string> names;
    for (const StageState &s : schedule_->state().stages) names.insert(s.name());
    apply("interleave", {{"loop", loop.name}, {"n", n}}, where);
    for (const StageState &s : schedule_->state().stages) {
        if (!names.count(s.name())) return StageHandle(*schedule_, s.name());
    }
    throw InternalError("interleave made no stage");
}

StageHandle StageHandle::offset(const std::string &tensor, int64_t by, const std::string &type, Place where) {
    apply("offset", {{"tensor", tensor}, {"by", by}, {"type", type}}, where);
    return StageHandle(*schedule_, stage_ + ".raw");
}

StageHandle StageHandle::expand(Place where) {
    apply("expand", json::object(), where);
    return StageHandle(*schedule_, stage_ + ".product");
}

StageHandle StageHandle::extend(const std::string &tensor, const std::string &axis, int64_t steps,
                                const std::string &with, Place where) {
    json args = {{"tensor", tensor}, {"axis", axis}, {"steps", steps}};
    if (!with.empty()) args["with"] = with;
    apply("extend", args, where);
    return StageHandle(*schedule_, tensor + ".extended");
}

StageHandle &StageHandle::online(const std::string &max, LoopName loop, const std::vector<std::string> &sums,
                                 Place where) {
    json args = {{"max", max}, {"loop", loop.name}};
    if (!sums.empty()) args["sums"] = sums;
    return apply("online", args, where);
}

StageHandle &StageHandle::place_in(const std::string &level, Place where) {
    schedule_->apply({"place_in", {{"tensor", stage_}, {"level", level}}, where});
    return *this;
}

StageHandle &StageHandle::accumulate_in(const std::string &level, LoopName loop, const std::string &rounds,
                                        Place where) {
    json args = {{"level", level}, {"loop", loop.name}};
    if (rounds != "reload") args["rounds"] = rounds;
    return apply("accumulate_in", args, where);
}

StageHandle &StageHandle::wait_in(const std::string &level, LoopName loop, Place where) {
    return apply("wait_in", {{"level", level}, {"loop", loop.name}}, where);
}

StageHandle &StageHandle::layout(const std::vector<std::string> &terms, Place where) {
    return apply("layout", {{"terms", terms}}, where);
}
StageHandle &StageHandle::hold_as(const std::string &type, Place where) {
    return apply("hold_as", {{"type", type}}, where);
}

StageHandle &StageHandle::double_buffer(Place where) { return apply("double_buffer", json::object(), where); }

StageHandle &StageHandle::pipeline(LoopName loop, int64_t stages, Place where) {
    return apply("pipeline", {{"loop", loop.name}, {"stages", stages}}, where);
}

StageHandle &StageHandle::stream(Place where) { return apply("stream", {}, where); }

StageHandle &StageHandle::prefetch(const std::string &tensor, LoopName loop, int64_t distance, Place where) {
    return apply("prefetch", {{"tensor", tensor}, {"loop", loop.name}, {"distance", distance}}, where);
}

StageHandle &StageHandle::prefetch(const std::string &tensor, LoopName loop, int64_t distance,
                                   const std::string &consumer, LoopName of, Place where) {
    return apply(
        "prefetch",
        {{"tensor", tensor}, {"loop", loop.name}, {"distance", distance}, {"consumer", consumer}, {"of", of.name}},
        where);
}

StageHandle &StageHandle::tensorize(LoopName loop, const std::string &instruction, Place where) {
    return apply("tensorize", {{"loop", loop.name}, {"instruction", instruction}}, where);
}

StageHandle &StageHandle::tensorize(LoopName loop, const Instruction &instruction, Place where) {
    schedule_->know(instruction);
    return tensorize(std::move(loop), instruction.name, where);
}

Schedule &Schedule::know(const Instruction &instruction) {
    if (const Instruction *have = state_->instructions->find(instruction.name);
        have && have->meaning.hash() == instruction.meaning.hash() && have->emitter == instruction.emitter)
        return *this;
    auto all = std::make_shared<InstructionSet>(*state_->instructions);
    all->add(instruction);
    auto next = std::make_shared<ScheduleState>(*state_);
    next->instructions = all;
    state_ = next;
    return *this;
}

Schedule::Schedule(const Op &op) : Schedule(op, Machine::host()) {}
Schedule::Schedule(const Schedule &) = default;
Schedule::Schedule(Schedule &&) noexcept = default;
Schedule &Schedule::operator=(const Schedule &) = default;
Schedule &Schedule::operator=(Schedule &&) noexcept = default;
Schedule::~Schedule() = default;

Schedule::Schedule(const Op &op, const Machine &machine, std::shared_ptr<const InstructionSet> instructions)
    : state_(std::make_shared<const ScheduleState>(op, std::make_shared<const Machine>(machine),
                                                   std::move(instructions))) {}

StageHandle Schedule::stage(const std::string &name, Place where) {
    if (!state_->find(name))
        throw UserError(where, "op " + op().name() + " has no stage \"" + name + "\"; its stages are " +
                                   state_->stage_names());
    return StageHandle(*this, name);
}

StageHandle Schedule::place_in(const std::string &tensor, const std::string &level, const std::string &consumer,
                               LoopName loop, Place where) {
    std::set<std::string> names;
    for (const StageState &s : state_->stages) names.insert(s.name());
    apply({"place_in", {{"tensor", tensor}, {"level", level}, {"consumer", consumer}, {"loop", loop.name}}, where});
    for (const StageState &s : state_->stages) {
        if (!names.count(s.name())) return StageHandle(*this, s.name());
    }
    throw InternalError("place_in made no stage");
}

Schedule &Schedule::accumulate_in(const std::string &stage, const std::string &level, LoopName loop,
                                  const std::string &rounds, Place where) {
    json args = {{"stage", stage}, {"level", level}, {"loop", loop.name}};
    if (rounds != "reload") args["rounds"] = rounds;
    return apply({"accumulate_in", args, where});
}

StageHandle Schedule::reindex(const std::string &tensor, const std::string &consumer,
                              const std::vector<std::string> &groups, Place where) {
    apply({"reindex", {{"tensor", tensor}, {"consumer", consumer}, {"groups", groups}}, where});
    return StageHandle(*this, tensor + ".by." + consumer);
}

StageHandle Schedule::prepack(const std::string &tensor, const std::vector<std::string> &layout, Place where) {
    apply({"prepack", {{"tensor", tensor}, {"terms", layout}}, where});
    return StageHandle(*this, state_->find(tensor) ? tensor : tensor + ".packed");
}

Schedule &Schedule::assume(const Expr &condition, Place where) {
    check_condition(op(), condition, "assume", where);
    return apply({"assume", {{"condition", condition_text(condition)}}, where});
}

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
    json directives = json::array();
    for (const Directive &d : schedule.directives()) {
        if (d.primitive != "specialize") directives.push_back(directive_json(d));
    }
    return apply({"specialize", {{"condition", text}, {"schedule", directives}}, where});
}

namespace {

// "kernel.cpp:12"; for a saved schedule "directive 3".
std::string place_of(const Directive &d, size_t index) {
    std::string file = d.where.file_name();
    if (const auto slash = file.rfind('/'); slash != std::string::npos) file = file.substr(slash + 1);
    return file.empty() ? "directive " + std::to_string(index + 1) : file + ":" + std::to_string(d.where.line());
}

} // namespace

void Schedule::check_obligations(const ScheduleState &state, const Directive &d) const {
    for (const Obligation &o : state.obligations) {
        const std::string why = o.broken(state);
        if (why.empty()) continue;
        if (o.directive >= directives_.size()) fail_at(d, call_text(d) + ": " + why);
        const Directive &earlier = directives_[o.directive];
        const std::string line = place_of(earlier, o.directive);
        const StageState *stage = state.find(text_argument(d, "stage"));
        fail_at(d, call_text(d) + " takes away what " + call_text(earlier) + " (" + line + ") relies on: " + why +
                       "\n" + (stage ? "  it would make\n" + stage_text(*stage) : "") +
                       "  legal here: a directive that does not change this, or this directive before " +
                       call_text(earlier));
    }
}

// Applies one directive at position `index`, and checks the invariants.
void Schedule::advance(ScheduleState &state, const Directive &d, size_t index) const {
    primitive(d.primitive).apply(state, d, index);
    check_obligations(state, d);
    for (const StageState &s : state.stages) {
        if (s.placement.kind != Placement::Kind::At || !s.finished_into.empty()) continue;
        if (const std::string why = uncovered(state, s.name(), s.placement.consumer, s.placement.loop); !why.empty()) {
            fail_at(d, call_text(d) + ": stage " + s.name() + " is computed at loop " + s.placement.loop + " of " +
                           s.placement.consumer + ", where it could no longer stand: " + why);
        }
    }
    if (const std::string why = broken_extern(state); !why.empty()) fail_at(d, call_text(d) + ": " + why);
    if (const std::string why = broken_recurrence(state); !why.empty()) fail_at(d, call_text(d) + ": " + why);
    if (const std::string why = broken_inout(state); !why.empty()) fail_at(d, call_text(d) + ": " + why);
}

namespace {

// The stage that the directive places; "" if none.
std::string placed_by(const Directive &d) {
    const bool places = d.primitive == "compute_at" || d.primitive == "store_at" || d.primitive == "compute_root" ||
                        d.primitive == "inline_into";
    return places ? text_argument(d, "stage") : "";
}

} // namespace

// Applies the directives that are legal now; each may make others legal. Placements of one stage
// stay in order.
void Schedule::apply_pending(ScheduleState &state, std::vector<Pending> &pending, const Directive &latest) const {
    for (size_t n = 0; n < pending.size();) {
        const size_t index = pending[n].directive;
        const Directive &d = directives_[index];
        const auto same_stage = [&](const Pending &p) { return !p.placed.empty() && p.placed == pending[n].placed; };
        if (std::any_of(pending.begin(), pending.begin() + static_cast<std::ptrdiff_t>(n), same_stage)) {
            n++;
            continue;
        }
        ScheduleState next = state;
        try {
            advance(next, d, index);
        } catch (const NotYet &e) {
            pending[n++].why = e;
            continue;
        } catch (const UserError &e) {
            fail_at(latest, call_text(latest) + " makes " + call_text(d) + " (" + place_of(d, index) +
                                "), which is pending, illegal: " + e.message());
        }
        state = std::move(next);
        pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(n));
        n = 0;
    }
}

Schedule &Schedule::apply(Directive d) {
    try {
        check_arguments(primitive(d.primitive), d);
        ScheduleState next = *state_;
        std::vector<Pending> pending = pending_;
        const std::string placed = placed_by(d);
        if (d.primitive == "compute_root" || d.primitive == "inline_into" || d.primitive == "compute_with") {
            std::erase_if(pending, [&](const Pending &p) {
                const Directive &other = directives_[p.directive];
                return other.primitive == "compute_with" && text_argument(other, "stage") == text_argument(d, "stage");
            });
        }
        const Directive *stored = nullptr; // a pending store_at of the same stage
        if (!placed.empty()) {
            for (const Pending &p : pending) {
                if (p.placed == placed && directives_[p.directive].primitive == "store_at")
                    stored = &directives_[p.directive];
            }
            // The last placement of a stage wins, except that compute_at after store_at belongs to
            // it.
            if (stored && d.primitive != "compute_at") stored = nullptr;
            if (!stored) std::erase_if(pending, [&](const Pending &p) { return p.placed == placed; });
        }
        if (stored) {
            pending.push_back({directives_.size(),
                               UserError(d.where, call_text(d) + ": " + call_text(*stored) + " is pending"), placed});
        } else {
            try {
                advance(next, d, directives_.size());
                apply_pending(next, pending, d);
            } catch (const NotYet &e) {
                pending.push_back({directives_.size(), e, placed});
                next = *state_;
            }
        }
        auto state = std::make_shared<const ScheduleState>(std::move(next));
        directives_.push_back(std::move(d));
        pending_ = std::move(pending);
        state_ = std::move(state);
    } catch (const Halide::Error &e) {
        throw InternalError(d.primitive + ": " + e.what());
    }
    return *this;
}

std::vector<size_t> Schedule::pending() const {
    std::vector<size_t> all;
    for (const Pending &p : pending_) all.push_back(p.directive);
    return all;
}

void Schedule::require_applied() const {
    if (!pending_.empty()) throw pending_.front().why;
}

Schedule &Schedule::undo(Place where) {
    if (directives_.empty()) throw UserError(where, "there is no directive to undo");
    Schedule fresh(op(), machine(), state_->instructions);
    for (size_t i = 0; i + 1 < directives_.size(); i++) fresh.apply(directives_[i]);
    return *this = std::move(fresh);
}

namespace {

// The nest with the known facts about sizes substituted.
std::string nest_under(const ScheduleState &state, std::vector<Expr> conditions) {
    std::string text;
    for (const Assume &a : state.assumptions) {
        conditions.push_back(a.condition);
        text += "assume " + a.text + "\n";
    }
    text += nest_text(conditions.empty() ? state : facts_of(state.op, conditions).apply(state));
    for (const Specialization &s : state.specializations) {
        std::vector<Expr> inside = conditions;
        inside.push_back(s.condition);
        text += "when " + s.text + ":\n" + indented(nest_under(s.schedule->state(), inside), 2);
    }
    return text;
}

} // namespace

NestText Schedule::nest() const {
    std::string text = nest_under(*state_, {});
    for (const Pending &p : pending_) {
        const std::string why = p.why.message(), on = text_argument(directives_[p.directive], "stage");
        text += "pending: " + (on.empty() ? "" : on + ".") + why.substr(0, why.find('\n')) + "\n";
    }
    return {text, op().name()};
}

std::string Schedule::explain() const {
    Schedule fresh(op(), machine(), state_->instructions);
    std::string text = fresh.nest();
    for (const Directive &d : directives_) {
        fresh.apply(d);
        const std::string on = text_argument(d, "stage");
        text += "\n" + (on.empty() ? "" : on + ".") + call_text(d) + "\n" + fresh.nest();
    }
    return text;
}

namespace {

std::string cpp_value(const json &v) {
    if (!v.is_array()) return v.dump();
    std::string inner;
    for (const json &x : v) inner += (inner.empty() ? "" : ", ") + x.dump();
    return "{" + inner + "}";
}

} // namespace

std::string cpp_text(const Directive &d) {
    const json &a = d.arguments;
    std::string args;
    for (const Parameter &q : primitive(d.primitive).parameters) {
        if (!strcmp(q.name, "stage") || !a.contains(q.name)) continue;
        if (d.primitive == "split" && (!strcmp(q.name, "outer") || !strcmp(q.name, "inner") || !strcmp(q.name, "tail")))
            continue;
        if (d.primitive == "vectorize" && !strcmp(q.name, "tail")) continue;
        if (q.kind == ArgumentKind::Condition) {
            args += a[q.name].get<std::string>();
            continue;
        }
        args += (args.empty() ? "" : ", ") + cpp_value(a[q.name]);
    }
    const auto tail = [&] {
        std::string name = a["tail"];
        name[0] = static_cast<char>(toupper(name[0]));
        return "Tail::" + name;
    };
    if (d.primitive == "split" && (a.contains("outer") || a.contains("inner") || a.contains("tail"))) {
        std::string names;
        for (const char *n : {"outer", "inner"}) {
            if (a.contains(n)) names += (names.empty() ? "." : ", .") + std::string(n) + " = " + a[n].dump();
        }
        if (a.contains("tail")) names += (names.empty() ? "." : ", .") + ("tail = " + tail());
        args += ", {" + names + "}";
    }
    if (d.primitive == "vectorize" && a.contains("tail"))
        args += std::string(a.contains("width") ? "" : ", 0") + ", " + tail();
    const std::string on = a.contains("stage") ? "s.stage(" + a["stage"].dump() + ")." : "s.";
    if (d.primitive == "place_in" && !a.contains("consumer"))
        return "s.stage(" + a["tensor"].dump() + ").place_in(" + a["level"].dump() + ");";
    return on + d.primitive + "(" + args + ");";
}

namespace {

// `of`: constructor arguments of the schedule, "op" or "op, machine_named(…)".
std::string directives_cpp(const json &directives, const std::string &schedule, const std::string &of) {
    std::string text = "Schedule " + schedule + "(" + of + ");\n";
    for (const json &one : directives) {
        const Directive d = directive_of(one);
        if (d.primitive != "specialize") {
            // The text starts with the schedule's name, s.
            text += schedule + cpp_text(d).substr(1) + "\n";
            continue;
        }
        std::istringstream lines(directives_cpp(d.arguments["schedule"], "special", of));
        text += "{\n";
        for (std::string l; std::getline(lines, l);) text += "    " + l + "\n";
        text += "    s.specialize(" + text_argument(d, "condition") + ", special);\n}\n";
    }
    return text;
}

} // namespace

void require_saved_schedule(const json &saved) {
    if (!saved.is_object() || saved.value("kumiko", json()) != "schedule")
        throw UserError("this is not a saved schedule: the mark \"kumiko\": \"schedule\" is missing");
    if (!saved.contains("version") || !saved["version"].is_number_integer())
        throw UserError("the saved schedule does not state its version");
    const int64_t version = saved["version"];
    if (version < 1)
        throw UserError("the saved schedule states version " + saved["version"].dump() + "; versions count from 1");
    if (version > format_version) {
        throw UserError("the saved schedule has format version " + std::to_string(version) + ", newer than " +
                        std::to_string(format_version) +
                        ", which this program reads; load it with the program that saved it, or a newer one");
    }
    if (!saved.contains("directives") || !saved["directives"].is_array())
        throw UserError("the saved schedule has no list of directives");
}

std::string saved_cpp_text(const json &saved) {
    require_saved_schedule(saved);
    return directives_cpp(saved["directives"], "s", "op");
}

std::string Schedule::to_cpp() const {
    const bool chip = machine().architecture == "chip"; // otherwise the host
    return directives_cpp(to_json()["directives"], "s", chip ? "op, machine_named(\"" + machine().name + "\")" : "op");
}

json Schedule::to_json() const {
    json directives = json::array();
    for (const Directive &d : directives_) directives.push_back(directive_json(d));
    return {{"kumiko", "schedule"},
            {"version", format_version},
            {"op", op().name()},
            {"hash", op().hash()},
            {"directives", directives}};
}

void Schedule::save(const std::string &file) const {
    require_applied();
    write_file_atomically(file, to_json().dump(1) + "\n");
}

Schedule Schedule::from_json(const Op &op, const json &j, SavedFor saved) {
    return from_json(op, Machine::host(), j, nullptr, saved);
}

Schedule Schedule::from_json(const Op &op, const Machine &machine, const json &j,
                             std::shared_ptr<const InstructionSet> instructions, SavedFor saved) {
    require_saved_schedule(j);
    const auto text_at = [&](const char *name) {
        return j.contains(name) && j[name].is_string() ? j[name].get<std::string>() : std::string("?");
    };
    if (saved == SavedFor::ThisOp && (text_at("hash") != op.hash() || text_at("op") != op.name())) {
        throw UserError("the saved schedule is one of op " + text_at("op") + " with hash " + text_at("hash") +
                        ", not of " + op.name() + " with hash " + op.hash() +
                        "; the formula, a shape or a type differs. SavedFor::AnyOp, --force of the kumiko command, "
                        "applies its directives to this op");
    }
    Schedule s(op, machine, std::move(instructions));
    for (const json &one : j["directives"]) {
        try {
            s.apply(directive_of(one));
        } catch (const UserError &e) {
            throw UserError("directive " + std::to_string(s.directives().size() + 1) +
                            " of the saved schedule: " + e.what());
        }
    }
    return s;
}

Schedule Schedule::parse(const Op &op, const std::string &text, SavedFor saved) {
    return from_json(op, json(parse_json(text, "the saved schedule")), saved);
}

Schedule Schedule::load(const Op &op, const std::string &file, SavedFor saved) {
    const Json text = load_json(file);
    try {
        return from_json(op, json(text), saved);
    } catch (const UserError &e) {
        throw UserError(file + ": " + e.what());
    }
}

} // namespace kumiko
