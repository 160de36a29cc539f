// Reductions: begin, steps, end; partial results in their own buffers; fused epilogues.
#include "dsl/bounded.h"
#include "dsl/reach.h"
#include "dsl/scatter.h"
#include "schedules/online.h"
#include "schedules/rounds.h"
#include "schedules/storage.h"
#include "targets/lower/nest_builder.h"

namespace kumiko {

using namespace Halide::Internal;

std::vector<Expr> NestBuilder::read(Frame &f, const std::map<std::string, std::string> &from) {
    std::vector<Expr> values;
    const Stage &def = f.stage().def;
    for (const Component &c : def.components)
        values.push_back(read_tensor(c.type, from.at(c.tensor), place(f, from.at(c.tensor))));
    return values;
}

std::vector<Expr> NestBuilder::combined(const Stage &def, const std::vector<Expr> &before,
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

namespace {

// The select of a bounded reduction in the form of padding, for which loops are split into an
// interior and borders. Conditions that read tensors are evaluated only where those over axes hold.
Expr tested_like_padding(const Expr &term) {
    const auto *choice = term.as<Select>();
    if (!choice) return term;
    const auto [of_axes, of_values] = split_by_reads(choice->condition);
    const Expr &identity = choice->false_value;
    const Expr value = of_values.defined() ? Select::make(of_values, choice->true_value, identity) : choice->true_value;
    return of_axes.defined()
               ? Call::make(choice->type, Call::if_then_else, {of_axes, value, identity}, Call::PureIntrinsic)
               : value;
}

} // namespace

Stmt NestBuilder::step(Frame &f) {
    const Stage &def = f.stage().def;
    std::vector<Expr> terms;
    for (const Component &c : def.components) {
        Expr term = f.holds().empty() ? c.term : term_where_hold(def, f.holds());
        if (leaves_out_terms(f.stage())) term = tested_like_padding(term);
        terms.push_back(at(f, term));
    }
    if (!f.stage().scattered.empty()) terms = {at(f, scattered(def)->value)};
    std::vector<Expr> after = combined(def, read(f, buffers_), terms);
    for (size_t c = 0; c < after.size(); c++) after[c] = padded(f, after[c], def.components[c].identity);
    return store(f, after);
}

Stmt NestBuilder::begin(Frame &f, size_t depth) {
    return pure_walk(f, depth, [&](Frame &g) {
        std::vector<Expr> values;
        for (const Component &c : g.stage().def.components) values.push_back(c.identity);
        return store(g, values);
    });
}

Stmt NestBuilder::pure_walk(Frame &f, size_t depth, const std::function<Stmt(Frame &)> &leaf) {
    Walk w;
    w.skip_reductions = true;
    w.children = false;
    w.leaf = leaf;
    return walk(f, depth, w);
}

// The epilogue that is fused into the stage, at the stage's indices.
Stmt NestBuilder::finish(Frame &f, size_t depth) {
    const StageState &consumer = state_.stage(f.stage().finished_into);
    return with_late_children(f, depth, 0, [&] {
        return pure_walk(f, depth, [&](Frame &g) {
            return Provide::make(buffers_.at(consumer.name()), {at(g, consumer.def.value)}, indices(g), const_true());
        });
    });
}

Stmt NestBuilder::reduction(Frame &f) {
    const StageState &s = f.stage();
    size_t first = s.first_reduction();
    // Blocks contain steps only.
    if (s.tensorize) first = std::min(first, s.position(s.tensorize->loop));
    const bool finishes = !s.finished_into.empty();
    if (s.accumulate) {
        const size_t depth = s.position(s.accumulate->loop) + 1;
        const bool rounds = first < depth; // a reduction loop is outside
        const bool late = rounds && finishes && !rounds_in_order(f, depth);
        Walk w;
        w.stop = depth;
        w.leaf = [&](Frame &g) { return accumulate(g, depth, rounds, late || s.waiting); };
        if (!rounds) return s.waiting ? between_rounds(f, w) : walk(f, 0, w);
        Walk outer;
        outer.stop = first;
        outer.leaf = [&](Frame &unbounded) {
            Frame g = with_bounded_steps(unbounded, first).value_or(unbounded);
            Stmt all = walk(g, first, w);
            if (late && !s.waiting) all = Block::make(all, finish(g, first));
            Expr nothing; // without a round, what is stored is the identity
            for (const Axis &a : s.def.reduction_axes) {
                const Expr none = g.extent(a.name()) <= 0;
                if (!proves(!none, bounds_)) nothing = nothing.defined() ? nothing || none : none;
            }
            if (!nothing.defined()) return all;
            Stmt none = begin(g, first);
            if (finishes && !late && !s.waiting) none = Block::make(none, finish(g, first));
            return Block::make(IfThenElse::make(simplify_index(nothing, bounds_), none), all);
        };
        if (s.waiting) return between_rounds(f, outer);
        // Partial results are spilled to the stage's own storage between rounds.
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

Stmt NestBuilder::with_partial_results(Frame &f, size_t depth, const std::string &level, const std::string &suffix,
                                       const std::function<Stmt()> &body) {
    const StageState &s = f.stage();
    std::vector<std::string> axes;
    for (const Axis &a : s.def.axes) axes.push_back(a.name());
    Region region = touched(f, depth);
    std::vector<LayoutTerm> layout = accumulator_layout(s);
    const std::vector<std::string> loops = accumulator_loops(s, depth);
    if (!loops.empty()) {
        axes = loops, layout = {}, region = {};
        for (const std::string &l : loops) {
            region.min.push_back(0);
            region.extent.push_back(f.extent(l));
        }
    }
    return with_components(s.def, 0, axes, region, layout, level, suffix, true, region, [&] {
        if (!loops.empty()) {
            for (const std::string &t : names_of(s)) by_loops_[buffers_.at(t)] = loops;
        }
        return body();
    });
}

// All rounds, with partial results spilled to a separate buffer in between, which the last visit
// stores. `rounds` runs the loops from the outermost reduction on.
Stmt NestBuilder::between_rounds(Frame &f, const Walk &rounds) {
    const StageState &s = f.stage();
    const size_t depth = s.position(s.waiting->loop) + 1;
    Walk w;
    w.stop = depth;
    w.leaf = [&](Frame &g) {
        const std::map<std::string, std::string> home = buffers_;
        return with_partial_results(g, depth, s.waiting->level, ".sum", [&] {
            const Stmt all = walk(g, depth, rounds);
            if (!s.finished_into.empty()) return Block::make(all, finish(g, depth));
            const std::map<std::string, std::string> waiting = buffers_;
            const Stmt leave = pure_walk(g, depth, [&](Frame &h) {
                const std::vector<Expr> values = read(h, waiting);
                for (const std::string &t : names_of(s)) buffers_[t] = home.at(t);
                Stmt out = store(h, values);
                buffers_ = waiting;
                return out;
            });
            return Block::make(all, leave);
        });
    };
    return walk(f, 0, w);
}

// `rounds`: a reduction loop is outside, so partial results are spilled and reloaded. `late`: the
// epilogue is not fused here.
Stmt NestBuilder::accumulate(Frame &f, size_t depth, bool rounds, bool late) {
    const StageState &s = f.stage();
    const bool finishes = !s.finished_into.empty() && !late;
    Expr is_first, is_last, runs;
    if (rounds) {
        for (size_t i = 0; i < depth; i++) {
            if (s.loop(s.order[i]).reduction) is_first = conjunction(is_first, f.value(s.order[i]) == 0);
        }
        is_first = simplify_index(is_first, bounds_);
    }
    if (rounds && finishes) {
        const std::set<std::string> roots = *reduction_roots(s);
        for (const std::string &root : roots) {
            const Interval i = f.axis_interval(root, depth, bounds_);
            const Expr end = f.first_step(root) + f.extent(root);
            is_last = conjunction(is_last, i.max >= end - 1);
            if (!proves(i.min < end, bounds_)) runs = conjunction(runs, simplify_index(i.min < end, bounds_));
        }
        is_last = simplify_index(is_last, bounds_);
    }
    const bool rescales = s.online && !follows(s) && rescaled_on_reload(s);
    const auto whole = [&](const Stmt &s) { return runs.defined() ? IfThenElse::make(runs, s) : s; };
    const std::map<std::string, std::string> home = buffers_;
    return whole(with_partial_results(f, depth, s.accumulate->level, ".acc", [&] {
        const std::map<std::string, std::string> accumulators = buffers_;
        Stmt start = begin(f, depth);
        const bool later = rounds && !is_const_one(is_first);
        if (later && !s.accumulate->join) {
            Stmt reload = pure_walk(f, depth, [&](Frame &g) {
                std::vector<Expr> values = read(g, home);
                if (rescales) values[0] = values[0] * online_factor(g, values[0].type());
                return store(g, values);
            });
            start = IfThenElse::make(is_first, start, reload);
        }
        Walk steps;
        steps.leaf = [&](Frame &g) { return step(g); };
        Stmt middle = walk(f, depth, steps);
        if (later && s.accumulate->join) {
            const Stmt join = pure_walk(
                f, depth, [&](Frame &g) { return store(g, combined(s.def, read(g, home), read(g, accumulators))); });
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

} // namespace kumiko
