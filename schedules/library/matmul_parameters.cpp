#include "schedules/library/matmul_plan.h"

#include <numeric>

namespace kumiko::library {

namespace {

// How many of the 64 L1 sets (one page of lines) are used by rows that are `bytes` apart.
int64_t lines_met(int64_t bytes) {
    constexpr int64_t line = 64, sets = 64;
    return bytes % line ? sets : sets / std::gcd(bytes / line, sets);
}

// The number of cores that divide the rows, the columns and the reduction.
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

// As many pieces as threads. Divides the reduction if that is allowed, its parts are long, and
// there are fewer tiles than cores or it is far longer than rows and columns. Otherwise divides
// rows, while each core gets some tiles and B is packed once for all or is not much larger than A.
// Otherwise takes the pieces that read the least of A and B; a grid only of equal pieces, so that
// no tile tests its end.
Pieces pieces_for(int64_t threads, int64_t M, int64_t N, int64_t K, int64_t tile_rows, int64_t tile_columns, bool parts,
                  bool copied) {
    constexpr int64_t worth = 1 << 18, // products that pay for waking cores
        long_part = 256;               // steps that pay for another sum
    constexpr int64_t few = 4;         // cores up to which dividing rows suffices
    if (threads == 1 || M * N * K < worth) return {};
    const int64_t down = (M + tile_rows - 1) / tile_rows, across = (N + tile_columns - 1) / tile_columns;
    const bool fills = down * across >= threads,
               very_long = K >= 32 * std::max(M, N); // each part reads its own A and B
    if (parts && K >= threads * long_part && (!fills || very_long)) return {.depth = threads};
    if (threads <= few && M >= 2 * threads * tile_rows && (copied || N <= 2 * M)) return {.rows = threads};
    Pieces best;
    int64_t least = 0;
    for (int64_t rows = 1; rows <= threads; rows++) {
        const int64_t columns = threads / rows;
        const bool equal = M % rows == 0 && N % (columns * tile_columns) == 0;
        if (threads % rows || (rows > 1 && columns > 1 && !equal)) continue;
        const int64_t tall = (down + rows - 1) / rows * tile_rows,
                      wide = (across + columns - 1) / columns * tile_columns;
        const int64_t time =
            // The busiest core's products, and its reads.
            tall * wide * K + (tall + wide) * K;
        if (least == 0 || time < least) best = {.rows = rows, .columns = columns}, least = time;
    }
    return best;
}

// The same for tile instructions: columns, so that each panel of B is packed once, unless there are
// few.
Pieces tile_pieces(int64_t threads, int64_t M, int64_t N, int64_t K, const Product &product) {
    constexpr int64_t worth = 1 << 23; // products worth waking cores
    if (threads == 1 || M * N * K < worth) return {};
    const int64_t down = M / (2 * product.rows), across = N / (2 * product.lanes);
    if (across >= 2 * threads || across >= down) return {.columns = std::min(threads, across)};
    return {.rows = std::min(threads, down)};
}

// Bytes from a row of B to the next; one element if the stride is known only at run time.
int64_t bytes_between_rows(const Op &op, const MatmulRoles &r, int64_t N) {
    const Input &b = *op.find_input(r.b.tensor);
    for (size_t d = 0; b.stated_strides && d < r.b.indices.size(); d++) {
        if (Halide::Internal::expr_uses_var(r.b.indices[d], r.k))
            return Halide::Internal::as_const_int(b.strides[d]).value_or(1) * b.type.bytes();
    }
    return N * b.type.bytes();
}

// The number of row tiles that can reuse unpacked B before packing pays. It grows with the number
// of L1 sets that a row of B covers. A tile four vectors wide loads whole lines, which arrive from
// L2 in time, so it tolerates more, unless split lines delay two multiply-adds per cycle.
// `row_bytes` 0: B's rows are not contiguous, or are shorter than eight tiles.
int64_t max_unpacked_reuse(int64_t row_bytes, bool reads_in_time, bool split_lines) {
    const int64_t met = row_bytes ? lines_met(row_bytes) : 1;
    if (reads_in_time && split_lines) return 24;
    if (reads_in_time) return met >= 16 ? 192 : met >= 2 || !row_bytes ? 96 : 48;
    return met >= 16 ? 32 : met >= 4 ? 12 : 4;
}

// Heights of row blocks: those that divide all rows into equal pieces; a few multiples of the tile
// if the number of rows is unknown.
std::vector<int64_t> block_choices(std::optional<int64_t> M, int64_t rows) {
    std::vector<int64_t> blocks;
    if (!M) {
        for (int64_t n : {4, 8, 16, 32, 64}) blocks.push_back(n * rows);
        return blocks;
    }
    for (int64_t pieces : {16, 12, 8, 6, 4, 3, 2, 1}) {
        const int64_t block = balanced_block(*M, (*M + pieces - 1) / pieces, rows);
        if (block >= rows && (blocks.empty() || block > blocks.back())) blocks.push_back(block);
    }
    return blocks;
}

// Vectors per panel of B for tile instructions. Minimizes the columns that a shifted last panel
// computes twice. Panels are narrow if A stays in L2, from which each panel rereads it, and wide
// otherwise.
int64_t panel_vectors(int64_t M, int64_t N, int64_t K, const Product &product, int64_t l2) {
    const int64_t across = 2 * product.lanes;
    const int64_t wish = M * K * product.a.bytes() > l2 / 2 ? 256 : 64;
    const int64_t most = std::clamp(l2 / 4 / std::max<int64_t>(1, K * product.b.bytes()), across, wish);
    int64_t best = across, least = 0;
    for (int64_t columns = across; columns <= most; columns += across) {
        const int64_t computed = (N + columns - 1) / columns * columns;
        if (least == 0 || computed <= least) best = columns, least = computed;
    }
    return best / product.lanes;
}

// Multiplication strategies of a kernel that receives B packed. Grouped steps require a constant
// number of steps.
std::vector<std::string> ways_of_packed(const std::vector<std::string> &ways, const MatmulRoles &r, const Op &op,
                                        const Machine &machine) {
    std::vector<std::string> kept;
    for (const std::string &way : ways) {
        const Product p = product(way, r.contraction, op, r.a, r.b, machine);
        if (p.group == 1 || r.K) kept.push_back(way);
    }
    return kept;
}

} // namespace

MatmulParameters matmul_parameters(const Op &op, const Machine &machine, PackedBy packed_by) {
    const MatmulRoles r = *matmul_roles(op);
    const Type type = r.contraction.sum->type;
    const int64_t M = r.M.value_or(1 << 20), N = r.N.value_or(1 << 20), K = r.K.value_or(1 << 20);

    MatmulParameters p;
    std::vector<std::string> ways = multiply_strategies(r.contraction, op, r.a, r.b, machine);
    if (packed_by == PackedBy::Caller) ways = ways_of_packed(ways, r, op, machine);
    p.multiply = Choice(M >= 4 ? ways.front() : "plain", ways);
    const Product product = library::product(p.multiply, r.contraction, op, r.a, r.b, machine);
    const int lanes = product.lanes, registers = accumulator_registers(machine);
    const bool converts = product.holds(op.find_input(r.a.tensor)->type, op.find_input(r.b.tensor)->type);
    const int64_t needed = std::max<int64_t>(1, (N + lanes - 1) / lanes);
    // Loads per product are fewest if a tile is about as many vectors wide as rows high, and few
    // rows of A, which may be pages apart, are read at once. With 16 registers, only two vectors
    // leave enough rows to hide the instruction's latency.
    const bool wide = has_wide_tiles(machine);
    const int64_t vectors = std::min<int64_t>(wide ? 4 : 2, needed), sums = wide && vectors > 2 ? 24 : registers;
    std::vector<int64_t> row_choices, vector_choices;
    // Rows of A a page apart share the same few L1 lines, of which one is left to B.
    const bool crowded =
        vectors == 1 && contiguous_in(r.a, r.k) && lines_met(K * op.find_input(r.a.tensor)->type.bytes()) == 1;
    const int64_t most_rows = std::min<int64_t>(crowded ? 7 : sums / vectors, std::max<int64_t>(M, 1));
    for (int64_t n = 1; n <= std::min<int64_t>({registers, 16, std::max<int64_t>(M, 1)}); n++) row_choices.push_back(n);
    for (int64_t n = 1; n <= std::min<int64_t>(4, needed); n++) vector_choices.push_back(n);
    p.rows = Tile::nearest(most_rows, row_choices);
    p.vectors = Tile::nearest(vectors, vector_choices);
    // A matrix of a few tiles uses tiles of equal height, three vectors wide if these are all
    // columns. Otherwise tiles have a row less, which leaves registers for unrolled steps.
    const bool few = r.M && r.N && r.K && M <= 6 * most_rows && needed <= 4 && product.group == 1;
    if (few) {
        const bool whole = needed == 3 && !wide && registers >= 12;
        if (whole) p.vectors = Tile::nearest(3, vector_choices);
        const int64_t rows = whole ? registers / 3 : needed == 1 || wide ? most_rows : (registers - 2) / vectors;
        int64_t tile = balanced_block(M, rows, 1);
        // avoids a shorter last tile
        if (N % lanes == 0 && M % tile != 0 && tile > 4 && M % (tile - 1) == 0) tile--;
        p.rows = Tile::nearest(tile, row_choices);
    }

    const int64_t threads = threads_of(machine);
    Pieces pieces;
    if (product.tiles()) {
        pieces = tile_pieces(threads, M, N, K, product);
        const int64_t width = (N + pieces.columns - 1) / pieces.columns;
        std::vector<int64_t> widths;
        for (int64_t n = 2; n <= 16; n += 2) widths.push_back(n);
        p.vectors = Tile::nearest(panel_vectors(M, width, K, product, cache_bytes(machine, "L2", 512 << 10)), widths);
    }

    // A panel of B (depth × columns) takes half of L1, a block of A half of L2. If C is large,
    // revisiting it costs more than reading the panel from L2, of which panels for wide tiles take
    // a quarter.
    const int64_t columns = vectors * lanes, l2 = cache_bytes(machine, "L2", 512 << 10);
    const bool tall = M >= 768 && K >= 1024, deep = wide && M >= 384 && M * N * type.bytes() >= 2 * l2;
    const int64_t panel = (deep ? l2 / 4 : cache_bytes(machine, "L1", 32 << 10) / (tall ? 1 : 2) * (wide ? 2 : 1)) /
                          (columns * product.b.bytes());
    const int64_t depth =
        std::max<int64_t>(1, std::min<int64_t>(K, balanced_block(K, std::clamp<int64_t>(panel, 64, deep ? 1024 : 512),
                                                                 lanes * product.group)));
    std::vector<int64_t> depths = Tile::sizes(K, std::min<int64_t>(K, 64), 1024);
    depths.push_back(depth);
    std::sort(depths.begin(), depths.end());
    depths.erase(std::unique(depths.begin(), depths.end()), depths.end());
    p.depth = Tile(depth, depths);

    // If a depth block of B fits L3, it is packed once for all rows. If all matrices are large, the
    // block of A leaves room for its panels.
    const bool third =
        machine.find_level("L3") && depth * (r.N ? N : 0) * product.b.bytes() <= cache_bytes(machine, "L3", 0);
    const bool large = M >= 384 && N >= 256 && (K > depth || (deep && K > 256)) && third;
    const int64_t second = l2 / (large && !deep ? 4 : 2) / (depth * product.a.bytes());
    const int64_t row = contiguous_in(r.b, r.j) && N >= 8 * columns ? N * op.find_input(r.b.tensor)->type.bytes() : 0;
    constexpr int64_t line = 64;
    const bool two_a_cycle = machine.fmas_per_cycle >= 2 && lanes * type.bytes() >= line;
    const bool reads_b_in_time =
        wide && contiguous_in(r.b, r.j) && (machine.fmas_per_cycle == 1 || (two_a_cycle && product.group == 1));
    const bool split_lines = two_a_cycle && N > columns && bytes_between_rows(op, r, N) % line;
    const int64_t readers = max_unpacked_reuse(row, reads_b_in_time, split_lines);
    const bool pack = (M > readers * p.rows || converts) && K * N > 4096, blocked = pack && N > columns && third;
    std::vector<int64_t> blocks = block_choices(r.M, p.rows);
    // A packed block must fit, including its whole last tile.
    const int64_t fits = l2 / (depth * product.a.bytes());
    while (blocks.size() > 1 && (blocks.back() + p.rows - 1) / p.rows * p.rows > fits) blocks.pop_back();
    if (blocks.back() > fits) blocks = {std::max<int64_t>(p.rows, fits / p.rows * p.rows)};
    int64_t wish = std::clamp<int64_t>(second, p.rows, 1024);
    // If row blocks are outermost, or the reduction is one block, their results stay in L2 while
    // they are summed and stored, unless there were so few rows that B is read too often.
    const int64_t stay = l2 / 2 / (std::max<int64_t>(N, 1) * type.bytes());
    if (wide && (!blocked || K <= depth) && stay >= 16 * p.rows) wish = std::min(wish, stay);
    const bool parts = parts_of_depth(r, product, std::max<int64_t>(2, threads)) > 1;
    if (!product.tiles()) pieces = pieces_for(threads, M, N, K, p.rows, columns, parts, pack);
    if (pieces.rows > 1) wish = std::min(wish, (M + pieces.rows - 1) / pieces.rows);
    if (pieces.rows > 1 && pieces.columns > 1) { // equal blocks
        while (M % wish) wish--;
        blocks.insert(std::lower_bound(blocks.begin(), blocks.end(), wish), wish);
        blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
    } else {
        wish = r.M ? balanced_block(M, wish, p.rows) : std::min<int64_t>(192, fits);
    }
    p.row_block = Tile::nearest(wish, blocks);
    // The tile reads A one scalar at a time, so unpacked rows suffice, unless many panels of B
    // reuse them or they are so far apart that they conflict in the caches. Columns are worth
    // packing.
    p.pack_a = Flag((large && (pack || !wide) && (M >= 768 || K * type.bytes() >= 4096)) ||
                        (!contiguous_in(r.a, r.k) && M >= 2 * p.rows),
                    {false, true});
    std::vector<std::string> copies = {"panel"};
    if (contiguous_in(r.b, r.j)) copies.insert(copies.begin(), "none");
    if (machine.find_level("L3")) copies.push_back("blocks");
    copies.push_back("ahead");
    const bool as_it_lies = contiguous_in(r.b, r.j) && !converts && product.group == 1;
    // With at most two row blocks, packing each panel twice is cheaper than reloading packed B from
    // L3.
    const bool repacks_panels =
        has_slow_l3(machine) && as_it_lies && M <= 2 * p.row_block && depth * N * product.b.bytes() > l2;
    const bool panels = pack || !contiguous_in(r.b, r.j);
    p.pack_b = Choice(blocked && !repacks_panels ? "blocks" : panels ? "panel" : "none", copies);
    p.outer = Choice(blocked ? "depth" : "rows", {"rows", "depth"});
    p.join = Flag(K > depth, K > depth ? std::vector<bool>{false, true} : std::vector<bool>{false});
    p.prefetch_c = Flag(K > depth, K > depth ? std::vector<bool>{false, true} : std::vector<bool>{false});
    const bool prefetches_b = as_it_lies && !pack && !few && M >= 2 * p.rows && has_slow_l3(machine) && r.K &&
                              N > columns && K * N * product.b.bytes() > l2;
    p.prefetch_b = Flag(prefetches_b, as_it_lies ? std::vector<bool>{false, true} : std::vector<bool>{false});
    // The compiler may reorder sums of integers, which over more steps costs registers.
    const int64_t alone = r.K && product.group == 1 ? 4 : 1; // steps of unpacked rows
    const int64_t steps = few                            ? (M <= p.rows && (K < 16 || !two_a_cycle) ? 8 : 4)
                          : prefetches_b && !split_lines ? 2
                          : !pack                        ? alone
                          : product.group > 1            ? 2
                                                         : 4;
    p.unroll_depth = Tile(steps, {1, 2, 4, 8});
    std::vector<std::string> shares = {"none", "rows", "columns"};
    if (!product.tiles() && (product.group == 1 || r.N))
        shares.push_back("grid"); // the last columns of a grid would be tested per lane
    if (parts) shares.push_back("depth");
    const std::string wished = pieces.way();
    const bool has = std::find(shares.begin(), shares.end(), wished) != shares.end();
    p.parallel = Choice(has ? wished : M >= N ? "rows" : "columns", shares);
    // Checking an operand's values costs about as much as a few rows of products with it.
    constexpr int64_t enough_rows = 16;
    const bool narrow = packed_by == PackedBy::Kernel && !p.multiply.is("plain") &&
                        narrow_way(r.contraction, op, r.a, r.b, machine).has_value();
    p.narrow = Flag(narrow && r.M.value_or(0) >= enough_rows && r.N.value_or(0) >= enough_rows,
                    narrow ? std::vector<bool>{false, true} : std::vector<bool>{false});
    return p;
}

} // namespace kumiko::library
