// Stores with a stride that together fill neighbouring columns: their values are transposed in registers, and go to memory by rows.
//
// Store k of a run puts its lanes to X[base + k + stride * lane]: element k of each of n rows. So of the convolutions whose lanes are
// filters, which write a few pixels of as many planes.
#include "targets/cpu/codegen.h"
#include "targets/cpu/narrow_index.h"

#include <llvm/IR/Constants.h>

#include <bit>

namespace kumiko::cpu {

using namespace Halide::Internal;

namespace {

constexpr int fewest_lanes = 4, most_lanes = 64;

struct ColumnStore {
    const Store *store;
    const Ramp *ramp;
    int64_t place = 0; // of the column, from the first one's
};

// The arrays that the stores' values read.
std::set<std::string> arrays_read(const std::vector<const Store *> &stores) {
    struct Reads : IRVisitor {
        using IRVisitor::visit;
        std::set<std::string> names;
        void visit(const Load *op) override {
            names.insert(op->name);
            IRVisitor::visit(op);
        }
    } reads;
    for (const Store *s : stores) {
        s->value.accept(&reads);
        s->index.accept(&reads);
    }
    return std::move(reads.names);
}

} // namespace

// Stores the run's columns by rows, and says which those were. Nothing that the run stores may be read in it, so that its order
// does not matter.
std::set<const Store *> Codegen::store_by_rows(const std::vector<const Store *> &run) {
    const std::set<std::string> read = arrays_read(run);
    std::vector<std::vector<ColumnStore>> groups; // of the same rows
    for (const Store *s : run) {
        const auto *r = s->index.as<Ramp>();
        const Array *array = arrays_.find(s->name);
        const auto stride = r ? as_const_int(r->stride) : std::nullopt;
        const bool far = r && (!stride || *stride > most_lanes || *stride < -most_lanes);
        if (!far || !array || array->in_registers || read.count(s->name) || !is_const_one(s->predicate) ||
            !r->base.type().is_scalar() || r->lanes < fewest_lanes || r->lanes > most_lanes ||
            !std::has_single_bit(uint64_t(r->lanes)) || s->value.type().bits() < 8)
            continue;
        ColumnStore c{s, r};
        const auto same = std::find_if(groups.begin(), groups.end(), [&](const std::vector<ColumnStore> &g) {
            if (g[0].store->name != s->name || g[0].store->value.type() != s->value.type() ||
                !equal(g[0].ramp->stride, r->stride))
                return false;
            const auto place = as_const_int(simplify(narrow_index(r->base) - narrow_index(g[0].ramp->base)));
            c.place = place.value_or(0);
            return place.has_value();
        });
        if (same == groups.end())
            groups.push_back({c});
        else
            same->push_back(c);
    }
    std::set<const Store *> done;
    for (std::vector<ColumnStore> &g : groups) {
        std::stable_sort(g.begin(), g.end(),
                         [](const ColumnStore &a, const ColumnStore &b) { return a.place < b.place; });
        const Type t = g[0].store->value.type();
        const size_t most = size_t(std::max(2, native_lanes(t)));
        for (size_t first = 0; first < g.size();) {
            size_t end = first + 1;
            while (end < g.size() && end - first < most && g[end].place == g[end - 1].place + 1) end++;
            if (end - first >= 2) {
                std::vector<const Store *> columns;
                for (size_t k = first; k < end; k++) columns.push_back(g[k].store), done.insert(g[k].store);
                store_columns(columns, g[first].ramp);
            }
            first = end;
        }
    }
    return done;
}

// Neighbouring columns, the first at `at`.
void Codegen::store_columns(const std::vector<const Store *> &columns, const Ramp *at) {
    const Store *first = columns[0];
    const Type t = first->value.type();
    const Array &array = *arrays_.find(first->name);
    std::vector<Value *> values;
    for (const Store *s : columns) values.push_back(value(s->value));
    const size_t count = std::bit_ceil(values.size());
    values.resize(count, llvm::PoisonValue::get(values[0]->getType()));
    Value *base = index(at->base), *stride = index(at->stride);
    const std::vector<Value *> rows = transposed(values);
    for (int r = 0; r < t.lanes(); r++) {
        Value *place = ir_.CreateNSWAdd(base, ir_.CreateNSWMul(stride, i64(r)));
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
