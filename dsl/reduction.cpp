#include "dsl/reduction.h"

#include "dsl/scan.h"
#include "dsl/stage_builder.h"
#include "dsl/tuple.h"
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

// {kind, properties, number of axes, number of terms, component, is tuple, variables…, extents…,
// terms…[, identities…, combined…]}
Element encode(const ReductionTerm &r, Type result, const std::source_location &where) {
    const auto number = [](size_t n) { return Expr(static_cast<int>(n)); };
    std::vector<Expr> args = {
        StringImm::make(r.kind),
        number((r.properties.associative ? 1 : 0) + (r.properties.commutative ? 2 : 0) + (r.bounded ? 4 : 0)),
        number(r.axes.size()),
        number(r.terms.size()),
        number(r.component),
        number(r.tuple ? 1 : 0)};
    for (const Axis &a : r.axes) args.push_back(a);
    for (const Axis &a : r.axes) args.push_back(a.extent());
    for (const auto *part : {&r.terms, &r.identities, &r.combined}) args.insert(args.end(), part->begin(), part->end());
    return Element(Call::make(result, reduce_name, args, Call::PureIntrinsic), where);
}

std::vector<Axis> some_axes(const std::string &kind, const AxisList &axes, const std::source_location &where) {
    if (axes.empty()) throw UserError(where, kind + " over no axes; name at least one");
    return {axes.begin(), axes.end()};
}

Element known(const std::string &kind, const Expr &e, const AxisList &axes, const std::source_location &where,
              std::optional<Type> given = {}, bool bounded = false) {
    if (!e.defined()) throw UserError(where, kind + " of an undefined expression");
    const std::vector<Axis> over = some_axes(kind, axes, where);
    if (e.type().is_bool())
        throw UserError(where, kind + " of a bool expression; cast it to the type in which to accumulate");
    ReductionTerm r{kind, over, {e}, {}, {}, {true, true}};
    r.bounded = bounded;
    return encode(r, given.value_or(e.type()), where);
}

Extreme extreme(const std::string &kind, const Expr &e, const AxisList &axes, const std::source_location &where) {
    const Element index = known(kind, e, axes, where, Int(32));
    ReductionTerm r = decode_reduction(index.as<Call>());
    r.component = 1;
    r.tuple = true;
    return {index, encode(r, e.type(), where)};
}

// Checks the arguments of reduce and scan. In errors, the values of a tuple are identified by
// position.
ReductionTerm fold(const std::string &kind, const std::function<Values(const Values &, const Values &)> &combiner,
                   const Values &identities, const Values &terms, const AxisList &axes, CombinerProperties properties,
                   bool tuple, const std::source_location &where) {
    ReductionTerm r{kind, some_axes(kind, axes, where), terms, {}, {}, properties, 0, tuple};
    const auto which = [&](size_t c) { return tuple ? " as value " + std::to_string(c) : std::string(); };
    if (terms.empty()) throw UserError(where, kind + " of no values; name at least one");
    if (identities.size() != terms.size())
        throw UserError(where, kind + " folds " + std::to_string(terms.size()) + " values together, but " +
                                   std::to_string(identities.size()) + " identities are given; each value needs one");
    Values before, now;
    for (size_t c = 0; c < terms.size(); c++) {
        if (!terms[c].defined() || !identities[c].defined())
            throw UserError(where, kind + " of an undefined expression or identity" + which(c));
        const Type t = terms[c].type();
        r.identities.push_back(identities[c].type() == t ? identities[c]
                               : Halide::Internal::is_const(identities[c])
                                   ? typed::adapted(identities[c], t, kind.c_str(), where)
                                   : identities[c]);
        before.push_back(Variable::make(t, accumulator_variable(c)));
        now.push_back(Variable::make(t, term_variable(c)));
    }
    r.combined = combiner(before, now);
    if (r.combined.size() != terms.size())
        throw UserError(where, "the combiner of " + kind + " gives " + std::to_string(r.combined.size()) +
                                   " values for " + std::to_string(terms.size()));
    for (size_t c = 0; c < terms.size(); c++) {
        Expr &combined = r.combined[c];
        if (!combined.defined())
            throw UserError(where, "the combiner of " + kind + " gives an undefined expression" + which(c));
        const Type t = terms[c].type();
        if (tuple && combined.type() != t && Halide::Internal::is_const(combined))
            combined = typed::adapted(combined, t, kind.c_str(), where);
        if (r.identities[c].type() != t || combined.type() != t) {
            throw UserError(where, kind + " folds " + type_name(t) + which(c) + " but its identity is " +
                                       type_name(r.identities[c].type()) + " and its combiner gives " +
                                       type_name(combined.type()) + "; all three must be of one type");
        }
    }
    return r;
}

Element fold_one(const std::string &kind, const std::function<Expr(Expr, Expr)> &combiner, const Expr &identity,
                 const Expr &e, const AxisList &axes, CombinerProperties properties,
                 const std::source_location &where) {
    if (!combiner) throw UserError(where, kind + " without a combiner");
    if (!e.defined()) throw UserError(where, kind + " of an undefined expression or identity");
    const auto one = [&](const Values &a, const Values &b) -> Values { return {combiner(a[0], b[0])}; };
    return encode(fold(kind, one, {identity}, {e}, axes, properties, false, where), e.type(), where);
}

} // namespace

Element sum(const Expr &e, const AxisList &axes, std::source_location where) { return known("sum", e, axes, where); }
Element product(const Expr &e, const AxisList &axes, std::source_location where) {
    return known("product", e, axes, where);
}
Element maximum(const Expr &e, const AxisList &axes, std::source_location where) {
    return known("maximum", e, axes, where);
}
Element minimum(const Expr &e, const AxisList &axes, std::source_location where) {
    return known("minimum", e, axes, where);
}
Extreme argmax(const Expr &e, const AxisList &axes, std::source_location where) {
    return extreme("argmax", e, axes, where);
}
Extreme argmin(const Expr &e, const AxisList &axes, std::source_location where) {
    return extreme("argmin", e, axes, where);
}

namespace {

Element bounded(const std::string &kind, const Expr &e, const AxisList &axes, const Where &bound,
                const std::source_location &where) {
    if (!bound.condition.defined() || !bound.condition.type().is_bool())
        throw UserError(where,
                        "the condition of " + kind + " where … is not one; write a comparison, as where(k <= i)");
    if (!e.defined()) throw UserError(where, kind + " of an undefined expression");
    const Expr term = Halide::Internal::Select::make(bound.condition, e, fold_identity(kind, e.type()));
    return known(kind, term, axes, where, {}, true);
}

} // namespace

Element sum(const Expr &e, const AxisList &axes, const Where &bound, std::source_location where) {
    return bounded("sum", e, axes, bound, where);
}
Element product(const Expr &e, const AxisList &axes, const Where &bound, std::source_location where) {
    return bounded("product", e, axes, bound, where);
}
Element maximum(const Expr &e, const AxisList &axes, const Where &bound, std::source_location where) {
    return bounded("maximum", e, axes, bound, where);
}
Element minimum(const Expr &e, const AxisList &axes, const Where &bound, std::source_location where) {
    return bounded("minimum", e, axes, bound, where);
}

Element sum(const Expr &e, std::initializer_list<Axis> axes, std::source_location where) {
    return sum(e, AxisList(axes), where);
}
Element product(const Expr &e, std::initializer_list<Axis> axes, std::source_location where) {
    return product(e, AxisList(axes), where);
}
Element maximum(const Expr &e, std::initializer_list<Axis> axes, std::source_location where) {
    return maximum(e, AxisList(axes), where);
}
Element minimum(const Expr &e, std::initializer_list<Axis> axes, std::source_location where) {
    return minimum(e, AxisList(axes), where);
}
Extreme argmax(const Expr &e, std::initializer_list<Axis> axes, std::source_location where) {
    return argmax(e, AxisList(axes), where);
}
Extreme argmin(const Expr &e, std::initializer_list<Axis> axes, std::source_location where) {
    return argmin(e, AxisList(axes), where);
}

Element reduce(const std::function<Expr(Expr, Expr)> &combiner, const Expr &identity, const Expr &e,
               const AxisList &axes, CombinerProperties properties, std::source_location where) {
    return fold_one("reduce", combiner, identity, e, axes, properties, where);
}

Element scan(const std::function<Expr(Expr, Expr)> &combiner, const Expr &identity, const Expr &e, const Axis &axis,
             std::source_location where) {
    return fold_one("scan", combiner, identity, e, axis, {}, where);
}

Element Tuple::operator[](size_t c) const {
    if (c >= parts_.size())
        throw UserError("a tuple of " + std::to_string(parts_.size()) + " has no value " + std::to_string(c) +
                        "; they count from 0");
    return parts_[c];
}

namespace {

Tuple fold_several(const std::string &kind, const std::function<Values(const Values &, const Values &)> &combiner,
                   const Values &identities, const Values &terms, const AxisList &axes, CombinerProperties properties,
                   const std::source_location &where) {
    if (!combiner) throw UserError(where, kind + " without a combiner");
    ReductionTerm r = fold(kind, combiner, identities, terms, axes, properties, true, where);
    std::vector<Element> parts;
    for (r.component = 0; r.component < terms.size(); r.component++)
        parts.push_back(encode(r, terms[r.component].type(), where));
    return Tuple(parts);
}

} // namespace

Tuple reduce(const std::function<Values(const Values &, const Values &)> &combiner, const Values &identities,
             const Values &terms, const AxisList &axes, CombinerProperties properties, std::source_location where) {
    return fold_several("reduce", combiner, identities, terms, axes, properties, where);
}

Tuple scan(const std::function<Values(const Values &, const Values &)> &combiner, const Values &identities,
           const Values &terms, const Axis &axis, std::source_location where) {
    return fold_several("scan", combiner, identities, terms, axis, {}, where);
}

bool is_reduction(const Call *call) { return call->name == reduce_name; }

ReductionTerm decode_reduction(const Call *call) {
    const auto &args = call->args;
    const auto number = [&](size_t i) { return static_cast<size_t>(args[i].as<IntImm>()->value); };
    ReductionTerm r;
    r.kind = args[0].as<StringImm>()->value;
    r.properties = {(number(1) & 1) != 0, (number(1) & 2) != 0};
    r.bounded = (number(1) & 4) != 0;
    const size_t n_axes = number(2), n_terms = number(3), axes = 6, terms = axes + 2 * n_axes;
    r.component = number(4);
    r.tuple = number(5) != 0;
    for (size_t i = 0; i < n_axes; i++)
        r.axes.emplace_back(args[axes + i].as<Variable>()->name, args[axes + n_axes + i]);
    const auto part = [&](size_t n) {
        const auto begin = args.begin() + static_cast<std::ptrdiff_t>(terms + n * n_terms);
        return std::vector<Expr>(begin, begin + static_cast<std::ptrdiff_t>(n_terms));
    };
    r.terms = part(0);
    if (args.size() > terms + n_terms) {
        r.identities = part(1);
        r.combined = part(2);
    }
    return r;
}

std::string accumulator_variable(size_t c) { return c ? fmt::format("{}.{}", accumulator_name, c) : accumulator_name; }
std::string term_variable(size_t c) { return c ? fmt::format("{}.{}", term_name, c) : term_name; }

} // namespace kumiko
