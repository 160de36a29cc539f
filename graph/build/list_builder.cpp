#include "graph/build/list_builder.h"

#include "graph/infer/reshapes.h"
#include "graph/ir/control.h"

#include <algorithm>
#include <functional>

namespace kumiko::graph {

ListBuilder::ListBuilder(Program &program, ListBuilders &shared, const FixedGraph &graph, const GroupOptions &options,
                         int depth, const Layouts &layouts, bool share)
    : made_(program), shared_(shared), number_(shared.chosen.lists.size()), options_(options), depth_(depth),
      first_own_(program.buffers.size()),
      places_(program, graph, shared.given ? shared.given->lists.at(number_).groups : group_nodes(graph, options),
              layouts, share) {
    shared.chosen.lists.push_back({places_.groups(), {}});
    for (const Node &n : places_.graph().nodes) {
        for (const std::string &o : n.named_outputs()) producers_[o] = &n;
    }
}

StepList ListBuilder::run(const std::vector<Place> &inputs, const std::vector<OutputPlace> &outputs) {
    const FixedGraph &graph = places_.graph();
    for (size_t i = 0; i < inputs.size(); i++) places_.set_place(graph.inputs[i], inputs[i]);
    places_.find_views();
    for (size_t o = 0; o < outputs.size(); o++) set_target(graph.outputs[o], outputs[o]);
    places_.find_joined();
    for (const std::string &in : graph.inputs) add_second_order(in);
    const std::vector<Group> &groups = places_.groups();
    for (size_t g = 0; g < groups.size(); g++) {
        if (places_.needs_step(g))
            add(groups[g], g);
        else if (places_.joined().count(groups[g].outputs.at(0)))
            add_copies_of_parts(groups[g]);
        for (const std::string &out : groups[g].outputs) add_second_order(out);
    }
    for (const auto &[from, name, to] : copies_) add_copy(from, name, to);
    const size_t before = list_.steps.size();
    add_copies_at_end();
    order_steps(before);
    list_joined();
    return std::move(list_);
}

void ListBuilder::add_second_order(const std::string &value) {
    const auto copied = places_.layouts().copied.find(value);
    if (copied == places_.layouts().copied.end()) return;
    const GroupOp op = make_copy_op(places_.graph(), value, places_.layouts().order_of(value), copied->second);
    Step step;
    step.group = no_group;
    step.nodes = {value}, step.operators = {"Transpose"};
    step.kernel = kernel_of(*op.op);
    add(std::move(step), {places_.root(value)}, {places_.copy_of(value)});
}

size_t ListBuilder::kernel_of(const Op &op) {
    const std::string key = shared_.share_kernels ? op.hash() : std::to_string(made_.kernels.size());
    const auto [kernel, fresh] = shared_.kernel_of.emplace(key, made_.kernels.size());
    if (fresh) made_.kernels.push_back(op);
    return kernel->second;
}

void ListBuilder::set_target(const std::string &output, const OutputPlace &target) {
    const ValuePart from = places_.root(places_.in_row_major(output));
    const std::string &value = from.value;
    const bool whole = from.offset == 0 && places_.graph().bytes(value) == places_.graph().bytes(output);
    if (target.kind == OutputPlace::Kind::AtEnd)
        at_end_.push_back({from, output, target.place});
    else if (target.kind == OutputPlace::Kind::Direct &&
             (!whole || places_.has_place(value) || places_.graph().is_constant(value)))
        copies_.push_back({from, output, target.place});
    else if (target.kind == OutputPlace::Kind::Direct)
        places_.set_place(value, target.place);
    if (target.kind != OutputPlace::Kind::Direct) kept_.insert(value), places_.keep_whole(value);
}

void ListBuilder::add(Step step, const std::vector<ValuePart> &reads, const std::vector<std::string> &writes) {
    PlanTask task;
    for (const ValuePart &part : reads) {
        step.arguments.push_back(places_.location(part));
        for (const int buffer : places_.buffers_to_read(part.value)) task.reads.push_back(buffer);
    }
    for (const std::string &value : writes) {
        step.arguments.push_back(places_.location(value));
        task.writes.push_back(places_.buffer_of(value));
        describe(step, value);
    }
    list_.tasks.push_back(std::move(task));
    list_.steps.push_back(std::move(step));
}

void ListBuilder::describe(Step &step, const std::string &value) {
    // A copy is listed only if it restores the order of ONNX: the value itself is listed.
    const Layouts &layouts = places_.layouts();
    const auto copied = places_.first_order(value);
    if (copied && !layouts.copied.at(*copied).empty()) return;
    for (const auto &[value_or_view, part] : places_.named_parts(value)) {
        const Location place = places_.location(part);
        if (place.stride != 0) continue;
        const auto copy = places_.first_order(value_or_view);
        const std::string name = copy.value_or(value_or_view);
        const AxisOrder &order = copy ? layouts.copied.at(name) : layouts.order_of(name);
        ProgramTensor made = places_.tensor(name);
        made.channels_last = !order.empty();
        for (size_t d = 0; d < order.size(); d++) made.extents[d] = places_.graph().value(name).extents[order[d]];
        step.made.emplace_back(made, place);
    }
}

void ListBuilder::add_copies_of_parts(const Group &group) {
    const std::string &whole = group.outputs.at(0);
    const JoinedValue &joined = places_.joined().at(whole);
    for (size_t n = 0; n < joined.parts.size(); n++) {
        const JoinedValue::Part &part = joined.parts[n];
        if (!part.copied) continue;
        Step copy;
        copy.kind = Step::Kind::Copy;
        copy.bytes = part.bytes;
        for (const size_t node : group.nodes) name_step(copy, places_.graph().nodes[node]);
        add(std::move(copy), {part.input}, {});
        list_.steps.back().arguments.push_back(places_.location(ValuePart{whole, part.offset}));
        list_.tasks.back().writes.push_back(places_.buffer_of_part(whole, n));
    }
}

void ListBuilder::list_joined() {
    for (const auto &[whole, joined] : places_.joined()) {
        const std::vector<int> buffers = places_.buffers_to_read(whole);
        for (size_t n = list_.steps.size(); n-- > 0;) {
            const std::vector<int> &writes = list_.tasks[n].writes;
            const bool last = std::any_of(writes.begin(), writes.end(), [&](int b) {
                return std::find(buffers.begin(), buffers.end(), b) != buffers.end();
            });
            if (!last) continue;
            describe(list_.steps[n], whole);
            break;
        }
    }
}

void ListBuilder::add_copy(const ValuePart &from, const std::string &name, const Place &to) {
    Step copy;
    copy.kind = Step::Kind::Copy;
    copy.nodes = {name};
    copy.bytes = places_.graph().bytes(name);
    if (copy.bytes == 0) return;
    // Else the step that computes the value has it among its own.
    if (to.location.kind == Location::Kind::Output && to.location.stride == 0 &&
        (places_.graph().is_constant(from.value) || places_.location(from.value).kind == Location::Kind::Input))
        copy.made.emplace_back(places_.tensor(name), to.location);
    add(std::move(copy), {from}, {});
    list_.steps.back().arguments.push_back(to.location);
    if (to.buffer >= 0) list_.tasks.back().writes.push_back(to.buffer);
}

void ListBuilder::add_copies_at_end() {
    std::set<int> places;
    for (const CopyOf &c : at_end_) places.insert(c.to.buffer);
    for (CopyOf &c : at_end_) {
        const int buffer = places_.buffer_of(c.from.value);
        if (buffer < 0 || !places.count(buffer)) continue;
        if (buffer == c.to.buffer) {
            c.from.value.clear(); // it stays
            continue;
        }
        const int other = int(made_.buffers.size());
        made_.buffers.push_back({c.name, places_.graph().bytes(c.name), tensor_alignment});
        const Place to = {{Location::Kind::Arena, size_t(other)}, other};
        add_copy(c.from, c.name, to);
        c.from = {"copy of " + c.name}; // no value has this place
        moved_[c.from.value] = to;
        places_.set_place(c.from.value, to);
    }
    for (const CopyOf &c : at_end_) {
        if (!c.from.value.empty()) add_moved(c);
    }
}

void ListBuilder::add_moved(const CopyOf &c) {
    const auto moved = moved_.find(c.from.value);
    if (moved == moved_.end()) {
        add_copy(c.from, c.name, c.to);
        return;
    }
    Step copy;
    copy.kind = Step::Kind::Copy;
    copy.nodes = {c.name};
    copy.bytes = places_.graph().bytes(c.name);
    copy.arguments = {moved->second.location, c.to.location};
    if (copy.bytes == 0) return;
    list_.tasks.push_back({.reads = {moved->second.buffer}, .writes = {c.to.buffer}});
    list_.steps.push_back(std::move(copy));
}

void ListBuilder::add(const Group &group, size_t number) {
    const Node &first = places_.graph().nodes[group.nodes[0]];
    if (is_control(first)) {
        is_selection(first) ? add_selection(first) : first.op == "If" ? add_branch(first) : add_loop(first);
        return;
    }
    std::map<std::string, AxisOrder> orders = places_.layouts().reads[number];
    for (const std::string &out : group.outputs) orders[out] = places_.layouts().order_of(out);
    GroupOp op = make_group_op(places_.graph(), group, orders);
    if (!op.op) return;
    std::vector<ValuePart> reads;
    std::vector<std::string> writes;
    for (const std::string &name : op.inputs) reads.push_back(places_.root(places_.as_read(name, number)));
    for (const std::string &name : op.outputs) writes.push_back(places_.root(name).value);
    Step step;
    step.group = number;
    for (const size_t n : group.nodes) name_step(step, places_.graph().nodes[n]);
    std::vector<int> checks;
    for (const OpScope::Check &check : op.checks) checks.push_back(add(check, step.nodes, number));
    step.kernel = kernel_of(*op.op);
    add(std::move(step), reads, writes);
    list_.tasks.back().after = checks;
}

void ListBuilder::name_step(Step &step, const Node &node) {
    step.nodes.push_back(node.name.empty() ? node.named_outputs().at(0) : node.name);
    step.operators.push_back(node.op);
}

std::string ListBuilder::indices_of(std::string value) const {
    static const std::set<std::string> copies = {"Expand", "Tile", "Identity", "Transpose"};
    for (;;) {
        const auto made = producers_.find(value);
        if (made == producers_.end() || places_.graph().bytes(value) == 0) return value;
        const Node &n = *made->second;
        const bool copy =
            (n.domain.empty() && copies.count(n.op)) || is_reshape(n, places_.graph().value(n.inputs.at(0)).extents);
        if (!copy) return value;
        value = n.inputs[0];
    }
}

int ListBuilder::add(const OpScope::Check &check, const std::vector<std::string> &nodes, size_t group) {
    // A check with several extents has one for each column of the last axis, so it reads the
    // value in its own shape.
    const std::string value = check.extents.size() == 1 ? indices_of(check.value) : places_.as_read(check.value, group);
    const auto [task, fresh] = checks_.emplace(std::pair(places_.root(value), check.extents), int(list_.tasks.size()));
    if (!fresh) return task->second;
    const KnownValue &indices = places_.graph().value(value);
    Step step;
    step.kind = Step::Kind::Check;
    step.nodes = nodes;
    step.bits = indices.type.bits();
    step.count = places_.graph().bytes(value) / indices.type.bytes();
    step.extents = check.extents, step.text = check.text;
    add(std::move(step), {places_.root(value)}, {});
    return task->second;
}

void ListBuilder::order_steps(size_t count) {
    // Numbers of the buffers that these steps use.
    std::map<int, int> local;
    std::vector<PlanBuffer> buffers;
    std::vector<PlanTask> tasks(list_.tasks.begin(), list_.tasks.begin() + int64_t(count));
    std::set<int> written, kept;
    for (const PlanTask &t : tasks) written.insert(t.writes.begin(), t.writes.end());
    for (const std::string &value : kept_) {
        if (const int b = places_.buffer_of(value); b >= 0) kept.insert(b);
    }
    for (size_t n = count; n < list_.tasks.size(); n++)
        kept.insert(list_.tasks[n].reads.begin(), list_.tasks[n].reads.end());
    const std::function<int(int)> local_of = [&](int b) {
        const auto known = local.find(b);
        if (known != local.end()) return known->second;
        PlanBuffer buffer = made_.buffers[size_t(b)];
        if (buffer.inside >= 0) buffer.inside = local_of(buffer.inside);
        buffer.external = buffer.external || size_t(b) < first_own_;
        buffer.output = kept.count(b) > 0;
        buffers.push_back(buffer);
        return local[b] = int(buffers.size()) - 1;
    };
    for (PlanTask &t : tasks) {
        for (auto *list : {&t.reads, &t.writes}) {
            for (int &b : *list) {
                const bool input = !written.count(b);
                b = local_of(b);
                buffers[size_t(b)].input = input;
            }
        }
    }
    const std::vector<int> order =
        shared_.given ? shared_.given->lists.at(number_).order : choose_order(tasks, buffers).order;
    shared_.chosen.lists.at(number_).order = order;
    StepList ordered;
    const auto take = [&](size_t n) {
        ordered.steps.push_back(std::move(list_.steps[n]));
        ordered.tasks.push_back(std::move(list_.tasks[n]));
        ordered.tasks.back().after.clear(); // the steps are in order
    };
    for (const int n : order) take(size_t(n));
    for (size_t n = count; n < list_.steps.size(); n++) take(n);
    list_ = std::move(ordered);
}

} // namespace kumiko::graph
