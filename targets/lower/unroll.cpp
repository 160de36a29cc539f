// Unrolled loops become copies of their bodies, in order. Before copying, the body's index arithmetic is simplified with the
// loop variable left in place, so that each copy only folds constants.
#include "support/error.h"
#include "targets/lower/lowering.h"

#include <fmt/format.h>

namespace kumiko {

using namespace Halide::Internal;

namespace {

constexpr int64_t most_statements = 10000; // of one block: Halide's visitors recurse through them

int64_t statements(const Stmt &s) {
    struct Count : IRVisitor {
        using IRVisitor::visit;
        int64_t n = 0;
        void visit(const Store *) override { n++; }
    } count;
    s.accept(&count);
    return count.n;
}

class Unroll : public IRMutator {
    using IRMutator::visit;

    Stmt visit(const For *op) override {
        if (op->for_type != ForType::Unrolled) return IRMutator::visit(op);
        const auto extent = as_const_int(op->extent);
        const auto min = as_const_int(op->min);
        if (!extent) throw InternalError("the unrolled loop " + op->name + " has no constant extent");
        const Stmt body = mutate(op->body);
        if (const int64_t n = statements(body); n * *extent > most_statements)
            throw UserError(
                fmt::format("loop {} unrolls {} statements {} times; at most {} are made. Unroll less, or place "
                            "less in registers, whose loops are all unrolled",
                            op->name, n, *extent, most_statements));
        std::vector<Stmt> copies;
        for (int64_t i = 0; i < *extent; i++) {
            copies.push_back(substitute(
                op->name, min ? Expr(static_cast<int>(*min + i)) : simplify(op->min + static_cast<int>(i)), body));
        }
        return Block::make(copies);
    }
};

} // namespace

void unroll_loops(Lowering &l) {
    simplify_indices(l);
    l.nest.body = Unroll().mutate(l.nest.body);
}

} // namespace kumiko
