// Three passes over stores that follow each other.
//
// group_stores: sorts consecutive stores by array if none of them reads an array that they write.
// The unrolled copies of several stages in one nest alternate between their arrays. A processor
// joins the parts of a cache line only if consecutive stores write them.
//
// interleave_stores: n strided stores that fill each other's gaps become one dense store of their
// interleaved values. Such stores come from an unrolled loop that is contiguous in memory around
// vector lanes that are not.
//
// join_stores: two stores of less than a vector to neighbouring elements become one store. Such
// stores come from two unrolled copies of a block that are neighbours in a row.
#include "targets/lower/lowering.h"

#include <algorithm>
#include <map>
#include <sstream>

namespace kumiko {

using namespace Halide::Internal;

namespace {

constexpr int most_together = 8;

// A store to every n-th element.
struct Strided {
    const Store *store;
    Expr base;
    int64_t stride;
};

std::optional<Strided> strided(const Stmt &s) {
    const Store *store = s.as<Store>();
    if (!store || !is_const_one(store->predicate)) return std::nullopt;
    const Ramp *r = store->index.as<Ramp>();
    if (!r || !r->base.type().is_scalar()) return std::nullopt;
    const auto stride = as_const_int(r->stride);
    if (!stride || *stride < 2 || *stride > most_together) return std::nullopt;
    return Strided{store, r->base, *stride};
}

bool reads(const Expr &e, const std::string &array) {
    struct Find : IRGraphVisitor {
        using IRGraphVisitor::visit;
        const std::string *array;
        bool found = false;
        void visit(const Load *op) override {
            found = found || op->name == *array;
            IRGraphVisitor::visit(op);
        }
    } find;
    find.array = &array;
    e.accept(&find);
    return find.found;
}

void flatten(const Stmt &s, std::vector<Stmt> &all) {
    if (const Block *b = s.as<Block>()) {
        flatten(b->first, all);
        flatten(b->rest, all);
    } else {
        all.push_back(s);
    }
}

// The dense store that is equivalent to the `n` statements from `first` on; undefined if there is
// none.
Stmt together(const std::vector<Stmt> &all, size_t first, const Strided &s) {
    const size_t n = size_t(s.stride);
    if (first + n > all.size()) return Stmt();
    std::vector<Expr> values;
    for (size_t k = 0; k < n; k++) {
        const auto next = strided(all[first + k]);
        if (!next || next->store->name != s.store->name || next->stride != s.stride ||
            next->store->value.type() != s.store->value.type() || reads(next->store->value, s.store->name) ||
            !is_const(simplify(next->base - s.base), static_cast<int64_t>(k)))
            return Stmt();
        values.push_back(next->store->value);
    }
    const int lanes = s.store->value.type().lanes() * static_cast<int>(n);
    return Store::make(s.store->name, Shuffle::make_interleave(values),
                       Ramp::make(s.base, make_one(s.base.type()), lanes), s.store->param, const_true(lanes),
                       ModulusRemainder());
}

class Interleave : public IRMutator {
    using IRMutator::visit;

    Stmt visit(const Block *op) override {
        std::vector<Stmt> all, made;
        flatten(op, all);
        for (Stmt &s : all) s = mutate(s);
        for (size_t i = 0; i < all.size();) {
            const auto s = strided(all[i]);
            const Stmt one = s ? together(all, i, *s) : Stmt();
            made.push_back(one.defined() ? one : all[i]);
            i += one.defined() ? size_t(s->stride) : 1;
        }
        return Block::make(made);
    }
};

class GroupStores : public IRMutator {
    using IRMutator::visit;
    using Iterator = std::vector<Stmt>::iterator;

    Stmt visit(const Block *op) override {
        std::vector<Stmt> all;
        flatten(op, all);
        for (Stmt &s : all) s = mutate(s);
        const auto is_store = [](const Stmt &s) { return s.as<Store>() != nullptr; };
        for (auto first = all.begin(); first != all.end();) {
            const auto end = std::find_if_not(first, all.end(), is_store);
            group(first, end);
            first = end == all.end() ? end : end + 1;
        }
        return Block::make(all);
    }

    static void group(Iterator first, Iterator end) {
        std::map<std::string, size_t> number; // the arrays, numbered by first occurrence
        for (auto s = first; s != end; ++s) number.emplace(s->as<Store>()->name, number.size());
        if (number.size() < 2 || number.size() == size_t(end - first)) return;
        for (auto s = first; s != end; ++s) {
            const Store *store = s->as<Store>();
            for (const Expr &e : {store->value, store->index, store->predicate}) {
                for (const auto &array : number) {
                    if (reads(e, array.first)) return;
                }
            }
        }
        std::stable_sort(first, end, [&](const Stmt &a, const Stmt &b) {
            return number.at(a.as<Store>()->name) < number.at(b.as<Store>()->name);
        });
    }
};

// A store of dense lanes to <place> + <offset>.
struct Dense {
    const Store *store;
    std::string place;
    int64_t offset;
    int lanes() const { return store->value.type().lanes(); }
};

std::optional<Dense> dense(const Stmt &s) {
    const Store *store = s.as<Store>();
    if (!store || !is_const_one(store->predicate)) return std::nullopt;
    const Ramp *r = store->index.as<Ramp>();
    if (!r || !r->base.type().is_scalar() || !is_const_one(r->stride)) return std::nullopt;
    Expr rest = r->base;
    int64_t offset = 0;
    if (const auto n = as_const_int(rest)) {
        rest = 0, offset = *n;
    } else if (const Add *sum = rest.as<Add>()) {
        if (const auto n = as_const_int(sum->b)) rest = sum->a, offset = *n;
    }
    std::ostringstream place;
    place << rest;
    return Dense{store, place.str(), offset};
}

class JoinStores : public IRMutator {
public:
    explicit JoinStores(int vector_bits) : vector_bits_(vector_bits) {}

private:
    using IRMutator::visit;
    int vector_bits_;

    bool is_narrow(const Dense &d) const { return 2 * d.store->value.type().bits() * d.lanes() <= vector_bits_; }

    // Joins stores to one array at constant distances, none of which reads it. Their order is free
    // if they do not overlap.
    std::vector<Stmt> joined(const std::vector<Dense> &run) const {
        std::map<int64_t, Dense> by_offset;
        for (const Dense &d : run) by_offset.emplace(d.offset, d);
        std::vector<Stmt> made;
        if (by_offset.size() < run.size()) return made;
        for (auto at = by_offset.begin(); at != by_offset.end(); ++at) {
            const Dense &d = at->second;
            const auto next = std::next(at);
            if (next != by_offset.end() && next->first < d.offset + d.lanes()) return {};
            if (next == by_offset.end() || next->first != d.offset + d.lanes() || next->second.lanes() != d.lanes()) {
                made.push_back(d.store);
                continue;
            }
            const Ramp *r = d.store->index.as<Ramp>();
            made.push_back(Store::make(d.store->name, concatenated(d.store->value, next->second.store->value),
                                       Ramp::make(r->base, r->stride, 2 * r->lanes), d.store->param,
                                       const_true(2 * r->lanes), ModulusRemainder()));
            at = next;
        }
        return made.size() < run.size() ? made : std::vector<Stmt>();
    }

    // Concatenates two expressions; element-wise operations are applied after concatenation.
    static Expr concatenated(const Expr &a, const Expr &b) {
        const Cast *x = a.as<Cast>(), *y = b.as<Cast>();
        if (x && y && x->value.type() == y->value.type())
            return Cast::make(a.type().with_lanes(2 * a.type().lanes()), concatenated(x->value, y->value));
        return Shuffle::make_concat({a, b});
    }

    Stmt visit(const Block *op) override {
        std::vector<Stmt> all, made;
        flatten(op, all);
        for (Stmt &s : all) s = mutate(s);
        for (size_t i = 0; i < all.size();) {
            std::vector<Dense> run;
            for (size_t n = i; n < all.size(); n++) {
                const auto d = dense(all[n]);
                if (!d || !is_narrow(*d) || reads(d->store->value, d->store->name)) break;
                if (!run.empty() && (d->store->name != run[0].store->name || d->place != run[0].place ||
                                     d->store->value.type() != run[0].store->value.type()))
                    break;
                run.push_back(*d);
            }
            const std::vector<Stmt> together = run.size() > 1 ? joined(run) : std::vector<Stmt>();
            if (together.empty()) {
                made.push_back(all[i++]);
            } else {
                made.insert(made.end(), together.begin(), together.end());
                i += run.size();
            }
        }
        return Block::make(made);
    }
};

} // namespace

void interleave_stores(Lowering &l) { l.nest.body = Interleave().mutate(l.nest.body); }

void group_stores(Lowering &l) { l.nest.body = GroupStores().mutate(l.nest.body); }

void join_stores(Lowering &l) {
    if (l.state.machine && l.state.machine->vector_bits > 0)
        l.nest.body = JoinStores(l.state.machine->vector_bits).mutate(l.nest.body);
}

} // namespace kumiko
