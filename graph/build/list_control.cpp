#include "graph/build/list_builder.h"
#include "graph/build/place.h"
#include "graph/ir/control.h"

#include <fmt/format.h>

namespace kumiko::graph {

void ListBuilder::add_selection(const Node &node) {
    const SelectionForm form = SelectionForm::of(node);
    Step step;
    step.kind = Step::Kind::Select;
    name_step(step, node);
    step.text = form.function, step.parameters = form.parameters, step.bytes = form.workspace;
    std::vector<ValuePart> reads;
    for (const std::string &i : node.inputs) reads.push_back(places_.root(places_.in_row_major(i)));
    add(std::move(step), reads, node.outputs);
    list_.tasks.back().workspace = form.workspace;
}

std::vector<Place> ListBuilder::places_of_inputs(const Node &node, size_t first) {
    std::vector<Place> places;
    for (size_t n = first; n < node.inputs.size(); n++) places.push_back(places_.place(node.inputs[n]));
    return places;
}

StepList ListBuilder::list_of(const FixedGraph &graph, int depth, const std::vector<Place> &inputs,
                              const std::vector<OutputPlace> &outputs) {
    return ListBuilder(made_, shared_, graph, options_, depth, {}, false).run(inputs, outputs);
}

void ListBuilder::add_control(Step step, const Node &node) {
    step.own_end = int(made_.buffers.size());
    PlanTask task;
    std::set<int> reads, writes;
    for (const std::string &o : node.outputs) {
        writes.insert(places_.buffer_of(o));
        describe(step, o);
    }
    for (const std::string &i : node.inputs) {
        if (i.empty()) continue;
        if (const int buffer = places_.buffer_of(places_.root(places_.in_row_major(i)).value); buffer >= 0)
            reads.insert(buffer);
    }
    task.reads.assign(reads.begin(), reads.end()), task.writes.assign(writes.begin(), writes.end());
    task.workspace = peak_of(step, made_.buffers);
    list_.tasks.push_back(std::move(task));
    list_.steps.push_back(std::move(step));
}

void ListBuilder::add_branch(const Node &node) {
    Step step;
    step.kind = Step::Kind::Branch;
    name_step(step, node);
    step.arguments = {places_.place(node.inputs.at(0)).location};
    const std::vector<Place> inputs = places_of_inputs(node, 1);
    std::vector<OutputPlace> outputs;
    for (const std::string &o : node.outputs) outputs.push_back({OutputPlace::Kind::Direct, places_.place(o)});
    step.own_begin = int(made_.buffers.size());
    for (const int64_t g : graphs_of(node))
        step.lists.push_back(list_of(*places_.graph().graphs.at(size_t(g)), depth_, inputs, outputs));
    add_control(std::move(step), node);
}

Place ListBuilder::slice_of(Place place, int64_t bytes, int64_t trips, bool backward) const {
    place.location.within += backward ? (trips - 1) * bytes : 0;
    place.location.stride = backward ? -bytes : bytes;
    place.location.loop = depth_;
    return place;
}

void ListBuilder::add_loop(const Node &node) {
    const LoopForm form = LoopForm::of(node);
    const FixedGraph &graph = *places_.graph().graphs.at(size_t(graphs_of(node).at(0)));
    Step step;
    step.kind = Step::Kind::Loop;
    name_step(step, node);
    LoopControl &loop = step.loop;
    loop.depth = depth_, loop.trips = form.trips, loop.most = form.most;
    step.text = fmt::format("node \"{}\" (Loop): data ask for more iterations than its bound; legal are at most {}",
                            step.nodes[0], form.most);
    if (!node.inputs.at(0).empty()) loop.count = places_.place(node.inputs[0]).location;
    if (!node.inputs.at(1).empty()) loop.condition = places_.place(node.inputs[1]).location;
    std::vector<Place> given = places_of_inputs(node, 2), results;
    for (const std::string &o : node.outputs) results.push_back(places_.place(o));
    if (form.sized) {
        loop.size = results.back().location;
        results.pop_back();
    }
    const size_t tested = form.tested ? 1 : 0;

    step.own_begin = int(made_.buffers.size());
    const int number = step.own_begin;
    made_.buffers.push_back({"number of the iteration", 8, tensor_alignment});
    loop.number = Location{Location::Kind::Arena, size_t(number)};
    StepList before;
    std::vector<Place> inputs = {{*loop.number, number}};
    std::vector<OutputPlace> outputs(tested);
    for (size_t s = 0; s < form.states; s++) {
        const ProgramTensor state = places_.tensor(node.outputs[s]);
        before.steps.emplace_back();
        before.steps.back().kind = Step::Kind::Copy, before.steps.back().nodes = {state.name};
        before.steps.back().bytes = state.bytes();
        before.steps.back().arguments = {given[s].location, results[s].location};
        before.tasks.emplace_back();
        if (given[s].buffer >= 0) before.tasks.back().reads = {given[s].buffer};
        before.tasks.back().writes = {results[s].buffer};
        inputs.push_back(results[s]);
        outputs.push_back({OutputPlace::Kind::AtEnd, results[s]});
    }
    for (size_t s = 0; s < form.slices; s++) {
        const int64_t bytes = graph.bytes(graph.inputs[1 + form.states + s]);
        inputs.push_back(slice_of(given[form.states + s], bytes, form.trips, form.backward.at(s) != 0));
    }
    inputs.insert(inputs.end(), given.begin() + int64_t(form.states + form.slices), given.end());
    for (size_t r = form.states; r < results.size(); r++) {
        const int64_t bytes = graph.bytes(graph.outputs[tested + r]);
        const bool backward = form.backward.at(form.slices + r - form.states) != 0;
        outputs.push_back({OutputPlace::Kind::Direct, slice_of(results[r], bytes, form.trips, backward)});
    }
    ListBuilder body(made_, shared_, graph, options_, depth_ + 1, {}, false);
    StepList iteration = body.run(inputs, outputs);
    if (form.tested) loop.again = body.place(graph.outputs[0]).location;
    step.lists = {std::move(before), std::move(iteration)};
    add_control(std::move(step), node);
}

} // namespace kumiko::graph
