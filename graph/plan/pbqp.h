// Partitioned boolean quadratic programming: one choice for each node of a graph, with the least
// sum of costs of the choices and of the pairs of choices along edges.
//
//     Pbqp problem;
//     const int a = problem.add_node({1, 0}), b = problem.add_node({0, 3});
//     problem.add_edge(a, b, {{0, 5}, {5, 0}});
//     problem.solve().choices; // {0, 0}, of cost 1
//
// The problem is NP-hard. Nodes with at most two neighbours are removed without loss, as are series
// and parallel paths: Scholz and Eckstein, "Register Allocation for Irregular Architectures", LCTES
// 2002; Anderson and Gregg chose primitives of neural networks by it (CGO 2018). What is left is
// searched, within a limit of steps.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace kumiko::graph {

class Pbqp {
public:
    using Costs = std::vector<double>;
    using Matrix = std::vector<Costs>;

    // The costs of the choices; infinite for one that is not legal. Returns the node's number.
    int add_node(const Costs &costs);
    // matrix[i][j]: the cost of choices i of a and j of b. Edges between the same nodes add up.
    void add_edge(int a, int b, const Matrix &matrix);

    struct Solution {
        std::vector<int> choices; // by node; empty if all have infinite costs
        double cost = 0;
        bool optimal = true; // no choices have a lower cost
    };
    // `search_steps` limits the search: a step fixes one choice of a node with three or more
    // neighbours. Beyond it, such a node takes the choice that is best beside its neighbours.
    // Throws InternalError for a matrix of other sizes than its nodes have choices.
    Solution solve(int64_t search_steps = 4096) const;

private:
    friend class PbqpSearch;
    std::vector<Costs> nodes_;
    std::vector<std::map<int, Matrix>> edges_; // [a][b], and transposed [b][a]
};

} // namespace kumiko::graph
