#include "dsl/print.h"
#include "dsl/type_range.h"
#include "dsl/types.h"
#include "schedules/candidates.h"
#include "schedules/factors.h"
#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"
#include "schedules/values.h"
#include "support/error.h"

#include <fmt/format.h>

namespace kumiko {

namespace {

using namespace Halide::Internal;

Type held_type(const ScheduleState &state, const StageState &stage, const std::string &tensor, int64_t by,
               const Directive &d) {
    std::string types;
    const auto values = values_of(state, tensor);
    const auto holds = [&](Type t) {
        const auto all = values_of(t);
        return values && all && all->min <= values->min + by && values->max + by <= all->max && all->min <= by &&
               by <= all->max;
    };
    for (Type t : {i8, u8, i16, u16, i32, u32}) {
        if (holds(t) && has_all_values(stage.def.type, t)) types += (types.empty() ? "" : ", ") + type_name(t);
    }
    const std::string legal = types.empty() ? "another number, so that some type holds all values" : types;
    Type held;
    try {
        held = type_from_name(text_argument(d, "type"));
    } catch (const UserError &e) {
        refuse(state, d, e.what(), &stage, "", legal);
    }
    if (!values)
        refuse(state, d, "the elements of " + tensor + " are not integers of at most 32 bits", &stage, "",
               "integers of at most 32 bits");
    if (!holds(held) || !has_all_values(stage.def.type, held))
        refuse(state, d,
               fmt::format("{} + {} goes from {} to {}, and {}", tensor, by, values->min + by, values->max + by,
                           holds(held) ? type_name(stage.def.type) + ", the type of the sum " + stage.name() +
                                             ", does not have all values of " + type_name(held)
                                       : type_name(held) + " does not have all of these values"),
               &stage, "", legal);
    return held;
}

// The elements with the number added; for padding, those of its selected value. Unsigned numbers
// wrap: the sum is a value of the type.
StageState offset_elements(const ScheduleState &state, const std::string &tensor, int64_t by, Type held) {
    StageState made = copy_of(state, tensor, tensor + ".offset");
    made.is_copy = false;
    made.copied.clear();
    if (made.def.kind == Stage::Kind::Padding) made.def.value = state.producer(tensor)->def.value;
    const Type wraps = held.with_code(halide_type_uint);
    const uint64_t mask = held.bits() == 64 ? ~uint64_t(0) : (uint64_t(1) << held.bits()) - 1;
    made.def.type = held;
    made.def.value = cast(held, cast(wraps, made.def.value) + UIntImm::make(wraps, static_cast<uint64_t>(by) & mask));
    made.placement.kind = Placement::Kind::Inline;
    return made;
}

void apply_offset(ScheduleState &state, const Directive &d, size_t) {
    StageState &stage = stage_argument(state, d);
    const std::string name = stage.name(), tensor = text_argument(d, "tensor");
    tensor_argument(state, d);
    const int64_t by = integer_argument(d, "by");
    constexpr int64_t most = int64_t(1) << 32;
    if (by < -most || by > most)
        refuse(state, d, std::to_string(by) + " is more than the range of 32-bit integers", &stage, "",
               "-2^32 to 2^32");
    const Type sum = stage.def.type;
    if (!stage.def.is_reduction() || stage.def.reduction_kind != "sum" || sum.is_float() || sum.is_bfloat())
        refuse(state, d, stage.name() + " is not a sum of integers", &stage, "", "sums of products of integers");
    const Factors factors = factors_of(state, stage, tensor, d);
    refuse_touched(state, stage, d);
    const Type held = held_type(state, stage, tensor, by, d);
    for (const std::string &made : {tensor + ".offset", name + ".raw", name + ".excess"}) {
        if (state.find(made)) refuse(state, d, "there is a stage " + made + " already", &stage, "", "one offset");
    }
    std::vector<StageState> made = {offset_elements(state, tensor, by, held)};
    // The excess: the same sum with the number in place of the tensor, so that an instruction can
    // compute its products too.
    const Expr number = Mul::make(Cast::make(sum, make_const(held, by)), factors.other);
    const Expr less = sum_apart(stage.def, number, name + ".excess", made);
    Stage raw = stage.def;
    raw.name = raw.components[0].tensor = name + ".raw";
    raw.strides.clear();
    raw.components[0].term = cast(raw.type, read_tensor(held, tensor + ".offset", factors.read->args)) * factors.other;
    made.push_back(stage_of(raw));

    Stage rest;
    rest.name = name, rest.type = stage.def.type, rest.axes = stage.def.axes, rest.strides = stage.def.strides;
    rest.updates = stage.def.updates;
    const std::vector<Expr> indices(rest.axes.begin(), rest.axes.end());
    rest.value = read_tensor(raw.type, raw.name, indices) - less;
    stage = stage_of(rest);
    insert_before(state, name, std::move(made));
}

} // namespace

StageHandle StageHandle::offset(const std::string &tensor, int64_t by, const std::string &type, Place where) {
    apply("offset", {{"tensor", tensor}, {"by", by}, {"type", type}}, where);
    return StageHandle(*schedule_, stage_ + ".raw");
}

namespace {

// The sign of narrow factors changed: bytes from -128 on become bytes from 0 on, or the reverse.
std::vector<Directive> to_other_sign(const ScheduleState &state, const std::vector<Directive> &so_far) {
    std::vector<Directive> all;
    for (const nlohmann::json &stage : sums_of_products(state, {})) {
        for (const std::string tensor : factor_tensors(state, {"offset", {{"stage", stage}}, {}})) {
            const Type t = state.type_of(tensor);
            if ((!t.is_int() && !t.is_uint()) || t.bits() < 8 || t.bits() > 16) continue;
            const int64_t half = int64_t(1) << (t.bits() - 1);
            const Type other = t.with_code(t.is_int() ? halide_type_uint : halide_type_int);
            all.push_back(
                {"offset",
                 {{"stage", stage}, {"tensor", tensor}, {"by", t.is_int() ? half : -half}, {"type", type_name(other)}},
                 {}});
        }
    }
    return all;
}

Values narrow_integers(const ScheduleState &, const Directive &) { return {"u8", "i8", "i16", "u16", "i32", "u32"}; }

} // namespace

const Primitive &offset_primitive() {
    static const Primitive record = {
        "offset",
        "stages",
        "Adds a number to one factor of a sum of products. "
        "This serves instructions that need another range, such as signed bytes as u8, by 128. "
        "A new inlined stage, <tensor>.offset, is the tensor plus the number; place_in can copy it. "
        "A new stage, <stage>.raw, is the sum of the products of <tensor>.offset. "
        "<stage>.excess sums the products of the number. "
        "The stage itself subtracts it from <stage>.raw. "
        "The result is exact, because it is an integer.",
        "The stage is a sum of integers whose terms are products of the tensor and another factor. "
        "It has no directive yet, and no offset of the same tensor. "
        "The type has the number, and every value of the tensor plus the number. "
        "The sum's type has every value of that type.",
        {{"stage", ArgumentKind::Stage, "the sum"},
         {"tensor", ArgumentKind::Tensor, "the factor"},
         {"by", ArgumentKind::Integer, "the number to add"},
         {"type", ArgumentKind::Text, "the type of the tensor plus the number: \"u8\", …"}},
        apply_offset,
        {"matmul_i16", {}, {"offset", {{"stage", "C"}, {"tensor", "A"}, {"by", 32768}, {"type", "u16"}}, {}}},
        {.order = 110,
         .candidates = {{"stage", sums_of_products},
                        {"tensor", factor_tensors},
                        {"by", numbers_of<128, 128, 32768, 1, -128, -1, 7>},
                        {"type", narrow_integers}},
         .leading = to_other_sign},
    };
    return record;
}

} // namespace kumiko
