#include "schedules/primitive.h"

#include "machine/machine.h"
#include "schedules/nest_text.h"
#include "support/error.h"
#include "support/names.h"

#include <cstring>

namespace kumiko {

std::vector<const Primitive *> primitive_list(); // schedules/primitives.cmake

namespace {

const char *what_is_needed(ArgumentKind kind) {
    switch (kind) {
    case ArgumentKind::Stage:
        return "the name of a stage";
    case ArgumentKind::Loop:
        return "the name of a loop";
    case ArgumentKind::Loops:
        return "a list of names of loops";
    case ArgumentKind::Tensor:
        return "the name of a tensor";
    case ArgumentKind::Level:
        return "the name of a memory level";
    case ArgumentKind::Integer:
        return "a whole number below 2^63";
    case ArgumentKind::Integers:
        return "a list of whole numbers below 2^63";
    case ArgumentKind::Text:
        return "a string";
    case ArgumentKind::Names:
        return "a list of strings";
    case ArgumentKind::Condition:
        return "a condition over the sizes, as a string";
    case ArgumentKind::Schedule:
        return "a list of directives";
    }
    return "";
}

// Whether it fits int64; larger values would become negative.
bool is_whole(const nlohmann::json &v) {
    return v.is_number_integer() && (!v.is_number_unsigned() || v.get<uint64_t>() <= INT64_MAX);
}

bool fits(ArgumentKind kind, const nlohmann::json &v) {
    const auto all = [&](auto test) { return v.is_array() && std::all_of(v.begin(), v.end(), test); };
    switch (kind) {
    case ArgumentKind::Integer:
        return is_whole(v);
    case ArgumentKind::Integers:
        return all(is_whole);
    case ArgumentKind::Loops:
    case ArgumentKind::Names:
        return all([](const auto &x) { return x.is_string(); });
    case ArgumentKind::Schedule:
        return v.is_array();
    default:
        return v.is_string();
    }
}

} // namespace

nlohmann::json directive_json(const Directive &d) {
    nlohmann::json one = {{"primitive", d.primitive}};
    one.update(d.arguments);
    return one;
}

Directive directive_of(const nlohmann::json &j, std::source_location where) {
    if (!j.is_object() || !j.contains("primitive") || !j["primitive"].is_string()) {
        throw UserError("a directive of the saved schedule does not name its primitive: " + j.dump());
    }
    Directive d{j["primitive"], j, where};
    d.arguments.erase("primitive");
    return d;
}

const std::vector<std::string> &primitive_groups() {
    static const std::vector<std::string> groups = {"loops", "stages", "memory", "machine", "facts"};
    return groups;
}

const std::vector<const Primitive *> &primitives() {
    static const std::vector<const Primitive *> sorted = [] {
        std::vector<const Primitive *> all = primitive_list();
        const auto key = [](const Primitive *p) {
            const auto &groups = primitive_groups();
            const auto group = std::find(groups.begin(), groups.end(), p->group);
            if (group == groups.end()) throw InternalError(std::string(p->name) + " has no group " + p->group);
            return std::make_tuple(group - groups.begin(), p->details.order, std::string(p->name));
        };
        std::sort(all.begin(), all.end(), [&](const Primitive *a, const Primitive *b) { return key(a) < key(b); });
        return all;
    }();
    return sorted;
}

const Primitive &primitive(const std::string &name) {
    for (const Primitive *p : primitives()) {
        if (name == p->name) return *p;
    }
    std::vector<std::string> all;
    for (const Primitive *p : primitives()) all.push_back(p->name);
    throw UserError("there is no primitive \"" + name + "\"" + suggest(name, all));
}

void check_arguments(const Primitive &p, const Directive &d) {
    const std::string where = "directive " + d.primitive + ": ";
    if (!d.arguments.is_object()) fail_at(d, where + "its arguments must be an object");
    for (const Parameter &q : p.parameters) {
        if (!d.arguments.contains(q.name)) {
            if (q.optional) continue;
            fail_at(d, where + "the argument \"" + q.name + "\" is missing; it is " + what_is_needed(q.kind));
        }
        const auto &v = d.arguments[q.name];
        if (!fits(q.kind, v)) fail_at(d, where + "the argument \"" + q.name + "\" must be " + what_is_needed(q.kind));
        if (!q.choices.empty() &&
            std::find(q.choices.begin(), q.choices.end(), v.get<std::string>()) == q.choices.end()) {
            std::string legal;
            for (const auto &c : q.choices) legal += (legal.empty() ? "" : ", ") + c;
            fail_at(d, where + "\"" + v.get<std::string>() + "\" is not a legal " + q.name + "; legal are " + legal);
        }
    }
    for (const auto &[name, v] : d.arguments.items()) {
        bool known = false;
        for (const Parameter &q : p.parameters) known = known || name == q.name;
        if (!known) fail_at(d, where + "it has no argument \"" + name + "\"");
    }
}

std::string text_argument(const Directive &d, const char *name, const std::string &otherwise) {
    return d.arguments.contains(name) ? d.arguments[name].get<std::string>() : otherwise;
}

int64_t integer_argument(const Directive &d, const char *name, int64_t otherwise) {
    return d.arguments.contains(name) ? d.arguments[name].get<int64_t>() : otherwise;
}

std::vector<std::string> names_argument(const Directive &d, const char *name) {
    return d.arguments.contains(name) ? d.arguments[name].get<std::vector<std::string>>() : std::vector<std::string>{};
}

StageState &stage_argument(ScheduleState &state, const Directive &d) {
    const std::string name = text_argument(d, "stage");
    if (StageState *s = state.find(name)) return *s;
    std::vector<std::string> all;
    for (const StageState &s : state.stages) all.push_back(s.name());
    refuse(state, d, "op " + state.op.name() + " has no stage \"" + name + "\"" + suggest(name, all));
}

const LoopState &loop_argument(const StageState &stage, const Directive &d, const char *name) {
    const std::string loop = d.arguments[name].get<std::string>();
    if (!stage.finished_by.empty()) {
        throw UserError(d.where, call_text(d) + ": stage " + stage.name() + " is finished in " + stage.finished_by +
                                     ", so its own loops are no longer used\n  legal here: the loops of " +
                                     stage.finished_by);
    }
    if (stage.has_loop(loop)) return stage.loop(loop);
    std::string cause = "stage " + stage.name() + " has no loop \"" + loop + "\"";
    for (const Relation &r : stage.relations) {
        if (const auto *s = std::get_if<SplitRelation>(&r); s && s->parent == loop) {
            cause = "loop " + loop + " was already split into " + s->outer + " and " + s->inner;
        } else if (const auto *f = std::get_if<FuseRelation>(&r); f && (f->outer == loop || f->inner == loop)) {
            cause = "loop " + loop + " was already fused into " + f->fused;
        }
    }
    std::string list;
    for (const auto &n : stage.order) list += (list.empty() ? "" : ", ") + n;
    fail_at(d, call_text(d) + ": " + cause + "\n" + stage_text(stage) + "  legal here: the loops " + list);
}

const MemoryLevel &level_argument(const ScheduleState &state, const Directive &d) {
    try {
        return state.machine->level(text_argument(d, "level"));
    } catch (const UserError &e) {
        refuse(state, d, e.what());
    }
}

const std::vector<Axis> &tensor_argument(const ScheduleState &state, const Directive &d) {
    const std::string name = text_argument(d, "tensor");
    if (const Input *in = state.op.find_input(name)) return in->axes;
    if (const StageState *s = state.producer(name)) return s->def.axes;
    std::vector<std::string> all;
    for (const Input &in : state.op.inputs()) all.push_back(in.name);
    for (const StageState &s : state.stages) all.push_back(s.name());
    refuse(state, d, "op " + state.op.name() + " has no tensor \"" + name + "\"" + suggest(name, all));
}

std::string call_text(const Directive &d) {
    std::string args;
    for (const Parameter &q : primitive(d.primitive).parameters) {
        if (!strcmp(q.name, "stage") || !d.arguments.contains(q.name)) continue;
        const auto &v = d.arguments[q.name];
        args += (args.empty() ? "" : ", ");
        if (v.is_array() && q.kind != ArgumentKind::Schedule) {
            std::string inner;
            for (const auto &x : v) inner += (inner.empty() ? "" : ", ") + x.dump();
            args += "{" + inner + "}";
        } else {
            args += q.kind == ArgumentKind::Schedule ? "…" : v.dump();
        }
    }
    return d.primitive + "(" + args + ")";
}

void fail_at(const Directive &d, const std::string &text) { throw UserError(d.where, text); }

namespace {

std::string refusal_text(const Directive &d, const std::string &cause, const StageState *stage, const std::string &loop,
                         const std::string &legal) {
    std::string text = call_text(d) + ": " + cause;
    if (stage) text += "\n" + stage_text(*stage, loop, d.primitive + " asked here");
    if (!legal.empty()) text += (stage ? "  " : "\n  ") + std::string("legal here: ") + legal;
    return text;
}

} // namespace

void refuse(const ScheduleState &, const Directive &d, const std::string &cause, const StageState *stage,
            const std::string &loop, const std::string &legal) {
    fail_at(d, refusal_text(d, cause, stage, loop, legal));
}

void require_stage(const ScheduleState &state, const Directive &d, const std::string &name) {
    if (!state.find(name)) refuse(state, d, "there is no stage \"" + name + "\"", nullptr, "", state.stage_names());
}

void refuse_yet(const ScheduleState &, const Directive &d, const std::string &cause, const StageState *stage,
                const std::string &loop, const std::string &legal) {
    throw NotYet(d.where, refusal_text(d, cause, stage, loop, legal));
}

} // namespace kumiko
