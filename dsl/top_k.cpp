#include "dsl/top_k.h"

#include "dsl/definition.h"
#include "dsl/nested.h"
#include "dsl/print.h"
#include "dsl/stage_builder.h"
#include "support/error.h"

#include <fmt/format.h>

#include <bit>

namespace kumiko {

using namespace Halide::Internal;

namespace {

constexpr int nowhere = INT32_MAX; // sorts after every position

constexpr int max_in_list = 16; // largest k for which one reduction computes the list
// The tree is faster from these k and row lengths on.
constexpr int min_in_tree = 4, shortest_in_tree = 512;
constexpr int max_at_top = 64; // lower limit on the nodes of the first level
// Levels for a row of symbolic size; this leaves a few nodes at the first level.
constexpr int levels_of_symbolic = 10;

// A value and its position; undefined sorts after all others.
struct Entry {
    Expr value, position;
    bool defined() const { return value.defined(); }
};

Expr is_before(const Entry &a, const Entry &b) {
    return a.value > b.value || (a.value == b.value && a.position < b.position);
}

// Swaps the entries if b comes before a.
void sort(Entry &a, Entry &b) {
    if (!b.defined()) return;
    if (!a.defined()) return std::swap(a, b);
    // Folds to false if b is the identity. For a single element, all entries but one are.
    const Expr swap = is_before(b, a);
    const Entry first = {select(swap, b.value, a.value), select(swap, b.position, a.position)};
    b = {select(swap, a.value, b.value), select(swap, a.position, b.position)};
    a = first;
}

// Merges two sorted lists and keeps the first k, sorted: Batcher, "Sorting networks and their
// applications" (1968). The pairwise best of a and of b reversed form a bitonic sequence, which log
// n passes sort.
Values merged(const Values &a, const Values &b) {
    const size_t k = a.size() / 2, n = std::bit_ceil(k);
    const auto at = [&](const Values &list, size_t e) { return e < k ? Entry{list[e], list[k + e]} : Entry{}; };
    std::vector<Entry> entries;
    for (size_t e = 0; e < n; e++) {
        Entry first = at(a, e), other = at(b, n - 1 - e);
        sort(first, other);
        entries.push_back(first);
    }
    for (size_t apart = n / 2; apart > 0; apart /= 2) {
        for (size_t e = 0; e < n; e++) {
            if (!(e & apart)) sort(entries[e], entries[e + apart]);
        }
    }
    Values result(2 * k);
    for (size_t e = 0; e < k; e++) result[e] = entries[e].value, result[k + e] = entries[e].position;
    return result;
}

// Top-k as one reduction: k values, then k positions.
Tuple one_list(const Expr &e, const Axis &axis, size_t k, const Place &where) {
    const Expr lowest = fold_identity("maximum", e.type());
    Values identities(k, lowest), terms(k, lowest);
    identities.resize(2 * k, nowhere), terms.resize(2 * k, nowhere);
    const bool number = !e.type().is_float();
    terms[0] = number ? e : select(e == e, e, lowest); // a NaN is not equal to itself
    terms[k] = number ? Expr(axis) : select(e == e, Expr(axis), nowhere);
    return reduce(merged, identities, terms, axis, {.associative = true, .commutative = true}, where);
}

struct List {
    NestedTensor values, positions; // each over one axis of extent k
};

// Whether e is a read of a tensor whose index is the axis itself, with the same extent.
bool is_plain_read(const Expr &e, const Axis &axis) {
    const auto *read = e.as<Call>();
    if (!read || !is_reference(read)) return false;
    const TensorContents tensor = decode_definition(read->args.back());
    for (size_t d = 0; d < tensor.axes.size(); d++) {
        const Expr &index = read->args[d];
        const bool along = index.as<Variable>() && equal(tensor.axes[d].extent(), axis.extent());
        if (expr_uses_var(index, axis.name()) && !along) return false;
    }
    return true;
}

// Top-k by a tournament tree. Level m is the row; each level above has half as many nodes: node n
// is the better of nodes n and n + size(l) of the level below. A node among the first k of its
// level is a child of a node among the first k of the level above: a parent with k nodes before it
// has a child for each of them that is before its own children. So the first k of a level are among
// 2k candidates, and are found by counting the candidates before each.
class Tree {
public:
    Tree(const Expr &e, const Axis &axis, int k, const Place &where)
        : e_(e), axis_(axis), k_(k), where_(where), lowest_(fold_identity("maximum", e.type())),
          plain_(is_plain_read(e, axis)), names_(variables_of(e)) {
        const auto number = as_const_int(axis.extent());
        if (!number) levels_ = levels_of_symbolic;
        while (number && *number > int64_t(std::max(2 * k, max_at_top)) << levels_) levels_++;
        top_ = simplify((axis.extent() - 1) / (1 << levels_) + 1);
        whole_ = is_const_one(simplify(size(levels_) == axis.extent()));
        inner_.resize(static_cast<size_t>(levels_));
        for (int l = levels_ - 1; l >= 0; l--) {
            const Axis node = level_axis("node", l, size(l));
            const Entry a = entry(l + 1, node), b = entry(l + 1, node + size(l));
            const Expr second = is_before(b, a);
            inner_[static_cast<size_t>(l)] = {{level_name("best", l), {node}, select(second, b.value, a.value)},
                                              {level_name("at", l), {node}, select(second, b.position, a.position)}};
        }
    }

    List list() const {
        List first = first_of(0, entry(0, candidates(0)));
        for (int l = 1; l <= levels_; l++) {
            const Axis c = candidates(l);
            const Expr parent = first.positions.at({c % k_}), exists = parent != nowhere;
            const Expr node = parent % size(l - 1) + c / k_ * size(l - 1);
            const Entry child = entry(l, clamp(node, 0, size(l) - 1));
            first = first_of(l, {select(exists, child.value, lowest_), select(exists, child.position, nowhere)});
        }
        return first;
    }

private:
    Expr e_;
    Axis axis_;
    int k_;
    Place where_;
    Expr lowest_;
    bool plain_;                  // otherwise e is materialised in a stage
    std::set<std::string> names_; // the names of all variables in e
    int levels_ = 0;
    Expr top_;           // the number of nodes of level 0
    bool whole_ = false; // the last level has no nodes beyond the row
    std::vector<List> inner_;

    static std::string level_name(const char *what, int level) { return fmt::format("{}{}", what, level); }
    Axis level_axis(const char *what, int level, const Expr &size) const {
        std::string name = fmt::format("{}_{}{}", axis_.name(), what, level);
        while (names_.count(name)) name += "_"; // avoids names in the formula
        return {name, size};
    }
    Expr size(int level) const { return simplify(top_ * (1 << level)); }
    Axis candidates(int level) const { return level_axis("candidate", level, level ? Expr(2 * k_) : top_); }

    // The same read at another index. Its last argument, the definition of the tensor, is over the
    // tensor's own axes and stays.
    Expr read_at(const Expr &at) const {
        const auto *read = e_.as<Call>();
        std::vector<Expr> args = read->args;
        for (size_t d = 0; d + 1 < args.size(); d++) args[d] = substitute(axis_.name(), at, args[d]);
        return Call::make(read->type, read->name, args, read->call_type);
    }

    Entry entry(int level, const Expr &node) const {
        if (level < levels_) {
            const List &l = inner_[static_cast<size_t>(level)];
            return {l.values.at({node}), l.positions.at({node})};
        }
        const Expr at = whole_ ? node : clamp(node, 0, axis_.extent() - 1);
        const Expr value = plain_ ? read_at(at) : NestedTensor{"row", {axis_}, e_}.at({at});
        Expr exists = whole_ ? const_true() : node < axis_.extent();
        // A NaN is not equal to itself.
        if (value.type().is_float()) exists = exists && value == value;
        return {select(exists, value, lowest_), select(exists, node, nowhere)};
    }

    // The first k of the candidates of a level.
    List first_of(int level, const Entry &candidate) const {
        const Axis c = candidates(level), other = level_axis("other", level, c.extent()),
                   n = level_axis("rank", level, k_);
        const NestedTensor value{level_name("value", level), {c}, candidate.value},
            position{level_name("position", level), {c}, candidate.position};
        const auto at = [&](const Axis &c) -> Entry { return {value.at({c}), position.at({c})}; };
        const NestedTensor rank{
            level_name("rank", level), {c}, sum(cast<int>(is_before(at(other), at(c))), other, where_)};
        const Expr here = rank.at({c}) == n;
        return {{level_name("values", level), {n}, maximum(select(here, value.at({c}), lowest_), c, where_)},
                {level_name("positions", level), {n}, minimum(select(here, position.at({c}), nowhere), c, where_)}};
    }
};

bool goes_by_tree(const Axis &axis, int k) {
    const auto number = as_const_int(axis.extent());
    return k > max_in_list || (k >= min_in_tree && number && *number >= shortest_in_tree);
}

void check(const Expr &e, const Axis &axis, int k, const Place &where) {
    if (!e.defined()) throw UserError(where, "top_k of an undefined expression");
    if (k < 1 || k > most_top_k)
        throw UserError(where, fmt::format("top_k of {} values; legal are 1 to {}", k, most_top_k));
    if (e.type().is_bool()) throw UserError(where, "top_k of a bool expression; cast it to a type that is ordered");
}

Expr outside(const Expr &position) { return select(position == nowhere, -1, position); }

} // namespace

Tuple top_k(const Expr &e, const Axis &axis, int k, Place where) {
    check(e, axis, k, where);
    const auto count = static_cast<size_t>(k);
    Values parts;
    if (goes_by_tree(axis, k)) {
        const List list = Tree(e, axis, k, where).list();
        for (int n = 0; n < k; n++) parts.push_back(list.values.at({n}));
        for (int n = 0; n < k; n++) parts.push_back(list.positions.at({n}));
    } else {
        const Tuple list = one_list(e, axis, count, where);
        for (size_t n = 0; n < 2 * count; n++) parts.push_back(list[n]);
    }
    const std::string text = fmt::format("top_k({}, {}, {})", to_string(e), axis.name(), k);
    std::vector<Element> results;
    for (size_t n = 0; n < 2 * count; n++) {
        const Expr value = n < count ? parts[n] : outside(parts[n]);
        results.emplace_back(written_as(fmt::format("{}[{}]", text, n), value), where);
    }
    return Tuple(results);
}

Extreme top_k(const Expr &e, const Axis &axis, const Axis &n, Place where) {
    const auto count = as_const_int(n.extent());
    if (!count)
        throw UserError(where, fmt::format("top_k over axis \"{}\" of {} elements; legal is a number, 1 to {}",
                                           n.name(), to_string(n.extent()), most_top_k));
    const int k = static_cast<int>(*count);
    check(e, axis, k, where);
    if (goes_by_tree(axis, k)) {
        const List list = Tree(e, axis, k, where).list();
        return {Element(outside(list.positions.at({n})), where), Element(list.values.at({n}), where)};
    }
    const Tuple list = top_k(e, axis, k, where);
    const auto part = [&](int first) {
        Expr e = list[static_cast<size_t>(first + k - 1)];
        for (int p = k - 1; p-- > 0;) e = select(n == p, Expr(list[static_cast<size_t>(first + p)]), e);
        return Element(e, where);
    };
    return {part(k), part(0)};
}

} // namespace kumiko
