// Arithmetic with several constants.
#include "graph/rules/constants.h"
#include "graph/rules/rules.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kumiko::graph {

namespace {

// Numbers that are broadcast.
struct Numbers {
    Extents extents;
    std::vector<double> all = {};
};

int64_t elements_of(const Extents &extents) {
    int64_t all = 1;
    for (const int64_t e : extents) all *= e;
    return all;
}

// Elementwise; the extents are known to fit.
template<typename F>
Numbers combined(const Numbers &a, const Numbers &b, F f) {
    const size_t rank = std::max(a.extents.size(), b.extents.size());
    const auto aligned = [&](const Extents &e) {
        Extents made(rank - e.size(), 1);
        made.insert(made.end(), e.begin(), e.end());
        return made;
    };
    const Extents x = aligned(a.extents), y = aligned(b.extents);
    Numbers made;
    for (size_t d = 0; d < rank; d++) made.extents.push_back(std::max(x[d], y[d]));
    const int64_t count = elements_of(made.extents);
    for (int64_t n = 0; n < count; n++) {
        int64_t rest = n, i = 0, j = 0, of_x = 1, of_y = 1;
        for (size_t d = rank; d-- > 0;) {
            const int64_t at = rest % made.extents[d];
            rest /= made.extents[d];
            if (x[d] > 1) i += at * of_x;
            if (y[d] > 1) j += at * of_y;
            of_x *= x[d], of_y *= y[d];
        }
        made.all.push_back(f(a.all[size_t(i)], b.all[size_t(j)]));
    }
    return made;
}

// x · c or x + c with a constant c, also written as x / c or x - c.
struct Step {
    std::string data; // x
    bool product = false;
    Numbers constant;
};

std::optional<Step> step_of(const Rewriter &g, const Node &n) {
    if (!n.domain.empty() || n.inputs.size() != 2) return {};
    const bool commutes = n.op == "Mul" || n.op == "Add";
    if (!commutes && n.op != "Div" && n.op != "Sub") return {};
    const size_t c = commutes && g.constant(n, 0) ? 0 : 1;
    const Buffer<> *b = g.constant(n, c);
    if (!b || g.constant(n, 1 - c) || (Type(b->type()) != f32 && Type(b->type()) != f64)) return {};
    Step made{n.inputs[1 - c], n.op == "Mul" || n.op == "Div", {b->extents(), *numbers_of(*b)}};
    for (double &v : made.constant.all) v = n.op == "Div" ? 1 / v : n.op == "Sub" ? -v : v;
    return made;
}

// In the normal range of the type, or 0.
bool is_normal(const Buffer<> &constant) {
    const std::vector<double> all = *numbers_of(constant);
    const double least =
        Type(constant.type()) == f32 ? double(std::numeric_limits<float>::min()) : std::numeric_limits<double>::min();
    return std::all_of(all.begin(), all.end(),
                       [&](double v) { return v == 0 || (std::isfinite(v) && std::abs(v) >= least); });
}

bool has_zero(const Numbers &n) { return std::count(n.all.begin(), n.all.end(), 0.0) > 0; }

bool merge_constants(Rewriter &g, const Node &n) {
    const auto end = step_of(g, n);
    if (!end) return false;
    const Node *next = g.only_reader(n.outputs[0]);
    if (next && step_of(g, *next)) return false; // that one is the end
    std::vector<const Node *> nodes = {&n};      // from the end on
    std::vector<Step> steps = {*end};
    while (const Node *before = g.producer(steps.back().data)) {
        const auto step = step_of(g, *before);
        if (!step || !g.only_reader(steps.back().data)) break;
        nodes.push_back(before);
        steps.push_back(*step);
    }
    // A product with a sum, (x + c) · d, would become x · d + c · d, which cancels where x + c does
    // not: a chain that begins so is only merged behind its first product.
    const bool sums_alone = std::none_of(steps.begin(), steps.end(), [](const Step &s) { return s.product; });
    while (!sums_alone && !steps.back().product) steps.pop_back(), nodes.pop_back();
    int64_t largest = 1;
    for (const Step &s : steps) largest = std::max(largest, int64_t(s.constant.all.size()));
    Numbers scale{{}, {1}}, shift{{}, {0}};
    bool scaled = false, shifted = false;
    for (size_t s = steps.size(); s-- > 0;) {
        const Numbers &c = steps[s].constant;
        if (steps[s].product) {
            if (has_zero(c)) return false;
            scale = combined(scale, c, std::multiplies<>());
            if (shifted) shift = combined(shift, c, std::multiplies<>());
            scaled = true;
        } else {
            shift = combined(shift, c, std::plus<>());
            shifted = true;
        }
    }
    if (steps.size() <= size_t(scaled) + size_t(shifted)) return false;
    if (int64_t(scale.all.size()) > largest || int64_t(shift.all.size()) > largest) return false;
    const Type type = g.value(n.outputs[0]).type;
    const Buffer<> by = rounded_to(type, scale.extents, scale.all), plus = rounded_to(type, shift.extents, shift.all);
    if (!is_normal(by) || has_zero({{}, *numbers_of(by)}) || !is_normal(plus)) return false;
    std::string from = steps.back().data;
    std::vector<NewNode> made;
    const std::string last = n.outputs[0], inner = g.new_name(last + "/scaled");
    if (scaled) {
        const std::string to = shifted ? inner : last;
        made.push_back({&n, make_node(n, "Mul", {from, g.add_constant(last, "scale", by)}, {to})});
        from = to;
    }
    if (shifted) made.push_back({&n, make_node(n, "Add", {from, g.add_constant(last, "shift", plus)}, {last})});
    g.substitute(nodes, made);
    return true;
}

// The inverses of the constant by which the node divides, if all are normal numbers; `exact`: of
// powers of two.
std::optional<Buffer<>> inverses_of(const Rewriter &g, const Node &n, bool exact) {
    if (!n.domain.empty() || n.op != "Div" || n.inputs.size() != 2 || g.constant(n, 0)) return {};
    const Buffer<> *b = g.constant(n, 1);
    if (!b || (Type(b->type()) != f32 && Type(b->type()) != f64)) return {};
    std::vector<double> all = *numbers_of(*b);
    for (double &v : all) {
        int exponent = 0;
        if (!std::isfinite(v) || v == 0 || (exact && std::abs(std::frexp(v, &exponent)) != 0.5)) return {};
        v = 1 / v;
    }
    const Buffer<> made = rounded_to(b->type(), b->extents(), all);
    if (!is_normal(made) || has_zero({{}, *numbers_of(made)})) return {};
    return made;
}

bool divide(Rewriter &g, const Node &n, bool exact) {
    const auto inverses = inverses_of(g, n, exact);
    if (!inverses) return false;
    g.substitute(n, make_node(n, "Mul", {n.inputs[0], g.add_constant(n.inputs[1], "inverse", *inverses)}, n.outputs));
    return true;
}

// The power of an f32 number is computed in f64 and rounded, which gives the rounded product.
bool square(Rewriter &g, const Node &n) {
    if (!n.domain.empty() || n.op != "Pow" || n.inputs.size() != 2 || g.constant(n, 0)) return false;
    const Buffer<> *b = g.constant(n, 1);
    const auto exponents = b ? numbers_of(*b) : std::nullopt;
    if (!exponents || g.value(n.inputs[0]).type != f32 || g.extents(n.inputs[0]) != g.extents(n.outputs[0]))
        return false;
    if (std::count(exponents->begin(), exponents->end(), 2.0) != int64_t(exponents->size())) return false;
    g.substitute(n, make_node(n, "Mul", {n.inputs[0], n.inputs[0]}, n.outputs));
    return true;
}

bool divide_by_power(Rewriter &g, const Node &n) { return divide(g, n, true); }
bool multiply_by_inverse(Rewriter &g, const Node &n) { return divide(g, n, false); }

} // namespace

std::vector<Rule> arithmetic_rules() {
    return {
        {"merge_constants",
         "Sums with constants follow one another, or products and sums that begin with a product, each the only reader "
         "of the one before.",
         "They become one Add, or one Mul and one Add, with constants computed in f64 and rounded once.",
         Rounding::Close, "onnxslim, TVM: FoldScaleAxis",
         "(float[2, 3] x) => (float[2, 3] y) <float[3] a = {2, 4, 8}, float[1, 3] b = {1, 2, 3}, float[1] c = {2}> "
         "{ p = Mul(x, a) q = Sub(p, b) y = Div(q, c) }",
         "(float[2, 3] x) => (float[2, 3] y) <float[3] a = {1, 2, 4}, float[1, 3] b = {-0.5, -1, -1.5}> "
         "{ p = Mul(x, a) y = Add(p, b) }",
         merge_constants},
        {"square", "A tensor of f32 has the constant power 2.", "It is multiplied by itself, in f32 instead of f64.",
         Rounding::Exact, "LLVM: SimplifyLibCalls", "(float[2] x) => (float[2] y) <float c = {2}> { y = Pow(x, c) }",
         "(float[2] x) => (float[2] y) { y = Mul(x, x) }", square},
        {"divide_by_power", "A tensor is divided by a constant of powers of two, whose inverses are normal numbers.",
         "It is multiplied by the inverses.", Rounding::Exact, "LLVM: InstCombine",
         "(float[2] x) => (float[2] y) <float[2] c = {4, -0.5}> { y = Div(x, c) }",
         "(float[2] x) => (float[2] y) <float[2] c = {0.25, -2}> { y = Mul(x, c) }", divide_by_power},
        {"multiply_by_inverse", "A tensor is divided by a constant whose inverses are normal numbers.",
         "It is multiplied by the inverses, which are rounded once.", Rounding::Close, "TVM: SimplifyExpr",
         "(float[2] x) => (float[2] y) <float c = {10}> { y = Div(x, c) }",
         "(float[2] x) => (float[2] y) <float c = {0.1}> { y = Mul(x, c) }", multiply_by_inverse},
    };
}

} // namespace kumiko::graph
