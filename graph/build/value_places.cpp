#include "graph/build/value_places.h"

#include "graph/build/parts.h"
#include "graph/ir/control.h"
#include "graph/rules/constants.h"

#include <algorithm>

namespace kumiko::graph {

ValuePlaces::ValuePlaces(Program &program, const FixedGraph &graph, std::vector<Group> groups, const Layouts &layouts,
                         bool share)
    : made_(program), graph_(graph), groups_(std::move(groups)), layouts_(layouts), share_(share) {
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
}

void ValuePlaces::find_views() {
    for (size_t g = 0; g < groups_.size(); g++) add_views(g);
    for (const Node &n : graph_.nodes) {
        if (is_control(n)) keep_whole(n);
    }
}

void ValuePlaces::find_joined() {
    for (size_t g = 0; share_ && g < groups_.size(); g++) join(g);
}

std::optional<std::string> ValuePlaces::first_order(const std::string &copy) const {
    const auto found = copied_from_.find(copy);
    return found == copied_from_.end() ? std::nullopt : std::optional(found->second);
}

Place ValuePlaces::place(const std::string &value) {
    const ValuePart part = root(in_row_major(value));
    return {location(part), buffer_of(part.value)};
}

ProgramTensor ValuePlaces::tensor(const std::string &name) const {
    const KnownValue &v = graph_.value(name);
    return {name, v.type, v.extents};
}

std::string ValuePlaces::copy_of(const std::string &value) { return value + "/copy"; }

std::string ValuePlaces::as_read(const std::string &value, size_t group) const {
    const auto found = layouts_.reads[group].find(value);
    if (graph_.is_constant(value)) return found == layouts_.reads[group].end() ? value : copy_of(value);
    const bool own = layouts_.order_of(value) == (found == layouts_.reads[group].end() ? AxisOrder() : found->second);
    return own || !layouts_.copied.count(value) ? value : copy_of(value);
}

std::string ValuePlaces::in_row_major(const std::string &value) const {
    return layouts_.order_of(value).empty() ? value : copy_of(value);
}

ValuePart ValuePlaces::root(const std::string &name) const {
    const auto found = root_.find(name);
    return found == root_.end() ? ValuePart{name} : found->second;
}

void ValuePlaces::set_place(const std::string &value, const Place &place) {
    locations_[value] = place.location;
    if (place.buffer >= 0) buffers_of_[{value, whole_value}] = place.buffer;
}

Location ValuePlaces::location(const std::string &value) {
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

Location ValuePlaces::location(const ValuePart &part) {
    Location l = location(part.value);
    l.within += part.offset;
    return l;
}

int ValuePlaces::buffer_of(const std::string &value) {
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

int ValuePlaces::buffer_of_part(const std::string &whole, size_t n) {
    const auto found = buffers_of_.find({whole, n});
    if (found != buffers_of_.end()) return found->second;
    const JoinedValue::Part &part = joined_.at(whole).parts[n];
    PlanBuffer buffer{whole, part.bytes, graph_.value(whole).type.bytes()};
    buffer.inside = buffer_of(whole), buffer.inside_offset = part.offset;
    return add_buffer({whole, n}, buffer);
}

std::vector<int> ValuePlaces::buffers_to_read(const std::string &value) {
    const auto joined = joined_.find(value);
    if (joined == joined_.end()) {
        const int buffer = buffer_of(value);
        return buffer < 0 ? std::vector<int>() : std::vector<int>{buffer};
    }
    std::vector<int> all;
    for (size_t n = 0; n < joined->second.parts.size(); n++) {
        const JoinedValue::Part &part = joined->second.parts[n];
        const std::vector<int> of_part =
            part.copied ? std::vector<int>{buffer_of_part(value, n)} : buffers_to_read(part.input.value);
        all.insert(all.end(), of_part.begin(), of_part.end());
    }
    return all;
}

std::vector<std::pair<std::string, ValuePart>> ValuePlaces::named_parts(const std::string &value) {
    std::vector<std::pair<std::string, ValuePart>> all = {{value, {value}}};
    for (const std::string &view : views_[value]) all.emplace_back(view, root(view));
    return all;
}

const Node *ValuePlaces::only_node(const Group &g) const {
    return g.nodes.size() == 1 ? &graph_.nodes[g.nodes[0]] : nullptr;
}

std::optional<bool> ValuePlaces::common_order(size_t group, const Node &node) const {
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

bool ValuePlaces::two_orders(const std::string &value) const { return has_two_orders(graph_.value(value)); }

bool ValuePlaces::is_state(const std::string &value) const {
    const auto place = locations_.find(value);
    return place != locations_.end() && place->second.kind == Location::Kind::State;
}

void ValuePlaces::add_views(size_t number) {
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

void ValuePlaces::keep_whole(const Node &control) {
    for (const auto *names : {&control.inputs, &control.outputs}) {
        for (const std::string &name : *names) {
            if (!name.empty()) whole_.insert(root(in_row_major(name)).value);
        }
    }
}

void ValuePlaces::join(size_t number) {
    const Group &g = groups_[number];
    const Node *node = only_node(g);
    const auto last = node ? common_order(number, *node) : std::nullopt;
    const auto offsets = last ? parts_of_result(graph_, *node, *last) : std::nullopt;
    if (!offsets || whole_.count(node->outputs[0])) return;
    const std::string &whole = node->outputs[0];
    JoinedValue joined;
    std::set<std::string> own;
    for (size_t i = 0; i < offsets->size(); i++) {
        JoinedValue::Part part{root(as_read(node->inputs[i], number)), (*offsets)[i], graph_.bytes(node->inputs[i])};
        if (part.bytes == 0) continue;
        const std::string &value = part.input.value;
        part.copied = graph_.is_constant(value) || locations_.count(value) || place_in_.count(value) ||
                      whole_.count(value) || part.input.offset != 0 || graph_.bytes(value) != part.bytes ||
                      !own.insert(value).second;
        joined.parts.push_back(part);
    }
    if (own.empty()) return;
    for (const JoinedValue::Part &part : joined.parts) {
        if (!part.copied) place_in_[part.input.value] = {whole, part.offset};
    }
    joined_[whole] = std::move(joined);
    without_step_.insert(number);
    shares_ = true;
}

int ValuePlaces::add_buffer(const std::pair<std::string, size_t> &key, const PlanBuffer &buffer) {
    made_.buffers.push_back(buffer);
    return buffers_of_[key] = int(made_.buffers.size()) - 1;
}

} // namespace kumiko::graph
