#include "schedules/loop_geometry.h"

namespace kumiko {

LoopGeometry::LoopGeometry(const ScheduleState &state, const StageState &stage) {
    numbers_.push_back(static_cast<int64_t>(state.assumptions.size()));
    for (const Assume &a : state.assumptions) expressions_.push_back(a.condition);
    numbers_.push_back(static_cast<int64_t>(stage.placement.kind));
    add(stage);
    // The stage that a part belongs to determines its box.
    for (const StageState *s = &stage; s->part; s = &state.stage(s->part->of)) {
        numbers_.insert(numbers_.end(), {s->part->first, s->part->count});
        names_.push_back(s->part->axis);
        add(state.stage(s->part->of));
    }
}

void LoopGeometry::add(const StageState &stage) {
    names_.push_back(stage.name());
    for (const std::string &l : stage.order) {
        names_.push_back(l);
        names_.push_back(stage.loop(l).unit);
    }
    numbers_.push_back(static_cast<int64_t>(stage.order.size()));
    for (const Relation &r : stage.relations) {
        if (const auto *s = std::get_if<SplitRelation>(&r)) {
            names_.insert(names_.end(), {s->parent, s->outer, s->inner});
            numbers_.insert(numbers_.end(), {s->factor, static_cast<int64_t>(s->tail)});
        } else {
            const auto &f = std::get<FuseRelation>(r);
            names_.insert(names_.end(), {f.outer, f.inner, f.fused});
            numbers_.push_back(0);
        }
    }
    for (const auto *axes : {&stage.def.axes, &stage.def.reduction_axes}) {
        numbers_.push_back(static_cast<int64_t>(axes->size()));
        for (const Axis &a : *axes) {
            names_.push_back(a.name());
            expressions_.push_back(a.extent());
        }
    }
    for (const Expr &e : stage.def.expressions()) expressions_.push_back(e);
}

bool LoopGeometry::operator==(const LoopGeometry &other) const {
    return names_ == other.names_ && numbers_ == other.numbers_ &&
           std::equal(expressions_.begin(), expressions_.end(), other.expressions_.begin(), other.expressions_.end(),
                      [](const Expr &a, const Expr &b) { return a.same_as(b); });
}

} // namespace kumiko
