// Products of tiles in tile registers: operands shared by neighbouring products are loaded once,
// and accumulators stay in registers across a loop.
//
//   for k: { c0 += a·b0; c1 += a·b1 }     c0, c1, a, b0, b1 in memory
// becomes
//   t0 = c0, t1 = c1; for k: { x = a; t0 += x·b0; t1 += x·b1 }; c0 = t0, c1 = t1
//
// A stage writes each element of its result in one place only, so the accumulators of consecutive
// instructions are either the same tile or disjoint. Which of the two must be provable from their
// addresses; otherwise each instruction is emitted by itself.
#include "targets/cpu/statements.h"

#include "targets/lower/extern_calls.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

namespace kumiko::cpu {

using namespace Halide::Internal;

namespace {

// An index in expanded form: a sum of products of atoms, each with a constant factor. Simplified
// indices keep factors in front of sums, in which equal tiles and neighbouring tiles look
// different.
class Polynomial {
public:
    explicit Polynomial(const Expr &e) {
        if (const auto *c = e.as<Cast>()) {
            terms_ = Polynomial(c->value).terms_;
        } else if (const auto n = as_const_int(e)) {
            add({}, *n);
        } else if (const auto *op = e.as<Add>()) {
            *this = Polynomial(op->a).plus(Polynomial(op->b), 1);
        } else if (const auto *op = e.as<Sub>()) {
            *this = Polynomial(op->a).plus(Polynomial(op->b), -1);
        } else if (const auto *op = e.as<Mul>()) {
            const Polynomial a(op->a), b(op->b);
            for (const auto &[x, n] : a.terms_) {
                for (const auto &[y, m] : b.terms_) {
                    std::vector<std::string> both = x;
                    both.insert(both.end(), y.begin(), y.end());
                    std::sort(both.begin(), both.end());
                    add(both, n * m);
                }
            }
        } else {
            std::ostringstream text;
            text << e;
            add({text.str()}, 1);
        }
    }
    Polynomial plus(const Polynomial &other, int64_t times) const {
        Polynomial sum = *this;
        for (const auto &[factors, n] : other.terms_) sum.add(factors, n * times);
        return sum;
    }
    bool is_zero() const { return terms_.empty(); }
    // The n for which this equals n times `other`, if there is one.
    std::optional<int64_t> times(const Polynomial &other) const {
        if (is_zero()) return 0;
        const auto &[factors, n] = *terms_.begin();
        const auto same = other.terms_.find(factors);
        if (same == other.terms_.end() || n % same->second || !plus(other, -(n / same->second)).is_zero())
            return std::nullopt;
        return n / same->second;
    }
    bool is_number() const { return terms_.empty() || (terms_.size() == 1 && terms_.begin()->first.empty()); }

private:
    std::map<std::vector<std::string>, int64_t> terms_;

    void add(const std::vector<std::string> &factors, int64_t n) {
        if ((terms_[factors] += n) == 0) terms_.erase(factors);
    }
};

// Whether two places of one array are the same; nullopt if unknown.
std::optional<bool> same_place(const TileOperand &x, const TileOperand &y) {
    if (x.element->name != y.element->name) return false;
    const int64_t bytes = x.element->type.bytes();
    const Polynomial apart =
        Polynomial(x.element->index * Expr(int(bytes))).plus(Polynomial(y.element->index * Expr(int(bytes))), -1);
    if (apart.is_number()) return apart.is_zero();
    // A few tiles above or below are different places, whatever the row stride is.
    const Polynomial row(x.row);
    if (!row.plus(Polynomial(y.row), -1).is_zero()) return std::nullopt;
    for (int64_t tiles = -8; tiles <= 8; tiles++) {
        if (tiles != 0 && apart.plus(row, tiles * TileProduct::rows).is_number()) return false;
    }
    return std::nullopt;
}

TileOperand operand(const Call *op, size_t n) {
    const auto *address = op->args[n].as<Call>();
    return {address->args[0].as<Load>(), op->args[n + 1]};
}

} // namespace

std::optional<TileProduct> Statements::tile_product(const Stmt &s) const {
    const auto *evaluate = s.as<Evaluate>();
    const auto *op = evaluate ? evaluate->value.as<Call>() : nullptr;
    if (!op || !op->name.starts_with(instruction_prefix)) return std::nullopt;
    const TileEmitter *tiles = emission(op->name.substr(instruction_prefix.size())).tiles;
    if (!tiles) return std::nullopt;
    return TileProduct{tiles, operand(op, 0), operand(op, 2), operand(op, 4)};
}

// The products at the start of the statements from `first` on, as long as all accumulators fit the
// registers and two registers remain for operands.
TileGroup Statements::tile_group(const std::vector<Stmt> &all, size_t first) const {
    TileGroup g;
    for (size_t i = first; i < all.size(); i++) {
        const auto p = tile_product(all[i]);
        if (!p || (!g.products.empty() && p->emitter != g.products[0].emitter)) break;
        size_t at = g.sums.size();
        bool known = true;
        for (size_t n = 0; n < g.sums.size() && known; n++) {
            const auto same = same_place(p->c, g.sums[n]);
            known = same.has_value();
            if (known && *same) at = n;
        }
        const bool reads_sums = std::any_of(g.products.begin(), g.products.end(), [&](const TileProduct &other) {
            const std::string &c = p->c.element->name, &sum = other.c.element->name;
            return p->a.element->name == sum || p->b.element->name == sum || other.a.element->name == c ||
                   other.b.element->name == c;
        });
        if (!known || reads_sums || p->a.element->name == p->c.element->name ||
            p->b.element->name == p->c.element->name)
            break;
        if (at == g.sums.size()) {
            if (static_cast<int>(at) + 3 > p->emitter->registers) break;
            g.sums.push_back(p->c);
        }
        g.products.push_back(*p);
        g.sum_of.push_back(at);
    }
    return g;
}

std::vector<Value *> Statements::load_sums(const TileGroup &g) {
    std::vector<Value *> sums;
    for (const TileOperand &c : g.sums)
        sums.push_back(g.products[0].emitter->load(ir_, address_of(c.element), value(c.row)));
    return sums;
}

std::vector<Value *> Statements::multiply_tiles(const TileGroup &g, std::vector<Value *> sums) {
    std::vector<std::pair<const TileOperand *, Value *>> at_hand;
    const auto load = [&](const TileOperand &o) {
        for (const auto &[other, v] : at_hand) {
            if (equal(other->element, o.element) && equal(other->row, o.row)) return v;
        }
        Value *v = g.products[0].emitter->load(ir_, address_of(o.element), value(o.row));
        at_hand.emplace_back(&o, v);
        return v;
    };
    for (size_t i = 0; i < g.products.size(); i++) {
        const TileProduct &p = g.products[i];
        Value *a = load(p.a), *b = load(p.b);
        sums[g.sum_of[i]] = p.emitter->multiply(ir_, sums[g.sum_of[i]], a, b);
    }
    return sums;
}

void Statements::store_sums(const TileGroup &g, const std::vector<Value *> &sums) {
    for (size_t n = 0; n < sums.size(); n++)
        g.products[0].emitter->store(ir_, address_of(g.sums[n].element), value(g.sums[n].row), sums[n]);
}

// The products of a loop whose body contains nothing else and whose accumulators do not change with
// the loop; empty for any other loop.
TileGroup Statements::tile_loop(const For *op) const {
    const std::vector<Stmt> all = statements_of(op->body);
    const TileGroup g = tile_group(all, 0);
    if (g.products.size() != all.size()) return {};
    for (const TileOperand &c : g.sums) {
        if (expr_uses_var(c.element->index, op->name) || expr_uses_var(c.row, op->name)) return {};
    }
    return g;
}

void Statements::multiply_in_loop(const For *op, const TileGroup &g, const std::vector<Value *> &sums) {
    store_sums(g, loop(op, sums, [&](const std::vector<Value *> &before) { return multiply_tiles(g, before); }));
}

// True when the stores write zeros to all rows of all sums, and nothing else.
bool Statements::clears(const std::vector<const Store *> &stores, const TileGroup &g) const {
    if (stores.size() != g.sums.size() * TileProduct::rows) return false;
    std::set<std::pair<size_t, int64_t>> cleared; // sums and their rows
    for (const Store *store : stores) {
        const auto *at = store->index.as<Ramp>();
        const Type type = store->value.type();
        if (!at || !is_const_one(at->stride) || type.bytes() * type.lanes() != TileProduct::row_bytes ||
            !is_const_one(store->predicate))
            return false;
        const Expr element_bytes = type.bytes();
        const Polynomial place(at->base * element_bytes);
        const auto found = std::find_if(g.sums.begin(), g.sums.end(), [&](const TileOperand &c) {
            if (c.element->name != store->name) return false;
            const auto row = place.plus(Polynomial(c.element->index * element_bytes), -1).times(Polynomial(c.row));
            return row && *row >= 0 && *row < TileProduct::rows && cleared.emplace(&c - g.sums.data(), *row).second;
        });
        if (found == g.sums.end()) return false;
    }
    return true;
}

// Products that follow stores of zeros to their accumulators: the tiles are cleared in registers,
// and memory is written once, at the end. Returns the number of statements covered; 0 if the first
// ones are something else.
size_t Statements::cleared_tiles(const std::vector<Stmt> &all, size_t first) {
    std::vector<const Store *> stores;
    size_t next = first;
    for (; next < all.size(); next++) {
        const auto *store = all[next].as<Store>();
        if (!store || store->value.type().is_scalar() || !is_const_zero(store->value)) break;
        stores.push_back(store);
    }
    if (stores.empty() || next == all.size()) return 0;
    const auto *op = all[next].as<For>();
    if (op && op->for_type != ForType::Serial) return 0;
    const TileGroup g = op ? tile_loop(op) : tile_group(all, next);
    if (g.products.empty() || !g.products[0].emitter->zero || !clears(stores, g)) return 0;
    std::vector<Value *> sums;
    for (size_t n = 0; n < g.sums.size(); n++) sums.push_back(g.products[0].emitter->zero(ir_));
    if (op)
        multiply_in_loop(op, g, sums);
    else
        store_sums(g, multiply_tiles(g, sums));
    return next - first + (op ? 1 : g.products.size());
}

} // namespace kumiko::cpu
