// The first pass: every stage becomes loops over the region that is needed of it.
//
// A stage computed at a loop gets, at each iteration, the smallest box that holds all reads below that loop (Halide's
// interval analysis over the axes of the readers). A split that does not divide gets a copy of the body for its last,
// partial block where vectors or unrolled copies stand inside; elsewhere its loop is clipped or its body guarded.
//
// A reduction is laid out as: begin (accumulators from the identity, or from what an earlier round left), steps, end
// (stores, or the consumer that is finished in it). The loops of begin and end are the stage's loops without those that
// reduce, so they carry the same vectors and copies.
#include "machine/machine.h"
#include "schedules/storage.h"
#include "support/error.h"
#include "targets/lower/lowering.h"

namespace kumiko {

using namespace Halide::Internal;
using Halide::DeviceAPI;
using Halide::MemoryType;
using Halide::Partition;

namespace {

constexpr int64_t bound_limit = 1 << 22; // bytes of an array of varying size that is made as large as it can get
constexpr int64_t stack_limit = 8192;    // bytes of one array on the stack; more goes to a workspace

Expr all_of(const Expr &a, const Expr &b) { return !a.defined() ? b : a && b; }

class NestBuilder {
public:
    explicit NestBuilder(Lowering &l) : l_(l), state_(l.state), bounds_(l.facts.bounds()) {}

    Stmt run() {
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
            }
            for (const Axis &a : state_.axes_of(t.name)) s.axes.push_back(a.name());
            l_.storage[t.name] = s;
            buffers_[t.name] = t.name;
        }
        Stmt body = root(0);
        for (const auto &[size, value] : l_.facts.derived) body = LetStmt::make(size, value, body);
        return body;
    }

private:
    Lowering &l_;
    const ScheduleState &state_;
    Bounds bounds_;                              // of the loops around
    std::map<std::string, std::string> buffers_; // tensor → the buffer that holds it here
    std::map<std::string, int> instances_;
    std::map<std::string, Expr> inlined_;
    std::set<std::string> doubled_; // stages whose copies the loop around fills
    int64_t stack_used_ = 0;

    // ---- placement -------------------------------------------------------------------------------------------------

    bool is_argument(const std::string &tensor) const {
        for (const TensorArgument &t : l_.nest.tensors) {
            if (t.name == tensor) return true;
        }
        return false;
    }

    const StageState *finisher_of(const std::string &stage) const {
        for (const StageState &p : state_.stages) {
            if (p.finished_into == stage) return &p;
        }
        return nullptr;
    }

    Stmt root(size_t i) {
        if (i == state_.stages.size()) return Evaluate::make(0);
        const StageState &s = state_.stages[i];
        if (s.placement.kind != Placement::Kind::Root || !s.finished_into.empty()) return root(i + 1);
        if (s.prepacked && !l_.packing) return root(i + 1); // an argument
        const Region region = domain(s);
        // A consumer that is finished in its producer is computed by the producer's loops, here.
        const StageState *by = finisher_of(s.name());
        return with_storage(s, region, [&] {
            Stmt compute = stage(by ? *by : s, region);
            Stmt rest = root(i + 1);
            return is_no_op(rest) ? compute : Block::make(compute, rest);
        });
    }

    // What is computed of a stage at the root: its axes, or for a padding stage what its readers' loops reach, full last
    // blocks included, so that their vectors find all their lanes.
    Region domain(const StageState &s) {
        if (s.def.kind != Stage::Kind::Padding) return whole_region(s.def);
        std::optional<Region> all;
        for (const std::string &reader : state_.consumers(s.name())) {
            const StageState *by = finisher_of(reader);
            const StageState &r = by ? *by : state_.stage(reader);
            const Frame f(r, domain(r), "");
            const Bounds scope = scope_of(f, 0);
            for (const Expr &e : expressions_of(r)) {
                if (auto read = region_read(e, s.name(), scope, whole_region(s.def), bounds_)) {
                    all = all ? region_union(*all, *read, bounds_) : read;
                }
            }
        }
        return all ? *all : whole_region(s.def);
    }

    // True when the loops of all readers stay inside the stored region, lanes beyond a tail included: for a stage that is
    // computed at a loop of its only reader, whose region holds all that the loops inside touch, and for a padding stage
    // at the root whose readers stand at the root too.
    bool covers_reads(const StageState &s) const {
        if (s.placement.kind == Placement::Kind::At) {
            for (const std::string &reader : state_.consumers(s.name())) {
                const StageState *by = finisher_of(reader);
                if ((by ? by->name() : reader) != s.placement.consumer) return false;
            }
            return true;
        }
        if (s.def.kind != Stage::Kind::Padding) return false;
        for (const std::string &reader : state_.consumers(s.name())) {
            if (state_.stage(reader).placement.kind != Placement::Kind::Root) return false;
        }
        return true;
    }

    // ---- storage ---------------------------------------------------------------------------------------------------

    std::string fresh_instance(const std::string &name) {
        const int n = instances_[name]++;
        return n ? name + "'" + std::to_string(n) : name;
    }

    template<typename Body>
    Stmt with_storage(const StageState &s, const Region &region, const Body &body, int copies = 1) {
        Region stored = region;
        // A padded tail runs on storage that is rounded up, and so do lanes that read the partial results of their own stage.
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
        return with_components(s.def, 0, stored, s.layout, s.level, "", false, body, copies);
    }

    // Allocates a buffer for each component of the stage (or its one value) around the body, unless the caller owns it.
    template<typename Body>
    Stmt with_components(const Stage &def, size_t c, const Region &region, const std::vector<LayoutTerm> &layout,
                         const std::string &level, const std::string &suffix, bool covers_lanes, const Body &body,
                         int copies = 1) {
        const size_t n = std::max<size_t>(def.components.size(), 1);
        if (c == n) return body();
        const std::string tensor = def.components.empty() ? def.name : def.components[c].tensor;
        const Type type = def.components.empty() ? def.type : def.components[c].type;
        const auto next = [&] {
            return with_components(def, c + 1, region, layout, level, suffix, covers_lanes, body, copies);
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
        for (const Axis &a : def.axes) s.axes.push_back(a.name());
        s.copies = copies;
        int64_t bytes = type.bytes() * copies;
        bool constant = true;
        for (Expr &e : s.region.extent) {
            // All that there can be, where that is little: it may be far more than there is.
            const Expr bound = find_constant_bound(e, Direction::Upper, bounds_);
            if (const auto most = bound.defined() ? as_const_int(bound) : std::nullopt;
                most && *most < (1 << 30) && bytes * *most <= bound_limit)
                e = bound;
            if (const auto k = as_const_int(e))
                bytes = std::min<int64_t>(bytes * std::max<int64_t>(*k, 1), int64_t(1) << 32);
            else
                constant = false;
        }
        std::vector<Expr> extents = storage_extents(layout, s.axes, s.region.extent);
        for (Expr &e : extents) { // below zero where nothing is read: an axis of the reader has no elements
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
        const std::optional<std::string> outer =
            buffers_.count(tensor) ? std::optional(buffers_[tensor]) : std::nullopt;
        buffers_[tensor] = name;
        Stmt inner = next();
        if (outer)
            buffers_[tensor] = *outer;
        else
            buffers_.erase(tensor);
        stack_used_ = before;
        return Allocate::make(name, type, where, extents, const_true(), inner);
    }

    // ---- expressions -----------------------------------------------------------------------------------------------

    // With reads of inlined stages replaced by their expressions.
    Expr inlined(const Expr &e) {
        struct Inline : IRGraphMutator {
            using IRGraphMutator::visit;
            NestBuilder *builder;
            Expr visit(const Call *op) override {
                Expr e = IRGraphMutator::visit(op);
                op = e.as<Call>();
                if (!op || op->call_type != Call::Image) return e;
                const StageState *s = builder->state_.find(op->name);
                if (!s || s->placement.kind != Placement::Kind::Inline) return e;
                std::map<std::string, Expr> args;
                for (size_t d = 0; d < op->args.size(); d++) args[s->def.axes[d].name()] = op->args[d];
                return substitute(args, builder->inlined_value(*s));
            }
        } inliner;
        inliner.builder = this;
        return inliner.mutate(e);
    }

    Expr inlined_value(const StageState &s) {
        if (auto it = inlined_.find(s.name()); it != inlined_.end()) return it->second;
        const Expr e = inlined(s.def.value);
        inlined_[s.name()] = e;
        return e;
    }

    // An expression of the stage at the frame's indices, reading the buffers in scope.
    Expr at(const Frame &f, const Expr &e) {
        std::map<std::string, Expr> index;
        for (const Axis &a : f.stage().def.axes) index[a.name()] = simplify_index(f.index(a.name()), bounds_);
        for (const Axis &a : f.stage().def.reduction_axes) index[a.name()] = simplify_index(f.index(a.name()), bounds_);
        return in_buffers(substitute(index, inlined(e)));
    }

    Expr in_buffers(const Expr &e) {
        struct Rename : IRGraphMutator {
            using IRGraphMutator::visit;
            NestBuilder *builder;
            Expr visit(const Call *op) override {
                Expr e = IRGraphMutator::visit(op);
                op = e.as<Call>();
                if (!op || op->call_type != Call::Image) return e;
                const auto it = builder->buffers_.find(op->name);
                if (it == builder->buffers_.end()) {
                    throw UserError(
                        "tensor " + op->name +
                        " is read where it has not been computed; place it at a loop that encloses the read");
                }
                return it->second == op->name ? e : read_tensor(op->type, it->second, op->args);
            }
        } rename;
        rename.builder = this;
        return rename.mutate(e);
    }

    std::vector<Expr> indices(const Frame &f) {
        std::vector<Expr> all;
        for (const Axis &a : f.stage().def.axes) all.push_back(simplify_index(f.index(a.name()), bounds_));
        return all;
    }

    // ---- regions ---------------------------------------------------------------------------------------------------

    // The expressions that run in the loops of a stage: its own, and those of the consumer finished in it.
    std::vector<Expr> expressions_of(const StageState &s) {
        std::vector<Expr> all;
        for (const Expr &e : s.def.expressions()) all.push_back(inlined(e));
        if (!s.finished_into.empty()) all.push_back(inlined(state_.stage(s.finished_into).def.value));
        return all;
    }

    // What is needed of `p` below depth `depth` of the stage in `f`; nothing where all that would read it was inlined without.
    // A copy that only that stage reads keeps to the lattice that is read.
    std::optional<Region> needed(const StageState &p, const Frame &f, size_t depth) {
        if (p.is_copy) {
            const auto readers = state_.consumers(p.name());
            const StageState *by = readers.size() == 1 ? finisher_of(readers[0]) : nullptr;
            if (readers.size() == 1 && (by ? by->name() : readers[0]) == f.stage().name())
                return lattice_read(expressions_of(f.stage()), p.name(), scope_of(f, depth), whole_region(p.def),
                                    bounds_);
        }
        std::optional<Region> all;
        const auto add = [&](const StageState &reader, const Bounds &scope) {
            for (const Expr &e : expressions_of(reader)) {
                for (const std::string &tensor : names_of(p)) {
                    if (auto r = region_read(e, tensor, scope, whole_region(p.def), bounds_))
                        all = all ? region_union(*all, *r, bounds_) : r;
                }
            }
        };
        std::set<std::string> done;
        for (const std::string &name : state_.consumers(p.name())) {
            const StageState *reader = state_.find(name);
            if (const StageState *by = finisher_of(name)) reader = by;
            if (!done.insert(reader->name()).second) continue;
            Bounds scope;
            if (reader->name() == f.stage().name()) {
                scope = scope_of(f, depth);
            } else {
                // Loops that end with a consumer that is finished in them run where that is needed.
                const std::optional<Region> r =
                    needed(reader->finished_into.empty() ? *reader : state_.stage(reader->finished_into), f, depth);
                if (!r) continue;
                for (size_t d = 0; d < reader->def.axes.size(); d++) {
                    scope.push(reader->def.axes[d].name(), Interval(r->min[d], simplify_index(r->end(d) - 1, bounds_)));
                }
                for (const Axis &a : reader->def.reduction_axes)
                    scope.push(a.name(), Interval(0, simplify(a.extent() - 1)));
            }
            add(*reader, scope);
        }
        return all;
    }

    // What the axes of a stage range over below a depth.
    Bounds scope_of(const Frame &f, size_t depth) const {
        Bounds scope;
        for (const auto *axes : {&f.stage().def.axes, &f.stage().def.reduction_axes}) {
            for (const Axis &a : *axes) scope.push(a.name(), f.axis_interval(a.name(), depth, bounds_));
        }
        return scope;
    }

    static std::vector<std::string> names_of(const StageState &p) {
        if (p.def.components.empty()) return {p.name()};
        std::vector<std::string> names;
        for (const Component &c : p.def.components) names.push_back(c.tensor);
        return names;
    }

    // The part of the stage's own axes that the loops at depth and deeper touch.
    Region touched(const Frame &f, size_t depth) {
        Region r;
        for (const Axis &a : f.stage().def.axes) {
            const Interval i = f.axis_interval(a.name(), depth, bounds_);
            r.min.push_back(i.min);
            r.extent.push_back(simplify_index(i.max - i.min + 1, bounds_));
        }
        return r;
    }

    // ---- loops -----------------------------------------------------------------------------------------------------

    // One walk over the loops of a stage from some depth inwards.
    struct Walk {
        bool skip_reductions = false; // begin and end of a reduction
        bool children = true;         // compute what is placed in these loops
        size_t stop = SIZE_MAX;       // the depth at which `leaf` takes over; the innermost otherwise
        std::function<Stmt(Frame &)> leaf;
    };

    struct Guard {
        Expr condition;       // over the loops' variables
        std::string value_of; // the loop whose value is bounded
        Expr value, limit;    // value < limit
        size_t position;      // of the innermost loop it depends on
    };

    // Where padded tails may run beyond the region, a value is zero (or a reduction's identity) there, and reads nothing.
    Expr padded(const Frame &f, const Expr &value, const Expr &beyond) {
        const StageState &s = f.stage();
        Expr inside;
        for (const Relation &r : s.relations) {
            const auto *split = std::get_if<SplitRelation>(&r);
            if (!split || split->tail != Tail::Pad) continue;
            const Expr extent = f.extent(split->parent), at = f.value(split->parent);
            if (proves(extent % static_cast<int>(split->factor) == 0, bounds_) || proves(at < extent, bounds_))
                continue;
            inside = all_of(inside, simplify_index(at < extent, bounds_));
        }
        return inside.defined()
                   ? Call::make(value.type(), Call::if_then_else, {inside, value, beyond}, Call::PureIntrinsic)
                   : value;
    }

    // Guards that are not proved by the loops' extents alone.
    std::vector<Guard> guards(const Frame &f, bool skip_reductions) {
        std::vector<Guard> all;
        const StageState &s = f.stage();
        const auto add = [&](const std::string &loop, const Expr &value, const Expr &condition, const Expr &limit) {
            Guard g{condition, loop, value, limit, 0};
            for (const std::string &l : f.standing(loop)) g.position = std::max(g.position, s.position(l));
            all.push_back(g);
        };
        for (size_t r = 0; r < s.relations.size(); r++) {
            const auto *split = std::get_if<SplitRelation>(&s.relations[r]);
            if (!split || f.mode(r) != Frame::Mode::Whole || split->tail == Tail::Pad) continue;
            if (skip_reductions && s.find_loop(split->parent)->reduction) continue;
            const Expr extent = f.extent(split->parent);
            if (proves(extent % static_cast<int>(split->factor) == 0, bounds_)) continue;
            if (split->tail == Tail::Shift && proves(extent >= static_cast<int>(split->factor), bounds_)) continue;
            const Expr value = f.value(split->parent);
            add(split->parent, value, value < extent, extent);
        }
        // A region that a reader's tail rounded up may stick out of the stage's domain.
        if (s.def.kind != Stage::Kind::Padding) {
            for (size_t d = 0; d < s.def.axes.size(); d++) {
                const Axis &a = s.def.axes[d];
                const Expr end = f.region().end(d);
                const Expr index = f.index(a.name());
                if (!proves(end <= a.extent(), bounds_)) add(a.name(), index, index < a.extent(), a.extent());
                if (!proves(f.region().min[d] >= 0, bounds_)) add(a.name(), Expr(), index >= 0, Expr());
            }
        }
        return all;
    }

    bool copies_inside(const StageState &s, const std::string &loop) const {
        for (size_t i = 0; i < s.order.size(); i++) {
            const std::string &l = s.order[i];
            if (!s.derived_from(l, loop)) continue;
            const LoopKind k = s.loop(l).kind;
            if (s.tensorize && i >= s.position(s.tensorize->loop)) return true;
            if (k == LoopKind::Vectorized || k == LoopKind::Unrolled || must_unroll(s, i)) return true;
        }
        return false;
    }

    // Loops that step through registers can only be copies.
    bool must_unroll(const StageState &s, size_t position) const {
        const LoopState &l = s.loop(s.order[position]);
        if (l.kind != LoopKind::Serial || l.reduction) return false;
        if (s.level == "registers") return true;
        if (s.accumulate && s.accumulate->level == "registers" && position > s.position(s.accumulate->loop))
            return true;
        const StageState &host = s;
        for (const StageState &p : state_.stages) {
            if (p.level == "registers" && p.placement.kind == Placement::Kind::At &&
                p.placement.consumer == host.name() && position > host.position(p.placement.loop)) {
                return true;
            }
        }
        return false;
    }

    // `pure`: in the begin or end of a reduction, whose loops are those that do not reduce.
    ForType for_type(const Frame &f, size_t position, bool pure) const {
        const StageState &s = f.stage();
        if (s.tensorize && position >= s.position(s.tensorize->loop)) {
            if (!pure) return ForType::Serial;
            for (size_t i = position + 1; i < s.order.size(); i++) {
                if (!s.loop(s.order[i]).reduction)
                    return must_unroll(s, position) ? ForType::Unrolled : ForType::Serial;
            }
            return ForType::Vectorized; // as wide as the instruction's accumulator
        }
        switch (s.loop(s.order[position]).kind) {
        case LoopKind::Parallel:
            return ForType::Parallel;
        case LoopKind::Vectorized:
            return ForType::Vectorized;
        case LoopKind::Unrolled:
            return ForType::Unrolled;
        case LoopKind::Bound: // a machine whose units are not cores; one after another is the same
        case LoopKind::Serial:
            break;
        }
        // A loop of symbolic extent cannot be copied; what it steps through then stays in memory, of which code generation warns.
        return must_unroll(s, position) && is_const(f.extent(s.order[position])) ? ForType::Unrolled : ForType::Serial;
    }

    Stmt walk(Frame &f, size_t depth, const Walk &w) {
        const StageState &s = f.stage();
        if (depth == w.stop || depth == s.order.size()) return w.leaf(f);
        const std::string &name = s.order[depth];
        if (w.skip_reductions && s.loop(name).reduction) return walk(f, depth + 1, w);
        if (f.pinned(name)) return inside(f, depth, w);

        // Peel: full blocks, then the partial one in a copy of its own.
        for (size_t r = 0; r < s.relations.size(); r++) {
            const auto *split = std::get_if<SplitRelation>(&s.relations[r]);
            if (!split || split->outer != name || split->tail != Tail::Auto || f.mode(r) != Frame::Mode::Whole)
                continue;
            if (!copies_inside(s, split->inner)) continue;
            const auto clipping = relation_to_clip(f, r);
            Frame clipped = f;
            if (clipping) clipped.set_mode(*clipping, Frame::Mode::Clip);
            const Expr extent = clipped.extent(split->parent), factor = static_cast<int>(split->factor);
            if (proves(extent % factor == 0, bounds_) || left_to_clip(f, depth, r)) continue;
            bool nested = true;
            for (const std::string &l : f.standing(split->inner)) nested = nested && s.position(l) > depth;
            if (!nested) continue;
            if (!is_const_zero(rest_of(clipped, *split))) return peel_rest(clipped, depth, w, r, *split);
            clipped.set_mode(r, Frame::Mode::Main); // the last block of the split above is of whole blocks here
            return one_loop(clipped, depth, w, 0, simplify_index(extent / factor, bounds_));
        }
        for (const Peel &p : s.peels) {
            if (p.loop == name) return peel_ends(f, depth, w, p);
        }
        return one_loop(f, depth, w, 0, f.extent(name));
    }

    // The split whose inner loop is split again by `relation` and shall end where the extent ends, so that both the blocks
    // and what is left of the last one are cut in one place, and code is not copied for each.
    std::optional<size_t> relation_to_clip(const Frame &f, size_t relation) const {
        const StageState &s = f.stage();
        const auto &split = std::get<SplitRelation>(s.relations[relation]);
        const size_t outer = s.position(split.outer);
        const LoopKind kind = s.loop(split.outer).kind;
        if ((kind != LoopKind::Serial && kind != LoopKind::Parallel) || must_unroll(s, outer)) return {};
        for (size_t r = 0; r < s.relations.size(); r++) {
            const auto *above = std::get_if<SplitRelation>(&s.relations[r]);
            if (!above || above->inner != split.parent || above->tail != Tail::Auto ||
                above->factor % split.factor != 0)
                continue;
            const bool whole =
                f.mode(r) == Frame::Mode::Whole && s.has_loop(above->outer) && s.position(above->outer) < outer;
            if (whole && !proves(f.extent(above->parent) % static_cast<int>(above->factor) == 0, bounds_)) return r;
        }
        return {};
    }

    // Whether the partial block of a split is left to the split of its inner loop, further in.
    bool left_to_clip(const Frame &f, size_t depth, size_t relation) const {
        const StageState &s = f.stage();
        const auto &split = std::get<SplitRelation>(s.relations[relation]);
        for (size_t r = 0; r < s.relations.size(); r++) {
            const auto *below = std::get_if<SplitRelation>(&s.relations[r]);
            if (!below || below->parent != split.inner || below->tail != Tail::Auto || !s.has_loop(below->outer))
                continue;
            if (s.position(below->outer) < depth || relation_to_clip(f, r) != relation) continue;
            bool nested = copies_inside(s, below->inner);
            for (const std::string &l : f.standing(below->inner))
                nested = nested && s.position(l) > s.position(below->outer);
            if (nested) return true;
        }
        return false;
    }

    Stmt peel_rest(Frame &f, size_t depth, const Walk &w, size_t relation, const SplitRelation &split) {
        const StageState &s = f.stage();
        const std::string name = s.order[depth];
        const Expr extent = f.extent(split.parent), factor = static_cast<int>(split.factor);
        Frame main = f;
        main.set_mode(relation, Frame::Mode::Main);
        const Expr blocks = simplify_index(extent / factor, bounds_);
        Frame rest = f;
        const auto left = as_const_int(rest_of(f, split));
        const bool lanes = s.has_loop(split.inner) && s.loop(split.inner).kind == LoopKind::Vectorized;
        // Lanes: mask unless a narrower vector fits, which in a reduction would only crowd the registers.
        const bool fits = left && (*left & (*left - 1)) == 0 && *left >= 4 && !s.def.is_reduction();
        const bool narrow = left && (!lanes || fits);
        if (narrow) {
            rest.set_mode(relation, Frame::Mode::Rest);
            rest.override_extent(split.inner, static_cast<int>(*left));
        }
        rest.pin(name, blocks);
        const auto last = [&] {
            Stmt body = inside(rest, depth, w);
            return as_const_int(extent) ? body : IfThenElse::make(simplify_index(extent % factor > 0, bounds_), body);
        };
        if (is_const_zero(blocks)) return last();
        if (for_type(f, depth, w.skip_reductions) != ForType::Parallel) {
            const Stmt first = one_loop(main, depth, w, 0, blocks);
            return Block::make(first, last());
        }
        // The partial block is one iteration of the parallel loop, so that it runs beside the others.
        const std::string variable = f.prefix() + name;
        bounds_.push(variable, Interval(0, simplify(f.extent(name) - 1)));
        const Stmt body = IfThenElse::make(Variable::make(Int(32), variable) < blocks, inside(main, depth, w), last());
        bounds_.pop(variable);
        record(s, f, depth, ForType::Parallel, f.extent(name));
        return For::make(variable, 0, f.extent(name), ForType::Parallel, Partition::Never, DeviceAPI::None, body);
    }

    // What is left of the last block, where a number: also of a clipped loop, whose last block is cut out of the extent above.
    Expr rest_of(const Frame &f, const SplitRelation &split) const {
        Expr extent = f.extent(split.parent);
        for (size_t r = 0; r < f.stage().relations.size(); r++) {
            const auto *above = std::get_if<SplitRelation>(&f.stage().relations[r]);
            if (above && above->inner == split.parent && f.mode(r) == Frame::Mode::Clip)
                extent = f.extent(above->parent);
        }
        return simplify_index(extent % static_cast<int>(split.factor), bounds_);
    }

    Stmt peel_ends(Frame &f, size_t depth, const Walk &w, const Peel &p) {
        const std::string name = f.stage().order[depth];
        const Expr extent = f.extent(name);
        const Expr first = simplify(min(static_cast<int>(p.first), extent));
        const Expr last = simplify(min(static_cast<int>(p.last), extent - first));
        std::vector<Stmt> parts;
        if (p.first) parts.push_back(one_loop(f, depth, w, 0, first));
        parts.push_back(one_loop(f, depth, w, first, simplify(extent - first - last)));
        if (p.last) parts.push_back(one_loop(f, depth, w, simplify(extent - last), last));
        return Block::make(parts);
    }

    Stmt one_loop(Frame &f, size_t depth, const Walk &w, const Expr &min, const Expr &extent) {
        const StageState &s = f.stage();
        const std::string &name = s.order[depth];
        if (const auto n = as_const_int(extent); n && *n <= 0) return Evaluate::make(0);
        if (is_const_one(extent)) {
            Frame one = f;
            one.pin(name, min);
            return inside(one, depth, w);
        }
        const ForType type = for_type(f, depth, w.skip_reductions);
        const std::string variable = f.prefix() + name;
        if (type == ForType::Vectorized && s.loop(name).reduction) l_.joined.insert(variable);
        if (s.tensorize && !w.skip_reductions && depth >= s.position(s.tensorize->loop)) note_tensorized(f, variable);
        // Lanes and copies are counted when code is made: where the extent varies, all that there can be, switched off beyond it.
        Expr most = extent;
        if ((type == ForType::Unrolled || type == ForType::Vectorized) && !is_const(extent)) {
            most = find_constant_bound(extent, Direction::Upper, bounds_);
            if (!most.defined() || !as_const_int(most) || *as_const_int(most) > 1024) {
                throw UserError("loop " + name + " of stage " + s.name() + " is " + kind_name(s.loop(name).kind) +
                                ", but how far it runs where it is computed is known only at run time; split it, or "
                                "compute the stage elsewhere");
            }
        }
        bounds_.push(variable, Interval(min, simplify(min + most - 1)));
        Expr clipped = most;
        if (type == ForType::Serial || type == ForType::Parallel) clipped = clip(f, depth, w, min, extent);
        std::vector<const StageState *> doubled;
        for (const StageState &p : state_.stages) {
            if (w.children && type == ForType::Serial && p.double_buffered && p.placement.consumer == s.name() &&
                p.placement.loop == name && needed(p, f, depth + 1)) {
                doubled.push_back(&p);
            }
        }
        std::vector<Stmt> fills;
        Stmt loop = with_doubled(f, depth, doubled, 0, min, clipped, fills, [&] {
            Stmt body = inside(f, depth, w);
            if (is_no_op(body)) return body;
            if (!most.same_as(extent))
                body =
                    IfThenElse::make(simplify_index(Variable::make(Int(32), variable) < min + extent, bounds_), body);
            fills.push_back(body);
            return For::make(variable, min, clipped, type, Partition::Never, DeviceAPI::None, Block::make(fills));
        });
        bounds_.pop(variable);
        if (!is_no_op(loop)) record(s, f, depth, type, extent);
        return loop;
    }

    // Two copies of each stage in `doubled` around the loop at `depth`, which runs from `min` over `extent`: its first
    // iteration's is filled here, and `fills` gets what fills the next iteration's.
    template<typename Loop>
    Stmt with_doubled(Frame &f, size_t depth, const std::vector<const StageState *> &doubled, size_t k, const Expr &min,
                      const Expr &extent, std::vector<Stmt> &fills, const Loop &loop) {
        if (k == doubled.size()) return loop();
        const StageState &p = *doubled[k];
        const std::string variable = f.prefix() + f.stage().order[depth];
        const Expr v = Variable::make(Int(32), variable);
        const Region region = *needed(p, f, depth + 1);
        return with_storage(
            p, region,
            [&] {
                const std::map<std::string, std::string> use = buffers_;
                // The storage seen from iteration `at` of the loop.
                const auto view = [&](const std::string &suffix, const Expr &at) {
                    for (const std::string &t : names_of(p)) {
                        const std::string name = use.at(t);
                        Storage s = l_.storage.at(name);
                        for (Expr &e : s.region.extent) {
                            if (expr_uses_var(e, variable)) {
                                throw Unsupported("double_buffer of stage " + p.name() +
                                                  ", whose size changes with loop " + variable +
                                                  "; split the loop so that blocks are of one size");
                            }
                        }
                        for (Expr &e : s.region.min) e = simplify_index(substitute(variable, at, e), bounds_);
                        s.buffer = name;
                        s.copy = simplify_index((at - min) % 2, bounds_);
                        l_.storage[name + suffix] = s;
                        buffers_[t] = name + suffix;
                    }
                };
                const auto filled = [&](const Expr &at) {
                    Region r = region;
                    for (Expr &e : r.min) e = simplify_index(substitute(variable, at, e), bounds_);
                    for (Expr &e : r.extent) e = simplify_index(substitute(variable, at, e), bounds_);
                    return stage(p, r);
                };
                view("'first", min);
                Stmt first = filled(min);
                const Expr last = simplify(min + extent - 1);
                bounds_.push(variable, Interval(min, simplify(last - 1)));
                view("'next", v + 1);
                fills.push_back(IfThenElse::make(v < last, filled(v + 1)));
                bounds_.pop(variable);
                view("'now", v);
                doubled_.insert(p.name());
                Stmt rest = with_doubled(f, depth, doubled, k + 1, min, extent, fills, loop);
                doubled_.erase(p.name());
                buffers_ = use;
                if (!proves(extent > 0, bounds_)) first = IfThenElse::make(simplify_index(extent > 0, bounds_), first);
                return Block::make(first, rest);
            },
            2);
    }

    void note_tensorized(const Frame &f, const std::string &variable) {
        const StageState &s = f.stage();
        TensorUse use{s.name(), state_.instructions->get(s.tensorize->instruction), {}};
        for (const std::string &l : s.order) {
            if (s.loop(l).reduction) use.reductions.insert(f.prefix() + l);
        }
        l_.tensorized.emplace(variable, use);
    }

    void record(const StageState &s, const Frame &f, size_t depth, ForType type, const Expr &extent) {
        LoopRow row;
        row.name = f.prefix() + s.order[depth];
        row.stage = s.name();
        row.kind = type == ForType::Serial       ? "serial"
                   : type == ForType::Parallel   ? "parallel"
                   : type == ForType::Vectorized ? "vectorized"
                                                 : "unrolled";
        row.extent = extent;
        row.depth = static_cast<int>(depth);
        l_.nest.loops.push_back(row);
    }

    // Guards whose innermost loop is this one shorten the loop where its value grows with it by a constant step.
    Expr clip(Frame &f, size_t depth, const Walk &w, const Expr &min, const Expr &extent) {
        const std::string variable = f.prefix() + f.stage().order[depth];
        Expr result = extent;
        for (const Guard &g : guards(f, w.skip_reductions)) {
            if (g.position != depth || !g.value.defined() || proves(g.condition, bounds_)) continue;
            const auto step = step_of(g.value, variable);
            if (!step || *step <= 0) continue;
            const Expr start = simplify_index(substitute(variable, min, g.value), bounds_);
            const Expr n = (g.limit - start + static_cast<int>(*step) - 1) / static_cast<int>(*step);
            result = simplify_index(Min::make(result, Max::make(n, 0)), bounds_);
        }
        return result;
    }

    static std::optional<int64_t> step_of(const Expr &value, const std::string &variable) {
        const Expr v = Variable::make(Int(32), variable);
        const Expr difference = simplify(substitute(variable, v + 1, value) - value);
        return as_const_int(difference);
    }

    // The body of the loop at `depth`: guards that its variable completes, what is computed there, and the next loop.
    Stmt inside(Frame &f, size_t depth, const Walk &w) {
        const StageState &s = f.stage();
        const std::string &name = s.order[depth];
        Expr condition;
        for (const Guard &g : guards(f, w.skip_reductions)) {
            if (g.position != depth || proves(g.condition, bounds_)) continue;
            const ForType type = for_type(f, depth, w.skip_reductions);
            const bool clipped = !f.pinned(name) && (type == ForType::Serial || type == ForType::Parallel) &&
                                 g.value.defined() && step_of(g.value, f.prefix() + name).value_or(0) > 0;
            if (!clipped) condition = all_of(condition, simplify_index(g.condition, bounds_));
        }
        Stmt body = with_children(f, depth, w, 0);
        for (const Prefetch &p : s.prefetches) {
            if (w.children && p.loop == name && !f.pinned(name)) body = Block::make(fetch_ahead(f, depth, p), body);
        }
        return condition.defined() ? IfThenElse::make(condition, body) : body;
    }

    // Requests for the cache lines of what is read `distance` iterations later.
    Stmt fetch_ahead(const Frame &f, size_t depth, const Prefetch &p) {
        const StageState &s = f.stage();
        bool reads = false; // inlining may have left none
        for (const Expr &e : expressions_of(s)) reads = reads || tensors_read(e).count(p.tensor);
        if (!reads) return Evaluate::make(0);
        const auto found = buffers_.find(p.tensor);
        if (found == buffers_.end())
            throw UserError("tensor " + p.tensor + " is prefetched where it has not been computed");
        const Storage &stored = l_.storage.at(found->second);
        const Bounds scope = scope_of(f, depth + 1);
        std::optional<Region> region;
        for (const Expr &e : expressions_of(s)) {
            if (auto r = region_read(e, p.tensor, scope, stored.region, bounds_))
                region = region ? region_union(*region, *r, bounds_) : r;
        }
        if (p.tensor == s.name()) { // its partial results
            region.emplace();
            for (const Axis &a : s.def.axes) {
                const Interval i = scope.get(a.name());
                region->min.push_back(i.min);
                region->extent.push_back(simplify_index(i.max - i.min + 1, bounds_));
            }
        }
        if (!region) return Evaluate::make(0);
        const std::string &loop = s.order[depth];
        const Expr ahead = f.variable(loop) + static_cast<int>(p.distance);
        // The dimension along which elements follow each other, and how many make a line.
        size_t along = stored.axes.size();
        int64_t step = std::max(1, line_bytes() / stored.type.bytes());
        if (stored.external) {
            for (size_t d = 0; d < stored.strides.size(); d++) {
                if (is_const_one(stored.strides[d])) along = d;
            }
        } else if (!stored.axes.empty()) {
            const LayoutTerm last = storage_terms(stored.layout, stored.axes).back();
            along = std::find(stored.axes.begin(), stored.axes.end(), last.axis) - stored.axes.begin();
            if (last.part == LayoutTerm::Part::Inner) step = std::min<int64_t>(step, last.block);
            if (last.part == LayoutTerm::Part::Outer) step = 1;
        }
        std::vector<Expr> index;
        std::vector<std::pair<std::string, Expr>> loops;
        for (size_t d = 0; d < stored.axes.size(); d++) {
            const Expr first = stored.region.min[d], end = stored.region.end(d);
            Expr lo = substitute(f.prefix() + loop, ahead, region->min[d]);
            const Expr hi =
                simplify_index(min(lo + substitute(f.prefix() + loop, ahead, region->extent[d]), end), bounds_);
            lo = simplify_index(max(lo, first), bounds_);
            Expr count = simplify_index(hi - lo, bounds_), at = lo;
            if (is_const_one(count)) {
                index.push_back(at);
                continue;
            }
            const std::string variable = fresh_instance("ahead." + p.tensor + "." + stored.axes[d]);
            const Expr v = Variable::make(Int(32), variable);
            if (d == along && step > 1) {
                const Expr n = static_cast<int>(step);
                const bool aligned = proves(lo % n == 0, bounds_);
                count = simplify_index(aligned ? (count + n - 1) / n : (count + n - 2) / n + 1, bounds_);
                at = aligned ? lo + v * n : min(lo + v * n, hi - 1);
            } else {
                at = lo + v;
            }
            loops.emplace_back(variable, count);
            index.push_back(at);
        }
        const Expr read = read_tensor(stored.type, found->second, index);
        Stmt body = Evaluate::make(Call::make(Int(32), "kumiko.prefetch",
                                              {StringImm::make(found->second), read, 3, p.tensor == s.name() ? 1 : 0},
                                              Call::Intrinsic));
        for (size_t n = loops.size(); n-- > 0;) {
            body =
                For::make(loops[n].first, 0, loops[n].second, ForType::Serial, Partition::Never, DeviceAPI::None, body);
        }
        return IfThenElse::make(ahead < f.extent(loop), body);
    }

    int line_bytes() const {
        for (const MemoryLevel &m : state_.machine->memory) {
            if (m.line_bytes > 0) return m.line_bytes;
        }
        return 64;
    }

    Stmt with_children(Frame &f, size_t depth, const Walk &w, size_t from) {
        const StageState &s = f.stage();
        if (w.children) {
            for (size_t i = from; i < state_.stages.size(); i++) {
                const StageState &p = state_.stages[i];
                if (p.placement.kind != Placement::Kind::At || p.placement.consumer != s.name() ||
                    p.placement.loop != s.order[depth])
                    continue;
                if (!p.finished_into.empty() || doubled_.count(p.name())) continue;
                const StageState *by = finisher_of(p.name());
                const std::optional<Region> region = needed(p, f, depth + 1);
                if (!region) continue;
                return with_storage(p, *region, [&] {
                    Stmt produce = stage(by ? *by : p, *region);
                    return Block::make(produce, with_children(f, depth, w, i + 1));
                });
            }
        }
        return walk(f, depth + 1, w);
    }

    // ---- stages ----------------------------------------------------------------------------------------------------

    Stmt stage(const StageState &s, const Region &region) {
        Frame f(s, clipped(s, region), fresh_instance("loops of " + s.name()).substr(9) + ".");
        return s.def.is_reduction() ? reduction(f) : pointwise(f);
    }

    // A region that a reader's last block rounded up ends where the stage does, so that its loops test nothing. Only where no
    // other stage is computed inside, whose storage would then vary in size.
    Region clipped(const StageState &s, Region region) const {
        if (s.def.is_reduction() || s.def.kind == Stage::Kind::Padding) return region;
        for (const StageState &inner : state_.stages) {
            if (inner.placement.kind == Placement::Kind::At && inner.placement.consumer == s.name()) return region;
        }
        for (size_t d = 0; d < s.def.axes.size(); d++) {
            const Expr extent = s.def.axes[d].extent();
            const int step = region.step_of(d);
            if (!proves(region.end(d) <= extent, bounds_))
                region.extent[d] =
                    simplify_index(min(region.extent[d], (extent - region.min[d] + step - 1) / step), bounds_);
        }
        return region;
    }

    Stmt pointwise(Frame &f) {
        Walk w;
        w.leaf = [&](Frame &g) {
            const Expr value = at(g, g.stage().def.value);
            return Provide::make(buffers_.at(g.stage().name()), {padded(g, value, make_zero(value.type()))}, indices(g),
                                 const_true());
        };
        return walk(f, 0, w);
    }

    // Stores `values` (one per component) at the frame's indices into the buffers in scope.
    Stmt store(Frame &f, const std::vector<Expr> &values) {
        const auto names = names_of(f.stage());
        const std::vector<Expr> index = indices(f);
        if (values.size() == 1) return Provide::make(buffers_.at(names[0]), values, index, const_true());
        // All new values are computed before any is stored.
        std::vector<Stmt> stores;
        for (size_t c = 0; c < values.size(); c++) {
            stores.push_back(Provide::make(buffers_.at(names[c]), {Variable::make(values[c].type(), names[c] + ".new")},
                                           index, const_true()));
        }
        Stmt body = Block::make(stores);
        for (size_t c = values.size(); c-- > 0;) body = LetStmt::make(names[c] + ".new", values[c], body);
        return body;
    }

    std::vector<Expr> read(Frame &f, const std::map<std::string, std::string> &from) {
        std::vector<Expr> values;
        const Stage &def = f.stage().def;
        for (const Component &c : def.components) values.push_back(read_tensor(c.type, from.at(c.tensor), indices(f)));
        return values;
    }

    static std::vector<Expr> combined(const Stage &def, const std::vector<Expr> &before,
                                      const std::vector<Expr> &terms) {
        std::map<std::string, Expr> values;
        for (size_t c = 0; c < def.components.size(); c++) {
            values[accumulator_variable(c)] = before[c];
            values[term_variable(c)] = terms[c];
        }
        std::vector<Expr> after;
        for (const Component &c : def.components) after.push_back(substitute(values, c.combined));
        return after;
    }

    Stmt step(Frame &f) {
        const Stage &def = f.stage().def;
        std::vector<Expr> terms;
        for (const Component &c : def.components) terms.push_back(at(f, c.term));
        std::vector<Expr> after = combined(def, read(f, buffers_), terms);
        for (size_t c = 0; c < after.size(); c++) after[c] = padded(f, after[c], def.components[c].identity);
        return store(f, after);
    }

    Stmt begin(Frame &f, size_t depth) {
        return pure_walk(f, depth, [&](Frame &g) {
            std::vector<Expr> values;
            for (const Component &c : g.stage().def.components) values.push_back(c.identity);
            return store(g, values);
        });
    }

    template<typename Leaf>
    Stmt pure_walk(Frame &f, size_t depth, const Leaf &leaf) {
        Walk w;
        w.skip_reductions = true;
        w.children = false;
        w.leaf = leaf;
        return walk(f, depth, w);
    }

    // The consumer that is finished in the stage, at the stage's indices.
    Stmt finish(Frame &f, size_t depth) {
        const StageState &consumer = state_.stage(f.stage().finished_into);
        return pure_walk(f, depth, [&](Frame &g) {
            return Provide::make(buffers_.at(consumer.name()), {at(g, consumer.def.value)}, indices(g), const_true());
        });
    }

    Stmt reduction(Frame &f) {
        const StageState &s = f.stage();
        const size_t first = s.first_reduction();
        const bool finishes = !s.finished_into.empty();
        if (s.accumulate) {
            const size_t depth = s.position(s.accumulate->loop) + 1;
            const bool rounds = first < depth; // a reduction loop stands outside
            const bool late = rounds && finishes && !rounds_in_order(f, depth);
            Walk w;
            w.stop = depth;
            w.leaf = [&](Frame &g) { return accumulate(g, depth, rounds, late); };
            if (!rounds) return walk(f, 0, w);
            Walk outer;
            outer.stop = first;
            outer.leaf = [&](Frame &g) {
                Stmt all = walk(g, first, w);
                if (late) all = Block::make(all, finish(g, first));
                Expr nothing; // without a round, what is stored is the identity
                for (const Axis &a : s.def.reduction_axes) {
                    if (!proves(a.extent() > 0, bounds_))
                        nothing = nothing.defined() ? nothing || a.extent() <= 0 : a.extent() <= 0;
                }
                if (!nothing.defined()) return all;
                Stmt none = begin(g, first);
                if (finishes && !late) none = Block::make(none, finish(g, first));
                return Block::make(IfThenElse::make(simplify_index(nothing, bounds_), none), all);
            };
            // Partial results wait in the stage's own storage meanwhile.
            if (finishes) return with_storage(s, f.region(), [&] { return walk(f, 0, outer); });
            return walk(f, 0, outer);
        }
        Walk w;
        w.stop = first;
        w.leaf = [&](Frame &g) {
            const auto body = [&] {
                Walk steps;
                steps.leaf = [&](Frame &h) { return step(h); };
                Stmt all = Block::make(begin(g, first), walk(g, first, steps));
                return finishes ? Block::make(all, finish(g, first)) : all;
            };
            return finishes ? with_storage(s, touched(g, first), body) : body();
        };
        return walk(f, 0, w);
    }

    // What the reduction loops count: the reduction axes, or what whole ones were fused into. Nothing when some are fused in part.
    static std::optional<std::set<std::string>> reduction_roots(const StageState &s) {
        std::set<std::string> roots;
        for (const Axis &a : s.def.reduction_axes) roots.insert(a.name());
        for (const Relation &r : s.relations) {
            const auto *fuse = std::get_if<FuseRelation>(&r);
            if (!fuse || !s.loop(fuse->fused).reduction) continue;
            if (!roots.erase(fuse->outer) || !roots.erase(fuse->inner)) return std::nullopt;
            roots.insert(fuse->fused);
        }
        return roots;
    }

    // True when the last round of a reduction can be told by what its loops inside `depth` reach: outer parts stand outside of
    // inner ones, so that each round is of later steps than the one before, and the loops inside one reach no further than
    // its next iteration, as those do that a factor cuts unevenly.
    bool rounds_in_order(const Frame &f, size_t depth) const {
        const StageState &s = f.stage();
        const auto roots = reduction_roots(s);
        if (!roots) return false;
        for (const std::string &root : *roots) {
            int64_t reach = 1; // how many steps the loops seen so far, from the innermost outwards, cover
            int64_t inner_step = 0;
            for (size_t p = s.order.size(); p-- > 0;) {
                const std::string &l = s.order[p];
                if (!s.derived_from(l, root) || is_const_one(f.extent(l))) continue;
                const auto step = step_of(f.value(root), f.prefix() + l);
                if (!step || *step <= inner_step || (p < depth && *step < reach)) return false;
                inner_step = *step;
                if (const auto n = as_const_int(f.extent(l)))
                    reach = std::min<int64_t>(reach + *step * std::max<int64_t>(*n - 1, 0), INT32_MAX);
                else
                    reach = INT32_MAX;
            }
        }
        return true;
    }

    // `rounds`: a reduction loop stands outside, so partial results are put away and reloaded. `late`: the consumer is not
    // finished here.
    Stmt accumulate(Frame &f, size_t depth, bool rounds, bool late) {
        const StageState &s = f.stage();
        const bool finishes = !s.finished_into.empty() && !late;
        Expr is_first, is_last, runs;
        if (rounds) {
            for (size_t i = 0; i < depth; i++) {
                if (s.loop(s.order[i]).reduction) is_first = all_of(is_first, f.value(s.order[i]) == 0);
            }
            is_first = simplify_index(is_first, bounds_);
        }
        if (rounds && finishes) {
            const std::set<std::string> roots = *reduction_roots(s);
            for (const std::string &root : roots) {
                const Interval i = f.axis_interval(root, depth, bounds_);
                is_last = all_of(is_last, i.max >= f.extent(root) - 1);
                if (!proves(i.min < f.extent(root), bounds_))
                    runs = all_of(runs, simplify_index(i.min < f.extent(root), bounds_));
            }
            is_last = simplify_index(is_last, bounds_);
        }
        const auto whole = [&](const Stmt &s) { return runs.defined() ? IfThenElse::make(runs, s) : s; };
        const std::map<std::string, std::string> home = buffers_;
        return whole(with_components(s.def, 0, touched(f, depth), {}, s.accumulate->level, ".acc", true, [&] {
            const std::map<std::string, std::string> accumulators = buffers_;
            Stmt start = begin(f, depth);
            const bool later = rounds && !is_const_one(is_first);
            if (later && !s.accumulate->join) {
                Stmt reload = pure_walk(f, depth, [&](Frame &g) { return store(g, read(g, home)); });
                start = IfThenElse::make(is_first, start, reload);
            }
            Walk steps;
            steps.leaf = [&](Frame &g) { return step(g); };
            Stmt middle = walk(f, depth, steps);
            if (later && s.accumulate->join) {
                const Stmt join = pure_walk(f, depth, [&](Frame &g) {
                    return store(g, combined(s.def, read(g, home), read(g, accumulators)));
                });
                middle = Block::make(middle, IfThenElse::make(simplify_index(!is_first, bounds_), join));
            }
            const auto leave = [&] {
                return pure_walk(f, depth, [&](Frame &g) {
                    const std::vector<Expr> values = read(g, accumulators);
                    for (const std::string &t : names_of(s)) buffers_[t] = home.at(t);
                    Stmt out = store(g, values);
                    buffers_ = accumulators;
                    return out;
                });
            };
            Stmt end;
            if (!finishes)
                end = leave();
            else if (!rounds || is_const_one(is_last))
                end = finish(f, depth);
            else if (is_const_zero(is_last))
                end = leave();
            else
                end = IfThenElse::make(is_last, finish(f, depth), leave());
            return Block::make({start, middle, end});
        }));
    }
};

} // namespace

void build_nest(Lowering &l) {
    NestBuilder builder(l);
    l.nest.body = builder.run();
}

} // namespace kumiko
