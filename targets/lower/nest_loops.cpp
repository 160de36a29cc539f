// The walk over the loops of a stage: which of them are unrolled, vectorized or parallel, and what
// is computed inside.
#include "targets/lower/nest_loop_builder.h"

#include "dsl/scatter.h"
#include "schedules/linear.h"
#include "schedules/online.h"
#include "support/error.h"

namespace kumiko {

using namespace Halide::Internal;
using Halide::DeviceAPI;
using Halide::Partition;

bool NestLoopBuilder::copies_inside(const StageState &s, const std::string &loop) const {
    for (size_t i = 0; i < s.order.size(); i++) {
        const std::string &l = s.order[i];
        if (!s.derived_from(l, loop)) continue;
        const LoopKind k = s.loop(l).kind;
        if (s.tensorize && i >= s.position(s.tensorize->loop)) return true;
        if (k == LoopKind::Vectorized || k == LoopKind::Unrolled || must_unroll(s, i)) return true;
    }
    return false;
}

// Loops that step through registers must be unrolled.
bool NestLoopBuilder::must_unroll(const StageState &s, size_t position) const {
    const LoopState &l = s.loop(s.order[position]);
    if (l.kind != LoopKind::Serial || l.reduction) return false;
    if (s.level == "registers") return true;
    if (s.accumulate && s.accumulate->level == "registers" && position > s.position(s.accumulate->loop)) return true;
    const StageState &host = s;
    for (const StageState &p : state_.stages) {
        if (p.level == "registers" && p.placement.kind == Placement::Kind::At && p.placement.consumer == host.name() &&
            position > host.position(p.placement.loop)) {
            return true;
        }
    }
    return false;
}

// `pure`: the loop is in the begin or end of a reduction, which has no reduction loops.
ForType NestLoopBuilder::for_type(const Frame &f, size_t position, bool pure) const {
    const StageState &s = f.stage();
    if (s.tensorize && position >= s.position(s.tensorize->loop)) {
        if (!pure) return ForType::Serial;
        for (size_t i = position + 1; i < s.order.size(); i++) {
            if (!s.loop(s.order[i]).reduction) return must_unroll(s, position) ? ForType::Unrolled : ForType::Serial;
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
    case LoopKind::Bound: // units that are not cores run it; serial execution is equivalent
    case LoopKind::Serial:
        break;
    }
    // A loop of symbolic extent cannot be unrolled. The array that it steps through stays in
    // memory, and code generation warns.
    return must_unroll(s, position) && is_const(f.extent(s.order[position])) ? ForType::Unrolled : ForType::Serial;
}

Stmt NestLoopBuilder::walk(Frame &f, size_t depth, const Walk &w) {
    const StageState &s = f.stage();
    if (depth == w.stop || depth == s.order.size()) return w.leaf(f);
    if (depth == s.first_reduction() && !w.skip_reductions && !f.bounded()) {
        if (auto bounded = with_bounded_steps(f, depth)) return walk(*bounded, depth, w);
    }
    const std::string &name = s.order[depth];
    if (w.skip_reductions && s.loop(name).reduction) return walk(f, depth + 1, w);
    if (f.pinned(name)) return inside(f, depth, w);
    if (w.children && warming_up_ != &s) {
        const Stmt before = warm_up(f, depth);
        if (!is_no_op(before)) return Block::make(before, walk_loop(f, depth, w));
    }
    if (name == s.scattered && !w.skip_reductions) return named_element(f, depth, w);
    if (w.children && s.online && !follows(s) && s.online->loop == name) {
        const Stmt start = online_begin(f, depth);
        const Expr outer = blocks_run_;
        blocks_run_ = blocks_run(f, depth);
        const Stmt blocks = walk_loop(f, depth, w);
        blocks_run_ = outer;
        return Block::make(start, blocks);
    }
    return walk_loop(f, depth, w);
}

Stmt NestLoopBuilder::walk_loop(Frame &f, size_t depth, const Walk &w) {
    const StageState &s = f.stage();
    const std::string &name = s.order[depth];
    // Peel: the full blocks, then a separate copy of the body for the partial one.
    for (size_t r = 0; r < s.relations.size(); r++) {
        const auto *split = std::get_if<SplitRelation>(&s.relations[r]);
        if (!split || split->outer != name || split->tail != Tail::Auto || f.mode(r) != Frame::Mode::Whole) continue;
        if (!copies_inside(s, split->inner)) continue;
        const auto clipping = relation_to_clip(f, r);
        Frame clipped = f;
        if (clipping) clipped.set_mode(*clipping, Frame::Mode::Clip);
        const Expr extent = clipped.extent(split->parent), factor = static_cast<int>(split->factor);
        if (proves(extent % factor == 0, bounds_) || left_to_clip(f, depth, r)) continue;
        bool nested = true;
        for (const std::string &l : f.live_loops(split->inner)) nested = nested && s.position(l) > depth;
        if (!nested) continue;
        if (!is_const_zero(rest_of(clipped, *split))) return peel_rest(clipped, depth, w, r, *split);
        // Here the last block of the split above consists of whole blocks.
        clipped.set_mode(r, Frame::Mode::Main);
        return one_loop(clipped, depth, w, 0, blocks_of(s, name, simplify_index(extent / factor, bounds_)));
    }
    for (const Peel &p : s.peels) {
        if (p.loop == name) return peel_ends(f, depth, w, p);
    }
    return one_loop(f, depth, w, 0, blocks_of(s, name, f.extent(name)));
}

// The iterations of a loop; fewer for a loop over blocks that do not all run.
Expr NestLoopBuilder::blocks_of(const StageState &s, const std::string &loop, const Expr &extent) const {
    const bool fewer = blocks_run_.defined() && s.online && !follows(s) && s.online->loop == loop;
    return fewer ? simplify_index(min(extent, blocks_run_), bounds_) : extent;
}

Stmt NestLoopBuilder::one_loop(Frame &f, size_t depth, const Walk &w, const Expr &min, const Expr &extent) {
    const StageState &s = f.stage();
    const std::string &name = s.order[depth];
    if (const auto n = as_const_int(extent); n && *n <= 0) return Evaluate::make(0);
    if (is_const_one(extent) && is_const(min) &&
        !f.kept(name)) { // a peeled iteration keeps its variable, so that indices stay short
        Frame one = f;
        one.pin(name, min);
        return inside(one, depth, w);
    }
    const ForType type = for_type(f, depth, w.skip_reductions);
    const std::string variable = f.prefix() + name;
    if (type == ForType::Vectorized && s.loop(name).reduction) l_.joined.insert(variable);
    if (s.tensorize && !w.skip_reductions && depth >= s.position(s.tensorize->loop)) note_tensorized(f, variable);
    // The number of lanes and copies must be constant when code is generated. For a varying extent
    // it is the maximum, with those beyond the extent disabled.
    Expr most = extent;
    if ((type == ForType::Unrolled || type == ForType::Vectorized) && !is_const(extent)) {
        most = find_constant_bound(extent, Direction::Upper, bounds_);
        if (!most.defined() || !as_const_int(most) || *as_const_int(most) > 1024) {
            throw UserError("loop " + name + " of stage " + s.name() + " is " + kind_name(s.loop(name).kind) +
                            ", but how far it runs where it is computed is known only at run time; split it, or "
                            "compute the stage elsewhere");
        }
    }
    // A variable with a single iteration would be simplified away.
    const Expr end = f.kept(name) ? Expr(2) : most;
    bounds_.push(variable, Interval(min, simplify(min + end - 1)));
    Expr clipped = most;
    if (type == ForType::Serial || type == ForType::Parallel) clipped = clip(f, depth, w, min, extent);
    if (!f.kept(name) && !is_const(clipped)) { // the extent may depend on enclosing loops
        bounds_.pop(variable);
        bounds_.push(variable, Interval(min, simplify(min + clipped - 1)));
    }
    std::vector<const StageState *> staged;
    for (const StageState &p : state_.stages) {
        if (w.children && warming_up_ != &s && type == ForType::Serial && p.buffers > 1 &&
            p.placement.consumer == s.name() && p.placement.loop == name && needed(p, f, depth + 1)) {
            staged.push_back(&p);
        }
    }
    std::vector<Stmt> fills;
    Stmt loop = with_staged(f, depth, staged, 0, min, clipped, fills, [&] {
        Stmt body = inside(f, depth, w);
        if (is_no_op(body)) return body;
        if (!most.same_as(extent))
            body = IfThenElse::make(simplify_index(Variable::make(Int(32), variable) < min + extent, bounds_), body);
        fills.push_back(body);
        return For::make(variable, min, clipped, type, Partition::Never, DeviceAPI::None, Block::make(fills));
    });
    bounds_.pop(variable);
    if (!is_no_op(loop)) record(s, f, depth, type, extent);
    return loop;
}

// The single iteration of the loop that the step's index selects, if it lies in the region.
Stmt NestLoopBuilder::named_element(Frame &f, size_t depth, const Walk &w) {
    const std::string name = f.stage().order[depth], variable = f.prefix() + name, read = variable + ".index";
    const Expr index = at(f, scattered(f.stage().def)->index), named = Variable::make(index.type(), read);
    size_t d = 0;
    while (f.stage().def.axes[d].name() != name) d++;
    const Expr first = f.region().min[d], extent = f.extent(name);
    bounds_.push(variable, Interval(0, simplify(extent - 1)));
    Frame one = f;
    one.pin(name, Variable::make(Int(32), variable));
    Stmt body = inside(one, depth, w);
    bounds_.pop(variable);
    record(f.stage(), f, depth, ForType::Serial, 1);
    body = LetStmt::make(variable, simplify(cast<int32_t>(named) - first), body);
    // In 64 bits, which can represent every index and every end.
    const auto wide = [](const Expr &e) { return cast<int64_t>(e); };
    Expr is_inside = wide(named) >= wide(first) && wide(named) < wide(first) + wide(extent);
    if (index.type() == UInt(64)) is_inside = is_inside && named < make_const(UInt(64), INT64_MAX);
    return LetStmt::make(read, index, IfThenElse::make(is_inside, body));
}

void NestLoopBuilder::note_tensorized(const Frame &f, const std::string &variable) {
    const StageState &s = f.stage();
    TensorUse use{s.name(), state_.instructions->get(s.tensorize->instruction), {}};
    for (const std::string &l : s.order) {
        if (s.loop(l).reduction) use.reductions.insert(f.prefix() + l);
    }
    l_.tensorized.emplace(variable, use);
}

void NestLoopBuilder::record(const StageState &s, const Frame &f, size_t depth, ForType type, const Expr &extent) {
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

// The body of the loop at `depth`: guards that depend on its variable, the stages computed there,
// and the next loop.
Stmt NestLoopBuilder::inside(Frame &f, size_t depth, const Walk &w) {
    const StageState &s = f.stage();
    const std::string &name = s.order[depth];
    Expr condition;
    for (const Guard &g : guards(f, depth, w.skip_reductions)) {
        if (proves(g.condition, bounds_)) continue;
        const ForType type = for_type(f, depth, w.skip_reductions);
        const bool clipped = !f.pinned(name) && (type == ForType::Serial || type == ForType::Parallel) &&
                             g.value.defined() && step_along(g.value, f.prefix() + name).value_or(0) > 0;
        if (!clipped) condition = conjunction(condition, simplify_index(g.condition, bounds_));
    }
    const auto children = [&] { return with_children(f, depth, w, 0); };
    Stmt body = w.children ? with_shared_buffers(f, depth, children) : children();
    for (const Prefetch &p : s.prefetches) {
        if (w.children && p.loop == name && !f.pinned(name)) body = Block::make(fetch_ahead(f, depth, p), body);
    }
    return condition.defined() ? IfThenElse::make(condition, body) : body;
}

} // namespace kumiko
