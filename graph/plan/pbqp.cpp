#include "graph/plan/pbqp.h"

#include "support/error.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kumiko::graph {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

} // namespace

// Solves a copy of the problem, whose nodes it removes one by one.
class PbqpSearch {
public:
    PbqpSearch(const Pbqp &problem, int64_t &steps)
        : nodes_(problem.nodes_), edges_(problem.edges_), alive_(nodes_.size(), true), steps_(steps) {}

    Pbqp::Solution run() {
        Pbqp::Solution solution;
        solution.choices.assign(nodes_.size(), -1);
        const std::vector<int> order = reduce();
        const int left = densest();
        if (left >= 0) {
            solution = choose(left);
            if (solution.choices.empty()) return solution;
        }
        // Removed nodes take the best choice beside those of their neighbours.
        for (size_t n = order.size(); n-- > 0;) {
            const auto [choice, cost] = best_beside(order[n], solution.choices);
            if (cost == infinite) return {{}, infinite, solution.optimal};
            solution.choices[size_t(order[n])] = choice;
        }
        return solution;
    }

private:
    size_t degree(size_t n) const {
        size_t count = 0;
        for (const auto &[m, matrix] : edges_[n]) count += alive_[size_t(m)];
        return count;
    }

    // Removes nodes with at most two neighbours, and returns them in that order. Their costs move
    // to the neighbours.
    std::vector<int> reduce() {
        std::vector<int> order, waiting;
        for (size_t n = nodes_.size(); n-- > 0;) waiting.push_back(int(n));
        while (!waiting.empty()) {
            const auto n = size_t(waiting.back());
            waiting.pop_back();
            if (!alive_[n] || degree(n) > 2) continue;
            std::vector<int> neighbours;
            for (const auto &[m, matrix] : edges_[n]) {
                if (alive_[size_t(m)]) neighbours.push_back(m);
            }
            alive_[n] = false;
            order.push_back(int(n));
            if (neighbours.size() == 1) remove_leaf(n, neighbours[0]);
            if (neighbours.size() == 2) remove_between(n, neighbours[0], neighbours[1]);
            waiting.insert(waiting.end(), neighbours.begin(), neighbours.end());
        }
        return order;
    }

    void remove_leaf(size_t n, int m) {
        const Pbqp::Matrix &to = edges_[n].at(m);
        for (size_t j = 0; j < nodes_[size_t(m)].size(); j++) {
            double least = infinite;
            for (size_t i = 0; i < nodes_[n].size(); i++) least = std::min(least, nodes_[n][i] + to[i][j]);
            nodes_[size_t(m)][j] += least;
        }
    }

    void remove_between(size_t n, int a, int b) {
        const Pbqp::Matrix &to_a = edges_[n].at(a), &to_b = edges_[n].at(b);
        const size_t rows = nodes_[size_t(a)].size(), columns = nodes_[size_t(b)].size();
        Pbqp::Matrix made(rows, Pbqp::Costs(columns, infinite)), transposed(columns, Pbqp::Costs(rows));
        for (size_t i = 0; i < rows; i++) {
            for (size_t j = 0; j < columns; j++) {
                for (size_t k = 0; k < nodes_[n].size(); k++)
                    made[i][j] = std::min(made[i][j], nodes_[n][k] + to_a[k][i] + to_b[k][j]);
            }
        }
        const auto known = edges_[size_t(a)].find(b);
        for (size_t i = 0; i < rows; i++) {
            for (size_t j = 0; j < columns; j++) {
                if (known != edges_[size_t(a)].end()) made[i][j] += known->second[i][j];
                transposed[j][i] = made[i][j];
            }
        }
        edges_[size_t(a)][b] = made, edges_[size_t(b)][a] = transposed;
    }

    // The node with the most neighbours; -1: none is left.
    int densest() const {
        int found = -1;
        size_t most = 0;
        for (size_t n = 0; n < nodes_.size(); n++) {
            if (alive_[n] && (found < 0 || degree(n) > most)) found = int(n), most = degree(n);
        }
        return found;
    }

    // Fixes the choice of a node.
    void fix(int n, size_t choice) {
        alive_[size_t(n)] = false;
        for (const auto &[m, matrix] : edges_[size_t(n)]) {
            if (!alive_[size_t(m)]) continue;
            for (size_t j = 0; j < nodes_[size_t(m)].size(); j++) nodes_[size_t(m)][j] += matrix[choice][j];
        }
    }

    // The sum of the node's own costs that `fix` has not moved to neighbours.
    double cost_of(const std::vector<int> &choices, const std::vector<bool> &before) const {
        double sum = 0;
        for (size_t n = 0; n < nodes_.size(); n++) {
            if (!before[n]) continue;
            sum += nodes_[n][size_t(choices[n])];
            for (const auto &[m, matrix] : edges_[n]) {
                if (size_t(m) > n && before[size_t(m)]) sum += matrix[size_t(choices[n])][size_t(choices[size_t(m)])];
            }
        }
        return sum;
    }

    // Tries the choices of the node, the most promising first.
    Pbqp::Solution choose(int n) {
        std::vector<std::pair<double, size_t>> order;
        for (size_t i = 0; i < nodes_[size_t(n)].size(); i++) {
            double cost = nodes_[size_t(n)][i];
            for (const auto &[m, matrix] : edges_[size_t(n)]) {
                if (!alive_[size_t(m)]) continue;
                double least = infinite;
                for (size_t j = 0; j < matrix[i].size(); j++)
                    least = std::min(least, matrix[i][j] + nodes_[size_t(m)][j]);
                cost += least;
            }
            order.emplace_back(cost, i);
        }
        std::sort(order.begin(), order.end());
        Pbqp::Solution best{{}, infinite, true};
        const std::vector<bool> before = alive_;
        for (size_t k = 0; k < order.size(); k++) {
            if (order[k].first == infinite) continue;
            if (!best.choices.empty() && steps_ <= 0) {
                best.optimal = false;
                break;
            }
            steps_--;
            PbqpSearch rest = *this;
            rest.fix(n, order[k].second);
            Pbqp::Solution solution = rest.run();
            const bool optimal = best.optimal && solution.optimal;
            if (!solution.choices.empty()) {
                solution.choices[size_t(n)] = int(order[k].second);
                solution.cost = cost_of(solution.choices, before);
                if (best.choices.empty() || solution.cost < best.cost) best = std::move(solution);
            }
            best.optimal = optimal;
        }
        return best;
    }

    // Of a removed node: a neighbour without a choice was removed earlier.
    std::pair<int, double> best_beside(int n, const std::vector<int> &choices) const {
        int found = 0;
        double least = infinite;
        for (size_t i = 0; i < nodes_[size_t(n)].size(); i++) {
            double cost = nodes_[size_t(n)][i];
            for (const auto &[m, matrix] : edges_[size_t(n)]) {
                if (choices[size_t(m)] >= 0) cost += matrix[i][size_t(choices[size_t(m)])];
            }
            if (cost < least) found = int(i), least = cost;
        }
        return {found, least};
    }

    std::vector<Pbqp::Costs> nodes_;
    std::vector<std::map<int, Pbqp::Matrix>> edges_;
    std::vector<bool> alive_;
    int64_t &steps_;
};

int Pbqp::add_node(const Costs &costs) {
    nodes_.push_back(costs);
    edges_.emplace_back();
    return int(nodes_.size() - 1);
}

void Pbqp::add_edge(int a, int b, const Matrix &matrix) {
    const size_t rows = nodes_.at(size_t(a)).size(), columns = nodes_.at(size_t(b)).size();
    const bool fits = a != b && matrix.size() == rows &&
                      std::all_of(matrix.begin(), matrix.end(), [&](const Costs &c) { return c.size() == columns; });
    if (!fits) throw InternalError("an edge of a choice problem does not fit its nodes");
    Matrix &there = edges_[size_t(a)][b], &back = edges_[size_t(b)][a];
    there.resize(rows, Costs(columns, 0)), back.resize(columns, Costs(rows, 0));
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < columns; j++) there[i][j] += matrix[i][j], back[j][i] += matrix[i][j];
    }
}

Pbqp::Solution Pbqp::solve(int64_t search_steps) const {
    Solution solution = PbqpSearch(*this, search_steps).run();
    if (solution.choices.empty()) return {{}, infinite, solution.optimal};
    solution.cost = 0;
    for (size_t n = 0; n < nodes_.size(); n++) {
        solution.cost += nodes_[n][size_t(solution.choices[n])];
        for (const auto &[m, matrix] : edges_[n]) {
            if (size_t(m) > n)
                solution.cost += matrix[size_t(solution.choices[n])][size_t(solution.choices[size_t(m)])];
        }
    }
    return solution;
}

} // namespace kumiko::graph
