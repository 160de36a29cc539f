// The structure of an op that library schedules depend on: the stage that does the work, and the
// roles of its axes for its operands.
#pragma once

#include "dsl/reads.h"
#include "schedules/schedule.h"

namespace kumiko::library {

// One read of a tensor inside a product.
struct Operand {
    std::string tensor;
    std::vector<Expr> indices;
    std::set<std::string> axes; // axes that its indices use
};

// A sum of products of two tensors: matrix products, convolutions.
struct Contraction {
    const Stage *sum = nullptr;
    std::vector<Operand> operands; // two
    std::string consumer;          // its elementwise epilogue, an output or pooled; else ""
    std::string reader;            // an output that reads it at other indices; else ""
    std::string pool;              // a reduction over windows of its finished results; else ""
    std::string pool_end;          // the elementwise output stage after the pool, if any
    bool has(size_t operand, const std::string &axis) const { return operands[operand].axes.count(axis) != 0; }
};

// Those of the axes that the operand's indices use, in their order.
std::vector<std::string> axes_in(const Operand &o, const std::vector<std::string> &axes);

// Whether each index is an axis.
bool is_plain(const Operand &o);
// Whether each index is an axis or a constant, and the last one an axis.
bool is_slice(const Operand &o);

// The tensor to copy so that the copy's loops have the names of the stage's axes: the operand's own
// tensor if its axes have these names, or if some index is neither an axis nor a constant; else its
// reindexed view.
std::string tensor_by_axes(Schedule &s, const std::string &stage, const Operand &o);

// The op's contraction: exactly one sum, whose term is a product of two reads (through casts).
// Beyond it the op may have padding stages of its operands and one elementwise consumer. With
// `readers`, an output may instead read the sum at other indices, or a pool may follow. Nothing if
// the op has another structure.
std::optional<Contraction> find_contraction(const Op &op, bool readers = false);

// A contraction as a matrix product: its axes are batches, rows i, columns j, and the reduction k.
struct MatrixProduct {
    Contraction contraction;
    std::string i, j, k;
    std::vector<std::string> batches;
    Operand a, b; // operands of the rows and of the columns: two inputs
};

// nullopt if the op is not a matrix product.
std::optional<MatrixProduct> find_matrix_product(const Op &op);

// Whether `outer` and `inner` are adjacent and contiguous in every tensor read that uses them, so
// that the two loops can be fused into one.
bool are_fusible(const Op &op, const Stage &stage, const Axis &outer, const Axis &inner);

// Whether both stages have axes of the same names in the same order.
bool same_axes(const Stage &a, const Stage &b);

// For ops with more stages, checking each directive takes too long.
inline constexpr size_t most_stages = 64;

// The extent if it is constant; nothing if it is symbolic.
std::optional<int64_t> constant_extent(const Axis &axis);

// Whether a last block may be shifted inwards and recompute some elements: no stage updates a
// tensor in place.
bool tail_may_overlap(const Op &op);

// Lanes of the machine's vectors for a type, at least 1.
int vector_lanes(const Machine &machine, Type type);
// Lanes of the widest vectors, of at least 128 bits, that the extent fills; `lanes` if there are
// none.
int fitting_lanes(Type type, int lanes, std::optional<int64_t> extent);
// The number of one-vector accumulators that fit the registers, with room for operands.
int accumulator_registers(const Machine &machine);
// Accumulators of a tile of three or four vectors, that is 8 or 6 rows: as many as 32 registers
// hold beside the operands.
inline constexpr int wide_tile_registers = 24;
// Whether tiles can be as wide as high and still have enough rows to hide the instruction's
// latency.
bool has_wide_tiles(const Machine &machine);
// The number of vectors per tile, at most four, for which the last tile of `all` vectors wastes the
// fewest; the largest of several.
int64_t balanced_vectors(int64_t all);
int64_t threads_of(const Machine &machine); // the number of cores, at least 1
// Whether to distribute an op over cores: there are several, and it has enough steps, or an unknown
// number, to pay for waking them.
bool pays_to_share(const Op &op, const Machine &machine);
inline constexpr int64_t line_bytes = 64, page_bytes = 4096;
// Bytes of the memory level; `otherwise` if the machine does not have it or its size is unknown.
int64_t cache_bytes(const Machine &machine, const std::string &level, int64_t otherwise);
// Whether a load from L3 takes longer than out-of-order execution hides.
bool has_slow_l3(const Machine &machine);
// Whether rows of the stage begin within cache lines, its array exceeds a quarter of L1, and L3 is
// slow (decision 0063). Then a vector is stored as parts of two lines. The processor joins the
// parts of a line if they are stored one after the other.
bool stores_partial_lines(const Stage &stage, const Machine &machine);
// Bytes of a dense array over the axes from `first` on. An extent that is not known counts as
// `unknown`. With first = d + 1, the result is the distance between neighbouring elements along
// axis d.
int64_t bytes_of(Type type, const std::vector<Axis> &axes, size_t first, int64_t unknown);
// Whether two of `rows` addresses, each `distance` bytes after the one before, are in different
// pages at offsets within 256 bytes of each other. Such addresses share sets of L1.
bool conflict_in_l1(int64_t distance, int64_t rows);
// The smallest memory level behind L1 that has at least twice as many bytes; main memory if no
// cache is large enough.
std::string smallest_level(const Machine &machine, int64_t bytes);

// Whether the axis is the last index of some read of the stage, and no other index uses it. Indices
// that are not plain axes, apart from axes of one element, count as uses.
bool reads_along(const Stage &stage, const std::string &axis);

// Schedules the reduction of a row, along the stage's last reduction axis, in vectors of partial
// results that are reduced at the end. `at`: the loop at which a row is computed; if empty, the
// last pure one.
void reduce_row(Schedule &schedule, const std::string &stage, int lanes, int64_t accumulators,
                const std::string &at = "");

// Fuses adjacent loops into one, which is called `name` if there are several.
LoopName fused(StageHandle stage, const std::vector<LoopName> &loops, const std::string &name);

// The block size near `wish` that cuts `extent` into equal pieces, each a multiple of `unit` (the
// last may be smaller).
int64_t balanced_block(int64_t extent, int64_t wish, int64_t unit);
// The largest divisor of n that is at most `most`.
int64_t largest_divisor(int64_t n, int64_t most);

} // namespace kumiko::library
