#include "schedules/primitives/tabulate.h"

#include "dsl/extern.h"
#include "dsl/print.h"
#include "dsl/reads.h"
#include "dsl/type_range.h"
#include "dsl/types.h"
#include "schedules/candidates.h"
#include "schedules/factors.h"
#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"
#include "schedules/values.h"

#include <fmt/format.h>

namespace kumiko {

namespace {

using namespace Halide::Internal;

constexpr int64_t most_values = 65536;

// What an expression depends on, beyond numbers and sizes, and how many operations it has.
struct Dependence {
    const Call *element = nullptr; // a read of the tensor
    bool others = false;           // axes, other elements, or tensors that the table cannot read
    int64_t operations = 0;        // as a tree

    void add(const Dependence &part) {
        others = others || part.others || (element && part.element && !equal(Expr(element), Expr(part.element)));
        if (part.element) element = part.element;
        operations = std::min(operations + part.operations, int64_t(1) << 40);
    }
};

class Dependences : IRGraphVisitor {
public:
    Dependences(const ScheduleState &state, const Stage &stage, const std::string &tensor)
        : state_(state), stage_(stage), tensor_(tensor) {}

    const Dependence &of(const Expr &e) {
        include(e);
        return known_.at(e.get());
    }

private:
    using IRGraphVisitor::visit;
    const ScheduleState &state_;
    const Stage &stage_;
    const std::string &tensor_;
    std::map<const IRNode *, Dependence> known_;
    Dependence now_;

    void include(const Expr &e) override {
        if (!known_.count(e.get())) {
            const Dependence outer = now_;
            now_ = {};
            now_.operations = !is_const(e) && !e.as<Variable>();
            e.accept(this);
            known_[e.get()] = now_;
            now_ = outer;
        }
        now_.add(known_[e.get()]);
    }
    void visit(const Variable *op) override {
        const std::vector<std::string> &sizes = state_.op.sizes();
        now_.others = std::find(sizes.begin(), sizes.end(), op->name) == sizes.end();
    }
    void visit(const Call *op) override {
        if (op->call_type != Call::Image) return IRGraphVisitor::visit(op);
        if (op->name == tensor_) {
            now_.element = op;
            return;
        }
        // The table is computed before the stage, so it cannot read tensors that are computed
        // together with it.
        const StageState *from = state_.producer(op->name);
        now_.others = stage_.makes(op->name) || (from ? !from->def.step_axis.empty() : !is_input(op->name));
        IRGraphVisitor::visit(op);
    }
    bool is_input(const std::string &name) const {
        const auto &inputs = state_.op.inputs();
        return std::any_of(inputs.begin(), inputs.end(), [&](const Input &in) { return in.name == name; });
    }
};

// Calls f(part, element) for each largest part of an expression that depends only on one element of
// the tensor, and replaces the part by the result. Conversions to a type that has all values stay
// outside of the part.
class MapParts : public IRGraphMutator {
public:
    using Replace = std::function<Expr(const Expr &part, const Call *element)>;
    MapParts(Dependences &dependences, Replace f) : dependences_(dependences), f_(std::move(f)) {}
    using IRGraphMutator::mutate;
    Expr mutate(const Expr &e) override {
        const Dependence d = dependences_.of(e);
        if (!d.element || d.others) return d.element ? IRGraphMutator::mutate(e) : e;
        if (e.get() == d.element) return e;
        const Cast *c = e.as<Cast>();
        if (!c || !has_all_values(c->type, c->value.type())) return f_(e, d.element);
        const Expr inside = mutate(c->value);
        return inside.same_as(c->value) ? e : Cast::make(c->type, inside);
    }

private:
    Dependences &dependences_;
    Replace f_;
};

// The part with the integer `value` in place of the element.
Expr with_value(const Expr &part, const Call *element, const Expr &value) {
    struct Replace : IRGraphMutator {
        const std::string &tensor;
        const Expr &value;
        Replace(const std::string &tensor, const Expr &value) : tensor(tensor), value(value) {}
        using IRGraphMutator::mutate;
        bool is_element(const Expr &e) const {
            const Call *read = e.as<Call>();
            return read && read->name == tensor && read->call_type == Call::Image;
        }
        Expr mutate(const Expr &e) override {
            const Cast *c = e.as<Cast>();
            if (c && c->type == Int(32) && is_element(c->value)) return value;
            return is_element(e) ? kumiko::cast(e.type(), value) : IRGraphMutator::mutate(e);
        }
    };
    return Replace(element->name, value).mutate(part);
}

// The name of the table's axis, which no size has.
std::string axis_name(const Op &op) {
    std::string name = "v";
    while (std::find(op.sizes().begin(), op.sizes().end(), name) != op.sizes().end()) name += "v";
    return name;
}

// The integer at index `v` of a table from `first` on, and the index of an element.
Expr value_at(const Axis &v, int64_t first) { return first == 0 ? Expr(v) : v + Expr(static_cast<int>(first)); }
Expr index_of(const Call *element, int64_t first) {
    const Expr value = kumiko::cast(Int(32), Expr(element));
    return first == 0 ? value : value - Expr(static_cast<int>(first));
}

// Calls f for the parts of all expressions of the stage, and replaces them.
void map_parts(const ScheduleState &state, Stage &stage, const std::string &tensor, const MapParts::Replace &f) {
    const Stage before = stage;
    Dependences dependences(state, before, tensor);
    MapParts parts(dependences, f);
    if (stage.value.defined()) stage.value = parts.mutate(stage.value);
    for (Component &c : stage.components) c.term = parts.mutate(c.term);
}

} // namespace

std::variant<LookupTable, NoLookupTable> table_of(const ScheduleState &state, const StageState &stage,
                                                  const std::string &tensor) {
    const Stage &def = stage.def;
    const std::string &name = stage.name();
    if (is_extern(def)) return NoLookupTable{name + " is an extern function", "stages that are formulas"};
    if (def.kind == Stage::Kind::Padding)
        return NoLookupTable{name + " is padding, which only reads elements", "the stage that reads it"};
    const auto values = values_of(state, tensor);
    if (!values || values->max - values->min >= most_values || values->max > INT32_MAX)
        return NoLookupTable{
            fmt::format("the elements of {} are {}, which have too many values for a table", tensor,
                        type_name(state.type_of(tensor))),
            "integers of 8 or 16 bits, and inputs of 32 bits after assume(within(…)) of 65536 values at "
            "most"};
    LookupTable table;
    table.first = values->min;
    const Axis v(axis_name(state.op), Expr(static_cast<int>(values->max - values->min + 1)));
    int64_t most = 0;
    Stage rest = def;
    Dependences dependences(state, def, tensor);
    map_parts(state, rest, tensor, [&](const Expr &part, const Call *element) {
        const int64_t operations = dependences.of(part).operations;
        if (operations > most) {
            most = operations;
            table.stage.value = with_value(part, element, value_at(v, table.first));
        }
        return part;
    });
    if (most == 0)
        return NoLookupTable{fmt::format("no part of {} depends only on one element of {}", name, tensor),
                             "a tensor of which the stage computes a function, such as sqrt(cast(f32, " + tensor +
                                 "(i)))"};
    table.stage.name = name + ".of." + tensor;
    table.stage.kind = Stage::Kind::Pointwise;
    table.stage.type = table.stage.value.type();
    table.stage.axes = {v};
    for (const Call *read : tensor_reads(table.stage.value)) {
        if (const auto index = index_outside(state, table.stage, read->name, read->args))
            return NoLookupTable{fmt::format("index {} of {} is not proved to be in bounds for every value of {}",
                                             to_string(*index), read->name, tensor),
                                 "reads that are in bounds for every value, of tensors that cannot be empty"};
    }
    return table;
}

namespace {

void apply_tabulate(ScheduleState &state, const Directive &d, size_t) {
    StageState &stage = stage_argument(state, d);
    const std::string name = stage.name(), tensor = text_argument(d, "tensor");
    tensor_argument(state, d);
    const auto found = table_of(state, stage, tensor);
    if (const auto *none = std::get_if<NoLookupTable>(&found)) refuse(state, d, none->cause, &stage, "", none->legal);
    const LookupTable &table = std::get<LookupTable>(found);
    refuse_touched(state, stage, d);
    if (state.find(table.stage.name))
        refuse(state, d, "there is a stage " + table.stage.name + " already", &stage, "", "one table for each tensor");
    const Expr value = value_at(table.stage.axes[0], table.first);
    map_parts(state, stage.def, tensor, [&](const Expr &part, const Call *element) {
        if (!equal(with_value(part, element, value), table.stage.value)) return part;
        return read_tensor(table.stage.type, table.stage.name, {index_of(element, table.first)});
    });
    insert_before(state, name, {stage_of(table.stage)});
}

} // namespace

StageHandle StageHandle::tabulate(const std::string &tensor, Place where) {
    apply("tabulate", {{"tensor", tensor}}, where);
    return StageHandle(*schedule_, stage_ + ".of." + tensor);
}

namespace {

// Tensors of which the argument "stage" has a table; all narrow tensors that it reads if it has
// none.
std::vector<Directive> tables(const ScheduleState &state, const std::vector<Directive> &) {
    std::vector<Directive> all;
    for (const StageState &s : state.stages) {
        std::set<std::string> read;
        for (const Expr &e : s.def.expressions()) read.merge(tensors_read(e));
        for (const std::string &tensor : read) {
            if (state.find(s.name() + ".of." + tensor) || s.def.makes(tensor)) continue;
            if (std::holds_alternative<LookupTable>(table_of(state, s, tensor)))
                all.push_back({"tabulate", {{"stage", s.name()}, {"tensor", tensor}}, {}});
        }
    }
    return all;
}

Values tensors_of_tables(const ScheduleState &state, const Directive &d) {
    Values all;
    for (const Directive &table : tables(state, {})) {
        if (table.arguments["stage"] == d.arguments["stage"]) all.push_back(table.arguments["tensor"]);
    }
    return all;
}

} // namespace

const Primitive &tabulate_primitive() {
    static const Primitive record = {
        "tabulate",
        "stages",
        "Computes a function of one element of a tensor, such as a byte, once for each value of the element. "
        "The new stage <stage>.of.<tensor> is the table of results, at the root. "
        "The stage reads its results from the table. "
        "The function is the largest part of the stage that depends only on one element of the tensor. "
        "If there are several such parts, it is the one with the most operations, and the parts that compute the "
        "same function of other elements read the table too.",
        "The stage is a formula, is not padding, and has no directive yet. "
        "A part of it does more with an element of the tensor than read or convert it. "
        "The elements are integers of 8 or 16 bits, or an input's integers of 32 bits after "
        "assume(within(…)) of at most 65536 values. "
        "The part reads other tensors in bounds for every value.",
        {{"stage", ArgumentKind::Stage, "the stage"},
         {"tensor", ArgumentKind::Tensor, "the tensor of whose elements it computes a function"}},
        apply_tabulate,
        {"gamma", {}, {"tabulate", {{"stage", "Y"}, {"tensor", "X"}}, {}}},
        {.order = 140, .candidates = {{"tensor", tensors_of_tables}}, .leading = tables},
    };
    return record;
}

} // namespace kumiko
