#include "schedules/library/transpose.h"

#include "machine/machine.h"
#include "schedules/library/streams.h"
#include "schedules/library/structure.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace kumiko::library {

namespace {

constexpr int64_t min_of_line = 16, max_of_line = 32; // bytes of a line in a non-temporal store
constexpr int64_t rows_at_once = 8;                   // rows written piece by piece

// The axis along which the output is contiguous (`along`), and the one along which an input is
// (`across`). If one of them is shorter than four elements, it is `few`, and vectors run along the
// other: a matrix of two or three columns, the colours of an image. Each stands for a run of axes
// that ends with it and is contiguous in the output and in all reads, such as rows and columns of
// pixels.
struct TransposeRoles {
    const Stage *output = nullptr;
    std::string along, across, few;
    std::map<std::string, std::vector<std::string>> run; // of both, outermost first
    std::set<std::string> transposed;                    // tensors read along the other axis
    const std::string &many() const { return few == along ? across : along; }

    std::optional<int64_t> extent(const std::string &axis) const {
        int64_t n = 1;
        for (const std::string &a : run.at(axis)) {
            const auto e = constant_extent(*find_axis(*output, a));
            if (!e) return std::nullopt;
            n *= *e;
        }
        return n;
    }
    int64_t bytes() const { // of the output, as far as extents are known
        int64_t all = output->type.bytes();
        for (const Axis &a : output->axes) all *= constant_extent(a).value_or(1);
        return all;
    }
    bool in_run(const std::string &axis) const {
        return std::any_of(run.begin(), run.end(), [&](const auto &r) {
            return std::find(r.second.begin(), r.second.end(), axis) != r.second.end();
        });
    }
};

std::optional<TransposeRoles> transpose_roles(const Op &op) {
    if (op.outputs().size() != 1 || op.stages().size() != 1) return std::nullopt;
    const Stage &s = op.stages()[0];
    if (s.kind != Stage::Kind::Pointwise || s.axes.size() < 2 || s.reads_itself()) return std::nullopt;
    TransposeRoles r{&s, s.axes.back().name(), ""};
    for (const Expr &e : s.expressions()) {
        for (const Halide::Internal::Call *read : tensor_reads(e)) {
            const Operand o{read->name, read->args, {}};
            if (!is_plain(o)) return std::nullopt;
            if (o.indices.empty()) continue;
            const std::string last = o.indices.back().as<Halide::Internal::Variable>()->name;
            const bool runs = std::any_of(o.indices.begin(), o.indices.end(), [&](const Expr &i) {
                return i.as<Halide::Internal::Variable>()->name == r.along;
            });
            if (last != r.along && runs && r.across.empty()) r.across = last;
            if (last == r.across) r.transposed.insert(o.tensor);
        }
    }
    if (r.across.empty()) return std::nullopt;
    for (const std::string &axis : {r.along, r.across}) {
        std::vector<std::string> &run = r.run[axis] = {axis};
        size_t d = 0;
        while (s.axes[d].name() != axis) d++;
        for (; d > 0 && s.axes[d - 1].name() != r.across && s.strides.empty() &&
               are_fusible(op, s, s.axes[d - 1], s.axes[d]);
             d--)
            run.insert(run.begin(), s.axes[d - 1].name());
    }
    const int64_t along = r.extent(r.along).value_or(4), across = r.extent(r.across).value_or(4);
    if (std::min(along, across) < 2 || std::max(along, across) < 4) return std::nullopt;
    if (std::min(along, across) < 4) r.few = along < across ? r.along : r.across;
    return r;
}

// The largest power of two up to `most` that divides the extent, but at least `least`; `most` if
// the extent is unknown.
int64_t dividing(std::optional<int64_t> extent, int64_t least, int64_t most) {
    while (most > least && extent && (*extent % most != 0 && *extent < 8 * most)) most /= 2;
    while (most > 2 && extent && *extent < most) most /= 2;
    return most;
}

// Output rows that a block writes, a line of each at a time. Lines of rows at power-of-two
// distances share few L1 sets, whose ways are as long as a page. With more than eight lines per
// set, they evict each other before the block returns to the neighbouring elements.
int64_t rows_of_block(const TransposeRoles &r, const Machine &machine, int64_t bytes) {
    constexpr int64_t way = 4096, lines_of_set = 8;
    const int64_t least = line_bytes / bytes;
    // Fewer blocks are better for non-temporal stores, for bytes, whose lines are read by quarters,
    // and for few rows.
    if (bytes == 1 || !r.few.empty() || exceeds_caches(r.bytes(), machine)) return 1024 / bytes;
    int64_t rows = 4 * least, stride = bytes;
    for (const Axis &a : r.output->axes) {
        const bool after = find_axis(*r.output, r.across) < &a;
        if (after) stride *= constant_extent(a).value_or(1);
    }
    while (rows > least && rows * std::gcd(stride, way) > lines_of_set * way) rows /= 2;
    return rows;
}

// Non-temporal stores of output rows that are not whole lines are made in pieces of a line. The
// memory combines pieces that are written in close succession, in a few rows at a time. `length`
// elements of a row are written consecutively; lines of as many input rows stay in L2 while parts
// of them are read.
struct RowPieces {
    int64_t bytes = 0, length = 0; // 0 if rows are whole lines, or not multiples of pieces
};

RowPieces pieces_of_rows(const TransposeRoles &r, const Machine &machine, int64_t bytes) {
    const auto along = r.extent(r.along), across = r.extent(r.across);
    const bool many = bytes > 1 && r.few.empty() && across.value_or(0) >= rows_at_once;
    if (!many || !along || !exceeds_caches(r.bytes(), machine)) return {};
    RowPieces p{std::gcd(*along * bytes, line_bytes), 1024}; // each input row on a page of its own
    if (p.bytes < min_of_line || p.bytes > max_of_line) return {};
    constexpr int64_t ways = 8;
    const int64_t way = cache_bytes(machine, "L2", 512 << 10) / ways, stride = *across * bytes;
    while (p.length > line_bytes && p.length * std::gcd(stride, way) > ways / 2 * way) p.length /= 2;
    return p;
}

} // namespace

bool is_transpose(const Op &op) { return transpose_roles(op).has_value(); }

TransposeParameters transpose_parameters(const Op &op, const Machine &machine) {
    const TransposeRoles r = *transpose_roles(op);
    const Type t = r.output->type;
    const int64_t bytes = t.bytes(), native = vector_lanes(machine, t);
    const auto along = r.extent(r.along), across = r.extent(r.across);
    TransposeParameters p;
    const std::vector<int64_t> blocks = {64 / bytes,   128 / bytes,  256 / bytes, 512 / bytes,
                                         1024 / bytes, 2048 / bytes, 4096 / bytes};
    p.block = Tile::nearest(rows_of_block(r, machine, bytes), blocks);
    const std::vector<int64_t> lengths = {0, 64, 128, 256, 512, 1024, 2048, 4096};
    p.length = Tile::nearest(0, lengths);
    p.parallel = Flag(pays_to_share(op, machine));
    const bool open = r.few.empty() && !(along && across);
    p.whole = Flag(open, open ? std::vector<bool>{false, true} : std::vector<bool>{false});
    const auto up_to = [](int64_t most) {
        std::vector<int64_t> all;
        for (int64_t n = 2; n <= most; n *= 2) all.push_back(n);
        return all;
    };
    if (!r.few.empty()) {
        p.lanes = Tile::nearest(std::max<int64_t>(native, 2), up_to(line_bytes / bytes));
        p.columns = Tile(*r.extent(r.few));
        return p;
    }
    p.lanes =
        Tile::nearest(dividing(along, std::min<int64_t>(native, 8), line_bytes / bytes), up_to(line_bytes / bytes));
    // Bytes and halves are interleaved within 128 bits.
    const int64_t columns = bytes < 4 ? 16 / bytes : std::max<int64_t>(native, 2);
    p.columns = Tile::nearest(dividing(across, 4, columns), up_to(2 * columns));
    // Where L3 is slow, stores that split lines are expensive, and so is writing many rows in turn.
    // Large arrays with long rows write four rows along, and prefetch the next line of 256 input
    // rows, which L1 holds.
    const int64_t piece = std::gcd(along.value_or(1) * bytes, line_bytes), l2 = cache_bytes(machine, "L2", 512 << 10);
    const bool splits_lines = bytes > 1 && piece >= min_of_line && piece <= max_of_line && piece / bytes < p.lanes;
    if (has_slow_l3(machine) && splits_lines && *along * bytes >= 4 * line_bytes && 2 * r.bytes() > l2) {
        constexpr int64_t rows = 16, columns_along = 4, length = 256;
        p.lanes = Tile::nearest(piece / bytes, up_to(line_bytes / bytes));
        p.block = Tile::nearest(std::max(rows, p.columns.value()), blocks);
        if (*along >= 4 * length && r.bytes() > 4 * l2) {
            p.columns = Tile::nearest(columns_along, up_to(2 * columns));
            p.length = Tile::nearest(length, lengths);
        }
    }
    if (const RowPieces pieces = pieces_of_rows(r, machine, bytes); pieces.length > 0) {
        p.length = Tile::nearest(pieces.length, lengths);
        p.lanes = Tile::nearest(pieces.bytes / bytes, up_to(line_bytes / bytes));
        p.columns = Tile::nearest(rows_at_once, up_to(2 * columns));
    }
    return p;
}

namespace {

// Conditions that axes of unknown length hold at least one block.
std::vector<Expr> blocks_fit(const TransposeRoles &r, const TransposeParameters &p) {
    std::vector<Expr> all;
    for (const auto &[axis, block] : {std::pair(r.along, p.lanes), std::pair(r.across, p.columns)}) {
        if (!r.extent(axis)) all.push_back(find_axis(*r.output, axis)->extent() >= static_cast<int>(block));
    }
    return all;
}

// `fit`: assume that axes of unknown length hold a block.
Schedule schedule_one(const Op &op, const Machine &machine, const TransposeRoles &r, const TransposeParameters &p,
                      bool fit) {
    Schedule s(op, machine);
    if (fit) {
        for (const Expr &e : blocks_fit(r, p)) s.assume(e);
    }
    StageHandle Y = s.stage(r.output->name);
    std::map<std::string, LoopName> loop; // of each run
    for (const auto &[axis, run] : r.run) {
        LoopName all = run[0];
        for (size_t n = 1; n < run.size(); n++) all = Y.fuse(all, run[n]);
        loop.emplace(axis, all);
    }
    // A shifted last block is a whole block too.
    const auto tail = [&](const std::string &axis, int64_t block) {
        const auto extent = r.extent(axis);
        return (extent ? *extent >= block : fit) && tail_may_overlap(op) ? Tail::Shift : Tail::Auto;
    };
    std::vector<LoopName> order;
    for (const Axis &a : r.output->axes) {
        if (!r.in_run(a.name())) order.push_back(a.name());
    }
    LoopName column = r.few.empty() ? LoopName(r.few) : loop.at(r.few), lane = "", group = "", ahead = "";
    if (r.few.empty()) {
        auto [runs, in_run] = Y.split(loop.at(r.along), p.lanes, {.tail = tail(r.along, p.lanes)});
        auto [groups, in_group] = Y.split(loop.at(r.across), p.columns, {.tail = tail(r.across, p.columns)});
        lane = in_run, column = in_group;
        if (p.length > 0) {
            auto [blocks, in_block] = Y.split(runs, std::max<int64_t>(1, p.length / p.lanes));
            group = in_block, ahead = groups;
            order.insert(order.end(), {blocks, groups, in_block, column, lane});
        } else {
            auto [blocks, in_block] = Y.split(groups, std::max<int64_t>(1, p.block / p.columns));
            group = in_block;
            order.insert(order.end(), {blocks, runs, in_block, column, lane});
        }
    } else {
        auto [runs, in_run] = Y.split(loop.at(r.many()), p.lanes, {.tail = tail(r.many(), p.lanes)});
        auto [blocks, in_block] = Y.split(runs, std::max<int64_t>(1, p.block / p.lanes));
        lane = in_run, group = in_block;
        order.insert(order.end(), {blocks, group, column, lane});
    }
    Y.reorder(order).unroll(column).vectorize(lane);
    if (p.parallel) {
        for (const LoopName &l : order) {
            if (Halide::Internal::is_const_one(Y.state().loop(l).extent)) continue;
            // there are too few blocks of long rows
            const LoopName shared = ahead.name.empty() ? l : ahead;
            if (l.name != group.name && l.name != column.name && l.name != lane.name) Y.parallel(shared);
            break;
        }
    }
    const int64_t bytes = r.output->type.bytes();
    if (!ahead.name.empty()) { // the next line of each row
        for (const std::string &tensor : r.transposed)
            Y.prefetch(tensor, group, std::max<int64_t>(1, line_bytes / bytes / p.columns), Y.name(), ahead);
    }
    stream_large_outputs(s, p.length > 0 ? min_of_line : line_bytes);
    return s;
}

} // namespace

Schedule schedule_transpose(const Op &op, const Machine &machine, const TransposeParameters &p) {
    const TransposeRoles r = *transpose_roles(op);
    Schedule s = schedule_one(op, machine, r, p, false);
    if (p.whole)
        // the specialised schedule assumes the other conditions too
        s.specialize(blocks_fit(r, p)[0], schedule_one(op, machine, r, p, true));
    return s;
}

} // namespace kumiko::library
