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

double cycles(const ChipMatmulRoles &r, const ChipMatmulNumbers &n, const ChipMatmulPoint &p) {
    if (p.halves) return halved_cycles(r, n, p);
    if (64 % (4 * n.mabs) || (r.narrow == 2 && n.mabs < 2)) return INFINITY;
    const int64_t side = r.side(), sum = r.single ? 1 : 2; // of a matrix; LW of a sum in a PE
    const int64_t of_l1b = p.pieces * r.of_piece(), half = std::max<int64_t>(1, n.mabs / 2);
    if (p.sides > 1 && (n.mabs % p.sides || of_l1b % p.sides || r.single || r.across)) return INFINITY;
    const int64_t matrices = of_l1b / p.sides; // of a MAB
    const int64_t apart = r.narrow == 2 ? half / std::gcd(p.pieces, half) : 1;
    const int64_t alternate = p.sides > 1 ? 2 : 1; // a step loads two sets
    const int64_t sets = ceil_div(r.K, alternate * side * n.mabs / p.sides) * alternate, gs = n.sets_of_step(p.sides),
                  of_block = n.sets_of_block(p.sides), blocks = ceil_div(sets, of_block),
                  rows_of_step = n.rows_of_step(p.sides);
    const int64_t padded = ceil_div(sets, gs) * gs, row = p.pieces * 8 * n.l1bs; // LW
    // Capacities.
    const int64_t sums = p.vectors * matrices;
    const bool back = r.end || p.sides > 1; // wide sums are reloaded into the PEs
    const int64_t joined = r.narrow == 2 ? 2 * 4 * apart * p.pieces / half : back ? 8 * p.sides : 0;
    if (p.vectors % (4 * apart)) return INFINITY;
    if (sum * sums + r.end_words > n.grf || p.vectors * gs + joined + r.end_words > n.grf) return INFINITY;
    const int64_t columns = padded * matrices * side;
    if (columns * (p.twice ? 2 : 1) > n.lm) return INFINITY;
    const int64_t l1_sums = p.vectors * of_l1b * 4;
    if (l1_sums * sum +
            (r.narrow == 2 ? l1_sums
             : back        ? l1_sums * sum
                           : 0) +
            (r.across ? 128 * n.across_at_a_time(p.pieces) : rows_of_step * 64) >
        n.l1bm)
        return INFINITY;
    const int64_t unit = 64 * std::max(p.vectors, 16 * n.l1bs);
    if (std::max(unit, r.end ? p.vectors * row : 0) + p.vectors * row > n.l2bm) return INFINITY;
    if (row % 64 && (n.groups > 1 || row % 16)) return INFINITY;
    if (r.across && !n.takes_across(p.pieces)) return INFINITY;
    // Traffic.
    const int64_t column_parts = p.groups * p.l2bs, row_parts = n.groups * n.l2bs / column_parts;
    const double it = double(ceil_div(r.M, p.vectors * row_parts)) * (r.batched ? 1 : r.batch);
    const double jt = double(ceil_div(r.N, side * of_l1b * n.l1bs * column_parts)) * (r.batched ? r.batch : 1);
    const double tiles = it * jt, rate = std::min(group_port_rate, n.dram * n.groups), k_words = 64.0 * blocks;
    // Per L2B, in LW.
    const double x = tiles * p.vectors * k_words, w = jt * of_l1b * side * n.l1bs * k_words;
    const double out = tiles * p.vectors * row * (row % 64 ? 2 : 1);
    // Number of tiles whose sums are spilled to LM1 while columns arrive.
    const double room =
        p.sides > 1 && !p.twice ? std::floor(double(n.lm - std::max(n.lm / 2, columns)) / (sum * sums)) : 0;
    const double kept = room < 2 || blocks < 2 ? 0 : std::min(it, room);
    // A sum is available three steps later. Loading a matrix takes two steps, or four with `sides`.
    const double block = std::max(p.vectors / (r.single ? 2.0 : 4.0), side / (p.sides > 1 ? 4.0 : 8.0)) +
                         (p.vectors < (p.sides > 1 ? 32 : 16) ? 0.3 : 0); // steps of a matrix
    double matrix = tiles * sets * 4 * std::max(matrices * block, 3.0);
    // f32 rows drain before the next
    if (r.narrow == 1 && 2 * sum * sums > n.grf) matrix += tiles * sums;
    const double dram_w = w * column_parts, dram_x = x * row_parts, dram_out = out * n.groups * n.l2bs;
    const double l2_x = tiles * p.vectors * blocks * (of_block / gs),
                 l2_w = w / (r.across ? 256
                             : kept   ? 128
                                      : 64),
                 l2_out = tiles * p.vectors * p.pieces / 4;
    const double l1_x = tiles * (sets / double(gs)) * p.vectors / rows_of_step,
                 l1_w = jt * of_l1b * side * (r.across ? sets * n.mabs / 4.0 : sets / double(gs) / rows_of_step),
                 l1_out = tiles * p.vectors * of_l1b *
                          (r.narrow == 2 ? 0.5
                           : back        ? 0.75
                                         : 0.25);
    // The columns.
    const double first = std::max({w / rate, dram_w / (n.groups * n.dram), 4 * l2_w, 4 * l1_w}) / jt;
    const double rest = 1 - 1 / jt;
    // Sixteen neighbouring rows belong to one group; the rows of three tiles drain at a time.
    const double spread = double(std::min(n.groups, row_parts * ceil_div(3 * p.vectors, 16)));
    // Time for these fractions of the rows, columns and results.
    const auto flow = [&](double rows, double columns, double results) {
        return std::max(
            {rows * matrix * lost_steps, (rows * x + columns * w) / rate,
             (rows * dram_x + columns * dram_w + results * dram_out * n.groups / spread) / (n.groups * n.dram),
             4 * (rows * l2_x + columns * l2_w + results * l2_out),
             4 * (rows * l1_x + columns * l1_w + results * l1_out)});
    };
    // Prologue and epilogue: the first rows are loaded, the last ones drained.
    const double ends = x / tiles / rate + matrix / tiles + dram_out / tiles / (n.groups * n.dram) + l1_out / tiles * 8;
    if (kept) {
        const double share = kept / it;
        // A port that loads rows loads no columns meanwhile.
        const double come = share * x / rate + std::max(w / rate, dram_w / (n.groups * n.dram));
        return std::max(flow(share, 1, 0), come) * spilled_tiles + flow(1 - share, 0, 1) + ends + start_and_end;
    }
    // A quarter of the columns may arrive while tiles run on the others, if rows arrive fast
    // enough.
    const double work = late_share * matrix / tiles,
                 rows = x / tiles * std::max(1 / rate, row_parts / (n.groups * n.dram));
    const bool late = !p.twice && p.sides == 1 && !r.across && p.pieces % 4 == 0 &&
                      p.pieces / 4 * 8 * n.l1bs % 64 == 0 && work > rows &&
                      it > 3 * (late_columns * first / (work - rows) + 2);
    // Columns after the first arrive during the work (double-buffered) or between tiles. Between
    // tiles, the memories in transit are full of rows. During tiles, column moves delay rows.
    const double between = p.twice ? 0 : between_tiles * first * (jt - 1);
    const double shared = p.twice && jt > 1 ? shared_moves : 1;
    return first * (late ? late_share : 1) + between + flow(1, p.twice ? rest : 0, 1) * shared + ends + start_and_end;
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
