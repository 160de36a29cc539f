#include "schedules/library/chip_conv.h"

#include "dsl/types.h"
#include "machine/machine.h"
#include "schedules/library/chip_product.h"
#include "schedules/library/chip_window.h"

#include <algorithm>
#include <cmath>

namespace kumiko::library {

namespace {

// Cycles per LW of its image that a PE waits for: an LM that is written cannot be read.
constexpr double cycles_of_image_word = 6;
constexpr int64_t min_end_words = 16; // LW per PE of one copy of a bias or a residual
constexpr int64_t max_depth = 8;      // 16-channel input steps per weight copy that are tried

struct ChipConvRoles : OfMatrices<ChipConvolution> {
    int64_t registers = 0; // LW of each GRF for the epilogue
    // Sums that may be computed at a time in one GRF. Four more are reserved, because the number of
    // sums is rounded up to a multiple of four.
    int64_t max_sums(const ChipNumbers &n) const {
        return (n.grf - std::min(registers, n.grf - min_sum_words)) / sum() - 4;
    }
};

// Requires input channels to reduce over; depthwise convolutions are scheduled by chip_depthwise.
std::optional<ChipConvRoles> chip_conv_roles(const Op &op) {
    const auto r = find_chip_convolution(op);
    if (!r || r->o.empty()) return std::nullopt;
    ChipConvRoles roles{{*r}};
    roles.registers = r->end ? std::max(min_end_registers, end_registers(op, r->contraction)) : 0;
    return roles;
}

struct ChipConvPoint {
    int64_t rows, columns, blocks, depth, groups, l2bs, l1bs;
    int image, weights; // tile, channels, row, tap
};
enum : int { of_tile, of_channels, of_row, of_tap };
constexpr std::array<const char *, 4> copies = {"tile", "channels", "row", "tap"};

ChipDistribution distribution(const ChipConvRoles &r, const ChipNumbers &n, const ChipConvPoint &p) {
    return distribute_tiles({r.N, ceil_div(r.y.extent, p.rows), ceil_div(r.x.extent, p.columns)},
                            {n.mabs, n.l1bs / p.l1bs, n.l2bs / p.l2bs, n.groups / p.groups});
}

// LW per PE of one copy of the image.
int64_t image_words(const ChipConvRoles &r, const ChipConvPoint &p) {
    const int64_t rows = p.image == of_row || p.image == of_tap ? p.rows : r.y.reach(p.rows);
    const int64_t columns = p.image == of_tap ? p.columns : r.x.reach(p.columns);
    const int64_t channels = p.image == of_tile ? ceil_div(ceil_div(r.C, r.side()), p.depth) * p.depth : p.depth;
    return ceil_div(channels * rows * columns, lm_granule) * lm_granule;
}

// LW per PE of bias and residual, two copies of each.
int64_t end_words(const ChipConvRoles &r, const ChipConvPoint &p) {
    const int64_t one = ceil_div(p.rows * p.columns * p.blocks * r.sum(), lm_granule) * lm_granule;
    return r.end ? 4 * std::max(min_end_words, one) : 0;
}

// Whether the image of the next tile fits the other LM.
bool fits_twice(const ChipConvRoles &r, const ChipNumbers &n, const ChipConvPoint &p) {
    return image_words(r, p) <= n.lm / 2 && 2 * image_words(r, p) + end_words(r, p) <= n.lm;
}

int64_t matrices(const ChipConvRoles &r, const ChipConvPoint &p) { // per copy of the weights
    return p.blocks * p.depth * (p.weights == of_channels ? r.y.taps : 1) * (p.weights == of_tap ? 1 : r.x.taps);
}

double cycles(const ChipConvRoles &r, const ChipNumbers &n, const ChipConvPoint &p) {
    const int64_t points = p.rows * p.columns, sums = points * p.blocks;
    // Capacities. Copies inside the loop over channels hold one matrix along channels.
    if ((p.image > of_channels || p.weights > of_channels) && p.depth > 1) return INFINITY;
    if (p.image > p.weights && p.weights != of_channels) return INFINITY;
    if (sums > r.max_sums(n)) return INFINITY;
    const ChipDistribution d = distribution(r, n, p);
    const int64_t words = image_words(r, p), out = ceil_div(sums, 4) * 4 * (r.single ? 1 : r.out_bytes / 2);
    const bool twice = fits_twice(r, n, p);
    if (words + end_words(r, p) > n.lm || (p.image != of_tile && !twice)) return INFINITY;
    // Two copies of the weights, and in transit images and results; with an epilogue its operands.
    const int64_t weights = ceil_div(r.matrix() * matrices(r, p), block_words) * block_words;
    if (2 * weights + (r.end ? 4 : 2) * n.transit_words() > n.l1bm) return INFINITY;
    // Traffic.
    const int64_t kb = ceil_div(ceil_div(r.C, r.side()), p.depth) * p.depth, taps = r.y.taps * r.x.taps;
    const int64_t it = d.tiles() * r.G, jt = ceil_div(r.O, r.side() * p.blocks * p.l1bs * p.l2bs * p.groups);
    const double tiles = double(it) * double(jt);
    const double copied = p.image == of_tile ? 1
                                             : double(kb) / p.depth * (p.image == of_channels ? 1 : r.y.taps) *
                                                   (p.image == of_tap ? r.x.taps : 1);
    const double x_pe = (p.image == of_tile ? it : tiles) * copied * words; // LW that a PE receives
    const double pixel_l1 = n.l1bs / p.l1bs, pes = pes_per_mab * n.mabs;
    // Per L2B.
    const double x = x_pe * pes * pixel_l1, w = tiles * kb * taps * p.blocks * r.matrix() * p.l1bs;
    const double results = tiles * out * pes * n.l1bs;
    // Loads. An image comes from the DRAM of its group or, for several groups, from one of them.
    // Weights come from one DRAM for all groups that use them; the ports of the other groups then
    // have nothing else to transfer.
    const double rate = std::min(group_port_rate, n.dram * n.groups), all = n.dram * n.groups;
    const int64_t image_parts = n.l2bs / p.l2bs, weight_parts = p.l2bs * p.groups;
    const double x_in = p.groups == 1 ? x * image_parts / n.dram
                                      : std::max(x / rate, x * image_parts * double(n.groups / p.groups) / all);
    const double w_in = w / rate * std::max(1.0, double(weight_parts) / n.groups);
    const double out_time = results * n.l2bs / n.dram;
    const double dram = x_in + w_in * std::min(1.0, double(weight_parts) / n.groups) + out_time;
    const double of_matrix = double(r.matrix()) / mab_words_per_step; // L1 steps
    // A step computes four vectors of f16 or two of f32.
    const auto steps = double(ceil_div(points, cycles_per_step));
    const double step =
        r.single ? 2 * std::max<double>(steps, sum_latency) : std::max(steps, PackedProductEstimate::min_steps);
    const double work = tiles * kb * taps * cycles_per_step * std::max<double>(p.blocks * step, sum_latency);
    const double l2_steps = n.l2_steps(x_pe * pes, n.l1bs / p.l1bs) + n.l2_steps(w / p.l1bs, p.l1bs) +
                            results / n.l1bs / l1b_words_per_step;
    const double l1_steps =
        x_pe / pe_words_per_step + tiles * kb * taps * p.blocks * of_matrix + tiles * out / pe_words_per_step;
    const double flow = std::max({work, x_in + w_in, dram, cycles_per_step * l2_steps, cycles_per_step * l1_steps});
    // The first image arrives with the weights of its first output channels. An LM that is being
    // written cannot be read.
    double first = 0;
    if (p.image == of_tile) {
        const double own = (x_in + w_in / jt) / it, of_work = work / it / jt;
        first = std::max(0.0, own - of_work) + cycles_of_image_word * words;
        if (!twice) first += double(it - 1) * cycles_of_image_word * words;
    }
    const double start = x_in / (x_pe / words) / (p.image == of_tile ? kb : 1) + PackedProductEstimate::start;
    // Each copy is a move; short moves do not reach the full rate.
    const double moves =
        PackedProductEstimate::cycles_of_move * (tiles * kb * taps * p.blocks / matrices(r, p) + x_pe / words);
    return flow + first + start + moves + out_time / tiles;
}

std::optional<ChipConvPoint> best_point(const ChipConvRoles &r, const ChipNumbers &n) {
    std::optional<ChipConvPoint> best;
    double least = INFINITY;
    const int64_t most = r.max_sums(n);
    const auto all_depths = powers(1, std::min(max_depth, ceil_div(r.C, r.side())));
    for (const int64_t rows : even_sizes(r.y.extent, most)) {
        for (const int64_t columns : even_sizes(r.x.extent, most / rows)) {
            for (const int64_t blocks :
                 powers(1, std::min<int64_t>(most / (rows * columns), ceil_div(r.O, r.side())))) {
                for (const int64_t groups : divisors(n.groups)) {
                    for (const int64_t l2bs : divisors(n.l2bs)) {
                        for (const int64_t l1bs : divisors(n.l1bs)) {
                            for (const auto &[image, weights] : {std::pair<int, int>{of_tile, of_channels},
                                                                 {of_channels, of_channels},
                                                                 {of_tile, of_row},
                                                                 {of_channels, of_row},
                                                                 {of_tile, of_tap},
                                                                 {of_channels, of_tap},
                                                                 {of_row, of_row},
                                                                 {of_row, of_tap},
                                                                 {of_tap, of_tap}}) {
                                for (const int64_t depth : all_depths) {
                                    const ChipConvPoint p{rows, columns, blocks, depth,  groups,
                                                          l2bs, l1bs,    image,  weights};
                                    const double c = cycles(r, n, p);
                                    if (c < least) least = c, best = p;
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    return best;
}

ChipConvPoint point_of(const ChipConvParameters &p) {
    const auto index = [](const Choice &c) {
        return int(std::find(copies.begin(), copies.end(), std::string(c)) - copies.begin());
    };
    return {p.rows, p.columns, p.blocks, p.depth, p.groups, p.l2bs, p.l1bs, index(p.image), index(p.weights)};
}

} // namespace

bool is_chip_conv(const Op &op) { return chip_conv_roles(op).has_value(); }

double chip_conv_cycles(const Op &op, const Machine &machine, const ChipConvParameters &p) {
    return cycles(*chip_conv_roles(op), ChipNumbers(machine), point_of(p));
}

ChipConvParameters chip_conv_parameters(const Op &op, const Machine &machine) {
    const ChipConvRoles r = *chip_conv_roles(op);
    const ChipNumbers n(machine);
    const ChipConvPoint best = best_point(r, n).value_or(ChipConvPoint{1, 1, 1, 1, 1, 1, 1, of_tap, of_tap});
    const int64_t most = n.grf / r.sum();
    ChipConvParameters p;
    p.rows = Tile(best.rows, even_sizes(r.y.extent, most));
    p.columns = Tile(best.columns, even_sizes(r.x.extent, most));
    p.blocks = Tile(best.blocks, powers(1, std::min<int64_t>(most, ceil_div(r.O, r.side()))));
    p.depth = Tile(best.depth, powers(1, std::min(max_depth, ceil_div(r.C, r.side()))));
    p.groups = Tile(best.groups, divisors(n.groups));
    p.l2bs = Tile(best.l2bs, divisors(n.l2bs));
    p.l1bs = Tile(best.l1bs, divisors(n.l1bs));
    p.image = Choice(copies[size_t(best.image)], {"tile", "channels", "row", "tap"});
    p.weights = Choice(copies[size_t(best.weights)], {"channels", "row", "tap"});
    p.write_back = Flag(true);
    return p;
}

Schedule schedule_chip_conv(const Op &op, const Machine &machine, const ChipConvParameters &parameters) {
    const ChipConvRoles r = *chip_conv_roles(op);
    const ChipNumbers n(machine);
    const ChipConvPoint p = point_of(parameters);
    const ChipDistribution d = distribution(r, n, p);
    Schedule s(op, machine);
    StageHandle C = s.stage(r.contraction.sum->name);
    std::map<std::string, std::string> rest; // axis to its remaining loop
    std::vector<std::pair<std::string, size_t>> bound;
    const auto cut = [&](const std::string &axis, int64_t factor, const std::string &name) {
        std::string &loop = rest.try_emplace(axis, axis).first->second;
        const std::string outer = axis + "." + name + ".o";
        C.split(loop, factor, {outer, axis + "." + name, Tail::Auto});
        loop = outer;
        return axis + "." + name;
    };
    const std::array<std::string, 3> dealt = {r.n, r.y.axis, r.x.axis};
    const std::string row = cut(r.o, r.side(), "i"), column = cut(r.c, r.side(), "i"), block = cut(r.o, p.blocks, "b"),
                      depth = cut(r.c, p.depth, "b"), rows = cut(r.y.axis, p.rows, "v"),
                      columns = cut(r.x.axis, p.columns, "v");
    const std::array<int64_t, 4> channels = {1, p.l1bs, p.l2bs, p.groups};
    rest.try_emplace(r.n, r.n);
    for (size_t level = 0; level < chip_levels.size(); level++) {
        for (size_t a = 0; a < dealt.size(); a++) {
            if (d.units[level][a] > 1) bound.push_back({cut(dealt[a], d.units[level][a], chip_levels[level]), level});
        }
        if (channels[level] > 1) bound.push_back({cut(r.o, channels[level], chip_levels[level]), level});
    }
    std::vector<LoopName> order;
    for (size_t b = bound.size(); b-- > 0;) order.push_back(bound[b].first);
    for (const std::string &g : r.groups) order.push_back(g);
    for (const std::string &a : dealt) order.push_back(rest[a]);
    const std::string tile = rest[r.x.axis];
    order.insert(order.end(), {rest[r.o], rest[r.c], depth, r.y.tap, r.x.tap, block, rows, columns, row, column});
    C.reorder(order);
    for (const auto &[loop, level] : bound) C.bind(loop, chip_levels[level]);
    const std::array<std::string, 4> at = {tile, rest[r.c], r.y.tap, r.x.tap};
    const std::string weights = prepack_in_order(s, op, r.weights.tensor);
    const std::string input = prepack_in_order(s, op, r.input),
                      image = r.input == r.image.tensor ? input : r.image.tensor;
    if (p.image == of_tile && !fits_twice(r, n, p))
        s.place_in(image, "LM", C.name(), at[of_tile]);
    else
        s.place_in(image, "LM0", C.name(), at[size_t(p.image)]).double_buffer();
    s.place_in(weights, "L1BM", C.name(), at[size_t(p.weights)]).double_buffer();
    C.accumulate_in("GRF0", rest[r.o]);
    if (parameters.write_back) C.write_back(rest[r.o]);
    C.tensorize(row, r.single ? "mfma.f32" : "mfma.f16");
    if (!r.contraction.consumer.empty()) C.finish_in(r.contraction.consumer);
    return s;
}

} // namespace kumiko::library
