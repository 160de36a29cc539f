// Other algorithms for the same operator.
#include "graph/formulas/windows.h"
#include "graph/rules/rules.h"
#include "ops/winograd.h"

namespace kumiko::graph {

namespace {

bool convolve_by_winograd(Rewriter &g, const Node &n) {
    if (!n.domain.empty() || n.op != "Conv" || n.outputs.size() != 1 || n.metadata.count(winograd_key)) return false;
    const Buffer<> *weights = g.constant(n, 1);
    const KnownValue &made = g.value(n.outputs[0]);
    if (!weights || made.constant || made.type != f32 || weights->rank() != 4) return false;
    const std::vector<int64_t> ones = {1, 1}, strides = n.integers("strides", ones);
    if (weights->extent(2) != 3 || weights->extent(3) != 3 || n.integers("dilations", ones) != ones ||
        n.integer("group", 1) != 1 || strides[0] != strides[1])
        return false;
    const Extents &e = made.extents;
    const int tile = ops::winograd_tile(e[0], weights->extent(1), e[1], e[2], e[3], strides[0]);
    if (tile == 0) return false;
    Node faster = n;
    faster.metadata[winograd_key] = std::to_string(tile);
    g.substitute(n, faster);
    return true;
}

} // namespace

std::vector<Rule> algorithms_rules() {
    return {
        {"convolve_by_winograd",
         "A Conv of f32 has constant weights, a window of 3 × 3, dilation 1, stride 1 or 2, one group, and enough "
         "channels, filters and results for Winograd's algorithm to pay.",
         "Its metadata state the tile, so that its formula is Winograd's.", Rounding::Fast,
         "Lavin and Gray 2015; oneDNN",
         "(float[1, 16, 16, 16] x) => (float[1, 16, 16, 16] y) <int64[4] s = {16, 16, 3, 3}> "
         "{ w = ConstantOfShape<value = float[1] {0.25}>(s) y = Conv<pads = [1, 1, 1, 1]>(x, w) }",
         "(float[1, 16, 16, 16] x) => (float[1, 16, 16, 16] y) <int64[4] s = {16, 16, 3, 3}> "
         "{ w = ConstantOfShape<value = float[1] {0.25}>(s) y = Conv<pads = [1, 1, 1, 1]>(x, w) }",
         convolve_by_winograd},
    };
}

} // namespace kumiko::graph
