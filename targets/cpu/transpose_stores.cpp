// Strided stores that together fill neighbouring columns: their values are transposed in registers
// and stored by rows.
//
// Store k of a run stores its lanes to X[base + k + stride * lane]: element k of each of n rows.
// Convolutions vectorized over filters do this: they write a few pixels of many planes. So do
// records, such as matrices of 3×3, that are vectorized over their number. Stores of up to eight
// columns that fill their rows are one dense store already (targets/lower/interleave.cpp).
#include "targets/cpu/neighbours.h"
#include "targets/cpu/statements.h"

#include <llvm/IR/Constants.h>

#include <bit>

namespace kumiko::cpu {

using namespace Halide::Internal;

namespace {

constexpr int fewest_lanes = 4, most_lanes = 64, fewest_apart = 9;

struct ColumnStore {
    const Store *store;
    const Ramp *ramp;
    size_t at;         // in the run
    int64_t place = 0; // of the column, relative to the first one
};

// The arrays that a store's value and index read.
std::set<std::string> arrays_read(const Store *s) {
    struct Reads : IRVisitor {
        using IRVisitor::visit;
        std::set<std::string> names;
        void visit(const Load *op) override {
            names.insert(op->name);
            IRVisitor::visit(op);
        }
    } reads;
    s->value.accept(&reads);
    s->index.accept(&reads);
    return std::move(reads.names);
}

using Columns = std::vector<ColumnStore>;

// Whether all columns may be stored at the position of the last one. The stores between must not
// write what the columns read, must not read what they write, and must write other elements of
// their array, as `all` columns of the same rows show.
bool may_wait(const Columns &columns, const Columns &all, const std::vector<const Store *> &run,
              const std::vector<std::set<std::string>> &reads) {
    size_t first = run.size(), last = 0;
    for (const ColumnStore &c : columns) first = std::min(first, c.at), last = std::max(last, c.at);
    const std::string &name = columns[0].store->name;
    std::set<int64_t> places;
    for (size_t i = first; i <= last; i++) {
        if (reads[i].count(name)) return false;
        for (const ColumnStore &c : columns) {
            if (reads[c.at].count(run[i]->name)) return false;
        }
        if (run[i]->name != name) continue;
        const auto known =
            std::find_if(all.begin(), all.end(), [&](const ColumnStore &c) { return c.store == run[i]; });
        if (known == all.end() || !places.insert(known->place).second) return false;
    }
    return true;
}

} // namespace

// The run's columns that are stored by rows, keyed by the last store of each list, at whose
// position they are emitted.
std::map<const Store *, std::vector<const Store *>> Statements::stores_by_rows(const std::vector<const Store *> &run) {
    std::vector<std::set<std::string>> reads;
    for (const Store *s : run) reads.push_back(arrays_read(s));
    Columns all;
    for (size_t i = 0; i < run.size(); i++) {
        const Store *s = run[i];
        const auto *r = s->index.as<Ramp>();
        const Array *array = arrays_.find(s->name);
        const auto stride = r ? as_const_int(r->stride) : std::nullopt;
        const bool far = r && (!stride || *stride >= fewest_apart || *stride <= -fewest_apart);
        if (!far || !array || array->in_registers || !is_const_one(s->predicate) || !r->base.type().is_scalar() ||
            r->lanes < fewest_lanes || r->lanes > most_lanes || !std::has_single_bit(uint64_t(r->lanes)) ||
            s->value.type().bits() < 8)
            continue;
        all.push_back({s, r, i});
    }
    const auto alike = [](const ColumnStore &a, const ColumnStore &b) {
        return a.store->name == b.store->name && a.store->value.type() == b.store->value.type() &&
               equal(a.ramp->stride, b.ramp->stride);
    };
    std::map<const Store *, std::vector<const Store *>> found;
    for (const Columns &g : neighbours(all, alike)) {
        const size_t most = size_t(std::max(2, native_lanes(g[0].store->value.type())));
        for (size_t first = 0, end; first < g.size(); first = end) {
            end = first + 1;
            while (end < g.size() && end - first < most && g[end].place == g[end - 1].place + 1) end++;
            const Columns columns(g.begin() + first, g.begin() + end);
            if (columns.size() < 2 || !may_wait(columns, g, run, reads)) continue;
            std::vector<const Store *> stores;
            const ColumnStore *last = &columns[0];
            for (const ColumnStore &c : columns) {
                stores.push_back(c.store);
                if (c.at > last->at) last = &c;
            }
            found[last->store] = stores;
        }
    }
    return found;
}

// Neighbouring columns, in order. If they fill their rows, a row is stored as a whole vector: the
// next row overwrites the lanes beyond it.
void Statements::store_columns(const std::vector<const Store *> &columns) {
    const Store *first = columns[0];
    const Ramp *at = first->index.as<Ramp>();
    const Type t = first->value.type();
    const Array &array = *arrays_.find(first->name);
    std::vector<Value *> values;
    for (const Store *s : columns) values.push_back(value(s->value));
    const size_t count = std::bit_ceil(values.size());
    values.resize(count, llvm::PoisonValue::get(values[0]->getType()));
    Value *base = index(at->base), *stride = index(at->stride);
    const std::vector<Value *> rows = transposed(values);
    const int64_t row = int64_t(columns.size()), lanes = int64_t(t.lanes());
    const bool fill = as_const_int(at->stride) == row;
    for (int r = 0; r < t.lanes(); r++) {
        Value *place = ir_.CreateNSWAdd(base, ir_.CreateNSWMul(stride, i64(r)));
        if (fill && r * row + int64_t(count) <= lanes * row) {
            store_dense(array, first->name, t.with_lanes(int(count)), place, rows[size_t(r)], nullptr,
                        unsigned(t.bytes()));
            continue;
        }
        for (size_t from = 0; from < columns.size();) { // in pieces of a power of two
            const int width = int(std::bit_floor(columns.size() - from));
            Value *piece = width == int(count) ? rows[size_t(r)] : slice(rows[size_t(r)], int(from), width);
            store_dense(array, first->name, t.with_lanes(width), ir_.CreateNSWAdd(place, i64(int64_t(from))), piece,
                        nullptr, unsigned(t.bytes()));
            from += size_t(width);
        }
    }
}

} // namespace kumiko::cpu
