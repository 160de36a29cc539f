#include "autotune/spaces/chip_product.h"

#include "dsl/reads.h"
#include "dsl/types.h"
#include "machine/machine.h"
#include "schedules/library/chip_product.h"

#include <algorithm>
#include <cmath>

namespace kumiko {

namespace {

using library::ceil_div;
using library::ChipNumbers;

bool plain_in(const library::Operand &o, const std::string &axis) {
    int uses = 0;
    bool plain = false;
    for (const Expr &e : o.indices) {
        const auto *v = e.as<Halide::Internal::Variable>();
        plain = plain || (v && v->name == axis);
        uses += Halide::Internal::expr_uses_var(e, axis);
    }
    return plain && uses == 1;
}

bool steps_known(const library::Operand &o) {
    for (const Expr &e : o.indices) {
        for (const std::string &a : o.axes) {
            if (Halide::Internal::expr_uses_var(e, a) && slope_of(e, a).value_or(0) < 1) return false;
        }
    }
    return true;
}

// The input that an operand reads, directly or through zero padding; "" for others.
std::string input_of(const Op &op, const library::Operand &o) {
    if (op.find_input(o.tensor)) return o.tensor;
    const Stage *s = op.find_stage(o.tensor);
    if (!s || s->kind != Stage::Kind::Padding) return "";
    const auto reads = tensor_reads(s->value);
    return reads.size() == 1 && op.find_input(reads[0]->name) ? reads[0]->name : "";
}

// LW per PE for the epilogue, double-buffered.
int64_t end_words(const ChipProductTiles &t) {
    constexpr int64_t fewest = 16, granule = library::lm_granule;
    const int64_t one = ceil_div(t.points() * t.blocks * t.axes.sum(), granule) * granule;
    return t.axes.end ? 4 * std::max(fewest, one) : 0;
}

} // namespace

std::vector<ChipProductAxes> chip_product_axes(const Op &op) {
    const auto c = library::find_contraction(op);
    if (!c || c->sum->type != f32) return {};
    ChipProductAxes all;
    all.contraction = *c;
    for (const auto *axes : {&c->sum->axes, &c->sum->reduction_axes}) {
        for (const Axis &a : *axes) {
            if (library::constant_extent(a).value_or(0) < 1) return {}; // empty or unknown extents
            all.extents[a.name()] = *library::constant_extent(a);
        }
    }
    for (size_t o : {0, 1}) {
        all.inputs[o] = input_of(op, c->operands[o]);
        if (all.inputs[o].empty() || !steps_known(c->operands[o])) return {};
    }
    const Type type = op.find_input(all.inputs[0])->type, out = op.stage(op.outputs().front()).type;
    all.single = type == f32;
    if ((type != f16 && type != f32) || op.find_input(all.inputs[1])->type != type || all.inputs[0] == all.inputs[1] ||
        (out != f32 && (out != f16 || all.single)))
        return {};
    all.out_bytes = out.bytes();
    all.end = library::has_end(op, *c);
    all.registers = all.end ? std::max(library::min_end_registers, library::end_registers(op, *c)) : 0;
    for (const Axis &k : c->sum->reduction_axes) {
        const std::string &a = k.name();
        if (!c->has(0, a) || !c->has(1, a)) return {};
        (plain_in(c->operands[0], a) && plain_in(c->operands[1], a) ? all.columns : all.taps).push_back(a);
    }
    std::vector<ChipProductAxes> choices;
    for (const size_t matrix : {1, 0}) {
        ChipProductAxes w = all;
        w.matrix = matrix;
        if (all.inputs[matrix] != c->operands[matrix].tensor || !library::is_plain(c->operands[matrix])) continue;
        bool good = true;
        for (const Axis &a : c->sum->axes) {
            const bool m = c->has(matrix, a.name()), v = c->has(1 - matrix, a.name());
            good = good && (m || v) && (!(m && v) || plain_in(c->operands[1 - matrix], a.name()));
            (m && v ? w.batches : m ? w.rows : w.vectors).push_back(a.name());
        }
        if (good && !w.rows.empty() && !w.vectors.empty() && !w.columns.empty()) choices.push_back(std::move(w));
    }
    return choices;
}

ChipProductTiles::ChipProductTiles(const ChipProductAxes &a, const Machine &machine, const Decisions &d)
    : axes(a), row(a.rows.back()), column(a.columns.front()) {
    const auto chosen = [&](const std::string &name, const std::vector<std::string> &legal, std::string otherwise) {
        const std::string wish = d.choice(name, otherwise);
        return std::find(legal.begin(), legal.end(), wish) == legal.end() ? otherwise : wish;
    };
    row = chosen("row", a.rows, row);
    column = chosen("column", a.columns, column);
    for (const std::string &v : a.vectors) tile[v] = std::min(d.number("tile_" + v, 1), a.extents.at(v));
    blocks = d.number("blocks", 1);
    depth = d.number("depth", 1);
    std::vector<std::string> places = a.taps;
    for (const std::string &c : a.columns) {
        if (c != column) places.push_back(c);
    }
    places.push_back("depth");
    matrices_at = chosen("matrices", places, "depth");
    places.push_back("tile");
    vectors_at = chosen("vectors", places, "tile");
    write_back = d.yes("write_back");
    std::vector<std::string> others = a.vectors;
    for (const std::string &level : chip_product_levels) {
        const int64_t count = machine.unit(level).count;
        Units u;
        u.rows = level == "MAB" ? 1 : std::min(count, d.number(level + "_rows", 1));
        u.others = count / u.rows;
        u.axis = chosen(level, others, a.vectors.back());
        units[level] = u;
        if (level == "MAB") others.insert(others.end(), a.batches.begin(), a.batches.end());
    }
}

int64_t ChipProductTiles::points() const {
    int64_t n = 1;
    for (const auto &[axis, t] : tile) n *= t;
    return n;
}

int64_t ChipProductTiles::copied() const {
    int64_t n = blocks * depth;
    bool inside = matrices_at == "depth";
    for (const Axis &k : axes.contraction.sum->reduction_axes) {
        if (k.name() == column) continue;
        if (inside) n *= axes.extents.at(k.name());
        inside = inside || k.name() == matrices_at;
    }
    return n;
}

int64_t ChipProductTiles::vector_words() const {
    // Loops inside the copy's loop.
    std::map<std::string, int64_t> inside = tile;
    bool below = vectors_at == "tile" || vectors_at == "depth";
    for (const Axis &k : axes.contraction.sum->reduction_axes) {
        if (k.name() == column) continue;
        if (below) inside[k.name()] = axes.extents.at(k.name());
        below = below || k.name() == vectors_at;
    }
    const int64_t sides = ceil_div(axes.extents.at(column), axes.side());
    int64_t n = vectors_at == "tile" ? ceil_div(sides, depth) * depth : depth;
    for (const Expr &e : axes.vector_operand().indices) {
        int64_t reach = 1;
        for (const auto &[axis, count] : inside) {
            if (Halide::Internal::expr_uses_var(e, axis)) reach += *slope_of(e, axis) * (count - 1);
        }
        n *= reach;
    }
    return ceil_div(n, library::lm_granule) * library::lm_granule;
}

bool ChipProductTiles::twice(const Machine &machine) const {
    const int64_t lm = machine.level("LM").bytes / 8;
    return vector_words() <= lm / 2 && 2 * vector_words() + end_words(*this) <= lm;
}

int64_t ChipProductTiles::left(const std::string &axis) const {
    int64_t n = axes.extents.at(axis);
    if (axis == row) n = ceil_div(n, axes.side() * blocks);
    if (const auto t = tile.find(axis); t != tile.end()) n = ceil_div(n, t->second);
    for (const auto &[level, u] : units) {
        if (axis == row) n = ceil_div(n, u.rows);
        if (axis == u.axis) n = ceil_div(n, u.others);
    }
    return n;
}

std::string reason_against(const ChipProductTiles &t, const Machine &machine) {
    const ChipNumbers n(machine);
    for (const char *level : {"L1B", "L2B", "group"}) {
        if (machine.unit(level).count % t.units.at(level).rows)
            return "rows divide a number of units that is not a multiple";
    }
    if (t.points() * t.blocks > (n.grf - std::min(t.axes.registers, n.grf - library::min_sum_words)) / t.axes.sum() - 4)
        return "more sums than registers";
    const bool inner_vectors = t.vectors_at != "tile" && t.vectors_at != "depth", inner = t.matrices_at != "depth";
    if ((inner_vectors || inner) && t.depth > 1)
        return "copies inside of the taps must have one matrix along the reduction";
    if (inner_vectors && t.vectors_at != t.matrices_at && inner)
        return "vectors and matrices must be copied at one tap";
    const int64_t words = t.vector_words();
    if (words + end_words(t) > n.lm || (t.vectors_at != "tile" && !t.twice(machine))) return "more than LM holds";
    const int64_t block = library::block_words, matrices = ceil_div(t.axes.words() * t.copied(), block) * block;
    if (2 * matrices + (t.axes.end ? 4 : 2) * n.transit_words() > n.l1bm) return "more matrices than L1BM holds";
    return "";
}

double estimate(const ChipProductTiles &t, const Machine &machine) {
    const ChipNumbers n(machine);
    const ChipProductAxes &a = t.axes;
    double it = 1, taps = 1, kb = 1;
    for (const auto *axes : {&a.vectors, &a.batches}) {
        for (const std::string &v : *axes) it *= double(t.left(v));
    }
    for (const std::string &r : a.rows) it *= r == t.row ? 1 : double(t.left(r));
    const auto jt = double(t.left(t.row));
    for (const Axis &k : a.contraction.sum->reduction_axes)
        taps *= k.name() == t.column ? 1 : double(a.extents.at(k.name()));
    kb = double(ceil_div(ceil_div(a.extents.at(t.column), a.side()), t.depth) * t.depth);
    const double tiles = it * jt, points = double(t.points()), words = double(t.vector_words());
    double copies = 1;
    if (t.vectors_at == "depth") copies = kb / double(t.depth);
    if (t.vectors_at != "depth" && t.vectors_at != "tile") copies = kb * taps;
    const auto of = [&](const char *level) { return t.units.at(level); };
    const double pes = double(library::pes_per_mab * n.mabs),
                 x_pe = (t.vectors_at == "tile" ? it : tiles) * copies * words;
    const double matrices = tiles * kb * taps * double(t.blocks);
    const double x = x_pe * pes * double(of("L1B").others), w = matrices * double(a.words() * of("L1B").rows);
    const double results = tiles * double(ceil_div(int64_t(points) * t.blocks, 4) * 4) *
                           (a.single ? 1.0 : double(a.out_bytes) / 2) * pes * double(n.l1bs);
    const double rate = std::min(library::group_port_rate, n.dram * double(n.groups)), all = n.dram * double(n.groups);
    const double x_parts = double(of("L2B").others * of("group").others),
                 w_parts = double(of("L2B").rows * of("group").rows);
    const double dram = (x * x_parts + w * w_parts + results * double(n.l2bs * n.groups)) / all, port = (x + w) / rate;
    using Estimate = library::PackedProductEstimate;
    constexpr auto cycles = double(library::cycles_per_step), latency = double(library::sum_latency);
    // A step computes four vectors of f16 or two of f32.
    const double steps = std::ceil(points / cycles);
    const double step = a.single ? 2 * std::max(steps, latency) : std::max(steps, Estimate::min_steps);
    const double work = tiles * kb * taps * cycles * std::max(double(t.blocks) * step, latency);
    const double l1 =
        cycles * (x_pe / library::pe_words_per_step + matrices * double(a.words()) / library::mab_words_per_step +
                  results / double(n.l1bs) / pes);
    const double l2 =
        cycles * (n.l2_steps(x_pe * pes, of("L1B").others) + n.l2_steps(w / double(of("L1B").rows), of("L1B").rows));
    const double moves = Estimate::cycles_of_move * (matrices / double(t.copied()) + x_pe / words);
    const double first =
        x / std::max(1.0, x_pe / words) / rate + (t.vectors_at == "tile" && !t.twice(machine) ? (x / rate) : 0);
    // Relative time if no store overlaps with the next tile.
    constexpr double without_write_back = 1.2;
    return std::max({work, dram, port, l1, l2}) * (t.write_back ? 1 : without_write_back) + first + moves +
           Estimate::start;
}

} // namespace kumiko
