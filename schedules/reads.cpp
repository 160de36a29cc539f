#include "schedules/reads.h"

#include "dsl/print.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

// Sums of axes times numbers, each axis once: every value between the ends is reached.
bool affine(const Expr &e, std::set<std::string> &seen) {
    if (as_const_int(e)) return true;
    if (const auto *v = e.as<Variable>()) return seen.insert(v->name).second;
    if (const auto *op = e.as<Add>()) return affine(op->a, seen) && affine(op->b, seen);
    if (const auto *op = e.as<Sub>()) return affine(op->a, seen) && affine(op->b, seen);
    if (const auto *op = e.as<Mul>())
        return (as_const_int(op->a) && affine(op->b, seen)) || (as_const_int(op->b) && affine(op->a, seen));
    return false;
}

class FindOutside : public IRGraphVisitor {
public:
    FindOutside(const ScheduleState &state, const Facts &facts, const Stage &stage)
        : state_(state), facts_(facts), stage_(stage) {
        for (const auto *axes : {&stage.axes, &stage.reduction_axes}) {
            for (const Axis &a : *axes) {
                const auto n = as_const_int(a.extent());
                if (n && *n <= 0) never_ = true;
                if (n) scope_.push(a.name(), Interval(0, static_cast<int>(*n - 1)));
            }
        }
    }

    std::string run() {
        for (const Expr &e : stage_.expressions()) {
            if (!never_) e.accept(this);
        }
        return found_;
    }

private:
    using IRGraphVisitor::visit;
    const ScheduleState &state_;
    const Facts &facts_;
    const Stage &stage_;
    Bounds scope_;
    bool never_ = false; // an axis without elements
    std::string found_;

    void visit(const Call *op) override {
        if (op->is_intrinsic(Call::if_then_else)) return op->args[0].accept(this);
        if (op->call_type == Call::Image && found_.empty()) check(*op);
        IRGraphVisitor::visit(op);
    }

    void check(const Call &read) {
        const StageState *source = state_.producer(read.name);
        if (source && source->def.kind == Stage::Kind::Padding) return;
        const std::vector<Axis> &axes = state_.axes_of(read.name);
        for (size_t d = 0; d < axes.size(); d++) {
            const auto extent = as_const_int(simplify(facts_.apply(axes[d].extent())));
            const Expr index = simplify(read.args[d]);
            std::set<std::string> used;
            if (!extent || !affine(index, used)) continue;
            bool known = true;
            for (const std::string &axis : used) known = known && scope_.contains(axis);
            if (!known) continue;
            const Interval i = bounds_of_expr_in_scope(index, scope_);
            const auto low = as_const_int(simplify(i.min)), high = as_const_int(simplify(i.max));
            if (!low || !high || (*low >= 0 && *high < *extent)) continue;
            found_ = "stage " + stage_.name + " reads " + read.name + " outside: its index " + to_string(index) +
                     (*low == *high ? " is " + std::to_string(*low)
                                    : " goes from " + std::to_string(*low) + " to " + std::to_string(*high)) +
                     ", but axis " + axes[d].name() + " has " + std::to_string(*extent) + " elements";
            return;
        }
    }
};

} // namespace

std::string read_outside(const ScheduleState &state, const Facts &facts) {
    for (const StageState &s : state.stages) {
        if (const std::string found = FindOutside(state, facts, s.def).run(); !found.empty()) return found;
    }
    return "";
}

} // namespace kumiko
