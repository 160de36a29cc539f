#include "dsl/reads.h"

#include "dsl/halide_passes.h"
#include "dsl/op.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

// Visits shared nodes once, also those that several expressions share.
struct FindReads : IRGraphVisitor {
    using IRGraphVisitor::visit;
    std::vector<const Call *> reads;
    void visit(const Call *op) override {
        if (op->call_type == Call::Image) reads.push_back(op);
        IRGraphVisitor::visit(op);
    }
};

} // namespace

std::vector<const Call *> tensor_reads(const Expr &e) {
    FindReads find;
    e.accept(&find);
    return std::move(find.reads);
}

std::vector<const Call *> reads_of_tensors(const std::vector<Expr> &all, const std::set<std::string> &tensors) {
    FindReads find;
    for (const Expr &e : all) e.accept(&find);
    std::erase_if(find.reads, [&](const Call *read) { return !tensors.count(read->name); });
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

Expr redirect_reads(const Expr &e, const std::string &from, const std::string &to) {
    return map_reads(e, [&](const Call *read, const Expr &e) {
        return read->name == from ? read_tensor(read->type, to, read->args) : e;
    });
}

Expr difference_along(const Expr &e, const std::string &variable) {
    return substitute(variable, Variable::make(Int(32), variable) + 1, e) - e;
}

std::optional<int64_t> slope_of(const Expr &index, const std::string &variable) {
    if (!expr_uses_var(index, variable)) return 0;
    return as_const_int(simplify(difference_along(index, variable)));
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
