// Rules that replace parts of a graph by others that compute the same with less work.
#pragma once

#include "graph/rules/rewriter.h"

namespace kumiko::graph {

// How far the results of rules may differ from those of the graph. Each value allows what the
// values before it allow.
enum class Rounding {
    Exact, // equal in bits, NaN, infinities and -0 included (all NaNs are equal)
    Close, // values are rounded at other places: constants are folded, and rounded once
    Fast,  // other algorithms, with the error bounds that they state (ops/conv.h, winograd_conv2d)
};
// "exact", "close", "fast".
const std::vector<std::string> &rounding_names();
// Throws UserError for other names.
Rounding rounding_named(const std::string &name);

// One rule. Its example is a model in ONNX's text format without the header:
// "(float[2] x) => (float[2] y) { y = Identity(x) }".
struct Rule {
    std::string name;
    std::string matches, result;         // a sentence each
    Rounding rounding = Rounding::Exact; // what its results need
    std::string source;                  // where the idea is from
    std::string before, after;
    // Changes the graph at this node if the rule applies there. Returns whether it did.
    bool (*apply)(Rewriter &graph, const Node &node) = nullptr;
    bool last = false; // applied only where no other rule applies any more
};

// All rules, by name.
const std::vector<Rule> &all_rules();

struct SimplifyOptions {
    Rounding rounding = Rounding::Close; // leave out the rules that need more
    // The rules to use, in this order at each node; empty: all. Throws UserError for a name that no
    // rule has.
    std::vector<std::string> rules;
};

struct SimplifyReport {
    struct Count {
        int applied = 0;
        int64_t nodes = 0; // how many fewer there are
        int64_t bytes = 0; // how many fewer bytes the nodes make
    };
    std::map<std::string, Count> rules; // those that applied
    size_t nodes_before = 0, nodes_after = 0;
    int64_t bytes_before = 0, bytes_after = 0; // of all values that nodes make
    void add(const SimplifyReport &other);
    std::string text() const; // a line for the whole and one for each rule
};

// Applies rules until none applies, also to the graphs of control flow. Values that are a graph's
// inputs and outputs keep their names, types and extents.
//
// It ends, because each application makes smaller, in lexicographic order: the number of elements
// that windows compute; the number of batch normalisations, divisions, powers, direct convolutions,
// and products that are not of integers or have zero points; the number of readers of dequantised
// tensors that share one DequantizeLinear; the number of elements of floats that are moved; the
// number of nodes; the sum over all reads of values of the longest path to the value; and the
// number of pairs of a view and a node that depends on it. Throws InternalError after about n²
// applications for n nodes.
SimplifyReport simplify(FixedGraph &graph, const SimplifyOptions &options = {});

} // namespace kumiko::graph
