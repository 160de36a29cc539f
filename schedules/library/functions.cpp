#include "schedules/library/functions.h"

namespace kumiko::library {

bool is_function(const Halide::Internal::Call *call) {
    return call->call_type == Halide::Internal::Call::PureExtern && !call->name.starts_with("sqrt_");
}

bool calls_functions(const Stage &stage) {
    struct Visitor : Halide::Internal::IRVisitor {
        using IRVisitor::visit;
        bool found = false;
        void visit(const Halide::Internal::Call *op) override {
            found = found || is_function(op);
            IRVisitor::visit(op);
        }
    } v;
    for (const Expr &e : stage.expressions()) e.accept(&v);
    return v.found;
}

} // namespace kumiko::library
