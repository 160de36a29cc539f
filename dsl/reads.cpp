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

} // namespace kumiko
