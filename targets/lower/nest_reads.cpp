// What the expressions of a stage read, and the regions that are needed for them.
#include "targets/lower/nest_reads.h"
#include "dsl/bounded.h"
#include "dsl/reach.h"
#include "dsl/reads.h"
#include "dsl/recurrence.h"
#include "schedules/linear.h"
#include "schedules/online.h"
#include "schedules/own_part.h"
#include "schedules/rolling.h"
#include "schedules/shared_loops.h"

#include "support/error.h"

namespace kumiko {

using namespace Halide::Internal;

// Replaces reads of inlined stages by their expressions.
Expr NestReads::inlined(const Expr &e) {
    return map_reads(functions_in_place(state_, e), [&](const Call *read, const Expr &e) {
        const StageState *s = state_.find(read->name);
        if (!s || s->placement.kind != Placement::Kind::Inline) return e;
        return at_indices(inlined_value(*s), s->def.axes, read->args);
    });
}

Expr NestReads::inlined_value(const StageState &s) {
    if (auto it = inlined_.find(s.name()); it != inlined_.end()) return it->second;
    const Expr e = inlined(s.def.value);
    inlined_[s.name()] = e;
    return e;
}

// Replaces sums like y * width + x of axes (or a fused loop and its inner loop) by the loop that
// was fused from both.
Expr NestReads::joined(const Frame &f, const Expr &e) const {
    struct Join : IRGraphMutator {
        using IRGraphMutator::visit;
        const Frame *f;
        Expr visit(const Add *op) override {
            const Expr e = IRGraphMutator::visit(op);
            op = e.as<Add>();
            const Mul *outer = op ? op->a.as<Mul>() : nullptr;
            const Variable *o = outer ? outer->a.as<Variable>() : nullptr;
            const Variable *i = op ? op->b.as<Variable>() : nullptr;
            if (!o || !i) return e;
            for (const Relation &r : f->stage().relations) {
                const auto *fuse = std::get_if<FuseRelation>(&r);
                if (fuse && fuse->outer == o->name && fuse->inner == i->name && begins_at_zero(o->name) &&
                    begins_at_zero(i->name) && equal(simplify(f->extent(i->name)), simplify(outer->b)))
                    return Variable::make(Int(32), fuse->fused);
            }
            return e;
        }
        // The loop variable has the value that the expression needs only if the axis of that name
        // begins at zero.
        bool begins_at_zero(const std::string &name) const {
            const auto &axes = f->stage().def.axes;
            for (size_t d = 0; d < axes.size(); d++) {
                if (axes[d].name() == name)
                    return is_const_zero(simplify(f->region().min[d])) && f->region().step_of(d) == 1;
            }
            return is_const_zero(f->first_step(name));
        }
    } join;
    join.f = &f;
    return join.mutate(e);
}

// An expression of the stage at the frame's indices, reading the buffers in scope.
Expr NestReads::at(const Frame &f, const Expr &e) {
    std::map<std::string, Expr> index;
    for (const Relation &r : f.stage().relations) {
        if (const auto *fuse = std::get_if<FuseRelation>(&r))
            index[fuse->fused] = simplify_index(f.value(fuse->fused), bounds_);
    }
    for (const Axis &a : f.stage().def.axes) index[a.name()] = simplify_index(f.index(a.name()), bounds_);
    for (const Axis &a : f.stage().def.reduction_axes) index[a.name()] = simplify_index(f.index(a.name()), bounds_);
    return in_buffers(substitute(index, joined(f, kept_near(f.stage(), inlined(e)))), &f);
}

// Whether axis d of the stage, or of the stage it copies, may be read out of bounds.
bool NestReads::read_beyond(const StageState &s, size_t d) const {
    const StageState *source = &s;
    while (source->is_copy && state_.find(source->copied)) source = state_.find(source->copied);
    return source->def.kind == Stage::Kind::Padding && pads(source->def, d);
}

// The stored region of a stage read at unknown indices: all of it, plus, for padding, which extends
// infinitely, the first element on each side.
Region NestReads::anywhere(const StageState &s) const {
    Region r = whole_region(s.def);
    for (size_t d = 0; d < r.min.size(); d++) {
        if (!read_beyond(s, d)) continue;
        r.min[d] = -1;
        r.extent[d] = simplify_index(r.extent[d] + 2, bounds_);
    }
    return r;
}

// Clamps reads of stored padding at indices that the stage's loops may not bound to the region of
// `anywhere`; all elements beyond one end of an axis are equal. Affine indices are always bounded
// by the loops.
Expr NestReads::kept_near(const StageState &reader, const Expr &e) const {
    Bounds scope;
    for (const auto *axes : {&reader.def.axes, &reader.def.reduction_axes}) {
        for (const Axis &a : *axes) scope.push(a.name(), Interval(0, simplify(a.extent() - 1)));
    }
    return map_reads(e, [&](const Call *read, const Expr &e) {
        const StageState *s = state_.find(read->name);
        if (!s || s->placement.kind == Placement::Kind::Inline) return e;
        std::vector<Expr> args = read->args;
        bool moved = false;
        for (size_t d = 0; d < args.size(); d++) {
            if (!read_beyond(*s, d)) continue;
            const Region all = anywhere(*s);
            const auto range = index_range(args[d], scope);
            if (range && (LinearSum().add(simplify(args[d]), 1) ||
                          can_prove(range->min >= all.min[d] && range->max < all.end(d))))
                continue;
            args[d] = max(min(args[d], simplify_index(all.end(d) - 1, bounds_)), all.min[d]);
            moved = true;
        }
        return moved ? read_tensor(read->type, read->name, args) : e;
    });
}

// The tensor and its buffer in the current scope. Earlier elements of a recurrence are in its own
// buffer.
std::map<std::string, std::string>::const_iterator NestReads::buffer_of(const std::string &tensor) const {
    const auto found = buffers_.find(tensor);
    return found == buffers_.end() ? buffers_.find(earlier_of(tensor)) : found;
}

// Replaces reads of tensors by reads of their buffers in the current scope; `at` is the frame of
// the reading stage.
Expr NestReads::in_buffers(const Expr &e, const Frame *at) {
    return map_reads(e, [&](const Call *read, const Expr &e) {
        const auto it = buffer_of(read->name);
        if (it == buffers_.end()) {
            throw UserError("tensor " + read->name +
                            " is read where it has not been computed; place it at a loop that encloses the read");
        }
        if (at && by_loops_.count(it->second)) return read_tensor(read->type, it->second, place(*at, it->second));
        return it->second == read->name ? e : read_tensor(read->type, it->second, read->args);
    });
}

std::vector<Expr> NestReads::indices(const Frame &f) {
    std::vector<Expr> all;
    for (const Axis &a : f.stage().def.axes) all.push_back(simplify_index(f.index(a.name()), bounds_));
    return all;
}

// The position in one of the stage's buffers of the value computed at the frame's indices.
std::vector<Expr> NestReads::place(const Frame &f, const std::string &buffer) {
    const auto found = by_loops_.find(buffer);
    if (found == by_loops_.end()) return indices(f);
    std::vector<Expr> all;
    for (const std::string &loop : found->second) all.push_back(simplify_index(f.value(loop), bounds_));
    return all;
}

// The expressions that run in the loops of a stage: its own, and those of a fused epilogue.
std::vector<Expr> NestReads::expressions_of(const StageState &s) {
    std::vector<Expr> all;
    for (const Expr &e : s.def.expressions()) all.push_back(kept_near(s, inlined(e)));
    if (!s.finished_into.empty()) all.push_back(kept_near(s, inlined(state_.stage(s.finished_into).def.value)));
    return all;
}

// Whether loops of the reduction skip terms.
bool NestReads::leaves_out_terms(const StageState &s) const {
    if (s.online || s.tensorize || term_bounds(s.def).empty()) return false;
    return std::none_of(s.relations.begin(), s.relations.end(), [&](const Relation &r) {
        const auto *fuse = std::get_if<FuseRelation>(&r);
        return fuse && s.find_loop(fuse->fused)->reduction;
    });
}

// Restricts reduction axes to the steps at which a term may exist, given the ranges of the other
// axes.
void NestReads::bound_steps(const StageState &s, Bounds &scope) const {
    if (!leaves_out_terms(s)) return;
    for (const Axis &a : s.def.reduction_axes) {
        const Interval now = scope.get(a.name()), steps = steps_of_terms(s.def, a, scope);
        const Expr first = simplify_index(max(now.min, steps.min), bounds_);
        scope.pop(a.name());
        scope.push(a.name(), Interval(first, simplify_index(min(now.max, steps.max), bounds_)));
    }
}

// The frame in which the loops from `depth`, the position of the outermost reduction loop, run over
// the steps at which a term may exist. Nullopt if no bound skips a step.
std::optional<Frame> NestReads::with_bounded_steps(const Frame &f, size_t depth) const {
    if (!leaves_out_terms(f.stage())) return std::nullopt;
    const Bounds scope = scope_of(f, depth);
    Frame bounded = f;
    for (const Axis &a : f.stage().def.reduction_axes) {
        const Interval steps = scope.get(a.name());
        if (is_const_zero(steps.min) && proves(steps.max >= a.extent() - 1, bounds_)) continue;
        bounded.run_steps(a.name(), steps.min, simplify_index(max(steps.max - steps.min + 1, 0), bounds_));
        for (const Expr &bound : term_bounds(f.stage().def)) {
            if (bounds_exactly(bound, a, scope)) bounded.note_holds(bound);
        }
    }
    return bounded.bounded() ? std::optional(bounded) : std::nullopt;
}

// The ranges of a stage's axes below a depth.
Bounds NestReads::scope_of(const Frame &f, size_t depth) const {
    Bounds scope;
    for (const auto *axes : {&f.stage().def.axes, &f.stage().def.reduction_axes}) {
        for (const Axis &a : *axes) scope.push(a.name(), f.axis_interval(a.name(), depth, bounds_));
    }
    bound_steps(f.stage(), scope);
    for (const Relation &r : f.stage().relations) { // for the loops that `joined` introduces
        if (const auto *fuse = std::get_if<FuseRelation>(&r))
            scope.push(fuse->fused, f.axis_interval(fuse->fused, depth, bounds_));
    }
    return scope;
}

// The region of `p` needed below `depth` of the stage in `f`; nullopt if every reader was inlined
// into a form that does not read it. A copy with that stage as its only reader keeps to the lattice
// that is read. For a stage computed piecewise in the loops of a reader, the region is what that
// reader reads.
std::optional<Region> NestReads::needed(const StageState &p, const Frame &f, size_t depth) {
    std::map<std::string, std::optional<Region>> known;
    return needed(p, f, depth, known);
}

// `known` holds the regions already found, by stage name.
std::optional<Region> NestReads::needed(const StageState &p, const Frame &f, size_t depth,
                                        std::map<std::string, std::optional<Region>> &known) {
    if (const auto found = known.find(p.name()); found != known.end()) return found->second;
    if (p.is_copy) {
        const auto readers = state_.consumers(p.name());
        const StageState *by = readers.size() == 1 ? finisher_of(readers[0]) : nullptr;
        if (readers.size() == 1 && (by ? by->name() : readers[0]) == f.stage().name()) {
            std::vector<Expr> all = expressions_of(f.stage());
            for (Expr &e : all) e = joined(f, e);
            return lattice_read(all, p.name(), scope_of(f, depth), anywhere(p), bounds_);
        }
    }
    std::optional<Region> all;
    if (follows(p) && p.online->anchor == f.stage().name()) all = rows_of(p, f, depth);
    const auto add = [&](const StageState &reader, const Bounds &scope) {
        for (const Expr &e : expressions_of(reader)) {
            for (const std::string &tensor : names_of(p)) {
                if (auto r = region_read(e, tensor, scope, anywhere(p), bounds_))
                    all = all ? region_union(*all, *r, bounds_) : r;
            }
        }
    };
    std::set<std::string> done;
    for (const std::string &name : state_.consumers(p.name())) {
        const StageState *reader = state_.find(name);
        if (p.computed && !rolls(p) && p.computed->consumer == f.stage().name() && name != f.stage().name()) continue;
        if (const StageState *by = finisher_of(name)) reader = by;
        if (!done.insert(reader->name()).second) continue;
        Bounds scope;
        if (reader->name() == f.stage().name()) {
            scope = scope_of(f, depth);
        } else if (const auto beside = frame_beside(*reader, f, depth)) {
            scope = scope_of(*beside, depth);
        } else {
            // Loops with a fused epilogue run over the region in which the epilogue is needed.
            const StageState &head = head_of(state_, *reader);
            std::optional<Region> r = needed(head, f, depth, known);
            if (!r) continue;
            if (newest_of_ && newest_of_->count(head.name())) r = newest(rolling_.at(head.name()), *r);
            for (size_t d = 0; d < reader->def.axes.size(); d++) {
                const Axis &axis = reader->def.axes[d];
                Interval range(r->min[d], simplify_index(r->end(d) - 1, bounds_));
                // Padding reads nothing beyond its ends. The range is clipped only if it surely
                // contains them, so that the region read still moves by equal steps.
                if (reader->def.kind == Stage::Kind::Padding && pads(reader->def, d) &&
                    proves(range.min <= 0 && range.max >= axis.extent() - 1, bounds_))
                    range = Interval(0, simplify(axis.extent() - 1));
                scope.push(axis.name(), range);
            }
            // A follower is updated for a single block if a loop over its blocks encloses this
            // position.
            const bool block = follows(*reader) && reader->online->anchor == f.stage().name() &&
                               f.stage().position(reader->online->loop) < depth;
            for (const Axis &a : reader->def.reduction_axes)
                scope.push(a.name(), block ? Interval::single_point(f.value(reader->online->loop))
                                           : Interval(0, simplify(a.extent() - 1)));
            bound_steps(*reader, scope);
        }
        add(*reader, scope);
    }
    if (all && p.def.reads_itself()) with_elements_before(p, *all);
    const bool plain = p.placement.kind == Placement::Kind::At && !follows(p) && !p.online;
    if (all && plain && leaves_out_) {
        for (Expr &extent : all->extent) { // it may be negative for a window without any step
            if (!proves(extent >= 0, bounds_)) extent = simplify_index(max(extent, 0), bounds_);
        }
    }
    if (all && plain && !covers_reads(p)) all = existing(p, *all);
    if (all && plain && !p.stored && !state_.op.is_output(p.name()) && !p.shared && in_nest_of(p).empty())
        all = from_whole_blocks(p, *all);
    if (all && plain && !p.def.step_axis.empty() && writes_output(state_.op, p.def)) {
        const auto whole = whole_axes(state_, p.name(), p.placement.consumer, p.placement.loop);
        const Region ever = whole_region(p.def);
        for (size_t d = 0; d < whole.size(); d++) {
            if (whole[d]) all->min[d] = ever.min[d], all->extent[d] = ever.extent[d];
        }
    }
    return known[p.name()] = all;
}

// Extends the region of a recurrence to all elements that it depends on: along an axis with reads
// at lower indices it begins with the first element, with reads at higher indices it ends with the
// last.
void NestReads::with_elements_before(const StageState &p, Region &region) const {
    for (size_t d = 0; d < region.min.size(); d++) {
        const auto reads = [&](const auto &compares) {
            return std::any_of(p.def.distances.begin(), p.def.distances.end(),
                               [&](const std::vector<int64_t> &distance) { return compares(distance[d], 0); });
        };
        const Expr extent = p.def.axes[d].extent();
        Expr first = region.min[d], end = region.end(d);
        if (reads(std::greater<int64_t>())) first = proves(first >= 0, bounds_) ? Expr(0) : min(first, 0);
        if (reads(std::less<int64_t>())) end = proves(end <= extent, bounds_) ? extent : max(end, extent);
        region.min[d] = simplify_index(first, bounds_);
        region.extent[d] = simplify_index(end - first, bounds_);
    }
}

// Removes elements that the stage does not have, which padding only appears to read, if the same
// number is removed in each iteration.
Region NestReads::existing(const StageState &p, Region region) const {
    for (size_t d = 0; d < region.min.size(); d++) {
        const auto first = as_const_int(region.min[d]);
        if (!first || *first >= 0 || region.step_of(d) != 1 || read_beyond(p, d)) continue;
        region.extent[d] = simplify_index(max(region.extent[d] + region.min[d], 0), bounds_);
        region.min[d] = 0;
        const Expr extent = p.def.axes[d].extent();
        if (is_const(region.extent[d]) && proves(region.extent[d] >= extent, bounds_)) region.extent[d] = extent;
    }
    return region;
}

// Extends a region that begins inside a block to the beginning of that block. The blocks are those
// of a blocked copy that the stage reads at its own axis. Vectors then lie within blocks.
Region NestReads::from_whole_blocks(const StageState &p, Region region) {
    if (std::all_of(region.min.begin(), region.min.end(), [](const Expr &min) { return is_const(min); })) return region;
    std::map<std::string, int64_t> blocks; // by the stage's axis
    std::vector<Expr> fixed;               // indices whose axes keep their range
    const auto note = [&](const Call *read, const StageState &copy, const LayoutTerm &term) {
        for (size_t k = 0; k < read->args.size(); k++) {
            const auto *index = read->args[k].as<Variable>();
            if (!index || copy.def.axes[k].name() != term.axis) continue;
            const auto kept = kept_.find(copy.name());
            const Expr first = kept == kept_.end() ? Expr(0) : kept->second.min[k];
            if (proves(first % static_cast<int>(term.block) == 0, bounds_))
                blocks[index->name] = std::max(blocks[index->name], term.block);
        }
    };
    for (const Expr &e : expressions_of(p)) {
        for (const Call *read : tensor_reads(e)) {
            const StageState *copy = state_.find(read->name);
            if (const StageState *maximum = state_.producer(read->name); maximum && follows(*maximum)) {
                // The maximum is updated for this block only at the elements needed.
                for (const Expr &index : read->args) fixed.push_back(index);
            }
            if (!copy || !copy->is_copy) continue;
            for (const LayoutTerm &term : copy->layout) {
                if (term.part == LayoutTerm::Part::Outer) note(read, *copy, term);
            }
        }
    }
    for (size_t d = 0; d < region.min.size(); d++) {
        const std::string &axis = p.def.axes[d].name();
        const auto block = blocks.find(axis);
        const auto uses = [&](const Expr &index) { return expr_uses_var(index, axis); };
        if (std::any_of(fixed.begin(), fixed.end(), uses) || block == blocks.end() || block->second < 2 ||
            is_const(region.min[d]) || region.step_of(d) != 1 || !proves(region.min[d] >= 0, bounds_))
            continue;
        const int whole = static_cast<int>(block->second);
        const Expr extent = region.extent[d], longer = extent + region.min[d] % whole;
        region.extent[d] =
            simplify_index(proves(extent > 0, bounds_) ? longer : select(extent > 0, longer, 0), bounds_);
        region.min[d] = simplify_index(region.min[d] / whole * whole, bounds_);
    }
    return region;
}

std::vector<std::string> NestReads::names_of(const StageState &p) {
    return p.def.components.empty() ? std::vector{p.tensor()} : p.def.tensors();
}

// The part of the stage's own axes that the loops at depth and deeper touch.
Region NestReads::touched(const Frame &f, size_t depth) {
    Region r;
    for (const Axis &a : f.stage().def.axes) {
        const Interval i = f.axis_interval(a.name(), depth, bounds_);
        r.min.push_back(i.min);
        r.extent.push_back(simplify_index(i.max - i.min + 1, bounds_));
    }
    return r;
}

} // namespace kumiko
