#include "dsl/reach.h"

#include "dsl/print.h"
#include "support/error.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

// The least and the greatest value of a sum of multiples of axes.
struct Range {
    Expr least, greatest;
};

class Reads : public IRVisitor {
public:
    Reads(const Stage &stage, const AxesInside &axes_of) : stage_(stage), axes_of_(axes_of) {
        for (const auto *axes : {&stage.axes, &stage.reduction_axes}) {
            for (const Axis &a : *axes) {
                axes_[a.name()] = a.extent();
                scope_.push(a.name(), Interval(0, simplify(a.extent() - 1)));
            }
        }
    }
    std::vector<Requirement> found;
    std::string outside; // the first that no sizes allow

private:
    using IRVisitor::visit;
    const Stage &stage_;
    const AxesInside &axes_of_;
    std::map<std::string, Expr> axes_; // extents
    Scope<Interval> scope_;

    static bool tensors_read(const Expr &e) {
        struct Find : IRVisitor {
            using IRVisitor::visit;
            bool found = false;
            void visit(const Call *op) override {
                found = found || op->call_type == Call::Image;
                IRVisitor::visit(op);
            }
        } find;
        e.accept(&find);
        return find.found;
    }

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

    std::optional<Range> reach(const Expr &e) const {
        if (is_const(e)) return Range{e, e};
        if (const auto *v = e.as<Variable>()) {
            const auto axis = axes_.find(v->name);
            if (axis == axes_.end()) return Range{e, e}; // a size
            return Range{0, axis->second - 1};
        }
        if (const auto *op = e.as<Add>()) {
            const auto a = reach(op->a), b = reach(op->b);
            return a && b ? std::optional(Range{a->least + b->least, a->greatest + b->greatest}) : std::nullopt;
        }
        if (const auto *op = e.as<Sub>()) {
            const auto a = reach(op->a), b = reach(op->b);
            return a && b ? std::optional(Range{a->least - b->greatest, a->greatest - b->least}) : std::nullopt;
        }
        if (const auto *op = e.as<Mul>()) {
            const auto k = as_const_int(op->b);
            const auto a = reach(op->a);
            if (!a || !k) return {};
            return *k < 0 ? Range{a->greatest * op->b, a->least * op->b} : Range{a->least * op->b, a->greatest * op->b};
        }
        return {};
    }

    void check(const Call *read, size_t d, const Axis &axis) {
        const Expr index = simplify(read->args[d]);
        auto r = reach(index);
        if (!r && !tensors_read(index)) { // by its range, as far as that is known
            const Interval range = bounds_of_expr_in_scope(index, scope_);
            if (range.is_bounded()) r = Range{range.min, range.max};
        }
        if (!r) return;
        const Expr inside = simplify(simplify(r->least) >= 0 && simplify(r->greatest - axis.extent()) < 0);
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
            const Expr low = simplify(r->least), high = simplify(r->greatest);
            if (outside.empty())
                outside = "stage " + stage_.name + " reads " + read->name + " outside: its index " +
                          to_string(read->args[d]) +
                          (equal(low, high) ? " is " + to_string(low)
                                            : " goes from " + to_string(low) + " to " + to_string(high)) +
                          ", but axis " + axis.name() + " has " + to_string(axis.extent()) + " elements";
            return;
        }
        const Expr condition = nothing.defined() ? nothing || inside : inside;
        for (const Requirement &q : found) {
            if (equal(q.condition, condition)) return;
        }
        found.push_back({condition, to_string(inside) + " (" + text + ")"});
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

std::vector<Requirement> reads_stay_inside(const Stage &stage, const AxesInside &axes_of) {
    Reads reads(stage, axes_of);
    for (const Expr &e : stage.expressions()) e.accept(&reads);
    return std::move(reads.found);
}

std::string read_outside(const Stage &stage, const AxesInside &axes_of) {
    Reads reads(stage, axes_of);
    for (const Expr &e : stage.expressions()) e.accept(&reads);
    return std::move(reads.outside);
}

} // namespace kumiko
