// Stores to every n-th element that fill each other's gaps become one dense store of their values, lane by lane in turn: what is
// left of an unrolled loop whose steps are neighbours in memory where those of the lanes are not.
#include "targets/lower/lowering.h"

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

// The dense store that the `n` statements from `first` on are together; undefined where they are not.
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

} // namespace

void interleave_stores(Lowering &l) { l.nest.body = Interleave().mutate(l.nest.body); }

} // namespace kumiko
