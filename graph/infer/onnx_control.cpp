#include "graph/infer/onnx_control.h"

#include "graph/infer/graph_fixer.h"
#include "graph/ir/control.h"

#include <cstring>

namespace kumiko::graph {

namespace {

class OnnxControl {
public:
    OnnxControl(const FixedGraph &graph, const Node &node, std::map<std::string, Buffer<>> &constants)
        : graph_(graph), node_(node), constants_(constants) {}

    Node run() {
        Node made;
        made.name = node_.name, made.op = node_.op, made.opset = node_.opset;
        made.outputs = node_.outputs, made.metadata = node_.metadata;
        const std::vector<int64_t> graphs = graphs_of(node_);
        if (node_.op == "If") {
            made.inputs = {node_.inputs.at(0)};
            made.attributes["then_branch"].value = share(graph_of(graphs.at(0), 0, 1));
            made.attributes["else_branch"].value = share(graph_of(graphs.at(1), 0, 1));
            return made;
        }
        const LoopForm form = LoopForm::of(node_);
        const size_t given = form.states + form.slices;
        made.inputs.assign(node_.inputs.begin() + 2, node_.inputs.begin() + 2 + int64_t(given));
        Graph body = graph_of(graphs.at(0), 1 + given, 2 + given);
        if (form.slices > 0) {
            body.inputs.erase(body.inputs.begin());
            made.op = "Scan";
            made.attributes["body"].value = share(std::move(body));
            made.attributes["num_scan_inputs"].value = static_cast<int64_t>(form.slices);
            const auto out = form.backward.begin() + int64_t(form.slices);
            made.attributes["scan_input_directions"].value = std::vector<int64_t>(form.backward.begin(), out);
            made.attributes["scan_output_directions"].value = std::vector<int64_t>(out, form.backward.end());
            return made;
        }
        const std::string own = node_.outputs.at(0) + "/";
        if (form.trips >= 0) constants_[own + "trips"] = int64_tensor({form.trips}, {});
        made.inputs.insert(made.inputs.begin(),
                           {form.trips >= 0 ? own + "trips" : node_.inputs.at(0), node_.inputs.at(1)});
        body.inputs.insert(body.inputs.begin() + 1, ValueInfo::of(own + "running", boolean, {}));
        if (!form.tested) {
            add_copy(body, own + "running", own + "again");
            body.outputs.insert(body.outputs.begin(), ValueInfo::of(own + "again", boolean, {}));
        }
        made.attributes["body"].value = share(std::move(body));
        return made;
    }

private:
    static std::shared_ptr<const Graph> share(Graph graph) { return std::make_shared<const Graph>(std::move(graph)); }

    void add_copy(Graph &graph, const std::string &from, const std::string &to) const {
        Node copy;
        copy.op = "Identity", copy.opset = node_.opset, copy.inputs = {from}, copy.outputs = {to};
        graph.nodes.push_back(copy);
    }

    // An inner graph. Its first `formal` inputs stay; the others are the node's inputs from number
    // `first` on.
    Graph graph_of(int64_t number, size_t formal, size_t first) const {
        const FixedGraph &fixed = *graph_.graphs.at(size_t(number));
        Graph made = to_graph(fixed).first;
        std::map<std::string, std::string> names;
        for (size_t n = formal; n < made.inputs.size(); n++) {
            const std::string &outer = node_.inputs.at(first + n - formal);
            if (made.inputs[n].name != outer) names[made.inputs[n].name] = outer;
        }
        for (Node &n : made.nodes) n = renamed(std::move(n), names);
        std::set<std::string> computed;
        for (const Node &n : made.nodes) computed.insert(n.outputs.begin(), n.outputs.end());
        // ONNX Runtime requires that nodes make the outputs, each of which is listed once.
        size_t copies = 0;
        for (ValueInfo &o : made.outputs) {
            const auto other = names.find(o.name);
            if (other == names.end() && computed.erase(o.name)) continue;
            const std::string name =
                node_.outputs.at(0) + "/result" + std::to_string(number) + "." + std::to_string(copies++);
            add_copy(made, other == names.end() ? o.name : other->second, name);
            o.name = name;
        }
        made.inputs.resize(formal);
        std::erase_if(made.constants, [&](const auto &c) { return constants_.count(c.first) > 0; });
        return made;
    }

    const FixedGraph &graph_;
    const Node &node_;
    std::map<std::string, Buffer<>> &constants_;
};

} // namespace

void add_onnx_control(Graph &all, const FixedGraph &graph, const Node &node) {
    const auto add_size = [&](const std::string &value, size_t axis, const std::string &size) {
        Node shape, gather;
        shape.op = "Shape", gather.op = "Gather", shape.opset = gather.opset = node.opset;
        shape.inputs = {value}, shape.outputs = {size + "/shape"};
        all.constants[size + "/axis"] = int64_tensor({static_cast<int64_t>(axis)}, {});
        gather.inputs = {size + "/shape", size + "/axis"}, gather.outputs = {size};
        all.nodes.push_back(shape), all.nodes.push_back(gather);
    };
    Node made;
    if (is_selection(node)) {
        made = node;
        made.domain.clear();
        for (const char *own : {"function", "parameters", "workspace", "given"}) made.attributes.erase(own);
        const SelectionForm form = SelectionForm::of(node);
        made.outputs = form.given;
        for (size_t n = 2; node.op == "NonMaxSuppression" && n < 5; n++) {
            if (form.parameters.at(n + 2)) continue;
            made.inputs.insert(made.inputs.begin() + int64_t(std::min(n, made.inputs.size())), "");
        }
    } else {
        made = OnnxControl(graph, node, all.constants).run();
        if (node.op == "Loop" && LoopForm::of(node).sized) made.outputs.pop_back();
    }
    all.nodes.push_back(made);
    const std::string &size = node.outputs.back();
    for (const std::string &o : made.outputs) {
        const auto value = graph.values.find(o);
        if (value == graph.values.end() || !value->second.bounded || value->second.bounded->size != size) continue;
        add_size(o, value->second.bounded->axis, size);
        return;
    }
}

} // namespace kumiko::graph
