#include "schedules/library/elementwise_reads.h"

#include "schedules/library/structure.h"

#include <algorithm>
#include <numeric>

namespace kumiko::library {

namespace ir = Halide::Internal;

namespace {

std::string variable(const Expr &e) {
    const ir::Variable *v = e.as<ir::Variable>();
    return v ? v->name : "";
}

} // namespace

Reads reads_of(const Op &op, const Stage &stage, const std::set<std::string> &kept) {
    std::vector<const ir::Call *> direct;
    for (const Expr &e : stage.expressions()) {
        const auto reads = tensor_reads(e);
        direct.insert(direct.end(), reads.begin(), reads.end());
    }
    Reads all;
    for (const ir::Call *read : direct) {
        const std::string &name = read->name;
        const std::vector<Expr> &index = read->args;
        if (op.find_input(name) || kept.contains(name)) {
            all.push_back({name, index});
            continue;
        }
        const Stage &inner = op.stage(name);
        for (auto &[n, i] : reads_of(op, inner, kept)) {
            for (Expr &e : i) e = at_indices(e, inner.axes, index);
            all.push_back({n, i});
        }
    }
    return all;
}

std::set<std::string> kept_tensors(const ScheduleState &state) {
    std::set<std::string> kept;
    for (const StageState &s : state.stages) {
        if (s.placement.kind == Placement::Kind::Inline) continue;
        kept.insert(s.name());
        for (const Component &c : s.def.components) kept.insert(c.tensor);
    }
    return kept;
}

std::set<std::string> kept_stages(const Op &op, const Stage &out) {
    std::set<std::string> kept;
    for (const Stage &s : op.stages()) {
        if (s.name == out.name || s.axes.size() >= out.axes.size()) continue;
        const Expr &value = s.value;
        bool simple = value.as<ir::Call>() != nullptr && value.as<ir::Call>()->call_type == ir::Call::Image;
        simple = simple || (value.as<ir::Cast>() && value.as<ir::Cast>()->value.as<ir::Call>());
        if (!simple) kept.insert(s.name);
    }
    for (bool again = true; again;) {
        again = false;
        for (const Stage &s : op.stages()) {
            if (s.name != out.name && !kept.contains(s.name)) continue;
            for (const auto &[name, index] : reads_of(op, s, kept)) {
                if (!kept.contains(name)) continue;
                bool plain = true;
                for (size_t d = 0; d < index.size(); d++)
                    plain = plain && variable(index[d]) == op.stage(name).axes[d].name() &&
                            std::any_of(out.axes.begin(), out.axes.end(),
                                        [&](const Axis &a) { return a.name() == variable(index[d]); });
                if (!plain) {
                    kept.erase(name);
                    again = true;
                }
            }
        }
    }
    return kept;
}

Join joins(const Op &op, const Stage &out, const Reads &reads, size_t d) {
    const std::string a = out.axes[d].name(), b = out.axes[d + 1].name();
    Join how = Join::Plain;
    for (const auto &[name, index] : reads) {
        const std::vector<Axis> &axes = op.find_input(name) ? op.find_input(name)->axes : op.stage(name).axes;
        const bool row = index.size() == 1 && d + 2 == out.axes.size() && op.find_input(name) &&
                         variable(index[0]) == b && constant_extent(axes[0]) == constant_extent(out.axes[d + 1]);
        if (row) how = Join::Rows;
        for (size_t i = 0; i < index.size() && !row; i++) {
            const bool first = ir::expr_uses_var(index[i], a), second = ir::expr_uses_var(index[i], b);
            if (!first && !second) continue;
            if (!op.find_input(name)) return Join::No;
            const size_t k = second ? i - 1 : i;
            if ((second && i == 0) || k + 1 >= index.size() || variable(index[k]) != a || variable(index[k + 1]) != b ||
                constant_extent(axes[k]) != constant_extent(out.axes[d]) ||
                constant_extent(axes[k + 1]) != constant_extent(out.axes[d + 1]))
                return Join::No;
        }
    }
    return how;
}

int64_t divisor_of(const Stage &stage, const Axis &axis) {
    constexpr int64_t most = 4;
    struct Find : Halide::Internal::IRGraphVisitor {
        using IRGraphVisitor::visit;
        std::string axis;
        std::set<int64_t> divisors;
        void note(const Expr &e, const Expr &by) {
            const auto *v = e.as<Halide::Internal::Variable>();
            if (v && v->name == axis) divisors.insert(Halide::Internal::as_const_int(by).value_or(0));
        }
        void visit(const Halide::Internal::Div *op) override { note(op->a, op->b), IRGraphVisitor::visit(op); }
        void visit(const Halide::Internal::Mod *op) override { note(op->a, op->b), IRGraphVisitor::visit(op); }
    } find;
    find.axis = axis.name();
    for (const Expr &e : stage.expressions()) e.accept(&find);
    if (find.divisors.size() != 1) return 1;
    const int64_t parts = *find.divisors.begin(), n = constant_extent(axis).value_or(1);
    return parts > 1 && parts <= most && n % parts == 0 ? parts : 1;
}

std::optional<int64_t> run_of(const Stage &stage, const Axis &axis, int64_t shortest) {
    constexpr int64_t most = 8; // runs, each of which gets its own code
    struct Find : ir::IRGraphVisitor {
        using IRGraphVisitor::visit;
        Expr axis;
        int64_t run = 0;
        bool divided = false, other = false;

        // The number c of axis + c.
        std::optional<int64_t> offset(const Expr &e) const {
            const auto c = ir::as_const_int(ir::simplify(e - axis));
            return c ? std::optional(*c) : std::nullopt;
        }
        void divide(const Expr &e, const Expr &by) {
            if (!ir::expr_uses_var(e, axis.as<ir::Variable>()->name)) return;
            const auto c = e.type() == axis.type() ? offset(e) : std::nullopt;
            const auto n = ir::as_const_int(ir::simplify(by));
            divided = true, other = other || !c || !n || *n < 1;
            if (!other) run = std::gcd(std::gcd(run, *n), *c);
        }
        // A comparison that is true before `boundary`, or from there on.
        void compare(const Expr &a, const Expr &b, int64_t beyond) {
            if (a.type() != axis.type()) return;
            const auto c = offset(a), n = ir::as_const_int(ir::simplify(b));
            if (c && n) run = std::gcd(run, *n - *c + beyond);
        }
        void visit(const ir::Div *op) override { divide(op->a, op->b), IRGraphVisitor::visit(op); }
        void visit(const ir::Mod *op) override { divide(op->a, op->b), IRGraphVisitor::visit(op); }
        void visit(const ir::LT *op) override { compare(op->a, op->b, 0), IRGraphVisitor::visit(op); }
        void visit(const ir::GE *op) override { compare(op->a, op->b, 0), IRGraphVisitor::visit(op); }
        void visit(const ir::LE *op) override { compare(op->a, op->b, 1), IRGraphVisitor::visit(op); }
        void visit(const ir::GT *op) override { compare(op->a, op->b, 1), IRGraphVisitor::visit(op); }
    } find;
    find.axis = ir::Variable::make(Int(32), axis.name());
    for (const Expr &e : stage.expressions()) e.accept(&find);
    const auto extent = constant_extent(axis);
    if (!find.divided || find.other || !extent || find.run < shortest || *extent % find.run != 0) return std::nullopt;
    const int64_t runs = *extent / find.run;
    return runs > 1 && runs <= most ? std::optional(find.run) : std::nullopt;
}

Stage at_multiples(Stage stage, const std::string &axis, int64_t n, int64_t offset) {
    if (n == 1) return stage;
    const Expr index = Halide::Internal::Variable::make(Int(32), axis) * static_cast<int>(n) + static_cast<int>(offset);
    stage.value = Halide::Internal::simplify(Halide::Internal::substitute(axis, index, stage.value));
    return stage;
}

} // namespace kumiko::library
