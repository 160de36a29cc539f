// Schedules. One file, because it is one class: a directive is applied, checked, kept pending,
// undone, printed, saved and loaded by the same list.
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
#include "schedules/traits.h"
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

} // namespace

const StageState &StageHandle::state() const { return schedule_->state().stage(stage_); }

StageHandle &StageHandle::apply(const char *primitive, json arguments, Place where) {
    arguments["stage"] = stage_;
    schedule_->apply({primitive, std::move(arguments), where});
    return *this;
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
        fail_at(d, call_text(d) + " breaks a requirement of " + call_text(earlier) + " (" + line + "): " + why + "\n" +
                       (stage ? "  it would make\n" + stage_text(*stage) : "") +
                       "  legal here: a directive that keeps the requirement, or this directive before " +
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
                           s.placement.consumer + ", which would become illegal: " + why);
        }
    }
    if (const std::string why = broken_extern(state); !why.empty()) fail_at(d, call_text(d) + ": " + why);
    if (const std::string why = broken_recurrence(state); !why.empty()) fail_at(d, call_text(d) + ": " + why);
    if (const std::string why = broken_inout(state); !why.empty()) fail_at(d, call_text(d) + ": " + why);
    if (const Exclusion why = conflict(state, *state_)) refuse(state, d, why.reason, nullptr, "", why.remedy);
}

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
        const PrimitiveDetails &details = primitive(d.primitive).details;
        const std::string stage = text_argument(d, "stage"), placed = details.places ? stage : "";
        const auto holds = [](const std::vector<std::string> &names, const std::string &name) {
            return std::find(names.begin(), names.end(), name) != names.end();
        };
        const auto same_stage = [&](const Pending &p) {
            return text_argument(directives_[p.directive], "stage") == stage;
        };
        const Directive *first = nullptr; // a pending directive that this one waits for
        for (const Pending &p : pending) {
            const Directive &earlier = directives_[p.directive];
            if (same_stage(p) && holds(details.waits_for, earlier.primitive)) first = &earlier;
        }
        std::erase_if(pending, [&](const Pending &p) {
            const PrimitiveDetails &earlier = primitive(directives_[p.directive].primitive).details;
            return !first && same_stage(p) && holds(earlier.ended_by, d.primitive);
        });
        if (first) {
            pending.push_back({directives_.size(),
                               UserError(d.where, call_text(d) + ": " + call_text(*first) + " is pending"), placed});
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

std::string cpp_value(ArgumentKind kind, const json &v) {
    if (kind == ArgumentKind::Condition) return v.get<std::string>();
    if (kind == ArgumentKind::Schedule) return "special"; // declared by directives_cpp
    if (!v.is_array()) return v.dump();
    std::string inner;
    for (const json &x : v) inner += (inner.empty() ? "" : ", ") + x.dump();
    return "{" + inner + "}";
}

} // namespace

std::string cpp_arguments(const Directive &d, const std::vector<std::string> &but) {
    const json &a = d.arguments;
    std::string args;
    for (const Parameter &q : primitive(d.primitive).parameters) {
        if (!strcmp(q.name, "stage") || !a.contains(q.name)) continue;
        if (std::find(but.begin(), but.end(), std::string(q.name)) != but.end()) continue;
        args += (args.empty() ? "" : ", ") + cpp_value(q.kind, a[q.name]);
    }
    return args;
}

std::string cpp_tail(const Directive &d) {
    std::string name = text_argument(d, "tail");
    name[0] = static_cast<char>(toupper(name[0]));
    return "Tail::" + name;
}

std::string cpp_call(const Directive &d, const std::string &arguments) {
    const std::string on = d.arguments.contains("stage") ? "s.stage(" + d.arguments["stage"].dump() + ")." : "s.";
    return on + d.primitive + "(" + arguments + ");";
}

std::string cpp_text(const Directive &d) {
    const PrimitiveDetails &details = primitive(d.primitive).details;
    return details.cpp ? details.cpp(d) : cpp_call(d, cpp_arguments(d));
}

namespace {

// `of`: constructor arguments of the schedule, "op" or "op, machine_named(…)".
std::string directives_cpp(const json &directives, const std::string &schedule, const std::string &of) {
    std::string text = "Schedule " + schedule + "(" + of + ");\n";
    for (const json &one : directives) {
        const Directive d = directive_of(one);
        // The text starts with the schedule's name, s.
        const std::string call = schedule + cpp_text(d).substr(1) + "\n";
        const Parameter *inner = nullptr;
        for (const Parameter &q : primitive(d.primitive).parameters) {
            if (q.kind == ArgumentKind::Schedule) inner = &q;
        }
        const std::string special = inner ? directives_cpp(d.arguments[inner->name], "special", of) : "";
        text += inner ? "{\n" + indented(special + call, 4) + "}\n" : call;
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
