#include "schedules/parts.h"

#include "support/error.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

size_t dimension(const StageState &stage, const std::string &axis) {
    for (size_t d = 0; d < stage.def.axes.size(); d++) {
        if (stage.def.axes[d].name() == axis) return d;
    }
    throw InternalError("stage " + stage.name() + " has no axis " + axis);
}

Region cut(Region box, size_t d, const Expr &first, const Expr &end) {
    box.min[d] = first;
    box.extent[d] = simplify(end - first);
    return box;
}

} // namespace

std::vector<const StageState *> regions_of(const ScheduleState &state, const std::string &stage) {
    std::vector<const StageState *> all;
    for (const StageState &s : state.stages) {
        if (s.part && s.part->of == stage) all.push_back(&s);
    }
    std::sort(all.begin(), all.end(),
              [](const StageState *a, const StageState *b) { return a->part->first < b->part->first; });
    return all;
}

Region box_of(const ScheduleState &state, const StageState &stage) {
    if (!stage.part) return whole_region(stage.def);
    const Part &p = *stage.part;
    return cut(box_of(state, state.stage(p.of)), dimension(stage, p.axis), int(p.first), int(p.first + p.count));
}

std::vector<Piece> pieces_of(const ScheduleState &state, const StageState &stage, const Region &box) {
    const auto regions = regions_of(state, stage.name());
    if (regions.empty()) return {{&stage, box}};
    const size_t d = dimension(stage, regions.front()->part->axis);
    std::vector<Piece> all;
    Expr at = box.min[d];
    const auto rest = [&](const Expr &end) {
        if (const Region r = cut(box, d, at, end); !is_const_zero(r.extent[d])) all.push_back({&stage, r});
    };
    for (const StageState *r : regions) {
        const Expr first = int(r->part->first), end = int(r->part->first + r->part->count);
        rest(first);
        for (Piece &p : pieces_of(state, *r, cut(box, d, first, end))) all.push_back(std::move(p));
        at = end;
    }
    rest(box.end(d));
    return all;
}

std::vector<Region> own_boxes(const ScheduleState &state, const StageState &stage) {
    std::vector<Region> all;
    for (Piece &p : pieces_of(state, stage, box_of(state, stage))) {
        if (p.stage == &stage) all.push_back(std::move(p.box));
    }
    return all;
}

} // namespace kumiko
