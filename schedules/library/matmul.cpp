#include "schedules/library/matmul.h"

#include "dsl/types.h"
#include "schedules/library/product.h"
#include "support/error.h"

#include <fmt/format.h>
#include <numeric>

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

// How many of 64 sets of lines, a page of them, rows meet that lie so many bytes apart.
int64_t lines_met(int64_t bytes) {
    constexpr int64_t line = 64, sets = 64;
    return bytes % line ? sets : sets / std::gcd(bytes / line, sets);
}

// How many rows, columns and parts of the reduction go to cores of their own.
struct Pieces {
    int64_t rows = 1, columns = 1, depth = 1;
    std::string way() const {
        return depth > 1                 ? "depth"
               : rows > 1 && columns > 1 ? "grid"
               : rows > 1                ? "rows"
               : columns > 1             ? "columns"
                                         : "none";
    }
};

// As many pieces as threads. Rows first, while they leave each core some tiles; then the pieces that read the least of A and B, a
// grid only of equal ones, whose ends no tile tests; and where tiles are fewer than cores, the reduction in parts, if these are long.
Pieces pieces_for(int64_t threads, int64_t M, int64_t N, int64_t K, int64_t tile_rows, int64_t tile_columns) {
    constexpr int64_t worth = 1 << 18,
                      long_part = 256; // products that pay for waking cores; steps that pay for a sum more
    constexpr int64_t few = 4;         // cores that rows alone serve
    if (threads == 1 || M * N * K < worth) return {};
    const int64_t down = (M + tile_rows - 1) / tile_rows, across = (N + tile_columns - 1) / tile_columns;
    if (down * across < threads && K >= threads * long_part) return {.depth = threads};
    if (threads <= few && M >= 2 * threads * tile_rows) return {.rows = threads};
    Pieces best;
    int64_t least = 0;
    for (int64_t rows = 1; rows <= threads; rows++) {
        const int64_t columns = threads / rows;
        const bool equal = M % rows == 0 && N % (columns * tile_columns) == 0;
        if (threads % rows || (rows > 1 && columns > 1 && !equal)) continue;
        const int64_t tall = (down + rows - 1) / rows * tile_rows,
                      wide = (across + columns - 1) / columns * tile_columns;
        const int64_t time =
            tall * wide * K + (tall + wide) * K; // products of the core that has most, and what it reads
        if (least == 0 || time < least) best = {.rows = rows, .columns = columns}, least = time;
    }
    return best;
}

// Into how many equal parts the reduction may be cut, at most so many: 1 where the parts' sums may not be added afterwards.
int64_t parts_of_depth(const Roles &r, const Product &product, int64_t most) {
    const Stage &sum = *r.contraction.sum;
    if (!r.K || product.group > 1 || product.tiles() || !sum.properties.associative || !sum.properties.commutative)
        return 1;
    int64_t parts = std::max<int64_t>(1, std::min(most, *r.K));
    while (*r.K % parts) parts--;
    return parts;
}

} // namespace

bool is_matmul(const Op &op) { return roles(op).has_value(); }

MatmulParameters matmul_parameters(const Op &op, const Machine &machine) {
    const Roles r = *roles(op);
    const Type type = r.contraction.sum->type;
    const int64_t M = r.M.value_or(1 << 20), N = r.N.value_or(1 << 20), K = r.K.value_or(1 << 20);

    MatmulParameters p;
    const std::vector<std::string> ways = product_ways(r.contraction, op, r.a, r.b, machine);
    p.multiply = Choice(M >= 4 ? ways.front() : "plain", ways);
    const Product product = library::product(p.multiply, r.contraction, op, r.a, r.b, machine);
    const int lanes = product.lanes, registers = accumulator_registers(machine);
    const bool converts = product.holds(op.find_input(r.a.tensor)->type, op.find_input(r.b.tensor)->type);
    const int64_t needed = std::max<int64_t>(1, (N + lanes - 1) / lanes);
    const int64_t vectors = std::min<int64_t>(2, needed);
    std::vector<int64_t> row_choices, vector_choices;
    // Rows of A a page apart meet in the same few lines of the first cache, of which one is left to B.
    const bool crowded =
        vectors == 1 && contiguous_in(r.a, r.k) && lines_met(K * op.find_input(r.a.tensor)->type.bytes()) == 1;
    const int64_t most_rows = std::min<int64_t>(crowded ? 7 : registers / vectors, std::max<int64_t>(M, 1));
    for (int64_t n = 1; n <= std::min<int64_t>({registers, 16, std::max<int64_t>(M, 1)}); n++) row_choices.push_back(n);
    for (int64_t n = 1; n <= std::min<int64_t>(4, needed); n++) vector_choices.push_back(n);
    p.rows = Tile::nearest(most_rows, row_choices);
    p.vectors = Tile::nearest(vectors, vector_choices);
    // A matrix of a few tiles: tiles of equal height, three vectors wide where that is all there is; otherwise a row less, which
    // leaves registers to the steps that are unrolled.
    const bool few = r.M && r.N && r.K && M <= 6 * most_rows && needed <= 4 && product.group == 1;
    if (few) {
        const bool whole = needed == 3 && registers >= 12;
        if (whole) p.vectors = Tile::nearest(3, vector_choices);
        const int64_t rows = whole ? registers / 3 : needed == 1 ? most_rows : (registers - 2) / vectors;
        int64_t tile = even_block(M, rows, 1);
        if (N % lanes == 0 && M % tile != 0 && tile > 4 && M % (tile - 1) == 0) tile--; // no shorter one at the end
        p.rows = Tile::nearest(tile, row_choices);
    }

    // A panel of B (depth × columns) takes half of the first cache, a block of A half of the second. Where C is large, visits
    // to it cost more than reading the panel from the second cache.
    const int64_t columns = vectors * lanes;
    const bool tall = M >= 768 && K >= 1024;
    const int64_t panel = cache_bytes(machine, "L1", 32 << 10) / (tall ? 1 : 2) / (columns * product.b.bytes());
    const int64_t depth = std::min<int64_t>(K, even_block(K, std::clamp<int64_t>(panel, 64, 512), lanes));
    std::vector<int64_t> depths = Tile::sizes(K, std::min<int64_t>(K, 64), 1024);
    depths.push_back(std::max<int64_t>(depth, 1));
    std::sort(depths.begin(), depths.end());
    depths.erase(std::unique(depths.begin(), depths.end()), depths.end());
    p.depth = Tile(std::max<int64_t>(depth, 1), depths);

    // Where a block of depth of B fits the third cache it is copied once for all rows; where all are large, the block of A leaves
    // its panels room.
    const bool third =
        machine.find_level("L3") && depth * (r.N ? N : 0) * product.b.bytes() <= cache_bytes(machine, "L3", 0);
    const bool large = M >= 384 && N >= 256 && K > depth && third;
    const int64_t second = cache_bytes(machine, "L2", 512 << 10) / (large ? 4 : 2) / (depth * product.a.bytes());
    const int64_t threads = threads_of(machine);
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
    const int64_t fits = cache_bytes(machine, "L2", 512 << 10) / (depth * product.a.bytes());
    while (blocks.size() > 1 && (blocks.back() + p.rows - 1) / p.rows * p.rows > fits) blocks.pop_back();
    if (blocks.back() > fits) blocks = {std::max<int64_t>(p.rows, fits / p.rows * p.rows)};
    int64_t wish = std::clamp<int64_t>(second, p.rows, 1024);
    const Pieces pieces = pieces_for(threads, M, N, K, p.rows, columns);
    if (pieces.rows > 1) wish = std::min(wish, (M + pieces.rows - 1) / pieces.rows);
    if (pieces.rows > 1 && pieces.columns > 1) { // equal blocks
        while (M % wish) wish--;
        blocks.insert(std::lower_bound(blocks.begin(), blocks.end(), wish), wish);
        blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
    } else {
        wish = r.M ? even_block(M, wish, p.rows) : std::min<int64_t>(192, fits);
    }
    p.row_block = Tile::nearest(wish, blocks);
    // The tile reads A a scalar at a time, so rows as they lie serve, unless many panels of B reuse them or they are so far
    // apart that they crowd each other out of the caches; columns are worth copying.
    p.pack_a = Flag((large && (M >= 768 || K * type.bytes() >= 4096)) || (!contiguous_in(r.a, r.k) && M >= 2 * p.rows),
                    {false, true});
    // Rows of B that spread over the first cache by themselves are read as they lie, the better they do the more tiles may read them.
    const int64_t met =
        contiguous_in(r.b, r.j) && N >= 8 * columns ? lines_met(N * op.find_input(r.b.tensor)->type.bytes()) : 1;
    const int64_t readers = met >= 16 ? 32 : met >= 4 ? 12 : 4;
    const bool pack = (M > readers * p.rows || converts) && K * N > 4096, blocked = pack && N > columns && third;
    std::vector<std::string> copies = {"panel"};
    if (contiguous_in(r.b, r.j)) copies.insert(copies.begin(), "none");
    if (machine.find_level("L3")) copies.push_back("blocks");
    copies.push_back("ahead");
    p.pack_b = Choice(blocked ? "blocks" : pack || !contiguous_in(r.b, r.j) ? "panel" : "none", copies);
    p.outer = Choice(blocked ? "depth" : "rows", {"rows", "depth"});
    p.join = Flag(K > depth, K > depth ? std::vector<bool>{false, true} : std::vector<bool>{false});
    p.prefetch_c = Flag(K > depth, K > depth ? std::vector<bool>{false, true} : std::vector<bool>{false});
    // Sums of whole numbers are the compiler's to reorder, which over more steps costs registers.
    const int64_t alone = r.K && product.group == 1 ? 4 : 1; // steps of rows as they lie
    p.unroll_depth = Tile(few ? (M <= p.rows ? 8 : 4) : !pack ? alone : product.group > 1 ? 2 : 4, {1, 2, 4, 8});
    std::vector<std::string> shares = {"none", "rows", "columns"};
    if (!product.tiles()) shares.push_back("grid");
    const bool parts = parts_of_depth(r, product, std::max<int64_t>(2, threads)) > 1;
    if (parts) shares.push_back("depth");
    const std::string wished = pieces.way();
    const bool has = std::find(shares.begin(), shares.end(), wished) != shares.end();
    p.parallel = Choice(has ? wished : M >= N ? "rows" : "columns", shares);
    // Looking at an operand costs about as much as a few rows of products with it.
    constexpr int64_t enough_rows = 16;
    const bool narrow = narrow_way(r.contraction, op, r.a, r.b, machine).has_value() && !p.multiply.is("plain");
    p.narrow = Flag(narrow && r.M.value_or(0) >= enough_rows && r.N.value_or(0) >= enough_rows,
                    narrow ? std::vector<bool>{false, true} : std::vector<bool>{false});
    return p;
}

namespace {

// What the parts of a schedule have to know.
struct Plan {
    const Roles &r;
    const MatmulParameters &p;
    Product product;
    bool copies_a, panels; // A is copied; B is, panel by panel
    bool copies_b;
    int64_t columns;  // of the register tile
    int64_t together; // neighbours of a row of A that stay together in its copy
};

std::vector<LoopName> batches_of(const Plan &plan, const Operand &o) {
    std::vector<LoopName> loops;
    for (const std::string &b : plan.r.batches) {
        if (o.axes.count(b)) loops.push_back(b);
    }
    return loops;
}

std::vector<std::string> layout_of(const std::vector<LoopName> &batches, const std::vector<std::string> &terms) {
    std::vector<std::string> layout;
    for (const LoopName &b : batches) layout.push_back(b.name);
    layout.insert(layout.end(), terms.begin(), terms.end());
    return layout;
}

void copy_rows(Schedule &s, const Op &op, const Plan &plan, StageHandle A) {
    const Roles &r = plan.r;
    const std::string rows = std::to_string(plan.p.rows), run = std::to_string(plan.together);
    std::vector<LoopName> loops = batches_of(plan, r.a);
    if (plan.together > 1)
        A.layout(layout_of(loops, {r.i + "/" + rows, r.k + "/" + run, r.i + "%" + rows, r.k + "%" + run}));
    else
        A.layout(layout_of(loops, {r.i + "/" + rows, r.k, r.i + "%" + rows}));
    if (plan.product.a != op.find_input(r.a.tensor)->type) A.hold_as(type_name(plan.product.a));
    if (!contiguous_in(r.a, r.k)) return;
    auto [o, in] = A.split(r.i, plan.p.rows);
    loops.push_back(o);
    if (plan.together > 1) {
        auto [kb, km] = A.split(r.k, plan.together);
        loops.insert(loops.end(), {kb, in, km});
        A.reorder(loops).unroll(in).vectorize(km);
    } else {
        loops.insert(loops.end(), {r.k, in});
        A.reorder(loops).unroll(in);
    }
}

// B by panels as wide as the tile, the steps that an instruction takes at once side by side; one panel has no number.
std::vector<std::string> columns_layout(const Plan &plan) {
    const Roles &r = plan.r;
    const int group = plan.product.group;
    const std::string wide = std::to_string(plan.columns), steps = std::to_string(group);
    std::vector<std::string> terms = {group > 1 ? r.k + "/" + steps : r.k};
    terms.push_back(plan.panels ? r.j : r.j + "%" + wide);
    if (!plan.panels) terms.insert(terms.begin(), r.j + "/" + wide);
    if (group > 1) terms.push_back(r.k + "%" + steps);
    return layout_of(batches_of(plan, r.b), terms);
}

// Whole vectors of rows of B go to the copy; the steps that an instruction takes at once are interleaved.
void copy_columns(const Op &op, const Plan &plan, StageHandle B) {
    const Roles &r = plan.r;
    const int lanes = plan.product.lanes, group = plan.product.group;
    std::vector<LoopName> loops = batches_of(plan, r.b);
    if (plan.product.b != op.find_input(r.b.tensor)->type) B.hold_as(type_name(plan.product.b));
    LoopName in = r.j, k = r.k, inner = "";
    if (!plan.panels) { // some panels at a time, so that whole pages of B's rows are read
        auto [o, rest] = B.split(r.j, 4 * plan.columns, {r.j + ".p", r.j + ".q"});
        loops.push_back(o);
        in = rest;
        const bool all = plan.p.parallel.is("rows") || plan.p.parallel.is("grid"); // cores read all of it
        if (all && plan.p.outer.is("depth") && !plan.p.pack_b.is("ahead")) B.parallel(o);
    }
    if (group > 1) std::tie(k, inner) = B.split(r.k, group, {r.k + ".p", r.k + ".g"});
    const bool whole = contiguous_in(r.b, r.j) && lanes > 1;
    if (whole && group > 1) {
        auto [v, l] = B.split(in, lanes, {r.j + ".v", r.j + ".l"});
        loops.insert(loops.end(), {k, v, inner, l});
        B.reorder(loops).unroll(inner).vectorize(l);
        if (!plan.panels) B.unroll(v);
    } else {
        loops.push_back(k);
        if (group > 1) loops.push_back(inner);
        loops.push_back(in);
        B.reorder(loops);
        if (whole) B.vectorize(in, lanes);
        if (whole && !plan.panels) B.unroll(in.name + ".o");
    }
}

// The stage of the sums of parts of the reduction, so many steps each; C adds them in their order.
StageHandle parts_of_sums(Schedule &s, StageHandle C, const Plan &plan, int64_t steps) {
    const Roles &r = plan.r;
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

// By products of tiles: the instruction adds to C where it lies, at every step. A panel of B, as deep as the reduction, is copied into
// the order that the tiles take; A serves as it lies where its rows follow the reduction.
Schedule schedule_tiles(const Op &op, const Machine &machine, Plan plan) {
    const Roles &r = plan.r;
    const Product &t = plan.product;
    const std::string i = r.i, j = r.j, k = r.k;
    Schedule s(op, machine);
    StageHandle C = s.stage(r.contraction.sum->name);
    std::vector<LoopName> order;
    for (const std::string &b : r.batches) order.push_back(b);
    LoopName rows = i;
    if (plan.p.parallel.is("rows")) {
        const int64_t block = (plan.p.row_block + t.rows - 1) / t.rows * t.rows;
        auto [outer, inner] = C.split(i, block, {i + ".c", i + ".t"});
        order.push_back(outer);
        C.parallel(outer);
        rows = inner;
    }
    auto [io, ii] = C.split(rows, t.rows, {i + ".o", i + ".i"});
    auto [jo, jt] = C.split(j, plan.columns, {j + ".o", j + ".t"});
    auto [jv, jl] = C.split(jt, t.lanes, {j + ".v", j + ".l"});
    auto [ko, ks] = C.split(k, int64_t(t.groups) * t.group, {k + ".o", k + ".s"});
    auto [kp, kg] = C.split(ks, t.group, {k + ".p", k + ".g"});
    order.insert(order.end(), {jo, io, ko, jv, ii, jl, kp, kg});
    C.reorder(order);
    if (plan.p.parallel.is("columns")) C.parallel(jo);
    plan.panels = true;
    StageHandle B = s.place_in(r.b.tensor, "L2", C.name(), jo);
    copy_columns(op, plan, B);
    B.layout(columns_layout(plan));
    if (!contiguous_in(r.a, k))
        s.place_in(r.a.tensor, "L1", C.name(), io).layout(layout_of(batches_of(plan, r.a), {i, k}));
    if (!r.contraction.consumer.empty()) C.finish_in(r.contraction.consumer);
    C.tensorize(ii, t.instruction);
    return s;
}

// One way to multiply; `needs` is what the values have to be for it.
Schedule schedule_one(const Op &op, const Machine &machine, const Roles &r, const MatmulParameters &p,
                      const std::string &way, const std::optional<ValuesWithin> &needs) {
    const Contraction &c = r.contraction;
    Plan plan{.r = r, .p = p, .product = product(way, c, op, r.a, r.b, machine)};
    const int lanes = plan.product.lanes, group = plan.product.group;
    const bool wider_a = plan.product.a != op.find_input(r.a.tensor)->type;
    const bool wider_b = plan.product.b != op.find_input(r.b.tensor)->type;
    plan.columns = p.vectors * lanes;
    if (plan.product.tiles()) {
        if (p.pack_b.is("ahead"))
            throw Unsupported("pack_b=ahead with multiply=" + plan.product.instruction +
                              ", whose panels have an order of their own; take \"none\", or another way to multiply");
        if (p.parallel.is("grid") || p.parallel.is("depth"))
            throw Unsupported("parallel=" + std::string(p.parallel) + " with multiply=" + plan.product.instruction +
                              "; take \"rows\", \"columns\" or \"none\", or another way to multiply");
        return schedule_tiles(op, machine, plan);
    }
    Schedule s(op, machine);
    if (needs) s.assume(within(needs->input, needs->range.min, needs->range.max));
    StageHandle C = s.stage(c.sum->name);
    const std::string i = r.i, j = r.j;
    std::string k = r.k;

    // Blocks: rows for the second cache, rows or columns for threads, depth for the first cache.
    const bool by_rows = p.parallel.is("rows"), by_columns = p.parallel.is("columns"), by_grid = p.parallel.is("grid");
    const int64_t threads = std::max<int64_t>(2, threads_of(machine));
    std::vector<LoopName> order;
    for (const std::string &b : r.batches) order.push_back(b);
    if (p.parallel.is("depth")) {
        C = parts_of_sums(s, C, plan, *r.K / parts_of_depth(r, plan.product, threads));
        k = C.state().def.reduction_axes.back().name();
        order.push_back(C.state().def.axes.back().name());
        C.parallel(order.back());
    }
    auto [ic, it] = C.split(i, p.row_block, {i + ".c", i + ".t"});
    auto [io, ii] = C.split(it, p.rows, {i + ".o", i + ".i"});
    LoopName jt = j, jc = "";
    if (by_columns || by_grid) {
        const int64_t down = by_grid && r.M ? std::min(threads, (*r.M + p.row_block - 1) / p.row_block) : 1;
        const int64_t across = (threads + down - 1) / down;
        const int64_t block = r.N ? even_block(*r.N, (*r.N + across - 1) / across, plan.columns) : plan.columns * 8;
        auto [outer, inner] = C.split(j, block, {j + ".c", j + ".t"});
        jc = outer, jt = inner;
        if (by_grid && group > 1 && r.N && *r.N % block)
            throw Unsupported(
                fmt::format("parallel=grid with multiply={}, where blocks of {} columns leave a rest of {}; "
                            "take \"rows\" or \"columns\", or another way to multiply",
                            plan.product.instruction, block, *r.N % block));
    }
    auto [jo, ji] = C.split(jt, plan.columns, {j + ".o", j + ".i"});
    auto [ko, ki] = C.split(k, p.depth, {r.k + ".o", r.k + ".i"});
    LoopName shared = ic; // by the cores
    if (by_columns) order.push_back(shared = jc);
    if (by_grid) {
        std::vector<LoopName> all = order;
        all.insert(all.end(), {jc, ic, io, ii, jo, ji, ko, ki});
        shared = ic = C.reorder(all).fuse(jc, ic, "blocks");
    }
    if (p.outer.is("rows"))
        order.insert(order.end(), {ic, ko, jo, io, ki});
    else
        order.insert(order.end(), {ko, ic, jo, io, ki});
    // A copied from rows keeps a vector's worth of each row together, so that copying it takes whole vectors; not where the
    // depth leaves a rest, for which all tiles would stand in the code once more.
    plan.copies_a = p.pack_a || wider_a || (group > 1 && !contiguous_in(r.a, k));
    plan.copies_b = !p.pack_b.is("none") || wider_b || group > 1;
    plan.panels = !p.pack_b.is("blocks") && !p.pack_b.is("ahead");
    const int64_t run = lanes * group;
    plan.together = plan.copies_a && contiguous_in(r.a, k) && lanes > 1 && r.K && *r.K % run == 0 ? run : group;
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

    if (plan.copies_a) copy_rows(s, op, plan, s.place_in(r.a.tensor, "L2", C.name(), p.outer.is("rows") ? ko : ic));
    if (p.pack_b.is("ahead")) {
        copy_columns(op, plan, s.prepack(r.b.tensor, columns_layout(plan)));
    } else if (plan.copies_b) {
        StageHandle B = s.place_in(r.b.tensor, plan.panels ? "L1" : "L3", C.name(), plan.panels ? jo : ko);
        copy_columns(op, plan, B);
        B.layout(columns_layout(plan));
    }
    if (p.prefetch_c) C.prefetch(C.name(), io, 1);
    C.accumulate_in("registers", io, p.join ? "join" : "reload");
    if (!c.consumer.empty() && !p.parallel.is("depth")) C.finish_in(c.consumer);
    if (group > 1) C.tensorize(ji, plan.product.instruction);
    return s;
}

} // namespace

Schedule schedule_matmul(const Op &op, const Machine &machine, const MatmulParameters &p) {
    const Roles r = *roles(op);
    Schedule s = schedule_one(op, machine, r, p, p.multiply, std::nullopt);
    if (!p.narrow || p.pack_b.is("ahead")) return s;
    const NarrowWay way = *narrow_way(r.contraction, op, r.a, r.b, machine);
    // Blocks of as many bytes as the other kernel's are of more steps where the copies' elements are smaller.
    const Product wide = product(p.multiply, r.contraction, op, r.a, r.b, machine),
                  narrow = product(way.instruction, r.contraction, op, r.a, r.b, machine);
    const int64_t times = std::max(1, std::min(wide.a.bytes() / narrow.a.bytes(), wide.b.bytes() / narrow.b.bytes()));
    MatmulParameters deeper = p;
    if (r.K && times > 1) {
        const int64_t depth = std::min(*r.K, even_block(*r.K, std::min(*r.K, p.depth * times), narrow.lanes));
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
