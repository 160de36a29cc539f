#include "dsl/top_k.h"

#include "dsl/stage_builder.h"
#include "support/error.h"

#include <fmt/format.h>

namespace kumiko {

using namespace Halide::Internal;

namespace {

constexpr int nowhere = INT32_MAX; // after every position

struct Entry {
    Expr value, position;
};

// Nothing is before an entry that stands nowhere and has the lowest value: such comparisons fold to false.
Expr is_before(const Entry &a, const Entry &b) {
    return a.value > b.value || (a.value == b.value && a.position < b.position);
}
Entry choose(const Expr &condition, const Entry &a, const Entry &b) {
    return {select(condition, a.value, b.value), select(condition, a.position, b.position)};
}
Entry first_of(const Entry &a, const Entry &b) { return choose(is_before(b, a), b, a); }
Entry last_of(const Entry &a, const Entry &b) { return choose(is_before(b, a), a, b); }

// In pairs, so that the expression is as deep as the logarithm of their number.
Entry first_of(std::vector<Entry> entries) {
    while (entries.size() > 1) {
        std::vector<Entry> next;
        for (size_t n = 0; n + 1 < entries.size(); n += 2) next.push_back(first_of(entries[n], entries[n + 1]));
        if (entries.size() % 2) next.push_back(entries.back());
        entries = std::move(next);
    }
    return entries[0];
}

// Of two sorted lists the first k: number j is at a[j], or the later of a[n − 1] and b[j − n], the first of these.
Values merged(const Values &a, const Values &b) {
    const size_t k = a.size() / 2;
    const auto at = [&](const Values &list, size_t n) { return Entry{list[n], list[k + n]}; };
    Values result(2 * k);
    for (size_t j = 0; j < k; j++) {
        std::vector<Entry> candidates = {at(a, j)};
        for (size_t n = j; n > 0; n--) candidates.push_back(last_of(at(a, n - 1), at(b, j - n)));
        candidates.push_back(at(b, j));
        const Entry e = first_of(std::move(candidates));
        result[j] = e.value, result[k + j] = e.position;
    }
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
    std::vector<Element> results;
    for (size_t n = 0; n < 2 * parts; n++) {
        const Element part = all[n];
        results.push_back(n < parts ? part : Element(select(part == nowhere, -1, Expr(part)), where));
    }
    return Tuple(results);
}

} // namespace kumiko
