#include "dsl/stage_builder.h"

#include "dsl/definition.h"
#include "dsl/extern.h"
#include "dsl/legal.h"
#include "dsl/nested.h"
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

// Free int32 variables of an expression.
struct FreeVariables : IRGraphVisitor {
    using IRGraphVisitor::visit;
    std::set<std::string> sizes, axes;
    void visit(const Variable *v) override { (is_size(v) ? sizes : axes).insert(v->name); }
    void visit(const Let *l) override {
        IRGraphVisitor::visit(l);
        axes.erase(l->name);
    }
};

FreeVariables free_variables(const Expr &e) {
    FreeVariables f;
    e.accept(&f);
    return f;
}

// The free variables of an expression: for nested tensors, those of the axes around them; none in
// the definitions of tensors. Nested tensors contain each other many times, so each is visited
// once.
class AxesAround : public IRGraphVisitor {
public:
    // `known`: cached results for the values of nested tensors.
    explicit AxesAround(AxesOfValues &known) : known_(known) {}

    static std::set<std::string> of(const NestedTensor &tensor, AxesOfValues &known) {
        if (!known.count(tensor.value)) {
            AxesAround value(known);
            tensor.value.accept(&value);
            known[tensor.value] = value.used;
        }
        std::set<std::string> used = known.at(tensor.value);
        for (const Axis &a : tensor.axes) used.erase(a.name());
        return used;
    }

    std::set<std::string> used;

private:
    AxesOfValues &known_;
    using IRGraphVisitor::visit;
    void visit(const Variable *v) override { used.insert(v->name); }
    void visit(const Call *c) override {
        if (is_nested(c)) {
            used.merge(of(decode_nested(c), known_));
            for (const Expr &index : nested_indices(c)) include(index);
            return;
        }
        const size_t n = c->args.size() - (is_reference(c) ? 1 : 0);
        for (size_t i = 0; i < n; i++) include(c->args[i]);
    }
};

} // namespace

namespace {

bool same_tensor(const TensorContents &a, const TensorContents &b) {
    if (a.kind != b.kind || a.type != b.type || a.axes.size() != b.axes.size() ||
        a.strides.size() != b.strides.size() || a.value.defined() != b.value.defined()) {
        return false;
    }
    for (size_t d = 0; d < a.axes.size(); d++) {
        if (a.axes[d].name() != b.axes[d].name() || !equal(a.axes[d].extent(), b.axes[d].extent())) return false;
    }
    for (size_t d = 0; d < a.strides.size(); d++) {
        if (!equal(a.strides[d], b.strides[d])) return false;
    }
    return !a.value.defined() || graph_equal(a.value, b.value);
}

} // namespace

std::set<std::string> variables_of(const Expr &e) {
    FreeVariables f = free_variables(e);
    f.sizes.merge(f.axes);
    return f.sizes;
}

std::set<std::string> sizes_used(const Expr &e) { return free_variables(e).sizes; }
std::set<std::string> axes_used(const Expr &e) { return free_variables(e).axes; }

std::vector<Expr> row_major_strides(const std::vector<Axis> &axes) {
    std::vector<Expr> strides(axes.size());
    Expr stride = 1;
    int64_t number = 1; // product of the constant extents
    for (size_t d = axes.size(); d-- > 0;) {
        strides[d] = simplify(stride);
        if (number > INT32_MAX) {
            throw Unsupported("axis " + axes[d].name() + " has a stride of " + std::to_string(number) +
                              " elements and more; legal is up to 2147483647");
        }
        if (const auto n = as_const_int(axes[d].extent())) number *= std::max<int64_t>(*n, 1);
        stride = stride * axes[d].extent();
    }
    return strides;
}

bool is_input(const TensorContents &c) {
    return c.kind == TensorContents::Kind::Input || c.kind == TensorContents::Kind::Inout;
}

std::string StageBuilder::add(TensorContents c) {
    const std::string name = c.name;
    for (int n = 1;; n++) {
        const auto made = done_.find(c.name);
        if (made == done_.end()) break;
        if (same_tensor(made->second, c)) return c.name;
        if (c.kind != TensorContents::Kind::Padding)
            throw UserError(where_, "two different tensors are named \"" + c.name + "\"");
        c.name = name + std::to_string(n);
    }
    if (open_.count(c.name)) {
        throw UserError(where_, "tensor \"" + c.name + "\" is defined by itself: " + chain(c.name) +
                                    "; a stage may read only tensors that are defined before it");
    }
    if (is_input(c)) {
        done_.emplace(c.name, c);
        Input in{c.name, c.type, c.axes, c.strides, !c.strides.empty(), c.kind == TensorContents::Kind::Inout};
        if (in.strides.empty()) in.strides = row_major_strides(c.axes);
        inputs_.push_back(std::move(in));
        return c.name;
    }
    open_.insert(c.name);
    order_.push_back(c.name);
    Stage stage;
    stage.name = c.name;
    stage.type = c.type;
    stage.axes = c.axes;
    stage.strides = c.strides;
    const Call *call = c.value.as<Call>();
    // Pointwise, because it reads what it overwrites.
    const bool update = c.kind == TensorContents::Kind::Update;
    if (update) stage.updates = c.name.substr(0, c.name.rfind('.')); // the name without ".out"
    if (is_extern(call)) {
        fill_extern(stage, call);
    } else if (is_recurrence(call)) {
        fill_recurrence(stage, call);
    } else if (call && is_reduction(call) && !decode_reduction(call).tuple && !update) {
        const ReductionTerm r = decode_reduction(call);
        if (const auto made = shared_part(r, c.axes)) {
            stage.value = *made;
        } else {
            fill_fold(stage, r, c.axes);
            folds_.push_back({r, stage});
        }
    } else {
        stage.kind = c.kind == TensorContents::Kind::Padding ? Stage::Kind::Padding : Stage::Kind::Pointwise;
        stage.value = rewrite(c.value, stage.name, c.axes);
        check_variables(stage.value, stage.name, c.axes);
    }
    open_.erase(c.name);
    order_.pop_back();
    done_.emplace(c.name, c);
    stages_.push_back(std::move(stage));
    return c.name;
}

std::string StageBuilder::chain(const std::string &name) const {
    std::string text;
    for (const std::string &n : order_) text += n + " reads ";
    return text + name;
}

// Replaces references by plain calls, and reductions by reads of new stages. `scope`: the axes in
// scope.
Expr StageBuilder::rewrite(const Expr &e, const std::string &owner, const std::vector<Axis> &scope) {
    check_formula(e, owner, where_);
    struct Rewriter : IRGraphMutator {
        using IRGraphMutator::visit;
        StageBuilder *builder;
        const std::string *owner;
        const std::vector<Axis> *scope;
        Expr visit(const Call *op) override {
            if (is_reference(op)) {
                const std::string stage = builder->add(decode_definition(op->args.back()));
                std::vector<Expr> args;
                for (size_t d = 0; d + 1 < op->args.size(); d++) args.push_back(mutate(op->args[d]));
                return read_tensor(op->type, stage, args);
            }
            if (is_written(op)) {
                const auto [value, text] = decode_written(op);
                builder->written.push_back({mutate(value), text});
                return builder->written.back().value;
            }
            if (kumiko::is_reduction(op)) return builder->extract(op, *owner, *scope);
            if (is_nested(op)) {
                const Expr element = builder->nested_element(op, *owner, *scope);
                return IRGraphMutator::visit(element.as<Call>());
            }
            if (!is_earlier(op)) return IRGraphMutator::visit(op);
            const Expr e = IRGraphMutator::visit(op);
            return builder->earlier_element(e.as<Call>(), *owner, *scope);
        }
    } rewriter;
    rewriter.builder = this;
    rewriter.owner = &owner;
    rewriter.scope = &scope;
    return with_names_for_shared(rewriter.mutate(e), owner);
}

// The name, with a number appended if it is in use.
std::string StageBuilder::free_name(const std::string &name) {
    std::string free = name;
    for (int n = 1; !taken_names_.insert(free).second; n++) free = name + std::to_string(n);
    return free;
}

// Turns the nested tensor into a stage and returns a read of it. The indices of that read are not
// rewritten yet.
Expr StageBuilder::nested_element(const Call *op, const std::string &owner, const std::vector<Axis> &scope) {
    const NestedTensor tensor = decode_nested(op);
    const std::set<std::string> used = AxesAround::of(tensor, axes_of_nested_);
    TensorContents c{TensorContents::Kind::Compute, "", op->type, {}, {}, tensor.value};
    std::vector<Expr> indices;
    for (const Axis &a : scope) {
        if (!used.count(a.name())) continue;
        c.axes.push_back(a);
        indices.push_back(a);
    }
    c.axes.insert(c.axes.end(), tensor.axes.begin(), tensor.axes.end());
    const auto made = std::find_if(nested_.begin(), nested_.end(),
                                   [&](const TensorContents &other) { return same_tensor(other, c); });
    if (made != nested_.end()) {
        c.name = made->name;
    } else {
        c.name = free_name(owner.substr(0, owner.find('.')) + "." + tensor.name);
        nested_.push_back(c);
        add(c);
    }
    const std::vector<Expr> own = nested_indices(op);
    indices.insert(indices.end(), own.begin(), own.end());
    return read_tensor(op->type, c.name, indices);
}

Expr StageBuilder::extract(const Call *op, const std::string &owner, const std::vector<Axis> &scope) {
    const ReductionTerm r = decode_reduction(op);
    if (const auto made = shared_part(r, scope)) return *made;
    Stage stage;
    stage.name = free_name(owner + "." + r.kind);
    AxesAround around(axes_of_nested_);
    for (const Expr &e : r.terms) e.accept(&around);
    if (r.kind == "scan") around.used.insert(r.axes[0].name());
    for (const Axis &a : scope) {
        if (around.used.count(a.name())) stage.axes.push_back(a);
    }
    // A reduction axis with the name of an outer axis is an error, which fill_reduction reports
    // it.
    fill_fold(stage, r, stage.axes);
    Expr read = component(stage, r.component);
    if (r.kind != "scan") folds_.push_back({r, stage});
    done_.emplace(stage.name,
                  TensorContents{TensorContents::Kind::Compute, stage.name, stage.type, stage.axes, {}, Expr(op)});
    stages_.push_back(std::move(stage));
    return read;
}

// A read of the component of an existing stage that computes the same fold, if there is one.
std::optional<Expr> StageBuilder::shared_part(const ReductionTerm &r, const std::vector<Axis> &scope) const {
    if (r.kind == "scan") return std::nullopt;
    for (const SharedFold &f : folds_) {
        if (same_fold(f.reduction, r) && ranges_in(f.stage.axes, scope)) return component(f.stage, r.component);
    }
    return std::nullopt;
}

Expr StageBuilder::component(const Stage &stage, size_t c) {
    const std::vector<Expr> index(stage.axes.begin(), stage.axes.end());
    return stage.components.empty() ? read_tensor(stage.type, stage.name, index)
                                    : read_tensor(stage.components[c].type, stage.components[c].tensor, index);
}

// Whether both fold the same terms over the same axes, so that one stage computes both.
bool StageBuilder::same_fold(const ReductionTerm &a, const ReductionTerm &b) {
    if (a.kind != b.kind || a.bounded != b.bounded || a.axes.size() != b.axes.size() ||
        a.terms.size() != b.terms.size() || a.properties.associative != b.properties.associative ||
        a.properties.commutative != b.properties.commutative)
        return false;
    for (size_t d = 0; d < a.axes.size(); d++) {
        if (a.axes[d].name() != b.axes[d].name() || !equal(a.axes[d].extent(), b.axes[d].extent())) return false;
    }
    for (size_t c = 0; c < a.terms.size(); c++) {
        if (!graph_equal(a.terms[c], b.terms[c])) return false;
        if (a.identities.empty()) continue;
        if (!equal(a.identities[c], b.identities[c]) || !graph_equal(a.combined[c], b.combined[c])) return false;
    }
    return true;
}

bool StageBuilder::ranges_in(const std::vector<Axis> &axes, const std::vector<Axis> &scope) {
    return std::all_of(axes.begin(), axes.end(), [&](const Axis &a) {
        return std::any_of(scope.begin(), scope.end(),
                           [&](const Axis &b) { return a.name() == b.name() && equal(a.extent(), b.extent()); });
    });
}

void StageBuilder::check_variables(const Expr &e, const std::string &owner, const std::vector<Axis> &scope) {
    for (const Axis &a : scope) axis_names.insert(a.name());
    for (const std::string &v : axes_used(e)) {
        if (std::none_of(scope.begin(), scope.end(), [&](const Axis &a) { return a.name() == v; })) {
            throw UserError(where_, "tensor \"" + owner + "\" uses axis \"" + v + "\", over which it does not range; " +
                                        "name it among the tensor's axes or reduce over it");
        }
    }
}

} // namespace kumiko
