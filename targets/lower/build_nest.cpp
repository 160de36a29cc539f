// The first pass: every stage becomes loops over the region that is needed of it.
//
// A stage computed at a loop gets, at each iteration, the smallest box that contains all reads
// below that loop (Halide's interval analysis over the axes of the readers). If a split factor does
// not divide the extent, the last, partial block gets a copy of the body if vectors or unrolled
// copies are inside; otherwise the loop is clipped or its body guarded.
//
// A reduction consists of begin (accumulators are set to the identity or reloaded from an earlier
// round), steps, and end (stores, or the fused epilogue). The loops of begin and end are the
// stage's loops without the reduction loops, so they have the same vectors and unrolled copies.
//
// The other parts of the builder: nest_reads.cpp (expressions and regions), nest_storage.cpp
// (buffers), nest_loops.cpp, nest_tails.cpp (partial blocks), nest_reduction.cpp, nest_ahead.cpp
// (double buffers, prefetches), nest_online.cpp (online rescaled sums), nest_shared.cpp (several
// stages in one nest), nest_rolling.cpp (ring buffers), nest_extern.cpp (calls of user functions).
#include "dsl/extern.h"
#include "dsl/reads.h"
#include "schedules/online.h"
#include "schedules/own_part.h"
#include "schedules/parts.h"
#include "schedules/rolling.h"
#include "support/error.h"
#include "targets/lower/nest_builder.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

bool is_at(const Placement &place, const StageState &s, size_t depth) {
    return place.kind == Placement::Kind::At && place.consumer == s.name() && place.loop == s.order[depth];
}

// Whether an index at which `e` reads the tensor depends on the axis.
bool reads_by(const Expr &e, const std::string &tensor, const std::string &axis) {
    for (const Call *read : tensor_reads(e)) {
        if (read->name != tensor) continue;
        if (std::any_of(read->args.begin(), read->args.end(), [&](const Expr &i) { return expr_uses_var(i, axis); }))
            return true;
    }
    return false;
}

} // namespace

Stmt NestBuilder::run() {
    for (const TensorArgument &t : l_.nest.tensors) {
        Storage s;
        s.tensor = t.name;
        s.type = t.type;
        s.is_output = t.output;
        if (t.packed_from.empty()) {
            s.external = true;
            for (size_t d = 0; d < t.extents.size(); d++) {
                s.region.min.push_back(0);
                s.region.extent.push_back(simplify(l_.facts.apply(t.extents[d])));
                s.strides.push_back(simplify(l_.facts.apply(t.strides[d])));
            }
        } else { // a tensor in the storage order of prepack
            const StageState &packed = state_.stage(t.name);
            s.region = whole_region(packed.def);
            s.layout = packed.layout;
            s.written = {s.region.min, s.region.extent};
        }
        for (const Axis &a : state_.axes_of(t.name)) s.axes.push_back(a.name());
        l_.storage[t.name] = s;
        buffers_[t.name] = t.name;
    }
    for (const Stage &s : state_.op.stages()) { // an in-place tensor and its update are one array
        if (!s.updates.empty() && !l_.packing) buffers_[s.name] = s.updates;
    }
    Stmt body = root(0);
    for (const auto &[size, value] : l_.facts.derived) body = LetStmt::make(size, value, body);
    return body;
}

bool NestReads::is_argument(const std::string &tensor) const {
    for (const TensorArgument &t : l_.nest.tensors) {
        if (t.name == tensor) return true;
    }
    const Stage *s = state_.op.find_stage(tensor);
    return s && !s->updates.empty();
}

const StageState *NestReads::finisher_of(const std::string &stage) const {
    for (const StageState &p : state_.stages) {
        if (p.finished_into == stage) return &p;
    }
    return nullptr;
}

Stmt NestBuilder::root(size_t i) {
    if (i == state_.stages.size()) return Evaluate::make(0);
    const StageState &s = state_.stages[i];
    if (s.placement.kind != Placement::Kind::Root || !s.finished_into.empty()) return root(i + 1);
    if (s.prepacked && !l_.packing) return root(i + 1); // a pre-packed tensor is an argument
    if (!starts_nest(s)) return root(i + 1);
    std::vector<Run> runs = {{&s, domain(s)}};
    for (const StageState *other : in_nest_of(s)) runs.push_back({other, domain(*other)});
    const auto body = [&] {
        if (follows(s)) return root(i + 1); // a follower is computed in the loops of its anchor
        std::vector<Stmt> parts;
        if (s.part || !regions_of(state_, s.name()).empty()) {
            for (const Region &box : own_boxes(state_, s)) parts.push_back(nest({{&s, box}}));
        } else {
            parts.push_back(nest(runs));
        }
        if (s.prepacked) parts.insert(parts.begin(), pad_mark(l_, {.buffer = s.name(), .whole = true}));
        Stmt compute = Block::make(parts);
        Stmt rest = root(i + 1);
        return is_no_op(rest) ? compute : Block::make(compute, rest);
    };
    // A part is stored where the whole stage is, by an enclosing scope.
    return s.part ? body() : with_storage(runs, body);
}

// The region computed of a stage at the root: its axes, or, for a padding stage, the reach of its
// readers' loops, including full last blocks, so that all vector lanes have data.
Region NestReads::domain(const StageState &s) {
    if (s.def.kind != Stage::Kind::Padding) return whole_region(s.def);
    std::optional<Region> all;
    for (const std::string &reader : state_.consumers(s.name())) {
        const StageState *by = finisher_of(reader);
        const StageState &r = by ? *by : state_.stage(reader);
        const bool pads = r.def.kind == Stage::Kind::Padding;
        for (const Region &box : pads ? std::vector<Region>{domain(r)} : own_boxes(state_, r)) {
            const Frame f(r, box, "");
            const Bounds scope = scope_of(f, 0);
            for (const Expr &e : expressions_of(r)) {
                if (auto read = region_read(e, s.name(), scope, anywhere(s), bounds_))
                    all = all ? region_union(*all, *read, bounds_) : read;
            }
        }
    }
    return all ? *all : whole_region(s.def);
}

// True if the loops of all readers stay inside the stored region, including lanes beyond a tail.
// This holds for a stage computed at a loop of its only reader, whose region contains everything
// that the inner loops touch, and for a padding stage at the root with readers at the root. It does
// not hold for a recurrence: the lanes beyond the tail of its own loops read earlier elements.
bool NestReads::covers_reads(const StageState &s) const {
    const bool at = s.placement.kind == Placement::Kind::At;
    if (s.def.reads_itself()) return false; // its own loops read, too
    if (!at && s.def.kind != Stage::Kind::Padding) return false;
    // Skipped reduction steps shift the last block.
    for (const std::string &reader : state_.consumers(s.name())) {
        if (leaves_out_terms(loops_of(state_.stage(reader)))) return false;
    }
    for (const std::string &reader : state_.readers(s.name())) {
        // The conditions of inlined padding disable the lanes that read beyond the stage.
        const StageState &r = state_.stage(reader);
        if (r.def.kind == Stage::Kind::Padding && r.placement.kind == Placement::Kind::Inline) return false;
    }
    if (at) {
        for (const std::string &reader : state_.consumers(s.name())) {
            const StageState *by = finisher_of(reader);
            if ((by ? by->name() : reader) != s.placement.consumer) return false;
        }
        return true;
    }
    for (const std::string &reader : state_.consumers(s.name())) {
        if (state_.stage(reader).placement.kind != Placement::Kind::Root) return false;
    }
    return true;
}

Stmt NestBuilder::stage(const StageState &s, const Region &region, const std::string &prefix) {
    if (is_extern(s.def)) return extern_stage(s);
    Frame f(s, clipped(s, region), prefix);
    return s.def.is_reduction() ? reduction(f) : pointwise(f);
}

// Clips a region that a reader's rounded-up last block extended beyond the stage's domain, so that
// its loops need no test. Axes that size the storage of stages computed inside are clipped only to
// constant extents.
Region NestReads::clipped(const StageState &s, Region region) {
    for (Expr &e : region.extent) { // negative if the reading loops have no iterations
        if (const auto n = as_const_int(e); n && *n < 0) e = 0;
    }
    if (const StageState *from = s.is_copy ? state_.producer(s.copied) : nullptr;
        from && from->def.kind == Stage::Kind::Padding && from->placement.kind == Placement::Kind::Root) {
        // A copy is also clipped to what exists of its source: blocks of varying size are bounded
        // one by one.
        const Region whole = domain(*from);
        for (size_t d = 0; d < region.min.size(); d++) {
            if (!proves(region.end(d) <= whole.end(d), bounds_)) {
                const int step = region.step_of(d);
                region.extent[d] =
                    simplify_index(min(region.extent[d], (whole.end(d) - region.min[d] + step - 1) / step), bounds_);
            }
        }
        return region;
    }
    if (s.def.kind == Stage::Kind::Padding || follows(s) || s.online) return region;
    region = existing(s, region);
    std::set<std::string> used;
    // The caller's array has no room beyond the end.
    const bool stored_by_caller = writes_output(state_.op, s.def);
    for (const StageState &inner : state_.stages) {
        if (stored_by_caller) break;
        if (inner.placement.kind != Placement::Kind::At || inner.placement.consumer != s.name()) continue;
        if (!inner.is_copy) return region;
        for (const Expr &e : s.def.expressions()) {
            for (const Axis &a : s.def.axes) {
                if (reads_by(e, inner.name(), a.name())) used.insert(a.name());
            }
        }
    }
    for (size_t d = 0; d < s.def.axes.size(); d++) {
        const Expr extent = s.def.axes[d].extent();
        const int step = region.step_of(d);
        if (!proves(region.end(d) <= extent, bounds_)) {
            // A region that begins beyond the end is empty.
            const Expr left = min(region.extent[d], (extent - region.min[d] + step - 1) / step);
            const Expr clip = simplify_index(proves(region.min[d] <= extent, bounds_) ? left : max(left, 0), bounds_);
            if (is_const(clip) || !used.count(s.def.axes[d].name())) region.extent[d] = clip;
        }
    }
    return region;
}

Stmt NestBuilder::pointwise(Frame &f) {
    Walk w;
    w.leaf = [&](Frame &g) {
        std::vector<Expr> values;
        for (const Expr &e : g.stage().def.expressions()) values.push_back(padded(g, at(g, e), make_zero(e.type())));
        if (values.size() > 1) return store(g, values);
        return Provide::make(buffers_.at(g.stage().tensor()), values, indices(g), const_true());
    };
    return walk(f, 0, w);
}

// Stores `values` (one per component) at the frame's indices into the buffers in scope.
Stmt NestBuilder::store(Frame &f, const std::vector<Expr> &values) {
    const auto names = names_of(f.stage());
    if (values.size() == 1)
        return Provide::make(buffers_.at(names[0]), values, place(f, buffers_.at(names[0])), const_true());
    // All new values are computed before any is stored.
    std::vector<Stmt> stores;
    for (size_t c = 0; c < values.size(); c++) {
        stores.push_back(Provide::make(buffers_.at(names[c]), {Variable::make(values[c].type(), names[c] + ".new")},
                                       place(f, buffers_.at(names[c])), const_true()));
    }
    Stmt body = Block::make(stores);
    for (size_t c = values.size(); c-- > 0;) body = LetStmt::make(names[c] + ".new", values[c], body);
    return body;
}

// The part of the stored region `kept` that one iteration of a reader needs.
Region NestReads::part_of(const Region &kept, Region part) const {
    for (size_t d = 0; d < part.min.size(); d++) {
        const Expr first = simplify_index(max(part.min[d], kept.min[d]), bounds_);
        if (proves(part.min[d] >= kept.min[d] && part.end(d) <= kept.end(d), bounds_)) continue;
        part.extent[d] = simplify_index(max(min(part.end(d), kept.end(d)) - first, 0), bounds_);
        part.min[d] = first;
    }
    return part;
}

// Checks that everything stored of `p` below the loop at `depth` is computed in the loops of a
// reader there.
void NestBuilder::check_whole(const StageState &p, const Region &kept, const Frame &f, size_t depth) {
    const StageState &reader = state_.stage(p.computed->consumer);
    const std::optional<Region> rows = needed(reader, f, depth + 1);
    if (!rows) throw Unsupported("stage " + p.name() + " is computed in " + reader.name() + ", which is not needed");
    const auto read = [&](const Region &region) { return *needed(p, Frame(reader, region, ""), 0); };
    const Region now = read(clipped(reader, *rows)), unclipped = read(*rows), ever = read(whole_region(reader.def)),
                 whole = whole_region(p.def);
    for (size_t d = 0; d < kept.min.size(); d++) {
        // If the first proof fails, both ends must be clipped alike.
        const bool ends =
            proves(now.end(d) >= min(kept.end(d), whole.end(d)), bounds_) ||
            (proves(unclipped.end(d) >= kept.end(d), bounds_) && proves(ever.end(d) >= whole.end(d), bounds_));
        if (!ends || !proves(now.min[d] <= max(kept.min[d], 0), bounds_))
            throw Unsupported("stage " + p.name() + " is computed in " + reader.name() +
                              ", of which it is not proved that it reads all that others do; compute it where store_at "
                              "keeps it");
    }
}

Stmt NestBuilder::with_children(Frame &f, size_t depth, const Walk &w, size_t from) {
    const StageState &s = f.stage();
    const bool block = w.children && s.online && !follows(s) && s.online->loop == s.order[depth];
    if (w.children) {
        if (from == 0) plan_rolling(f, depth);
        for (size_t i = from; i < state_.stages.size(); i++) {
            const StageState &p = state_.stages[i];
            if (block && follows(p) && p.online->anchor == s.name())
                return online_block(p, f, depth, [&] { return with_children(f, depth, w, i + 1); });
            const bool kept = is_at(p.placement, s, depth), computed = is_at(p.computed_at(), s, depth);
            if (!kept && !computed) continue;
            if (!p.finished_into.empty() || ahead_.count(p.name()) || waits_for_end(state_, p)) continue;
            if (!starts_nest(p) || (warming_up_ == &s && !rolls(p))) continue;
            std::optional<Region> region = needed(p, f, depth + 1);
            if (!region) continue;
            if (const auto ring = rolling_.find(p.name()); !kept && ring != rolling_.end())
                region = newest(ring->second, *region);
            else if (!kept && !rolls(p))
                region = part_of(kept_.at(p.name()), *region);
            std::vector<Run> runs = {{&p, *region}};
            for (const StageState *other : in_nest_of(p)) {
                if (const auto of_other = needed(*other, f, depth + 1)) runs.push_back({other, *of_other});
            }
            const auto produce = [&] {
                const Frame *const around = std::exchange(around_[s.name()], &f);
                const Stmt loops = follows(p) ? Evaluate::make(0) : nest(runs);
                around_[s.name()] = around;
                return Block::make(loops, with_children(f, depth, w, i + 1));
            };
            if (!kept) return produce();
            return with_storage(runs, [&] {
                for (const Run &run : runs) remember_buffers(*run.stage, f, depth);
                if (computed) return produce();
                if (!rolls(p)) check_whole(p, *region, f, depth);
                const auto outer = std::exchange(kept_[p.name()], *region);
                const Stmt rest = with_children(f, depth, w, i + 1);
                kept_[p.name()] = outer;
                return rest;
            });
        }
    }
    if (block && !rescaled_on_reload(s)) {
        const Stmt before = rescale(f, depth + 1);
        return Block::make(before, walk(f, depth + 1, w));
    }
    return walk(f, depth + 1, w);
}

void build_nest(Lowering &l) {
    NestBuilder builder(l);
    l.nest.body = builder.run();
}

} // namespace kumiko
