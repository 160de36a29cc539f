#include "schedules/library/chip_transpose.h"

#include "machine/machine.h"
#include "schedules/library/structure.h"

#include <algorithm>

namespace kumiko::library {

namespace {

namespace ir = Halide::Internal;

// Positions, among the output's axes, of the axes at which the input is read.
std::optional<std::vector<size_t>> permutation(const Op &op) {
    if (op.outputs().size() != 1 || op.stages().size() != 1) return std::nullopt;
    const Stage &out = op.stage(op.outputs().front());
    const ir::Call *read = out.kind == Stage::Kind::Pointwise ? out.value.as<ir::Call>() : nullptr;
    if (!read || read->call_type != ir::Call::Image || !op.find_input(read->name)) return std::nullopt;
    std::vector<size_t> at;
    for (const Expr &e : read->args) {
        const ir::Variable *v = e.as<ir::Variable>();
        for (size_t d = 0; v && d < out.axes.size(); d++) {
            if (out.axes[d].name() == v->name) at.push_back(d);
        }
    }
    std::vector<size_t> sorted = at;
    std::sort(sorted.begin(), sorted.end());
    for (size_t d = 0; d < sorted.size(); d++) {
        if (sorted[d] != d || !constant_extent(out.axes[d])) return std::nullopt;
    }
    if (at.size() != read->args.size() || at.size() != out.axes.size()) return std::nullopt;
    return at;
}

} // namespace

bool is_chip_transpose(const Op &op) {
    const auto at = permutation(op);
    return at && at->size() > 1 && at->back() != at->size() - 1;
}

ChipTransposeParameters chip_transpose_parameters(const Op &op, const Machine &machine) {
    const Stage &out = op.stage(op.outputs().front());
    const int64_t block = 64 * 8 / out.type.bytes(), granule = block / 4;
    // Granules move at half the rate; four at a time come from one group.
    const bool narrow =
        machine.unit("group").count == 1 && *constant_extent(out.axes[permutation(op)->back()]) <= granule;
    std::vector<int64_t> legal;
    for (const int64_t run : {granule, block}) {
        if ((run == block || narrow) && run <= machine.level("LM0").bytes / 8) legal.push_back(run);
    }
    ChipTransposeParameters p;
    p.run = Tile::nearest(narrow ? granule : block, legal);
    return p;
}

Schedule schedule_chip_transpose(const Op &op, const Machine &machine, const ChipTransposeParameters &p) {
    Schedule s(op, machine);
    const std::string out = op.outputs().front();
    const Stage &stage = op.stage(out);
    StageHandle Y = s.stage(out);
    std::vector<std::string> rest;
    std::vector<int64_t> extent;
    for (const Axis &a : stage.axes) {
        rest.push_back(a.name());
        extent.push_back(*constant_extent(a));
    }
    const size_t row = rest.size() - 1, column = permutation(op)->back();
    const auto cut = [&](size_t axis, int64_t factor, const std::string &name) {
        const std::string loop = stage.axes[axis].name() + "." + name;
        Y.split(rest[axis], factor, {loop + ".o", loop});
        rest[axis] = loop + ".o";
        extent[axis] = (extent[axis] + factor - 1) / factor;
        return loop;
    };
    std::vector<LoopName> order;
    const auto bind = [&](size_t axis, int64_t count, const std::string &level) {
        const std::string loop = cut(axis, count, level);
        Y.bind(loop, level);
        order.insert(order.begin(), loop);
    };
    const std::string lanes = cut(row, 8 / stage.type.bytes(), "v"), run = cut(column, p.run, "run");
    const int64_t mabs = machine.unit("MAB").count;
    bind(row, machine.unit("PE").count, "PE");
    bind(row, mabs, "MAB");
    // L1Bs and the units above divide, in this order: the result's row if it would be less than a
    // block, neighbours in the input's rows, the longest axis.
    for (const char *level : {"L1B", "L2B", "group"}) {
        int64_t left = machine.unit(level).count;
        if (std::string(level) == "L1B" && mabs < 16) {
            bind(row, left, level);
            left = 1;
        }
        const auto deal = [&](size_t axis) {
            int64_t n = 1;
            while (2 * n <= left && n < extent[axis]) n *= 2;
            if (n > 1) bind(axis, n, level);
            left /= n;
        };
        if (std::string(level) == "L1B") deal(column);
        deal(size_t(std::max_element(extent.begin(), extent.end()) - extent.begin()));
    }
    std::vector<LoopName> all;
    for (const char *level : {"group", "L2B", "L1B", "MAB", "PE"}) {
        for (const LoopName &l : order) {
            if (Y.state().loop(l.name).unit == level) all.push_back(l);
        }
    }
    for (const std::string &r : rest) all.push_back(r);
    const std::string at = rest.back();
    all.push_back(run);
    all.push_back(lanes);
    Y.reorder(all);
    Y.vectorize(lanes);
    auto copy = s.place_in(op.inputs().front().name, "LM1", out, at);
    // arriving words need room
    if (2 * p.run <= machine.level("LM0").bytes / 8) copy.double_buffer();
    return s;
}

} // namespace kumiko::library
