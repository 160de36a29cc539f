#include "schedules/library/chip_packed_matmul.h"

#include "dsl/types.h"
#include "machine/machine.h"
#include "schedules/library/chip_product.h"

#include <cmath>

namespace kumiko::library {

namespace {

// Constants of the estimate that the data paths do not determine: approximations of simulated
// cycles (`kumiko bench chip-gemm`). The estimate only ranks points.
struct PackedEstimate {
    // The share by which the second busiest resource delays the busiest one if it is as busy; less
    // by a power of their ratio otherwise.
    static constexpr double max_delay = 0.12, delay_power = 4;
    static constexpr double start_and_end = 1000; // cycles
};

// LW of a GRF, beside those for the epilogue's values.
constexpr int64_t more_end_registers = 8;
constexpr int64_t max_default_depth = 8; // matrices along k per copy in L1BM
// Cycles of DRAM; shorter moves do not reach its rate.
constexpr int64_t shortest_move = 64;
// The numbers of copies in L1BM per copy in L2BM are powers of two up to at least this one.
constexpr int64_t panels_tried = 16;
const std::vector<int64_t> vector_counts{4, 8, 16, 32}; // per MAB

struct ChipPackedMatmulRoles : OfMatrices<ChipProduct> {
    int64_t rate() const { return single ? 2 : 1; } // cycles per vector
};
std::optional<ChipPackedMatmulRoles> chip_packed_matmul_roles(const Op &op) {
    const auto p = find_chip_product(op);
    if (!p || (p->single && op.stage(op.outputs().front()).type != f32)) return std::nullopt;
    return ChipPackedMatmulRoles{{*p}};
}

int64_t output_bytes(const Op &op) {
    const std::string &out = op.outputs().front();
    return op.stage(out).type.bytes();
}

struct ChipPackedMatmulPoint {
    int64_t vectors, columns, groups, l2bs, l1bs;
    bool resident;
};

// LW per PE of the epilogue's operands, two copies of each in LM.
int64_t end_words(const ChipPackedMatmulRoles &r, int64_t points) {
    return r.end ? 4 * ceil_div(points * r.sum(), 4) * 4 : 0;
}

// LW of L1BM for both copies of the matrices. The rest holds vectors, results, biases and residuals
// in transit.
int64_t l1_room(const ChipPackedMatmulRoles &r, const ChipNumbers &n) {
    return n.l1bm - (r.end ? 4 : 2) * n.transit_words();
}

// LW of a GRF for sums.
int64_t sum_room(const ChipPackedMatmulRoles &r, const ChipNumbers &n) {
    return n.grf - std::min(r.end_words + (r.end ? more_end_registers : 0), n.grf - min_sum_words);
}

bool fits(const ChipPackedMatmulRoles &r, const ChipNumbers &n, const ChipPackedMatmulParameters &p) {
    const int64_t points = p.vectors * p.columns, copied = p.depth * std::max<int64_t>(1, p.panel),
                  x = p.resident ? p.vectors * ceil_div(ceil_div(r.K, r.side()), copied) * copied
                                 : 2 * p.vectors * copied;
    return points * r.sum() <= sum_room(r, n) && x + end_words(r, points) <= n.lm &&
           2 * p.columns * p.depth * r.matrix() <= l1_room(r, n) &&
           // the rest of L2BM is for vectors and results in transit
           2 * p.panel * p.depth * p.columns * r.matrix() * p.l1bs <= n.l2bm * 3 / 4;
}

double cycles(const ChipPackedMatmulRoles &r, const ChipNumbers &n, int64_t out_bytes, const ChipPackedMatmulPoint &p) {
    const int64_t row_parts = n.mabs * (n.l1bs / p.l1bs) * (n.l2bs / p.l2bs) * (n.groups / p.groups);
    const int64_t it = ceil_div(r.M, p.vectors * row_parts);
    const int64_t side = r.side(), jt = ceil_div(r.N, side * p.columns * p.l1bs * p.l2bs * p.groups),
                  kb = ceil_div(r.K, side);
    if ((p.resident ? p.vectors * kb : 2 * p.vectors) + end_words(r, p.vectors * p.columns) > n.lm) return INFINITY;
    if (2 * p.columns * r.matrix() > l1_room(r, n)) return INFINITY;
    const double visits = double(it) * (p.resident ? 1 : jt); // loads of the row vectors
    const double tiles = double(it) * jt;
    const double matrix = tiles * kb * p.columns * p.vectors * r.rate();
    const double x = visits * p.vectors * n.mabs * (n.l1bs / p.l1bs) * kb * pes_per_mab,
                 w = tiles * p.columns * p.l1bs * kb * r.matrix(); // per L2B
    const double port = (x + w) / std::min(group_port_rate, n.dram * n.groups);
    const double results =
        tiles * p.columns * side * p.l1bs * p.l2bs * p.groups * p.vectors * row_parts * out_bytes / 8;
    const double reads = x * (n.l2bs / p.l2bs) * (n.groups / p.groups) + w * p.l2bs * p.groups;
    const double dram = (reads + results) / (n.groups * n.dram);
    const double l2_steps = n.l2_steps(visits * p.vectors * n.mabs * kb * pes_per_mab, n.l1bs / p.l1bs) +
                            n.l2_steps(tiles * p.columns * kb * r.matrix(), p.l1bs);
    // In steps of L1.
    const double of_matrix = double(r.matrix()) / mab_words_per_step,
                 of_result = double(side * out_bytes) / (8 * pes_per_mab * pe_words_per_step);
    const double l1_steps = visits * p.vectors * kb / pe_words_per_step + tiles * kb * p.columns * of_matrix +
                            tiles * p.columns * p.vectors * of_result;
    // Tile by tile: the first tile of a set of rows waits for its row vectors, the others only for
    // their matrices.
    const double rate = std::min(group_port_rate, n.dram * n.groups), matrices = w / tiles / rate,
                 vectors = x / visits / rate;
    // A step computes four vectors of f16 or two of f32. Matrices and results share L1.
    const double work =
        r.single ? 2.0 * cycles_per_step * kb * p.columns * std::max(p.vectors / cycles_per_step, sum_latency)
                 : 1.0 * cycles_per_step * kb * std::max(p.columns * p.vectors / cycles_per_step, sum_latency);
    const double l1 = cycles_per_step * (of_matrix * kb * p.columns + double(p.columns) * p.vectors * of_result);
    const double most = std::max({work, matrices, l1}),
                 second = work + matrices + l1 - most - std::min({work, matrices, l1});
    const double tile = most * (1 + PackedEstimate::max_delay * std::pow(second / most, PackedEstimate::delay_power)),
                 first = std::max(tile, vectors + matrices);
    const double rows = p.resident ? first + (jt - 1) * tile : jt * first;
    const double later =
        // the next row vectors are loaded meanwhile
        p.resident ? std::max(jt * tile, vectors + jt * matrices) : rows;
    const bool ahead = 2 * p.vectors * kb <= n.lm; // if LM has room
    const double flow = rows + (it - 1) * (ahead ? later : (rows + later) / 2);
    const double tail = results / tiles / (n.groups * n.dram);
    return r.batch * std::max({flow, matrix, port, dram, cycles_per_step * l2_steps, cycles_per_step * l1_steps}) +
           tail + PackedEstimate::start_and_end;
}

} // namespace

bool is_chip_packed_matmul(const Op &op) { return chip_packed_matmul_roles(op).has_value(); }

double chip_packed_matmul_cycles(const Op &op, const Machine &machine, const ChipPackedMatmulParameters &p) {
    const ChipPackedMatmulRoles r = *chip_packed_matmul_roles(op);
    const ChipNumbers n(machine);
    if (!fits(r, n, p)) return INFINITY;
    return cycles(r, n, output_bytes(op), {p.vectors, p.columns, p.groups, p.l2bs, p.l1bs, p.resident});
}

ChipPackedMatmulParameters chip_packed_matmul_parameters(const Op &op, const Machine &machine) {
    const ChipPackedMatmulRoles r = *chip_packed_matmul_roles(op);
    const ChipNumbers n(machine);
    const int64_t sums = sum_room(r, n);
    ChipPackedMatmulPoint best{vector_counts.front(), 1, 1, 1, 1, false};
    double least = INFINITY;
    for (const int64_t vectors : vector_counts) {
        for (int64_t columns = 1; columns * vectors * r.sum() <= sums; columns *= 2) {
            for (const int64_t groups : divisors(n.groups)) {
                for (const int64_t l2bs : divisors(n.l2bs)) {
                    for (const int64_t l1bs : divisors(n.l1bs)) {
                        for (const bool resident : {true, false}) {
                            const ChipPackedMatmulPoint p{vectors, columns, groups, l2bs, l1bs, resident};
                            const double c = cycles(r, n, output_bytes(op), p);
                            if (c < least) least = c, best = p;
                        }
                    }
                }
            }
        }
    }
    ChipPackedMatmulParameters p;
    p.vectors = Tile(best.vectors, vector_counts);
    p.columns = Tile(best.columns, powers(1, std::max<int64_t>(best.columns, n.grf / 8)));
    // Each of the two copies takes a quarter of L1BM.
    const int64_t matrices = std::max<int64_t>(1, n.l1bm / 4 / r.matrix() / best.columns);
    int64_t depth = 1;
    while (depth * 2 <= std::min({matrices, max_default_depth, ceil_div(r.K, r.side())})) depth *= 2;
    p.depth = Tile(depth, powers(1, std::max<int64_t>(depth, l1_room(r, n) / (2 * r.matrix()))));
    // Copies in L2BM join moves that would be too short, in at most half of L2BM.
    const int64_t tile = depth * best.columns * r.matrix() * best.l1bs;
    int64_t panel = 0;
    if (tile < shortest_move * n.dram) {
        for (panel = 1; panel * tile < shortest_move * n.dram && 4 * panel * tile <= n.l2bm / 2;) panel *= 2;
    }
    std::vector<int64_t> panels = powers(1, std::max(panel, panels_tried));
    panels.insert(panels.begin(), 0);
    p.panel = Tile(panel, panels);
    p.groups = Tile(best.groups, divisors(n.groups));
    p.l2bs = Tile(best.l2bs, divisors(n.l2bs));
    p.l1bs = Tile(best.l1bs, divisors(n.l1bs));
    p.resident = Flag(best.resident);
    while (!fits(r, n, p) && p.panel.index() + p.depth.index() > 0) {
        Tile &less = p.panel.index() > 0 ? p.panel : p.depth;
        less.set_index(less.index() - 1);
    }
    p.write_back = Flag(true);
    return p;
}

Schedule schedule_chip_packed_matmul(const Op &op, const Machine &machine, const ChipPackedMatmulParameters &p) {
    const ChipPackedMatmulRoles r = *chip_packed_matmul_roles(op);
    const ChipNumbers n(machine);
    const std::string i = r.i, j = r.j, k = r.k;
    Schedule s(op, machine);
    StageHandle C = s.stage(r.contraction.sum->name);
    std::vector<LoopName> order;
    const auto split = [&](const std::string &loop, int64_t factor, const std::string &outer,
                           const std::string &inner) {
        C.split(loop, factor, {outer, inner, Tail::Auto});
    };
    // Rows are split into vectors of a MAB, then over the units; the rest is time. Columns
    // likewise.
    split(i, p.vectors, i + ".1", i + ".v");
    split(i + ".1", n.mabs, i + ".2", i + ".MAB");
    split(i + ".2", n.l1bs / p.l1bs, i + ".3", i + ".L1B");
    split(i + ".3", n.l2bs / p.l2bs, i + ".4", i + ".L2B");
    split(i + ".4", n.groups / p.groups, i + ".t", i + ".group");
    split(j, r.side(), j + ".1", j + ".i");
    split(j + ".1", p.columns, j + ".2", j + ".b");
    split(j + ".2", p.l1bs, j + ".3", j + ".L1B");
    split(j + ".3", p.l2bs, j + ".4", j + ".L2B");
    split(j + ".4", p.groups, j + ".t", j + ".group");
    split(k, r.side(), k + ".1", k + ".i");
    split(k + ".1", p.depth, k + ".2", k + ".b");
    order = {i + ".group", j + ".group", i + ".L2B", j + ".L2B", j + ".L1B", i + ".L1B", i + ".MAB"};
    for (const std::string &b : r.batches) order.push_back(b);
    order.insert(order.end(), {i + ".t", j + ".t"});
    std::string copied = k + ".2";
    if (p.panel > 0) {
        split(k + ".2", p.panel, k + ".p", k + ".c");
        order.push_back(k + ".p");
        copied = k + ".c";
    }
    order.insert(order.end(), {copied, k + ".b", j + ".b", i + ".v", j + ".i", k + ".i"});
    C.reorder(order);
    for (const char *axis : {"i", "j"}) {
        for (const char *level : {"group", "L2B", "L1B"}) C.bind((*axis == 'i' ? i : j) + "." + level, level);
    }
    C.bind(i + ".MAB", "MAB");
    const std::string rows = prepack_in_order(s, op, r.a.tensor);
    if (p.resident)
        s.place_in(rows, "LM", C.name(), i + ".t");
    else
        s.place_in(rows, "LM", C.name(), p.panel > 0 ? k + ".p" : copied).double_buffer();
    std::string from = prepack_in_order(s, op, r.b.tensor);
    if (p.panel > 0) {
        StageHandle panel = s.place_in(from, "L2BM", C.name(), k + ".p");
        panel.double_buffer();
        from = panel.name();
    }
    s.place_in(from, "L1BM", C.name(), copied).double_buffer();
    C.accumulate_in("GRF0", j + ".t");
    if (p.write_back) C.write_back(j + ".t");
    C.tensorize(j + ".i", r.single ? "mfma.f32" : "mfma.f16");
    if (!r.contraction.consumer.empty()) C.finish_in(r.contraction.consumer);
    return s;
}

} // namespace kumiko::library
