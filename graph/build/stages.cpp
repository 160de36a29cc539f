#include "graph/build/stages.h"

#include "graph/ir/control.h"

#include <fmt/format.h>
#include <set>

namespace kumiko::graph {

namespace {

using Calls = std::vector<Model::Call>;

// The calls of one group each, in the numbers of the graph's nodes.
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

// The same in the numbers of the nodes of ONNX, which are in the same order. A node whose result
// has a size that depends on data becomes three, which are no function: itself, Shape and Gather.
Calls in_onnx(const FixedGraph &graph, const Graph &all, const Calls &calls) {
    std::vector<size_t> begin = {0};
    for (const Node &node : graph.nodes) {
        size_t end = begin.back() + 1;
        const bool sized = end + 1 < all.nodes.size() && is_control(node) && !node.outputs.empty() &&
                           all.nodes[end + 1].outputs == std::vector<std::string>{node.outputs.back()};
        begin.push_back(sized ? end + 2 : end);
    }
    Calls made;
    for (const Model::Call &call : calls) {
        if (call.nodes.size() == 1) { // of control flow or not
            for (size_t n = begin[call.nodes[0]]; n < begin[call.nodes[0] + 1]; n++)
                made.push_back({call.function, {n}, call.metadata});
            continue;
        }
        made.push_back({call.function, {}, call.metadata});
        for (const size_t n : call.nodes) made.back().nodes.push_back(begin[n]);
    }
    return made;
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

} // namespace

std::string place_text(const Location &l, const Program &program) {
    const std::string within = l.within ? fmt::format(" + {}", l.within) : "";
    switch (l.kind) {
    case Location::Kind::Input:
        return "input " + program.inputs[l.index].name + within;
    case Location::Kind::Output:
        return "output " + program.outputs[l.index].name + within;
    case Location::Kind::Constant:
        return "constant";
    case Location::Kind::State:
        return fmt::format("state {}", l.start());
    default:
        return fmt::format("arena {}", l.start());
    }
}

Model fused_model(const FixedGraph &graph, const GroupOptions &options) {
    const auto [all, values] = to_graph(graph);
    const Calls calls = calls_of(graph, group_nodes(graph, options));
    return Model::of_calls(all, graph.name, values, in_onnx(graph, all, calls), {});
}

Model planned_model(const FixedGraph &graph, const GroupOptions &options, const OpSeconds &seconds) {
    auto [all, values] = to_graph(graph);
    const std::vector<Group> groups = group_nodes(graph, options);
    Calls calls = calls_of(graph, groups);
    const Program program = make_program(graph, options, {}, seconds);
    std::map<std::string, std::string> places;
    std::set<std::string> channels_last;
    std::map<size_t, size_t> call_of_step;
    for (size_t s = 0; s < program.steps.size(); s++) {
        const Step &step = program.steps[s];
        for (const auto &[tensor, location] : step.made) {
            // The first one is that of the step that computes the value.
            const bool first = places.emplace(tensor.name, place_text(location, program)).second;
            if (first && tensor.channels_last) channels_last.insert(tensor.name);
        }
        if (step.kind != Step::Kind::Call || step.group == no_group) continue;
        call_of_step[s] = step.group;
        calls[step.group].metadata = {{"kumiko.step", std::to_string(s)},
                                      {"kumiko.kernel", std::to_string(step.kernel)}};
    }
    for (std::vector<ValueInfo> *list : {&values, &all.outputs}) {
        for (ValueInfo &v : *list) {
            if (const auto place = places.find(v.name); place != places.end())
                v.metadata["kumiko.place"] = place->second;
            if (channels_last.count(v.name)) v.metadata["kumiko.layout"] = "channels_last";
        }
    }
    Calls ordered;
    const StepOrder order(graph, calls, call_of_step);
    for (const size_t c : order.order()) ordered.push_back(calls[c]);
    return Model::of_calls(all, graph.name, values, in_onnx(graph, all, ordered),
                           {{"kumiko.arena_bytes", std::to_string(program.arena_bytes)},
                            {"kumiko.arena_bound_bytes", std::to_string(program.arena_bound)}});
}

} // namespace kumiko::graph
