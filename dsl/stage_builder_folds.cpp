// The values that a stage folds or computes step by step: reductions, scans, recurrences, and the
// results of extern functions.
#include "dsl/stage_builder.h"

#include "dsl/definition.h"
#include "dsl/extern.h"
#include "dsl/legal.h"
#include "dsl/print.h"
#include "dsl/reads.h"
#include "dsl/recurrence.h"
#include "support/error.h"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace kumiko {

using namespace Halide::Internal;

namespace {

// The number of nodes of an expression as a graph, and as the tree that a pass without memoisation
// walks.
struct TreeSize : IRGraphVisitor {
    std::map<const IRNode *, double> trees;
    double tree = 0;
    bool reads = false;

    using IRGraphVisitor::include;
    void include(const Expr &e) override {
        const auto known = trees.find(e.get());
        if (known != trees.end()) {
            tree += known->second;
            return;
        }
        const double before = std::exchange(tree, 1);
        e.accept(this);
        trees.emplace(e.get(), tree);
        tree += before;
    }

private:
    using IRGraphVisitor::visit;
    void visit(const Call *op) override {
        reads = reads || op->call_type == Call::Image || is_earlier(op);
        IRGraphVisitor::visit(op);
    }
};

} // namespace

Expr with_names_for_shared(const Expr &e, const std::string &owner) {
    constexpr double large = 2000, times = 4;
    TreeSize size;
    size.include(e);
    if (size.tree < large || size.tree < times * double(size.trees.size())) return e;
    struct Hide : IRGraphMutator { // hides names from common-subexpression elimination
        using IRGraphMutator::visit;
        Expr visit(const Variable *op) override { return Variable::make(op->type, "." + op->name, op->param); }
    } hide;
    struct Rename : IRMutator {
        using IRMutator::visit;
        std::string prefix;
        std::map<std::string, Expr> values; // by name
        int count = 0;
        Expr visit(const Let *op) override {
            const Expr value = mutate(op->value);
            TreeSize s;
            s.include(value);
            if (value.type() == Int(32) && !s.reads && s.tree < large) {
                values[op->name] = value;
                return mutate(op->body);
            }
            const std::string name = prefix + std::to_string(count++);
            values[op->name] = Variable::make(value.type(), name);
            return Let::make(name, value, mutate(op->body));
        }
        Expr visit(const Variable *op) override {
            return op->name[0] == '.' ? Variable::make(op->type, op->name.substr(1), op->param) : values.at(op->name);
        }
    } rename;
    rename.prefix = owner + ".shared.";
    return rename.mutate(common_subexpression_elimination(hide.mutate(e)));
}

namespace {

// For floats ±infinity: Type::min() is the lowest finite number for 16-bit floats.
Expr lowest(Type t) { return t.is_float() ? FloatImm::make(t, -std::numeric_limits<double>::infinity()) : t.min(); }
Expr highest(Type t) { return t.is_float() ? FloatImm::make(t, std::numeric_limits<double>::infinity()) : t.max(); }

} // namespace

Expr fold_identity(const std::string &kind, Type t) {
    return kind == "sum" ? make_zero(t) : kind == "product" ? make_one(t) : kind == "maximum" ? lowest(t) : highest(t);
}

namespace {

// Adds a component to a stage whose values are not folded.
void add_component(Stage &stage, Type type) {
    const size_t c = stage.components.size();
    const Expr zero = make_zero(type);
    stage.components.push_back({c ? fmt::format("{}.{}", stage.name, c) : stage.name, type, zero, zero, zero});
}

Expr acc(Type t, size_t c = 0) { return Variable::make(t, accumulator_variable(c)); }
Expr term(Type t, size_t c = 0) { return Variable::make(t, term_variable(c)); }

// Fills the components of a reduction stage.
void define_components(Stage &stage, const ReductionTerm &r, const std::vector<Expr> &terms) {
    const Expr &e = terms[0];
    const Type t = e.type();
    stage.bounded = r.bounded;
    const auto one = [&](const Expr &identity, const Expr &combined) {
        stage.components = {{stage.name, t, identity, e, combined}};
    };
    if (r.kind == "sum") {
        one(fold_identity(r.kind, t), acc(t) + term(t));
    } else if (r.kind == "product") {
        one(fold_identity(r.kind, t), acc(t) * term(t));
    } else if (r.kind == "maximum") {
        // A NaN term leaves the accumulator unchanged.
        one(fold_identity(r.kind, t), Max::make(term(t), acc(t)));
    } else if (r.kind == "minimum") {
        one(fold_identity(r.kind, t), Min::make(term(t), acc(t)));
    } else if (r.kind == "reduce") {
        for (size_t c = 0; c < terms.size(); c++) {
            const std::string name = c ? stage.name + "." + std::to_string(c) : stage.name;
            stage.components.push_back({name, terms[c].type(), r.identities[c], terms[c],
                                        with_names_for_shared(r.combined[c], stage.name + "." + std::to_string(c))});
        }
    } else { // argmax, argmin: the index is the row-major position in the reduction axes
        Expr position = 0;
        for (const Axis &a : r.axes) position = position * a.extent() + a;
        position = simplify(position);
        const bool largest = r.kind == "argmax";
        const Expr better = largest ? term(t, 1) > acc(t, 1) : term(t, 1) < acc(t, 1);
        // The identity has index −1. A NaN is neither better nor equal, so it never wins.
        const Expr tie = term(t, 1) == acc(t, 1) && (acc(Int(32)) < 0 || term(Int(32)) < acc(Int(32)));
        const Expr wins = term(Int(32)) >= 0 && (better || tie);
        stage.components = {
            {stage.name, Int(32), Expr(-1), position, Select::make(wins, term(Int(32)), acc(Int(32)))},
            {stage.name + ".value", t, largest ? lowest(t) : highest(t), e, Select::make(wins, term(t, 1), acc(t, 1))}};
    }
}

} // namespace

void StageBuilder::fill_reduction(Stage &stage, const ReductionTerm &r, const std::vector<Axis> &scope) {
    stage.kind = Stage::Kind::Reduction;
    stage.reduction_kind = r.kind;
    stage.reduction_axes = r.axes;
    stage.properties = r.properties;
    std::vector<Axis> inner = scope;
    for (const Axis &a : r.axes) {
        for (const Axis &b : inner) {
            if (a.name() == b.name()) {
                throw UserError(where_,
                                "tensor \"" + stage.name + "\" reduces over axis \"" + a.name() +
                                    "\", which is already an axis outside of the reduction; reduce over another "
                                    "axis, as Axis(\"" +
                                    a.name() + "2\", " + to_string(a.extent()) + ")");
            }
        }
        inner.push_back(a);
    }
    check_fold(r, stage.name, where_);
    std::vector<Expr> terms;
    for (const Expr &e : r.terms) {
        terms.push_back(rewrite(e, stage.name, inner));
        check_variables(terms.back(), stage.name, inner);
    }
    define_components(stage, r, terms);
    stage.type = stage.components[0].type;
}

// With one result, this stage calls the function. With several, they are components of a separate
// stage, of which each tensor is a copy.
void StageBuilder::fill_extern(Stage &stage, const Call *call) {
    const size_t results = static_cast<size_t>(*as_const_int(call->args[2]));
    const size_t which = static_cast<size_t>(*as_const_int(call->args[3])), takes = 4 + 2 * results;
    std::vector<Expr> args = call->args;
    args[3] = 0;
    for (size_t a = takes; a < args.size(); a++) args[a] = rewrite(args[a], stage.name, stage.axes);
    const Expr value = Call::make(args[4 + results].type(), extern_name, args, Call::PureIntrinsic);
    stage.kind = Stage::Kind::Pointwise;
    if (results == 1) {
        stage.value = value;
        return;
    }
    const std::string name = args[4].as<StringImm>()->value + ".extern";
    auto made = std::find_if(stages_.begin(), stages_.end(), [&](const Stage &s) { return s.name == name; });
    if (made == stages_.end()) {
        Stage shared;
        shared.name = name;
        shared.axes = stage.axes;
        shared.type = value.type();
        shared.value = value;
        for (size_t r = 0; r < results; r++) add_component(shared, args[4 + results + r].type());
        stages_.push_back(std::move(shared));
        made = stages_.end() - 1;
    } else if (!graph_equal(made->value, value)) {
        throw UserError(where_, "two different tensors are named \"" + name.substr(0, name.rfind('.')) + "\"");
    }
    stage.value = component(*made, which);
}

// A recurrence of one tensor is this stage. Several tensors are components of one separate stage,
// of which each tensor is a copy.
void StageBuilder::fill_recurrence(Stage &stage, const Call *call) {
    const RecurrenceTerm r = decode_recurrence(call);
    stage.kind = Stage::Kind::Pointwise;
    if (r.names.size() == 1) return fill_values(stage, r);
    for (const SharedRecurrence &made : recurrences_) {
        if (made.term.names[0] != r.names[0]) continue;
        bool same = made.term.names == r.names && ranges_in(made.stage.axes, stage.axes) &&
                    ranges_in(stage.axes, made.stage.axes);
        for (size_t c = 0; same && c < r.values.size(); c++) same = graph_equal(made.term.values[c], r.values[c]);
        if (!same) throw UserError(where_, "two different recurrences have the first tensor \"" + r.names[0] + "\"");
        stage.value = component(made.stage, r.component);
        return;
    }
    Stage all;
    all.name = r.names[0] + ".recurrence";
    all.axes = stage.axes;
    for (const Expr &value : r.values) add_component(all, value.type());
    all.type = all.components[0].type;
    fill_values(all, r);
    stage.value = component(all, r.component);
    recurrences_.push_back({r, all});
    stages_.push_back(std::move(all));
}

// Rewrites the values of a recurrence: each earlier element becomes a read of the stage.
void StageBuilder::fill_values(Stage &stage, const RecurrenceTerm &r) {
    struct Reads : IRGraphMutator {
        using IRGraphMutator::visit;
        std::map<std::string, std::string> tensors; // the tensor for each name
        Expr visit(const Call *op) override {
            if (!is_earlier(op)) return IRGraphMutator::visit(op);
            const std::string &tensor = tensors.at(op->args[0].as<StringImm>()->value);
            return read_tensor(op->type, tensor, {op->args.begin() + 1, op->args.end()});
        }
    } reads;
    for (size_t c = 0; c < r.names.size(); c++) {
        const std::string &tensor = stage.components.empty() ? stage.name : stage.components[c].tensor;
        reads.tensors[r.names[c]] = tensor;
        recurrent_[r.names[c]] = {tensor, r.values[c].type(), stage.axes, row_major_strides(stage.axes)};
    }
    recurring_[stage.name] = r.names;
    for (size_t c = 0; c < r.names.size(); c++) {
        const Expr value = reads.mutate(rewrite(r.values[c], stage.name, stage.axes));
        check_variables(value, stage.name, stage.axes);
        if (c == 0) stage.value = value;
        if (!stage.components.empty()) stage.components[c].term = value;
    }
    set_distances(stage);
}

// Values without a dependence between steps are not a recurrence.
void StageBuilder::set_distances(Stage &stage) const {
    stage.distances = self_distances(stage);
    const auto names = recurring_.find(stage.name);
    const bool steps = names != recurring_.end() &&
                       std::any_of(names->second.begin(), names->second.end(),
                                   [&](const std::string &name) { return read_earlier_.count(name) != 0; });
    if (!stage.components.empty() && stage.distances.empty() && !steps)
        throw UserError(where_, fmt::format("\"{}\" has {} values of which none reads an earlier element; make each by "
                                            "compute(…)",
                                            stage.name, stage.components.size()));
}

// A read by the recurrence itself at a constant distance is left for fill_values.
Expr StageBuilder::earlier_element(const Call *earlier, const std::string &owner, const std::vector<Axis> &scope) {
    const std::string &name = earlier->args[0].as<StringImm>()->value;
    const auto names = recurring_.find(owner);
    if (names != recurring_.end() && std::count(names->second.begin(), names->second.end(), name) &&
        is_at_distance(earlier, scope))
        return earlier;
    read_earlier_.emplace(name, owner);
    return read_tensor(earlier->type, earlier_name(name), {earlier->args.begin() + 1, earlier->args.end()});
}

std::vector<Input> StageBuilder::earlier() {
    std::vector<Input> all;
    for (const auto &[name, reader] : read_earlier_) {
        const auto made = recurrent_.find(name);
        if (made == recurrent_.end())
            throw UserError(where_, fmt::format("tensor \"{}\" reads earlier elements of the recurrence \"{}\", which "
                                                "no output needs; make \"{}\" an output or read it",
                                                reader, name, name));
        all.push_back(made->second);
        all.back().name = earlier_name(made->second.name);
        all.back().inout = true;
        for (Stage &s : stages_) { // with several tensors, each is a component
            const auto renamed = [&, &name = name](const Expr &e) {
                return map_reads(e, [&](const Call *read, const Expr &e) -> Expr {
                    if (read->name != earlier_name(name)) return e;
                    if (read->type != made->second.type || read->args.size() != made->second.axes.size())
                        throw UserError(where_,
                                        fmt::format("tensor \"{}\" reads earlier elements of a recurrence \"{}\" "
                                                    "that differs from the op's recurrence of this name; give one "
                                                    "of them another name",
                                                    s.name, name));
                    return read_tensor(read->type, all.back().name, read->args);
                });
            };
            if (s.value.defined()) s.value = renamed(s.value);
            for (Component &c : s.components) c.term = renamed(c.term);
        }
    }
    return all;
}

void StageBuilder::fill_fold(Stage &stage, const ReductionTerm &r, const std::vector<Axis> &scope) {
    r.kind == "scan" ? fill_scan(stage, r, scope) : fill_reduction(stage, r, scope);
}

// value = combined(the previous element or the identity, e).
void StageBuilder::fill_scan(Stage &stage, const ReductionTerm &r, const std::vector<Axis> &scope) {
    const Axis &axis = r.axes[0];
    std::vector<Expr> before;
    bool ranges = false;
    for (const Axis &a : scope) {
        const bool along = a.name() == axis.name() && equal(a.extent(), axis.extent());
        ranges = ranges || along;
        before.push_back(along ? a - 1 : Expr(a));
    }
    if (!ranges)
        throw UserError(where_, "tensor \"" + stage.name + "\" scans along axis \"" + axis.name() +
                                    "\", over which it does not range; name it among the tensor's axes");
    check_fold(r, stage.name, where_);
    std::map<std::string, Expr> values;
    stage.kind = Stage::Kind::Pointwise;
    stage.type = r.terms[0].type();
    for (size_t c = 0; c < r.terms.size(); c++) {
        const Type type = r.terms[c].type();
        if (r.tuple) add_component(stage, type);
        const std::string &tensor = r.tuple ? stage.components[c].tensor : stage.name;
        values[accumulator_variable(c)] =
            Call::make(type, Call::if_then_else, {Expr(0) < axis, read_tensor(type, tensor, before), r.identities[c]},
                       Call::PureIntrinsic);
        values[term_variable(c)] = rewrite(r.terms[c], stage.name, scope);
        check_variables(values[term_variable(c)], stage.name, scope);
    }
    for (size_t c = 0; c < r.terms.size(); c++) {
        Expr value = r.combined[c];
        for (const auto &[name, with] : values) value = graph_substitute(name, with, value);
        value = with_names_for_shared(value, fmt::format("{}.{}", stage.name, c));
        if (c == 0) stage.value = value;
        if (r.tuple) stage.components[c].term = value;
    }
    set_distances(stage);
}

} // namespace kumiko
