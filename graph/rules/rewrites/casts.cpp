// Conversions of conversions.
#include "dsl/narrow_types.h"
#include "graph/rules/rules.h"

namespace kumiko::graph {

namespace {

// Bits of the integers that a type holds, all of them up to that many.
int whole_bits(Type t) {
    if (t == bf16) return 8;
    if (t == f16) return 11;
    if (t == f32) return 24;
    if (t == f64) return 53;
    return t == boolean ? 1 : t.is_int() ? t.bits() - 1 : t.bits();
}

// Whether each value of `from` is one of `to`.
bool is_lossless(Type from, Type to) {
    if (from == to) return true;
    if (is_narrow(from) || is_narrow(to)) return false; // casts to these wrap or saturate
    if (to == boolean) return false;
    if (is_floating(from)) return is_floating(to) && (to == f64 || (to == f32 && from != f64));
    if (from.is_int() && to.is_uint()) return false;
    return whole_bits(from) <= whole_bits(to);
}

bool merge_casts(Rewriter &g, const Node &n) {
    if (!n.domain.empty() || n.op != "Cast") return false;
    const Node *before = g.producer(n.inputs[0]);
    if (!before || before->op != "Cast" || !before->domain.empty()) return false;
    const std::string root = before->inputs[0];
    const Type a = g.value(root).type, b = g.value(n.inputs[0]).type, c = g.value(n.outputs[0]).type;
    if (!is_lossless(a, b)) return false;
    if (a == c) return g.replace_value(n.outputs[0], root);
    if (a == boolean || is_floating(a) != is_floating(b)) return false;
    Node made = n;
    made.inputs[0] = root;
    g.substitute(n, made);
    return true;
}

} // namespace

std::vector<Rule> casts_rules() {
    return {
        {"merge_casts", "A Cast reads another one, whose type holds all values of its input's type.",
         "It becomes one Cast, or the input if that has the type.", Rounding::Exact,
         "ONNX Runtime: CastChainElimination",
         "(float16[2] x) => (double[2] y, float16[2] z) { a = Cast<to = 1>(x) y = Cast<to = 11>(a) b = Cast<to = "
         "10>(a) "
         "z = Neg(b) }",
         "(float16[2] x) => (double[2] y, float16[2] z) { y = Cast<to = 11>(x) z = Neg(x) }", merge_casts},
    };
}

} // namespace kumiko::graph
