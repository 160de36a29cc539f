#include "dsl/axis.h"

#include "dsl/legal.h"
#include "support/error.h"

namespace kumiko {

using Halide::Internal::Variable;

namespace {

// For Halide, a size is a variable with a parameter. All sizes share this one, because variables
// are compared by name.
const Halide::Parameter &size_mark() {
    static const Halide::Parameter mark(Int(32), false, 0, "kumiko.size");
    return mark;
}

} // namespace

Size::Size(const std::string &name, std::source_location where)
    : Expr(Variable::make(Int(32), check_name(name, "size", where), size_mark())) {}

bool is_size(const Variable *variable) { return variable->param.same_as(size_mark()); }

const std::string &Size::name() const { return as<Variable>()->name; }

Axis::Axis(const std::string &name, const Expr &extent, std::source_location where)
    : Expr(Variable::make(Int(32), check_name(name, "axis", where))), extent_(extent) {
    if (!extent.defined()) throw UserError(where, "axis \"" + name + "\" has an undefined extent");
    if (extent.type() != Int(32)) {
        throw UserError(where, "the extent of axis \"" + name + "\" has type " +
                                   Halide::type_to_c_type(extent.type(), false) +
                                   "; it must be a number or an int32 expression of sizes");
    }
    check_size_expression(extent, "the extent of axis \"" + name + "\"", where);
    extent_ = Halide::Internal::simplify(extent);
    // Checks the simplified expression.
    check_size_expression(extent_, "the extent of axis \"" + name + "\"", where);
    if (auto n = Halide::Internal::as_const_int(extent_); n && *n < 0) {
        throw UserError(where,
                        "axis \"" + name + "\" has the negative extent " + std::to_string(*n) + "; legal is 0 or more");
    }
}

const std::string &Axis::name() const { return as<Variable>()->name; }

} // namespace kumiko
