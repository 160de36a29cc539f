// The directives of a product with packed operands, like the library's schedules chip_packed_matmul
// and chip_conv.
#include "autotune/spaces/chip_product.h"
#include "schedules/library/chip_product.h"

namespace kumiko {

Schedule schedule_product(const Op &op, const Machine &machine, const ChipProductTiles &t) {
    const ChipProductAxes &a = t.axes;
    Schedule s(op, machine);
    StageHandle C = s.stage(a.contraction.sum->name);
    std::map<std::string, std::string> rest;
    for (const auto &[axis, extent] : a.extents) rest[axis] = axis;
    const auto cut = [&](const std::string &axis, int64_t factor, const std::string &name) {
        const std::string loop = axis + "." + name;
        C.split(rest[axis], factor, {loop + ".o", loop, Tail::Auto});
        rest[axis] = loop + ".o";
        return loop;
    };
    const std::string row = cut(t.row, a.side(), "i"), column = cut(t.column, a.side(), "i"),
                      block = cut(t.row, t.blocks, "b"), depth = cut(t.column, t.depth, "b");
    std::vector<LoopName> tiles, bound;
    for (const std::string &v : a.vectors) tiles.emplace_back(cut(v, t.tile.at(v), "v"));
    const auto bind = [&](const std::string &axis, int64_t count, const std::string &level) {
        if (count == 1) return;
        const std::string loop = cut(axis, count, level);
        C.bind(loop, level);
        bound.insert(bound.begin(), loop);
    };
    for (const std::string &level : chip_product_levels) {
        const ChipProductTiles::Units &u = t.units.at(level);
        bind(u.axis, u.others, level);
        bind(t.row, u.rows, level);
    }
    std::vector<LoopName> order = bound;
    std::string at;
    const auto outside = [&](const std::string &axis) {
        at = rest[axis];
        order.emplace_back(at);
    };
    for (const std::string &b : a.batches) outside(b);
    for (const std::string &r : a.rows) {
        if (r != t.row) outside(r);
    }
    for (const std::string &v : a.vectors) outside(v);
    std::map<std::string, std::string> places = {{"tile", at}, {"depth", rest[t.column]}};
    order.insert(order.end(), {rest[t.row], rest[t.column], depth});
    for (const Axis &k : a.contraction.sum->reduction_axes) {
        if (k.name() == t.column) continue;
        order.emplace_back(k.name());
        places[k.name()] = k.name();
    }
    order.emplace_back(block);
    order.insert(order.end(), tiles.begin(), tiles.end());
    order.insert(order.end(), {row, column});
    C.reorder(order);
    std::array<std::string, 2> from;
    for (const size_t o : {0, 1}) {
        const std::string packed = library::prepack_in_order(s, op, a.inputs[o]);
        from[o] = a.inputs[o] == a.contraction.operands[o].tensor ? packed : a.contraction.operands[o].tensor;
    }
    if (t.vectors_at == "tile" && !t.twice(machine))
        s.place_in(from[1 - a.matrix], "LM", C.name(), places["tile"]);
    else
        s.place_in(from[1 - a.matrix], "LM0", C.name(), places[t.vectors_at]).double_buffer();
    s.place_in(from[a.matrix], "L1BM", C.name(), places[t.matrices_at]).double_buffer();
    C.accumulate_in("GRF0", rest[t.row]);
    if (t.write_back) C.write_back(rest[t.row]);
    C.tensorize(row, a.single ? "mfma.f32" : "mfma.f16");
    if (!a.contraction.consumer.empty()) C.finish_in(a.contraction.consumer);
    return s;
}

} // namespace kumiko
