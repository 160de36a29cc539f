#include "dsl/reach.h"

#include "dsl/extern.h"
#include "dsl/float_casts.h"
#include "dsl/print.h"
#include "dsl/reads.h"
#include "dsl/recurrence.h"
#include "dsl/residues.h"
#include "dsl/stage_builder.h"
#include "support/error.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

// The condition under which the stage has no iterations and reads nothing; undefined if it always
// has one.
Expr no_iteration(const Stage &stage) {
    Expr nothing;
    for (const auto *axes : {&stage.axes, &stage.reduction_axes}) {
        for (const Axis &a : *axes) {
            const auto n = as_const_int(a.extent());
            if (n && *n == 0) return const_true();
            if (!n) nothing = nothing.defined() ? nothing || a.extent() == 0 : a.extent() == 0;
        }
    }
    return nothing;
}

// Whether padding along axis d is a select, which keeps the value of out-of-bounds indices from
// being read (not a clamp).
bool chooses(const Stage &padding, size_t d) {
    struct Look : IRVisitor {
        using IRVisitor::visit;
        std::string axis;
        bool found = false;
        void visit(const Call *op) override {
            if (op->is_intrinsic(Call::if_then_else)) found = found || expr_uses_var(op->args[0], axis);
            IRVisitor::visit(op);
        }
    } look;
    look.axis = padding.axes[d].name();
    padding.value.accept(&look);
    return look.found;
}

bool overflows(const Expr &e) {
    struct Find : IRGraphVisitor {
        using IRGraphVisitor::visit;
        bool found = false;
        void visit(const Call *c) override {
            found = found || c->is_intrinsic(Call::signed_integer_overflow);
            IRGraphVisitor::visit(c);
        }
    } find;
    e.accept(&find);
    return find.found;
}

class Reads : public IRGraphVisitor {
public:
    Reads(const Stage &stage, const AxesInside &axes_of, const std::vector<WrittenPart> &written)
        : stage_(stage), axes_of_(axes_of), written_(written) {
        for (const auto *axes : {&stage.axes, &stage.reduction_axes}) {
            for (const Axis &a : *axes) {
                scope_.push(a.name(), Interval(0, simplify(a.extent() - 1)));
            }
        }
    }
    Reach found;

private:
    using IRGraphVisitor::visit;
    const Stage &stage_;
    const AxesInside &axes_of_;
    const std::vector<WrittenPart> &written_;
    Scope<Interval> scope_;

    // Reads behind a boundary condition are in bounds (a plain select would evaluate both values).
    // For an earlier element, the condition covers only indices that are axes plus or minus
    // numbers.
    void visit(const Call *op) override {
        if (op->is_intrinsic(Call::if_then_else)) {
            op->args[0].accept(this);
            const Call *read = op->args[1].as<Call>();
            if (!read || earlier_of(read->name).empty()) return;
            for (const Expr &index : read->args) index.accept(this);
            const std::vector<const Axis *> axes = axes_of_(read->name);
            for (size_t d = 0; d < axes.size(); d++) {
                if (!is_shifted(read->args[d], *axes[d])) check(read, d, *axes[d]);
            }
            return;
        }
        IRVisitor::visit(op);
        if (op->call_type != Call::Image) return;
        const std::vector<const Axis *> inside = axes_of_(op->name);
        for (size_t d = 0; d < inside.size(); d++) {
            if (inside[d]) check(op, d, *inside[d]);
        }
    }

    // Whether the index is the axis plus or minus a number other than 0, and the stage's axis has
    // the same extent.
    bool is_shifted(const Expr &index, const Axis &axis) const {
        const auto offset = as_const_int(simplify(index - axis));
        const Axis *own = find_axis(stage_, axis.name());
        return offset && *offset != 0 && own && is_const_one(simplify(own->extent() == axis.extent()));
    }

    // A data-dependent index requires sizes >= 1, as check_indices (dsl/legal.h) assumes.
    void need_elements(const Call *read, size_t d, const Axis &axis) {
        const Expr nothing = no_iteration(stage_);
        if (nothing.defined() && is_const_one(nothing)) return;
        const Interval range = range_of(simplified(read->args[d]), scope_);
        if (range.is_bounded() && is_const_one(simplify(range.min >= 0 && range.max < axis.extent()))) return;
        std::set<std::string> sizes = variables_of(read->args[d]);
        sizes.merge(variables_of(axis.extent()));
        for (const std::string &size : sizes) {
            if (scope_.contains(size)) continue;
            const Expr some = Expr(1) <= Variable::make(Int(32), size);
            found.requirements.push_back({nothing.defined() ? nothing || some : some,
                                          to_string(some) + " (stage " + stage_.name + " reads " + read->name + " at " +
                                              to_string(read->args[d], written_) + " of axis " + axis.name() + ")"});
        }
    }

    void check(const Call *read, size_t d, const Axis &axis) {
        if (reads_data(read->args[d])) return need_elements(read, d, axis);
        const Expr index = simplified(read->args[d]);
        Interval range = range_of(index, scope_);
        if (!range.is_bounded() || !is_const_one(simplify(range.min >= 0 && range.max < axis.extent())))
            range = Interval::make_intersection(range, range_by_residues(index, scope_));
        if (!range.is_bounded()) return;
        const Expr low = simplify(range.min), high = simplify(range.max);
        if (overflows(low) || overflows(high)) {
            if (found.outside.empty())
                found.outside = "stage " + stage_.name + " reads " + read->name + " outside: its index " +
                                to_string(read->args[d]) + " leaves 32 bits";
            return;
        }
        const Expr inside = simplify(low >= 0 && simplify(high - axis.extent()) < 0);
        if (is_const_one(inside)) return;
        const Expr nothing = no_iteration(stage_);
        if (nothing.defined() && is_const_one(nothing)) return;
        const std::string text = "stage " + stage_.name + " reads " + read->name + " at " + to_string(read->args[d]) +
                                 " of axis " + axis.name();
        if (is_const_zero(inside) && !nothing.defined()) {
            if (found.outside.empty())
                found.outside = "stage " + stage_.name + " reads " + read->name + " outside: its index " +
                                to_string(read->args[d]) +
                                (equal(low, high) ? " is " + to_string(low)
                                                  : " goes from " + to_string(low) + " to " + to_string(high)) +
                                ", but axis " + axis.name() + " has " + to_string(axis.extent()) + " elements";
            return;
        }
        found.requirements.push_back(
            {nothing.defined() ? nothing || inside : inside, to_string(inside) + " (" + text + ")"});
    }
};

} // namespace

bool pads(const Stage &stage, size_t d) {
    struct Look : IRVisitor {
        using IRVisitor::visit;
        size_t d;
        bool plain = false;
        void visit(const Call *op) override {
            if (op->call_type == Call::Image && d < op->args.size()) plain = plain || op->args[d].as<Variable>();
            IRVisitor::visit(op);
        }
    } look;
    look.d = d;
    stage.value.accept(&look);
    return !look.plain || chooses(stage, d);
}

std::set<std::string> tensors_read(const Expr &e) {
    std::set<std::string> names;
    for (const Call *read : tensor_reads(e)) names.insert(read->name);
    return names;
}

bool reads_data(const Expr &e) { return !tensors_read(e).empty(); }

Reach reach_of(const Stage &stage, const AxesInside &axes_of, const std::vector<WrittenPart> &written) {
    if (is_extern(stage)) return {}; // takes whole tensors
    Reads reads(stage, axes_of, written);
    for (const Expr &e : stage.expressions()) e.accept(&reads);
    return std::move(reads.found);
}

std::vector<Requirement> clamp_requirements(const Stage &stage, const Stage &padding) {
    const Expr nothing = no_iteration(stage);
    std::vector<Requirement> all;
    for (size_t d = 0; d < padding.axes.size(); d++) {
        const Axis &a = padding.axes[d];
        if (!pads(padding, d) || chooses(padding, d)) continue;
        const Expr some = simplify(a.extent() >= 1);
        if (is_const_one(some) || (nothing.defined() && is_const_one(nothing))) continue;
        all.push_back({nothing.defined() ? nothing || some : some,
                       to_string(some) + " (stage " + stage.name + " reads " + padding.name +
                           ", which clamps the index of axis " + a.name() + " to one of its elements)"});
    }
    return all;
}

} // namespace kumiko
