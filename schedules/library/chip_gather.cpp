#include "schedules/library/chip_gather.h"

#include "dsl/reach.h"
#include "dsl/reads.h"
#include "machine/machine.h"
#include "schedules/library/structure.h"

#include <algorithm>

namespace kumiko::library {

namespace {

bool reads_indices(const Stage &s) {
    const auto reads = tensor_reads(s.value);
    return std::any_of(reads.begin(), reads.end(), [](const Halide::Internal::Call *read) {
        return std::any_of(read->args.begin(), read->args.end(), reads_data);
    });
}

} // namespace

bool is_chip_gather(const Op &op) {
    if (op.outputs().size() != 1 || op.stages().size() != 1) return false;
    const Stage &s = op.stages().front();
    for (const Axis &a : s.axes) {
        if (!constant_extent(a)) return false;
    }
    return s.kind == Stage::Kind::Pointwise && s.axes.size() > 1 && reads_indices(s);
}

ChipGatherParameters chip_gather_parameters(const Op &op, const Machine &machine) {
    const Stage &s = op.stages().front();
    const int64_t pitch = (*constant_extent(s.axes.back()) * s.type.bytes() + 511) / 512 * 64;
    // entries for this many rows are built at once, in a quarter of L2BM, double-buffered
    std::vector<int64_t> legal;
    for (int64_t rows = 1; rows <= 128; rows *= 2) {
        if (rows == 1 || 4 * rows * 64 <= machine.level("L2BM").bytes / 8 - 2 * (rows * 2 + 128 * pitch / 32))
            legal.push_back(rows);
    }
    return {Tile::nearest(legal.back(), legal)};
}

Schedule schedule_chip_gather(const Op &op, const Machine &machine, const ChipGatherParameters &p) {
    Schedule s(op, machine);
    const Stage &stage = op.stages().front();
    StageHandle Y = s.stage(stage.name);
    std::string rows = stage.axes.front().name();
    for (size_t d = 1; d + 1 < stage.axes.size(); d++) {
        const std::string joined = rows + "_" + stage.axes[d].name();
        Y.fuse(rows, stage.axes[d].name(), joined);
        rows = joined;
    }
    Y.split(rows, p.rows, {rows + ".o", rows + ".rows"});
    return s;
}

} // namespace kumiko::library
