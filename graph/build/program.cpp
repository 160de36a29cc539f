// One file: the builder of lists of steps, which decides the memory of each value, and the plan of
// that memory over nested lists use the same order of steps.
#include "graph/build/program.h"

#include "graph/build/check_program.h"
#include "graph/build/parts.h"
#include "graph/infer/reshapes.h"
#include "graph/ir/control.h"
#include "graph/rules/constants.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <tuple>

namespace kumiko::graph {

namespace {

// The memory of a value, and its buffer; -1: it has none.
struct Place {
    Location location;
    int buffer = -1;
};

// Bytes of a value from `offset` on.
struct ValuePart {
    std::string value;
    int64_t offset = 0;
    bool operator<(const ValuePart &other) const {
        return std::tie(value, offset) < std::tie(other.value, other.offset);
    }
};

// Where a list of steps leaves an output of its graph.
struct Target {
    enum class Kind {
        Direct, // in this place, as soon as it is computed
        AtEnd,  // in this place, which other steps of the list read before
        Own,    // in a place of the list's choice
    } kind = Kind::Own;
    Place place;
};

// What the builders of a program's lists share.
struct Builders {
    std::map<std::string, size_t> kernel_of = {}; // by the op's hash
    bool share_kernels = true;
    ProgramChoices chosen = {};
    const ProgramChoices *given = nullptr; // choices to take
};

// Makes the steps of a graph, which is the model's or one of control flow.
class ListBuilder {
public:
    // `depth`: number of loops around the list. `share`: the inputs of a Concat are stored in its
    // result, and the results of Split and Slice in their input.
    ListBuilder(Program &program, Builders &builders, const FixedGraph &graph, const GroupOptions &options, int depth,
                const Layouts &layouts, bool share)
        : made_(program), builders_(builders), number_(builders.chosen.lists.size()), graph_(graph), options_(options),
          depth_(depth), first_own_(program.buffers.size()), layouts_(layouts), share_(share) {
        groups_ = builders.given ? builders.given->lists.at(number_).groups : group_nodes(graph, options);
        builders.chosen.lists.push_back({groups_, {}});
        layouts_.reads.resize(groups_.size());
        for (const auto &[value, order] : layouts.copied) {
            const KnownValue &v = graph.value(value);
            graph_.values[copy_of(value)] = {v.type, v.extents};
            copied_from_[copy_of(value)] = value;
        }
        for (const auto &reads : layouts.reads) {
            for (const auto &[value, order] : reads) {
                const KnownValue &v = graph.value(value);
                if (!v.constant) continue;
                graph_.values[copy_of(value)] = {v.type, v.extents, transposed_copy(*v.value, order), true};
            }
        }
        for (const Node &n : graph_.nodes) {
            for (const std::string &o : n.named_outputs()) producers_[o] = &n;
        }
    }

    // `inputs` and `outputs`: one for each of the graph.
    StepList run(const std::vector<Place> &inputs, const std::vector<Target> &outputs) {
        for (size_t i = 0; i < inputs.size(); i++) set_place(graph_.inputs[i], inputs[i]);
        for (size_t g = 0; g < groups_.size(); g++) add_views(g);
        for (const Node &n : graph_.nodes) {
            if (is_control(n)) keep_whole(n);
        }
        for (size_t o = 0; o < outputs.size(); o++) set_target(graph_.outputs[o], outputs[o]);
        if (share_) {
            for (size_t g = 0; g < groups_.size(); g++) join(g);
        }
        for (const std::string &in : graph_.inputs) add_second_order(in);
        for (size_t g = 0; g < groups_.size(); g++) {
            if (!without_step_.count(g))
                add(groups_[g], g);
            else if (joined_.count(groups_[g].outputs.at(0)))
                add_copies_of_parts(groups_[g]);
            for (const std::string &out : groups_[g].outputs) add_second_order(out);
        }
        for (const auto &[from, name, to] : copies_) add_copy(from, name, to);
        const size_t before = list_.steps.size();
        add_copies_at_end();
        order_steps(before);
        list_joined();
        return std::move(list_);
    }

    // Whether values share memory.
    bool shares() const { return shares_; }

    // After run(): of a value that the steps make or read.
    Place place(const std::string &value) {
        const ValuePart part = root(in_row_major(value));
        return {location(part), buffer_of(part.value)};
    }

private:
    struct CopyOf {
        ValuePart from;
        std::string name; // the output of the graph
        Place to;
    };

    // A value of which a step makes each part.
    struct Joined {
        struct Part {
            ValuePart input;
            int64_t offset = 0, bytes = 0;
            bool copied = false; // else the input is computed in its place
        };
        std::vector<Part> parts;
    };

    ProgramTensor tensor(const std::string &name) const {
        const KnownValue &v = graph_.value(name);
        return {name, v.type, v.extents};
    }

    // The value in its second order.
    static std::string copy_of(const std::string &value) { return value + "/copy"; }

    // The name of the value in the order in which the group reads it.
    std::string as_read(const std::string &value, size_t group) const {
        const auto found = layouts_.reads[group].find(value);
        if (graph_.is_constant(value)) return found == layouts_.reads[group].end() ? value : copy_of(value);
        const bool own =
            layouts_.order_of(value) == (found == layouts_.reads[group].end() ? AxisOrder() : found->second);
        return own || !layouts_.copied.count(value) ? value : copy_of(value);
    }

    // The name of the value in row-major order, in which lists of control flow and outputs have it.
    std::string in_row_major(const std::string &value) const {
        return layouts_.order_of(value).empty() ? value : copy_of(value);
    }

    // Adds the step that copies the value to its second order, if it has one.
    void add_second_order(const std::string &value) {
        const auto copied = layouts_.copied.find(value);
        if (copied == layouts_.copied.end()) return;
        const GroupOp op = make_copy_op(graph_, value, layouts_.order_of(value), copied->second);
        Step step;
        step.group = no_group;
        step.nodes = {value}, step.operators = {"Transpose"};
        step.kernel = kernel_of(*op.op);
        add(std::move(step), {root(value)}, {copy_of(value)});
    }

    size_t kernel_of(const Op &op) {
        const std::string key = builders_.share_kernels ? op.hash() : std::to_string(made_.kernels.size());
        const auto [kernel, fresh] = builders_.kernel_of.emplace(key, made_.kernels.size());
        if (fresh) made_.kernels.push_back(op);
        return kernel->second;
    }

    // The memory of a value that may be a view of another one.
    ValuePart root(const std::string &name) const {
        const auto found = root_.find(name);
        return found == root_.end() ? ValuePart{name} : found->second;
    }

    const Node *only_node(const Group &g) const { return g.nodes.size() == 1 ? &graph_.nodes[g.nodes[0]] : nullptr; }

    // Whether channels are last in all that a group of this node reads and makes; nullopt if it
    // differs.
    std::optional<bool> common_order(size_t group, const Node &node) const {
        std::set<bool> found;
        for (const std::string &i : node.inputs) {
            if (i.empty() || graph_.is_constant(i)) continue;
            if (two_orders(i)) found.insert(layouts_.reads[group].count(i) > 0);
        }
        for (const std::string &i : node.inputs) {
            // A constant is row-major.
            if (!i.empty() && graph_.is_constant(i) && node.op == "Concat") found.insert(false);
        }
        for (const std::string &o : node.outputs) {
            if (!o.empty() && two_orders(o)) found.insert(!layouts_.order_of(o).empty());
        }
        if (found.size() > 1) return {};
        return !found.empty() && *found.begin();
    }
    bool two_orders(const std::string &value) const { return has_two_orders(graph_.value(value)); }

    bool is_state(const std::string &value) const {
        const auto place = locations_.find(value);
        return place != locations_.end() && place->second.kind == Location::Kind::State;
    }

    // Views of the group, and parts of its input, need no step. Parts of a state are copied,
    // because the state is replaced.
    void add_views(size_t number) {
        const Group &g = groups_[number];
        const Node *node = only_node(g);
        if (!node || node->inputs.empty()) return;
        std::optional<PartOffsets> offsets;
        if (g.view) offsets = PartOffsets{0};
        if (!g.view && share_ && !node->inputs[0].empty() && !is_state(root(node->inputs[0]).value)) {
            if (const auto last = common_order(number, *node)) offsets = parts_of_input(graph_, *node, *last);
            shares_ = shares_ || offsets;
        }
        if (!offsets) return;
        without_step_.insert(number);
        const ValuePart from = root(as_read(node->inputs[0], number));
        for (size_t o = 0; o < offsets->size(); o++) {
            const std::string &view = node->outputs[o];
            root_[view] = {from.value, from.offset + (*offsets)[o]};
            views_[from.value].push_back(view);
        }
    }

    // Lists of control flow read and write whole buffers.
    void keep_whole(const Node &control) {
        for (const auto *names : {&control.inputs, &control.outputs}) {
            for (const std::string &name : *names) {
                if (!name.empty()) whole_.insert(root(in_row_major(name)).value);
            }
        }
    }

    // Computes the inputs of a Concat in their places in its result, if that is possible for one of
    // them. The others are copied.
    void join(size_t number) {
        const Group &g = groups_[number];
        const Node *node = only_node(g);
        const auto last = node ? common_order(number, *node) : std::nullopt;
        const auto offsets = last ? parts_of_result(graph_, *node, *last) : std::nullopt;
        if (!offsets || whole_.count(node->outputs[0])) return;
        const std::string &whole = node->outputs[0];
        Joined joined;
        std::set<std::string> own;
        for (size_t i = 0; i < offsets->size(); i++) {
            Joined::Part part{root(as_read(node->inputs[i], number)), (*offsets)[i], graph_.bytes(node->inputs[i])};
            if (part.bytes == 0) continue;
            const std::string &value = part.input.value;
            part.copied = graph_.is_constant(value) || locations_.count(value) || place_in_.count(value) ||
                          whole_.count(value) || part.input.offset != 0 || graph_.bytes(value) != part.bytes ||
                          !own.insert(value).second;
            joined.parts.push_back(part);
        }
        if (own.empty()) return;
        for (const Joined::Part &part : joined.parts) {
            if (!part.copied) place_in_[part.input.value] = {whole, part.offset};
        }
        joined_[whole] = std::move(joined);
        without_step_.insert(number);
        shares_ = true;
    }

    void set_place(const std::string &value, const Place &place) {
        locations_[value] = place.location;
        if (place.buffer >= 0) buffers_of_[{value, whole_value}] = place.buffer;
    }

    // Values that a step makes are written to their place at once; others are copied.
    void set_target(const std::string &output, const Target &target) {
        const ValuePart from = root(in_row_major(output));
        const std::string &value = from.value;
        const bool whole = from.offset == 0 && graph_.bytes(value) == graph_.bytes(output);
        if (target.kind == Target::Kind::AtEnd)
            at_end_.push_back({from, output, target.place});
        else if (target.kind == Target::Kind::Direct &&
                 (!whole || locations_.count(value) || graph_.is_constant(value)))
            copies_.push_back({from, output, target.place});
        else if (target.kind == Target::Kind::Direct)
            set_place(value, target.place);
        if (target.kind != Target::Kind::Direct) kept_.insert(value), whole_.insert(value);
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
        if (const auto inside = place_in_.find(value); inside != place_in_.end()) {
            const Location whole = location(inside->second);
            if (whole.kind == Location::Kind::Output) return locations_[value] = whole;
        }
        return locations_[value] = {Location::Kind::Arena, buffer};
    }

    Location location(const ValuePart &part) {
        Location l = location(part.value);
        l.within += part.offset;
        return l;
    }

    // The number of the value's buffer; -1 for constants and inputs of the model.
    int buffer_of(const std::string &value) {
        if (graph_.is_constant(value)) return -1;
        const auto found = buffers_of_.find({value, whole_value});
        if (found != buffers_of_.end()) return found->second;
        if (locations_.count(value)) return -1;
        PlanBuffer buffer{value, graph_.bytes(value), tensor_alignment};
        if (const auto inside = place_in_.find(value); inside != place_in_.end()) {
            buffer.alignment = graph_.value(value).type.bytes();
            buffer.inside = buffer_of(inside->second.value), buffer.inside_offset = inside->second.offset;
        }
        return add_buffer({value, whole_value}, buffer);
    }

    // The buffer of a part that is copied.
    int buffer_of_part(const std::string &whole, size_t n) {
        const auto found = buffers_of_.find({whole, n});
        if (found != buffers_of_.end()) return found->second;
        const Joined::Part &part = joined_.at(whole).parts[n];
        PlanBuffer buffer{whole, part.bytes, graph_.value(whole).type.bytes()};
        buffer.inside = buffer_of(whole), buffer.inside_offset = part.offset;
        return add_buffer({whole, n}, buffer);
    }

    int add_buffer(const std::pair<std::string, size_t> &key, const PlanBuffer &buffer) {
        made_.buffers.push_back(buffer);
        return buffers_of_[key] = int(made_.buffers.size()) - 1;
    }

    // The buffers that steps write to make a value.
    std::vector<int> buffers_to_read(const std::string &value) {
        const auto joined = joined_.find(value);
        if (joined == joined_.end()) {
            const int buffer = buffer_of(value);
            return buffer < 0 ? std::vector<int>() : std::vector<int>{buffer};
        }
        std::vector<int> all;
        for (size_t n = 0; n < joined->second.parts.size(); n++) {
            const Joined::Part &part = joined->second.parts[n];
            const std::vector<int> of_part =
                part.copied ? std::vector<int>{buffer_of_part(value, n)} : buffers_to_read(part.input.value);
            all.insert(all.end(), of_part.begin(), of_part.end());
        }
        return all;
    }

    // Adds a step that reads and writes values; its arguments are both, in this order.
    void add(Step step, const std::vector<ValuePart> &reads, const std::vector<std::string> &writes) {
        PlanTask task;
        for (const ValuePart &part : reads) {
            step.arguments.push_back(location(part));
            for (const int buffer : buffers_to_read(part.value)) task.reads.push_back(buffer);
        }
        for (const std::string &value : writes) {
            step.arguments.push_back(location(value));
            task.writes.push_back(buffer_of(value));
            describe(step, value);
        }
        list_.tasks.push_back(std::move(task));
        list_.steps.push_back(std::move(step));
    }

    // Lists the value and its views. Hooks do not see slices of iterations: the loop's step has the
    // whole.
    void describe(Step &step, const std::string &value) {
        // A copy is listed only if it restores the order of ONNX: the value itself is listed.
        const auto copied = copied_from_.find(value);
        if (copied != copied_from_.end() && !layouts_.copied.at(copied->second).empty()) return;
        for (const auto &[value_or_view, part] : named_parts(value)) {
            const Location place = location(part);
            if (place.stride != 0) continue;
            const auto copy = copied_from_.find(value_or_view);
            const std::string &name = copy == copied_from_.end() ? value_or_view : copy->second;
            const AxisOrder &order = copy == copied_from_.end() ? layouts_.order_of(name) : layouts_.copied.at(name);
            ProgramTensor made = tensor(name);
            made.channels_last = !order.empty();
            for (size_t d = 0; d < order.size(); d++) made.extents[d] = graph_.value(name).extents[order[d]];
            step.made.emplace_back(made, place);
        }
    }

    // The value and its views.
    std::vector<std::pair<std::string, ValuePart>> named_parts(const std::string &value) {
        std::vector<std::pair<std::string, ValuePart>> all = {{value, {value}}};
        for (const std::string &view : views_[value]) all.emplace_back(view, root(view));
        return all;
    }

    // Adds the copies of a Concat whose other inputs are in their places.
    void add_copies_of_parts(const Group &group) {
        const std::string &whole = group.outputs.at(0);
        const Joined &joined = joined_.at(whole);
        for (size_t n = 0; n < joined.parts.size(); n++) {
            const Joined::Part &part = joined.parts[n];
            if (!part.copied) continue;
            Step copy;
            copy.kind = Step::Kind::Copy;
            copy.bytes = part.bytes;
            for (const size_t node : group.nodes) name_step(copy, graph_.nodes[node]);
            add(std::move(copy), {part.input}, {});
            list_.steps.back().arguments.push_back(location(ValuePart{whole, part.offset}));
            list_.tasks.back().writes.push_back(buffer_of_part(whole, n));
        }
    }

    // A value of several steps is listed with the last one.
    void list_joined() {
        for (const auto &[whole, joined] : joined_) {
            const std::vector<int> buffers = buffers_to_read(whole);
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

    // Adds a copy of the value to a place.
    void add_copy(const ValuePart &from, const std::string &name, const Place &to) {
        Step copy;
        copy.kind = Step::Kind::Copy;
        copy.nodes = {name};
        copy.bytes = graph_.bytes(name);
        if (copy.bytes == 0) return;
        // Else the step that computes the value has it among its own.
        if (to.location.kind == Location::Kind::Output && to.location.stride == 0 &&
            (graph_.is_constant(from.value) || location(from.value).kind == Location::Kind::Input))
            copy.made.emplace_back(tensor(name), to.location);
        add(std::move(copy), {from}, {});
        list_.steps.back().arguments.push_back(to.location);
        if (to.buffer >= 0) list_.tasks.back().writes.push_back(to.buffer);
    }

    // Copies next states to their places. A next state that is another state now is first copied
    // elsewhere, because the copies run one after another.
    void add_copies_at_end() {
        std::set<int> places;
        for (const CopyOf &c : at_end_) places.insert(c.to.buffer);
        for (CopyOf &c : at_end_) {
            const int buffer = buffer_of(c.from.value);
            if (buffer < 0 || !places.count(buffer)) continue;
            if (buffer == c.to.buffer) {
                c.from.value.clear(); // it stays
                continue;
            }
            const int other = int(made_.buffers.size());
            made_.buffers.push_back({c.name, graph_.bytes(c.name), tensor_alignment});
            const Place to = {{Location::Kind::Arena, size_t(other)}, other};
            add_copy(c.from, c.name, to);
            c.from = {"copy of " + c.name}; // no value has this place
            moved_.insert(c.from.value);
            set_place(c.from.value, to);
        }
        for (const CopyOf &c : at_end_) {
            if (!c.from.value.empty()) add_moved(c);
        }
    }

    void add_moved(const CopyOf &c) {
        if (!moved_.count(c.from.value)) {
            add_copy(c.from, c.name, c.to);
            return;
        }
        Step copy;
        copy.kind = Step::Kind::Copy;
        copy.nodes = {c.name};
        copy.bytes = graph_.bytes(c.name);
        copy.arguments = {locations_.at(c.from.value), c.to.location};
        if (copy.bytes == 0) return;
        list_.tasks.push_back({.reads = {buffers_of_.at({c.from.value, whole_value})}, .writes = {c.to.buffer}});
        list_.steps.push_back(std::move(copy));
    }

    void add(const Group &group, size_t number) {
        const Node &first = graph_.nodes[group.nodes[0]];
        if (is_control(first)) {
            is_selection(first) ? add_selection(first) : first.op == "If" ? add_branch(first) : add_loop(first);
            return;
        }
        std::map<std::string, AxisOrder> orders = layouts_.reads[number];
        for (const std::string &out : group.outputs) orders[out] = layouts_.order_of(out);
        GroupOp op = make_group_op(graph_, group, orders);
        if (!op.op) return;
        std::vector<ValuePart> reads;
        std::vector<std::string> writes;
        for (const std::string &name : op.inputs) reads.push_back(root(as_read(name, number)));
        for (const std::string &name : op.outputs) writes.push_back(root(name).value);
        Step step;
        step.group = number;
        for (const size_t n : group.nodes) name_step(step, graph_.nodes[n]);
        std::vector<int> checks;
        for (const OpScope::Check &check : op.checks) checks.push_back(add(check, step.nodes, number));
        step.kernel = kernel_of(*op.op);
        add(std::move(step), reads, writes);
        list_.tasks.back().after = checks;
    }

    static void name_step(Step &step, const Node &node) {
        step.nodes.push_back(node.name.empty() ? node.named_outputs().at(0) : node.name);
        step.operators.push_back(node.op);
    }

    void add_selection(const Node &node) {
        const SelectionForm form = SelectionForm::of(node);
        Step step;
        step.kind = Step::Kind::Select;
        name_step(step, node);
        step.text = form.function, step.parameters = form.parameters, step.bytes = form.workspace;
        std::vector<ValuePart> reads;
        for (const std::string &i : node.inputs) reads.push_back(root(in_row_major(i)));
        add(std::move(step), reads, node.outputs);
        list_.tasks.back().workspace = form.workspace;
    }

    // The places of a node's inputs from number `first` on.
    std::vector<Place> places_of_inputs(const Node &node, size_t first) {
        std::vector<Place> places;
        for (size_t n = first; n < node.inputs.size(); n++) places.push_back(place(node.inputs[n]));
        return places;
    }

    StepList list_of(const FixedGraph &graph, int depth, const std::vector<Place> &inputs,
                     const std::vector<Target> &outputs) {
        return ListBuilder(made_, builders_, graph, options_, depth, {}, false).run(inputs, outputs);
    }

    // Adds a step with lists. The task writes the node's outputs and reads its inputs.
    void add_control(Step step, const Node &node) {
        step.own_end = int(made_.buffers.size());
        PlanTask task;
        std::set<int> reads, writes;
        for (const std::string &o : node.outputs) {
            writes.insert(buffer_of(o));
            describe(step, o);
        }
        for (const std::string &i : node.inputs) {
            if (i.empty()) continue;
            if (const int buffer = buffer_of(root(in_row_major(i)).value); buffer >= 0) reads.insert(buffer);
        }
        task.reads.assign(reads.begin(), reads.end()), task.writes.assign(writes.begin(), writes.end());
        task.workspace = peak_of(step);
        list_.tasks.push_back(std::move(task));
        list_.steps.push_back(std::move(step));
    }

    void add_branch(const Node &node) {
        Step step;
        step.kind = Step::Kind::Branch;
        name_step(step, node);
        step.arguments = {place(node.inputs.at(0)).location};
        const std::vector<Place> inputs = places_of_inputs(node, 1);
        std::vector<Target> outputs;
        for (const std::string &o : node.outputs) outputs.push_back({Target::Kind::Direct, place(o)});
        step.own_begin = int(made_.buffers.size());
        for (const int64_t g : graphs_of(node))
            step.lists.push_back(list_of(*graph_.graphs.at(size_t(g)), depth_, inputs, outputs));
        add_control(std::move(step), node);
    }

    // One iteration's slice of an array along axis 0.
    Place slice_of(Place place, int64_t bytes, int64_t trips, bool backward) const {
        place.location.within += backward ? (trips - 1) * bytes : 0;
        place.location.stride = backward ? -bytes : bytes;
        place.location.loop = depth_;
        return place;
    }

    void add_loop(const Node &node) {
        const LoopForm form = LoopForm::of(node);
        const FixedGraph &graph = *graph_.graphs.at(size_t(graphs_of(node).at(0)));
        Step step;
        step.kind = Step::Kind::Loop;
        name_step(step, node);
        LoopControl &loop = step.loop;
        loop.depth = depth_, loop.trips = form.trips, loop.most = form.most;
        step.text = fmt::format("node \"{}\" (Loop): data ask for more iterations than its bound; legal are at most {}",
                                step.nodes[0], form.most);
        if (!node.inputs.at(0).empty()) loop.count = place(node.inputs[0]).location;
        if (!node.inputs.at(1).empty()) loop.condition = place(node.inputs[1]).location;
        std::vector<Place> given = places_of_inputs(node, 2), results;
        for (const std::string &o : node.outputs) results.push_back(place(o));
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
        std::vector<Target> outputs(tested);
        for (size_t s = 0; s < form.states; s++) {
            const ProgramTensor state = tensor(node.outputs[s]);
            before.steps.emplace_back();
            before.steps.back().kind = Step::Kind::Copy, before.steps.back().nodes = {state.name};
            before.steps.back().bytes = state.bytes();
            before.steps.back().arguments = {given[s].location, results[s].location};
            before.tasks.emplace_back();
            if (given[s].buffer >= 0) before.tasks.back().reads = {given[s].buffer};
            before.tasks.back().writes = {results[s].buffer};
            inputs.push_back(results[s]);
            outputs.push_back({Target::Kind::AtEnd, results[s]});
        }
        for (size_t s = 0; s < form.slices; s++) {
            const int64_t bytes = graph.bytes(graph.inputs[1 + form.states + s]);
            inputs.push_back(slice_of(given[form.states + s], bytes, form.trips, form.backward.at(s) != 0));
        }
        inputs.insert(inputs.end(), given.begin() + int64_t(form.states + form.slices), given.end());
        for (size_t r = form.states; r < results.size(); r++) {
            const int64_t bytes = graph.bytes(graph.outputs[tested + r]);
            const bool backward = form.backward.at(form.slices + r - form.states) != 0;
            outputs.push_back({Target::Kind::Direct, slice_of(results[r], bytes, form.trips, backward)});
        }
        ListBuilder body(made_, builders_, graph, options_, depth_ + 1, {}, false);
        StepList iteration = body.run(inputs, outputs);
        if (form.tested) loop.again = body.place(graph.outputs[0]).location;
        step.lists = {std::move(before), std::move(iteration)};
        add_control(std::move(step), node);
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
    int add(const OpScope::Check &check, const std::vector<std::string> &nodes, size_t group) {
        // A check with several extents has one for each column of the last axis, so it reads the
        // value in its own shape.
        const std::string value = check.extents.size() == 1 ? indices_of(check.value) : as_read(check.value, group);
        const auto [task, fresh] = checks_.emplace(std::pair(root(value), check.extents), int(list_.tasks.size()));
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

    // Orders the first `count` steps; others follow.
    void order_steps(size_t count) {
        // Numbers of the buffers that these steps use.
        std::map<int, int> local;
        std::vector<PlanBuffer> buffers;
        std::vector<PlanTask> tasks(list_.tasks.begin(), list_.tasks.begin() + int64_t(count));
        std::set<int> written, kept;
        for (const PlanTask &t : tasks) written.insert(t.writes.begin(), t.writes.end());
        for (const std::string &value : kept_) {
            if (const int b = buffer_of(value); b >= 0) kept.insert(b);
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
            builders_.given ? builders_.given->lists.at(number_).order : choose_order(tasks, buffers).order;
        builders_.chosen.lists.at(number_).order = order;
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

    // The most bytes of a control step's own buffers that are live at once.
    int64_t peak_of(const Step &step) const;

    Program &made_;
    Builders &builders_;
    const size_t number_; // of the list in ProgramChoices::lists
    static constexpr size_t whole_value = SIZE_MAX;

    FixedGraph graph_; // and the values in their second orders
    const GroupOptions &options_;
    const int depth_;
    const size_t first_own_; // number of buffers of enclosing lists
    Layouts layouts_;
    std::map<std::string, std::string> copied_from_; // values by the names of their second orders
    const bool share_;
    bool shares_ = false;
    std::vector<Group> groups_;
    StepList list_;
    std::map<std::string, ValuePart> root_;
    std::map<std::string, std::vector<std::string>> views_; // by their root
    std::set<size_t> without_step_;                         // groups
    std::map<std::string, Joined> joined_;
    std::map<std::string, ValuePart> place_in_;                // of parts of joined values
    std::map<std::string, Location> locations_;                // index: the buffer
    std::map<std::pair<std::string, size_t>, int> buffers_of_; // by value and part
    std::map<std::string, const Node *> producers_;
    std::map<std::pair<ValuePart, Extents>, int> checks_; // by value and extents
    std::vector<CopyOf> copies_, at_end_;
    std::set<std::string> moved_; // states that are copied twice
    std::set<std::string> kept_;  // values that are used after the list's steps
    std::set<std::string> whole_; // values that are no parts of others and not made in parts
};

// Tasks for the steps of lists, one after another. A step with lists has a task before them and one
// after them.
class Linear {
public:
    explicit Linear(const std::vector<int64_t> &workspaces) : workspaces_(workspaces) {}

    // Returns the buffers that the steps use.
    std::set<int> add(const std::vector<Step> &steps, const std::vector<PlanTask> &tasks) {
        std::set<int> used;
        for (size_t n = 0; n < steps.size(); n++) {
            const std::set<int> more = steps[n].lists.empty() ? add(steps[n], tasks[n]) : add_lists(steps[n]);
            used.insert(more.begin(), more.end());
        }
        return used;
    }

    std::vector<PlanTask> tasks;
    std::map<const Step *, size_t> task_of;

private:
    std::set<int> add(const Step &step, PlanTask task) {
        const bool call = step.kind == Step::Kind::Call && !workspaces_.empty();
        task.workspace = call ? workspaces_.at(step.kernel) : 0;
        if (step.kind == Step::Kind::Select) task.workspace = step.bytes;
        task_of[&step] = tasks.size();
        std::set<int> used(task.reads.begin(), task.reads.end());
        used.insert(task.writes.begin(), task.writes.end());
        tasks.push_back(std::move(task));
        return used;
    }

    std::set<int> add_lists(const Step &step) {
        const size_t begin = tasks.size();
        tasks.emplace_back();
        std::set<int> used, control;
        Step copy;
        copy.arguments = step.arguments, copy.loop = step.loop;
        for_each_location(copy, [&](Location &l) {
            if (l.kind == Location::Kind::Arena) control.insert(int(l.index));
        });
        for (const StepList &list : step.lists) {
            const std::set<int> more = add(list.steps, list.tasks);
            used.insert(more.begin(), more.end());
        }
        // Iterations follow one another, so what comes from outside stays during all of them.
        std::set<int> whole = control;
        std::erase_if(used, [&](int b) { return b >= step.own_begin && b < step.own_end; });
        if (step.kind == Step::Kind::Loop) whole.insert(used.begin(), used.end());
        tasks[begin].reads.assign(whole.begin(), whole.end());
        tasks.emplace_back();
        if (step.kind == Step::Kind::Loop) tasks.back().reads = tasks[begin].reads;
        for (const int b : control) {
            if (b < step.own_begin || b >= step.own_end) used.insert(b);
        }
        return used;
    }

    const std::vector<int64_t> &workspaces_;
};

std::vector<int> first_numbers(size_t count) {
    std::vector<int> order(count);
    for (size_t n = 0; n < count; n++) order[n] = int(n);
    return order;
}

int64_t ListBuilder::peak_of(const Step &step) const {
    const std::vector<int64_t> none;
    Linear linear(none);
    for (const StepList &list : step.lists) linear.add(list.steps, list.tasks);
    std::vector<int64_t> change(linear.tasks.size() + 1, 0);
    const std::vector<ArenaBuffer> all = arena_buffers(linear.tasks, made_.buffers, first_numbers(linear.tasks.size()));
    for (int b = step.own_begin; b < step.own_end; b++) {
        const ArenaBuffer &buffer = all[size_t(b)];
        if (buffer.bytes == 0) continue;
        change[size_t(buffer.first)] += buffer.bytes;
        change[size_t(buffer.last) + 1] -= buffer.bytes;
    }
    int64_t live = 0, peak = 0;
    for (const int64_t c : change) peak = std::max(peak, live += c);
    return peak;
}

} // namespace

int64_t ProgramTensor::bytes() const {
    int64_t n = type.bytes();
    for (const int64_t e : extents) n *= e;
    return n;
}

namespace {

// `shares`: set to whether values share memory.
Program make_program(const FixedGraph &graph, const GroupOptions &options, const StatePairs &states,
                     const Layouts &layouts, bool share, bool &shares, Builders builders, ProgramChoices &chosen) {
    Program made;
    made.name = graph.name;
    std::map<std::string, Place> places_of_next;
    std::vector<Place> inputs;
    std::vector<Target> outputs;
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
            outputs.push_back({Target::Kind::AtEnd, next->second});
            continue;
        }
        Place to{{Location::Kind::Output, made.outputs.size()}};
        made.outputs.push_back(tensor(out));
        to.buffer = add_buffer(made.outputs.back());
        outputs.push_back({Target::Kind::Direct, to});
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
                     const OpSeconds &seconds, const Builders &builders, ProgramChoices &chosen) {
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
    return make_program(graph, options, states, seconds, Builders{}, chosen);
}

Program make_program(const FixedGraph &graph, const GroupOptions &options, const StatePairs &states,
                     const OpSeconds &seconds, ProgramChoices &chosen) {
    return make_program(graph, options, states, seconds, Builders{.share_kernels = false}, chosen);
}

Program make_program(const FixedGraph &graph, const GroupOptions &options, const StatePairs &states,
                     const ProgramChoices &choices) {
    check_states(graph, states);
    bool shares = false;
    ProgramChoices chosen;
    return make_program(graph, options, states, choices.layouts, choices.share, shares,
                        Builders{.share_kernels = false, .given = &choices}, chosen);
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

ProgramArena place(Program &program, const std::vector<int64_t> &workspaces) {
    Linear linear(workspaces);
    linear.add(program.steps, program.tasks);
    ProgramArena blocks;
    blocks.buffers = arena_buffers(linear.tasks, program.buffers, first_numbers(linear.tasks.size()));
    const ArenaPlan plan = plan_arena(blocks.buffers);
    blocks.below = blocks_below(blocks.buffers, plan);
    program.arena_bytes = plan.bytes, program.arena_bound = plan.bound;
    for_each_step(program.steps, [&](Step &step) {
        for_each_location(step, [&](Location &l) {
            if (l.kind == Location::Kind::Arena) l.offset = plan.offsets[l.index];
        });
        const auto task = linear.task_of.find(&step);
        if (task == linear.task_of.end()) return;
        const bool has_workspace = linear.tasks[task->second].workspace > 0;
        const size_t block = program.buffers.size() + task->second;
        step.workspace = has_workspace ? plan.offsets[block] : -1;
        if (has_workspace) blocks.workspaces[&step] = block;
    });
    check_program(program, workspaces);
    return blocks;
}

} // namespace kumiko::graph
