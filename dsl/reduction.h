// Reductions: values folded over axes. The accumulator has the type of the expression; a cast
// inside it selects another. A reduction may appear inside a larger expression. It then becomes a
// stage of its own, named after the stage that contains it.
#pragma once

#include "dsl/axis.h"
#include "dsl/element.h"

#include <functional>

namespace kumiko {

// The sum (product) of `e` over the axes. Over an empty axis it is 0 (1).
Element sum(const Expr &e, const AxisList &axes, Place where = Place::current());
Element product(const Expr &e, const AxisList &axes, Place where = Place::current());
// The largest (smallest) value of `e`. Over an empty axis, the type's lowest (highest) value; for
// floats −inf (+inf). NaN never wins.
Element maximum(const Expr &e, const AxisList &axes, Place where = Place::current());
Element minimum(const Expr &e, const AxisList &axes, Place where = Place::current());

// Bounded reductions: sum(e, k, where(k <= i)) folds the terms whose condition is true. If the
// condition is a conjunction (&&), comparisons of axes, sizes and numbers in it become loop bounds,
// and those steps are skipped. Other conditions, which may read tensors, are evaluated at each
// step. All reads in `e` must be in bounds even where the condition is false. Throws UserError if
// the condition is not a bool.
struct Where {
    Expr condition;
};
// The condition of a bounded reduction.
inline Where where(const Expr &condition) { return {condition}; }

// The reductions above, over the terms whose condition is true.
Element sum(const Expr &e, const AxisList &axes, const Where &bound, Place where = Place::current());
Element product(const Expr &e, const AxisList &axes, const Where &bound, Place where = Place::current());
Element maximum(const Expr &e, const AxisList &axes, const Where &bound, Place where = Place::current());
Element minimum(const Expr &e, const AxisList &axes, const Where &bound, Place where = Place::current());

// The int32 index of the extreme element; `value` is the element itself.
struct Extreme : Element {
    Element value;
};
// Index and value of the largest (smallest) element; the index is row-major over `axes`. Ties take
// the lowest index. NaN never wins. Over an empty axis, the index is −1 and the value is the
// identity of maximum (minimum). One reduction computes both.
Extreme argmax(const Expr &e, const AxisList &axes, Place where = Place::current());
Extreme argmin(const Expr &e, const AxisList &axes, Place where = Place::current());

// Overloads for a braced list of axes, even of one. Otherwise Halide's functions of these names
// would match.
Element sum(const Expr &e, std::initializer_list<Axis> axes, Place where = Place::current());
Element product(const Expr &e, std::initializer_list<Axis> axes, Place where = Place::current());
Element maximum(const Expr &e, std::initializer_list<Axis> axes, Place where = Place::current());
Element minimum(const Expr &e, std::initializer_list<Axis> axes, Place where = Place::current());
Extreme argmax(const Expr &e, std::initializer_list<Axis> axes, Place where = Place::current());
Extreme argmin(const Expr &e, std::initializer_list<Axis> axes, Place where = Place::current());

// Algebraic properties of the combiner of reduce().
struct CombinerProperties {
    // With commutative: required to split the reduction over lanes or threads, or with rfactor.
    bool associative = false;
    bool commutative = false;
};

// The general fold: acc = combiner(acc, e), starting from `identity`, over the axes in the given
// order (last fastest).
Element reduce(const std::function<Expr(Expr, Expr)> &combiner, const Expr &identity, const Expr &e,
               const AxisList &axes, CombinerProperties properties = {}, Place where = Place::current());

// Without axes, argument-dependent lookup would find Halide's functions, which mean something else.
Element sum(const Expr &) = delete;
Element product(const Expr &) = delete;
Element maximum(const Expr &) = delete;
Element minimum(const Expr &) = delete;
Extreme argmax(const Expr &) = delete;
Extreme argmin(const Expr &) = delete;

// Representation of a reduction in an expression, until Op turns it into a stage.
struct ReductionTerm {
    std::string kind; // "sum", "product", "maximum", "minimum", "argmax", "argmin", "reduce"
    std::vector<Axis> axes;
    std::vector<Expr> terms; // one, except for tuples (dsl/tuple.h)
    // "reduce", "scan": one per term. `combined` is over the variables accumulator_variable(c) and
    // term_variable(c).
    std::vector<Expr> identities, combined;
    CombinerProperties properties;
    size_t component = 0; // which result this expression is
    bool tuple = false;   // made by dsl/tuple.h: all components are results of one stage
    bool is_extreme() const { return kind == "argmax" || kind == "argmin"; }
    bool bounded = false; // made with `where`: the term is select(condition, term, identity)
};
inline constexpr const char *accumulator_name = "kumiko.acc";
inline constexpr const char *term_name = "kumiko.term";
// The names of the variables that stand for the accumulator and the term of component c.
std::string accumulator_variable(size_t c); // "kumiko.acc", "kumiko.acc.1"
std::string term_variable(size_t c);
bool is_reduction(const Halide::Internal::Call *call);
ReductionTerm decode_reduction(const Halide::Internal::Call *call);

} // namespace kumiko
