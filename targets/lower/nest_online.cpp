// Online sums: one pass computes a running maximum and the sums whose terms are relative to it
// (schedules/online.h). This file builds what runs before the anchor's loop, in each block, and
// after the last block.
#include "schedules/linear.h"
#include "schedules/online.h"
#include "targets/lower/nest_builder.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

std::string factor_of(const Online &o) { return o.max + ".factor"; }

Expr lowest_number(Type t) {
    const double most = t.is_bfloat()    ? 0x1.fep127
                        : t.bits() == 16 ? 65504.0
                        : t.bits() == 32 ? std::numeric_limits<float>::max()
                                         : std::numeric_limits<double>::max();
    return FloatImm::make(t, -most);
}

Expr let_of(Type t, const std::string &name) { return Variable::make(t, name); }

// Collects bounds (a <= b or a < b over indices): unless all of them hold, `e` is the identity.
void collect_bounds(const Expr &e, const Expr &identity, std::vector<Expr> &bounds) {
    const auto add = [&](const Expr &condition) {
        for (const Expr &b : bounds_in(condition)) bounds.push_back(b);
    };
    const auto choose = [&](const Expr &condition, const Expr &yes, const Expr &no) {
        if (equal(no, identity)) add(condition), collect_bounds(yes, identity, bounds);
        if (equal(yes, identity)) add(simplify(!condition)), collect_bounds(no, identity, bounds);
    };
    if (const auto *op = e.as<Select>()) choose(op->condition, op->true_value, op->false_value);
    if (const auto *op = Call::as_intrinsic(e, {Call::if_then_else}); op && op->args.size() == 3)
        choose(op->args[0], op->args[1], op->args[2]);
}

} // namespace

// The number of blocks of the loop at `depth` that run. If from some block on a select in the
// maximum's term yields only the identity for all rows computed here, the terms of these blocks sum
// to zero. At least one block runs, so that a row without terms gets the value that the formula
// defines. Undefined if all blocks run.
Expr NestBuilder::blocks_run(const Frame &f, size_t depth) {
    const StageState &s = f.stage();
    // Then the last round is recognised by the loops' own extents, so all blocks run.
    const bool ends_in_rounds =
        s.accumulate && !s.finished_into.empty() && !s.waiting && s.position(s.accumulate->loop) >= depth;
    const StageState &max = *followers(state_, s.name()).front();
    const StageState *block = state_.find(max.name() + ".block");
    if (ends_in_rounds || !block || block->def.reduction_axes.size() != 1) return Expr();
    const Region rows = rows_of(max, f, depth);
    Bounds scope;
    for (size_t d = 0; d < max.def.axes.size(); d++)
        scope.push(max.def.axes[d].name(), Interval(rows.min[d], rows.end(d) - 1));
    for (const Axis &a : block->def.reduction_axes) scope.push(a.name(), Interval(0, a.extent() - 1));
    const std::string blocks = max.def.reduction_axes[0].name();
    const Component &c = block->def.components[0];
    std::vector<Expr> bounds;
    collect_bounds(inlined(c.term), c.identity, bounds);
    Expr run;
    for (const Expr &b : bounds) {
        const Interval most = bounds_of_expr_in_scope(simplify(slack(b)), scope);
        if (!most.has_upper_bound()) continue;
        const auto step = step_along(most.max, blocks);
        if (!step || *step >= 0) continue;
        const Expr n = substitute(blocks, 0, most.max) / static_cast<int>(-*step) + 1;
        run = run.defined() ? min(run, n) : n;
    }
    if (!run.defined()) return run;
    run = simplify_index(Max::make(run, 1), bounds_);
    const Expr all = f.extent(s.order[depth]);
    return proves(run >= all, bounds_) ? Expr() : run;
}

// The stored region of a follower for the elements of the anchor that the loops from `depth` on
// touch; axes with equal names correspond.
Region NestReads::rows_of(const StageState &p, const Frame &f, size_t depth) {
    Region r = whole_region(p.def);
    const auto &axes = f.stage().def.axes;
    for (size_t d = 0; d < p.def.axes.size(); d++) {
        const std::string axis = p.def.axes[d].name();
        if (std::none_of(axes.begin(), axes.end(), [&](const Axis &a) { return a.name() == axis; })) continue;
        const Interval i = f.axis_interval(axis, depth, bounds_);
        r.min[d] = i.min;
        r.extent[d] = simplify_index(i.max - i.min + 1, bounds_);
    }
    return r;
}

Frame NestBuilder::follower_frame(const StageState &p, const Frame &f, size_t depth) {
    return Frame(p, rows_of(p, f, depth), fresh_instance("loops of " + p.name()).substr(9) + ".");
}

// Initialises the followers of the loop at `depth` to their identities.
Stmt NestBuilder::online_begin(const Frame &f, size_t depth) {
    std::vector<Stmt> all;
    for (const StageState *p : followers(state_, f.stage().name())) {
        Frame g = follower_frame(*p, f, depth);
        all.push_back(begin(g, 0));
    }
    return Block::make(all);
}

// Updates a follower for the block of this iteration of the loop at `depth`. For a maximum, the
// value that the block's terms are relative to and the factor for earlier sums are stored for
// `rest`.
Stmt NestBuilder::online_block(const StageState &p, const Frame &f, size_t depth, const std::function<Stmt()> &rest) {
    const Component &c = p.def.components[0];
    const std::string block = p.def.reduction_axes[0].name();
    Frame g = follower_frame(p, f, depth + 1);
    g.pin(block, f.value(f.stage().order[depth]));
    const std::string home = buffers_.at(p.name());
    Walk w;
    w.children = false;
    if (p.online->max != p.name()) {
        w.leaf = [&](Frame &h) {
            const Expr before = read_tensor(c.type, home, indices(h)) * online_factor(h, c.type);
            return store(h, combined(h.stage().def, {before}, {at(h, c.term)}));
        };
        const Stmt update = walk(g, 0, w);
        return Block::make(update, rest());
    }
    Stage used = p.def, factor = p.def; // stored as separate tensors
    factor.components[0].tensor = factor_of(*p.online);
    factor.components[0].type = p.online->factor.type();
    std::vector<std::string> axes;
    for (const Axis &a : p.def.axes) axes.push_back(a.name());
    const Region region = rounded_up(p, g.region());
    return with_components(used, 0, axes, region, p.layout, p.level, ".used", false, g.region(), [&] {
        return with_components(factor, 0, axes, region, p.layout, p.level, "", false, g.region(), [&] {
            w.leaf = [&](Frame &h) { return maximum_of_block(h, home); };
            const Stmt update = walk(g, 0, w);
            return Block::make(update, rest());
        });
    });
}

Stmt NestBuilder::maximum_of_block(Frame &f, const std::string &home) {
    const StageState &s = f.stage();
    const Component &c = s.def.components[0];
    const Online &o = *s.online;
    const std::vector<Expr> here = indices(f);
    const std::string before = o.max + ".before", now = o.max + ".new";
    const Expr all = combined(s.def, {let_of(c.type, before)}, {at(f, c.term)})[0];
    // At least the lowest number, except in the last block, where the formula's own maximum is
    // known.
    const Axis &blocks = s.def.reduction_axes[0];
    const Expr end = blocks_run_.defined() ? min(blocks_run_, blocks.extent()) : blocks.extent();
    const Expr more = simplify_index(f.value(blocks.name()) + 1 < end, bounds_);
    const Expr lowest = lowest_number(c.type), from_lowest = Max::make(let_of(c.type, now), lowest);
    const Expr used = is_const_one(more)    ? from_lowest
                      : is_const_zero(more) ? let_of(c.type, now)
                                            : Select::make(more, from_lowest, let_of(c.type, now));
    const std::string taken = o.max + ".taken";
    const Expr factor = substitute(
        {{maximum_before, Max::make(let_of(c.type, before), lowest)}, {maximum_now, let_of(c.type, taken)}}, o.factor);
    Stmt body = Block::make({Provide::make(buffers_.at(factor_of(o)), {factor}, here, const_true()),
                             Provide::make(buffers_.at(o.max), {let_of(c.type, taken)}, here, const_true()),
                             Provide::make(home, {let_of(c.type, now)}, here, const_true())});
    body = LetStmt::make(taken, used, body);
    body = LetStmt::make(now, all, body);
    return LetStmt::make(before, read_tensor(c.type, home, here), body);
}

// The factor that rescales sums at the frame's indices at the begin of a block, in their type.
Expr NestBuilder::online_factor(const Frame &f, Type t) {
    const Online &o = *f.stage().online;
    std::vector<Expr> rows;
    for (const Axis &a : state_.stage(o.max).def.axes) rows.push_back(simplify_index(f.index(a.name()), bounds_));
    const Expr factor = read_tensor(o.factor.type(), buffers_.at(factor_of(o)), rows);
    return factor.type() == t ? factor : cast(t, factor);
}

// Whether the anchor's partial results are rescaled when a round reloads them; the first round of
// each block does so.
bool NestBuilder::rescaled_on_reload(const StageState &s) const {
    if (!s.accumulate || s.accumulate->join) return false;
    const size_t end = s.position(s.accumulate->loop) + 1, block = s.position(s.online->loop);
    if (block >= end) return false;
    for (size_t l = block + 1; l < end; l++) {
        if (s.loop(s.order[l]).reduction) return false;
    }
    return true;
}

// Rescales the anchor's partial results in place at the begin of every block but the first.
Stmt NestBuilder::rescale(Frame &f, size_t depth) {
    const StageState &s = f.stage();
    const Expr later = simplify_index(f.value(s.online->loop) > 0, bounds_);
    if (is_const_zero(later)) return Evaluate::make(0);
    const Type t = s.def.components[0].type;
    const Stmt all =
        pure_walk(f, depth, [&](Frame &g) { return store(g, {read(g, buffers_)[0] * online_factor(g, t)}); });
    return is_const_one(later) ? all : IfThenElse::make(later, all);
}

// Computes the stages at the anchor's loops that need the final values of the last block, around
// the anchor's end.
Stmt NestBuilder::with_late_children(const Frame &f, size_t depth, size_t from, const std::function<Stmt()> &body) {
    for (size_t i = from; i < state_.stages.size(); i++) {
        const StageState &p = state_.stages[i];
        if (p.placement.kind != Placement::Kind::At || p.placement.consumer != f.stage().name() ||
            !p.finished_into.empty() || !waits_for_end(state_, p))
            continue;
        const std::optional<Region> region = needed(p, f, depth);
        if (!region) continue;
        return with_storage(p, *region, [&] {
            const Stmt produce = nest({{&p, *region}});
            return Block::make(produce, with_late_children(f, depth, i + 1, body));
        });
    }
    return body();
}

} // namespace kumiko
