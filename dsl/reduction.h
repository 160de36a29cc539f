// Reductions: values folded over axes. The accumulation type is the type of the expression; state another by a cast in it.
// A reduction may stand inside a larger expression; it then becomes a stage of its own, named after the one it stands in.
#pragma once

#include "dsl/axis.h"
#include "dsl/element.h"

#include <functional>

namespace kumiko {

Element sum(const Expr &e, const AxisList &axes, Place where = Place::current());
Element product(const Expr &e, const AxisList &axes, Place where = Place::current());
// Of nothing: the lowest (highest) value, for floats −inf (+inf). NaN never wins.
Element maximum(const Expr &e, const AxisList &axes, Place where = Place::current());
Element minimum(const Expr &e, const AxisList &axes, Place where = Place::current());

// Bounded reductions: sum(e, k, where(k <= i)) folds the terms for which the condition holds. Loops
// skip steps for which comparisons of axes, sizes and numbers fail that are joined by &&. Other
// conditions, which may read tensors, are evaluated at each step. All reads of `e` have to lie
// inside their tensors, also where the condition fails. Throws UserError if the condition is not a
// bool.
struct Where {
    Expr condition;
};
inline Where where(const Expr &condition) { return {condition}; }
Element sum(const Expr &e, const AxisList &axes, const Where &bound, Place where = Place::current());
Element product(const Expr &e, const AxisList &axes, const Where &bound, Place where = Place::current());
Element maximum(const Expr &e, const AxisList &axes, const Where &bound, Place where = Place::current());
Element minimum(const Expr &e, const AxisList &axes, const Where &bound, Place where = Place::current());

// The int32 index of an extreme element, and the element itself.
struct Extreme : Element {
    Element value;
};
// Index and value of the largest (smallest) element, row-major over `axes`. Ties take the lowest
// index. NaN never wins. Without elements the index is −1, and the value is the identity of maximum
// (minimum). One reduction computes both.
Extreme argmax(const Expr &e, const AxisList &axes, Place where = Place::current());
Extreme argmin(const Expr &e, const AxisList &axes, Place where = Place::current());

// A list of axes, also of one, which Halide's functions of these names would take for something else.
Element sum(const Expr &e, std::initializer_list<Axis> axes, Place where = Place::current());
Element product(const Expr &e, std::initializer_list<Axis> axes, Place where = Place::current());
Element maximum(const Expr &e, std::initializer_list<Axis> axes, Place where = Place::current());
Element minimum(const Expr &e, std::initializer_list<Axis> axes, Place where = Place::current());
Extreme argmax(const Expr &e, std::initializer_list<Axis> axes, Place where = Place::current());
Extreme argmin(const Expr &e, std::initializer_list<Axis> axes, Place where = Place::current());

struct CombinerProperties {
    bool associative = false; // needed, with commutative, to split the reduction over lanes, threads or rfactor
    bool commutative = false;
};

// The general fold: acc = combiner(acc, e), starting from `identity`, over the axes in the order given (last fastest).
Element reduce(const std::function<Expr(Expr, Expr)> &combiner, const Expr &identity, const Expr &e,
               const AxisList &axes, CombinerProperties properties = {}, Place where = Place::current());

// Without axes these would be found in Halide by argument-dependent lookup and mean something else.
Element sum(const Expr &) = delete;
Element product(const Expr &) = delete;
Element maximum(const Expr &) = delete;
Element minimum(const Expr &) = delete;
Extreme argmax(const Expr &) = delete;
Extreme argmin(const Expr &) = delete;

// How a reduction stands in an expression until Op makes it a stage.
struct ReductionTerm {
    std::string kind; // "sum", "product", "maximum", "minimum", "argmax", "argmin", "reduce"
    std::vector<Axis> axes;
    std::vector<Expr> terms; // one, but for the tuples of dsl/tuple.h
    // "reduce", "scan": one each a term; combined is over the variables accumulator_variable(c) and term_variable(c)
    std::vector<Expr> identities, combined;
    CombinerProperties properties;
    size_t component = 0; // which result the expression is
    bool tuple = false;   // one part of a stage of its own, which reads of the other parts share
    bool is_extreme() const { return kind == "argmax" || kind == "argmin"; }
    bool bounded = false; // by `where`: the term is select(condition, term, identity)
};
inline constexpr const char *accumulator_name = "kumiko.acc";
inline constexpr const char *term_name = "kumiko.term";
// The names of the variables that stand for the accumulator and the term of component c.
std::string accumulator_variable(size_t c); // "kumiko.acc", "kumiko.acc.1"
std::string term_variable(size_t c);
bool is_reduction(const Halide::Internal::Call *call);
ReductionTerm decode_reduction(const Halide::Internal::Call *call);

} // namespace kumiko
