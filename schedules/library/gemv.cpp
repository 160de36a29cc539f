#include "schedules/library/gemv.h"

#include "schedules/library/structure.h"
#include "support/error.h"

namespace kumiko::library {

namespace {

struct GemvRoles {
    Contraction contraction;
    std::string j, k;               // results along the matrix, and the reduction
    std::vector<std::string> outer; // the other axes of the result
    Operand matrix;
    bool dots = false;    // the reduction is contiguous in the matrix
    bool one_row = false; // all axes that only the vector has are of one element
    std::optional<int64_t> N, K;
};

std::string last_index(const Operand &o) { return o.indices.back().as<Halide::Internal::Variable>()->name; }

std::optional<GemvRoles> gemv_roles(const Op &op) {
    auto c = find_contraction(op);
    if (!c || c->sum->reduction_axes.size() != 1 || c->sum->axes.empty()) return std::nullopt;
    for (const Operand &o : c->operands) {
        if (!is_plain(o) || !op.find_input(o.tensor)) return std::nullopt;
    }
    GemvRoles r;
    r.k = c->sum->reduction_axes[0].name();
    if (!c->has(0, r.k) || !c->has(1, r.k)) return std::nullopt;
    // The axis that only one operand has. Of several, the last that is not known to be one element;
    // if all are, prefers the operand that is contiguous along the reduction.
    size_t of_matrix = 2;
    for (size_t d = c->sum->axes.size(); d-- > 0;) {
        const Axis &a = c->sum->axes[d];
        if (c->has(0, a.name()) == c->has(1, a.name())) continue;
        const size_t of = c->has(0, a.name()) ? 0 : 1;
        if (of_matrix < 2) {
            const bool dots = last_index(c->operands[of]) == r.k && last_index(c->operands[of_matrix]) != r.k;
            if (constant_extent(*find_axis(*c->sum, r.j)) != 1 || (constant_extent(a) == 1 && !dots)) continue;
        }
        r.j = a.name();
        of_matrix = of;
    }
    if (of_matrix == 2) return std::nullopt;
    r.matrix = c->operands[of_matrix];
    r.dots = last_index(r.matrix) == r.k;
    if (!r.dots && last_index(r.matrix) != r.j) return std::nullopt;
    r.one_row = true;
    for (const Axis &a : c->sum->axes) {
        if (a.name() == r.j) continue;
        r.outer.push_back(a.name());
        r.one_row = r.one_row && (c->has(of_matrix, a.name()) || constant_extent(a) == 1);
    }
    r.N = constant_extent(*find_axis(*c->sum, r.j));
    r.K = constant_extent(*find_axis(*c->sum, r.k));
    r.contraction = *c;
    return r;
}

GemvRoles required_roles(const Op &op) {
    if (auto r = gemv_roles(op)) return *r;
    throw UserError("op \"" + op.name() +
                    "\" is neither a product of a matrix with a vector nor of two matrices; it is:\n" + op.to_string());
}

// Computes some results at a time, which share the vector's elements, each sum in several vectors.
// Rows that are read side by side also stream faster from memory than one.
void several_dots(Schedule &s, const GemvRoles &r, int lanes, const GemvParameters &p, const LoopName &at) {
    StageHandle C = s.stage(r.contraction.sum->name);
    auto [blocks, row] = C.split(at, p.rows);
    auto [steps, lane] = C.split(r.k, lanes * p.vectors);
    StageHandle P = C.rfactor(lane); // partial results
    P.compute_at(C.name(), blocks);
    const std::string own = P.state().def.axes.back().name(), along = P.state().def.reduction_axes.back().name();
    auto [block, rows] = P.split(r.j, p.rows); // one iteration where the stage is computed
    std::vector<LoopName> order(r.outer.begin(), r.outer.end());
    order.insert(order.end(), {block, along, rows, own});
    P.reorder(order).unroll(rows).vectorize(own, lanes);
    if (p.vectors > 1) P.unroll(own + ".o");
    s.accumulate_in(P.name(), "registers", block);
    C.vectorize(C.state().order.back());
}

// Computes dot products one by one, each in several vectors, or several together.
void schedule_dots(Schedule &s, const GemvRoles &r, int lanes, const Machine &machine, const GemvParameters &p) {
    StageHandle C = s.stage(r.contraction.sum->name);
    std::vector<LoopName> order(r.outer.begin(), r.outer.end());
    LoopName at = r.j;
    if (p.parallel) {
        const int64_t tasks = 4 * threads_of(machine);
        auto [outer, inner] = C.split(r.j, r.N ? std::max<int64_t>(1, (*r.N + tasks - 1) / tasks) : 16);
        order.push_back(outer);
        at = inner;
    }
    order.insert(order.end(), {at, r.k});
    C.reorder(order);
    if (p.parallel) C.parallel(order[order.size() - 3]);
    // rows shorter than a vector: vectors of results
    if (r.K && *r.K < lanes && r.N.value_or(lanes) >= lanes) {
        auto [blocks, row] = C.split(at, lanes);
        order.erase(order.end() - 2, order.end());
        order.insert(order.end(), {blocks, LoopName(r.k), row});
        C.reorder(order).unroll(r.k).vectorize(row);
        s.accumulate_in(C.name(), "registers", blocks);
    } else if (p.rows > 1)
        several_dots(s, r, lanes, p, at);
    else
        reduce_row(s, C.name(), lanes, p.vectors, at.name);
}

void schedule_columns(Schedule &s, const GemvRoles &r, int lanes, const Machine &machine, const GemvParameters &p) {
    StageHandle C = s.stage(r.contraction.sum->name);
    const int64_t columns = p.vectors * lanes;
    std::vector<LoopName> order(r.outer.begin(), r.outer.end());
    LoopName jt = r.j;
    if (p.parallel) {
        const int64_t threads = threads_of(machine);
        auto [outer, inner] =
            C.split(r.j, r.N ? balanced_block(*r.N, (*r.N + threads - 1) / threads, columns) : 4 * columns,
                    {r.j + ".c", r.j + ".t"});
        order.push_back(outer);
        jt = inner;
    }
    auto [jo, ji] = C.split(jt, columns, {r.j + ".o", r.j + ".i"});
    auto [ko, kt] = C.split(r.k, p.depth, {r.k + ".o", r.k + ".i"});
    order.insert(order.end(), {ko, jo});
    if (p.unroll > 1) {
        auto [ki, ku] = C.split(kt, p.unroll, {r.k + ".s", r.k + ".u"});
        order.insert(order.end(), {ki, ku, ji});
        C.reorder(order).unroll(ku);
    } else {
        order.insert(order.end(), {kt, ji});
        C.reorder(order);
    }
    if (lanes > 1) C.vectorize(ji, lanes);
    if (p.vectors > 1) C.unroll(lanes > 1 ? LoopName(ji.name + ".o") : ji);
    if (p.parallel) C.parallel(order[r.outer.size()]);
    C.accumulate_in("registers", jo);
}

} // namespace

bool is_gemv(const Op &op) {
    const auto r = gemv_roles(op);
    return r && r->one_row;
}

GemvParameters gemv_parameters(const Op &op, const Machine &machine) {
    const GemvRoles r = required_roles(op);
    const Type type = r.contraction.sum->type;
    const int lanes = vector_lanes(machine, type);
    const int64_t along = r.dots ? r.K.value_or(1 << 20) : r.N.value_or(1 << 20), K = r.K.value_or(1 << 20);
    std::vector<int64_t> vectors;
    for (int64_t n : {1, 2, 4, 8}) {
        if (n == 1 || (n * lanes < along + lanes && n <= accumulator_registers(machine))) vectors.push_back(n);
    }
    GemvParameters p;
    const bool several = r.dots && lanes > 1 && r.N.value_or(4) >= 4 && r.K && *r.K >= lanes;
    p.rows = several ? Tile(4, {1, 2, 4, 8}) : Tile(1, {1});
    p.vectors = Tile::nearest(!several ? 8 : *r.K < 4 * lanes ? 1 : 2, vectors);
    // A matrix that exceeds L2 is read in whole rows, some at a time; from memory, a few rows are
    // read as one.
    const int64_t bytes = r.N.value_or(1 << 20) * K * type.bytes();
    const bool streams = bytes > cache_bytes(machine, "L2", 512 << 10),
               far = streams && bytes > cache_bytes(machine, "L3", 0);
    if (!r.dots && far) p.vectors = Tile::nearest(2, vectors);
    p.unroll =
        r.dots ? Tile(1, {1}) : Tile::nearest(std::min<int64_t>(far ? 8 : 4, std::max<int64_t>(K, 1)), {1, 2, 4, 8});
    std::vector<int64_t> depths = {8, 16, 64, 256};
    std::erase_if(depths, [&](int64_t d) { return d >= K; });
    depths.push_back(std::max<int64_t>(K, 1));
    p.depth = r.dots ? Tile(1, {1}) : Tile::nearest(far ? 8 : streams ? 16 : K, depths);
    const bool many = threads_of(machine) > 1;
    p.parallel = Flag(many && r.N.value_or(1 << 20) * K >= 1 << 18,
                      many ? std::vector<bool>{false, true} : std::vector<bool>{false});
    return p;
}

Schedule schedule_gemv(const Op &op, const Machine &machine, const GemvParameters &p) {
    const GemvRoles r = required_roles(op);
    const int lanes = vector_lanes(machine, r.contraction.sum->type);
    Schedule s(op, machine);
    r.dots ? schedule_dots(s, r, lanes, machine, p) : schedule_columns(s, r, lanes, machine, p);
    if (!r.contraction.consumer.empty()) s.stage(r.contraction.sum->name).finish_in(r.contraction.consumer);
    return s;
}

Schedule gemv(const Op &op, const Machine &machine) { return schedule_gemv(op, machine, gemv_parameters(op, machine)); }

} // namespace kumiko::library
