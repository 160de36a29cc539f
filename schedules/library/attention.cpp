// One file, because it is one template: its roles, parameters and schedule.
#include "schedules/library/attention.h"

#include "dsl/extern.h"
#include "dsl/inout.h"
#include "schedules/library/functions.h"
#include "schedules/library/structure.h"
#include "schedules/online.h"

#include <bit>
#include <cmath>

namespace kumiko::library {

namespace {

// A stage's names of the axes of attention: sequences and heads, queries, keys. The keys of a
// reduction over keys are its reduction axis; "" for a stage without keys.
struct AttentionAxes {
    std::vector<std::string> outside;
    std::string queries, keys;
    // The member that corresponds in another stage to this stage's axis; null for any other axis.
    std::string *counterpart_in(AttentionAxes &other, const std::string &axis) const {
        if (axis == queries) return &other.queries;
        if (axis == keys) return &other.keys;
        const auto at = std::find(outside.begin(), outside.end(), axis);
        return at == outside.end() ? nullptr : &other.outside[size_t(at - outside.begin())];
    }
    bool operator==(const AttentionAxes &) const = default;
};

// The scores are a sum of products of two inputs, over queries and keys. The mix is a sum over keys
// of products of a stage over queries and keys and an input. All other stages are over queries, or
// over queries and keys, except the output, which finishes the mix. The axes of a stage are found
// by the indices at which it is read, whatever their names and order.
struct AttentionRoles {
    const Stage *score = nullptr, *mixed = nullptr;
    std::map<std::string, AttentionAxes> axes; // by stage
    std::string d, v;                          // of the score's sum, of the mix's elements
    std::string queries, output;               // tensors
    const AttentionAxes &of(const std::string &stage) const { return axes.at(stage); }
    const AttentionAxes &of(const Stage &stage) const { return of(stage.name); }
};

// Whether some select yields -inf, so that a mask excludes scores.
bool leaves_out(const Op &op) {
    struct Find : Halide::Internal::IRVisitor {
        using IRVisitor::visit;
        bool found = false;
        static bool is_none(const Expr &e) {
            const auto *f = e.as<Halide::Internal::FloatImm>();
            return f && std::isinf(f->value) && f->value < 0;
        }
        void visit(const Halide::Internal::Select *op) override {
            found = found || is_none(op->true_value) || is_none(op->false_value);
            IRVisitor::visit(op);
        }
    } find;
    for (const Stage &s : op.stages()) {
        if (s.value.defined()) s.value.accept(&find);
        for (const Component &c : s.components) c.term.accept(&find);
    }
    return find.found;
}

std::vector<std::string> names_of(const std::vector<Axis> &axes) {
    std::vector<std::string> names;
    for (const Axis &a : axes) names.push_back(a.name());
    return names;
}

// The two tensors whose product is summed along one axis, each read at plain axes; empty for any
// other stage.
std::vector<Operand> factors(const Stage &s) {
    if (!s.is_reduction() || s.reduction_kind != "sum" || s.reduction_axes.size() != 1) return {};
    if (!s.components[0].term.as<Halide::Internal::Mul>()) return {};
    std::vector<Operand> all;
    for (const Halide::Internal::Call *read : tensor_reads(s.components[0].term)) {
        Operand o{read->name, read->args, {}};
        if (!is_plain(o)) return {};
        for (const Expr &e : read->args) o.axes.insert(e.as<Halide::Internal::Variable>()->name);
        all.push_back(o);
    }
    return all.size() == 2 ? all : std::vector<Operand>{};
}

std::optional<int64_t> extent(const Stage &s, const std::string &axis) { return constant_extent(*find_axis(s, axis)); }

// Whether the stage has an element for each query and key.
bool is_along_keys(const AttentionRoles &r, const Stage &s) {
    const std::string &keys = r.of(s).keys;
    return std::any_of(s.axes.begin(), s.axes.end(), [&](const Axis &a) { return a.name() == keys; });
}

// Derives the axes of each stage that `reader` reads from those of `reader`. Returns false if an
// index is not an axis, an axis would have two roles, or a stage reduces other than over keys.
bool derive_axes_read(const Op &op, const Stage &reader, AttentionRoles &r) {
    const AttentionAxes own = r.of(reader);
    for (const Expr &e : reader.expressions()) {
        for (const Halide::Internal::Call *read : tensor_reads(e)) {
            const Stage *from = op.find_stage(read->name);
            if (!from || from == r.mixed) continue;
            AttentionAxes axes;
            axes.outside.resize(own.outside.size());
            for (size_t d = 0; d < read->args.size(); d++) {
                const auto *v = read->args[d].as<Halide::Internal::Variable>();
                std::string *name = v ? own.counterpart_in(axes, v->name) : nullptr;
                if (!name || !name->empty()) return false;
                *name = from->axes[d].name();
            }
            const bool all = std::none_of(axes.outside.begin(), axes.outside.end(),
                                          [](const std::string &name) { return name.empty(); });
            if (!all || axes.queries.empty()) return false;
            if (from != r.score && from->is_reduction()) {
                const bool along = axes.keys.empty() && from->reduction_axes.size() == 1 && !from->bounded &&
                                   from->properties.associative && from->properties.commutative;
                if (!along) return false;
                axes.keys = from->reduction_axes[0].name();
            }
            const auto [known, added] = r.axes.emplace(from->name, axes);
            if (!added && known->second != axes) return false;
        }
    }
    return true;
}

std::optional<AttentionRoles> attention_roles(const Op &op) {
    if (op.outputs().size() != 1 || op.stages().size() < 4 || reads_before_update(op) || has_extern(op))
        return std::nullopt;
    AttentionRoles r;
    r.output = op.outputs()[0];
    for (const Stage &s : op.stages()) {
        if (s.kind == Stage::Kind::Padding || s.reads_itself()) return std::nullopt;
        if (factors(s).empty()) continue;
        if (r.mixed) return std::nullopt;
        (r.score ? r.mixed : r.score) = &s;
    }
    if (!r.mixed || r.score != &op.stages().front() || r.mixed->axes.size() < 2) return std::nullopt;
    std::vector<std::string> rows = names_of(r.mixed->axes);
    const std::vector<std::string> mixed = rows;
    r.v = rows.back(), rows.pop_back();
    AttentionAxes of_mixed{{rows.begin(), rows.end() - 1}, rows.back(), r.mixed->reduction_axes[0].name()};
    r.axes[r.mixed->name] = of_mixed;
    r.d = r.score->reduction_axes[0].name();
    for (const Operand &o : factors(*r.mixed)) {
        const auto *last = o.indices.empty() ? nullptr : o.indices.back().as<Halide::Internal::Variable>();
        const bool values = op.find_input(o.tensor) && last && last->name == r.v;
        if (!op.find_stage(o.tensor) && !values) return std::nullopt;
    }
    // The output has the axes of the mix. It reads the mix, and stages over queries, at its own
    // axes.
    const Stage &output = op.stage(r.output);
    if (&output == r.mixed || output.is_reduction() || names_of(output.axes) != mixed) return std::nullopt;
    r.axes[r.output] = {of_mixed.outside, of_mixed.queries, ""};
    for (const Halide::Internal::Call *read : tensor_reads(output.value)) {
        if (read->name == r.mixed->name && !reads_at(read, output.axes)) return std::nullopt;
    }
    for (size_t n = op.stages().size(); n-- > 0;) { // consumers before producers
        const Stage &s = op.stages()[n];
        if (!r.axes.count(s.name) || (&s != r.score && !derive_axes_read(op, s, r))) return std::nullopt;
    }
    if (!is_along_keys(r, *r.score)) return std::nullopt;
    const Axis &keys = *find_axis(*r.score, r.of(*r.score).keys);
    for (const Stage &s : op.stages()) {
        const AttentionAxes &own = r.of(s);
        if (&s == &output) continue;
        const Axis *its_keys = own.keys.empty() ? nullptr : find_axis(s, own.keys);
        if (its_keys && !Halide::Internal::can_prove(its_keys->extent() == keys.extent())) return std::nullopt;
        const size_t rank = own.outside.size() + 1 + (is_along_keys(r, s) ? 1 : 0);
        if (&s != r.mixed && s.axes.size() != rank) return std::nullopt;
    }
    const std::vector<Operand> operands = factors(*r.score);
    if (operands[0].tensor == operands[1].tensor) return std::nullopt;
    for (const Operand &o : operands) {
        if (!op.find_input(o.tensor) || !o.axes.count(r.d)) return std::nullopt;
        if (o.axes.count(r.of(*r.score).queries) && !o.axes.count(r.of(*r.score).keys)) r.queries = o.tensor;
    }
    if (r.queries.empty() || op.is_output(r.mixed->name)) return std::nullopt;
    return r;
}

std::vector<LoopName> after(const std::vector<std::string> &outside, const std::vector<LoopName> &inside) {
    std::vector<LoopName> all(outside.begin(), outside.end());
    all.insert(all.end(), inside.begin(), inside.end());
    return all;
}

// The maximum, and the sums of weights relative to it. They allow an online softmax if the mix and
// all sums can be rescaled from block to block.
struct Followers {
    std::string max;
    std::vector<std::string> sums;
};

std::optional<Followers> followers_of(const Schedule &s, const AttentionRoles &r) {
    Followers f;
    for (const Stage &stage : s.op().stages()) {
        if (stage.is_reduction() && stage.reduction_kind == "maximum" && stage.name != r.score->name) {
            if (!f.max.empty()) return std::nullopt;
            f.max = stage.name;
        }
    }
    if (f.max.empty() || s.op().is_output(f.max)) return std::nullopt;
    const ScheduleState &state = s.state();
    std::string why;
    if (!rescaling_factor(state, *state.find(r.mixed->name), *state.find(f.max), why).defined()) return std::nullopt;
    for (const Stage &stage : s.op().stages()) {
        if (!stage.is_reduction() || stage.name == r.mixed->name || stage.name == r.score->name || stage.name == f.max)
            continue;
        if (!rescaling_factor(state, *state.find(stage.name), *state.find(f.max), why).defined()) return std::nullopt;
        f.sums.push_back(stage.name);
    }
    return f;
}

// The first stage over queries and keys that `folded` reads and that no earlier stage but the mix
// reads; "" if there is none.
std::string made_for(const Op &op, const AttentionRoles &r, const Stage &folded) {
    std::string first;
    std::set<std::string> before;
    for (const Stage &s : op.stages()) {
        for (const Expr &e : s.expressions()) {
            for (const Halide::Internal::Call *read : tensor_reads(e)) {
                const Stage *from = op.find_stage(read->name);
                if (!from || from == r.mixed || !is_along_keys(r, *from) || before.count(read->name)) continue;
                if (&s == &folded && first.empty()) first = read->name;
                if (first.empty() && &s != r.mixed) before.insert(read->name);
            }
        }
    }
    return before.count(first) ? "" : first;
}

// Makes queries the contiguous axis of a stage that stores them otherwise.
void store_queries_inside(const AttentionRoles &r, StageHandle T, const Stage &stage) {
    const AttentionAxes &own = r.of(stage);
    const bool along_keys = is_along_keys(r, stage);
    if (stage.axes.back().name() == own.queries) return;
    std::vector<std::string> order = own.outside;
    if (along_keys) order.push_back(own.keys);
    order.push_back(own.queries);
    T.layout(order);
}

// Copies the queries of a block of the scores so that queries are contiguous, if a cache holds two
// copies. Each iteration of `block` copies `rows` queries.
std::optional<StageHandle> copy_queries(Schedule &s, const AttentionRoles &r, int lanes, int64_t rows,
                                        const LoopName &block) {
    const Machine &machine = s.machine();
    const int64_t bytes = rows * extent(*r.score, r.d).value_or(64) * s.state().type_of(r.queries).bytes();
    const char *level = 2 * bytes <= cache_bytes(machine, "L1", 0) ? "L1" : "L2";
    if (2 * bytes > cache_bytes(machine, level, 0)) return std::nullopt;
    const AttentionAxes &of_score = r.of(*r.score);
    StageHandle Q = s.place_in(r.queries, level, r.score->name, block);
    std::map<std::string, std::string> copied; // axes of the copy, by axes of the scores
    for (const Operand &o : factors(*r.score)) {
        for (size_t d = 0; o.tensor == r.queries && d < o.indices.size(); d++)
            copied[o.indices[d].as<Halide::Internal::Variable>()->name] = Q.state().def.axes[d].name();
    }
    const std::string queries_inside = copied.at(of_score.queries);
    std::vector<std::string> order;
    for (const Axis &a : Q.state().def.axes) {
        if (a.name() != queries_inside) order.push_back(a.name());
    }
    order.push_back(queries_inside);
    Q.layout(order);
    std::vector<std::string> outside;
    for (const std::string &axis : of_score.outside) {
        if (copied.count(axis)) outside.push_back(copied.at(axis));
    }
    auto [d_outer, d] = Q.split(copied.at(r.d), lanes);
    auto [i_outer, i] = Q.split(queries_inside, lanes);
    Q.reorder(after(outside, {i_outer, d_outer, d, i})).unroll(d).vectorize(i);
    return Q;
}

// Schedules the scores and the stages derived from them, with queries contiguous in memory and in
// vectors. `task`: the loop of the mix at which they, or blocks of them, are computed.
void schedule_rows_of_queries(Schedule &s, const AttentionRoles &r, int lanes, const AttentionParameters &p,
                              const LoopName &task) {
    StageHandle S = s.stage(r.score->name);
    const AttentionAxes &of_score = r.of(*r.score);
    store_queries_inside(r, S, *r.score);
    // one iteration where the stage is computed
    auto [block, rows] = S.split(of_score.queries, p.rows);
    auto [jo, ji] = S.split(of_score.keys, p.keys);
    auto [io, ii] = S.split(rows, std::min<int64_t>(p.vectors * lanes, p.rows));
    S.reorder(after(of_score.outside, {block, jo, io, r.d, ji, ii})).unroll(ji).vectorize(ii, lanes);
    s.accumulate_in(S.name(), "registers", io);
    const bool online = s.state().find(r.mixed->name)->online.has_value();
    std::optional<StageHandle> queries = copy_queries(s, r, lanes, p.rows, block);
    if (queries && online) queries->compute_at(r.mixed->name, task); // once for all blocks of keys
    const auto sum_rows = [&](StageHandle T, const std::string &queries, int64_t vectors = 2) {
        const std::vector<std::string> loops =
            T.state().order; // a block's own index comes before the loop of the reduction
        auto [io, ii] = T.split(queries, std::min<int64_t>(vectors * lanes, p.rows));
        std::vector<LoopName> order;
        for (const std::string &l : loops) order.push_back(l == queries ? LoopName(io) : LoopName(l));
        order.push_back(ii);
        T.reorder(order).vectorize(ii, lanes);
        s.accumulate_in(T.name(), "registers", order[order.size() - 3]);
    };
    for (const Stage &stage : s.op().stages()) {
        if (stage.name == r.score->name || stage.name == r.mixed->name || stage.name == r.output) continue;
        StageHandle T = s.stage(stage.name);
        const AttentionAxes &own = r.of(stage);
        store_queries_inside(r, T, stage);
        if (stage.is_reduction() && T.state().online) {
            std::vector<LoopName> order = after(own.outside, {T.state().def.reduction_axes[0].name(), own.queries});
            T.reorder(order).vectorize(own.queries, lanes);
            sum_rows(s.stage(stage.name + ".block"), own.queries);
        } else if (stage.is_reduction()) {
            const std::string made = online ? "" : made_for(s.op(), r, stage);
            const bool top = p.top_on_the_way && made == r.score->name,
                       sum = p.sum_on_the_way && !made.empty() && made != r.score->name;
            sum_rows(T, own.queries, top ? p.vectors : sum ? vectors_of_functions : 2);
            LoopName keys = own.keys;
            if (top) {
                auto [jo, ji] = T.split(own.keys, p.keys);
                T.unroll(ji);
                keys = jo;
                if (queries) queries->compute_at(r.mixed->name, task);
            }
            if (top || sum) s.stage(made).store_at(r.mixed->name, task).compute_at(T.name(), keys);
        } else {
            const bool along_keys = is_along_keys(r, stage), functions = calls_functions(stage) && along_keys;
            if (stage.axes.back().name() != own.queries)
                T.reorder(after(own.outside, along_keys ? std::vector<LoopName>{own.keys, own.queries}
                                                        : std::vector<LoopName>{own.queries}));
            T.vectorize(own.queries, std::min<int64_t>(functions ? vectors_of_functions * lanes : lanes, p.rows));
        }
    }
}

// Schedules the same stages with vectors along the elements of keys, and along keys.
void schedule_few_queries(Schedule &s, const AttentionRoles &r, int lanes) {
    for (const Stage &stage : s.op().stages()) {
        if (stage.name == r.mixed->name || stage.name == r.output) continue;
        const AttentionAxes &own = r.of(stage);
        const Axis *keys = find_axis(stage, own.keys);
        if (stage.is_reduction())
            reduce_row(s, stage.name, lanes, 4);
        else if (keys && lanes > 1 && constant_extent(*keys).value_or(lanes) >= lanes)
            s.stage(stage.name).reorder(after(own.outside, {own.queries, own.keys})).vectorize(own.keys, lanes);
    }
}

} // namespace

bool is_attention(const Op &op) { return attention_roles(op).has_value(); }

AttentionParameters attention_parameters(const Op &op, const Machine &machine) {
    const AttentionRoles r = *attention_roles(op);
    const int lanes = vector_lanes(machine, r.score->type), registers = accumulator_registers(machine);
    const auto queries = extent(*r.score, r.of(*r.score).queries), keys = extent(*r.score, r.of(*r.score).keys),
               values = extent(*r.mixed, r.v);
    AttentionParameters p;
    const bool many = lanes > 1 && (!queries || *queries >= lanes);
    p.vectors_of = many ? Choice("queries", {"queries", "keys"}) : Choice("keys", {"keys"});
    // Scores and exponentials of a task take at most half of L2.
    const int64_t fits =
        cache_bytes(machine, "L2", 512 << 10) / 4 / std::max<int64_t>(1, keys.value_or(1024)) / r.score->type.bytes();
    std::vector<int64_t> rows;
    for (int64_t n : {1, 2, 4, 8}) rows.push_back(n * lanes);
    p.rows = Tile::nearest(std::clamp<int64_t>(fits, lanes, 4 * lanes), rows);
    p.vectors = Tile(2, {1, 2, 4});
    p.keys = Tile::nearest(std::min<int64_t>(registers / 2, std::max<int64_t>(1, keys.value_or(64))),
                           {1, 2, 4, 6, 8, 12, 14});
    // A power of two, so that the rows of a task are whole tiles of queries.
    const int64_t most = registers / std::min<int64_t>(2, values.value_or(64) / lanes + 1);
    p.queries = Tile::nearest(std::bit_floor(uint64_t(most)), {1, 2, 4, 6, 8, 12, 14});
    // Rows of values are far apart in memory. A panel is a few vectors wide, so that it touches few
    // lines of L1, and takes a quarter of L1.
    const int64_t panel = std::clamp<int64_t>(values.value_or(64), 1, int64_t(p.vectors) * lanes),
                  near = cache_bytes(machine, "L1", 32 << 10) / 4 / panel / r.mixed->type.bytes();
    p.depth = Tile::nearest(std::bit_floor(uint64_t(std::max<int64_t>(near, 32))), {16, 32, 64, 128, 256, 512, 1024});
    p.parallel = Flag(pays_to_share(op, machine));
    // Online softmax if a mask excludes blocks of keys, or if the scores of the smallest task would
    // not stay in L2.
    const int64_t least = 2 * lanes * keys.value_or(1024) * r.score->type.bytes();
    const bool online =
        many && followers_of(Schedule(op, machine), r) &&
        (2 * least > cache_bytes(machine, "L2", 512 << 10) || (leaves_out(op) && keys.value_or(1024) > p.depth));
    p.online = Flag(online);
    if (many) p.sum_on_the_way = Flag(true), p.top_on_the_way = Flag(true);
    const bool either = many && !queries;
    p.whole = Flag(either, either ? std::vector<bool>{false, true} : std::vector<bool>{false});
    return p;
}

namespace {

// `least`: the assumed minimum number of queries, if any.
Schedule schedule_one(const Op &op, const Machine &machine, const AttentionRoles &r, const AttentionParameters &p,
                      bool rows, std::optional<int64_t> least = {}) {
    const int lanes = vector_lanes(machine, r.score->type);
    const AttentionAxes &own = r.of(*r.mixed);
    Schedule s(op, machine);
    if (least) s.assume(find_axis(*r.mixed, own.queries)->extent() >= static_cast<int>(*least));
    const auto online = rows && p.online ? followers_of(s, r) : std::nullopt;
    StageHandle M = s.stage(r.mixed->name);
    const auto values = extent(*r.mixed, r.v);
    const int64_t run = lanes * (values ? std::clamp<int64_t>(*values / lanes, 1, p.vectors) : int64_t(p.vectors));
    std::vector<LoopName> task(own.outside.begin(), own.outside.end());
    LoopName it = own.queries, queries = "";
    if (rows) {
        auto [io, ii] = M.split(own.queries, p.rows);
        queries = io, it = ii;
    }
    // A last, partial block of queries gets code of its own if there are enough tasks without
    // splitting queries: several per thread or, with an unknown number of queries, equally many per
    // thread. Otherwise full blocks would test each query too.
    const auto n = extent(*r.mixed, own.queries);
    int64_t sequences = 1;
    for (const std::string &axis : own.outside) sequences *= extent(*r.mixed, axis).value_or(1);
    const bool partial = n ? *n > p.rows && *n % p.rows : least.has_value(),
               even = !n && sequences % threads_of(machine) == 0,
               enough = !p.parallel || even || sequences >= 4 * threads_of(machine),
               apart = rows && partial && enough && !own.outside.empty();
    if (rows && !apart) task.push_back(queries);
    // one head with few queries: its query loop
    std::vector<LoopName> outer = {task.empty() ? it : fused(M, task, "task")};
    if (p.parallel) M.parallel(outer.back());
    if (apart) outer.push_back(queries);
    const LoopName at = outer.back();
    auto [vo, vi] = M.split(r.v, run);
    LoopName below = rows ? at : it, blocks = below;
    if (rows) {
        auto [to, ti] = M.split(it, p.queries);
        auto [jo, ji] = M.split(own.keys, p.depth);
        std::vector<LoopName> order = outer;
        order.insert(order.end(), {jo, vo, to, ji, ti, vi});
        M.reorder(order).unroll(ti);
        if (apart) M.peel(queries, 0, 1);
        s.accumulate_in(M.name(), "registers", to);
        if (online) blocks = jo;
    } else {
        std::vector<LoopName> order = {vo, own.keys, vi};
        if (!task.empty()) order.insert(order.begin(), it);
        order.insert(order.begin(), at);
        M.reorder(order);
        s.accumulate_in(M.name(), "registers", vo);
    }
    if (lanes > 1 && (!values || *values >= lanes)) M.vectorize(vi, lanes);
    M.finish_in(r.output);
    for (size_t n = op.stages().size(); n-- > 0;) { // consumers before producers
        const Stage &stage = op.stages()[n];
        if (stage.name != r.mixed->name && stage.name != r.output) s.stage(stage.name).compute_at(M.name(), below);
    }
    if (online) {
        M.wait_in(smallest_level(machine, p.rows * values.value_or(64) * r.mixed->type.bytes()), at);
        M.online(online->max, blocks, online->sums);
        for (size_t n = op.stages().size(); n-- > 0;) { // scores, per block of keys
            const Stage &stage = op.stages()[n];
            if (s.stage(stage.name).state().placement.loop == at.name && is_along_keys(r, stage))
                s.stage(stage.name).compute_at(M.name(), blocks);
        }
    }
    rows ? schedule_rows_of_queries(s, r, lanes, p, at) : schedule_few_queries(s, r, lanes);
    return s;
}

} // namespace

Schedule schedule_attention(const Op &op, const Machine &machine, const AttentionParameters &p) {
    const AttentionRoles r = *attention_roles(op);
    const bool along_queries = p.vectors_of.is("queries");
    if (!p.whole || !along_queries) return schedule_one(op, machine, r, p, along_queries);
    Schedule s = schedule_one(op, machine, r, p, false);
    const Expr queries = find_axis(*r.mixed, r.of(*r.mixed).queries)->extent();
    const int64_t lanes = vector_lanes(machine, r.score->type);
    AttentionParameters smaller = p;
    for (int64_t rows = p.rows;; rows = lanes) {
        smaller.rows = Tile(rows, {rows});
        s.specialize(queries >= static_cast<int>(rows), schedule_one(op, machine, r, smaller, true, rows));
        if (rows <= lanes) return s;
    }
}

} // namespace kumiko::library
