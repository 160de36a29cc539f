#include "dsl/reach.h"

#include "dsl/print.h"
#include "support/error.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

class Reads : public IRGraphVisitor {
public:
    Reads(const Stage &stage, const AxesInside &axes_of) : stage_(stage), axes_of_(axes_of) {
        for (const auto *axes : {&stage.axes, &stage.reduction_axes}) {
            for (const Axis &a : *axes) {
                axes_[a.name()] = a.extent();
                scope_.push(a.name(), Interval(0, simplify(a.extent() - 1)));
            }
        }
    }
    Reach found;

private:
    using IRGraphVisitor::visit;
    const Stage &stage_;
    const AxesInside &axes_of_;
    std::map<std::string, Expr> axes_; // extents
    Scope<Interval> scope_;

    // What padding chooses lies inside; a select takes both its values.
    void visit(const Call *op) override {
        if (op->is_intrinsic(Call::if_then_else)) {
            op->args[0].accept(this);
            return;
        }
        IRVisitor::visit(op);
        if (op->call_type != Call::Image) return;
        const std::vector<const Axis *> inside = axes_of_(op->name);
        for (size_t d = 0; d < inside.size(); d++) {
            if (inside[d]) check(op, d, *inside[d]);
        }
    }

    void check(const Call *read, size_t d, const Axis &axis) {
        if (reads_data(read->args[d])) return; // dsl/legal.h
        const Interval range = bounds_of_expr_in_scope(simplify(read->args[d]), scope_);
        if (!range.is_bounded()) return;
        const Expr low = simplify(range.min), high = simplify(range.max);
        const Expr inside = simplify(low >= 0 && simplify(high - axis.extent()) < 0);
        if (is_const_one(inside)) return;
        Expr nothing; // no iteration reads
        for (const auto &[name, extent] : axes_) {
            const auto n = as_const_int(extent);
            if (n && *n == 0) return;
            if (!n) nothing = nothing.defined() ? nothing || extent == 0 : extent == 0;
        }
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
        std::string axis;
        size_t d;
        bool chosen = false, plain = false;
        void visit(const Call *op) override {
            if (op->is_intrinsic(Call::if_then_else)) chosen = chosen || expr_uses_var(op->args[0], axis);
            if (op->call_type == Call::Image && d < op->args.size()) plain = plain || op->args[d].as<Variable>();
            IRVisitor::visit(op);
        }
    } look;
    look.axis = stage.axes[d].name();
    look.d = d;
    stage.value.accept(&look);
    return look.chosen || !look.plain;
}

bool reads_data(const Expr &e) {
    struct Find : IRGraphVisitor {
        using IRGraphVisitor::visit;
        bool found = false;
        void visit(const Call *c) override {
            found = found || c->call_type == Call::Image;
            IRGraphVisitor::visit(c);
        }
    } find;
    e.accept(&find);
    return find.found;
}

Reach reach_of(const Stage &stage, const AxesInside &axes_of) {
    Reads reads(stage, axes_of);
    for (const Expr &e : stage.expressions()) e.accept(&reads);
    return std::move(reads.found);
}

} // namespace kumiko
