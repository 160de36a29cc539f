#include "dsl/reads.h"

#include "dsl/halide_passes.h"
#include "dsl/op.h"

namespace kumiko {

using namespace Halide::Internal;

std::vector<const Call *> tensor_reads(const Expr &e) {
    struct Find : IRGraphVisitor {
        using IRGraphVisitor::visit;
        std::vector<const Call *> reads;
        void visit(const Call *op) override {
            if (op->call_type == Call::Image) reads.push_back(op);
            IRGraphVisitor::visit(op);
        }
    } find;
    e.accept(&find);
    return std::move(find.reads);
}

Expr map_reads(const Expr &e, const std::function<Expr(const Call *, const Expr &)> &f) {
    struct Map : IRGraphMutator {
        using IRGraphMutator::visit;
        const std::function<Expr(const Call *, const Expr &)> *f;
        Expr visit(const Call *op) override {
            const Expr e = IRGraphMutator::visit(op);
            const Call *read = e.as<Call>();
            return read && read->call_type == Call::Image ? (*f)(read, e) : e;
        }
    } map;
    map.f = &f;
    return map.mutate(e);
}

std::vector<Expr> children_of(const Expr &e) {
    struct Collector : IRMutator {
        std::vector<Expr> children;
        bool top = true;
        Expr mutate(const Expr &e) override {
            if (!top) {
                children.push_back(e);
                return e;
            }
            top = false;
            return IRMutator::mutate(e);
        }
        Stmt mutate(const Stmt &s) override { return s; }
    } collector;
    collector.mutate(e);
    return collector.children;
}

std::optional<int64_t> slope_of(const Expr &index, const std::string &variable) {
    const Expr v = Variable::make(Int(32), variable);
    return as_const_int(simplify(substitute(variable, v + 1, index) - index));
}

Expr at_indices(const Expr &e, const std::vector<Axis> &axes, const std::vector<Expr> &indices) {
    std::map<std::string, Expr> values;
    for (size_t d = 0; d < indices.size(); d++) values[axes[d].name()] = indices[d];
    return substitute(values, e);
}

Expr inline_stages(const Expr &e, const std::function<const Stage *(const std::string &)> &inlined) {
    return map_reads(e, [&](const Call *read, const Expr &e) {
        const Stage *s = inlined(read->name);
        return s ? at_indices(inline_stages(s->value, inlined), s->axes, read->args) : e;
    });
}

bool reads_at(const Call *read, const std::vector<Axis> &axes) {
    for (size_t d = 0; d < read->args.size(); d++) {
        const auto *v = read->args[d].as<Variable>();
        if (!v || v->name != axes[d].name()) return false;
    }
    return true;
}

} // namespace kumiko
