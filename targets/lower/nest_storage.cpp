// Buffers: where each is allocated, its size and its memory level.
#include "targets/lower/nest_reads.h"

#include "dsl/reach.h"
#include "schedules/storage.h"
#include "support/error.h"

namespace kumiko {

using namespace Halide::Internal;
using Halide::MemoryType;

namespace {

// Bytes: an array of varying size up to this maximum is allocated at its maximum.
constexpr int64_t bound_limit = 1 << 22;
// Bytes: the largest array on the stack; larger arrays become workspaces.
constexpr int64_t stack_limit = 8192;

// Whether a storage order has blocks, the last of which may be partial.
bool has_blocks(const std::vector<LayoutTerm> &layout) {
    return std::any_of(layout.begin(), layout.end(),
                       [](const LayoutTerm &t) { return t.part == LayoutTerm::Part::Inner; });
}

} // namespace

std::string NestReads::fresh_instance(const std::string &name) {
    const int n = instances_[name]++;
    return n ? name + "'" + std::to_string(n) : name;
}

// The region extended by the range of padded tails and of lanes that read the partial results of
// their own stage.
Region NestReads::rounded_up(const StageState &s, const Region &region) const {
    Region stored = region;
    for (const Relation &r : s.relations) {
        const auto *split = std::get_if<SplitRelation>(&r);
        if (!split || (split->tail != Tail::Pad && !(s.def.is_reduction() && covers_reads(s)))) continue;
        const Frame f(s, region, "");
        for (const std::string &axis : s.axes_of(split->parent)) {
            for (size_t d = 0; d < s.def.axes.size(); d++) {
                if (s.def.axes[d].name() != axis) continue;
                const Interval i = f.axis_interval(axis, 0, bounds_);
                stored.extent[d] =
                    simplify_index(max(stored.extent[d], (i.max - region.min[d]) / region.step_of(d) + 1), bounds_);
            }
        }
    }
    return stored;
}

Stmt NestReads::with_storage(const StageState &s, const Region &region, const std::function<Stmt()> &body, int copies) {
    std::vector<std::string> axes;
    for (const Axis &a : s.def.axes) axes.push_back(a.name());
    return with_components(s.def, 0, axes, rounded_up(s, region), s.layout, s.level, "", false, region, body, copies);
}

// Records which elements of the region exist and so are written.
void NestReads::set_written(Storage &storage, const StageState &s, const Region &region) {
    const Region all = clipped(s, region);
    const StageState *origin = &s; // the source of a copy of a copy
    while (origin->is_copy && state_.find(origin->copied)) origin = state_.find(origin->copied);
    for (size_t d = 0; d < s.def.axes.size(); d++) {
        Expr first = all.min[d], end = all.end(d);
        if (origin->def.kind != Stage::Kind::Padding || !pads(origin->def, d)) {
            const Expr extent = s.def.axes[d].extent();
            if (!proves(end <= extent, bounds_)) end = simplify_index(min(end, extent), bounds_);
            if (!proves(first >= 0, bounds_)) first = simplify_index(max(first, 0), bounds_);
        }
        storage.written.first.push_back(first);
        storage.written.end.push_back(end);
    }
}

// Allocates a buffer for each component of the stage (or its single value) around the body, unless
// the caller owns it. `computed` is the region that the stage's loops compute; for an accumulator,
// all of whose lanes are written, it has no effect.
Stmt NestReads::with_components(const Stage &def, size_t c, const std::vector<std::string> &axes, const Region &region,
                                const std::vector<LayoutTerm> &layout, const std::string &level,
                                const std::string &suffix, bool covers_lanes, const Region &computed,
                                const std::function<Stmt()> &body, int copies) {
    const size_t n = std::max<size_t>(def.components.size(), 1);
    if (c == n) return body();
    const std::string tensor = def.components.empty() ? def.name : def.components[c].tensor;
    const Type type = def.components.empty() ? def.type : def.components[c].type;
    const auto next = [&] {
        return with_components(def, c + 1, axes, region, layout, level, suffix, covers_lanes, computed, body, copies);
    };
    if (suffix.empty() && is_argument(tensor)) return next();
    const std::string name = fresh_instance(tensor + suffix);
    Storage s;
    s.tensor = tensor;
    s.type = type;
    s.region = region;
    s.layout = layout;
    s.covers_lanes = covers_lanes;
    s.covers_reads = covers_lanes || covers_reads(state_.stage(def.name));
    const bool padded = !covers_lanes && (s.covers_reads || has_blocks(layout));
    if (padded) set_written(s, state_.stage(def.name), computed);
    s.axes = axes;
    s.copies = copies;
    if (const auto r = rolling_.find(def.name); suffix.empty() && r != rolling_.end()) {
        s.ring = r->second.axis;
        s.region.extent[*s.ring] = static_cast<int>(r->second.planes);
    }
    int64_t bytes = type.bytes() * copies;
    bool constant = true;
    for (Expr &e : s.region.extent) {
        // Allocate the maximum if it is small; it may be far more than needed.
        if (const auto most = upper_bound_of(e, bounds_); most && bytes * *most <= bound_limit)
            e = static_cast<int>(*most);
        if (const auto k = as_const_int(e))
            bytes = std::min<int64_t>(bytes * std::max<int64_t>(*k, 1), int64_t(1) << 32);
        else
            constant = false;
    }
    std::vector<Expr> extents = storage_extents(layout, s.axes, s.region.extent);
    // Negative if nothing is read: an axis of the reader is empty.
    for (Expr &e : extents) {
        if (!proves(e >= 0, bounds_)) e = simplify_index(max(e, 0), bounds_);
    }
    if (copies > 1) extents.insert(extents.begin(), copies);
    MemoryType where = MemoryType::Heap;
    const int64_t before = stack_used_;
    if (level == "registers") {
        if (!constant) {
            throw UserError("stage " + def.name +
                            " is kept in registers, but its region is not of constant size; split the loops around "
                            "it by constants");
        }
        where = MemoryType::Register;
    } else if (constant && bytes <= stack_limit && stack_used_ + bytes <= 2 * stack_limit) {
        where = MemoryType::Stack;
        stack_used_ += bytes;
    }
    l_.storage[name] = s;
    l_.nest.buffers.push_back({name, type,
                               !level.empty()               ? level
                               : where == MemoryType::Stack ? "stack"
                                                            : "workspace",
                               extents});
    const std::optional<std::string> outer = buffers_.count(tensor) ? std::optional(buffers_[tensor]) : std::nullopt;
    buffers_[tensor] = name;
    Stmt inner = next();
    if (padded && copies == 1) inner = Block::make(pad_mark(l_, {.buffer = name}), inner);
    if (outer)
        buffers_[tensor] = *outer;
    else
        buffers_.erase(tensor);
    stack_used_ = before;
    return Allocate::make(name, type, where, extents, const_true(), inner);
}

} // namespace kumiko
