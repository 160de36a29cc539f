#include "graph/build/list_builder.h"

#include <algorithm>

namespace kumiko::graph {

int64_t ProgramTensor::bytes() const {
    int64_t n = type.bytes();
    for (const int64_t e : extents) n *= e;
    return n;
}

namespace {

// `shares`: set to whether values share memory.
Program make_program(const FixedGraph &graph, const GroupOptions &options, const StatePairs &states,
                     const Layouts &layouts, bool share, bool &shares, ListBuilders builders, ProgramChoices &chosen) {
    Program made;
    made.name = graph.name;
    std::map<std::string, Place> places_of_next;
    std::vector<Place> inputs;
    std::vector<OutputPlace> outputs;
    const auto tensor = [&](const std::string &name) {
        const KnownValue &v = graph.value(name);
        return ProgramTensor{name, v.type, v.extents};
    };
    const auto add_buffer = [&](const ProgramTensor &t) {
        PlanBuffer buffer{t.name, t.bytes(), tensor_alignment};
        buffer.external = true;
        made.buffers.push_back(buffer);
        return int(made.buffers.size()) - 1;
    };
    for (const std::string &in : graph.inputs) {
        const auto state = std::find_if(states.begin(), states.end(), [&](const auto &s) { return s.first == in; });
        if (state == states.end()) {
            inputs.push_back({{Location::Kind::Input, made.inputs.size()}});
            made.inputs.push_back(tensor(in));
            continue;
        }
        const ProgramTensor array = tensor(in);
        Location at{Location::Kind::State};
        at.within = made.state_bytes;
        inputs.push_back({at, add_buffer(array)});
        places_of_next[state->second] = inputs.back();
        made.states.push_back({array, state->second, made.state_bytes});
        made.state_bytes += (array.bytes() + tensor_alignment - 1) / tensor_alignment * tensor_alignment;
    }
    std::vector<size_t> number; // of the graph's outputs in the program
    for (const std::string &out : graph.outputs) {
        const auto next = places_of_next.find(out);
        number.push_back(made.outputs.size());
        if (next != places_of_next.end()) {
            outputs.push_back({OutputPlace::Kind::AtEnd, next->second});
            continue;
        }
        Place to{{Location::Kind::Output, made.outputs.size()}};
        made.outputs.push_back(tensor(out));
        to.buffer = add_buffer(made.outputs.back());
        outputs.push_back({OutputPlace::Kind::Direct, to});
    }
    made.model_outputs = made.outputs.size();
    for (const SizedOutput &s : graph.sized) {
        made.sized.push_back({number[s.output], s.axis, number[s.size]});
        made.model_outputs = std::min(made.model_outputs, number[s.size]);
    }
    ListBuilder builder(made, builders, graph, options, 0, layouts, share);
    StepList list = builder.run(inputs, outputs);
    shares = builder.shares();
    chosen = {layouts, share, std::move(builders.chosen.lists)};
    made.steps = std::move(list.steps), made.tasks = std::move(list.tasks);
    place(made);
    return made;
}

Program make_program(const FixedGraph &graph, const GroupOptions &options, const StatePairs &states,
                     const OpSeconds &seconds, const ListBuilders &builders, ProgramChoices &chosen) {
    check_states(graph, states);
    Layouts layouts;
    if (seconds) layouts = choose_layouts(graph, group_nodes(graph, options), seconds);
    bool shares = false;
    Program shared = make_program(graph, options, states, layouts, true, shares, builders, chosen);
    if (!shares) return shared;
    // A whole is live from its first part to its last use, so the arena may be larger.
    ProgramChoices other;
    Program copied = make_program(graph, options, states, layouts, false, shares, builders, other);
    if (shared.arena_bytes <= copied.arena_bytes) return shared;
    chosen = std::move(other);
    return copied;
}

} // namespace

Program make_program(const FixedGraph &graph, const GroupOptions &options, const StatePairs &states,
                     const OpSeconds &seconds) {
    ProgramChoices chosen;
    return make_program(graph, options, states, seconds, ListBuilders{}, chosen);
}

Program make_program(const FixedGraph &graph, const GroupOptions &options, const StatePairs &states,
                     const OpSeconds &seconds, ProgramChoices &chosen) {
    return make_program(graph, options, states, seconds, ListBuilders{.share_kernels = false}, chosen);
}

Program make_program(const FixedGraph &graph, const GroupOptions &options, const StatePairs &states,
                     const ProgramChoices &choices) {
    check_states(graph, states);
    bool shares = false;
    ProgramChoices chosen;
    return make_program(graph, options, states, choices.layouts, choices.share, shares,
                        ListBuilders{.share_kernels = false, .given = &choices}, chosen);
}

void for_each_step(std::vector<Step> &steps, const std::function<void(Step &step)> &f) {
    for (Step &step : steps) {
        f(step);
        for (StepList &list : step.lists) for_each_step(list.steps, f);
    }
}

void for_each_step(const std::vector<Step> &steps, const std::function<void(const Step &step)> &f) {
    for (const Step &step : steps) {
        f(step);
        for (const StepList &list : step.lists) for_each_step(list.steps, f);
    }
}

void for_each_location(Step &step, const std::function<void(Location &location)> &f) {
    for (Location &l : step.arguments) f(l);
    for (auto &[tensor, l] : step.made) f(l);
    for (auto *l : {&step.loop.count, &step.loop.condition, &step.loop.again, &step.loop.size, &step.loop.number}) {
        if (*l) f(**l);
    }
}

} // namespace kumiko::graph
