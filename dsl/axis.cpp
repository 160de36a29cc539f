#include "dsl/axis.h"

#include "support/error.h"

namespace kumiko {

namespace {

using Halide::Internal::Variable;

std::string checked_name(const std::string &name, const char *what, const std::source_location &where) {
    bool good = !name.empty() && (isalpha(static_cast<unsigned char>(name[0])) || name[0] == '_');
    for (char c : name) good = good && (isalnum(static_cast<unsigned char>(c)) || c == '_');
    if (!good) {
        throw UserError(where,
                        std::string(what) + " name \"" + name +
                            "\" is not an identifier; legal are letters, digits and _, not starting with a digit");
    }
    return name;
}

} // namespace

Size::Size(const std::string &name, std::source_location where)
    : Expr(Variable::make(Int(32), checked_name(name, "size", where))) {}

const std::string &Size::name() const { return as<Variable>()->name; }

Axis::Axis(const std::string &name, const Expr &extent, std::source_location where)
    : Expr(Variable::make(Int(32), checked_name(name, "axis", where))), extent_(extent) {
    if (!extent.defined()) throw UserError(where, "axis \"" + name + "\" has an undefined extent");
    if (extent.type() != Int(32)) {
        throw UserError(where, "the extent of axis \"" + name + "\" has type " +
                                   Halide::type_to_c_type(extent.type(), false) +
                                   "; it must be a number or an int32 expression of sizes");
    }
    extent_ = Halide::Internal::simplify(extent);
    if (auto n = Halide::Internal::as_const_int(extent_); n && *n < 0) {
        throw UserError(where,
                        "axis \"" + name + "\" has the negative extent " + std::to_string(*n) + "; legal is 0 or more");
    }
}

const std::string &Axis::name() const { return as<Variable>()->name; }

} // namespace kumiko
