#include "schedules/library/matmul.h"

#include "schedules/library/structure.h"
#include "support/error.h"

namespace kumiko::library {

namespace {

struct Roles : MatrixProduct {
    std::optional<int64_t> M, N, K;
};

std::optional<Roles> roles(const Op &op) {
    const auto p = find_matrix_product(op);
    if (!p || !is_plain(p->a) || !is_plain(p->b)) return std::nullopt;
    Roles r{*p, {}, {}, {}};
    const Stage &sum = *p->contraction.sum;
    r.M = constant_extent(*find_axis(sum, r.i));
    r.N = constant_extent(*find_axis(sum, r.j));
    r.K = constant_extent(*find_axis(sum, r.k));
    return r;
}

// The last axis of an operand is the one whose neighbours are neighbours in memory.
bool contiguous_in(const Operand &o, const std::string &axis) {
    return o.indices.back().as<Halide::Internal::Variable>()->name == axis;
}

} // namespace

bool is_matmul(const Op &op) { return roles(op).has_value(); }

MatmulParameters matmul_parameters(const Op &op, const Machine &machine) {
    const Roles r = *roles(op);
    const Type type = r.contraction.sum->type;
    const int lanes = vector_lanes(machine, type), registers = accumulator_registers(machine);
    const int64_t M = r.M.value_or(1 << 20), N = r.N.value_or(1 << 20), K = r.K.value_or(1 << 20);

    MatmulParameters p;
    const int64_t needed = std::max<int64_t>(1, (N + lanes - 1) / lanes);
    const int64_t vectors = std::min<int64_t>(2, needed);
    std::vector<int64_t> row_choices, vector_choices;
    const int64_t most_rows = std::min<int64_t>(registers / vectors, std::max<int64_t>(M, 1));
    for (int64_t n = 1; n <= std::min<int64_t>({registers, 16, std::max<int64_t>(M, 1)}); n++) row_choices.push_back(n);
    for (int64_t n = 1; n <= std::min<int64_t>(4, needed); n++) vector_choices.push_back(n);
    p.rows = Tile::nearest(most_rows, row_choices);
    p.vectors = Tile::nearest(vectors, vector_choices);

    // A panel of B (depth × columns) takes half of the first cache, a block of A half of the second. Where C is large, visits
    // to it cost more than reading the panel from the second cache.
    const int64_t columns = vectors * lanes;
    const bool tall = M >= 768 && K >= 1024;
    const int64_t panel = cache_bytes(machine, "L1", 32 << 10) / (tall ? 1 : 2) / (columns * type.bytes());
    const int64_t depth = std::min<int64_t>(K, even_block(K, std::clamp<int64_t>(panel, 64, 512), lanes));
    std::vector<int64_t> depths = Tile::sizes(K, std::min<int64_t>(K, 64), 1024);
    depths.push_back(std::max<int64_t>(depth, 1));
    std::sort(depths.begin(), depths.end());
    depths.erase(std::unique(depths.begin(), depths.end()), depths.end());
    p.depth = Tile(std::max<int64_t>(depth, 1), depths);

    // Where a block of depth of B fits the third cache it is copied once for all rows; where all are large, the block of A leaves
    // its panels room.
    const bool third =
        machine.find_level("L3") && depth * (r.N ? N : 0) * type.bytes() <= cache_bytes(machine, "L3", 0);
    const bool large = M >= 384 && N >= 256 && K > depth && third;
    const int64_t second = cache_bytes(machine, "L2", 512 << 10) / (large ? 4 : 2) / (depth * type.bytes());
    const int64_t threads = std::max<int64_t>(1, machine.find_unit("core") ? machine.units_in_all("core") : 1);
    std::vector<int64_t> blocks;
    for (int64_t pieces : {1, 2, 3, 4, 6, 8, 12, 16}) {
        const int64_t block = even_block(M, (M + pieces - 1) / pieces, p.rows);
        if (block >= p.rows && (blocks.empty() || block < blocks.back())) blocks.push_back(block);
    }
    std::reverse(blocks.begin(), blocks.end());
    if (!r.M) { // pieces of what is not known are no measure
        blocks.clear();
        for (int64_t n : {4, 8, 16, 32, 64}) blocks.push_back(n * p.rows);
    }
    // A packed block has to fit, its last tile counted whole.
    const int64_t fits = cache_bytes(machine, "L2", 512 << 10) / (depth * type.bytes());
    while (blocks.size() > 1 && (blocks.back() + p.rows - 1) / p.rows * p.rows > fits) blocks.pop_back();
    if (blocks.back() > fits) blocks = {std::max<int64_t>(p.rows, fits / p.rows * p.rows)};
    int64_t wish = std::clamp<int64_t>(second, p.rows, 1024);
    const bool by_rows = threads > 1 && M >= 2 * threads * p.rows;
    if (by_rows) wish = std::min(wish, (M + threads - 1) / threads);
    p.row_block = Tile::nearest(r.M ? even_block(M, wish, p.rows) : std::min<int64_t>(192, fits), blocks);
    // The tile reads A a scalar at a time, so rows as they lie serve, unless many panels of B reuse them or they are so far
    // apart that they crowd each other out of the caches; columns are worth copying.
    p.pack_a = Flag((large && (M >= 768 || K * type.bytes() >= 4096)) || (!contiguous_in(r.a, r.k) && M >= 2 * p.rows),
                    {false, true});
    const bool pack = M > 4 * p.rows && K * N > 4096, blocked = pack && N > columns && third;
    std::vector<std::string> ways = {"panel"};
    if (contiguous_in(r.b, r.j)) ways.insert(ways.begin(), "none");
    if (machine.find_level("L3")) ways.push_back("blocks");
    p.pack_b = Choice(blocked ? "blocks" : pack || !contiguous_in(r.b, r.j) ? "panel" : "none", ways);
    p.outer = Choice(blocked ? "depth" : "rows", {"rows", "depth"});
    p.join = Flag(K > depth, K > depth ? std::vector<bool>{false, true} : std::vector<bool>{false});
    p.prefetch_c = Flag(K > depth, K > depth ? std::vector<bool>{false, true} : std::vector<bool>{false});
    p.unroll_depth = Tile(pack ? 4 : 1, {1, 2, 4, 8});
    p.parallel = Choice(threads == 1 || M * N * K < (1 << 18) ? "none"
                        : by_rows                             ? "rows"
                                                              : "columns",
                        {"none", "rows", "columns"});
    return p;
}

Schedule schedule_matmul(const Op &op, const Machine &machine, const MatmulParameters &p) {
    const Roles r = *roles(op);
    const Contraction &c = r.contraction;
    const int lanes = vector_lanes(machine, c.sum->type);
    Schedule s(op, machine);
    StageHandle C = s.stage(c.sum->name);
    const int64_t columns = p.vectors * lanes;
    const std::string i = r.i, j = r.j, k = r.k;

    // Blocks: rows for the second cache, columns for threads, depth for the first cache.
    const bool by_columns = p.parallel.is("columns");
    std::vector<LoopName> order;
    for (const std::string &b : r.batches) order.push_back(b);
    auto [ic, it] = C.split(i, p.row_block, {i + ".c", i + ".t"});
    auto [io, ii] = C.split(it, p.rows, {i + ".o", i + ".i"});
    LoopName jt = j, jc = "";
    if (by_columns) {
        const int64_t threads = std::max<int64_t>(2, machine.find_unit("core") ? machine.units_in_all("core") : 2);
        const int64_t block = r.N ? even_block(*r.N, (*r.N + threads - 1) / threads, columns) : columns * 8;
        auto [outer, inner] = C.split(j, block, {j + ".c", j + ".t"});
        jc = outer, jt = inner;
        order.push_back(jc);
    }
    auto [jo, ji] = C.split(jt, columns, {j + ".o", j + ".i"});
    auto [ko, ki] = C.split(k, p.depth, {k + ".o", k + ".i"});
    if (p.outer.is("rows"))
        order.insert(order.end(), {ic, ko, jo, io, ki});
    else
        order.insert(order.end(), {ko, ic, jo, io, ki});
    // A copied from rows keeps a vector's worth of each row together, so that copying it takes whole vectors; not where the
    // depth leaves a rest, for which all tiles would stand in the code once more.
    const int64_t run = p.pack_a && contiguous_in(r.a, k) && lanes > 1 && r.K && *r.K % lanes == 0 ? lanes : 1;
    LoopName step = ki;
    if (run > 1) {
        auto [kb, km] = C.split(ki, run, {k + ".b", k + ".m"});
        order.back() = kb;
        order.push_back(step = km);
    }
    const int64_t copies = run > 1 ? std::min<int64_t>(run, p.unroll_depth) : int64_t(p.unroll_depth);
    if (copies > 1) {
        auto [ks, ku] = C.split(step, copies, {k + ".s", k + ".u"});
        order.back() = ks;
        order.push_back(ku);
    }
    order.insert(order.end(), {ii, ji});
    C.reorder(order);
    if (copies > 1) C.unroll(k + ".u");
    C.unroll(ii);
    if (lanes > 1) C.vectorize(ji, lanes);
    if (by_columns)
        C.parallel(jc);
    else if (p.parallel.is("rows"))
        C.parallel(ic);

    if (p.pack_a) {
        StageHandle A = s.place_in(r.a.tensor, "L2", C.name(), p.outer.is("rows") ? ko : ic);
        std::vector<std::string> layout;
        for (const std::string &b : r.batches) {
            if (r.a.axes.count(b)) layout.push_back(b);
        }
        const std::string rows = std::to_string(p.rows), together = std::to_string(run);
        if (run > 1)
            layout.insert(layout.end(), {i + "/" + rows, k + "/" + together, i + "%" + rows, k + "%" + together});
        else
            layout.insert(layout.end(), {i + "/" + rows, k, i + "%" + rows});
        A.layout(layout);
        if (contiguous_in(r.a, k)) {
            auto [o, in] = A.split(i, p.rows);
            std::vector<LoopName> loops;
            for (const std::string &b : r.batches) {
                if (r.a.axes.count(b)) loops.push_back(b);
            }
            if (run > 1) {
                auto [kb, km] = A.split(k, run);
                loops.insert(loops.end(), {o, kb, in, km});
                A.reorder(loops).unroll(in).vectorize(km);
            } else {
                loops.insert(loops.end(), {o, k, in});
                A.reorder(loops).unroll(in);
            }
        }
    }
    if (!p.pack_b.is("none")) {
        const bool panel = p.pack_b.is("panel");
        StageHandle B = s.place_in(r.b.tensor, panel ? "L1" : "L3", C.name(), panel ? jo : ko);
        std::vector<std::string> layout, batches;
        for (const std::string &b : r.batches) {
            if (r.b.axes.count(b)) batches.push_back(b);
        }
        layout = batches;
        if (panel) {
            layout.insert(layout.end(), {k, j});
        } else {
            const std::string wide = std::to_string(columns);
            layout.insert(layout.end(), {j + "/" + wide, k, j + "%" + wide});
            // Some panels at a time, so that whole pages of B's rows are read.
            auto [o, in] = B.split(j, 4 * columns, {j + ".p", j + ".q"});
            std::vector<LoopName> loops(batches.begin(), batches.end());
            loops.insert(loops.end(), {o, k, in});
            B.reorder(loops);
            if (p.parallel.is("rows") && p.outer.is("depth")) B.parallel(o);
            if (contiguous_in(r.b, j) && lanes > 1) B.vectorize(in, lanes).unroll(in.name + ".o");
        }
        B.layout(layout);
        if (panel && contiguous_in(r.b, j) && lanes > 1) B.vectorize(j, lanes);
    }
    if (p.prefetch_c) C.prefetch(C.name(), io, 1);
    C.accumulate_in("registers", io, p.join ? "join" : "reload");
    if (!c.consumer.empty()) C.finish_in(c.consumer);
    return s;
}

Schedule matmul(const Op &op, const Machine &machine) {
    if (!is_matmul(op))
        throw UserError("op \"" + op.name() + "\" is no product of matrices; it is:\n" + op.to_string());
    return schedule_matmul(op, machine, matmul_parameters(op, machine));
}

} // namespace kumiko::library
