// One op for one or several nodes of a graph.
#pragma once

#include "graph/formulas/formula.h"

namespace kumiko::graph {

// An axis whose extent depends on data.
struct BoundedAxis {
    size_t axis = 0;
    std::string size; // the value with the extent, i64
};

// What is known about a value before the op runs.
struct KnownValue {
    Type type;
    Extents extents;
    std::optional<Buffer<>> value = {}; // for inputs that decide shapes
    // The value is the same in all runs. Constants of one element are written into formulas.
    bool constant = false;
    // `extents` has the largest extent of this axis. In memory, elements are dense in the actual
    // one.
    std::optional<BoundedAxis> bounded = {};
    // A constant of elements of 4 or 2 bits, whose array `value` has those of neighbouring rows in
    // each byte: of u8, with fewer rows.
    bool packed = false;
    int64_t bytes() const;
};
// Throws UserError for a name without a value.
using FindValue = std::function<KnownValue(const std::string &name)>;

// A constant of such elements with at least one axis as a packed one: element [r, …] is in byte
// [r / n, …], in bits from (r mod n) · bits on, where n is the number of elements in a byte.
KnownValue packed(const KnownValue &constant);

// Whether a value has at most 2^40 bytes. Products of its extents then fit int64.
bool has_legal_size(Type type, const Extents &extents);

// Several nodes as one op. Its names do not depend on the graph's, so equal parts of graphs become
// equal ops.
struct GroupOp {
    std::optional<Op> op;                     // nullopt if all outputs are known or empty
    std::vector<std::string> inputs, outputs; // names in the graph, in the order of the op's
    std::map<std::string, Buffer<>> known;    // outputs whose elements are known without it
    std::map<std::string, KnownValue> made;   // types and extents of all that the nodes make
    std::vector<OpScope::Check> checks;       // of inputs, before the op runs
};

// Runs f. Adds the name of this node to errors that name none.
void naming_node(const Node &node, const std::function<void()> &f);

// `nodes`: producers before consumers, of operators with formulas. `outputs`: their results that
// other nodes read, or that are outputs of the graph. Throws UserError if inputs do not fit an
// operator, Unsupported for an operator or option without a formula.
//
// `orders`: of values that the op reads and writes, how their axes are stored. The op's tensors
// have the stored axes.
GroupOp make_group_op(const std::vector<const Node *> &nodes, const std::vector<std::string> &outputs,
                      const FindValue &find, const std::map<std::string, AxisOrder> &orders = {});

} // namespace kumiko::graph
