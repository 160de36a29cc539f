#include "targets/chip/stage/epilogue_program.h"

#include "dsl/print.h"
#include "support/error.h"
#include "targets/chip/vector/from_expr.h"

namespace kumiko::chip {

namespace ir = Halide::Internal;

VectorProgram epilogue_program(const Halide::Expr &value, const std::string &name,
                               const std::vector<Halide::Expr> &operands, const std::string &who) {
    VectorBuilder b;
    const Id sums = b.read(0, sim::Type::F32);
    if (!value.defined()) {
        b.result(b.narrow(sums));
        return b.program();
    }
    b.result(take_expression(b, value, who, [&](const Halide::Expr &e) {
        const ir::Call *read = e.as<ir::Call>();
        if (!read) return -1;
        if (read->name == name) return sums;
        for (size_t o = 0; o < operands.size(); o++) {
            if (ir::equal(operands[o], e)) return b.read(int(o) + 1, vector_type(e.type(), who));
        }
        throw InternalError(who + " reads an unknown tensor: " + to_string(e));
    }));
    return b.program();
}

} // namespace kumiko::chip
