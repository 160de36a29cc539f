#include "schedules/library/matmul_plan.h"

#include <numeric>

namespace kumiko::library {

namespace {

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

// As many pieces as threads. The reduction in parts, where it may be cut, if these are long and tiles are fewer than cores or it is
// far longer than rows and columns; otherwise rows, while they leave each core some tiles and B is copied once for all or no larger
// than A; then the pieces that read the least of A and B, a grid only of equal ones, whose ends no tile tests.
Pieces pieces_for(int64_t threads, int64_t M, int64_t N, int64_t K, int64_t tile_rows, int64_t tile_columns, bool parts,
                  bool copied) {
    constexpr int64_t worth = 1 << 18,
                      long_part = 256; // products that pay for waking cores; steps that pay for a sum more
    constexpr int64_t few = 4;         // cores that rows alone serve
    if (threads == 1 || M * N * K < worth) return {};
    const int64_t down = (M + tile_rows - 1) / tile_rows, across = (N + tile_columns - 1) / tile_columns;
    const bool fills = down * across >= threads,
               very_long = K >= 32 * std::max(M, N); // each reads its part of A and B alone
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
            tall * wide * K + (tall + wide) * K; // products of the core that has most, and what it reads
        if (least == 0 || time < least) best = {.rows = rows, .columns = columns}, least = time;
    }
    return best;
}

// The same for products of tiles: columns, so that each panel of B is packed once, unless they are
// few.
Pieces tile_pieces(int64_t threads, int64_t M, int64_t N, int64_t K, const Product &product) {
    constexpr int64_t worth = 1 << 23; // products that pay for waking cores
    if (threads == 1 || M * N * K < worth) return {};
    const int64_t down = M / (2 * product.rows), across = N / (2 * product.lanes);
    if (across >= 2 * threads || across >= down) return {.columns = std::min(threads, across)};
    return {.rows = std::min(threads, down)};
}

// From a row of B to the next; an element's where only a call knows it.
int64_t bytes_between_rows(const Op &op, const MatmulRoles &r, int64_t N) {
    const Input &b = *op.find_input(r.b.tensor);
    for (size_t d = 0; b.stated_strides && d < r.b.indices.size(); d++) {
        if (Halide::Internal::expr_uses_var(r.b.indices[d], r.k))
            return Halide::Internal::as_const_int(b.strides[d]).value_or(1) * b.type.bytes();
    }
    return N * b.type.bytes();
}

// How many tiles may read rows of B as they lie before a copy pays. Rows of so many bytes that
// spread over the first cache by themselves serve more; a tile four vectors wide takes whole lines
// of each, which come in time from the second cache, so that many more may, unless two
// multiply-adds a cycle wait for vectors that each take parts of two lines. 0: rows of a few tiles.
int64_t readers_without_copy(int64_t row_bytes, bool reads_in_time, bool split_lines) {
    const int64_t met = row_bytes ? lines_met(row_bytes) : 1;
    if (reads_in_time && split_lines) return 24;
    if (reads_in_time) return met >= 16 ? 192 : met >= 2 || !row_bytes ? 96 : 48;
    return met >= 16 ? 32 : met >= 4 ? 12 : 4;
}

// Heights of the blocks of rows: those that divide all rows into some equal pieces; a few where their number is not known.
std::vector<int64_t> block_choices(std::optional<int64_t> M, int64_t rows) {
    std::vector<int64_t> blocks;
    if (!M) {
        for (int64_t n : {4, 8, 16, 32, 64}) blocks.push_back(n * rows);
        return blocks;
    }
    for (int64_t pieces : {16, 12, 8, 6, 4, 3, 2, 1}) {
        const int64_t block = even_block(*M, (*M + pieces - 1) / pieces, rows);
        if (block >= rows && (blocks.empty() || block > blocks.back())) blocks.push_back(block);
    }
    return blocks;
}

// Vectors across a panel of B that tiles read: as few columns computed twice by a last panel that
// moves inwards as can be; narrow where all of A stays in the second cache, which is then read for
// each panel, wide where it does not.
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

// Ways to multiply of a kernel that takes B packed. Steps that are taken several at once are packed
// where their number is known.
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
    std::vector<std::string> ways = product_ways(r.contraction, op, r.a, r.b, machine);
    if (packed_by == PackedBy::Caller) ways = ways_of_packed(ways, r, op, machine);
    p.multiply = Choice(M >= 4 ? ways.front() : "plain", ways);
    const Product product = library::product(p.multiply, r.contraction, op, r.a, r.b, machine);
    const int lanes = product.lanes, registers = accumulator_registers(machine);
    const bool converts = product.holds(op.find_input(r.a.tensor)->type, op.find_input(r.b.tensor)->type);
    const int64_t needed = std::max<int64_t>(1, (N + lanes - 1) / lanes);
    // Loads for a product are fewest where a tile is about as many vectors wide as rows high, and few rows of A, which may lie
    // pages apart, are read at once; with 16 registers only two vectors leave enough rows for the instruction's latency.
    const bool wide = has_wide_tiles(machine);
    const int64_t vectors = std::min<int64_t>(wide ? 4 : 2, needed), sums = wide && vectors > 2 ? 24 : registers;
    std::vector<int64_t> row_choices, vector_choices;
    // Rows of A a page apart meet in the same few lines of the first cache, of which one is left to B.
    const bool crowded =
        vectors == 1 && contiguous_in(r.a, r.k) && lines_met(K * op.find_input(r.a.tensor)->type.bytes()) == 1;
    const int64_t most_rows = std::min<int64_t>(crowded ? 7 : sums / vectors, std::max<int64_t>(M, 1));
    for (int64_t n = 1; n <= std::min<int64_t>({registers, 16, std::max<int64_t>(M, 1)}); n++) row_choices.push_back(n);
    for (int64_t n = 1; n <= std::min<int64_t>(4, needed); n++) vector_choices.push_back(n);
    p.rows = Tile::nearest(most_rows, row_choices);
    p.vectors = Tile::nearest(vectors, vector_choices);
    // A matrix of a few tiles: tiles of equal height, three vectors wide where that is all there is; otherwise a row less, which
    // leaves registers to the steps that are unrolled.
    const bool few = r.M && r.N && r.K && M <= 6 * most_rows && needed <= 4 && product.group == 1;
    if (few) {
        const bool whole = needed == 3 && !wide && registers >= 12;
        if (whole) p.vectors = Tile::nearest(3, vector_choices);
        const int64_t rows = whole ? registers / 3 : needed == 1 || wide ? most_rows : (registers - 2) / vectors;
        int64_t tile = even_block(M, rows, 1);
        if (N % lanes == 0 && M % tile != 0 && tile > 4 && M % (tile - 1) == 0) tile--; // no shorter one at the end
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

    // A panel of B (depth × columns) takes half of the first cache, a block of A half of the second. Where C is large, visits
    // to it cost more than reading the panel from the second cache, of which that of wide tiles takes a quarter.
    const int64_t columns = vectors * lanes, l2 = cache_bytes(machine, "L2", 512 << 10);
    const bool tall = M >= 768 && K >= 1024, deep = wide && M >= 384 && M * N * type.bytes() >= 2 * l2;
    const int64_t panel = (deep ? l2 / 4 : cache_bytes(machine, "L1", 32 << 10) / (tall ? 1 : 2) * (wide ? 2 : 1)) /
                          (columns * product.b.bytes());
    const int64_t depth = std::max<int64_t>(
        1,
        std::min<int64_t>(K, even_block(K, std::clamp<int64_t>(panel, 64, deep ? 1024 : 512), lanes * product.group)));
    std::vector<int64_t> depths = Tile::sizes(K, std::min<int64_t>(K, 64), 1024);
    depths.push_back(depth);
    std::sort(depths.begin(), depths.end());
    depths.erase(std::unique(depths.begin(), depths.end()), depths.end());
    p.depth = Tile(depth, depths);

    // Where a block of depth of B fits the third cache it is copied once for all rows; where all are large, the block of A leaves
    // its panels room.
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
    const int64_t readers = readers_without_copy(row, reads_b_in_time, split_lines);
    const bool pack = (M > readers * p.rows || converts) && K * N > 4096, blocked = pack && N > columns && third;
    std::vector<int64_t> blocks = block_choices(r.M, p.rows);
    // A packed block has to fit, its last tile counted whole.
    const int64_t fits = l2 / (depth * product.a.bytes());
    while (blocks.size() > 1 && (blocks.back() + p.rows - 1) / p.rows * p.rows > fits) blocks.pop_back();
    if (blocks.back() > fits) blocks = {std::max<int64_t>(p.rows, fits / p.rows * p.rows)};
    int64_t wish = std::clamp<int64_t>(second, p.rows, 1024);
    // Where blocks of rows stand outermost, or all of the reduction is one block, their results stay in the second cache while they are
    // summed and stored, unless these were so few rows that B is read too often.
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
        wish = r.M ? even_block(M, wish, p.rows) : std::min<int64_t>(192, fits);
    }
    p.row_block = Tile::nearest(wish, blocks);
    // The tile reads A a scalar at a time, so rows as they lie serve, unless many panels of B reuse them or they are so far
    // apart that they crowd each other out of the caches; columns are worth copying.
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
    // Sums of whole numbers are the compiler's to reorder, which over more steps costs registers.
    const int64_t alone = r.K && product.group == 1 ? 4 : 1; // steps of rows as they lie
    const int64_t steps = few                            ? (M <= p.rows && (K < 16 || !two_a_cycle) ? 8 : 4)
                          : prefetches_b && !split_lines ? 2
                          : !pack                        ? alone
                          : product.group > 1            ? 2
                                                         : 4;
    p.unroll_depth = Tile(steps, {1, 2, 4, 8});
    std::vector<std::string> shares = {"none", "rows", "columns"};
    if (!product.tiles() && (product.group == 1 || r.N))
        shares.push_back("grid"); // whose rest of columns would be tested by lane
    if (parts) shares.push_back("depth");
    const std::string wished = pieces.way();
    const bool has = std::find(shares.begin(), shares.end(), wished) != shares.end();
    p.parallel = Choice(has ? wished : M >= N ? "rows" : "columns", shares);
    // Looking at an operand costs about as much as a few rows of products with it.
    constexpr int64_t enough_rows = 16;
    const bool narrow = packed_by == PackedBy::Kernel && !p.multiply.is("plain") &&
                        narrow_way(r.contraction, op, r.a, r.b, machine).has_value();
    p.narrow = Flag(narrow && r.M.value_or(0) >= enough_rows && r.N.value_or(0) >= enough_rows,
                    narrow ? std::vector<bool>{false, true} : std::vector<bool>{false});
    return p;
}

} // namespace kumiko::library
