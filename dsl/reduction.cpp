#include "dsl/reduction.h"

#include "dsl/scan.h"
#include "dsl/types.h"
#include "support/error.h"

#include <optional>

namespace kumiko {

using Halide::Internal::Call;
using Halide::Internal::IntImm;
using Halide::Internal::StringImm;
using Halide::Internal::Variable;

namespace {

constexpr const char *reduce_name = "kumiko.reduce";

// {kind, properties, number of axes, variables…, extents…, term[, identity, combined]}
Element encode(const std::string &kind, const Expr &e, const AxisList &axes, std::optional<Type> given = {},
               const Expr &identity = Expr(), const Expr &combined = Expr(),
               CombinerProperties properties = {true, true}) {
    if (!e.defined()) throw UserError(kind + " of an undefined expression");
    if (axes.empty()) throw UserError(kind + " over no axes; name at least one");
    if (e.type().is_bool() && kind != "reduce" && kind != "scan") {
        throw UserError(kind + " of a bool expression; cast it to the type in which to accumulate");
    }
    const Type result = given.value_or(e.type());
    std::vector<Expr> args = {StringImm::make(kind),
                              Expr((properties.associative ? 1 : 0) + (properties.commutative ? 2 : 0)),
                              Expr(static_cast<int>(axes.size()))};
    for (const Axis &a : axes) args.push_back(a);
    for (const Axis &a : axes) args.push_back(a.extent());
    args.push_back(e);
    if (identity.defined()) {
        args.push_back(identity);
        args.push_back(combined);
    }
    return Element(Call::make(result, reduce_name, args, Call::PureIntrinsic));
}

// What reduce and scan ask of their parts.
Element fold(const std::string &kind, const std::function<Expr(Expr, Expr)> &combiner, const Expr &identity,
             const Expr &e, const AxisList &axes, CombinerProperties properties) {
    if (!e.defined() || !identity.defined()) throw UserError(kind + " of an undefined expression or identity");
    const Expr start = identity.type() == e.type()            ? identity
                       : Halide::Internal::is_const(identity) ? typed::adapted(identity, e.type(), kind.c_str())
                                                              : identity;
    if (!combiner) throw UserError(kind + " without a combiner");
    const Expr combined = combiner(Variable::make(e.type(), accumulator_name), Variable::make(e.type(), term_name));
    if (!combined.defined()) throw UserError("the combiner of " + kind + " gives an undefined expression");
    if (start.type() != e.type() || combined.type() != e.type()) {
        throw UserError(kind + " folds " + type_name(e.type()) + " but its identity is " + type_name(start.type()) +
                        " and its combiner gives " + type_name(combined.type()) + "; all three must be of one type");
    }
    return encode(kind, e, axes, e.type(), start, combined, properties);
}

} // namespace

Element sum(const Expr &e, const AxisList &axes) { return encode("sum", e, axes); }
Element product(const Expr &e, const AxisList &axes) { return encode("product", e, axes); }
Element maximum(const Expr &e, const AxisList &axes) { return encode("maximum", e, axes); }
Element minimum(const Expr &e, const AxisList &axes) { return encode("minimum", e, axes); }
Element argmax(const Expr &e, const AxisList &axes) { return encode("argmax", e, axes, Int(32)); }
Element argmin(const Expr &e, const AxisList &axes) { return encode("argmin", e, axes, Int(32)); }

Element sum(const Expr &e, std::initializer_list<Axis> axes) { return sum(e, AxisList(axes)); }
Element product(const Expr &e, std::initializer_list<Axis> axes) { return product(e, AxisList(axes)); }
Element maximum(const Expr &e, std::initializer_list<Axis> axes) { return maximum(e, AxisList(axes)); }
Element minimum(const Expr &e, std::initializer_list<Axis> axes) { return minimum(e, AxisList(axes)); }
Element argmax(const Expr &e, std::initializer_list<Axis> axes) { return argmax(e, AxisList(axes)); }
Element argmin(const Expr &e, std::initializer_list<Axis> axes) { return argmin(e, AxisList(axes)); }

Element reduce(const std::function<Expr(Expr, Expr)> &combiner, const Expr &identity, const Expr &e,
               const AxisList &axes, CombinerProperties properties) {
    return fold("reduce", combiner, identity, e, axes, properties);
}

Element scan(const std::function<Expr(Expr, Expr)> &combiner, const Expr &identity, const Expr &e, const Axis &axis) {
    return fold("scan", combiner, identity, e, axis, {});
}

std::string scanned_axis(const Stage &stage) {
    struct Find : Halide::Internal::IRGraphVisitor {
        using IRGraphVisitor::visit;
        const Stage *stage;
        std::string axis;
        void visit(const Call *op) override {
            for (size_t d = 0; op->call_type == Call::Image && op->name == stage->name && d < op->args.size(); d++) {
                if (!op->args[d].as<Variable>()) axis = stage->axes[d].name();
            }
            IRGraphVisitor::visit(op);
        }
    } find;
    find.stage = &stage;
    if (stage.kind == Stage::Kind::Pointwise) stage.value.accept(&find);
    return find.axis;
}

bool is_reduction(const Call *call) { return call->name == reduce_name; }

ReductionTerm decode_reduction(const Call *call) {
    const auto &args = call->args;
    ReductionTerm r;
    r.kind = args[0].as<StringImm>()->value;
    const int64_t properties = args[1].as<IntImm>()->value;
    r.properties = {(properties & 1) != 0, (properties & 2) != 0};
    const size_t n = static_cast<size_t>(args[2].as<IntImm>()->value);
    for (size_t i = 0; i < n; i++) r.axes.emplace_back(args[3 + i].as<Variable>()->name, args[3 + n + i]);
    r.term = args[3 + 2 * n];
    if (args.size() > 4 + 2 * n) {
        r.identity = args[4 + 2 * n];
        r.combined = args[5 + 2 * n];
    }
    return r;
}

} // namespace kumiko
