#include "dsl/type_range.h"
#include "schedules/candidates.h"
#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"
#include "schedules/traits.h"
#include "support/error.h"

namespace kumiko {

namespace {

using namespace Halide::Internal;

// Rewrites reads of `tensor` so that their values do not change. A cast is applied directly to the
// stored value if the result is the same. An integer stored as float is not cast directly to an
// integer type that lacks some of its values: the cast would saturate instead of wrap.
Expr with_held_reads(const Expr &e, const std::string &tensor, Type held) {
    struct Rewrite : IRGraphMutator {
        using IRGraphMutator::visit;
        const std::string *tensor;
        Type held;
        const Call *read(const Expr &e) const {
            const Call *c = e.as<Call>();
            return c && c->call_type == Call::Image && c->name == *tensor ? c : nullptr;
        }
        Expr made(const Call *c) {
            std::vector<Expr> indices;
            for (const Expr &i : c->args) indices.push_back(mutate(i));
            return read_tensor(held, *tensor, indices);
        }
        Expr visit(const Cast *op) override {
            const Call *c = read(op->value);
            const bool wraps = c && held.is_float() && !c->type.is_float() && !op->type.is_float() &&
                               !op->type.is_bool() && !has_all_values(op->type, c->type);
            if (!c || wraps) return IRGraphMutator::visit(op);
            const Expr value = made(c);
            return op->type == held ? value : Cast::make(op->type, value);
        }
        Expr visit(const Call *op) override {
            return read(op) ? Cast::make(op->type, made(op)) : IRGraphMutator::visit(op);
        }
    } rewrite;
    rewrite.tensor = &tensor;
    rewrite.held = held;
    return e.defined() ? rewrite.mutate(e) : e;
}

std::string types_for(Type narrow) {
    std::string names;
    for (Type t : {i8, u8, i16, u16, i32, u32, i64, u64, f16, bf16, f32, f64}) {
        if (t != narrow && has_all_values(t, narrow)) names += (names.empty() ? "" : ", ") + type_name(t);
    }
    return names.empty() ? "none: no type has all values of " + type_name(narrow) : names;
}

void apply_hold_as(ScheduleState &state, const Directive &d, size_t) {
    StageState &stage = stage_argument(state, d);
    const Type narrow = stage.def.type;
    if (!stage.is_copy && !is_view(state, stage))
        refuse(state, d, stage.name() + " is computed, so its type belongs to the op", &stage, "",
               "hold_as on copies, made by place_in, prepack or reindex");
    Type held;
    try {
        held = type_from_name(text_argument(d, "type"));
    } catch (const UserError &e) {
        refuse(state, d, e.what(), &stage, "", types_for(narrow));
    }
    if (held == narrow || !has_all_values(held, narrow))
        refuse(state, d,
               held == narrow ? stage.name() + " holds " + type_name(narrow) + " already"
                              : "not every value of " + type_name(narrow) + " is one of " + type_name(held),
               &stage, "", types_for(narrow));
    for (StageState &reader : state.stages) {
        if (reader.name() == stage.name()) continue;
        reader.def.value = with_held_reads(reader.def.value, stage.name(), held);
        for (Component &c : reader.def.components) c.term = with_held_reads(c.term, stage.name(), held);
    }
    stage.def.type = held;
    stage.def.value = Cast::make(held, stage.def.value);
}

} // namespace

StageHandle &StageHandle::hold_as(const std::string &type, Place where) {
    return apply("hold_as", {{"type", type}}, where);
}

namespace {

Values copies(const ScheduleState &state, const Directive &) {
    return stages_where(state, [](const StageState &s) { return s.is_copy; });
}

Values wider_types(const ScheduleState &, const Directive &) { return {"i16", "i32", "i64", "u16", "f32", "f64"}; }

} // namespace

const Primitive &hold_as_primitive() {
    static const Primitive record = {
        "hold_as",
        "memory",
        "Stores the elements of a copy in another type that has all their values. "
        "So they are converted once, when they are copied, and not at each use. "
        "Examples are bytes as i16 for an instruction that multiplies i16, and bf16 as f32.",
        "The stage is a copy, made by place_in, prepack or reindex. "
        "The type can represent every value of the stage's own type.",
        {{"stage", ArgumentKind::Stage, "the copy"}, {"type", ArgumentKind::Text, "the type: \"i16\", \"f32\", …"}},
        apply_hold_as,
        {"matmul_i16",
         {{"split", {{"stage", "C"}, {"loop", "k"}, {"factor", 64}}, {}},
          {"reorder", {{"stage", "C"}, {"loops", {"k.o", "i", "j", "k.i"}}}, {}},
          {"place_in", {{"tensor", "B"}, {"level", "L2"}, {"consumer", "C"}, {"loop", "k.o"}}, {}}},
         {"hold_as", {{"stage", "B.L2"}, {"type", "i32"}}, {}}},
        {.order = 50, .candidates = {{"stage", copies}, {"type", wider_types}}},
    };
    return record;
}

} // namespace kumiko
