#include "dsl/reads.h"

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

bool reads_at(const Call *read, const std::vector<Axis> &axes) {
    for (size_t d = 0; d < read->args.size(); d++) {
        const auto *v = read->args[d].as<Variable>();
        if (!v || v->name != axes[d].name()) return false;
    }
    return true;
}

} // namespace kumiko
