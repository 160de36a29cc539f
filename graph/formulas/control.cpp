// Nodes of control flow, which no formula computes. With these rows, passes over a graph treat them
// as nodes that depend on all elements of their inputs.
#include "graph/ir/control.h"
#include "graph/formulas/formula.h"

namespace kumiko::graph {

std::vector<Operator> control_operators() {
    const Formula none = [](Call &c) -> Results { c.unsupported("control flow has no formula"); };
    std::vector<Operator> all;
    for (const char *op : {"If", "Loop", "NonZero", "Compress", "Unique", "NonMaxSuppression"})
        all.push_back({op, 1, none, control_domain});
    return all;
}

} // namespace kumiko::graph
