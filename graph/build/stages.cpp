#include "graph/build/stages.h"

#include <fmt/format.h>
#include <set>

namespace kumiko::graph {

namespace {

using Calls = std::vector<Model::Call>;

Calls calls_of(const FixedGraph &graph, const std::vector<Group> &groups) {
    Calls calls;
    for (const Group &group : groups) {
        std::string name;
        constexpr size_t max_length = 40;
        for (const size_t n : group.nodes) {
            if (name.size() < max_length) name += graph.nodes[n].op + "_";
        }
        calls.push_back({name + std::to_string(calls.size()), group.nodes, {}});
    }
    return calls;
}

// Calls after those whose values they read: those with a step in the order of the steps, others,
// such as views, as early as they can be.
class StepOrder {
public:
    StepOrder(const FixedGraph &graph, const Calls &calls, const std::map<size_t, size_t> &call_of_step)
        : graph_(graph), calls_(calls), done_(calls.size(), false) {
        for (size_t c = 0; c < calls.size(); c++) {
            for (const size_t n : calls[c].nodes) {
                for (const std::string &o : graph.nodes[n].outputs) maker_[o] = c;
            }
        }
        for (const auto &[step, call] : call_of_step) visit(call);
        for (size_t c = 0; c < calls.size(); c++) visit(c);
    }
    const std::vector<size_t> &order() const { return order_; }

private:
    void visit(size_t call) {
        if (done_[call]) return;
        done_[call] = true;
        for (const size_t n : calls_[call].nodes) {
            for (const std::string &i : graph_.nodes[n].inputs) {
                if (const auto made = maker_.find(i); made != maker_.end()) visit(made->second);
            }
        }
        order_.push_back(call);
    }

    const FixedGraph &graph_;
    const Calls &calls_;
    std::map<std::string, size_t> maker_;
    std::vector<bool> done_;
    std::vector<size_t> order_;
};

std::string place_text(const Location &l, const Program &program) {
    switch (l.kind) {
    case Location::Kind::Input:
        return "input " + program.inputs[l.index].name;
    case Location::Kind::Output:
        return "output " + program.outputs[l.index].name;
    case Location::Kind::Constant:
        return "constant";
    default:
        return fmt::format("arena {}", l.offset);
    }
}

} // namespace

Model fused_model(const FixedGraph &graph, const GroupOptions &options) {
    const auto [all, values] = to_graph(graph);
    return Model::of_calls(all, graph.name, values, calls_of(graph, group_nodes(graph, options)), {});
}

Model planned_model(const FixedGraph &graph, const GroupOptions &options) {
    auto [all, values] = to_graph(graph);
    const std::vector<Group> groups = group_nodes(graph, options);
    Calls calls = calls_of(graph, groups);
    const Program program = make_program(graph, options);
    std::map<std::string, size_t> step_of; // by the name of a result
    std::map<std::string, std::string> places;
    for (size_t s = 0; s < program.steps.size(); s++) {
        for (const auto &[tensor, location] : program.steps[s].made) {
            if (program.steps[s].kind == Step::Kind::Call) step_of.emplace(tensor.name, s);
            places.emplace(tensor.name, place_text(location, program));
        }
    }
    std::map<size_t, size_t> call_of_step;
    for (size_t g = 0; g < groups.size(); g++) {
        if (groups[g].view || groups[g].outputs.empty()) continue;
        const auto step = step_of.find(groups[g].outputs[0]);
        if (step == step_of.end()) continue; // known
        call_of_step[step->second] = g;
        calls[g].metadata = {{"kumiko.step", std::to_string(step->second)},
                             {"kumiko.kernel", std::to_string(program.steps[step->second].kernel)}};
    }
    for (std::vector<ValueInfo> *list : {&values, &all.outputs}) {
        for (ValueInfo &v : *list) {
            if (const auto place = places.find(v.name); place != places.end())
                v.metadata["kumiko.place"] = place->second;
        }
    }
    Calls ordered;
    const StepOrder order(graph, calls, call_of_step);
    for (const size_t c : order.order()) ordered.push_back(calls[c]);
    return Model::of_calls(all, graph.name, values, ordered,
                           {{"kumiko.arena_bytes", std::to_string(program.arena_bytes)},
                            {"kumiko.arena_bound_bytes", std::to_string(program.arena_bound)}});
}

} // namespace kumiko::graph
