#include "graph/build/program.h"

#include "graph/infer/reshapes.h"

#include <fmt/format.h>
#include <set>

namespace kumiko::graph {

namespace {

class ProgramBuilder {
public:
    ProgramBuilder(const FixedGraph &graph, const GroupOptions &options) : graph_(graph) {
        groups_ = group_nodes(graph, options);
        for (const Node &n : graph.nodes) {
            for (const std::string &o : n.named_outputs()) producers_[o] = &n;
        }
    }

    Program run() {
        made_.name = graph_.name;
        for (const std::string &in : graph_.inputs) {
            locations_[in] = {Location::Kind::Input, made_.inputs.size()};
            made_.inputs.push_back(tensor(in));
        }
        for (const std::string &out : graph_.outputs) made_.outputs.push_back(tensor(out));
        for (const Group &g : groups_) {
            if (!g.view) continue;
            const std::string &view = g.outputs.at(0), from = root(graph_.nodes[g.nodes[0]].inputs.at(0));
            root_[view] = from;
            views_[from].push_back(view);
        }
        place_outputs();
        for (const Group &g : groups_) {
            if (!g.view) add(g);
        }
        for (const auto &[from, to] : copies_) {
            Step copy;
            copy.kind = Step::Kind::Copy;
            copy.nodes = {made_.outputs[to].name};
            // Else the step that computes the value has it among its own.
            if (graph_.is_constant(from) || locations_.at(from).kind == Location::Kind::Input)
                copy.made.emplace_back(made_.outputs[to], Location{Location::Kind::Output, to});
            copy.bytes = made_.outputs[to].bytes();
            if (copy.bytes == 0) continue;
            add(std::move(copy), {from}, {});
            made_.steps.back().arguments.push_back({Location::Kind::Output, to});
        }
        order_steps();
        place(made_);
        return std::move(made_);
    }

private:
    ProgramTensor tensor(const std::string &name) const {
        const KnownValue &v = graph_.value(name);
        return {name, v.type, v.extents};
    }

    // The value whose memory `name` shares.
    std::string root(const std::string &name) const {
        const auto found = root_.find(name);
        return found == root_.end() ? name : found->second;
    }

    // Values that a step makes are written to the output's array at once; others are copied.
    void place_outputs() {
        for (size_t o = 0; o < graph_.outputs.size(); o++) {
            const std::string value = root(graph_.outputs[o]);
            if (locations_.count(value) || graph_.is_constant(value))
                copies_.emplace_back(value, o);
            else
                locations_[value] = {Location::Kind::Output, o};
        }
    }

    // Of a constant, input, output, or value with a buffer in the arena: the index is the buffer's.
    Location location(const std::string &value) {
        const auto found = locations_.find(value);
        if (found != locations_.end()) return found->second;
        if (graph_.is_constant(value)) {
            made_.constants.push_back(*graph_.value(value).value);
            return locations_[value] = {Location::Kind::Constant, made_.constants.size() - 1};
        }
        const auto buffer = size_t(buffer_of(value)); // before the value has a location
        return locations_[value] = {Location::Kind::Arena, buffer};
    }

    // The number of the value's buffer; -1 for constants and inputs of the graph.
    int buffer_of(const std::string &value) {
        const auto at = locations_.find(value);
        if (graph_.is_constant(value) || (at != locations_.end() && at->second.kind == Location::Kind::Input))
            return -1;
        const auto [found, fresh] = buffers_of_.emplace(value, buffers_.size());
        if (fresh) {
            PlanBuffer buffer{value, graph_.bytes(value), tensor_alignment};
            buffer.external = at != locations_.end();
            buffers_.push_back(buffer);
        }
        return int(found->second);
    }

    // Adds a step that reads and writes values; its arguments are both, in this order.
    void add(Step step, const std::vector<std::string> &reads, const std::vector<std::string> &writes) {
        PlanTask task;
        for (const std::string &value : reads) {
            step.arguments.push_back(location(value));
            if (const int buffer = buffer_of(value); buffer >= 0) task.reads.push_back(buffer);
        }
        for (const std::string &value : writes) {
            const Location place = location(value);
            step.arguments.push_back(place);
            task.writes.push_back(buffer_of(value));
            step.made.emplace_back(tensor(value), place);
            for (const std::string &view : views_[value]) step.made.emplace_back(tensor(view), place);
        }
        tasks_.push_back(std::move(task));
        made_.steps.push_back(std::move(step));
    }

    void add(const Group &group) {
        GroupOp op = make_group_op(graph_, group);
        if (!op.op) return;
        std::vector<std::string> reads, writes;
        for (const std::string &name : op.inputs) reads.push_back(root(name));
        for (const std::string &name : op.outputs) writes.push_back(root(name));
        Step step;
        for (const size_t n : group.nodes) {
            const Node &node = graph_.nodes[n];
            step.nodes.push_back(node.name.empty() ? node.named_outputs().at(0) : node.name);
            step.operators.push_back(node.op);
        }
        std::vector<int> checks;
        for (const OpScope::Check &check : op.checks) checks.push_back(add(check, step.nodes));
        const auto [kernel, fresh] = kernel_of_.emplace(op.op->hash(), made_.kernels.size());
        if (fresh) made_.kernels.push_back(*op.op);
        step.kernel = kernel->second;
        add(std::move(step), reads, writes);
        tasks_.back().after = checks;
    }

    // A value with the same elements as this one of indices, each less often. An expanded or tiled
    // tensor has many copies of few indices.
    std::string indices_of(std::string value) const {
        static const std::set<std::string> copies = {"Expand", "Tile", "Identity", "Transpose"};
        for (;;) {
            const auto made = producers_.find(value);
            if (made == producers_.end() || graph_.bytes(value) == 0) return value;
            const Node &n = *made->second;
            const bool copy =
                (n.domain.empty() && copies.count(n.op)) || is_reshape(n, graph_.value(n.inputs.at(0)).extents);
            if (!copy) return value;
            value = n.inputs[0];
        }
    }

    // The task of the check for these nodes, which is the same for equal checks.
    int add(const OpScope::Check &check, const std::vector<std::string> &nodes) {
        // Several extents are those of columns of the last axis, which other shapes do not have.
        const std::string value = check.extents.size() == 1 ? indices_of(check.value) : check.value;
        const auto [task, fresh] = checks_.emplace(std::pair(root(value), check.extents), int(tasks_.size()));
        if (!fresh) return task->second;
        const KnownValue &indices = graph_.value(value);
        Step step;
        step.kind = Step::Kind::Check;
        step.nodes = nodes;
        step.bits = indices.type.bits();
        step.count = graph_.bytes(value) / indices.type.bytes();
        step.extents = check.extents, step.text = check.text;
        add(std::move(step), {root(value)}, {});
        return task->second;
    }

    void order_steps() {
        const TaskOrder chosen = choose_order(tasks_, buffers_);
        std::vector<Step> steps;
        for (const int n : chosen.order) {
            steps.push_back(std::move(made_.steps[size_t(n)]));
            made_.tasks.push_back(tasks_[size_t(n)]);
            made_.tasks.back().after.clear(); // the steps are in order
        }
        made_.steps = std::move(steps);
        made_.buffers = buffers_;
    }

    const FixedGraph &graph_;
    std::vector<Group> groups_;
    Program made_;
    std::map<std::string, std::string> root_;
    std::map<std::string, std::vector<std::string>> views_; // by their root
    std::map<std::string, Location> locations_;             // of the arena: index is the buffer's
    std::map<std::string, size_t> buffers_of_;
    std::vector<PlanBuffer> buffers_;
    std::vector<PlanTask> tasks_;             // of the steps
    std::map<std::string, size_t> kernel_of_; // by the op's hash
    std::map<std::string, const Node *> producers_;
    std::map<std::pair<std::string, Extents>, int> checks_; // by value and extents
    std::vector<std::pair<std::string, size_t>> copies_;
};

} // namespace

int64_t ProgramTensor::bytes() const {
    int64_t n = type.bytes();
    for (const int64_t e : extents) n *= e;
    return n;
}

Program make_program(const FixedGraph &graph, const GroupOptions &options) {
    return ProgramBuilder(graph, options).run();
}

void place(Program &program, const std::vector<int64_t> &workspaces) {
    std::vector<int> order;
    for (size_t n = 0; n < program.steps.size(); n++) {
        const Step &step = program.steps[n];
        const bool call = step.kind == Step::Kind::Call && !workspaces.empty();
        program.tasks[n].workspace = call ? workspaces.at(step.kernel) : 0;
        order.push_back(int(n));
    }
    const ArenaPlan plan = plan_arena(arena_buffers(program.tasks, program.buffers, order));
    program.arena_bytes = plan.bytes, program.arena_bound = plan.bound;
    const auto set_offset = [&](Location &l) {
        if (l.kind == Location::Kind::Arena) l.offset = plan.offsets[l.index];
    };
    for (size_t n = 0; n < program.steps.size(); n++) {
        Step &step = program.steps[n];
        for (Location &l : step.arguments) set_offset(l);
        for (auto &[tensor, l] : step.made) set_offset(l);
        step.workspace = program.tasks[n].workspace ? plan.offsets[program.buffers.size() + n] : -1;
    }
}

} // namespace kumiko::graph
