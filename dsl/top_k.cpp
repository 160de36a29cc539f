#include "dsl/top_k.h"

#include "dsl/definition.h"
#include "dsl/print.h"
#include "dsl/stage_builder.h"
#include "support/error.h"

#include <fmt/format.h>

#include <bit>

namespace kumiko {

using namespace Halide::Internal;

namespace {

constexpr int nowhere = INT32_MAX; // after every position

// A value and its position; undefined stands for one after all others.
struct Entry {
    Expr value, position;
    bool defined() const { return value.defined(); }
};

// Puts the first of both in `a`.
void sort(Entry &a, Entry &b) {
    if (!b.defined()) return;
    if (!a.defined()) return std::swap(a, b);
    // b stands before a. Folds to false where b is the identity, as of an element alone all but one
    // are.
    const Expr swap = b.value > a.value || (b.value == a.value && b.position < a.position);
    const Entry first = {select(swap, b.value, a.value), select(swap, b.position, a.position)};
    b = {select(swap, a.value, b.value), select(swap, a.position, b.position)};
    a = first;
}

// Of two sorted lists the first k, sorted: Batcher, "Sorting networks and their applications"
// (1968). The first n of a and of b turned around, compared one by one, rise and then fall; log n
// passes sort such a list.
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

} // namespace

Tuple top_k(const Expr &e, const Axis &axis, int k, Place where) {
    if (!e.defined()) throw UserError(where, "top_k of an undefined expression");
    if (k < 1 || k > most_top_k)
        throw UserError(where, fmt::format("top_k of {} values; legal are 1 to {}", k, most_top_k));
    if (e.type().is_bool()) throw UserError(where, "top_k of a bool expression; cast it to a type that is ordered");
    const Expr lowest = fold_identity("maximum", e.type());
    const auto parts = static_cast<size_t>(k);
    Values identities(parts, lowest), terms(parts, lowest);
    identities.resize(2 * parts, nowhere), terms.resize(2 * parts, nowhere);
    const bool number = !e.type().is_float();
    terms[0] = number ? e : select(e == e, e, lowest); // a NaN is not equal to itself
    terms[parts] = number ? Expr(axis) : select(e == e, Expr(axis), nowhere);
    const Tuple all = reduce(merged, identities, terms, axis, {.associative = true, .commutative = true}, where);
    const std::string text = fmt::format("top_k({}, {}, {})", to_string(e), axis.name(), k);
    std::vector<Element> results;
    for (size_t n = 0; n < 2 * parts; n++) {
        const Expr part = all[n];
        const Expr value = n < parts ? part : select(part == nowhere, -1, part);
        results.emplace_back(written_as(fmt::format("{}[{}]", text, n), value), where);
    }
    return Tuple(results);
}

} // namespace kumiko
