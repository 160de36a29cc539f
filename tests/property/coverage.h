// Coverage of random pairs: how often each primitive, tail, memory level, instruction, type and
// kind of formula was drawn and accepted. A row that stays at zero was not tested by a long run.
#pragma once

#include "machine/instruction.h"
#include "schedules/schedule.h"
#include "tests/property/random_op.h"

#include <cstdio>
#include <functional>
#include <map>

namespace kumiko::property {

class Coverage {
public:
    explicit Coverage(const Machine &machine) {
        for (const Primitive *p : primitives()) {
            const char *only = p->details.architecture;
            if (!only || machine.architecture == only) add("primitive", p->name);
        }
        for (int t = 0; t < 5; t++) add("tail", tail_name(static_cast<Tail>(t)));
        for (const MemoryLevel &l : machine.memory) add("level", l.name);
        for (const Instruction *i : InstructionSet::builtin().available_on(machine)) {
            if (!i->in_memory) add("instruction", i->name);
        }
        for (Type t : {boolean, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64}) add("type", type_name(t));
        for (const char *k :
             {"pointwise", "recurrence", "several recurrences", "recurrence over steps", "padding", "sum", "product",
              "maximum", "minimum", "argmax", "argmin", "reduce", "reduce ordered", "tuple", "tuple ordered"})
            add("stage", k);
        for (const char *k : {"sizes", "two outputs", "three stages", "stated strides", "empty axis", "specialized",
                              "other sizes", "inout", "rolling"})
            add("pair", k);
    }

    static constexpr size_t most = 256;
    size_t size() const { return names_.size(); }
    const std::string &name(size_t row) const { return names_[row]; }

    // Adds one accepted pair to `counts`, once per row.
    void count(const RandomOp &r, const std::vector<Directive> &directives, bool resized, int64_t *counts) const {
        const auto see = [&](const std::string &group, const std::string &what) {
            for (size_t n = 0; n < names_.size(); n++) counts[n] += names_[n] == group + " " + what;
        };
        const std::function<void(const std::vector<Directive> &)> all = [&](const std::vector<Directive> &list) {
            std::map<std::string, std::string> kept; // stage to its host
            for (const Directive &d : list) {
                see("primitive", d.primitive);
                if (d.primitive == "store_at") kept[d.arguments["stage"]] = d.arguments["consumer"];
                if (d.primitive == "compute_at" && kept.count(d.arguments["stage"]) &&
                    kept[d.arguments["stage"]] == d.arguments["consumer"])
                    see("pair", "rolling");
                for (const char *group : {"tail", "level", "instruction"}) {
                    if (d.arguments.contains(group)) see(group, d.arguments[group]);
                }
                if (!d.arguments.contains("schedule")) continue;
                std::vector<Directive> inner;
                for (const auto &one : d.arguments["schedule"]) inner.push_back(directive_of(one));
                if (!inner.empty()) see("pair", "specialized");
                all(inner);
            }
        };
        all(directives);
        for (const Input &in : r.op.inputs()) see("type", type_name(in.type));
        for (const Stage &s : r.op.stages()) {
            see("type", type_name(s.type));
            const bool ordered = s.reduction_kind == "reduce" && !s.properties.commutative;
            see("stage", s.kind == Stage::Kind::Padding ? "padding"
                         : s.takes_steps()              ? "recurrence over steps"
                         : s.reads_itself()             ? (s.components.empty() ? "recurrence" : "several recurrences")
                         : !s.is_reduction()            ? "pointwise"
                         : s.reduction_kind == "reduce" && s.components.size() > 1
                             ? (ordered ? "tuple ordered" : "tuple")
                         : ordered ? "reduce ordered"
                                   : s.reduction_kind);
        }
        if (!r.op.sizes().empty()) see("pair", "sizes");
        if (r.op.outputs().size() > 1) see("pair", "two outputs");
        if (r.op.stages().size() > 2) see("pair", "three stages");
        bool strides = false, empty = false;
        for (const Input &in : r.op.inputs()) strides = strides || in.stated_strides;
        for (const Stage &s : r.op.stages()) {
            for (const auto *axes : {&s.axes, &s.reduction_axes}) {
                for (const Axis &a : *axes) empty = empty || Halide::Internal::is_const_zero(a.extent());
            }
        }
        if (r.op.separate_outputs().size() < r.op.outputs().size()) see("pair", "inout");
        if (resized) see("pair", "other sizes");
        if (strides) see("pair", "stated strides");
        if (empty) see("pair", "empty axis");
    }

    void print(const int64_t *counts) const {
        for (size_t n = 0; n < names_.size(); n++)
            std::printf("%-28s %lld\n", names_[n].c_str(), static_cast<long long>(counts[n]));
    }

private:
    std::vector<std::string> names_;
    void add(const std::string &group, const std::string &what) { names_.push_back(group + " " + what); }
};

} // namespace kumiko::property
