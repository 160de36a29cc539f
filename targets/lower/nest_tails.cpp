// Partial blocks: guards, clipped loops, and copies of the body for the last block or the ends of a
// loop.
#include "dsl/reach.h"
#include "dsl/reads.h"
#include "schedules/linear.h"
#include "targets/lower/nest_loop_builder.h"

#include <numeric>

namespace kumiko {

using namespace Halide::Internal;
using Halide::DeviceAPI;
using Halide::Partition;

// If padded tails may run beyond the region, a value there is zero (or a reduction's identity), and
// reads nothing.
Expr NestLoopBuilder::padded(const Frame &f, const Expr &value, const Expr &beyond) {
    const StageState &s = f.stage();
    Expr inside;
    for (const Relation &r : s.relations) {
        const auto *split = std::get_if<SplitRelation>(&r);
        if (!split || split->tail != Tail::Pad) continue;
        const Expr extent = f.extent(split->parent), at = f.value(split->parent);
        if (proves(extent % static_cast<int>(split->factor) == 0, bounds_) || proves(at < extent, bounds_)) continue;
        inside = conjunction(inside, simplify_index(at < extent, bounds_));
    }
    return inside.defined() ? Call::make(value.type(), Call::if_then_else, {inside, value, beyond}, Call::PureIntrinsic)
                            : value;
}

// The guards whose innermost loop is at `depth` and which the loops' extents do not prove.
std::vector<NestLoopBuilder::Guard> NestLoopBuilder::guards(const Frame &f, size_t depth, bool skip_reductions) {
    std::vector<Guard> all;
    const StageState &s = f.stage();
    const auto elsewhere = [&](const std::string &loop) {
        const std::set<std::string> standing = f.live_loops(loop);
        return !standing.empty() && std::none_of(standing.begin(), standing.end(),
                                                 [&](const std::string &l) { return s.position(l) == depth; });
    };
    const auto add = [&](const std::string &loop, const Expr &value, const Expr &condition, const Expr &limit) {
        Guard g{condition, loop, value, limit, 0};
        const std::set<std::string> whole =
            value.defined() ? loops_of_whole_blocks(f, value, limit, loop) : std::set<std::string>();
        for (const std::string &l : f.live_loops(loop)) {
            if (!whole.count(l)) g.position = std::max(g.position, s.position(l));
        }
        for (const std::string &l : whole) {
            g.value = substitute(f.prefix() + l, 0, g.value);
            g.condition = substitute(f.prefix() + l, 0, g.condition);
        }
        if (g.position == depth) all.push_back(g);
    };
    for (size_t r = 0; r < s.relations.size(); r++) {
        const auto *split = std::get_if<SplitRelation>(&s.relations[r]);
        if (!split || f.mode(r) != Frame::Mode::Whole || split->tail == Tail::Pad) continue;
        if (skip_reductions && s.find_loop(split->parent)->reduction) continue;
        const Expr extent = f.extent(split->parent);
        if (const auto n = as_const_int(extent); n && *n % split->factor == 0) continue;
        if (elsewhere(split->parent)) continue;
        if (proves(extent % static_cast<int>(split->factor) == 0, bounds_)) continue;
        if (split->tail == Tail::Shift && proves(extent >= static_cast<int>(split->factor), bounds_)) continue;
        const Expr value = f.value(split->parent);
        add(split->parent, value, value < extent, extent);
    }
    // A region that a reader's tail rounded up may exceed the stage's domain.
    const StageState *origin = &s; // the source of a copy of a copy
    while (origin->is_copy && state_.find(origin->copied)) origin = state_.find(origin->copied);
    for (size_t d = 0; d < s.def.axes.size(); d++) {
        if (origin->def.kind == Stage::Kind::Padding && pads(origin->def, d)) continue;
        const Axis &a = s.def.axes[d];
        if (elsewhere(a.name())) continue;
        const Expr end = f.region().end(d);
        const Expr index = f.index(a.name());
        if (!proves(end <= a.extent(), bounds_)) add(a.name(), index, index < a.extent(), a.extent());
        if (!proves(f.region().min[d] >= 0, bounds_)) add(a.name(), Expr(), index >= 0, Expr());
    }
    return all;
}

// The loops inside of which `value` < `limit` holds for all iterations or for none: the other loops
// move the value by multiples of a block, these stay within one block, and the limit is a multiple
// of the block.
std::set<std::string> NestLoopBuilder::loops_of_whole_blocks(const Frame &f, const Expr &value, const Expr &limit,
                                                             const std::string &loop) const {
    std::vector<std::pair<int64_t, std::string>> steps;
    Expr base = value;
    for (const std::string &l : f.live_loops(loop)) {
        const std::string variable = f.prefix() + l;
        const auto step = step_along(value, variable);
        if (!step || *step < 0) return {};
        base = substitute(variable, 0, base);
        if (*step > 0) steps.emplace_back(*step, l);
    }
    std::sort(steps.begin(), steps.end());
    std::set<std::string> inner;
    size_t count = 0;
    int64_t reach = 0;
    for (size_t i = 0; i + 1 < steps.size(); i++) {
        const auto extent = as_const_int(simplify(f.extent(steps[i].second)));
        if (!extent) break;
        reach += steps[i].first * (*extent - 1);
        int64_t block = 0;
        for (size_t o = i + 1; o < steps.size(); o++) block = std::gcd(block, steps[o].first);
        const Expr size = static_cast<int>(block);
        if (reach < block && proves(limit % size == 0, bounds_) && proves(base % size == 0, bounds_)) count = i + 1;
    }
    for (size_t i = 0; i < count; i++) inner.insert(steps[i].second);
    return inner;
}

// The split whose inner loop is split again by `relation` and which should end at the extent, so
// that both the blocks and the remainder of the last one are cut in one place, without code copies
// for each.
std::optional<size_t> NestLoopBuilder::relation_to_clip(const Frame &f, size_t relation) const {
    const StageState &s = f.stage();
    const auto &split = std::get<SplitRelation>(s.relations[relation]);
    const size_t outer = s.position(split.outer);
    const LoopKind kind = s.loop(split.outer).kind;
    if ((kind != LoopKind::Serial && kind != LoopKind::Parallel) || must_unroll(s, outer)) return {};
    if (s.tensorize && outer >= s.position(s.tensorize->loop)) return {}; // blocks are whole
    for (size_t r = 0; r < s.relations.size(); r++) {
        const auto *above = std::get_if<SplitRelation>(&s.relations[r]);
        if (!above || above->inner != split.parent || above->tail != Tail::Auto || above->factor % split.factor != 0)
            continue;
        const bool whole =
            f.mode(r) == Frame::Mode::Whole && s.has_loop(above->outer) && s.position(above->outer) < outer;
        if (!whole) continue;
        const Expr extent = f.extent(above->parent), factor = static_cast<int>(above->factor);
        // All blocks are whole, at least in the loops at this position.
        const bool all_whole =
            proves(extent % factor == 0, bounds_) || proves(f.value(above->outer) * factor + factor <= extent, bounds_);
        if (!all_whole) return r;
    }
    return {};
}

// Whether the partial block of a split is handled by the split of its inner loop, further inside.
bool NestLoopBuilder::left_to_clip(const Frame &f, size_t depth, size_t relation) const {
    const StageState &s = f.stage();
    const auto &split = std::get<SplitRelation>(s.relations[relation]);
    for (size_t r = 0; r < s.relations.size(); r++) {
        const auto *below = std::get_if<SplitRelation>(&s.relations[r]);
        if (!below || below->parent != split.inner || below->tail != Tail::Auto || !s.has_loop(below->outer)) continue;
        if (s.position(below->outer) < depth || relation_to_clip(f, r) != relation) continue;
        bool nested = copies_inside(s, below->inner);
        for (const std::string &l : f.live_loops(below->inner))
            nested = nested && s.position(l) > s.position(below->outer);
        if (nested) return true;
    }
    return false;
}

// Whether the simplifier cancels e in e - e. It may not: the negative of (c - x) / 4 becomes (x +
// d) / 4, and both stay.
bool NestLoopBuilder::cancels(const Expr &e) const {
    return is_const_zero(simplify_index(simplify_index(-e, bounds_) + e, bounds_));
}

Stmt NestLoopBuilder::peel_rest(Frame &f, size_t depth, const Walk &w, size_t relation, const SplitRelation &split) {
    const StageState &s = f.stage();
    const std::string name = s.order[depth];
    const Expr extent = f.extent(split.parent), factor = static_cast<int>(split.factor);
    Frame main = f;
    main.set_mode(relation, Frame::Mode::Main);
    const Expr blocks = simplify_index(extent / factor, bounds_), run = blocks_of(s, name, blocks);
    Frame rest = f;
    const auto left = as_const_int(rest_of(f, split));
    const bool lanes = s.has_loop(split.inner) && s.loop(split.inner).kind == LoopKind::Vectorized;
    // Lanes: mask, unless a narrower vector fits; in a reduction that would increase register
    // pressure.
    const bool fits = left && (*left & (*left - 1)) == 0 && *left >= 4 && !s.def.is_reduction();
    const bool narrow = left && (!lanes || fits);
    if (narrow) {
        rest.set_mode(relation, Frame::Mode::Rest);
        rest.override_extent(split.inner, static_cast<int>(*left));
        const bool in_block = s.tensorize && s.has_loop(split.inner) && !w.skip_reductions &&
                              s.position(split.inner) >= s.position(s.tensorize->loop);
        if (*left == 1 && in_block && !s.loop(split.inner).reduction)
            rest.keep(split.inner); // a lane, which may have others beside it
    }
    const bool shared = for_type(f, depth, w.skip_reductions) == ForType::Parallel;
    const bool named = !shared && !cancels(blocks); // indices then lose a variable instead
    rest.pin(name, named ? Variable::make(Int(32), rest.prefix() + name) : blocks);
    const auto last = [&] {
        Stmt body = named ? one_loop(rest, depth, w, blocks, 1) : inside(rest, depth, w);
        Expr runs = as_const_int(extent) ? const_true() : simplify_index(extent % factor > 0, bounds_);
        if (!run.same_as(blocks)) runs = simplify_index(runs && blocks_of(s, name, blocks + 1) > blocks, bounds_);
        return is_const_one(runs) ? body : IfThenElse::make(runs, body);
    };
    if (is_const_zero(blocks)) return last();
    if (!shared) {
        const Stmt first = one_loop(main, depth, w, 0, run);
        return Block::make(first, last());
    }
    // The partial block is one iteration of the parallel loop, so that it runs in parallel with the
    // others.
    const std::string variable = f.prefix() + name;
    bounds_.push(variable, Interval(0, simplify(f.extent(name) - 1)));
    const Stmt body = IfThenElse::make(Variable::make(Int(32), variable) < blocks, inside(main, depth, w), last());
    bounds_.pop(variable);
    record(s, f, depth, ForType::Parallel, f.extent(name));
    return For::make(variable, 0, f.extent(name), ForType::Parallel, Partition::Never, DeviceAPI::None, body);
}

// The remainder of the last block, if constant; for a clipped loop it is computed from the extent
// of the split above.
Expr NestLoopBuilder::rest_of(const Frame &f, const SplitRelation &split) const {
    Expr extent = f.extent(split.parent);
    for (size_t r = 0; r < f.stage().relations.size(); r++) {
        const auto *above = std::get_if<SplitRelation>(&f.stage().relations[r]);
        if (above && above->inner == split.parent && f.mode(r) == Frame::Mode::Clip) extent = f.extent(above->parent);
    }
    return simplify_index(extent % static_cast<int>(split.factor), bounds_);
}

Stmt NestLoopBuilder::peel_ends(Frame &f, size_t depth, const Walk &w, const Peel &p) {
    const std::string name = f.stage().order[depth];
    const Expr extent = f.extent(name);
    const Expr first = simplify_index(min(static_cast<int>(p.first), extent), bounds_);
    const Expr last = simplify_index(min(static_cast<int>(p.last), extent - first), bounds_);
    std::vector<Stmt> parts;
    if (p.first) parts.push_back(one_loop(f, depth, w, 0, first));
    parts.push_back(one_loop(f, depth, w, first, simplify_index(extent - first - last, bounds_)));
    if (p.last) parts.push_back(one_loop(f, depth, w, simplify_index(extent - last, bounds_), last));
    return Block::make(parts);
}

// Guards whose innermost loop is this one shorten the loop if their value increases with it by a
// constant step.
Expr NestLoopBuilder::clip(Frame &f, size_t depth, const Walk &w, const Expr &min, const Expr &extent) {
    const std::string variable = f.prefix() + f.stage().order[depth];
    Expr result = extent;
    for (const Guard &g : guards(f, depth, w.skip_reductions)) {
        if (!g.value.defined() || proves(g.condition, bounds_)) continue;
        const auto step = step_along(g.value, variable);
        if (!step || *step <= 0) continue;
        const Expr start = simplify_index(substitute(variable, min, g.value), bounds_);
        const Expr n = (g.limit - start + static_cast<int>(*step) - 1) / static_cast<int>(*step);
        result = simplify_index(Min::make(result, Max::make(n, 0)), bounds_);
    }
    return result;
}

} // namespace kumiko
