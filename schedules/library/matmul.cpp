#include "schedules/library/matmul.h"

#include "schedules/library/matmul_plan.h"
#include "support/error.h"

#include <fmt/format.h>

namespace kumiko::library {

namespace {

// Splits the reduction into parts of `steps` steps, each summed by a stage that is returned; C adds
// the parts in order.
StageHandle parts_of_sums(Schedule &s, StageHandle C, const MatmulPlan &plan, int64_t steps) {
    const MatmulRoles &r = plan.r;
    StageHandle parts = C.rfactor(C.split(r.k, steps, {r.k + ".part", r.k + ".rest"}).first);
    std::vector<std::string> stored, axes;
    for (const Axis &a : parts.state().def.axes) axes.push_back(a.name());
    stored.push_back(axes.back());
    stored.insert(stored.end(), axes.begin(), axes.end() - 1);
    parts.compute_root().layout(stored);
    if (plan.product.lanes > 1) {
        auto [o, in] = C.split(r.j, plan.product.lanes);
        std::vector<LoopName> order;
        for (const std::string &l : C.state().order) {
            if (l != in.name) order.push_back(l);
        }
        order.push_back(in);
        C.reorder(order).vectorize(in);
        s.accumulate_in(C.name(), "registers", o);
    }
    if (!r.contraction.consumer.empty()) C.finish_in(r.contraction.consumer);
    return parts;
}

// Schedules one multiplication strategy. `needs`: the value range that it requires.
Schedule schedule_one(const Op &op, const Machine &machine, const MatmulRoles &r, const MatmulParameters &p,
                      const std::string &way, const std::optional<ValuesWithin> &needs) {
    const Contraction &c = r.contraction;
    MatmulPlan plan{.r = r, .p = p, .product = product(way, c, op, r.a, r.b, machine)};
    const int lanes = plan.product.lanes, group = plan.product.group;
    const bool wider_a = plan.product.a != op.find_input(r.a.tensor)->type;
    const bool wider_b = plan.product.b != op.find_input(r.b.tensor)->type;
    plan.columns = p.vectors * lanes;
    if (plan.product.tiles()) {
        if (p.parallel.is("grid") || p.parallel.is("depth"))
            throw Unsupported("parallel=" + std::string(p.parallel) + " with multiply=" + plan.product.instruction +
                              "; take \"rows\", \"columns\" or \"none\", or another way to multiply");
        return schedule_tiles(op, machine, plan);
    }
    if (p.pack_b.is("ahead") && group > 1 && !r.K)
        throw Unsupported("pack_b=ahead with multiply=" + plan.product.instruction + ", which takes " +
                          std::to_string(group) + " steps at once, where " + r.k +
                          " is known only at run time; give it a number, or take multiply=widened or pack_b=none");
    Schedule s(op, machine);
    if (needs) s.assume(within(needs->input, needs->range.min, needs->range.max));
    StageHandle C = s.stage(c.sum->name);
    const std::string i = r.i, j = r.j;
    std::string k = r.k;
    std::optional<int64_t> K = r.K;

    // Blocks: rows for L2, rows or columns for threads, depth for L1.
    const bool by_rows = p.parallel.is("rows"), by_columns = p.parallel.is("columns"), by_grid = p.parallel.is("grid");
    const int64_t threads = std::max<int64_t>(2, threads_of(machine));
    // Batches that share B are inside of the loop at which B is copied, so that it is copied once.
    const bool once = p.pack_b.is("blocks") && p.outer.is("depth") && (by_rows || p.parallel.is("none"));
    plan.copies_a = p.pack_a || wider_a || (group > 1 && !contiguous_in(r.a, r.k));
    plan.copies_b = !p.pack_b.is("none") || wider_b || group > 1;
    const std::string A = plan.copies_a ? tensor_by_axes(s, C.name(), r.a) : r.a.tensor,
                      B = plan.copies_b ? tensor_by_axes(s, C.name(), r.b) : r.b.tensor;
    std::vector<LoopName> order, sharing;
    for (const std::string &b : r.batches) (once && !r.b.axes.count(b) ? sharing : order).push_back(b);
    if (p.parallel.is("depth")) {
        K = *r.K / parts_of_depth(r, plan.product, threads);
        C = parts_of_sums(s, C, plan, *K);
        k = C.state().def.reduction_axes.back().name();
        order.push_back(C.state().def.axes.back().name());
        C.parallel(order.back());
    }
    auto [ic, it] = C.split(i, p.row_block, {i + ".c", i + ".t"});
    auto [io, ii] = C.split(it, p.rows, {i + ".o", i + ".i"});
    LoopName jt = j, jc = "";
    if (by_columns || by_grid) {
        const int64_t down =
            by_grid && r.M ? std::clamp<int64_t>((*r.M + p.row_block - 1) / p.row_block, 1, threads) : 1;
        const int64_t across = (threads + down - 1) / down;
        const int64_t block = r.N ? balanced_block(*r.N, (*r.N + across - 1) / across, plan.columns) : plan.columns * 8;
        auto [outer, inner] = C.split(j, block, {j + ".c", j + ".t"});
        jc = outer, jt = inner;
        if (by_grid && group > 1 && (!r.N || *r.N % block))
            throw Unsupported(
                fmt::format("parallel=grid with multiply={}, where blocks of {} columns leave {}; take \"rows\" "
                            "or \"columns\", or another way to multiply",
                            plan.product.instruction, block,
                            r.N ? fmt::format("a rest of {}", *r.N % block) : "a rest that only a run knows"));
    }
    auto [jo, ji] = C.split(jt, plan.columns, {j + ".o", j + ".i"});
    auto [ko, ki] = C.split(k, p.depth, {r.k + ".o", r.k + ".i"});
    LoopName shared = ic; // the loop that cores divide
    if (by_columns) order.push_back(shared = jc);
    if (by_grid) {
        std::vector<LoopName> all = order;
        all.insert(all.end(), {jc, ic, io, ii, jo, ji, ko, ki});
        shared = ic = C.reorder(all).fuse(jc, ic, "blocks");
    }
    if (p.outer.is("rows"))
        order.insert(order.end(), {ic, ko, jo, io, ki});
    else {
        order.push_back(ko);
        order.insert(order.end(), sharing.begin(), sharing.end());
        order.insert(order.end(), {ic, jo, io, ki});
        const auto outermost = sharing.empty() ? std::nullopt : constant_extent(*find_axis(*c.sum, sharing[0].name));
        if (outermost.value_or(0) >= threads) shared = sharing.front();
    }
    // A's packed rows keep a vector's worth of contiguous steps together, so that packing uses
    // whole vectors. Not if the depth leaves a remainder, which would duplicate the code of all
    // tiles.
    plan.panels = !p.pack_b.is("blocks") && !p.pack_b.is("ahead");
    const int64_t run = lanes * group;
    plan.together =
        plan.copies_a && contiguous_in(r.a, r.k) && lanes > 1 && K && *K % run == 0 && p.depth % run == 0 ? run : group;
    LoopName step = ki, taken = "";
    if (plan.together > group) {
        auto [kb, km] = C.split(ki, plan.together, {r.k + ".b", r.k + ".m"});
        order.back() = kb;
        order.push_back(step = km);
    }
    const int64_t copies =
        plan.together > group ? std::min<int64_t>(plan.together / group, p.unroll_depth) : int64_t(p.unroll_depth);
    if (copies > 1) {
        auto [ks, ku] = C.split(step, copies * group, {r.k + ".s", r.k + ".u"});
        order.back() = ks;
        order.push_back(step = ku);
    }
    if (group > 1) {
        auto [kp, kg] = C.split(step, group, {r.k + ".p", r.k + ".g"});
        order.back() = step = kp;
        taken = kg;
    }
    const LoopName first_step =
        *std::next(std::find_if(order.begin(), order.end(), [&](const LoopName &l) { return l.name == io.name; }));
    order.push_back(ii);
    if (group > 1) {
        auto [jv, jl] = C.split(ji, lanes, {j + ".v", j + ".l"});
        order.insert(order.end(), {jv, jl, taken});
        C.reorder(order).unroll(jv);
        ji = jl;
    } else {
        order.push_back(ji);
        C.reorder(order);
        if (lanes > 1) C.vectorize(ji, lanes);
    }
    if (copies > 1) C.unroll(step);
    C.unroll(ii);
    if (by_rows || by_columns || by_grid) C.parallel(shared);

    if (plan.copies_a) copy_rows(op, plan, s.place_in(A, "L2", C.name(), p.outer.is("rows") ? ko : ic));
    if (p.pack_b.is("ahead")) {
        if (s.state().find(B)) s.stage(B).compute_root();
        copy_columns(op, plan, s.prepack(B, columns_layout(plan)));
    } else if (plan.copies_b) {
        const int64_t panel = p.depth * plan.columns * plan.product.b.bytes();
        const std::string near = panel <= cache_bytes(machine, "L1", panel) ? "L1" : smallest_level(machine, panel);
        StageHandle copy = s.place_in(B, plan.panels ? near : "L3", C.name(), plan.panels ? jo : ko);
        copy_columns(op, plan, copy);
        copy.layout(columns_layout(plan));
    }
    if (p.prefetch_c) C.prefetch(C.name(), io, 1);
    if (p.prefetch_b && !plan.copies_b && !p.pack_b.is("ahead")) C.prefetch(r.b.tensor, first_step, 1, C.name(), jo);
    C.accumulate_in("registers", io, p.join ? "join" : "reload");
    if (!c.consumer.empty() && !p.parallel.is("depth")) C.finish_in(c.consumer);
    if (group > 1) C.tensorize(ji, plan.product.instruction);
    return s;
}

} // namespace

bool is_matmul(const Op &op) { return matmul_roles(op).has_value(); }

Schedule schedule_matmul(const Op &op, const Machine &machine, const MatmulParameters &p) {
    const MatmulRoles r = *matmul_roles(op);
    Schedule s = schedule_one(op, machine, r, p, p.multiply, std::nullopt);
    if (!p.narrow || p.pack_b.is("ahead")) return s;
    const NarrowWay way = *narrow_way(r.contraction, op, r.a, r.b, machine);
    // Blocks of as many bytes as the other kernel's have more steps if the copies' elements are
    // smaller.
    const Product wide = product(p.multiply, r.contraction, op, r.a, r.b, machine),
                  narrow = product(way.instruction, r.contraction, op, r.a, r.b, machine);
    const int64_t times = std::max(1, std::min(wide.a.bytes() / narrow.a.bytes(), wide.b.bytes() / narrow.b.bytes()));
    MatmulParameters deeper = p;
    if (r.K && times > 1) {
        const int64_t depth = std::min(*r.K, balanced_block(*r.K, std::min(*r.K, p.depth * times), narrow.lanes));
        deeper.depth = Tile(depth, {depth});
    }
    return s.specialize(within(way.needs.input, way.needs.range.min, way.needs.range.max),
                        schedule_one(op, machine, r, deeper, way.instruction, way.needs));
}

Schedule matmul(const Op &op, const Machine &machine) {
    if (!is_matmul(op))
        throw UserError("op \"" + op.name() + "\" is no product of matrices; it is:\n" + op.to_string());
    return schedule_matmul(op, machine, matmul_parameters(op, machine));
}

} // namespace kumiko::library
