#include "graph/ir/control.h"

namespace kumiko::graph {

void LoopForm::store(Node &node) const {
    node.attributes["states"].value = static_cast<int64_t>(states);
    node.attributes["slices"].value = static_cast<int64_t>(slices);
    node.attributes["trips"].value = trips;
    node.attributes["most"].value = most;
    node.attributes["sized"].value = static_cast<int64_t>(sized);
    node.attributes["tested"].value = static_cast<int64_t>(tested);
    node.attributes["backward"].value = backward;
}

LoopForm LoopForm::of(const Node &node) {
    LoopForm form;
    form.states = static_cast<size_t>(node.integer("states", 0));
    form.slices = static_cast<size_t>(node.integer("slices", 0));
    form.trips = node.integer("trips", -1), form.most = node.integer("most", 0);
    form.sized = node.integer("sized", 0) != 0;
    form.tested = node.integer("tested", 0) != 0;
    form.backward = node.integers("backward");
    return form;
}

void SelectionForm::store(Node &node) const {
    node.attributes["function"].value = function;
    node.attributes["parameters"].value = parameters;
    node.attributes["workspace"].value = workspace;
    node.attributes["given"].value = given;
}

SelectionForm SelectionForm::of(const Node &node) {
    SelectionForm form = {node.text("function", ""), node.integers("parameters"), node.integer("workspace", 0)};
    form.given = std::get<std::vector<std::string>>(node.attributes.at("given").value);
    return form;
}

std::vector<int64_t> graphs_of(const Node &node) { return node.integers("graphs"); }
void set_graphs(Node &node, const std::vector<int64_t> &graphs) { node.attributes["graphs"].value = graphs; }

} // namespace kumiko::graph
