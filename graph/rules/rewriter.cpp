#include "graph/rules/rewriter.h"

#include "graph/rules/constants.h"
#include "support/error.h"

#include <algorithm>
#include <fmt/format.h>

namespace kumiko::graph {

namespace {

constexpr int64_t order_step = int64_t(1) << 20;

} // namespace

Rewriter::Rewriter(FixedGraph graph) : graph_(std::move(graph)) {
    outputs_.insert(graph_.outputs.begin(), graph_.outputs.end());
    for (Node &node : graph_.nodes) insert(nodes_.end(), node);
    graph_.nodes.clear();
    number_all();
    for (Entry &e : nodes_) {
        for (const std::string &o : e.outputs) {
            if (!o.empty()) bytes_made_ += graph_.bytes(o);
        }
        link(e);
    }
    std::vector<Entry *> all;
    for (Entry &e : nodes_) all.push_back(&e);
    for (size_t n = all.size(); n-- > 0;) {
        if (all[n]->alive) remove_if_unused(all[n]);
    }
    touched_.clear();
}

FixedGraph Rewriter::finish() {
    std::set<std::string> needed(graph_.inputs.begin(), graph_.inputs.end());
    needed.insert(graph_.outputs.begin(), graph_.outputs.end());
    for (Entry &e : nodes_) {
        needed.insert(e.inputs.begin(), e.inputs.end());
        needed.insert(e.outputs.begin(), e.outputs.end());
        graph_.nodes.push_back(std::move(static_cast<Node &>(e)));
    }
    std::erase_if(graph_.values, [&](const auto &v) { return !needed.count(v.first); });
    nodes_.clear();
    return std::move(graph_);
}

std::vector<const Node *> Rewriter::nodes() const {
    std::vector<const Node *> all;
    for (const Entry &e : nodes_) all.push_back(&e);
    return all;
}

const Buffer<> *Rewriter::constant(const Node &node, size_t input) const {
    if (!node.has_input(input)) return nullptr;
    const KnownValue &v = value(node.inputs[input]);
    return v.constant && v.value ? &*v.value : nullptr;
}

const Node *Rewriter::producer(const std::string &name) const {
    const auto found = producers_.find(name);
    return found == producers_.end() || value(name).constant ? nullptr : found->second;
}

std::vector<const Node *> Rewriter::readers(const std::string &name) const {
    std::vector<const Node *> all;
    const auto found = readers_.find(name);
    if (found == readers_.end()) return all;
    all.assign(found->second.begin(), found->second.end());
    std::sort(all.begin(), all.end(), [&](const Node *a, const Node *b) { return precedes(*a, *b); });
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
}

const Node *Rewriter::only_reader(const std::string &name) const {
    const auto found = readers_.find(name);
    return found == readers_.end() || found->second.size() != 1 || is_output(name) ? nullptr : found->second.front();
}

const Node *Rewriter::only_reading_node(const std::string &name) const {
    const auto found = readers_.find(name);
    if (found == readers_.end() || is_output(name)) return nullptr;
    const std::vector<Entry *> &all = found->second;
    return std::count(all.begin(), all.end(), all.front()) == int64_t(all.size()) ? all.front() : nullptr;
}

bool Rewriter::is_read_once(const std::string &name) const {
    const auto found = readers_.find(name);
    return found != readers_.end() && found->second.size() == 1 && !is_output(name);
}

std::string Rewriter::new_name(const std::string &like) const {
    if (!graph_.values.count(like)) return like;
    for (int n = 1;; n++) {
        const std::string name = fmt::format("{}{}", like, n);
        if (!graph_.values.count(name)) return name;
    }
}

std::string Rewriter::add_constant(const std::string &like, const std::string &suffix, const Buffer<> &value) {
    const auto same = graph_.values.find(like + "/" + suffix);
    if (same != graph_.values.end() && same->second.constant && same->second.value &&
        is_same_constant(*same->second.value, value))
        return same->first;
    const std::string name = new_name(like + "/" + suffix);
    graph_.values[name] = {value.type(), value.extents(), value, true};
    return name;
}

Rewriter::Entry &Rewriter::insert(Entries::iterator before, const Node &node) {
    Entry fresh;
    static_cast<Node &>(fresh) = node;
    const auto place = nodes_.insert(before, std::move(fresh));
    place->place = place;
    const int64_t low = place == nodes_.begin() ? 0 : std::prev(place)->order;
    const int64_t high = before == nodes_.end() ? low + 2 * order_step : before->order;
    place->order = low + (high - low) / 2;
    if (place->order == low) number_all();
    return *place;
}

void Rewriter::number_all() {
    int64_t order = 0;
    for (Entry &e : nodes_) e.order = order += order_step;
}

void Rewriter::link(Entry &e) {
    for (const std::string &o : e.outputs) {
        if (!o.empty()) producers_[o] = &e;
    }
    for (const std::string &i : e.inputs) {
        if (!i.empty()) readers_[i].push_back(&e);
    }
}

void Rewriter::unlink(Entry &e) {
    e.alive = false;
    for (const std::string &o : e.outputs) {
        if (o.empty()) continue;
        const auto made = producers_.find(o);
        if (made == producers_.end() || made->second != &e) continue;
        producers_.erase(made);
        bytes_made_ -= graph_.bytes(o);
    }
    for (const std::string &i : e.inputs) {
        if (!i.empty()) lose_read(i, &e);
    }
    removed_.splice(removed_.end(), nodes_, e.place);
}

void Rewriter::touch(Entry *e) {
    if (e->alive) touched_.push_back(e);
}

void Rewriter::touch(const std::string &name) {
    if (const auto made = producers_.find(name); made != producers_.end()) touch(made->second);
    if (const auto read = readers_.find(name); read != readers_.end()) {
        for (Entry *r : read->second) touch(r);
    }
}

void Rewriter::lose_read(const std::string &name, Entry *reader) {
    const auto found = readers_.find(name);
    if (found == readers_.end()) return;
    const auto at = std::find(found->second.begin(), found->second.end(), reader);
    if (at != found->second.end()) found->second.erase(at);
    if (found->second.empty()) readers_.erase(found);
    // Constants have many readers, and no rule depends on who else reads one.
    if (!graph_.value(name).constant) touch(name);
}

void Rewriter::erase_value(const std::string &name) {
    if (!graph_.value(name).constant) graph_.values.erase(name);
}

void Rewriter::remove_if_unused(Entry *first) {
    std::vector<Entry *> stack = {first};
    while (!stack.empty()) {
        Entry *e = stack.back();
        stack.pop_back();
        if (!e->alive || std::any_of(e->outputs.begin(), e->outputs.end(), [&](const std::string &o) {
                return !o.empty() && (readers_.count(o) || is_output(o)) && !graph_.is_constant(o);
            }))
            continue;
        for (const std::string &i : e->inputs) {
            if (const auto made = producers_.find(i); made != producers_.end()) stack.push_back(made->second);
        }
        unlink(*e);
        for (const std::string &o : e->outputs) {
            if (!o.empty()) erase_value(o);
        }
    }
}

void Rewriter::infer(const Entry &e, const std::map<std::string, KnownValue> &before) {
    std::vector<std::string> wanted;
    for (const std::string &o : e.outputs) {
        if (!o.empty()) wanted.push_back(o);
    }
    const GroupOp group = make_group_op({&e}, wanted, [&](const std::string &name) {
        const auto found = graph_.values.find(name);
        if (found == graph_.values.end())
            throw InternalError(fmt::format("{} reads \"{}\", which is not made", e.label(), name));
        return found->second;
    });
    for (const auto &[name, made] : group.made) {
        const auto old = before.find(name);
        if (old != before.end() && (old->second.type != made.type || old->second.extents != made.extents))
            throw InternalError(fmt::format("{} makes \"{}\" of another type or shape than before", e.label(), name));
        graph_.values[name] = made;
        graph_.values[name].constant = made.value.has_value();
        bytes_made_ += graph_.bytes(name);
    }
}

void Rewriter::substitute(const std::vector<const Node *> &old, const std::vector<NewNode> &made) {
    std::vector<Entry *> fresh;
    for (const NewNode &n : made) fresh.push_back(&insert(entry(n.before).place, n.node));
    std::map<std::string, KnownValue> before;
    std::vector<Entry *> sources;
    for (const Node *n : old) {
        for (const std::string &o : n->outputs) {
            if (!o.empty()) before[o] = value(o);
        }
        for (const std::string &i : n->inputs) {
            if (const auto p = producers_.find(i); p != producers_.end()) sources.push_back(p->second);
        }
    }
    for (const Node *n : old) unlink(entry(n));
    for (Entry *e : fresh) {
        infer(*e, before);
        link(*e);
    }
    for (const auto &[name, known] : before) {
        if (producers_.count(name)) continue;
        if ((readers_.count(name) || is_output(name)) && !known.constant)
            throw InternalError(fmt::format("\"{}\" is read and is not made any more", name));
        erase_value(name);
    }
    for (Entry *e : fresh) {
        touch(e);
        for (const auto *names : {&e->inputs, &e->outputs}) {
            for (const std::string &name : *names) {
                if (!name.empty() && !graph_.is_constant(name)) touch(name);
            }
        }
    }
    for (Entry *e : sources) remove_if_unused(e);
}

bool Rewriter::can_replace(const std::string &old, const std::string &with) const {
    return !is_output(old) || (producer(with) && !is_output(with));
}

// The names may be those of nodes that change here, so they are copies.
bool Rewriter::replace_value(std::string old, std::string with) {
    if (!can_replace(old, with)) return false;
    if (value(old).type != value(with).type || extents(old) != extents(with))
        throw InternalError(fmt::format("\"{}\" and \"{}\" have different types or shapes", old, with));
    Entry *source = producers_.at(old);
    const auto move_reads = [&](const std::string &from, const std::string &to) {
        const auto found = readers_.find(from);
        if (found == readers_.end()) return;
        const std::vector<Entry *> all = std::move(found->second);
        readers_.erase(found);
        for (Entry *r : all) std::replace(r->inputs.begin(), r->inputs.end(), from, to);
        std::vector<Entry *> &now = readers_[to];
        now.insert(now.end(), all.begin(), all.end());
    };
    if (!is_output(old)) {
        move_reads(old, with);
        touch(with);
    } else {
        Entry *maker = producers_.at(with);
        const std::string unused = new_name(old + "/unused");
        graph_.values[unused] = value(old);
        std::replace(source->outputs.begin(), source->outputs.end(), old, unused);
        producers_[unused] = source;
        producers_[old] = maker;
        std::replace(maker->outputs.begin(), maker->outputs.end(), with, old);
        producers_.erase(with);
        move_reads(with, old);
        graph_.values.erase(with);
        touch(old);
    }
    remove_if_unused(source);
    return true;
}

std::vector<const Node *> Rewriter::take_touched() {
    std::vector<const Node *> all;
    all.swap(touched_);
    return all;
}

} // namespace kumiko::graph
