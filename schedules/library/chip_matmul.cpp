#include "schedules/library/chip_matmul.h"

#include "dsl/types.h"
#include "machine/machine.h"
#include "schedules/library/chip_product.h"
#include "support/error.h"

#include <cmath>
#include <fmt/format.h>
#include <numeric>

namespace kumiko::library {

namespace {

struct ChipMatmulRoles : ChipProduct {
    int64_t narrow;                                          // 16-column matrices per 8-LW piece
    bool batched = true;                                     // B has the batch axes
    bool across = false;                                     // B has contiguous columns, read so
    int64_t side() const { return single ? 8 : 16; }         // columns and k steps of a matrix
    int64_t of_piece() const { return single ? 2 : narrow; } // matrices per piece
};

std::optional<ChipMatmulRoles> chip_matmul_roles(const Op &op) {
    const auto p = find_chip_product(op);
    if (!p) return std::nullopt;
    ChipMatmulRoles r{*p, op.stage(op.outputs().front()).type == f16 ? 2 : 1, p->b.indices.size() > 2};
    if (r.single && r.narrow == 2) return std::nullopt;
    const auto *last = p->b.indices.back().as<Halide::Internal::Variable>();
    r.across = r.narrow == 2 && last && last->name == p->j;
    return r;
}

struct ChipMatmulNumbers : ChipNumbers {
    using ChipNumbers::ChipNumbers;
    // A step of L1 gives the PEs sets_of_step sets of 16 · mabs / sides elements along the
    // reduction, for each of rows_of_step rows.
    int64_t sets_of_block(int64_t sides) const { return 64 * sides / (4 * mabs); }
    int64_t of_step(int64_t sides) const { return sides > 1 ? 8 : 4; }
    int64_t sets_of_step(int64_t sides) const { return std::min(of_step(sides), sets_of_block(sides)); }
    int64_t rows_of_step(int64_t sides) const { return of_step(sides) / sets_of_step(sides); }
    // Contiguous columns arrive in blocks of 64 LW, 8 LW for each L1B.
    bool takes_across(int64_t pieces) const { return 64 % (8 * l1bs) == 0 && pieces % (64 / (8 * l1bs)) == 0; }
    // Unit: pieces.
    int64_t across_at_a_time(int64_t pieces) const { return l1bs < 8 || pieces % 2 ? 8 / l1bs : 2; }
};

// Constants of the estimate, fitted to simulated cycles of the suite chip-gemm.
constexpr double lost_steps = 1.02;    // matrix steps, with those that wait for operands
constexpr double spilled_tiles = 1.03; // time of tiles whose sums are spilled while columns arrive
constexpr double start_and_end = 500;  // cycles
constexpr double halved_start_and_end = 1000;
constexpr double late_share = 0.75;     // of a tile's time in which late columns may arrive
constexpr double late_columns = 0.3125; // their time, relative to that of all columns of a panel
constexpr double between_tiles = 1.25;  // columns that arrive between tiles, behind moves of rows
constexpr double shared_moves = 1.08;   // tiles during which columns arrive, whose moves delay rows

const std::vector<int64_t> piece_counts{1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16};

struct ChipMatmulPoint {
    int64_t vectors, pieces, groups, l2bs;
    bool twice;
    int64_t sides; // 1 or 4
    bool halves = false;
};

// Cycles if halves of the L1Bs divide k. An L2B then has 1024 columns.
double halved_cycles(const ChipMatmulRoles &r, const ChipMatmulNumbers &n, const ChipMatmulPoint &p) {
    if (n.mabs != 16 || n.l1bs != 8 || r.single || r.end || r.across || p.twice || p.sides > 1 || p.pieces != 1)
        return INFINITY;
    if (p.vectors % 8 || p.vectors * 8 > n.grf) return INFINITY;
    const int64_t blocks = ceil_div(r.K, 512), columns = 256 * blocks, row = r.narrow == 2 ? 256 : 512;
    const int64_t sums = 2 * p.vectors, left = n.lm - std::max(n.lm / 2, columns) - sums - 16;
    if (left < 0) return INFINITY;
    // Data in transit: rows and columns, or rows and results.
    if (64 * p.vectors + std::max<int64_t>(5 * 1024, 8 * (192 + row / 8)) > n.l1bm) return INFINITY;
    if (128 * p.vectors + std::max<int64_t>(4 * 2048, 4096 + 8 * row) > n.l2bm) return INFINITY;
    const int64_t column_parts = p.groups * p.l2bs, row_parts = n.groups * n.l2bs / column_parts;
    const double it = double(ceil_div(r.M, p.vectors * row_parts)) * (r.batched ? 1 : r.batch);
    const double jt = double(ceil_div(r.N, 1024 * column_parts)) * (r.batched ? r.batch : 1);
    const double tiles = it * jt, rate = std::min(group_port_rate, n.dram * n.groups), k_words = 128.0 * blocks;
    const double x = tiles * p.vectors * k_words, w = jt * 1024 * k_words, out = tiles * p.vectors * row;
    const double kept = blocks < 2 || left < 2 * sums ? 0 : std::min(it, double(left / sums));
    const double matrix = tiles * 16 * blocks * 4 * std::max(p.vectors / 4.0, 7.0);
    const double dram_w = w * column_parts, dram_x = x * row_parts, dram_out = out * n.groups * n.l2bs,
                 dram = n.groups * n.dram;
    const double l2 = tiles * p.vectors * (blocks + 10 + row / 256), l1 = tiles * p.vectors * (2 * blocks + 2);
    const double ends = x / tiles / rate + matrix / tiles + dram_out / tiles / dram + halved_start_and_end;
    const double first = w / jt / rate / blocks; // columns of a block
    const auto flow = [&](double rows, double columns, double results) {
        return std::max({rows * matrix * lost_steps + (kept ? columns * first * jt : 0),
                         (rows * x + columns * w) / rate,
                         (rows * dram_x + columns * dram_w + results * dram_out) / dram,
                         4 * (rows * l2 + columns * w / 128), 4 * (rows * l1 + columns * w / 64)});
    };
    const double share = kept / it;
    return (kept ? flow(share, 1, 0) : std::max(w / rate, dram_w / dram)) + flow(1 - share, 0, 1) + ends;
}

// Sizes that follow from a point whose L1Bs all have the whole reduction.
struct ChipMatmulSizes {
    int64_t side, sum_words; // of a matrix; LW of a sum in a PE
    int64_t of_l1b, of_mab;  // matrices of an L1B, of a MAB
    // Sets of 16 elements of the reduction for each MAB of a side: all, of a step, of a block.
    int64_t sets, sets_of_step, sets_of_block;
    int64_t blocks, rows_of_step;
    int64_t result_row; // LW of a row of a tile, over the L1Bs
    int64_t columns;    // LW of B in a PE
    int64_t sums;       // of a PE
    bool reloads_sums;  // wide sums are reloaded into the PEs

    ChipMatmulSizes(const ChipMatmulRoles &r, const ChipMatmulNumbers &n, const ChipMatmulPoint &p)
        : side(r.side()), sum_words(r.single ? 1 : 2), of_l1b(p.pieces * r.of_piece()), of_mab(of_l1b / p.sides),
          sets_of_step(n.sets_of_step(p.sides)), sets_of_block(n.sets_of_block(p.sides)),
          rows_of_step(n.rows_of_step(p.sides)), result_row(p.pieces * 8 * n.l1bs), sums(p.vectors * of_mab),
          reloads_sums(r.end || p.sides > 1) {
        const int64_t alternate = p.sides > 1 ? 2 : 1; // a step loads two sets
        sets = ceil_div(r.K, alternate * side * n.mabs / p.sides) * alternate;
        blocks = ceil_div(sets, sets_of_block);
        columns = ceil_div(sets, sets_of_step) * sets_of_step * of_mab * side;
    }
};

// Whether the memories hold the tiles, and the tree can distribute them.
bool fits(const ChipMatmulRoles &r, const ChipMatmulNumbers &n, const ChipMatmulPoint &p, const ChipMatmulSizes &z) {
    const int64_t half = std::max<int64_t>(1, n.mabs / 2);
    const int64_t apart = r.narrow == 2 ? half / std::gcd(p.pieces, half) : 1;
    const int64_t joined = r.narrow == 2 ? 2 * 4 * apart * p.pieces / half : z.reloads_sums ? 8 * p.sides : 0;
    if (p.vectors % (4 * apart)) return false;
    if (z.sum_words * z.sums + r.end_words > n.grf || p.vectors * z.sets_of_step + joined + r.end_words > n.grf)
        return false;
    if (z.columns * (p.twice ? 2 : 1) > n.lm) return false;
    const int64_t l1_sums = p.vectors * z.of_l1b * 4;
    const int64_t l1_joined = r.narrow == 2 ? l1_sums : z.reloads_sums ? l1_sums * z.sum_words : 0;
    const int64_t l1_columns = r.across ? 128 * n.across_at_a_time(p.pieces) : z.rows_of_step * 64;
    if (l1_sums * z.sum_words + l1_joined + l1_columns > n.l1bm) return false;
    const int64_t unit = 64 * std::max(p.vectors, 16 * n.l1bs), results = p.vectors * z.result_row;
    if (std::max(unit, r.end ? results : 0) + results > n.l2bm) return false;
    if (z.result_row % 64 && (n.groups > 1 || z.result_row % 16)) return false;
    return !r.across || n.takes_across(p.pieces);
}

// The work of each resource in the whole product.
struct ChipMatmulWork {
    double row_tiles, panels; // of an L2B; panels: tiles of columns
    double matrix;            // cycles of the matrix units
    double rate, dram;        // LW per cycle to an L2B, and from DRAM to all
    double x, w, out;         // LW of rows, columns and results of an L2B
    double dram_x, dram_w, dram_out;
    double l2_x, l2_w, l2_out, l1_x, l1_w, l1_out; // steps
    double groups, drained_groups;                 // those to which rows drain at a time
    // Tiles whose sums are spilled to LM1 while columns arrive.
    double kept;

    ChipMatmulWork(const ChipMatmulRoles &r, const ChipMatmulNumbers &n, const ChipMatmulPoint &p,
                   const ChipMatmulSizes &z);
    double tiles() const { return row_tiles * panels; }
    // Cycles until the columns of a panel have arrived.
    double panel_cycles() const { return std::max({w / rate, dram_w / dram, 4 * l2_w, 4 * l1_w}) / panels; }
    // Cycles of the busiest resource for these shares of the rows, columns and results.
    double busiest(double rows, double columns, double results) const {
        return std::max({rows * matrix * lost_steps, (rows * x + columns * w) / rate,
                         (rows * dram_x + columns * dram_w + results * dram_out * groups / drained_groups) / dram,
                         4 * (rows * l2_x + columns * l2_w + results * l2_out),
                         4 * (rows * l1_x + columns * l1_w + results * l1_out)});
    }
};

ChipMatmulWork::ChipMatmulWork(const ChipMatmulRoles &r, const ChipMatmulNumbers &n, const ChipMatmulPoint &p,
                               const ChipMatmulSizes &z)
    : rate(std::min(group_port_rate, n.dram * n.groups)), dram(n.groups * n.dram), groups(double(n.groups)) {
    const int64_t column_parts = p.groups * p.l2bs, row_parts = n.groups * n.l2bs / column_parts;
    row_tiles = double(ceil_div(r.M, p.vectors * row_parts)) * (r.batched ? 1 : r.batch);
    panels = double(ceil_div(r.N, z.side * z.of_l1b * n.l1bs * column_parts)) * (r.batched ? r.batch : 1);
    const double vectors = tiles() * p.vectors, k_words = 64.0 * z.blocks;
    const double panel_columns = panels * z.of_l1b * z.side;
    x = vectors * k_words;
    w = panel_columns * n.l1bs * k_words;
    out = vectors * z.result_row * (z.result_row % 64 ? 2 : 1);
    dram_x = x * row_parts, dram_w = w * column_parts, dram_out = out * n.groups * n.l2bs;

    const double room =
        p.sides > 1 && !p.twice ? std::floor(double(n.lm - std::max(n.lm / 2, z.columns)) / (z.sum_words * z.sums)) : 0;
    kept = room < 2 || z.blocks < 2 ? 0 : std::min(row_tiles, room);

    // A sum is available three steps later. Loading a matrix takes two steps, or four with `sides`.
    const double block = std::max(p.vectors / (r.single ? 2.0 : 4.0), z.side / (p.sides > 1 ? 4.0 : 8.0)) +
                         (p.vectors < (p.sides > 1 ? 32 : 16) ? 0.3 : 0); // steps of a matrix
    matrix = tiles() * z.sets * 4 * std::max(z.of_mab * block, 3.0);
    // f32 rows drain before the next
    if (r.narrow == 1 && 2 * z.sum_words * z.sums > n.grf) matrix += tiles() * z.sums;

    const double steps = z.sets / double(z.sets_of_step); // of L1 for a row
    l2_x = vectors * z.blocks * (z.sets_of_block / z.sets_of_step);
    l2_w = w / (r.across ? 256 : kept ? 128 : 64);
    l2_out = vectors * p.pieces / 4;
    l1_x = tiles() * steps * p.vectors / z.rows_of_step;
    l1_w = panel_columns * (r.across ? z.sets * n.mabs / 4.0 : steps / z.rows_of_step);
    l1_out = vectors * z.of_l1b * (r.narrow == 2 ? 0.5 : z.reloads_sums ? 0.75 : 0.25);
    // Sixteen neighbouring rows belong to one group; the rows of three tiles drain at a time.
    drained_groups = double(std::min(n.groups, row_parts * ceil_div(3 * p.vectors, 16)));
}

double cycles(const ChipMatmulRoles &r, const ChipMatmulNumbers &n, const ChipMatmulPoint &p) {
    if (p.halves) return halved_cycles(r, n, p);
    if (64 % (4 * n.mabs) || (r.narrow == 2 && n.mabs < 2)) return INFINITY;
    if (p.sides > 1 && (n.mabs % p.sides || p.pieces * r.of_piece() % p.sides || r.single || r.across)) return INFINITY;
    const ChipMatmulSizes z(r, n, p);
    if (!fits(r, n, p, z)) return INFINITY;
    const ChipMatmulWork work(r, n, p, z);
    const double tiles = work.tiles();
    // Prologue and epilogue: the first rows are loaded, the last ones drained.
    const double ends =
        work.x / tiles / work.rate + work.matrix / tiles + work.dram_out / tiles / work.dram + work.l1_out / tiles * 8;
    if (work.kept) {
        const double share = work.kept / work.row_tiles;
        // A port that loads rows loads no columns meanwhile.
        const double arrive = share * work.x / work.rate + std::max(work.w / work.rate, work.dram_w / work.dram);
        return std::max(work.busiest(share, 1, 0), arrive) * spilled_tiles + work.busiest(1 - share, 0, 1) + ends +
               start_and_end;
    }
    // A quarter of the columns may arrive while tiles run on the others, if rows arrive fast
    // enough.
    const double panel = work.panel_cycles(), compute = late_share * work.matrix / tiles,
                 rows = std::max(work.x / work.rate, work.dram_x / work.dram) / tiles;
    const bool late = !p.twice && p.sides == 1 && !r.across && p.pieces % 4 == 0 && z.result_row / 4 % 64 == 0 &&
                      compute > rows && work.row_tiles > 3 * (late_columns * panel / (compute - rows) + 2);
    // Columns after the first arrive during the work (double-buffered) or between tiles. Between
    // tiles, the memories in transit are full of rows. During tiles, column moves delay rows.
    const double between = p.twice ? 0 : between_tiles * panel * (work.panels - 1);
    const double shared = p.twice && work.panels > 1 ? shared_moves : 1;
    const double columns = p.twice ? 1 - 1 / work.panels : 0;
    return panel * (late ? late_share : 1) + between + work.busiest(1, columns, 1) * shared + ends + start_and_end;
}

std::optional<ChipMatmulPoint> best_of(const ChipMatmulRoles &r, const ChipMatmulNumbers &n) {
    std::optional<ChipMatmulPoint> best;
    double least = INFINITY;
    for (const int64_t vectors : powers(4, n.grf / 2)) {
        for (const int64_t pieces : piece_counts) {
            for (const int64_t groups : divisors(n.groups)) {
                for (const int64_t l2bs : divisors(n.l2bs)) {
                    for (const auto &[twice, sides] : {std::pair(false, 1), {true, 1}, {false, 4}, {true, 4}}) {
                        const ChipMatmulPoint p{vectors, pieces, groups, l2bs, twice, sides};
                        const double c = cycles(r, n, p);
                        if (c < least) least = c, best = p;
                    }
                    if (pieces > 1) continue;
                    const ChipMatmulPoint p{vectors, pieces, groups, l2bs, false, 1, true};
                    const double c = cycles(r, n, p);
                    if (c < least) least = c, best = p;
                }
            }
        }
    }
    return best;
}

ChipMatmulPoint point_of(const ChipMatmulParameters &p) {
    return {p.vectors, p.pieces, p.groups, p.l2bs, p.twice, p.sides ? 4 : 1, p.halves};
}

// Reads B's contiguous columns in place if that fits.
ChipMatmulRoles taken(ChipMatmulRoles r, const ChipMatmulNumbers &n, const ChipMatmulPoint &p) {
    r.across = r.across && std::isfinite(cycles(r, n, p));
    return r;
}

// If no point can read B's contiguous columns in place, prepack makes the reduction contiguous.
std::optional<ChipMatmulPoint> best_point(ChipMatmulRoles r, const ChipMatmulNumbers &n) {
    const std::optional<ChipMatmulPoint> best = best_of(r, n);
    if (best || !r.across) return best;
    r.across = false;
    return best_of(r, n);
}

} // namespace

bool is_chip_matmul(const Op &op) { return chip_matmul_roles(op).has_value(); }

bool chip_matmul_fits(const Op &op, const Machine &machine) {
    return best_point(*chip_matmul_roles(op), ChipMatmulNumbers(machine)).has_value();
}

double chip_matmul_cycles(const Op &op, const Machine &machine, const ChipMatmulParameters &p) {
    const ChipMatmulNumbers n(machine);
    const ChipMatmulPoint point = point_of(p);
    return cycles(taken(*chip_matmul_roles(op), n, point), n, point);
}

ChipMatmulParameters chip_matmul_parameters(const Op &op, const Machine &machine) {
    const ChipMatmulNumbers n(machine);
    const ChipMatmulPoint best = best_point(*chip_matmul_roles(op), n).value_or(ChipMatmulPoint{4, 1, 1, 1, false, 1});
    ChipMatmulParameters p;
    p.vectors = Tile(best.vectors, powers(4, n.grf / 2));
    p.pieces = Tile(best.pieces, piece_counts);
    p.groups = Tile(best.groups, divisors(n.groups));
    p.l2bs = Tile(best.l2bs, divisors(n.l2bs));
    p.twice = Flag(best.twice);
    const ChipMatmulRoles r = *chip_matmul_roles(op);
    p.sides = n.mabs % 4 == 0 && !r.single ? Flag(best.sides > 1) : Flag(false, {false});
    p.halves = n.mabs == 16 && n.l1bs == 8 && !r.single ? Flag(best.halves) : Flag(false, {false});
    return p;
}

namespace {

void check_parameters(const Op &op, const ChipMatmulRoles &r, const ChipMatmulParameters &p) {
    if (p.halves && (p.sides || p.twice || p.pieces != 1))
        throw UserError("parameters of " + op.name() + ": halves=true goes with sides=false, twice=false and pieces=1");
    if (p.sides && p.pieces * r.of_piece() % 4)
        throw UserError(
            fmt::format("parameters of {}: with sides=true, four neighbouring MABs have columns of their own; "
                        "pieces is then a multiple of {}, not {}",
                        op.name(), 4 / r.of_piece(), int64_t(p.pieces)));
}

// The operand with the reduction as its last axis, pre-packed if it has another last axis.
std::string in_rows(Schedule &s, const ChipMatmulRoles &r, const Operand &o) {
    const std::vector<Axis> &axes = s.op().find_input(o.tensor)->axes;
    std::vector<std::string> order;
    std::string last;
    for (size_t d = 0; d < axes.size(); d++) {
        const bool reduced = o.indices[d].as<Halide::Internal::Variable>()->name == r.k;
        if (reduced && d + 1 == axes.size()) return o.tensor;
        if (reduced)
            last = axes[d].name();
        else
            order.push_back(axes[d].name());
    }
    order.push_back(last);
    s.prepack(o.tensor, order);
    return o.tensor + ".packed";
}

// Whether a piece has a loop over its two matrices; with `sides` or `halves` that loop is bound to
// MABs, beside the reduction.
bool has_loop_of_matrices(const ChipMatmulRoles &r, const ChipMatmulParameters &p) {
    return p.halves ? r.narrow == 1 : r.of_piece() == 2;
}

// All loops, outermost first; `it`, `jt` and `kt` are those over tiles.
std::vector<LoopName> order_of_loops(const ChipMatmulRoles &r, const ChipMatmulParameters &p, const std::string &it,
                                     const std::string &jt, const std::string &kt) {
    const std::string i = r.i, j = r.j, k = r.k;
    const bool apart = has_loop_of_matrices(r, p), beside = p.sides || p.halves;
    std::vector<LoopName> order = {i + ".group", j + ".group", i + ".L2B", j + ".L2B"};
    if (p.halves) order.push_back(k + ".L1B");
    order.push_back(j + ".L1B");
    if (!p.halves) order.push_back(k + ".MAB");
    if (beside) order.push_back(j + ".MAB");
    if (beside && apart) order.push_back(j + ".e");
    for (const std::string &batch : r.batches) order.push_back(batch);
    order.insert(order.end(), {jt, it, kt});
    if (p.halves)
        order.insert(order.end(), {k + ".h", k + ".b"});
    else
        order.push_back(j + ".b");
    if (apart && !beside) order.push_back(j + ".e");
    order.insert(order.end(), {i + ".v", j + ".i", k + ".i"});
    return order;
}

} // namespace

Schedule schedule_chip_matmul(const Op &op, const Machine &machine, const ChipMatmulParameters &p) {
    const ChipMatmulNumbers n(machine);
    const ChipMatmulRoles r = taken(*chip_matmul_roles(op), n, point_of(p));
    check_parameters(op, r, p);
    const std::string i = r.i, j = r.j, k = r.k;
    Schedule s(op, machine);
    StageHandle C = s.stage(r.contraction.sum->name);
    const std::string a = in_rows(s, r, r.a), b = r.across ? r.b.tensor : in_rows(s, r, r.b);
    int cuts = 0;
    std::string rest;
    const auto split = [&](int64_t factor, const std::string &inner) {
        const std::string outer = rest.substr(0, rest.find('.')) + "." + std::to_string(++cuts);
        C.split(rest, factor, {outer, inner, Tail::Auto});
        rest = outer;
    };
    rest = i;
    split(p.vectors, i + ".v");
    split(n.l2bs / p.l2bs, i + ".L2B");
    split(n.groups / p.groups, i + ".group");
    const std::string it = rest;
    rest = j;
    split(r.side(), j + ".i");
    if (p.halves) {
        split(r.narrow == 2 ? 16 : 8, j + ".MAB");
        split(4, j + ".L1B");
        if (r.narrow == 1) split(2, j + ".e");
    } else {
        if (r.of_piece() == 2) split(2, j + ".e");
        split(n.l1bs, j + ".L1B");
        const int64_t sides = p.sides ? 4 / r.of_piece() : 1; // adjacent pieces on MABs
        if (p.sides) split(sides, j + ".MAB");
        split(std::max<int64_t>(1, p.pieces / sides), j + ".b");
    }
    split(p.l2bs, j + ".L2B");
    split(p.groups, j + ".group");
    const std::string jt = rest;
    rest = k;
    split(r.side(), k + ".i");
    if (p.halves) {
        split(8, k + ".b"); // the sets of an L1 step
        split(2, k + ".h");
        split(2, k + ".L1B");
    } else {
        split(p.sides ? n.mabs / 4 : n.mabs, k + ".MAB");
    }
    const std::string kt = rest;
    const bool apart = has_loop_of_matrices(r, p), beside = p.sides || p.halves;
    C.reorder(order_of_loops(r, p, it, jt, kt));
    for (const std::string &axis : {i, j}) {
        for (const char *level : {"group", "L2B"}) C.bind(axis + "." + level, level);
    }
    C.bind(j + ".L1B", "L1B").bind(k + (p.halves ? ".L1B" : ".MAB"), p.halves ? "L1B" : "MAB");
    if (beside) C.bind(j + ".MAB", "MAB");
    if (beside && apart) C.bind(j + ".e", "MAB");
    StageHandle columns = s.place_in(b, "LM", C.name(), jt);
    if (p.twice) columns.double_buffer();
    s.place_in(a, "GRF1", C.name(), p.halves ? k + ".h" : kt);
    C.accumulate_in("GRF0", it);
    C.write_back(it);
    C.tensorize(j + ".i", r.single ? "mfma.f32" : "mfma.f16");
    if (!r.contraction.consumer.empty()) C.finish_in(r.contraction.consumer);
    return s;
}

} // namespace kumiko::library
