#include "schedules/library/functions.h"

namespace kumiko::library {

bool calls_functions(const Stage &stage) {
    struct Visitor : Halide::Internal::IRVisitor {
        using IRVisitor::visit;
        bool found = false;
        void visit(const Halide::Internal::Call *op) override {
            const bool instruction = op->name.starts_with("sqrt_");
            found = found || (op->call_type == Halide::Internal::Call::PureExtern && !instruction);
            IRVisitor::visit(op);
        }
    } v;
    for (const Expr &e : stage.expressions()) e.accept(&v);
    return v.found;
}

} // namespace kumiko::library
