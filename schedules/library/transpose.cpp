#include "schedules/library/transpose.h"

#include "dsl/scan.h"
#include "machine/machine.h"
#include "schedules/library/streams.h"
#include "schedules/library/structure.h"

#include <numeric>

namespace kumiko::library {

namespace {

constexpr int64_t line_bytes = 64; // bytes

// The axis that the output's elements follow, and the one that those of an input follow. Where one of them is shorter than four
// elements, it is `few`, and vectors lie along the other: a matrix of two or three columns, the colours of an image.
struct TransposeRoles {
    const Stage *output = nullptr;
    std::string along, across, few;
    const std::string &many() const { return few == along ? across : along; }
};

std::optional<TransposeRoles> transpose_roles(const Op &op) {
    if (op.outputs().size() != 1 || op.stages().size() != 1) return std::nullopt;
    const Stage &s = op.stages()[0];
    if (s.kind != Stage::Kind::Pointwise || s.axes.size() < 2 || !scanned_axis(s).empty()) return std::nullopt;
    TransposeRoles r{&s, s.axes.back().name(), ""};
    const auto extent_of = [&](const std::string &axis) { return constant_extent(*find_axis(s, axis)); };
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
        }
    }
    if (r.across.empty()) return std::nullopt;
    const int64_t along = extent_of(r.along).value_or(4), across = extent_of(r.across).value_or(4);
    if (std::min(along, across) < 2 || std::max(along, across) < 4) return std::nullopt;
    if (std::min(along, across) < 4) r.few = along < across ? r.along : r.across;
    return r;
}

// The greatest power of two up to `most` that divides the extent, but at least `least`; `most` where the extent is not known.
int64_t dividing(std::optional<int64_t> extent, int64_t least, int64_t most) {
    while (most > least && extent && (*extent % most != 0 && *extent < 8 * most)) most /= 2;
    while (most > 2 && extent && *extent < most) most /= 2;
    return most;
}

} // namespace

bool is_transpose(const Op &op) { return transpose_roles(op).has_value(); }

TransposeParameters transpose_parameters(const Op &op, const Machine &machine) {
    const TransposeRoles r = *transpose_roles(op);
    const Type t = r.output->type;
    const int64_t bytes = t.bytes(), native = vector_lanes(machine, t);
    const auto along = constant_extent(*find_axis(*r.output, r.along)),
               across = constant_extent(*find_axis(*r.output, r.across));
    TransposeParameters p;
    p.block = Tile(1024 / bytes, {256 / bytes, 512 / bytes, 1024 / bytes, 2048 / bytes, 4096 / bytes});
    p.parallel = Flag(pays_to_share(op, machine));
    const auto up_to = [](int64_t most) {
        std::vector<int64_t> all;
        for (int64_t n = 2; n <= most; n *= 2) all.push_back(n);
        return all;
    };
    if (!r.few.empty()) {
        p.lanes = Tile::nearest(std::max<int64_t>(native, 2), up_to(line_bytes / bytes));
        p.columns = Tile(*constant_extent(*find_axis(*r.output, r.few)));
        return p;
    }
    p.lanes =
        Tile::nearest(dividing(along, std::min<int64_t>(native, 8), line_bytes / bytes), up_to(line_bytes / bytes));
    // Bytes and halves are interleaved within 128 bits.
    const int64_t columns = bytes < 4 ? 16 / bytes : std::max<int64_t>(native, 2);
    p.columns = Tile::nearest(dividing(across, 4, columns), up_to(2 * columns));
    return p;
}

Schedule schedule_transpose(const Op &op, const Machine &machine, const TransposeParameters &p) {
    const TransposeRoles r = *transpose_roles(op);
    Schedule s(op, machine);
    StageHandle Y = s.stage(r.output->name);
    // A last block that moves inwards is a whole one too.
    const auto tail = [&](const std::string &axis, int64_t block) {
        return constant_extent(*find_axis(*r.output, axis)).value_or(0) >= block ? Tail::Shift : Tail::Auto;
    };
    std::vector<LoopName> order;
    for (const Axis &a : r.output->axes) {
        if (a.name() != r.along && a.name() != r.across) order.push_back(a.name());
    }
    LoopName column = r.few, lane = "", group = "";
    if (r.few.empty()) {
        auto [runs, in_run] = Y.split(r.along, p.lanes, {.tail = tail(r.along, p.lanes)});
        auto [groups, in_group] = Y.split(r.across, p.columns, {.tail = tail(r.across, p.columns)});
        auto [blocks, in_block] = Y.split(groups, std::max<int64_t>(1, p.block / p.columns));
        lane = in_run, column = in_group, group = in_block;
        order.insert(order.end(), {blocks, runs, group, column, lane});
    } else {
        auto [runs, in_run] = Y.split(r.many(), p.lanes, {.tail = tail(r.many(), p.lanes)});
        auto [blocks, in_block] = Y.split(runs, std::max<int64_t>(1, p.block / p.lanes));
        lane = in_run, group = in_block;
        order.insert(order.end(), {blocks, group, column, lane});
    }
    Y.reorder(order).unroll(column).vectorize(lane);
    if (p.parallel) {
        for (const LoopName &l : order) {
            if (Halide::Internal::is_const_one(Y.state().loop(l).extent)) continue;
            if (l.name != group.name && l.name != column.name && l.name != lane.name) Y.parallel(l);
            break;
        }
    }
    stream_large_outputs(s);
    return s;
}

} // namespace kumiko::library
