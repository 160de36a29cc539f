#include "schedules/library/matmul_plan.h"

#include <numeric>

namespace kumiko::library {

namespace {

// How many of the 64 L1 sets (one page of lines) are used by rows that are `bytes` apart.
int64_t l1_sets_used(int64_t bytes) {
    constexpr int64_t sets = 64;
    return bytes % line_bytes ? sets : sets / std::gcd(bytes / line_bytes, sets);
}

// The number of cores that divide the rows, the columns and the reduction.
struct Pieces {
    int64_t rows = 1, columns = 1, depth = 1;
    std::string cores_choice() const {
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

// Row tiles that can reuse unpacked B before packing pays. Fitted to the suites gemm-f32 and
// gemm-small on AMD's processors with 16 and 32 vector registers, one thread; `split_lines` on
// Emerald Rapids (decision 0063).
struct UnpackedReuse {
    // Tiles that load whole lines of B from L2 in time, by the L1 sets that B's rows use.
    static constexpr int64_t in_time_spread = 192, in_time = 96, in_time_one_set = 48;
    // Other tiles, which need B's rows in L1.
    static constexpr int64_t spread = 32, some_sets = 12, few_sets = 4;
    // Tiles that load whole lines in time, but each vector is part of two lines.
    static constexpr int64_t split_lines = 24;
    // L1 sets, of 64, over which rows count as spread, and as spread over some sets.
    static constexpr int64_t spread_sets = 16, some = 4;
};

// The number of row tiles that can reuse unpacked B before packing pays. It grows with the number
// of L1 sets that a row of B covers. A tile four vectors wide loads whole lines, which arrive from
// L2 in time, so it tolerates more, unless split lines delay two multiply-adds per cycle.
// `row_bytes` 0: B's rows are not contiguous, or are shorter than eight tiles.
int64_t max_unpacked_reuse(int64_t row_bytes, bool reads_in_time, bool split_lines) {
    using U = UnpackedReuse;
    const int64_t met = row_bytes ? l1_sets_used(row_bytes) : 1;
    if (reads_in_time && split_lines) return U::split_lines;
    if (reads_in_time)
        return met >= U::spread_sets ? U::in_time_spread : met >= 2 || !row_bytes ? U::in_time : U::in_time_one_set;
    return met >= U::spread_sets ? U::spread : met >= U::some ? U::some_sets : U::few_sets;
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
std::vector<std::string> strategies_of_packed(const std::vector<std::string> &strategies, const MatmulRoles &r,
                                              const Op &op, const Machine &machine) {
    std::vector<std::string> kept;
    for (const std::string &strategy : strategies) {
        const Product p = product(strategy, r.contraction, op, r.a, r.b, machine);
        if (p.group == 1 || r.K) kept.push_back(strategy);
    }
    return kept;
}

// Extents from which a product is blocked as a large one. Fitted to the suite gemm-f32; on Zen 4,
// f32, deep blocks took 1024³ from 103.8 to 112.4 GFLOP/s and 2048³ from 100.7 to 110.8.
constexpr int64_t large_rows = 384, large_columns = 256; // reuse packed blocks
// From here on, a panel of B takes all of L1.
constexpr int64_t tall_rows = 768, tall_depth = 1024;
// Steps that large matrices with deep blocks exceed.
constexpr int64_t deep_depth = 256;
// Elements of B that are never worth packing.
constexpr int64_t small_b = 4096;

// The default parameters. choose() takes the decisions in order; each reads those before it.
class MatmulDefaults {
public:
    MatmulDefaults(const Op &op, const Machine &machine, PackedBy packed_by)
        : op_(op), machine_(machine), packed_by_(packed_by), r_(*matmul_roles(op)), type_(r_.contraction.sum->type) {}

    MatmulParameters choose() {
        choose_multiply();
        choose_tile();
        if (product_.tiles()) choose_panels_of_tiles();
        choose_depth();
        choose_row_block();
        choose_copies();
        choose_unrolling();
        choose_threads();
        choose_narrow();
        return p_;
    }

private:
    // How many rows of A are multiplied by each packed element of B.
    int64_t rows_of_b() const {
        int64_t rows = M_;
        for (const std::string &b : r_.batches) {
            if (!r_.b.axes.count(b)) rows *= constant_extent(*find_axis(*r_.contraction.sum, b)).value_or(many);
        }
        return rows;
    }

    void choose_multiply() {
        std::vector<std::string> strategies = multiply_strategies(r_.contraction, op_, r_.a, r_.b, machine_);
        if (packed_by_ == PackedBy::Caller) strategies = strategies_of_packed(strategies, r_, op_, machine_);
        p_.multiply = Choice(rows_of_b() >= 4 ? strategies.front() : "plain", strategies);
        product_ = library::product(p_.multiply, r_.contraction, op_, r_.a, r_.b, machine_);
        converts_ = product_.holds(op_.find_input(r_.a.tensor)->type, op_.find_input(r_.b.tensor)->type);
    }

    // Loads per product are fewest if a tile is about as many vectors wide as rows high, and few
    // rows of A, which may be pages apart, are read at once. With 16 registers, only two vectors
    // leave enough rows to hide the instruction's latency.
    void choose_tile() {
        const int lanes = product_.lanes, registers = accumulator_registers(machine_);
        const int64_t needed = std::max<int64_t>(1, (N_ + lanes - 1) / lanes);
        const int64_t vectors = std::min<int64_t>(wide_ ? 4 : 2, needed),
                      sums = wide_ && vectors > 2 ? wide_tile_registers : registers;
        std::vector<int64_t> row_choices, vector_choices;
        // Rows of A a page apart share the same few L1 lines, of which one is left to B.
        constexpr int64_t ways_of_l1 = 8;
        const bool crowded = vectors == 1 && contiguous_in(r_.a, r_.k) &&
                             l1_sets_used(K_ * op_.find_input(r_.a.tensor)->type.bytes()) == 1;
        const int64_t max_rows = std::min<int64_t>(crowded ? ways_of_l1 - 1 : sums / vectors, std::max<int64_t>(M_, 1));
        for (int64_t n = 1; n <= std::min<int64_t>({registers, 16, std::max<int64_t>(M_, 1)}); n++)
            row_choices.push_back(n);
        for (int64_t n = 1; n <= std::min<int64_t>(4, needed); n++) vector_choices.push_back(n);
        p_.rows = Tile::nearest(max_rows, row_choices);
        p_.vectors = Tile::nearest(vectors, vector_choices);
        columns_ = vectors * lanes;
        // A matrix of a few tiles uses tiles of equal height, three vectors wide if these are all
        // columns. Otherwise tiles have a row less, which leaves registers for unrolled steps.
        constexpr int64_t few_tiles = 6;
        few_ = r_.M && r_.N && r_.K && M_ <= few_tiles * max_rows && needed <= 4 && product_.group == 1;
        if (!few_) return;
        const bool whole = needed == 3 && !wide_ && registers >= 12;
        if (whole) p_.vectors = Tile::nearest(3, vector_choices);
        const int64_t rows = whole ? registers / 3 : needed == 1 || wide_ ? max_rows : (registers - 2) / vectors;
        int64_t tile = balanced_block(M_, rows, 1);
        // avoids a shorter last tile
        if (N_ % lanes == 0 && M_ % tile != 0 && tile > 4 && M_ % (tile - 1) == 0) tile--;
        p_.rows = Tile::nearest(tile, row_choices);
    }

    void choose_panels_of_tiles() {
        pieces_ = tile_pieces(threads_, M_, N_, K_, product_);
        const int64_t width = (N_ + pieces_.columns - 1) / pieces_.columns;
        std::vector<int64_t> widths;
        for (int64_t n = 2; n <= 16; n += 2) widths.push_back(n);
        p_.vectors = Tile::nearest(panel_vectors(M_, width, K_, product_, l2_), widths);
    }

    // A panel of B (depth × columns) takes half of L1, a block of A half of L2. If C is large,
    // revisiting it costs more than reading the panel from L2, of which panels for wide tiles take
    // a quarter.
    void choose_depth() {
        const bool tall = M_ >= tall_rows && K_ >= tall_depth;
        deep_ = wide_ && M_ >= large_rows && M_ * N_ * type_.bytes() >= 2 * l2_;
        const int64_t panel =
            (deep_ ? l2_ / 4 : cache_bytes(machine_, "L1", 32 << 10) / (tall ? 1 : 2) * (wide_ ? 2 : 1)) /
            (columns_ * product_.b.bytes());
        depth_ = std::max<int64_t>(
            1, std::min<int64_t>(K_, balanced_block(K_, std::clamp<int64_t>(panel, 64, deep_ ? 1024 : 512),
                                                    product_.lanes * product_.group)));
        std::vector<int64_t> depths = Tile::sizes(K_, std::min<int64_t>(K_, 64), 1024);
        depths.push_back(depth_);
        std::sort(depths.begin(), depths.end());
        depths.erase(std::unique(depths.begin(), depths.end()), depths.end());
        p_.depth = Tile(depth_, depths);
    }

    // Decides whether B is packed, and whether a depth block of it is packed once for all rows,
    // which it is if it fits L3.
    void decide_packing() {
        const bool third = machine_.find_level("L3") &&
                           depth_ * (r_.N ? N_ : 0) * product_.b.bytes() <= cache_bytes(machine_, "L3", 0);
        large_ = M_ >= large_rows && N_ >= large_columns && (K_ > depth_ || (deep_ && K_ > deep_depth)) && third;
        const int64_t row =
            contiguous_in(r_.b, r_.j) && N_ >= 8 * columns_ ? N_ * op_.find_input(r_.b.tensor)->type.bytes() : 0;
        const bool reads_b_in_time = wide_ && contiguous_in(r_.b, r_.j) &&
                                     (machine_.fmas_per_cycle == 1 || (two_a_cycle() && product_.group == 1));
        split_lines_ = two_a_cycle() && N_ > columns_ && bytes_between_rows(op_, r_, N_) % line_bytes;
        const int64_t readers = max_unpacked_reuse(row, reads_b_in_time, split_lines_);
        pack_ = (M_ > readers * p_.rows || converts_) && K_ * N_ > small_b;
        blocked_ = pack_ && N_ > columns_ && third;
    }

    // If all matrices are large, the block of A leaves room for the panels of B.
    void choose_row_block() {
        decide_packing();
        const int64_t second = l2_ / (large_ && !deep_ ? 4 : 2) / (depth_ * product_.a.bytes());
        std::vector<int64_t> blocks = block_choices(r_.M, p_.rows);
        // A packed block must fit, including its whole last tile.
        const int64_t fits = l2_ / (depth_ * product_.a.bytes());
        while (blocks.size() > 1 && (blocks.back() + p_.rows - 1) / p_.rows * p_.rows > fits) blocks.pop_back();
        if (blocks.back() > fits) blocks = {std::max<int64_t>(p_.rows, fits / p_.rows * p_.rows)};
        int64_t wish = std::clamp<int64_t>(second, p_.rows, 1024);
        // If row blocks are outermost, or the reduction is one block, their results stay in L2
        // while they are summed and stored, unless there were so few rows that B is read too often.
        const int64_t stay = l2_ / 2 / (std::max<int64_t>(N_, 1) * type_.bytes());
        if (wide_ && (!blocked_ || K_ <= depth_) && stay >= 16 * p_.rows) wish = std::min(wish, stay);
        parts_ = parts_of_depth(r_, product_, std::max<int64_t>(2, threads_)) > 1;
        if (!product_.tiles()) pieces_ = pieces_for(threads_, M_, N_, K_, p_.rows, columns_, parts_, pack_);
        if (pieces_.rows > 1) wish = std::min(wish, (M_ + pieces_.rows - 1) / pieces_.rows);
        if (pieces_.rows > 1 && pieces_.columns > 1) { // equal blocks
            while (M_ % wish) wish--;
            blocks.insert(std::lower_bound(blocks.begin(), blocks.end(), wish), wish);
            blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
        } else {
            constexpr int64_t block_of_unknown_rows = 192;
            wish = r_.M ? balanced_block(M_, wish, p_.rows) : std::min<int64_t>(block_of_unknown_rows, fits);
        }
        p_.row_block = Tile::nearest(wish, blocks);
    }

    void choose_copies() {
        // The tile reads A one scalar at a time, so unpacked rows suffice, unless many panels of B
        // reuse them or they are so far apart that they conflict in the caches. Columns are worth
        // packing.
        const bool conflicts = K_ * type_.bytes() >= page_bytes;
        p_.pack_a = Flag((large_ && (pack_ || !wide_) && (M_ >= tall_rows || conflicts)) ||
                             (!contiguous_in(r_.a, r_.k) && M_ >= 2 * p_.rows),
                         {false, true});
        std::vector<std::string> copies = {"panel"};
        if (contiguous_in(r_.b, r_.j)) copies.insert(copies.begin(), "none");
        if (machine_.find_level("L3")) copies.push_back("blocks");
        copies.push_back("ahead");
        const bool unpacked = contiguous_in(r_.b, r_.j) && !converts_ && product_.group == 1;
        // With at most two row blocks, packing each panel twice is cheaper than reloading packed B
        // from L3.
        const bool repacks_panels =
            has_slow_l3(machine_) && unpacked && M_ <= 2 * p_.row_block && depth_ * N_ * product_.b.bytes() > l2_;
        const bool panels = pack_ || !contiguous_in(r_.b, r_.j);
        p_.pack_b = Choice(blocked_ && !repacks_panels ? "blocks" : panels ? "panel" : "none", copies);
        p_.outer = Choice(blocked_ ? "depth" : "rows", {"rows", "depth"});
        p_.join = Flag(K_ > depth_, K_ > depth_ ? std::vector<bool>{false, true} : std::vector<bool>{false});
        p_.prefetch_c = Flag(K_ > depth_, K_ > depth_ ? std::vector<bool>{false, true} : std::vector<bool>{false});
        const bool prefetches_b = unpacked && !pack_ && !few_ && M_ >= 2 * p_.rows && has_slow_l3(machine_) && r_.K &&
                                  N_ > columns_ && K_ * N_ * product_.b.bytes() > l2_;
        p_.prefetch_b = Flag(prefetches_b, unpacked ? std::vector<bool>{false, true} : std::vector<bool>{false});
    }

    // The compiler may reorder sums of integers, which over more steps costs registers.
    void choose_unrolling() {
        const int64_t alone = r_.K && product_.group == 1 ? 4 : 1; // steps of unpacked rows
        const int64_t steps = few_                             ? (M_ <= p_.rows && (K_ < 16 || !two_a_cycle()) ? 8 : 4)
                              : p_.prefetch_b && !split_lines_ ? 2
                              : !pack_                         ? alone
                              : product_.group > 1             ? 2
                                                               : 4;
        p_.unroll_depth = Tile(steps, {1, 2, 4, 8});
    }

    void choose_threads() {
        std::vector<std::string> shares = {"none", "rows", "columns"};
        if (!product_.tiles() && (product_.group == 1 || r_.N))
            shares.push_back("grid"); // the last columns of a grid would be tested per lane
        if (parts_) shares.push_back("depth");
        const std::string wished = pieces_.cores_choice();
        const bool has = std::find(shares.begin(), shares.end(), wished) != shares.end();
        p_.parallel = Choice(has ? wished : M_ >= N_ ? "rows" : "columns", shares);
    }

    // Checking an operand's values costs about as much as a few rows of products with it.
    void choose_narrow() {
        constexpr int64_t enough_rows = 16;
        const bool narrow = packed_by_ == PackedBy::Kernel && !p_.multiply.is("plain") &&
                            narrow_strategy(r_.contraction, op_, r_.a, r_.b, machine_).has_value();
        p_.narrow = Flag(narrow && r_.M.value_or(0) >= enough_rows && r_.N.value_or(0) >= enough_rows,
                         narrow ? std::vector<bool>{false, true} : std::vector<bool>{false});
    }

    // Whether the processor begins two multiply-adds of whole lines per cycle.
    bool two_a_cycle() const { return machine_.fmas_per_cycle >= 2 && product_.lanes * type_.bytes() >= line_bytes; }

    const Op &op_;
    const Machine &machine_;
    const PackedBy packed_by_;
    const MatmulRoles r_;
    const Type type_;                        // of the sums
    static constexpr int64_t many = 1 << 20; // stands for an extent that only a run knows
    const int64_t M_ = r_.M.value_or(many), N_ = r_.N.value_or(many), K_ = r_.K.value_or(many);
    const bool wide_ = has_wide_tiles(machine_);
    const int64_t threads_ = threads_of(machine_), l2_ = cache_bytes(machine_, "L2", 512 << 10);
    MatmulParameters p_;
    Product product_;
    bool converts_ = false;               // packed copies convert an operand
    bool few_ = false;                    // the matrix is a few tiles
    int64_t columns_ = 0, depth_ = 0;     // of a tile; steps of a block of the reduction
    bool deep_ = false, large_ = false;   // C is revisited rarely; all matrices are large
    bool pack_ = false, blocked_ = false; // B is packed; a depth block of it once for all rows
    bool split_lines_ = false;            // vectors of unpacked B are parts of two lines
    bool parts_ = false;                  // the reduction may be divided among cores
    Pieces pieces_;
};

} // namespace

MatmulParameters matmul_parameters(const Op &op, const Machine &machine, PackedBy packed_by) {
    return MatmulDefaults(op, machine, packed_by).choose();
}

} // namespace kumiko::library
