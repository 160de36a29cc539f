#include "schedules/library/chip_depthwise.h"

#include "machine/machine.h"
#include "schedules/library/chip_product.h"
#include "schedules/library/chip_window.h"

#include <algorithm>
#include <cmath>

namespace kumiko::library {

namespace {

// Constants of the estimate that the data paths do not determine: approximations of simulated
// cycles (`kumiko bench chip-conv`). The estimate only ranks points.
struct DepthwiseEstimate {
    // Per tap, before it adds to the same sums again.
    static constexpr int64_t min_steps = 4;
    static constexpr double between_tiles = 60, moves_of_tile = 100; // cycles
};

constexpr int64_t end_registers_of_taps = 48; // LW of a GRF for epilogue values; 5/8 of a small GRF
constexpr int64_t more_end_words = 16;        // LW of LM for an epilogue, beside bias and residual

std::optional<ChipConvolution> chip_depthwise_roles(const Op &op) {
    const auto r = find_chip_convolution(op);
    return r && r->o.empty() && r->groups.size() == 1 && (r->single || !r->contraction.consumer.empty()) ? r
                                                                                                         : std::nullopt;
}
int64_t lanes_of(const ChipConvolution &r) { return r.single ? 2 : 4; }

struct ChipDepthwisePoint {
    int64_t rows, columns, mabs;
};

// Sums of four lanes take two words of one GRF, and two of the other while they drain; epilogue
// values need registers too.
int64_t max_points(const ChipConvolution &r, const ChipNumbers &n) {
    return std::max(n.grf * 3 / 8, n.grf - end_registers_of_taps) * 2 / lanes_of(r);
}

ChipDistribution distribution(const ChipConvolution &r, const ChipNumbers &n, const ChipDepthwisePoint &p) {
    return distribute_tiles({r.N, ceil_div(r.y.extent, p.rows), ceil_div(r.x.extent, p.columns)},
                            {n.mabs / p.mabs, n.l1bs, n.l2bs, n.groups});
}

// Image and weights are copied per tile or, if a tile does not fit, per window row or per tap.
enum : int { per_tile, per_row, per_tap };

int64_t image_words(const ChipConvolution &r, const ChipDepthwisePoint &p, int copied) { // of a PE
    return (copied == per_tile ? r.y.reach(p.rows) : p.rows) * (copied == per_tap ? p.columns : r.x.reach(p.columns));
}

bool fits(const ChipConvolution &r, const ChipNumbers &n, const ChipDepthwisePoint &p, int copied) {
    const int64_t image = ceil_div(image_words(r, p, copied), lm_granule) * lm_granule,
                  end = r.end ? 4 * p.rows * p.columns + more_end_words : 0,
                  taps = (copied == per_tile ? r.y.taps : 1) * (copied == per_tap ? 1 : r.x.taps),
                  weights = ceil_div(taps, lm_granule) * lm_granule;
    if (copied == per_tile) return image <= n.lm / 2 && 2 * weights <= n.lm / 2;
    return image + weights + end <= n.lm / 2; // each LM holds both
}

int copied_for(const ChipConvolution &r, const ChipNumbers &n, const ChipDepthwisePoint &p) {
    int copied = per_tile;
    while (copied < per_tap && !fits(r, n, p, copied)) copied++;
    return copied;
}

double cycles(const ChipConvolution &r, const ChipNumbers &n, const ChipDepthwisePoint &p) {
    const int copied = copied_for(r, n, p);
    const int64_t points = p.rows * p.columns, taps = r.y.taps * r.x.taps,
                  image = image_words(r, p, copied) * (copied == per_tile ? 1 : r.y.taps) *
                          (copied == per_tap ? r.x.taps : 1);
    if (points > max_points(r, n) || !fits(r, n, p, copied)) return INFINITY;
    const double tiles =
        double(distribution(r, n, p).tiles()) * double(ceil_div(r.G, lanes_of(r) * pes_per_mab * p.mabs));
    const double steps = std::max<double>(ceil_div(points, cycles_per_step), DepthwiseEstimate::min_steps);
    const double work = tiles * (taps * cycles_per_step * steps + DepthwiseEstimate::between_tiles);
    const double results = r.single ? double(points) : points * r.out_bytes / 2.0;
    // LW of a group.
    const double moved = tiles * (image + results) * pes_per_mab * n.mabs * n.l1bs * n.l2bs;
    return std::max(work, moved / n.dram) + DepthwiseEstimate::moves_of_tile * tiles +
           image * pes_per_mab * n.mabs * n.l1bs / n.dram;
}

} // namespace

bool is_chip_depthwise(const Op &op) { return chip_depthwise_roles(op).has_value(); }

ChipDepthwiseParameters chip_depthwise_parameters(const Op &op, const Machine &machine) {
    const ChipConvolution r = *chip_depthwise_roles(op);
    const ChipNumbers n(machine);
    std::vector<int64_t> mabs;
    for (int64_t m = 1; m <= n.mabs; m++) {
        if (n.mabs % m == 0) mabs.push_back(m);
    }
    ChipDepthwisePoint best{1, 1, 1};
    double least = INFINITY;
    for (const int64_t rows : even_sizes(r.y.extent, max_points(r, n))) {
        for (const int64_t columns : even_sizes(r.x.extent, max_points(r, n) / rows)) {
            for (const int64_t m : mabs) {
                const double c = cycles(r, n, {rows, columns, m});
                if (c < least) least = c, best = {rows, columns, m};
            }
        }
    }
    ChipDepthwiseParameters p;
    p.rows = Tile(best.rows, even_sizes(r.y.extent, max_points(r, n)));
    p.columns = Tile(best.columns, even_sizes(r.x.extent, max_points(r, n)));
    p.mabs = Tile(best.mabs, mabs);
    return p;
}

Schedule schedule_chip_depthwise(const Op &op, const Machine &machine, const ChipDepthwiseParameters &parameters) {
    const ChipConvolution r = *chip_depthwise_roles(op);
    const ChipNumbers n(machine);
    const ChipDepthwisePoint p{parameters.rows, parameters.columns, parameters.mabs};
    const ChipDistribution d = distribution(r, n, p);
    const int64_t lanes = lanes_of(r);
    const std::string sum = r.contraction.sum->name, c = r.groups.front(), y = r.y.axis, x = r.x.axis;
    const bool whole = r.contraction.consumer.empty(); // the sum is the output
    Schedule s(op, machine);
    StageHandle S = s.stage(sum), Y = whole ? S : s.stage(r.contraction.consumer);
    // axis to its remaining loop
    std::map<std::string, std::string> rest = {{c, c}, {r.n, r.n}, {y, y}, {x, x}};
    std::vector<std::pair<std::string, std::string>> bound; // loop, level; innermost first
    const auto cut = [&](const std::string &axis, int64_t factor, const std::string &name) {
        const std::string outer = axis + "." + name + ".o", inner = axis + "." + name;
        Y.split(rest[axis], factor, {outer, inner});
        rest[axis] = outer;
        return inner;
    };
    const std::string lane = cut(c, lanes, "v"), rows = cut(y, p.rows, "v"), columns = cut(x, p.columns, "v");
    bound.push_back({cut(c, pes_per_mab, "PE"), "PE"});
    if (p.mabs > 1) bound.push_back({cut(c, p.mabs, "MAB"), "MAB"});
    const std::array<std::string, 3> dealt = {r.n, y, x};
    for (size_t level = 0; level < chip_levels.size(); level++) {
        for (size_t a = 0; a < dealt.size(); a++) {
            if (d.units[level][a] > 1)
                bound.push_back(
                    {cut(dealt[a], d.units[level][a], std::string(chip_levels[level]) + ".tiles"), chip_levels[level]});
        }
    }
    std::vector<LoopName> order;
    for (size_t b = bound.size(); b-- > 0;) order.push_back(bound[b].first);
    for (const std::string &a : {c, r.n, y, x}) order.push_back(rest[a]);
    const std::string at = rest[x];
    const int copied = copied_for(r, n, p);
    // Loops over a tile's pixels and taps. Copies are made at the loop just outside the pixels.
    const auto inside = [&](const LoopName &row, const LoopName &column) {
        std::vector<LoopName> loops = {r.y.tap, r.x.tap};
        loops.insert(loops.begin() + copied, {row, column});
        return loops;
    };
    const auto place = [&](const std::string &outside) {
        const std::string loop = copied == per_tile ? outside : copied == per_row ? r.y.tap : r.x.tap;
        StageHandle image = s.place_in(r.image.tensor, "LM0", sum, loop),
                    weights = s.place_in(r.weights.tensor, "LM1", sum, loop);
        if (copied != per_tile) image.double_buffer(), weights.double_buffer();
    };
    for (const LoopName &l : whole ? inside(rows, columns) : std::vector<LoopName>{rows, columns}) order.push_back(l);
    order.push_back(lane);
    Y.reorder(order);
    for (const auto &[loop, level] : bound) Y.bind(loop, level);
    Y.vectorize(lane);
    if (whole) {
        s.accumulate_in(sum, "GRF0", at);
        place(at);
        return s;
    }

    S.compute_at(Y.name(), at);
    for (const auto &[axis, size] : {std::pair{c, lanes}, {y, p.rows}, {x, p.columns}})
        S.split(axis, size, {axis + ".w", axis + ".v"}); // a tile has one outer iteration
    std::vector<LoopName> own = {c + ".w", r.n, y + ".w", x + ".w"};
    for (const LoopName &l : inside(y + ".v", x + ".v")) own.push_back(l);
    own.push_back(c + ".v");
    S.reorder(own);
    S.vectorize(c + ".v").place_in("GRF1");
    place(x + ".w");
    for (const Input &in : op.inputs()) {
        const auto readers = s.state().consumers(in.name);
        if (std::find(readers.begin(), readers.end(), Y.name()) != readers.end())
            s.place_in(in.name, "LM1", Y.name(), at);
    }
    return s;
}

} // namespace kumiko::library
