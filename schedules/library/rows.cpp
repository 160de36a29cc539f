#include "schedules/library/rows.h"

#include "dsl/extern.h"
#include "dsl/inout.h"
#include "dsl/reach.h"
#include "dsl/reads.h"
#include "schedules/library/elementwise_loops.h"
#include "schedules/library/elementwise_reads.h"
#include "schedules/library/functions.h"
#include "schedules/library/inlining.h"
#include "schedules/library/register_tile.h"
#include "schedules/library/streams.h"
#include "schedules/library/structure.h"
#include "schedules/primitives/expand.h"

namespace kumiko::library {

namespace {

// The op's rows. Every reduction runs along the last axis of the tensors it reads, and maybe along
// others. Its own axes select the row; every stage has them, in this order.
struct RowsRoles {
    const Stage *output = nullptr;    // the stage that no stage reads
    std::vector<std::string> leading; // axes that select a row
};

bool is_leading(const RowsRoles &r, const Axis &a) {
    return std::find(r.leading.begin(), r.leading.end(), a.name()) != r.leading.end();
}

std::optional<RowsRoles> rows_roles(const Op &op) {
    if (has_extern(op)) return std::nullopt;
    RowsRoles r;
    std::set<std::string> read;
    for (const Stage &s : op.stages()) {
        for (const Expr &e : s.expressions()) read.merge(tensors_read(e));
    }
    const Stage *reduction = nullptr;
    for (const Stage &s : op.stages()) {
        if (!read.count(s.name)) {
            if (r.output) return std::nullopt;
            r.output = &s;
        }
        if (s.kind == Stage::Kind::Padding || s.reads_itself()) return std::nullopt;
        if (!s.is_reduction()) continue;
        // The rules of elementwise.h look for instructions.
        if (s.axes.empty() || is_shifted_contraction(s)) return std::nullopt;
        if (!s.properties.associative || !s.properties.commutative) return std::nullopt;
        if (reduction &&
            (reduction->axes.size() != s.axes.size() || reduction->reduction_axes.size() != s.reduction_axes.size()))
            return std::nullopt;
        reduction = &s;
        if (!reads_along(s, s.reduction_axes.back().name())) return std::nullopt;
    }
    if (!reduction || !r.output) return std::nullopt;
    for (const Axis &a : reduction->axes) r.leading.push_back(a.name());
    const size_t n = r.leading.size(), row = n + reduction->reduction_axes.size();
    for (const Stage &s : op.stages()) {
        if (s.axes.size() != n && s.axes.size() != row) return std::nullopt;
        size_t next = 0;
        for (const Axis &a : s.axes) next += next < n && a.name() == r.leading[next];
        if (next < n || (s.axes.size() == row && is_leading(r, s.axes.back()))) return std::nullopt;
    }
    return r;
}

// Whether every stage reads only rows at its own leading indices, so that rows may be updated in
// place one after the other.
bool reads_own_rows(const Op &op, const RowsRoles &r) {
    for (const Stage &s : op.stages()) {
        for (const Expr &e : s.expressions()) {
            for (const Halide::Internal::Call *read : tensor_reads(e)) {
                const Input *in = op.find_input(read->name);
                if (in && !in->inout) continue;
                const std::vector<Axis> &axes = in ? in->axes : op.stage(read->name).axes;
                for (size_t d = 0, next = 0; next < r.leading.size(); d++) {
                    if (d == axes.size()) return false;
                    if (axes[d].name() != r.leading[next]) continue;
                    const auto *v = read->args[d].as<Halide::Internal::Variable>();
                    if (!v || v->name != r.leading[next++]) return false;
                }
            }
        }
    }
    return true;
}

// Whether the elements of a row are stored in pieces, each beside those of the neighbouring rows
// along the last leading axis.
bool has_rows_in_pieces(const Op &op, const RowsRoles &r) {
    const Stage &s = *r.output;
    if (op.stages().size() > 1 || s.reduction_axes.size() < 2) return false;
    for (const Expr &e : s.expressions()) {
        for (const Halide::Internal::Call *read : tensor_reads(e)) {
            bool outer = false; // an axis of the reduction comes before
            for (size_t d = 0; d + 1 < read->args.size(); d++) {
                const auto *v = read->args[d].as<Halide::Internal::Variable>();
                if (v && v->name == r.leading.back()) return outer;
                const Axis *axis = v ? find_axis(s, v->name) : nullptr;
                outer = outer || (axis && !is_leading(r, *axis));
            }
        }
    }
    return false;
}

// Reads the same piece of all rows of a block before the next piece. Reading pieces that are far
// apart runs at half the speed.
void reduce_pieces(Schedule &s, const RowsRoles &r, int lanes, int64_t accumulators, const LoopName &block) {
    reduce_row(s, r.output->name, lanes, accumulators, block.name);
    const std::string partial = r.output->name + ".rf", rows = r.leading.back();
    const StageState *p = s.state().find(partial);
    if (!p) return;
    std::vector<LoopName> order, inside; // the loops from the reduction's last axis on
    for (size_t n = p->order.size(); n-- > 0;) {
        const std::string &loop = p->order[n];
        if (inside.empty() || !p->loop(inside.front().name).reduction)
            inside.insert(inside.begin(), loop);
        else if (loop != rows)
            order.insert(order.begin(), loop);
    }
    order.push_back(rows);
    order.insert(order.end(), inside.begin(), inside.end());
    s.stage(partial).reorder(order);
}

// 0 if an extent is unknown.
int64_t known_bytes(Type t, const std::vector<Axis> &axes) {
    int64_t bytes = t.bytes();
    for (const Axis &a : axes) bytes *= constant_extent(a).value_or(0);
    return bytes;
}

std::vector<std::string> inputs_read(const Op &op, const Stage &stage) {
    std::set<std::string> read;
    for (const Expr &e : stage.expressions()) read.merge(tensors_read(e));
    std::vector<std::string> names;
    for (const Input &in : op.inputs()) {
        if (read.count(in.name)) names.push_back(in.name);
    }
    return names;
}

// Stages that read inputs while memory is idle, so that they can prefetch the next row: those that
// call functions per element, otherwise the last one that rereads a row. Stages that write the
// elements of an output are excluded.
std::vector<const Stage *> stages_that_fetch(const Op &op) {
    std::vector<const Stage *> with_functions, again;
    for (const Stage &stage : op.stages()) {
        const bool written = op.is_output(stage.name) && !stage.is_reduction();
        if (written || inputs_read(op, stage).empty()) continue;
        if (calls_functions(stage)) with_functions.push_back(&stage);
        again.push_back(&stage);
    }
    if (!with_functions.empty()) return with_functions;
    if (again.size() < 2) return {}; // the first one loads the row
    return {again.back()};
}

void fetch_next_rows(Schedule &s, const std::string &output, const LoopName &row) {
    for (const Stage *stage : stages_that_fetch(s.op())) {
        // the stage that reads, if the sum is in vectors
        const std::string partial = stage->name + ".rf";
        const std::string reader = s.state().find(partial) ? partial : stage->name;
        if (reader == output) continue; // not in the loops of another stage
        StageHandle S = s.stage(reader);
        const StageState &state = S.state();
        if (host_of_nest(s, reader).name() != output) continue;
        auto vectors = std::find_if(state.order.begin(), state.order.end(),
                                    [&](const std::string &l) { return state.loop(l).kind == LoopKind::Vectorized; });
        if (vectors == state.order.end()) continue;
        while (vectors != state.order.begin() && state.loop(*(vectors - 1)).kind == LoopKind::Unrolled) vectors--;
        if (vectors == state.order.begin()) continue;
        const LoopName around = *(vectors - 1); // copied, since a directive replaces the state
        for (const std::string &tensor : inputs_read(s.op(), *stage)) S.prefetch(tensor, around, 1, output, row);
    }
}

// Vectors along the last axis of a stage of rows.
void vectorize_elements(Schedule &s, const Stage &stage, int widest, int64_t unroll) {
    constexpr int64_t copied = 4; // vectors of a short row
    StageHandle S = s.stage(stage.name);
    std::string last = stage.axes.back().name();
    auto extent = constant_extent(stage.axes.back());
    int lanes = fitting_lanes(stage.type, widest, extent);
    const int fewest = vector_lanes(s.machine(), f32);
    if (const auto run = run_of(stage, stage.axes.back(), fewest)) {
        const auto [runs, within] = S.split(last, *run); // no vector crosses their ends
        S.unroll(runs);
        last = within.name, extent = run;
        lanes = fitting_lanes(stage.type, widest, run);
        while (lanes > fewest && *run % lanes) lanes /= 2;
    }
    const int64_t block = lanes * unroll, turns = lanes * vectors_of_functions;
    if (lanes == 1 || (extent && *extent < lanes)) return;
    if (calls_functions(stage) && unroll == 1 && (!extent || *extent >= 2 * turns)) {
        S.vectorize(S.split(last, turns).second);
    } else if (unroll > 1 && (!extent || *extent >= 2 * block)) {
        const LoopName inner = S.split(last, block).second;
        S.vectorize(inner, lanes);
        S.unroll(inner.name + ".o");
    } else {
        // A shifted last vector needs no masked store, which would delay later loads.
        const bool inwards = extent && *extent % lanes && tail_may_overlap(s.op());
        S.vectorize(last, lanes, inwards ? Tail::Shift : Tail::Auto);
        if (extent && *extent > lanes && *extent <= copied * lanes) S.unroll(last + ".o");
    }
}

} // namespace

bool is_rows(const Op &op) {
    const auto r = rows_roles(op);
    if (!r) return false;
    // An output that is computed in the loops of another is written row by row.
    if ((reads_before_update(op) || op.outputs().size() > 1) && !reads_own_rows(op, *r)) return false;
    // Rows that share what they read use register tiles, which load it less often.
    return std::none_of(op.stages().begin(), op.stages().end(), [&](const Stage &s) { return pays_to_tile(op, s); });
}

RowsParameters rows_parameters(const Op &op, const Machine &machine) {
    const RowsRoles r = *rows_roles(op);
    RowsParameters p;
    p.accumulators = Tile(4, {1, 2, 4, 8});
    p.unroll = Tile(1, {1, 2, 4});
    int64_t rows = 1;
    bool known = true;
    for (const std::string &l : r.leading) {
        const auto e = constant_extent(*find_axis(*r.output, l));
        known = known && e;
        rows *= e.value_or(1);
    }
    int64_t elements = 1; // of a row
    for (const Axis &a : r.output->axes) {
        if (!is_leading(r, a)) elements *= std::max<int64_t>(constant_extent(a).value_or(1), 1);
    }
    const int64_t together = std::clamp<int64_t>((1 << 16) / elements, 1, 16);
    p.rows = known ? Tile::nearest(together, Tile::sizes(rows, 1, 64)) : Tile(16, {1, 4, 16, 64});
    int64_t bytes = 0;
    for (const Input &in : op.inputs()) bytes = std::max(bytes, known_bytes(in.type, in.axes));
    const bool fetches = !stages_that_fetch(op).empty();
    p.prefetch = Flag(fetches && bytes > cache_bytes(machine, "L2", 512 << 10),
                      fetches ? std::vector<bool>{false, true} : std::vector<bool>{false});
    p.parallel = Flag(pays_to_share(op, machine));
    return p;
}

Schedule schedule_rows(const Op &op, const Machine &machine, const RowsParameters &p) {
    const RowsRoles r = *rows_roles(op);
    Schedule s(op, machine);
    StageHandle Y = s.stage(r.output->name);
    const int widest = vector_lanes(machine, r.output->type);

    // The outermost loops: all rows as one loop, divided into tasks.
    const bool pieces = has_rows_in_pieces(op, r);
    std::vector<std::string> order = r.leading;
    for (const std::string &l : Y.state().order) {
        if (std::find(r.leading.begin(), r.leading.end(), l) == r.leading.end()) order.push_back(l);
    }
    if (order != Y.state().order) Y.reorder({order.begin(), order.end()});
    LoopName last = r.leading.back();
    if (pieces) {
        const auto most = constant_extent(*find_axis(*r.output, r.leading.back()));
        last = Y.split(last, std::clamp<int64_t>(most.value_or(p.rows), 1, p.rows)).first;
    }
    std::vector<LoopName> leading(r.leading.begin(), r.leading.end());
    leading.back() = last;
    const LoopName place = fused(Y, leading, "row");
    LoopName at = place;
    if (pieces) {
        if (p.parallel) Y.parallel(place);
    } else if (p.parallel) {
        auto [o, i] = Y.split(place, p.rows);
        Y.parallel(o);
        at = i;
    }
    std::map<std::string, int64_t> inlined;
    for (const Stage &stage : op.stages()) {
        if (op.is_output(stage.name) || reads_before_update(op)) continue;
        if (stage.axes.size() > r.leading.size() && pays_to_inline(s, stage, inlined))
            s.stage(stage.name).inline_into();
    }
    const auto is_inlined = [&](const Stage &stage) { return inlined.count(stage.name) > 0; };
    if (!r.output->is_reduction()) {
        for (size_t n = op.stages().size(); n-- > 0;) { // consumers before producers
            const Stage &stage = op.stages()[n];
            if (stage.name != r.output->name && !is_inlined(stage)) s.stage(stage.name).compute_at(Y.name(), at);
        }
    }
    for (const Stage &stage : op.stages()) {
        if (is_inlined(stage)) continue;
        if (pieces) {
            reduce_pieces(s, r, widest, p.accumulators, at);
        } else if (stage.is_reduction()) {
            reduce_row(s, stage.name, widest, p.accumulators);
        } else if (stage.axes.size() > r.leading.size()) {
            vectorize_elements(s, stage, widest, p.unroll);
        }
    }
    if (p.prefetch) fetch_next_rows(s, Y.name(), at);
    stream_large_outputs(s);
    return s;
}

} // namespace kumiko::library
