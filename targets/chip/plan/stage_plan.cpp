#include "targets/chip/plan/stage_plan.h"

#include "dsl/print.h"
#include "support/error.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace kumiko::chip {

using namespace Halide::Internal;

int units_of(const sim::Config &c, Tier level) {
    switch (level) {
    case Tier::Group:
        return c.groups;
    case Tier::L2b:
        return c.l2bs;
    case Tier::L1b:
        return c.l1bs;
    case Tier::Mab:
        return c.mabs;
    case Tier::Pe:
        return sim::pes_per_mab;
    }
    return 1;
}

namespace {

int64_t number(const Expr &e, const std::string &what) {
    const auto n = as_const_int(simplify(e));
    if (!n)
        throw UserError(what + " is " + to_string(e) +
                        ", known only at run time; programs of the chip are made for given sizes");
    return *n;
}

} // namespace

StagePlan::StagePlan(const StageState &stage, const sim::Config &config, const Nesting *nesting) : stage_(&stage) {
    const Extents extents = find_extents(nesting);
    if (nesting) {
        const auto &outer = nesting->outer->loops();
        loops_.assign(outer.begin(), outer.begin() + int64_t(nesting->depth) + 1);
        first_own_ = loops_.size();
        for (PlannedLoop &l : loops_)
            l.name = nesting->outer->stage().name() + " " + l.name; // names are unique per stage
    }
    add_loops(extents, nesting != nullptr);
    check_units(config);
    if (nesting) find_idle_units(*nesting);
    express_axes(extents, nesting);
}

// Extents of axes and loops, by name. Joins axes that are fused.
StagePlan::Extents StagePlan::find_extents(const Nesting *nesting) {
    const StageState &stage = *stage_;
    Extents extents;
    for (const auto *axes : {&stage.def.axes, &stage.def.reduction_axes}) {
        for (const Axis &a : *axes)
            extents[a.name()] = number(a.extent(), "the extent of axis " + a.name() + " of stage " + stage.name());
    }
    if (stage.part) extents[stage.part->axis] = stage.part->count;
    for (size_t d = 0; nesting && d < stage.def.axes.size(); d++)
        extents[stage.def.axes[d].name()] = nesting->extents[d];
    for (const Relation &r : stage.relations) {
        if (const auto *s = std::get_if<SplitRelation>(&r)) {
            const int64_t n = extents.at(s->parent);
            if (s->tail == Tail::Shift && n % s->factor != 0)
                throw Unsupported("stage " + stage.name() + ": the chip pads tails, it does not shift them; loop " +
                                  s->parent);
            extents[s->outer] = (n + s->factor - 1) / s->factor;
            extents[s->inner] = s->factor;
        } else {
            const auto &f = std::get<FuseRelation>(r);
            join_axes(f, nesting != nullptr);
            extents[f.fused] = extents.at(f.outer) * extents.at(f.inner);
        }
    }
    return extents;
}

void StagePlan::join_axes(const FuseRelation &f, bool nested) {
    const StageState &stage = *stage_;
    Joined j;
    for (const std::string &l : {f.outer, f.inner}) {
        const auto known =
            std::find_if(joined_.begin(), joined_.end(), [&](const Joined &o) { return o.axes.back() == l; });
        const bool axis =
            std::any_of(stage.def.axes.begin(), stage.def.axes.end(), [&](const Axis &a) { return a.name() == l; });
        if (nested || (known == joined_.end() && !axis))
            throw Unsupported("stage " + stage.name() + ": loop " + f.fused + " fuses " + l +
                              "; the chip fuses axes of a stage at the root, before they are split");
        if (stage.part && stage.part->axis == l)
            throw Unsupported("stage " + stage.name() + ": loop " + f.fused + " fuses " + l +
                              ", along which it is a part of " + stage.tensor() +
                              "; the chip fuses the other axes of a region");
        if (known == joined_.end()) {
            j.axes.push_back(l);
            continue;
        }
        j.axes.insert(j.axes.end(), known->axes.begin(), known->axes.end() - 1);
        joined_.erase(known);
    }
    j.axes.push_back(f.fused); // last: the loop's name
    joined_.push_back(j);
}

void StagePlan::add_loops(const Extents &extents, bool nested) {
    const StageState &stage = *stage_;
    bool lanes = false;
    for (const std::string &name : stage.order) {
        const LoopState &l = stage.loop(name);
        PlannedLoop p;
        p.name = name;
        p.extent = extents.at(name);
        p.reduction = l.reduction;
        lanes = lanes || (stage.tensorize && stage.tensorize->loop == name);
        if (lanes || l.kind == LoopKind::Vectorized) {
            p.kind = PlannedLoop::Kind::Lane;
        } else if (l.kind == LoopKind::Bound) {
            p.kind = PlannedLoop::Kind::Unit;
            for (int v = 0; v < level_count; v++) {
                if (l.unit == level_names[size_t(v)]) p.level = Tier(v);
            }
            if (l.reduction && !nested && p.level != Tier::Mab && !(stage.tensorize && p.level == Tier::L1b))
                throw Unsupported(
                    "stage " + stage.name() + ": reduction loop " + name + " is bound to " + l.unit +
                    "; reductions over units are supported over MABs, and those of products over L1Bs too");
        } else if (l.kind == LoopKind::Parallel) {
            throw UserError("stage " + stage.name() + ": loop " + name +
                            " is parallel; on the chip, bind it to a level");
        }
        loops_.push_back(p);
    }
}

void StagePlan::check_units(const sim::Config &config) const {
    for (int v = 0; v < level_count; v++) {
        if (used(Tier(v)) > units_of(config, Tier(v)))
            throw UserError(fmt::format("stage {}: the loops bound to {} have {} iterations together, but {} has {}",
                                        stage_->name(), level_names[size_t(v)], used(Tier(v)), config.name,
                                        units_of(config, Tier(v))));
    }
}

// If the outer stage splits a level further inside, its units keep their numbers.
void StagePlan::find_idle_units(const Nesting &nesting) {
    for (int v = 0; v < level_count; v++) {
        int64_t outer = 1, inner = 1, own = 1;
        const auto &its = nesting.outer->loops();
        for (size_t l = 0; l < its.size(); l++) {
            if (its[l].kind == PlannedLoop::Kind::Unit && its[l].level == Tier(v))
                (l <= nesting.depth ? outer : inner) *= its[l].extent;
        }
        for (size_t l = first_own_; l < loops_.size(); l++) {
            if (loops_[l].kind == PlannedLoop::Kind::Unit && loops_[l].level == Tier(v)) own *= loops_[l].extent;
        }
        if (outer > 1 && inner % own == 0) idle_[size_t(v)] = inner / own;
    }
}

// Expresses every axis as a sum of the loops.
void StagePlan::express_axes(const Extents &extents, const Nesting *nesting) {
    const StageState &stage = *stage_;
    std::map<std::string, Affine> values;
    for (size_t l = 0; l < loops_.size(); l++) {
        Affine a;
        a.coefficients.resize(loops_.size());
        a.coefficients[l] = 1;
        values[loops_[l].name] = a;
    }
    for (size_t r = stage.relations.size(); r-- > 0;) {
        if (std::holds_alternative<FuseRelation>(stage.relations[r])) continue;
        const auto &s = std::get<SplitRelation>(stage.relations[r]);
        if (nesting) { // loops that the outer stage executes
            const Affine none{0, std::vector<int64_t>(loops_.size(), 0)};
            values.insert({s.inner, none});
            values.insert({s.outer, none});
        }
        Affine a = values.at(s.inner);
        const Affine &outer = values.at(s.outer);
        a.constant += outer.constant * s.factor;
        for (size_t l = 0; l < loops_.size(); l++) a.coefficients[l] += outer.coefficients[l] * s.factor;
        values[s.parent] = a;
        if (extents.at(s.parent) % s.factor != 0) guards_.push_back({a, extents.at(s.parent)});
    }
    std::set<std::string> parts;
    for (Joined &j : joined_) {
        j.value = values.at(j.axes.back());
        j.axes.pop_back();
        parts.insert(j.axes.begin(), j.axes.end());
    }
    for (const auto *axes : {&stage.def.axes, &stage.def.reduction_axes}) {
        for (const Axis &a : *axes) {
            if (parts.contains(a.name())) continue;
            const auto at = values.find(a.name());
            if (at == values.end() && !nesting) throw InternalError("axis " + a.name() + " has no loop");
            axes_[a.name()] = at != values.end() ? at->second : Affine{0, std::vector<int64_t>(loops_.size(), 0)};
            if (stage.part && stage.part->axis == a.name()) axes_[a.name()].constant += stage.part->first;
        }
    }
    for (size_t d = 0; nesting && d < stage.def.axes.size(); d++) {
        Affine &a = axes_[stage.def.axes[d].name()];
        a.constant += nesting->first[d].constant;
        for (size_t l = 0; l < first_own_; l++) a.coefficients[l] += nesting->first[d].coefficients[l];
    }
}

int64_t StagePlan::extent_of(const Axis &axis) const {
    return number(axis.extent(), "the extent of axis " + axis.name());
}

size_t StagePlan::loop(const std::string &name) const {
    for (size_t l = 0; l < loops_.size(); l++) {
        if (loops_[l].name == name) return l;
    }
    throw InternalError("loop " + name + " of stage " + stage_->name() + " does not stand");
}

Affine StagePlan::affine(const Expr &e) const {
    Affine r;
    r.coefficients.resize(loops_.size());
    const auto add = [&](const Affine &a, int64_t times) {
        r.constant += a.constant * times;
        for (size_t l = 0; l < loops_.size(); l++) r.coefficients[l] += a.coefficients[l] * times;
    };
    if (const auto n = as_const_int(e)) {
        r.constant = *n;
        return r;
    }
    if (const Variable *v = e.as<Variable>()) {
        const auto it = axes_.find(v->name);
        if (it != axes_.end()) return it->second;
        for (const Joined &j : joined_) {
            if (std::find(j.axes.begin(), j.axes.end(), v->name) != j.axes.end())
                throw Unsupported("stage " + stage_->name() + " reads at " + v->name +
                                  ", which a fused loop joins with other axes; on the chip, a tensor that the stage "
                                  "reads has all of the joined axes side by side, or none of them");
        }
    }
    if (const Add *op = e.as<Add>()) {
        add(affine(op->a), 1);
        add(affine(op->b), 1);
        return r;
    }
    if (const Sub *op = e.as<Sub>()) {
        add(affine(op->a), 1);
        add(affine(op->b), -1);
        return r;
    }
    if (const Mul *op = e.as<Mul>()) {
        if (const auto n = as_const_int(op->b)) {
            add(affine(op->a), *n);
            return r;
        }
        if (const auto n = as_const_int(op->a)) {
            add(affine(op->b), *n);
            return r;
        }
    }
    throw Unsupported("stage " + stage_->name() + ": index " + to_string(e) +
                      " is not affine; the chip can only address affine indices");
}

// The joined axes that these indices are, from `first` on, if the tensor has the same extents.
const StagePlan::Joined *StagePlan::joined_at(const std::vector<Expr> &index, const std::vector<Axis> &axes,
                                              size_t first) const {
    for (const Joined &j : joined_) {
        bool same = first + j.axes.size() <= index.size();
        for (size_t d = 0; same && d < j.axes.size(); d++) {
            const Variable *v = index[first + d].as<Variable>();
            same = v && v->name == j.axes[d];
            for (const Axis &a : stage_->def.axes)
                same = same && (a.name() != j.axes[d] || extent_of(a) == extent_of(axes[first + d]));
        }
        if (same) return &j;
    }
    return nullptr;
}

TensorAccess StagePlan::access(std::string tensor, Type type, const std::vector<Expr> &index,
                               const std::vector<Axis> &axes) const {
    TensorAccess t{std::move(tensor), type, {}, {}};
    // A row that is the same for all iterations that a loop joins with its axis.
    for (const Joined &j : joined_) {
        const Variable *v = index.size() == 1 ? index[0].as<Variable>() : nullptr;
        if (!v || v->name != j.axes.back()) continue;
        for (const Axis &a : stage_->def.axes) {
            if (a.name() == v->name && extent_of(a) == extent_of(axes[0])) t.period = extent_of(a);
        }
        if (!t.period) continue;
        t.index.push_back(j.value);
        for (int64_t &c : t.index[0].coefficients) c = c % t.period ? c : 0;
        t.extents.push_back(t.period);
        return t;
    }
    for (size_t d = 0; d < index.size();) {
        const Joined *j = joined_at(index, axes, d);
        t.index.push_back(j ? j->value : affine(index[d]));
        t.extents.push_back(1);
        for (size_t n = j ? j->axes.size() : 1; n > 0; n--) t.extents.back() *= extent_of(axes[d++]);
    }
    return t;
}

TensorAccess StagePlan::access(const ScheduleState &state, const Expr &read) const {
    const Call *call = read.as<Call>();
    return access(call->name, read.type(), call->args, state.axes_of(call->name));
}

TensorAccess StagePlan::own() const {
    const Stage &def = stage_->def;
    std::vector<Expr> index;
    for (const Axis &a : def.axes) index.push_back(a);
    return access(def.name, def.is_reduction() ? def.components.front().type : def.type, index, def.axes);
}

bool StagePlan::inside(const Values &values, const std::vector<bool> &without) const {
    for (const Guard &g : guards_) {
        bool asked = true;
        for (size_t l = 0; l < loops_.size(); l++) asked = asked && !(without[l] && g.value.depends(l));
        if (asked && g.value.at(values) >= g.limit) return false;
    }
    return true;
}

int64_t StagePlan::reach(const Affine &index, size_t depth) const {
    // Whether it equals the index on the inner loops and uses no others.
    const auto same = [&](const Affine &value) {
        bool equal = true;
        for (size_t l = 0; l < loops_.size(); l++)
            equal = equal && (l > depth ? value.coefficients[l] == index.coefficients[l]
                                        : loops_[l].extent == 1 || !value.depends(l));
        return equal;
    };
    int64_t n = 1;
    for (size_t l = depth + 1; l < loops_.size(); l++) n += index.coefficients[l] * (loops_[l].extent - 1);
    for (const Guard &g : guards_) {
        if (same(g.value)) n = std::min(n, g.limit);
    }
    return n;
}

int64_t StagePlan::used(Tier level) const {
    int64_t n = 1;
    for (const PlannedLoop &l : loops_) {
        if (l.kind == PlannedLoop::Kind::Unit && l.level == level) n *= l.extent;
    }
    return n;
}

void StagePlan::set_unit(Values &values, Tier level, int unit) const {
    int64_t u = unit % (used(level) * idle_[size_t(level)]);
    for (size_t l = loops_.size(); l-- > 0;) {
        if (l + 1 == first_own_) u /= idle_[size_t(level)];
        const PlannedLoop &p = loops_[l];
        if (p.kind != PlannedLoop::Kind::Unit || p.level != level) continue;
        values[l] = u % p.extent;
        u /= p.extent;
    }
}

int64_t StagePlan::part(const TensorAccess &access, Tier level, int unit) const {
    int64_t u = unit % (used(level) * idle_[size_t(level)]), number = 0, weight = 1;
    for (size_t l = loops_.size(); l-- > 0;) {
        if (l + 1 == first_own_) u /= idle_[size_t(level)];
        const PlannedLoop &p = loops_[l];
        if (p.kind != PlannedLoop::Kind::Unit || p.level != level) continue;
        if (access.depends(l)) {
            number += u % p.extent * weight;
            weight *= p.extent;
        }
        u /= p.extent;
    }
    return number;
}

int64_t StagePlan::parts(const TensorAccess &access, Tier level) const {
    int64_t n = 1;
    for (size_t l = 0; l < loops_.size(); l++) {
        const PlannedLoop &p = loops_[l];
        if (p.kind == PlannedLoop::Kind::Unit && p.level == level && access.depends(l)) n *= p.extent;
    }
    return n;
}

} // namespace kumiko::chip
