#include "graph/plan/order.h"

#include "graph/plan/task_graph.h"

#include <algorithm>

namespace kumiko::graph {

namespace {

int64_t peak_of(const TaskGraph &g, const std::vector<int> &order) {
    const std::vector<int64_t> live = g.profile(order);
    return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

// A peak that every order has: the blocks that one task uses, and those that are live throughout.
int64_t min_peak(const TaskGraph &g) {
    int64_t always = 0, most = 0;
    for (size_t b = 0; b < g.bytes.size(); b++)
        if (g.live_in[b] && g.live_out[b]) always += g.bytes[b];
    for (const std::vector<int> &uses : g.uses) {
        int64_t bytes = always;
        for (int b : uses)
            if (!g.live_in[b] || !g.live_out[b]) bytes += g.bytes[b];
        most = std::max(most, bytes);
    }
    return most;
}

} // namespace

TaskOrder choose_order(const std::vector<PlanTask> &tasks, const std::vector<PlanBuffer> &buffers,
                       int64_t search_steps) {
    const TaskGraph g = make_task_graph(tasks, buffers);
    const TaskGraph reversed = g.reversed();
    std::vector<std::vector<int>> orders = {order_as_given(g)};
    const auto add = [&](std::vector<int> order, bool backwards) {
        if (backwards) std::reverse(order.begin(), order.end());
        if (std::find(orders.begin(), orders.end(), order) == orders.end()) orders.push_back(std::move(order));
    };
    for (bool backwards : {false, true}) {
        const TaskGraph &graph = backwards ? reversed : g;
        add(order_by_growth(graph, false), backwards);
        add(order_by_growth(graph, true), backwards);
        add(order_depth_first(graph), backwards);
        add(order_post(graph), backwards);
    }
    TaskOrder best;
    best.given_peak = peak_of(g, orders[0]);
    const int64_t least = min_peak(g);
    const auto keep = [&](const std::vector<int> &order) {
        const int64_t peak = peak_of(g, order);
        if (best.order.empty() || peak < best.peak) {
            best.order = order;
            best.peak = peak;
        }
    };
    for (const std::vector<int> &order : orders) keep(order);
    for (size_t n = 0; n < orders.size() && best.peak > least; n++) {
        search_steps -= improve_windows(g, orders[n], search_steps / int64_t(orders.size() - n));
        keep(orders[n]);
    }
    best.optimal = best.peak == least;
    return best;
}

} // namespace kumiko::graph
