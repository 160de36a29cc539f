#include "graph/build/layouts.h"

#include "autotune/features/features.h"
#include "autotune/work.h"
#include "driver/default_schedule.h"
#include "graph/build/parts.h"
#include "graph/plan/pbqp.h"
#include "machine/machine.h"
#include "schedules/library/conv_roles.h"
#include "schedules/library/structure.h"
#include "schedules/library/table.h"
#include "support/error.h"
#include "targets/lower/lower.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

namespace kumiko::graph {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

AxisOrder channels_last(size_t rank) {
    AxisOrder order(rank);
    std::iota(order.begin(), order.end(), size_t(0));
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
    return order;
}

class LayoutChoice {
public:
    LayoutChoice(const FixedGraph &graph, const std::vector<Group> &groups, const OpSeconds &seconds)
        : graph_(graph), groups_(groups), seconds_(seconds) {}

    Layouts run() {
        Layouts layouts;
        layouts.reads.resize(groups_.size());
        bool any = false;
        for (const Group &g : groups_) any = any || is_anchored(g);
        if (!any) return layouts; // only convolutions gain
        for (const std::string &in : graph_.inputs) add_value(in);
        for (const Group &g : groups_) {
            for (const std::string &o : g.outputs) add_value(o);
        }
        for (size_t g = 0; g < groups_.size(); g++) add_group(g);
        const Pbqp::Solution solution = problem_.solve();
        if (solution.choices.empty()) return layouts;
        for (const auto &[value, node] : values_) {
            const AxisOrder last = channels_last(graph_.value(value).extents.size());
            const int choice = solution.choices[size_t(node)];
            if (choice == Last || choice == LastCopied) layouts.stored[value] = last;
            if (choice == FirstCopied) layouts.copied[value] = last;
            if (choice == LastCopied) layouts.copied[value] = {};
        }
        for (size_t g = 0; g < groups_.size(); g++) {
            if (choices_[g].empty() || !choices_[g][size_t(solution.choices[size_t(group_nodes_[g])])].first) continue;
            for (const std::string &in : images_read(groups_[g]))
                layouts.reads[g][in] = channels_last(graph_.value(in).extents.size());
        }
        for (size_t g = 0; g < groups_.size(); g++) {
            if (choices_[g].empty() || !choices_[g][size_t(solution.choices[size_t(group_nodes_[g])])].second) continue;
            for (const auto &[weights, order] : orders_of_weights(groups_[g])) layouts.reads[g][weights] = order;
        }
        return layouts;
    }

private:
    // The choices of a value: its order as computed, and whether the other one is copied from it.
    enum ValueChoice { First, Last, FirstCopied, LastCopied };
    static bool holds(int choice, bool last) { return last ? choice != First : choice != Last; }
    static bool is_made(int choice, bool last) { return (choice == Last || choice == LastCopied) == last; }

    void add_value(const std::string &value) {
        if (values_.count(value) || !has_two_orders(graph_.value(value))) return;
        const double copy = copy_seconds(value);
        Pbqp::Costs costs = {0, 0, copy, copy};
        if (contains(graph_.inputs, value)) costs[Last] = costs[LastCopied] = infinite;
        if (contains(graph_.outputs, value)) costs[Last] = infinite;
        values_[value] = problem_.add_node(costs);
    }

    double copy_seconds(const std::string &value) {
        const AxisOrder last = channels_last(graph_.value(value).extents.size());
        const GroupOp op = make_copy_op(graph_, value, {}, last);
        return op.op ? seconds_(*op.op) : 0;
    }

    static bool contains(const std::vector<std::string> &all, const std::string &one) {
        return std::find(all.begin(), all.end(), one) != all.end();
    }

    bool is_anchored(const Group &g) const {
        return std::any_of(g.nodes.begin(), g.nodes.end(), [&](size_t n) { return graph_.nodes[n].op == "Conv"; });
    }

    // Whether the group may read and store images with channels last.
    bool may_choose(const Group &g) const {
        static const std::set<std::string> images = {"Conv",          "MaxPool",
                                                     "AveragePool",   "GlobalAveragePool",
                                                     "GlobalMaxPool", "BatchNormalization",
                                                     "Concat",        "Split",
                                                     "Slice",         "Pad",
                                                     "Resize",        "Upsample"};
        if (g.view) return false;
        return std::all_of(g.nodes.begin(), g.nodes.end(), [&](size_t n) {
            const Node &node = graph_.nodes[n];
            if (!node.domain.empty() || has_bounded_value(graph_, node)) return false;
            if (images.count(node.op)) return true;
            return find_operator(node.op, node.opset, node.domain)->dependence == Dependence::Pointwise;
        });
    }

    // Values with two orders that the group reads and that it makes.
    std::vector<std::string> images_read(const Group &g) const {
        std::set<std::string> made, read;
        for (const size_t n : g.nodes) {
            for (const std::string &i : graph_.nodes[n].inputs) {
                if (!i.empty() && !made.count(i) && values_.count(i)) read.insert(i);
            }
            for (const std::string &o : graph_.nodes[n].outputs) made.insert(o);
        }
        return {read.begin(), read.end()};
    }

    std::vector<std::string> images_made(const Group &g) const {
        std::vector<std::string> made;
        for (const std::string &o : g.outputs) {
            if (values_.count(o)) made.push_back(o);
        }
        return made;
    }

    // {images read, images made} with channels last.
    using Choice = std::pair<bool, bool>;

    void add_group(size_t number) {
        const Group &g = groups_[number];
        choices_.emplace_back();
        group_nodes_.push_back(-1);
        const std::vector<std::string> read = images_read(g), made = images_made(g);
        if (read.empty() && made.empty()) return;
        std::vector<Choice> &choices = choices_.back();
        choices.emplace_back(false, false);
        if (may_choose(g)) {
            const bool both = !read.empty() && !made.empty();
            choices.emplace_back(!read.empty(), !made.empty());
            // Vectors of one channel each, or of many, do not change over in between.
            const bool changes = both && is_anchored(g) && orders_of_weights(g).empty();
            if (changes) choices.emplace_back(true, false), choices.emplace_back(false, true);
        }
        Pbqp::Costs costs;
        if (choices.size() == 1) costs = {0}; // the seconds do not matter
        for (const Choice &c : choices) {
            if (choices.size() > 1) costs.push_back(group_seconds(g, read, made, c));
        }
        const int node = group_nodes_.back() = problem_.add_node(costs);
        for (const auto &[values, reads] : {std::pair(&read, true), std::pair(&made, false)}) {
            for (const std::string &value : *values) {
                Pbqp::Matrix matrix;
                for (const Choice &c : choices) {
                    matrix.emplace_back();
                    for (int v = First; v <= LastCopied; v++) {
                        const bool fits = reads ? holds(v, c.first) : is_made(v, c.second);
                        matrix.back().push_back(fits ? 0 : infinite);
                    }
                }
                problem_.add_edge(node, values_.at(value), matrix);
            }
        }
    }

    // Weights of grouped convolutions that store channels last: vectors of channels read them, so
    // channels are the last axis. Other weights are packed.
    std::map<std::string, AxisOrder> orders_of_weights(const Group &g) const {
        std::map<std::string, AxisOrder> orders;
        for (const size_t n : g.nodes) {
            const Node &node = graph_.nodes[n];
            if (node.op != "Conv" || node.integer("group", 1) == 1 || !graph_.is_constant(node.inputs.at(1))) continue;
            AxisOrder &order = orders[node.inputs[1]];
            for (size_t d = 2; d < graph_.value(node.inputs[1]).extents.size(); d++) order.push_back(d);
            order.insert(order.end(), {1, 0});
        }
        return orders;
    }

    double group_seconds(const Group &g, const std::vector<std::string> &read, const std::vector<std::string> &made,
                         const Choice &choice) {
        std::map<std::string, AxisOrder> orders;
        if (choice.second) orders = orders_of_weights(g);
        for (const std::string &v : read) {
            if (choice.first) orders[v] = channels_last(graph_.value(v).extents.size());
        }
        for (const std::string &v : made) {
            if (choice.second) orders[v] = channels_last(graph_.value(v).extents.size());
        }
        if (g.nodes.size() == 1 && choice.first == choice.second) {
            const Node &node = graph_.nodes[g.nodes[0]];
            if (parts_of_input(graph_, node, choice.first) || parts_of_result(graph_, node, choice.first)) return 0;
        }
        const GroupOp op = make_group_op(graph_, g, orders);
        return op.op ? seconds_(*op.op) : 0;
    }

    const FixedGraph &graph_;
    const std::vector<Group> &groups_;
    const OpSeconds &seconds_;
    Pbqp problem_;
    std::map<std::string, int> values_;        // nodes of the problem
    std::vector<int> group_nodes_;             // the same of groups; -1: none
    std::vector<std::vector<Choice>> choices_; // of each group
};

} // namespace

bool has_two_orders(const KnownValue &v) {
    if (v.constant || v.bounded || v.extents.size() < 3 || v.extents.size() > 5) return false;
    const auto longer = [](int64_t e) { return e != 1; };
    return v.extents[1] != 1 && std::any_of(v.extents.begin() + 2, v.extents.end(), longer);
}

namespace {

// The part of the lanes that hold results, if a convolution stores vectors of filters. The estimate
// does not count lanes beyond the last filter.
double filled_lanes(const Op &op, const Machine &machine) {
    const auto roles = library::conv_roles(op);
    if (!roles || !roles->nhwc) return 1;
    const Stage &sum = *roles->contraction.sum;
    const int64_t lanes = library::vector_lanes(machine, sum.type);
    const int64_t filters = library::extent_of(sum, roles->vector, lanes);
    return double(filters) / double((filters + lanes - 1) / lanes * lanes);
}

} // namespace

const AxisOrder &Layouts::order_of(const std::string &value) const {
    static const AxisOrder none;
    const auto found = stored.find(value);
    return found == stored.end() ? none : found->second;
}

OpSeconds estimated_seconds(const Target &target) {
    const auto known = std::make_shared<std::map<std::string, double>>();
    return [known, machine = target.machine](const Op &op) {
        const auto [found, fresh] = known->emplace(op.hash(), infinite);
        if (!fresh) return found->second;
        try {
            const PackedBy by = library::pays_to_pack_ahead(op, machine) ? PackedBy::Caller : PackedBy::Kernel;
            LowerOptions lowering;
            lowering.verify = false, lowering.to_count = true;
            const Nest nest = lower(default_schedule(op, machine, by), lowering);
            found->second =
                cost_of(nest, machine, 1, {}, count_work(op, {}).operations).seconds / filled_lanes(op, machine);
        } catch (const PlacedError &) { // no schedule
        }
        return found->second;
    };
}

Layouts choose_layouts(const FixedGraph &graph, const std::vector<Group> &groups, const OpSeconds &seconds) {
    return LayoutChoice(graph, groups, seconds).run();
}

GroupOp make_copy_op(const FixedGraph &graph, const std::string &value, const AxisOrder &from, const AxisOrder &to) {
    Node copy;
    copy.op = "Identity", copy.opset = 13;
    copy.inputs = {value}, copy.outputs = {value + "/copy"};
    return make_group_op({&copy}, copy.outputs, [&](const std::string &name) { return graph.value(name); },
                         {{value, from}, {value + "/copy", to}});
}

} // namespace kumiko::graph
