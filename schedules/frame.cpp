#include "schedules/frame.h"

#include "dsl/float_casts.h"
#include "dsl/reads.h"
#include "schedules/linear.h"
#include "support/error.h"

#include <numeric>
#include <set>

namespace kumiko {

using namespace Halide::Internal;

namespace {

Expr simple_size(const Expr &e) {
    const auto n = number_of(e);
    return n ? Expr(static_cast<int>(*n)) : simplify(e);
}

} // namespace

Expr Region::end(size_t d) const {
    return step_of(d) == 1 ? min[d] + extent[d] : min[d] + (extent[d] - 1) * step_of(d) + 1;
}

Region whole_region(const Stage &stage) {
    Region r;
    for (const Axis &a : stage.axes) {
        r.min.push_back(0);
        r.extent.push_back(a.extent());
    }
    return r;
}

Frame::Frame(const StageState &stage, const Region &region, std::string prefix)
    : stage_(&stage), region_(region), prefix_(std::move(prefix)), modes_(stage.relations.size(), Mode::Whole) {
    derive();
}

void Frame::derive() {
    extents_.clear();
    for (size_t d = 0; d < stage_->def.axes.size(); d++) extents_[stage_->def.axes[d].name()] = region_.extent[d];
    for (const Axis &a : stage_->def.reduction_axes) extents_[a.name()] = a.extent();
    for (size_t r = 0; r < stage_->relations.size(); r++) {
        for (const auto &[loop, e] : overridden_) extents_[loop] = e;
        if (const auto *s = std::get_if<SplitRelation>(&stage_->relations[r])) {
            const Expr parent = extents_.at(s->parent);
            const Expr f = static_cast<int>(s->factor);
            switch (modes_[r]) {
            case Mode::Whole:
                extents_[s->outer] = simple_size(count_blocks(parent, s->factor));
                extents_[s->inner] = f;
                break;
            case Mode::Main:
                extents_[s->outer] = simple_size(parent / f);
                extents_[s->inner] = f;
                break;
            case Mode::Rest:
                extents_[s->outer] = 1;
                extents_[s->inner] = simple_size(parent % f);
                break;
            case Mode::Clip:
                extents_[s->outer] = simple_size((parent + f - 1) / f);
                extents_[s->inner] = simple_size(min(parent - value(s->outer) * f, f));
                break;
            }
        } else {
            const auto &f = std::get<FuseRelation>(stage_->relations[r]);
            extents_[f.fused] = simple_size(extents_.at(f.outer) * extents_.at(f.inner));
        }
    }
    for (const auto &[loop, e] : overridden_) extents_[loop] = e;
}

Expr Frame::variable(const std::string &loop) const { return Variable::make(Int(32), prefix_ + loop); }

Expr Frame::extent(const std::string &loop) const { return extents_.at(loop); }

Expr Frame::value(const std::string &loop) const {
    if (auto it = pinned_.find(loop); it != pinned_.end()) return it->second;
    if (stage_->has_loop(loop)) return is_const_one(extents_.at(loop)) && !kept(loop) ? Expr(0) : variable(loop);
    for (const Relation &r : stage_->relations) {
        if (const auto *s = std::get_if<SplitRelation>(&r); s && s->parent == loop) {
            const Expr f = static_cast<int>(s->factor);
            Expr start = value(s->outer) * f;
            // A shifted last block ends at the extent. If the extent is smaller than a block, it
            // starts at 0 and is guarded.
            if (s->tail == Tail::Shift) start = max(min(start, extents_.at(loop) - f), 0);
            return start + value(s->inner);
        }
        if (const auto *f = std::get_if<FuseRelation>(&r)) {
            if (f->outer == loop) return value(f->fused) / extents_.at(f->inner);
            if (f->inner == loop) return value(f->fused) % extents_.at(f->inner);
        }
    }
    throw InternalError("loop " + loop + " of stage " + stage_->name() + " has no value");
}

Expr Frame::index(const std::string &axis) const {
    for (size_t d = 0; d < stage_->def.axes.size(); d++) {
        if (stage_->def.axes[d].name() == axis) {
            const Expr v = value(axis);
            return region_.min[d] + (region_.step_of(d) == 1 ? v : v * region_.step_of(d));
        }
    }
    const auto first = first_steps_.find(axis);
    return first == first_steps_.end() ? value(axis) : first->second + value(axis);
}

void Frame::run_steps(const std::string &axis, const Expr &first, const Expr &extent) {
    first_steps_[axis] = first;
    override_extent(axis, extent);
}

Expr Frame::first_step(const std::string &loop) const {
    const auto first = first_steps_.find(loop);
    return first == first_steps_.end() ? Expr(0) : first->second;
}

void Frame::set_mode(size_t relation, Mode mode) {
    modes_[relation] = mode;
    derive();
}

void Frame::pin(const std::string &loop, const Expr &value) { pinned_[loop] = value; }

void Frame::override_extent(const std::string &loop, const Expr &extent) {
    overridden_[loop] = extent;
    derive();
}

std::set<std::string> Frame::live_loops(const std::string &loop) const {
    if (stage_->has_loop(loop)) return {loop};
    for (const Relation &r : stage_->relations) {
        if (const auto *s = std::get_if<SplitRelation>(&r); s && s->parent == loop) {
            std::set<std::string> all = live_loops(s->outer);
            all.merge(live_loops(s->inner));
            return all;
        }
        if (const auto *f = std::get_if<FuseRelation>(&r); f && (f->outer == loop || f->inner == loop))
            return live_loops(f->fused);
    }
    return {};
}

Interval Frame::axis_interval(const std::string &axis, size_t depth, const Bounds &bounds) const {
    Bounds scope;
    for (size_t i = depth; i < stage_->order.size(); i++) {
        const std::string &loop = stage_->order[i];
        if (pinned(loop)) continue;
        scope.push(prefix_ + loop, Interval(0, simple_size(extents_.at(loop) - 1)));
    }
    const Expr e = simplify_index(index(axis), bounds);
    Interval i = bounds_of_expr_in_scope(e, scope);
    if (!i.is_bounded()) throw InternalError("axis " + axis + " of stage " + stage_->name() + " is not bounded");
    i.min = simplify_index(i.min, bounds);
    i.max = simplify_index(i.max, bounds);
    return i;
}

Region region_union(const Region &a, const Region &b, const Bounds &known) {
    Region u;
    for (size_t d = 0; d < a.min.size(); d++) {
        const Expr lo = simplify_index(Min::make(a.min[d], b.min[d]), known);
        const Expr hi = simplify_index(Max::make(a.end(d), b.end(d)), known);
        u.min.push_back(lo);
        u.extent.push_back(simplify_index(hi - lo, known));
    }
    return u;
}

namespace {

// The indices of every read of a tensor.
std::vector<std::vector<Expr>> reads_of(const Expr &e, const std::string &tensor) {
    std::vector<std::vector<Expr>> found;
    for (const Call *read : reads_of_tensors({e}, {tensor})) found.push_back(read->args);
    return found;
}

// Decomposes an index: its value with all varying variables of the scope at their first value, and
// the greatest common divisor of the strides of these variables; 1 if a stride is not constant.
std::pair<Expr, int64_t> lattice_of(const Expr &index, const Bounds &scope, const Bounds &known) {
    Expr first = index;
    int64_t step = 0;
    for (auto v = scope.cbegin(); v != scope.cend(); ++v) {
        if (!expr_uses_var(index, v.name())) continue;
        const Interval &i = v.value();
        first = substitute(v.name(), i.min, first);
        if (i.is_single_point() || proves(i.max <= i.min, known)) continue;
        const auto grows = slope_of(index, v.name());
        step = grows ? std::gcd(step, *grows) : 1;
    }
    return {first, step};
}

} // namespace

std::optional<Interval> index_range(const Expr &index, const Bounds &scope) {
    if (!tensors_read(index).empty()) return std::nullopt;
    const Interval i = range_of(simplified(index), scope);
    return i.is_bounded() ? std::optional(i) : std::nullopt;
}

std::optional<Region> region_read(const Expr &e, const std::string &tensor, const Bounds &scope, const Region &whole,
                                  const Bounds &known) {
    std::optional<Region> all;
    for (const auto &args : reads_of(e, tensor)) {
        Region r;
        for (size_t d = 0; d < args.size(); d++) {
            const Interval i =
                index_range(args[d], scope).value_or(Interval(whole.min[d], whole.min[d] + whole.extent[d] - 1));
            const Expr lo = simplify_index(i.min, known);
            r.min.push_back(lo);
            r.extent.push_back(simplify_index(i.max - lo + 1, known));
        }
        all = all ? region_union(*all, r, known) : r;
    }
    return all;
}

std::optional<Region> lattice_read(const std::vector<Expr> &all, const std::string &tensor, const Bounds &scope,
                                   const Region &whole, const Bounds &known) {
    std::optional<Region> region;
    std::vector<std::vector<Expr>> reads;
    for (const Expr &e : all) {
        if (auto read = region_read(e, tensor, scope, whole, known))
            region = region ? region_union(*region, *read, known) : read;
        for (auto &args : reads_of(e, tensor)) reads.push_back(args);
    }
    if (!region) return region;
    std::vector<int> steps;
    for (size_t d = 0; d < whole.min.size(); d++) {
        int64_t step = 0;
        Expr first;
        for (const auto &args : reads) {
            if (!tensors_read(args[d]).empty()) step = 1; // data-dependent
            if (step == 1) break;
            const auto [at, grows] = lattice_of(args[d], scope, known);
            step = std::gcd(step, grows);
            if (first.defined()) {
                const auto distance = as_const_int(simplify_index(at - first, known));
                step = distance ? std::gcd(step, *distance) : 1;
            }
            first = at;
        }
        // A single index needs no step, and the first stored index must be one that is read.
        const bool apart =
            step > 1 && step < (1 << 20) && proves((first - region->min[d]) % static_cast<int>(step) == 0, known);
        steps.push_back(apart ? static_cast<int>(step) : 1);
        if (steps[d] > 1) region->extent[d] = simplify_index((region->extent[d] - 1) / steps[d] + 1, known);
    }
    if (std::any_of(steps.begin(), steps.end(), [](int s) { return s > 1; })) region->step = steps;
    return region;
}

} // namespace kumiko
