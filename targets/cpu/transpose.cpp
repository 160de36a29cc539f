// Strided loads of neighbouring columns by consecutive stores: rows are loaded dense and transposed
// in registers.
//
// Store k of a run takes element k of each of n rows, X[base + k + stride * lane]. Together the
// stores read blocks of the rows that are dense. So the rows are loaded and shuffled into columns,
// instead of a gather for each store.
#include "targets/cpu/neighbours.h"
#include "targets/cpu/statements.h"

#include <llvm/IR/Constants.h>

#include <bit>

namespace kumiko::cpu {

using namespace Halide::Internal;

namespace {

constexpr int most_rows = 64;

// A load of one element from each of several rows.
struct Column {
    const Load *load;
    const Ramp *ramp;
    int64_t place = 0; // of its elements, relative to the first column's
};

// The ramp of a load that is a column of distant rows; null for others. Near rows are loaded dense
// and shuffled.
const Ramp *column_of(const Load *op) {
    const auto *r = op->index.as<Ramp>();
    const bool all = !op->predicate.defined() || is_const_one(op->predicate);
    const auto stride = r ? as_const_int(r->stride) : std::nullopt;
    const bool far = r && (!stride || *stride > 4 || *stride < -4);
    return all && far && r->base.type().is_scalar() && std::has_single_bit(unsigned(r->lanes)) && r->lanes <= most_rows
               ? r
               : nullptr;
}

// The lanes of a and b interleaved, from the first or the second half of each segment.
std::vector<int> deinterleaved(int lanes, int segment, bool second) {
    std::vector<int> taken;
    for (int from = 0; from < lanes; from += segment) {
        for (int i = 0; i < segment / 2; i++) {
            const int lane = from + i + (second ? segment / 2 : 0);
            taken.push_back(lane);
            taken.push_back(lanes + lane);
        }
    }
    return taken;
}

// Concatenated segments of `width` lanes, numbered through both shuffled registers.
std::vector<int> segments(std::initializer_list<int> which, int width) {
    std::vector<int> taken;
    for (int s : which) {
        for (int i = 0; i < width; i++) taken.push_back(s * width + i);
    }
    return taken;
}

} // namespace

// Column k of the rows, for each k. Rows and their lanes are powers of two.
//
// First, squares whose side is one 128-bit segment are transposed in log2 steps, each interleaving
// a row with the one half a square away. A segment then holds a column of these rows, and the
// segments of all squares are concatenated.
std::vector<Value *> Vectors::transposed(const std::vector<Value *> &rows) {
    const int count = int(rows.size()), width = lanes(rows[0]);
    const int bits = int(rows[0]->getType()->getScalarSizeInBits());
    const int side = std::min({count, width, std::max(2, 128 / bits)}), across = width / side;
    std::vector<std::vector<Value *>> squares;
    for (int first = 0; first < count; first += side) {
        std::vector<Value *> now(rows.begin() + first, rows.begin() + first + side);
        for (int step = 1; step < side; step *= 2) {
            std::vector<Value *> next;
            for (int i = 0; i < side / 2; i++) {
                for (const bool second : {false, true})
                    next.push_back(
                        ir_.CreateShuffleVector(now[i], now[i + side / 2], deinterleaved(width, side, second)));
            }
            now = std::move(next);
        }
        squares.push_back(now);
    }
    std::vector<Value *> columns(width);
    for (int k = 0; k < side; k++) {
        std::vector<std::vector<Value *>> parts(across); // of the columns k, k + side, …
        size_t done = 0;
        for (; across == 4 && done + 4 <= squares.size(); done += 4) {
            Value *a = squares[done][k], *b = squares[done + 1][k], *c = squares[done + 2][k],
                  *d = squares[done + 3][k];
            for (int half = 0; half < 2; half++) {
                const auto halves = segments({2 * half, 2 * half + 1, 4 + 2 * half, 5 + 2 * half}, side);
                Value *ab = ir_.CreateShuffleVector(a, b, halves), *cd = ir_.CreateShuffleVector(c, d, halves);
                parts[2 * half].push_back(ir_.CreateShuffleVector(ab, cd, segments({0, 2, 4, 6}, side)));
                parts[2 * half + 1].push_back(ir_.CreateShuffleVector(ab, cd, segments({1, 3, 5, 7}, side)));
            }
        }
        for (; across == 2 && done + 2 <= squares.size(); done += 2) {
            Value *a = squares[done][k], *b = squares[done + 1][k];
            parts[0].push_back(ir_.CreateShuffleVector(a, b, segments({0, 2}, side)));
            parts[1].push_back(ir_.CreateShuffleVector(a, b, segments({1, 3}, side)));
        }
        for (; done < squares.size(); done++) {
            for (int q = 0; q < across; q++) parts[q].push_back(slice(squares[done][k], q * side, side));
        }
        for (int q = 0; q < across; q++) columns[q * side + k] = concat(parts[q]);
    }
    return columns;
}

// Emits the rows that these stores read by columns, and keeps the columns for load().
void Statements::transpose_loads(const std::vector<const Store *> &stores) {
    std::vector<Column> all;
    std::set<std::string> stored;
    for (const Store *s : stores) stored.insert(s->name);
    for (const Store *s : stores) {
        if (!is_const_one(s->predicate)) return;
        for_each_certain_load(s->value, [&](const Load *op) {
            const Array *array = arrays_.find(op->name);
            const Ramp *ramp = column_of(op);
            if (ramp && array && !array->in_registers && !stored.count(op->name)) all.push_back({op, ramp});
        });
    }
    const auto alike = [](const Column &a, const Column &b) {
        return a.load->name == b.load->name && a.load->type == b.load->type && equal(a.ramp->stride, b.ramp->stride);
    };
    for (const std::vector<Column> &g : neighbours(all, alike)) {
        const Type loaded = g[0].load->type,
                   t = loaded.is_bool() ? UInt(8, loaded.lanes()) : loaded; // as memory has it
        const int most = std::max(2, 2 * native_lanes(t));
        for (size_t first = 0; first < g.size();) {
            size_t end = first + 1; // neighbouring columns, which several loads may read
            while (end < g.size() && g[end].place - g[end - 1].place <= 1 && g[end].place - g[first].place < most)
                end++;
            int64_t place = g[first].place;
            int width = int(std::bit_floor(uint64_t(g[end - 1].place - place + 1)));
            if (width < 2 && first > 0 && place - g[first - 1].place <= 1) // one that is left
                place = g[first - 1].place, width = 2;
            if (width < 2) {
                first = end;
                continue;
            }
            const Array &array = *arrays_.find(g[first].load->name);
            Value *base = ir_.CreateNSWAdd(index(g[first].ramp->base), i64(place - g[first].place));
            Value *stride = index(g[first].ramp->stride);
            std::vector<Value *> rows;
            for (int r = 0; r < t.lanes(); r++)
                rows.push_back(load_dense(array, g[first].load->name, t.with_lanes(width),
                                          ir_.CreateNSWAdd(base, ir_.CreateNSWMul(stride, i64(r))), nullptr,
                                          unsigned(t.bytes())));
            std::vector<Value *> columns = transposed(rows);
            for (Value *&c : columns) c = from_memory(c, loaded);
            for (; first < g.size() && g[first].place - place < width; first++)
                transposed_[g[first].load] = columns[size_t(g[first].place - place)];
        }
    }
}

} // namespace kumiko::cpu
