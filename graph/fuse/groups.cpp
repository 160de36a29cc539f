#include "graph/fuse/groups.h"

#include "dsl/narrow_types.h"
#include "graph/infer/reshapes.h"
#include "graph/ir/control.h"
#include "support/error.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace kumiko::graph {

namespace {

// Nodes that an extension of a group may add before its paths meet.
constexpr size_t most_open_nodes = 12;
// Nodes of a group. Larger kernels are not faster, and take longer to compile.
constexpr size_t most_nodes = 40;

class Fuser {
public:
    Fuser(const FixedGraph &graph, const GroupOptions &options)
        : graph_(graph), options_(options), group_of_(graph.nodes.size(), none) {
        for (size_t n = 0; n < graph.nodes.size(); n++) {
            for (const std::string &o : graph.nodes[n].named_outputs()) producer_[o] = n;
            std::set<std::string> read(graph.nodes[n].inputs.begin(), graph.nodes[n].inputs.end());
            read.erase(""); // of missing inputs
            for (const std::string &i : read) readers_[i].push_back(n);
        }
        outputs_.insert(graph.outputs.begin(), graph.outputs.end());
    }

    Grouping run() {
        if (options_.fuse) {
            for (size_t n = 0; n < graph_.nodes.size(); n++) {
                if (dependence(n) == Dependence::Other) begin(n);
            }
            for (size_t n = 0; n < graph_.nodes.size(); n++) {
                if (group_of_[n] == none && dependence(n) == Dependence::Pointwise && !is_view(n) &&
                    !belongs_to_reader(n) && !makes_weights(n))
                    begin(n);
            }
            for (size_t n = graph_.nodes.size(); n-- > 0;) {
                if (group_of_[n] != none) join_reader(n);
            }
        }
        for (size_t n = 0; n < graph_.nodes.size(); n++) {
            if (group_of_[n] == none) group_of_[n] = members_.size(), members_.push_back({n});
        }
        Grouping made{in_order(), {}};
        made.boundaries = boundaries(made.groups);
        return made;
    }

private:
    static constexpr size_t none = SIZE_MAX;

    // Where a group ended, and why.
    struct Stop {
        std::string value;    // that a node outside of the group would have read inside of it
        size_t reader = none; // this node; none: any
        std::string why;
    };

    Dependence dependence(size_t n) const {
        return find_operator(graph_.nodes[n].op, graph_.nodes[n].opset, graph_.nodes[n].domain)->dependence;
    }

    // Whether the node's only result has the elements of its first input in the same order and
    // type.
    bool is_view(size_t n) const {
        const Node &node = graph_.nodes[n];
        if (node.inputs.empty() || is_control(node) || graph_.is_constant(node.inputs[0])) return false;
        for (size_t o = 1; o < node.outputs.size(); o++) {
            if (readers_.count(node.outputs[o]) || outputs_.count(node.outputs[o])) return false;
        }
        if (node.op == "Identity" || node.op == "Dropout") return true;
        const KnownValue &from = graph_.value(node.inputs[0]), &to = graph_.value(node.outputs[0]);
        if (node.op == "Cast") return from.type == to.type;
        if (node.op == "Expand") return from.extents == to.extents;
        return is_reshape(node, from.extents);
    }

    // Whether a pointwise node makes a tensor of more bytes than it reads, as DequantizeLinear
    // does, for one pointwise node. The group of that node reads the narrower tensor.
    bool belongs_to_reader(size_t n) const {
        const Node &node = graph_.nodes[n];
        if (dependence(n) != Dependence::Pointwise || node.outputs.size() != 1 || outputs_.count(node.outputs[0]))
            return false;
        const auto readers = readers_.find(node.outputs[0]);
        if (readers == readers_.end() || readers->second.size() != 1) return false;
        if (dependence(readers->second[0]) != Dependence::Pointwise || is_view(readers->second[0])) return false;
        int64_t read = 0;
        for (const std::string &i : node.inputs) {
            if (!i.empty()) read += graph_.bytes(i);
        }
        return graph_.bytes(node.outputs[0]) > read;
    }

    // The values of the nodes that are read outside of them, or are outputs of the graph.
    std::vector<std::string> leaving(const std::set<size_t> &nodes) const {
        std::vector<std::string> all;
        for (const size_t n : nodes) {
            for (const std::string &o : graph_.nodes[n].outputs) {
                if (o.empty() || graph_.is_constant(o)) continue;
                bool out = outputs_.count(o) > 0;
                const auto readers = readers_.find(o);
                if (readers != readers_.end()) {
                    for (const size_t r : readers->second) out = out || !nodes.count(r);
                }
                if (out) all.push_back(o);
            }
        }
        return all;
    }

    void begin(size_t anchor) {
        const size_t group = members_.size();
        std::set<size_t> nodes = {anchor};
        std::vector<std::string> out = leaving(nodes);
        Stop stop;
        if (is_control(graph_.nodes[anchor])) {
            stop.why = "control flow is a step of its own";
        } else if (out.size() != 1) {
            stop.why = fmt::format("{} has {} results that are read", graph_.nodes[anchor].op, out.size());
        } else {
            const Extents extents = graph_.value(out[0]).extents;
            std::set<size_t> larger = nodes;
            while (larger.size() < most_nodes && extend(larger, extents, stop)) {
                if (!belongs_to_reader(producer_.at(leaving(larger).at(0)))) nodes = larger;
            }
            if (larger.size() >= most_nodes) stop.why = fmt::format("the group has {} nodes", larger.size());
        }
        members_.emplace_back(nodes.begin(), nodes.end());
        for (const size_t n : nodes) group_of_[n] = group;
        stops_[group] = stop;
    }

    // Adds nodes up to the next value in which all paths meet. Returns false and sets `stop` if
    // there is none.
    bool extend(std::set<size_t> &nodes, const Extents &extents, Stop &stop) const {
        std::set<size_t> larger = nodes;
        std::vector<std::string> open = leaving(larger);
        do {
            for (const std::string &value : open) {
                stop = {value, none, "it is an output of the graph, which is stored"};
                if (outputs_.count(value)) return false;
                const auto readers = readers_.find(value);
                if (readers == readers_.end()) continue;
                for (const size_t r : readers->second) {
                    stop = {value, r, refusal(r, extents)};
                    if (!stop.why.empty()) return false;
                    larger.insert(r);
                }
            }
            stop = {"", none, fmt::format("its readers do not meet in one value within {} nodes", most_open_nodes)};
            if (larger.size() > nodes.size() + most_open_nodes) return false;
            open = leaving(larger);
        } while (open.size() > 1);
        if (open.size() != 1 || graph_.value(open[0]).extents != extents) return false;
        nodes = larger;
        return true;
    }

    // Why a node cannot join the group of what it reads, whose results have these extents; "" if it
    // can.
    std::string refusal(size_t n, const Extents &extents) const {
        const Node &node = graph_.nodes[n];
        if (dependence(n) == Dependence::Other)
            return fmt::format("{} is not pointwise: it begins a group of its own", node.op);
        if (dependence(n) == Dependence::Injective)
            return fmt::format("{} moves elements: it can only join the group of its reader", node.op);
        if (group_of_[n] != none) return fmt::format("{} is in another group", node.op);
        for (const std::string &o : node.outputs) {
            if (!o.empty() && graph_.value(o).extents != extents)
                return fmt::format("{} computes [{}] and not [{}]", node.op, fmt::join(graph_.value(o).extents, ","),
                                   fmt::join(extents, ","));
        }
        return "";
    }

    // Why node `n`, which no group has yet, cannot join the group of its reader `r`; "" if it can.
    std::string refusal_of_reader(size_t n, size_t r, const std::string &value) const {
        const size_t readers = readers_.at(value).size();
        if (dependence(r) == Dependence::Other)
            return fmt::format("{} would move elements again for each time that {} reads them", graph_.nodes[n].op,
                               graph_.nodes[r].op);
        if (outputs_.count(value)) return "it is an output of the graph, which is stored";
        if (graph_.nodes[n].outputs.size() > 1) return fmt::format("{} has several results", graph_.nodes[n].op);
        if (readers != 1) return fmt::format("{} nodes read it, each of which would compute it again", readers);
        if (members_[group_of_[r]].size() >= most_nodes) return fmt::format("the group has {} nodes", most_nodes);
        return "";
    }

    // Injective nodes that only group `group_of_[n]` reads join it. So do pointwise ones that
    // belong to their reader.
    void join_reader(size_t n) {
        const size_t group = group_of_[n];
        if (graph_.nodes[n].op == "ConvInteger") join_padding(n);
        if (graph_.nodes[n].op == "MatMul") join_weights(n);
        if (dependence(n) == Dependence::Other) return;
        for (const std::string &in : graph_.nodes[n].inputs) {
            const auto made = producer_.find(in);
            if (made == producer_.end() || outputs_.count(in)) continue;
            const size_t p = made->second;
            if (group_of_[p] != none || is_view(p)) continue;
            if (dependence(p) != Dependence::Injective && !belongs_to_reader(p)) continue;
            if (!refusal_of_reader(p, n, in).empty()) continue;
            group_of_[p] = group;
            members_[group].push_back(p);
        }
    }

    // A Pad with a constant joins the group of its only reader, if that is a convolution without
    // padding of its own.
    void join_padding(size_t n) {
        const Node &window = graph_.nodes[n];
        const auto made = producer_.find(window.inputs[0]);
        if (made == producer_.end() || outputs_.count(window.inputs[0])) return;
        const size_t p = made->second;
        const Node &pad = graph_.nodes[p];
        if (pad.op != "Pad" || group_of_[p] != none || readers_.at(window.inputs[0]).size() != 1 ||
            (pad.has_input(2) && !graph_.is_constant(pad.inputs[2])) || pad.text("mode", "constant") != "constant")
            return;
        const Extents &in = graph_.value(pad.inputs[0]).extents, &out = graph_.value(pad.outputs[0]).extents;
        const std::vector<int64_t> pads = window.integers("pads");
        if (in[0] != out[0] || in[1] != out[1] || window.text("auto_pad", "NOTSET") != "NOTSET" ||
            std::any_of(pads.begin(), pads.end(), [](int64_t v) { return v != 0; }))
            return;
        group_of_[p] = group_of_[n];
        members_[group_of_[n]].push_back(p);
    }

    // Whether the node makes the weights of a product from constants of a narrow type, for that
    // product alone. The product then reads these constants.
    bool makes_weights(size_t n) const {
        const Node &node = graph_.nodes[n];
        if (node.op != "DequantizeLinear" || outputs_.count(node.outputs[0])) return false;
        const KnownValue &integers = graph_.value(node.inputs[0]);
        const auto readers = readers_.find(node.outputs[0]);
        if (!integers.constant || !is_narrow(integers.type) || readers == readers_.end() || readers->second.size() != 1)
            return false;
        const Node &product = graph_.nodes[readers->second[0]];
        return product.op == "MatMul" && product.inputs[1] == node.outputs[0] && product.inputs[0] != product.inputs[1];
    }

    void join_weights(size_t n) {
        const auto made = producer_.find(graph_.nodes[n].inputs[1]);
        if (made == producer_.end() || group_of_[made->second] != none || !makes_weights(made->second)) return;
        group_of_[made->second] = group_of_[n];
        members_[group_of_[n]].push_back(made->second);
    }

    std::vector<Group> in_order() {
        std::vector<Group> groups;
        for (std::vector<size_t> &nodes : members_) {
            std::sort(nodes.begin(), nodes.end());
            const std::set<size_t> set(nodes.begin(), nodes.end());
            groups.push_back({nodes, leaving(set), nodes.size() == 1 && is_view(nodes[0])});
        }
        // Depth-first from each group in the order of their last nodes.
        std::vector<size_t> order;
        std::vector<int> state(groups.size(), 0);
        std::vector<size_t> by_last(groups.size());
        for (size_t g = 0; g < groups.size(); g++) by_last[g] = g;
        std::sort(by_last.begin(), by_last.end(),
                  [&](size_t a, size_t b) { return groups[a].nodes.back() < groups[b].nodes.back(); });
        for (const size_t first : by_last) {
            std::vector<size_t> stack = {first};
            while (!stack.empty()) {
                const size_t g = stack.back();
                if (state[g] == 2) {
                    stack.pop_back();
                    continue;
                }
                if (state[g] == 1) {
                    state[g] = 2;
                    order.push_back(g);
                    stack.pop_back();
                    continue;
                }
                state[g] = 1;
                for (const size_t n : groups[g].nodes) {
                    for (const std::string &in : graph_.nodes[n].inputs) {
                        const auto made = producer_.find(in);
                        if (made == producer_.end()) continue;
                        const size_t before = group_of_[made->second];
                        if (before == g || state[before] == 2) continue;
                        if (state[before] == 1)
                            throw InternalError(fmt::format("groups of {} read each other", graph_.nodes[n].label()));
                        stack.push_back(before);
                    }
                }
            }
        }
        std::vector<Group> sorted;
        for (const size_t g : order) sorted.push_back(std::move(groups[g]));
        return sorted;
    }

    // The values between groups, with the reasons. Views have none: they store nothing.
    std::vector<Boundary> boundaries(const std::vector<Group> &groups) const {
        std::vector<size_t> position(graph_.nodes.size()); // of the node's group
        for (size_t g = 0; g < groups.size(); g++) {
            for (const size_t n : groups[g].nodes) position[n] = g;
        }
        std::vector<Boundary> all;
        for (size_t g = 0; g < groups.size(); g++) {
            if (groups[g].view) continue;
            for (const std::string &value : groups[g].outputs) {
                const auto readers = readers_.find(value);
                if (readers == readers_.end()) continue;
                for (const size_t r : readers->second) {
                    if (position[r] != g && !groups[position[r]].view)
                        all.push_back({g, position[r], value, reason(producer_.at(value), r, value)});
                }
            }
        }
        return all;
    }

    std::string reason(size_t producer, size_t reader, const std::string &value) const {
        if (!options_.fuse) return "each node is a group, because fusion is off";
        if (is_control(graph_.nodes[reader]) || is_control(graph_.nodes[producer]))
            return "control flow is a step of its own";
        const auto found = stops_.find(group_of_[producer]);
        if (found == stops_.end()) {
            const std::string why = refusal_of_reader(producer, reader, value);
            return why.empty() ? fmt::format("{} has no group that {} could join", graph_.nodes[reader].op,
                                             graph_.nodes[producer].op)
                               : why;
        }
        const Stop &stop = found->second;
        const bool direct = stop.reader == none || (stop.reader == reader && stop.value == value);
        if (direct) return stop.why;
        // A node inside of the region that was tried.
        const std::string own = refusal(reader, graph_.value(value).extents);
        return dependence(reader) != Dependence::Pointwise
                   ? own
                   : fmt::format("all readers would have to join, but {}", stop.why);
    }

    const FixedGraph &graph_;
    const GroupOptions &options_;
    std::vector<size_t> group_of_;
    std::vector<std::vector<size_t>> members_;
    std::map<size_t, Stop> stops_; // of groups that began with a node and were extended
    std::map<std::string, size_t> producer_;
    std::map<std::string, std::vector<size_t>> readers_;
    std::set<std::string> outputs_;
};

} // namespace

Grouping explain_groups(const FixedGraph &graph, const GroupOptions &options) { return Fuser(graph, options).run(); }

std::vector<Group> group_nodes(const FixedGraph &graph, const GroupOptions &options) {
    return explain_groups(graph, options).groups;
}

GroupOp make_group_op(const FixedGraph &graph, const Group &group, const std::map<std::string, AxisOrder> &orders) {
    std::vector<const Node *> nodes;
    for (const size_t n : group.nodes) nodes.push_back(&graph.nodes[n]);
    return make_group_op(
        nodes, group.outputs, [&](const std::string &name) { return graph.value(name); }, orders);
}

} // namespace kumiko::graph
