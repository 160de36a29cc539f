#include "schedules/library/dots.h"

#include "machine/machine.h"
#include "schedules/library/matmul_plan.h"

namespace kumiko::library {

namespace {

constexpr int64_t max_columns = 8;

// A product with constant extents and operands of the sum's type, whose rows of A are contiguous
// along the reduction, as are the columns of B once transposed. With the widest vectors it must
// take at most half the steps that vectors along the columns take. Narrower vectors then take no
// more steps either, because the columns fill several.
std::optional<MatmulRoles> dots_roles(const Op &op) {
    const auto r = matmul_roles(op);
    if (!r || !r->M || !r->N || !r->K || *r->N < 2 || *r->N > max_columns) return std::nullopt;
    const Stage &sum = *r->contraction.sum;
    if (!sum.properties.associative || !sum.properties.commutative || !contiguous_in(r->a, r->k)) return std::nullopt;
    for (const Operand &o : {r->a, r->b}) {
        if (op.find_input(o.tensor)->type != sum.type) return std::nullopt;
    }
    constexpr int64_t widest = 512, join = 8; // bits; the cost of a horizontal sum, in steps
    const int64_t steps = *r->K * sum.type.bits() / widest + join;
    return 2 * *r->N * steps <= *r->K ? r : std::nullopt;
}

} // namespace

bool is_dots(const Op &op) { return dots_roles(op).has_value(); }

DotsParameters dots_parameters(const Op &op, const Machine &machine) {
    const MatmulRoles r = *matmul_roles(op);
    DotsParameters p;
    const int64_t most = std::max<int64_t>(1, accumulator_registers(machine) / *r.N);
    std::vector<int64_t> rows;
    for (int64_t n : {1, 2, 4, 6, 8}) {
        if (n == 1 || (n <= most && n <= *r.M)) rows.push_back(n);
    }
    p.rows = Tile::nearest(std::min<int64_t>(4, most), rows);
    p.parallel = Flag(pays_to_share(op, machine));
    return p;
}

Schedule schedule_dots_of_rows(const Op &op, const Machine &machine, const DotsParameters &p) {
    const MatmulRoles r = *matmul_roles(op);
    const int lanes = vector_lanes(machine, r.contraction.sum->type);
    Schedule s(op, machine);
    StageHandle C = s.stage(r.contraction.sum->name);
    const bool copies = !contiguous_in(r.b, r.k);
    const std::string b = copies ? tensor_by_axes(s, C.name(), r.b) : r.b.tensor;
    int64_t batches = 1;
    for (const std::string &b : r.batches) batches *= constant_extent(*find_axis(*r.contraction.sum, b)).value_or(1);
    batches = std::max<int64_t>(batches, 1);
    const int64_t tasks = p.parallel ? (4 * threads_of(machine) + batches - 1) / batches : 1;
    auto [part, inner] =
        C.split(r.i, balanced_block(*r.M, (*r.M + tasks - 1) / tasks, p.rows), {r.i + ".c", r.i + ".t"});
    auto [blocks, row] = C.split(inner, p.rows, {r.i + ".o", r.i + ".i"});
    auto [steps, lane] = C.split(r.k, lanes);
    StageHandle P = C.rfactor(lane); // partial results
    P.compute_at(C.name(), blocks);
    std::vector<LoopName> outer(r.batches.begin(), r.batches.end()),
        inside = {blocks, row, r.j, C.state().order.back()};
    outer.push_back(part);
    std::vector<LoopName> order = outer;
    order.insert(order.end(), inside.begin(), inside.end());
    C.reorder(order).vectorize(order.back());
    const LoopName task = fused(C, outer, "task");
    if (p.parallel) C.parallel(task);

    const std::string own = P.state().def.axes.back().name(), along = P.state().def.reduction_axes.back().name();
    auto [block, rows] = P.split(r.i, p.rows); // one iteration where the stage is computed
    order.assign(r.batches.begin(), r.batches.end());
    order.insert(order.end(), {block, along, rows, LoopName(r.j), own});
    P.reorder(order).unroll(rows).unroll(r.j).vectorize(own, lanes);
    s.accumulate_in(P.name(), "registers", block);
    if (copies) {
        const int64_t bytes = *r.N * *r.K * r.contraction.sum->type.bytes();
        const bool near = 2 * bytes <= cache_bytes(machine, "L1", 32 << 10);
        StageHandle B = s.place_in(b, near ? "L1" : smallest_level(machine, bytes), P.name(), block);
        std::vector<std::string> stored;
        for (const std::string &b : r.batches) {
            if (r.b.axes.count(b)) stored.push_back(b);
        }
        const bool shared = stored.empty(); // one copy for all tasks
        std::vector<LoopName> loops(stored.begin(), stored.end());
        stored.insert(stored.end(), {r.j, r.k});
        B.layout(stored);
        auto [ko, ki] = B.split(r.k, lanes);
        loops.insert(loops.end(), {ko, LoopName(r.j), ki});
        B.reorder(loops).unroll(r.j).vectorize(ki);
        shared ? B.compute_root() : B.compute_at(C.name(), task);
    }
    if (!r.contraction.consumer.empty()) C.finish_in(r.contraction.consumer);
    return s;
}

} // namespace kumiko::library
