// Hoists workspaces that a serial loop allocates and frees in each iteration, so that they are
// allocated once.
#include "targets/lower/lowering.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

class HoistAllocations : public IRMutator {
    using IRMutator::visit;

    Stmt visit(const For *op) override {
        const Stmt body = mutate(op->body);
        const auto *a = body.as<Allocate>();
        if (op->for_type != ForType::Serial || !a || a->memory_type != Halide::MemoryType::Heap ||
            std::any_of(a->extents.begin(), a->extents.end(),
                        [&](const Expr &e) { return expr_uses_var(e, op->name); })) {
            if (body.same_as(op->body)) return op;
            return For::make(op->name, op->min, op->extent, op->for_type, op->partition_policy, op->device_api, body);
        }
        const Stmt loop =
            For::make(op->name, op->min, op->extent, op->for_type, op->partition_policy, op->device_api, a->body);
        return Allocate::make(a->name, a->type, a->memory_type, a->extents, a->condition, loop, a->new_expr,
                              a->free_function, a->padding);
    }
};

} // namespace

void hoist_allocations(Lowering &l) { l.nest.body = HoistAllocations().mutate(l.nest.body); }

} // namespace kumiko
