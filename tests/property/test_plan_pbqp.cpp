// Choices by partitioned boolean quadratic programming, beside exhaustive search.
// Links: graph/plan
// Levels: no
#include "graph/plan/pbqp.h"
#include "support/error.h"

#include <doctest/doctest.h>

#include <limits>
#include <random>

using namespace kumiko;
using namespace kumiko::graph;

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

struct Edge {
    int a, b;
    Pbqp::Matrix costs;
};

struct Instance {
    std::vector<Pbqp::Costs> nodes;
    std::vector<Edge> edges;

    Pbqp problem() const {
        Pbqp p;
        for (const Pbqp::Costs &c : nodes) p.add_node(c);
        for (const Edge &e : edges) p.add_edge(e.a, e.b, e.costs);
        return p;
    }
    double cost(const std::vector<int> &choices) const {
        double sum = 0;
        for (size_t n = 0; n < nodes.size(); n++) sum += nodes[n][size_t(choices[n])];
        for (const Edge &e : edges) sum += e.costs[size_t(choices[size_t(e.a)])][size_t(choices[size_t(e.b)])];
        return sum;
    }
    double least() const {
        std::vector<int> choices(nodes.size(), 0);
        double found = infinite;
        for (;;) {
            found = std::min(found, cost(choices));
            size_t n = 0;
            while (n < nodes.size() && ++choices[n] == int(nodes[n].size())) choices[n++] = 0;
            if (n == nodes.size()) return found;
        }
    }
};

// Whole costs, so that sums are exact in any order.
Instance random_instance(std::minstd_rand &draw, size_t most_nodes, double density) {
    const auto cost = [&] { return draw() % 9 == 0 ? infinite : double(draw() % 20); };
    Instance made;
    const size_t n = 1 + draw() % most_nodes;
    for (size_t i = 0; i < n; i++) {
        made.nodes.emplace_back(1 + draw() % 3);
        for (double &c : made.nodes.back()) c = cost();
    }
    for (size_t a = 0; a < n; a++) {
        for (size_t b = a + 1; b < n; b++) {
            if (double(draw() % 1000) >= 1000 * density) continue;
            const bool turned = draw() % 2;
            Edge e{int(turned ? b : a), int(turned ? a : b), {}};
            for (size_t i = 0; i < made.nodes[size_t(e.a)].size(); i++) {
                e.costs.emplace_back(made.nodes[size_t(e.b)].size());
                for (double &c : e.costs.back()) c = cost();
            }
            made.edges.push_back(e);
            if (draw() % 8 == 0) made.edges.push_back(e); // parallel edges
        }
    }
    return made;
}

} // namespace

TEST_CASE("choices of random graphs cost as little as those of exhaustive search") {
    std::minstd_rand draw(1);
    int legal = 0;
    for (const double density : {0.1, 0.3, 0.6, 1.0}) {
        for (int n = 0; n < 100; n++) {
            CAPTURE(density);
            CAPTURE(n);
            const Instance instance = random_instance(draw, 10, density);
            const Pbqp::Solution solution = instance.problem().solve();
            CHECK(solution.optimal);
            CHECK_EQ(solution.cost, instance.least());
            if (solution.choices.empty()) continue;
            legal++;
            CHECK_EQ(instance.cost(solution.choices), solution.cost);
        }
    }
    CHECK_GT(legal, 100);
}

TEST_CASE("chains and trees need no search, and dense graphs without search get legal choices") {
    std::minstd_rand draw(2);
    Pbqp chain;
    for (int n = 0; n < 2000; n++) chain.add_node({double(draw() % 9), double(draw() % 9)});
    for (int n = 1; n < 2000; n++) chain.add_edge(n - 1, n, {{0, 3}, {3, 0}});
    CHECK(chain.solve(0).optimal);
    int worse = 0;
    for (int n = 0; n < 100; n++) {
        Instance instance = random_instance(draw, 9, 1);
        for (Edge &e : instance.edges) {
            for (Pbqp::Costs &row : e.costs) {
                for (double &c : row) c = c == infinite ? 5 : c;
            }
        }
        const Pbqp::Solution solution = instance.problem().solve(0);
        if (solution.choices.empty()) continue;
        CHECK_EQ(instance.cost(solution.choices), solution.cost);
        CHECK_GE(solution.cost, instance.least());
        worse += solution.cost > instance.least();
    }
    CHECK_GT(worse, 0);
}

TEST_CASE("matrices that do not fit are refused") {
    Pbqp p;
    p.add_node({0, 1}), p.add_node({0});
    CHECK_THROWS_AS(p.add_edge(0, 1, {{0}}), InternalError);
    CHECK_THROWS_AS(p.add_edge(0, 1, {{0, 1}, {0, 1}}), InternalError);
    CHECK_THROWS_AS(p.add_edge(0, 0, {{0, 1}, {0, 1}}), InternalError);
    p.add_edge(1, 0, {{2, 0}});
    CHECK_EQ(p.solve().choices, std::vector<int>{1, 0});
}
