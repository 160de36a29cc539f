#include "schedules/library/structure.h"

#include "schedules/library/functions.h"
#include "schedules/library/unit_axes.h"

#include "dsl/extern.h"
#include "dsl/inout.h"
#include "dsl/scatter.h"
#include "dsl/stage_builder.h"
#include "machine/machine.h"

#include <bit>
#include <numeric>

namespace kumiko::library {

using namespace Halide::Internal;

namespace {

constexpr int narrowest_vector = 128; // bits

const Call *as_read(const Expr &e) {
    if (const auto *cast = e.as<Cast>()) return as_read(cast->value);
    const auto *call = e.as<Call>();
    return call && call->call_type == Call::Image ? call : nullptr;
}

Operand operand(const Call *read, const Stage &stage) {
    Operand o{read->name, read->args, {}};
    std::set<std::string> used;
    for (const Expr &e : read->args) used.merge(variables_of(e));
    for (const auto *axes : {&stage.axes, &stage.reduction_axes}) {
        for (const Axis &a : *axes) {
            if (used.count(a.name())) o.axes.insert(a.name());
        }
    }
    return o;
}

// Whether the stage reduces the results of `name` over windows. It must read them once, and the
// index along each axis must use the pool's axis there and no other.
bool is_pool(const Stage &s, const std::string &name) {
    if (s.components.size() != 1 || scattered(s) || !s.properties.associative || !s.properties.commutative)
        return false;
    const auto reads = tensor_reads(s.components[0].term);
    if (reads.size() != 1 || reads[0]->name != name || reads[0]->args.size() != s.axes.size()) return false;
    bool windows = false;
    for (size_t d = 0; d < s.axes.size(); d++) {
        const Expr &index = reads[0]->args[d];
        for (size_t a = 0; a < s.axes.size(); a++) {
            if (expr_uses_var(index, s.axes[a].name()) != (a == d)) return false;
        }
        for (const Axis &k : s.reduction_axes) windows = windows || expr_uses_var(index, k.name());
    }
    return windows;
}

// Whether the stage is elementwise, reading only results of `of` at its own axes, and inputs.
bool finishes(const Op &op, const Stage &s, const Stage &of) {
    if (!same_axes(s, of)) return false;
    for (const Halide::Internal::Call *read : tensor_reads(s.value)) {
        if (op.find_input(read->name)) continue;
        if (read->name != of.name) return false;
        for (size_t d = 0; d < read->args.size(); d++) {
            const auto *v = read->args[d].as<Variable>();
            if (!v || v->name != of.axes[d].name()) return false;
        }
    }
    return true;
}

} // namespace

std::optional<Contraction> find_contraction(const Op &op, bool readers) {
    // fused stages would read updated values
    if (reads_before_update(op) || has_extern(op)) return std::nullopt;
    Contraction c;
    const Stage *last = nullptr; // the stage that the next one has to read
    for (const Stage &s : op.stages()) {
        if (s.is_reduction() && c.sum) {
            if (!readers || !c.reader.empty() || !c.pool.empty() || !is_pool(s, last->name)) return std::nullopt;
            c.pool = s.name;
        } else if (s.is_reduction()) {
            if (s.reduction_kind != "sum") return std::nullopt;
            c.sum = &s;
        } else if (s.kind == Stage::Kind::Pointwise) {
            if (!c.sum || s.reads_itself() || op.is_output(last->name)) return std::nullopt;
            if (!c.pool.empty()) {
                if (!c.pool_end.empty() || !finishes(op, s, *last)) return std::nullopt;
                c.pool_end = s.name;
            } else if (same_axes(s, *c.sum)) {
                if (!c.consumer.empty() || (!readers && !op.is_output(s.name))) return std::nullopt;
                c.consumer = s.name;
            } else {
                if (!readers || !c.consumer.empty() || !op.is_output(s.name)) return std::nullopt;
                c.reader = s.name;
            }
        } else if (c.sum) {
            return std::nullopt;
        }
        if (c.sum) last = &s;
    }
    if (!c.sum || op.outputs().size() != 1 || !op.is_output(last->name)) return std::nullopt;
    // A consumer whose results are pooled must finish the sum elementwise.
    if (!c.pool.empty() && !c.consumer.empty() && !finishes(op, op.stage(c.consumer), *c.sum)) return std::nullopt;
    const auto *product = c.sum->components[0].term.as<Mul>();
    if (!product) return std::nullopt;
    for (const Expr &e : {product->a, product->b}) {
        const Call *read = as_read(e);
        if (!read) return std::nullopt;
        c.operands.push_back(operand(read, *c.sum));
    }
    return c;
}

std::string tensor_by_axes(Schedule &s, const std::string &stage, const Operand &o) {
    const std::vector<Axis> &axes = s.state().axes_of(o.tensor);
    std::vector<std::string> names;
    bool same = true;
    for (size_t d = 0; d < o.indices.size(); d++) {
        const auto *v = o.indices[d].as<Variable>();
        if (v && !o.axes.count(v->name)) v = nullptr; // a size
        if (!v && !is_const(o.indices[d])) return o.tensor;
        if (v) names.push_back(v->name);
        same = same && v && v->name == axes[d].name();
    }
    return same || names.empty() ? o.tensor : s.reindex(o.tensor, stage, names).name();
}

std::vector<std::string> axes_in(const Operand &o, const std::vector<std::string> &axes) {
    std::vector<std::string> found;
    std::copy_if(axes.begin(), axes.end(), std::back_inserter(found),
                 [&](const std::string &a) { return o.axes.count(a); });
    return found;
}

bool is_plain(const Operand &o) {
    return std::all_of(o.indices.begin(), o.indices.end(), [](const Expr &e) { return e.as<Variable>() != nullptr; });
}

bool is_slice(const Operand &o) {
    return std::all_of(o.indices.begin(), o.indices.end(),
                       [](const Expr &e) { return e.as<Variable>() != nullptr || is_const(e); }) &&
           o.indices.back().as<Variable>();
}

std::optional<MatrixProduct> find_matrix_product(const Op &op) {
    const auto c = find_contraction(op);
    if (!c || c->sum->reduction_axes.size() != 1 || c->sum->axes.size() < 2) return std::nullopt;
    const auto &axes = c->sum->axes;
    MatrixProduct p{*c, axes[axes.size() - 2].name(), axes.back().name(), c->sum->reduction_axes[0].name(), {}, {}, {}};
    for (size_t d = 0; d + 2 < axes.size(); d++) p.batches.push_back(axes[d].name());
    const size_t of_columns = c->has(0, p.j) ? 0 : 1;
    p.b = c->operands[of_columns];
    p.a = c->operands[1 - of_columns];
    const bool good = p.a.axes.count(p.i) && p.a.axes.count(p.k) && !p.a.axes.count(p.j) && p.b.axes.count(p.j) &&
                      p.b.axes.count(p.k) && !p.b.axes.count(p.i) && p.a.tensor != p.b.tensor &&
                      op.find_input(p.a.tensor) && op.find_input(p.b.tensor);
    return good ? std::optional(p) : std::nullopt;
}

bool are_fusible(const Op &op, const Stage &stage, const Axis &outer, const Axis &inner) {
    if (!constant_extent(outer) || !constant_extent(inner)) return false;
    const auto uses = [](const Expr &e, const Axis &a) { return expr_uses_var(e, a.name()); };
    for (const Expr &e : stage.expressions()) {
        for (const Call *read : tensor_reads(e)) {
            const Input *in = op.find_input(read->name);
            const Stage *made = op.find_stage(read->name);
            if (!in && !made) return false;
            const std::vector<Axis> &axes = in ? in->axes : made->axes;
            for (size_t d = 0; d < read->args.size(); d++) {
                const Expr index = without_unit_axes(stage, read->args[d]);
                const auto is = [&](const Expr &i, const Axis &a) {
                    const auto *v = i.as<Variable>();
                    return v && v->name == a.name();
                };
                if (uses(index, outer) && !(is(index, outer) && d + 1 < read->args.size() &&
                                            is(without_unit_axes(stage, read->args[d + 1]), inner)))
                    return false;
                if (!uses(index, inner)) continue;
                if (!is(index, inner) || d == 0 || !is(without_unit_axes(stage, read->args[d - 1]), outer))
                    return false;
                if (constant_extent(axes[d]) != constant_extent(inner)) return false;
            }
        }
    }
    return true;
}

bool same_axes(const Stage &a, const Stage &b) {
    return a.axes.size() == b.axes.size() &&
           std::equal(a.axes.begin(), a.axes.end(), b.axes.begin(),
                      [](const Axis &x, const Axis &y) { return x.name() == y.name(); });
}

std::optional<int64_t> constant_extent(const Axis &axis) { return as_const_int(axis.extent()); }

bool tail_may_overlap(const Op &op) {
    return std::none_of(op.stages().begin(), op.stages().end(), [](const Stage &s) { return !s.updates.empty(); });
}

int vector_lanes(const Machine &machine, Type type) { return machine.lanes(std::max(type.bits(), 8)); }

int accumulator_registers(const Machine &machine) {
    constexpr int of_32 = 28, of_16 = 12, of_8 = 6; // the others hold operands
    return machine.vector_registers >= 32 ? of_32 : machine.vector_registers >= 16 ? of_16 : of_8;
}

bool has_wide_tiles(const Machine &machine) { return accumulator_registers(machine) >= wide_tile_registers; }

int64_t balanced_vectors(int64_t all) {
    int64_t best = 1, least = all;
    for (int64_t v = 2; v <= std::min<int64_t>(all, 4); v++) {
        const int64_t computed = (all + v - 1) / v * v;
        if (computed <= least) best = v, least = computed;
    }
    return best;
}

int64_t threads_of(const Machine &machine) {
    return std::max<int64_t>(1, machine.find_unit("core") ? machine.units_in_all("core") : 1);
}

bool pays_to_share(const Op &op, const Machine &machine) {
    constexpr int64_t worth = 1 << 16; // some microseconds
    int64_t steps = 0;
    for (const Stage &s : op.stages()) {
        int64_t of_stage = 1;
        for (const std::vector<Axis> *axes : {&s.axes, &s.reduction_axes}) {
            for (const Axis &a : *axes) {
                const auto extent = constant_extent(a);
                if (!extent) return threads_of(machine) > 1;
                of_stage *= std::min<int64_t>(*extent, worth);
                of_stage = std::min<int64_t>(of_stage, worth);
            }
        }
        steps += of_stage;
    }
    return threads_of(machine) > 1 && steps >= worth;
}

int64_t cache_bytes(const Machine &machine, const std::string &level, int64_t otherwise) {
    const MemoryLevel *l = machine.find_level(level);
    return l && l->bytes > 0 ? l->bytes : otherwise;
}

bool has_slow_l3(const Machine &machine) {
    constexpr double hidden = 40; // ns
    const MemoryLevel *l3 = machine.find_level("L3");
    return l3 && l3->latency > hidden;
}

bool stores_partial_lines(const Stage &stage, const Machine &machine) {
    if (!has_slow_l3(machine) || stage.axes.size() < 2) return false;
    const auto row = constant_extent(stage.axes.back());
    if (row && *row * stage.type.bytes() % line_bytes == 0) return false;
    const int64_t bytes = bytes_of(stage.type, stage.axes, 0, 1 << 20);
    return bytes > cache_bytes(machine, "L1", 32 << 10) / 4; // the operands need room too
}

int64_t bytes_of(Type type, const std::vector<Axis> &axes, size_t first, int64_t unknown) {
    int64_t bytes = type.bytes();
    for (size_t d = first; d < axes.size(); d++) bytes *= constant_extent(axes[d]).value_or(unknown);
    return bytes;
}

bool conflict_in_l1(int64_t distance, int64_t rows) {
    constexpr int64_t same_offset = 256; // bytes
    for (int64_t row = 1; row < std::min(rows, page_bytes); row++) {
        const int64_t offset = row * distance % page_bytes;
        if (row * distance > page_bytes - same_offset && std::min(offset, page_bytes - offset) < same_offset)
            return true;
    }
    return false;
}

std::string smallest_level(const Machine &machine, int64_t bytes) {
    for (const char *cache : {"L2", "L3"}) {
        if (machine.find_level(cache) && 2 * bytes <= cache_bytes(machine, cache, 0)) return cache;
    }
    return machine.memory.back().name;
}

namespace {

// No instruction reduces the lanes of this combiner. Vectors of `partial` results are combined
// by P; then halves or quarters of one vector, lane by lane; R combines the remaining few one by
// one.
std::vector<StageHandle> join_in_steps(StageHandle R, StageHandle P, int64_t partial, int lanes) {
    constexpr int64_t few = 4;
    std::vector<StageHandle> joins;
    // rfactor must precede placement
    if (R.state().placement.kind != Placement::Kind::Root) return joins;
    while (partial > few) {
        partial = partial > lanes ? lanes : few;
        (joins.empty() ? P : joins.back()).compute_root();
        joins.push_back(R.rfactor(R.split(R.state().order.back(), partial).second));
    }
    return joins;
}

// The innermost loop of a row's reduction, the number of its steps, and the number of reduction
// loops.
struct RowLoop {
    LoopName along;
    std::optional<int64_t> extent;
    size_t reduced;
};

// Fuses a short last axis, such as that of a small image or a window, with the axes outside that
// are contiguous with it.
RowLoop fuse_short_axes(const Schedule &s, StageHandle R, int lanes) {
    const std::vector<Axis> axes = R.state().def.reduction_axes;
    RowLoop row{axes.back().name(), constant_extent(axes.back()), axes.size()};
    std::optional<int64_t> &extent = row.extent;
    const auto is_short = [&] { return *extent < lanes || (*extent % lanes && *extent < 4 * lanes); };
    for (size_t d = axes.size() - 1; d-- > 0 && lanes > 1 && extent && is_short();) {
        const auto outer = constant_extent(axes[d]);
        if (!outer || !are_fusible(s.op(), R.state().def, axes[d], axes[d + 1])) break;
        row.along = R.fuse(axes[d].name(), row.along);
        extent = *outer * *extent;
        row.reduced--;
    }
    return row;
}

// Unrolls the serial steps of a reduction if they are few, as for a small image or window: their
// addresses are constant offsets.
void unroll_few_steps(StageHandle P) {
    constexpr int64_t few = 8;
    int64_t steps = calls_functions(P.state().def) ? few + 1 : 1;
    std::vector<LoopName> loops;
    for (const std::string &l : P.state().order) {
        const LoopState &loop = P.state().loop(l);
        if (!loop.reduction || loop.kind != LoopKind::Serial) continue;
        const auto n = Halide::Internal::as_const_int(loop.extent);
        steps = std::min(steps, few + 1) * std::max<int64_t>(1, n.value_or(few + 1));
        loops.push_back(l);
    }
    if (steps > few) loops.clear();
    for (const LoopName &l : loops) P.unroll(l);
}

} // namespace

bool reads_along(const Stage &stage, const std::string &axis) {
    bool along = false;
    for (const Expr &e : stage.expressions()) {
        for (const Halide::Internal::Call *read : tensor_reads(e)) {
            for (size_t d = 0; d < read->args.size(); d++) {
                const Expr index = without_unit_axes(stage, read->args[d]);
                // by a constant, as in x + 16
                const auto *shifted = index.as<Halide::Internal::Add>();
                const Expr base = shifted && is_const(shifted->b) ? shifted->a : index;
                const auto *v = base.as<Halide::Internal::Variable>();
                if (!v || (v->name == axis && d + 1 < read->args.size())) return false;
                along = along || v->name == axis;
            }
        }
    }
    return along;
}

void reduce_row(Schedule &s, const std::string &name, int lanes, int64_t accumulators, const std::string &at) {
    StageHandle R = s.stage(name);
    const size_t axes = R.state().def.reduction_axes.size();
    const auto [along, extent, reduced] = fuse_short_axes(s, R, lanes);
    lanes = fitting_lanes(R.state().def.type, lanes, extent);
    constexpr int64_t joined = 256; // lanes at most: in the end all partial results are one vector
    accumulators = std::min(accumulators, std::max<int64_t>(1, joined / std::max(1, lanes)));
    int64_t vectors = extent ? std::clamp<int64_t>(*extent / lanes, 1, accumulators) : accumulators;
    if (reduced < axes && *extent < 8 * lanes) vectors = 1; // fewer lanes beyond the end
    // Steps along other axes add to the same vectors.
    const int64_t least = reduced > 1 ? lanes : 2 * lanes;
    if (lanes < 2) return;
    if (extent && *extent < least) { // a few whole vectors, reduced at once
        const Stage &row = R.state().def;
        const int64_t divisor = std::gcd(*extent, int64_t(lanes));
        const bool whole = divisor * row.type.bits() >= narrowest_vector && row.components.size() == 1;
        if (whole) R.vectorize(along, divisor);
        if (whole || *extent <= lanes) return;
    }
    auto [o, i] = R.split(along, lanes * vectors);
    StageHandle P = R.rfactor(i); // partial results
    const std::string lane = P.state().def.axes.back().name();
    std::string row = at; // several axes may be one loop
    for (const std::string &l : R.state().order) {
        if (at.empty() && !R.state().loop(l).reduction) row = l;
    }
    const bool at_once = joins_lanes(R.state().def, s.machine());
    const bool in_steps = !at_once && P.state().def.axes.size() > 1;
    const auto joins = in_steps ? join_in_steps(R, P, lanes * vectors, lanes) : std::vector<StageHandle>{};
    for (size_t n = joins.size(); n-- > 0;) { // consumers before producers
        StageHandle Q = joins[n];
        Q.compute_at(name, row).vectorize(Q.state().def.axes.back().name());
    }
    if (P.state().def.axes.size() > 1) P.compute_at(name, row);
    std::vector<LoopName> order;
    for (const std::string &l : P.state().order) {
        if (l != lane) order.push_back(l);
    }
    order.push_back(lane);
    P.reorder(order);
    if (vectors > 1 && !calls_functions(P.state().def)) {
        P.vectorize(lane, lanes);
        P.unroll(lane + ".o");
    } else {
        P.vectorize(lane);
    }
    if (order.size() > 1 + reduced)
        s.accumulate_in(P.name(), "registers", order[order.size() - 2 - reduced]);
    else if (P.state().def.axes.size() > 1)
        P.place_in("registers");
    else // no loop outside the reduction: its rounds
        s.accumulate_in(P.name(), "registers", reduced > 1 ? order[0] : P.split(order[0], 64).first);
    unroll_few_steps(P);
    if (at_once || (!in_steps && R.state().def.components.size() == 1)) R.vectorize(R.state().order.back());
}

int fitting_lanes(Type type, int lanes, std::optional<int64_t> extent) {
    if (!extent || *extent >= lanes || *extent < 1) return lanes;
    const int fit = static_cast<int>(std::bit_floor(static_cast<uint64_t>(*extent)));
    return fit * type.bits() >= narrowest_vector ? fit : lanes;
}

LoopName fused(StageHandle stage, const std::vector<LoopName> &loops, const std::string &name) {
    LoopName all = loops[0];
    for (size_t n = 1; n < loops.size(); n++) all = stage.fuse(all, loops[n], n + 1 == loops.size() ? name : "");
    return all;
}

int64_t balanced_block(int64_t extent, int64_t wish, int64_t unit) {
    if (extent <= 0) return unit;
    const int64_t pieces = std::max<int64_t>(1, (extent + wish - 1) / wish);
    const int64_t block = (extent + pieces - 1) / pieces;
    return (block + unit - 1) / unit * unit;
}

int64_t largest_divisor(int64_t n, int64_t most) {
    int64_t best = 1;
    for (int64_t d = 1; d <= std::min(n, most); d++) {
        if (n % d == 0) best = d;
    }
    return best;
}

} // namespace kumiko::library
