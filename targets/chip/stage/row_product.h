// A matrix product from DRAM to DRAM with all tensors row-major (dram_order.h): C[i][j] = Σ_k
// A[i][k] · B[j][k].
//
//   k is distributed over the MABs (a bound reduction loop): MAB m has 16 elements (f32: 8) of each
//     16·M, from 16·m on. So an L1BM scatter, which sends neighbouring words of a row to
//     neighbouring PEs, delivers operands to where they are used. `l1.reduce` adds the partial
//     sums.
//     Alternatively k is distributed over every fourth MAB, and four neighbouring MABs (sides) have
//     columns of their own: a broadcast in 4×4 mode sends them the same words, and `l1.reduce` adds
//     the MABs of one side at a time. That broadcast gives a PE two adjacent words, so the words of
//     each 32·M elements of k alternate between two sets, in rows and columns alike.
//     Or k is distributed over halves of the L1Bs, and each MAB has its own columns:
//     row_product_halves.cpp.
//   j is distributed over L1Bs, L2Bs and groups: the columns of an L1B stay in LM as matrices of 16
//     columns and are loaded into the faces from there.
//   i is sequential: V rows, the same in all L1Bs of an L2B, stream through L1BM into GRF1 as
//     vectors; each is used for all matrices of the L1B, then discarded. The sums of V rows and all
//     columns of the L1B are in GRF0, and are drained during the next rows.
//   While columns are being loaded, the first row tiles are computed block by block of k: the sums
//     of such a tile are spilled to LM1, if it has room, until the next block arrives, so that
//     there is work during the whole load. If all MABs have the same columns, the first tiles are
//     computed with three quarters of the columns while the last quarter is loaded, and with that
//     quarter later (late columns).
//
// The columns' operand may be transposed, B[k][j]: see load_across. For each tile of V rows and
// each 16·M elements of k (a set), and for each matrix of 16 columns: the matrix is written to a
// face, then V vectors are multiplied. Neighbouring L1Bs have neighbouring pieces of 8 LW of a row
// of C, the order in which `l2.gather` assembles rows.
#pragma once

#include "targets/chip/counts.h"
#include "targets/chip/stage/context.h"
#include "targets/chip/transfer/dram_order.h"
#include "targets/chip/vector/emit.h"

#include <deque>
#include <functional>

namespace kumiko::chip {

class RowProduct {
public:
    // Whether the stage has this form: a reduction loop is bound to MABs or to L1Bs.
    static bool is_one(const StageState &stage);

    // Throws Unsupported, with the supported order, for loops in another order.
    RowProduct(Context &c, const ScheduleState &state, const StageState &stage, const StageState *finished);
    void run();

private:
    // A tensor as the stage uses it.
    struct View {
        TensorAccess access;
        std::shared_ptr<const DramOrder> order;
        int64_t dram = 0;
        size_t k = SIZE_MAX; // which axis is k
        bool across = false; // the columns, not k, are contiguous
        int64_t row(const Values &values) const;
        int64_t last(const Values &values) const; // index of the last axis
    };
    // A class of L2Bs that need the same rows of a tensor, and those rows.
    struct Class {
        uint32_t l2bs = 0;
        std::vector<int64_t> rows;
        int64_t word = 0; // first word needed in each row
    };
    struct Span { // a range of an L1B's pieces of a row
        int64_t begin, end;
        int64_t count() const { return end - begin; }
        bool has(int64_t piece) const { return begin <= piece && piece < end; }
    };
    struct Panel {                            // the columns that are in LM at one time
        size_t first = 0, tiles = 0;          // row tiles that use it: the first, the number
        int64_t at = 0;                       // address in LM
        std::vector<std::vector<bool>> there; // loaded: by block of 64 LW along k, and piece
        size_t brought = 0;                   // number of loads done, in order
    };
    struct Drain { // of a tile's sums, from LM1; −1: from GRF0
        Values tile;
        int64_t sums_at = -1;
        int64_t done = 0; // number of rows
        // Addresses of the current rows: reduced (sums) and finished (out) in L1BM, assembled rows
        // in L2BM.
        int64_t sums = 0, out = 0, l2bm = 0;
        std::vector<int64_t> rows; // the rows in L2BM, in order
        Span pieces{};             // the pieces to store
        bool backwards() const { return pieces.begin > 0; }
    };
    struct PendingLoad { // blocks of one piece of the columns being loaded
        Panel &panel;
        int64_t block, count, piece;
        Ring &loads, &l1_loads; // L2BM, L1BM
        // Rows of each matrix: the first of the current ones, the number per move, the number in
        // L1BM.
        int64_t begin, w_rows, l1_rows;
        std::vector<int64_t> l2bm, l1bm; // by L1B and matrix; by matrix
        std::vector<int> groups;         // of DRAM, by L1B and matrix
        // L1B-and-matrix numbers that are transferred together: one, or a pair.
        std::vector<std::vector<int64_t>> turns;
    };
    struct Store { // moves of a result's rows from L2BM
        int64_t number;
        std::vector<sim::Mv> moves;
    };
    struct EndOperand {
        Expr read;
        View view;
        int64_t l2bm = 0;  // address of this tile's rows
        sim::Operand here; // the current words
    };

    Context &c_;
    const StageState &stage_;
    const StageState *finished_;
    std::shared_ptr<StagePlan> plan_;
    // Positions of loops in the plan.
    size_t row_ = SIZE_MAX, column_ = SIZE_MAX, mab_ = SIZE_MAX, part_ = SIZE_MAX, vector_ = SIZE_MAX;
    std::vector<size_t> outer_, set_loops_, tile_loops_;
    size_t panel_at_ = 0;
    std::vector<Copy> columns_copies_;
    bool twice_ = false; // two panels fit in LM
    View x_, w_, y_;
    kumiko::Type type_; // of the result
    Expr end_;          // the epilogue, if it is more than a cast
    std::vector<EndOperand> end_operands_;
    std::unique_ptr<VectorEmitter> code_;
    VectorProgram end_program_; // read 0: the sums; from 1 on: the operands
    Bank operands_bank_ = Bank::Grf0, registers_bank_ = Bank::Grf1;

    // Machine parameters: LW of a row in a set; the sets and the rows that one step distributes to
    // the PEs; sets in a block of 64 LW.
    int64_t mabs_, l1bs_, distribution_ = 1, sets_of_step_ = 1, rows_of_step_ = 1, sets_of_block_ = 1;
    // The number of neighbouring MABs with columns of their own.
    int64_t sides_ = 1;
    // Parts of k: 2 for halves of the L1Bs.
    int64_t parts_ = 1;
    // V; matrices of a MAB; along k: sets, and blocks of 64 LW.
    int64_t vectors_ = 1, matrices_ = 1, sets_ = 1, blocks_ = 1;
    // A matrix of an L1B's columns; of_l1b_ has them in the order of the result.
    struct Matrix {
        int64_t number, side;
    };
    std::vector<Matrix> of_l1b_;
    std::vector<int64_t> piece_of_;         // by number · sides + side
    bool single_ = false, narrows_ = false; // operands are f32; results are f16
    // The size of a MAB's matrix in columns and in k; LW of a sum in each PE.
    int64_t side_ = 16, sum_words_ = 2;
    // Matrices in a piece of 8 LW; pieces of an L1B in a row.
    int64_t of_piece_ = 1, pieces_ = 1;
    int64_t chunk_pieces_ = 1; // transposed columns: pieces in one load
    // The row distance of words collected in one MAB; words of a MAB for four such rows.
    int64_t apart_ = 1, slots_ = 1;
    int64_t row_words_ = 0; // LW of an L2B's part of a result row

    std::vector<Values> tiles_; // in execution order
    std::vector<Panel> panels_;
    std::vector<int64_t> panel_slots_;
    int64_t ahead_ = 1; // number of panels in LM at a time
    // Tiles of a panel whose sums are spilled to LM1 while columns are loaded; the address of these
    // sums.
    int64_t kept_ = 0, kept_sums_ = 0;
    // Late pieces; tiles of a panel that are computed with the other pieces first.
    int64_t late_ = 0, before_late_ = 0;
    // The address in LM1 of complete sums; −1: they stay in GRF0.
    int64_t complete_ = -1;
    Ring vectors_ring_, registers_, operands_ring_;
    Ring x_loads_, w_loads_, end_loads_, results_; // L2BM
    Ring l1_loads_, l1_sums_, l1_results_;         // L1BM
    Ring late_loads_, late_l1_;                    // L2BM, L1BM
    // Per move: blocks of 64 LW of a row, of a column; rows of a matrix.
    int64_t x_blocks_ = 1, w_blocks_ = 1, w_rows_ = 16;
    int64_t whole_x_blocks_ = 1; // for rows used with all columns
    int64_t l1_rows_ = 16;       // of w_rows_, those in L1BM at a time
    int64_t lag_ = 0;            // number of results waiting in L2BM
    int64_t set_words_ = 0;
    std::vector<int64_t> x_l2bm_; // of the current tile, by x_blocks_; −1: not loaded
    int64_t x_group_ = -1, x_at_ = 0;
    int face_ = 0;
    int64_t drain_each_ = 1;                  // groups of sets between two drain steps
    int64_t drain_rows_ = 1, store_rows_ = 1; // rows of a tile that leave L1BM and L2BM at a time
    std::deque<Drain> drains_;
    int64_t drained_ = 0; // number of row groups assembled in L2BM
    std::deque<Store> stores_;
    // For k over halves of the L1Bs:
    std::deque<int> x_free_;      // free pairs of words in GRF1
    std::vector<int> x_pairs_;    // pairs of the current sets, by pair of sets and row
    std::vector<int64_t> x_l1bm_; // the current rows
    // L1BM: rows; L2BM: reduced sums; L1BM: reloaded sums.
    Ring x_rows_, staged_, back_;
    // Pending transfers of columns from L1BM, or of late ones.
    std::deque<std::function<void()>> dealt_;
    // Their number; groups of sets since they were queued.
    int64_t late_steps_ = 0, late_groups_ = 0;
    int64_t dealt_pieces_ = 0;    // number of pieces with pending transfers
    int64_t dealt_wait_ = 0;      // its limit
    std::deque<int64_t> columns_; // addresses in L1BM of columns being loaded

    // Four addresses, as a start and a stride if they are regular.
    static sim::Operand four_of(sim::Source memory, const std::array<int, 4> &at);
    int64_t l1b_matrices() const { return matrices_ * sides_; }
    // LW of an epilogue operand in L1BM.
    int64_t end_words() const { return (narrows_ ? 2 * mabs_ : 4) * 8; }
    // The MABs of a side, or all.
    uint32_t mabs_of(int64_t side) const;
    // row_product_loops.cpp
    std::string who() const;
    [[noreturn]] void refuse(const std::string &what) const;
    int64_t set_of_k() const { return side_ * mabs_ / sides_; } // elements of k
    void analyze(const ScheduleState &state);
    void analyze_units();
    void analyze_operands(const ScheduleState &state);
    void check_mabs() const;
    void check_halves() const;
    void analyze_time();
    void count_sets();
    void analyze_result(const ScheduleState &state);
    void columns_of_l1bs();
    void order_tiles();
    View view(const ScheduleState &state, const Expr &read, const std::vector<Bank> &legal, const std::string &names,
              std::vector<Copy> &copies, bool columns);
    View dram_view(TensorAccess access, const std::string &name, bool output, std::vector<size_t> order,
                   int64_t pitch = block_words);
    int64_t result_pitch(const TensorAccess &own) const;
    // row_product_plan.cpp
    void take_columns(const ScheduleState &state);
    void keep_sums(int64_t words);
    void stream_late();
    double come(const View &view, double rows) const;
    void begin_memory();
    // row_product.cpp
    std::vector<Class> classes(const Values &values, const std::function<void(Values &, Class &)> &rows) const;
    void set_tile(Values &values, int64_t tile) const;
    std::vector<std::vector<sim::Mv>> loads(const View &view, std::vector<Class> classes, int64_t block, int64_t blocks,
                                            int64_t l2bm) const;
    void load(const View &view, const std::vector<Class> &classes, int64_t block, int64_t blocks, int64_t l2bm);
    void l2_step(sim::L2 slot, int64_t l2bm, int64_t l1bm);
    void to_pes(sim::L1Op op, int width, int64_t l1bm, std::array<int, 4> at, bool to_lm, uint32_t mabs);
    void deal(int64_t l1bm, const std::function<int64_t(int64_t row, int64_t set)> &to, bool to_lm, uint32_t mabs);
    int64_t vector_at(int64_t set, int64_t row) const;
    void load_vectors(const Values &tile, int64_t group);
    void part(size_t number, Panel &panel, Span pieces, int64_t begin, int64_t end, int64_t sums_at);
    void leave(int64_t number);
    int64_t kept_at(int64_t tile) const { return kept_sums_ + tile * sum_words_ * vectors_ * matrices_; }
    int64_t under_columns(Panel &panel);
    void under_late(Panel &panel);
    void zero_sums(Span pieces);
    void late_share();

    // The number of pieces in which the columns of a block are loaded.
    int64_t column_pieces() const { return parts_ > 1 ? mabs_ : pieces_; }
    Span all_pieces() const { return {0, pieces_}; }
    Span early_pieces() const { return {0, pieces_ - late_}; }
    Span late_pieces() const { return {pieces_ - late_, pieces_}; }

    // row_product_halves.cpp
    void columns_of_halves();
    void begin_halves();
    void load_pairs(int64_t l2bm, int64_t blocks, int64_t within);
    void load_half(Panel &panel, int64_t number);
    void distribute_next();
    void drain_halves();

    // row_product_columns.cpp
    int64_t face_at(const Panel &panel, int64_t matrix, int64_t set) const;
    sim::Operand rows_at(int64_t at) const;
    void write_face(int64_t at);
    int64_t loads_until(int64_t blocks) const;
    PendingLoad coming(Panel &panel, int64_t block, int64_t piece, bool late);
    std::vector<Class> column_classes(const PendingLoad &c, int64_t part, int64_t begin, int64_t n) const;
    void load_turn(PendingLoad &c, const std::vector<int64_t> &parts);
    void distribute_matrix(const PendingLoad &c, int64_t e);
    static void has_arrived(const PendingLoad &c);
    void load_piece(Panel &panel, int64_t block, int64_t piece);
    void queue_late(Panel &panel);
    void load_across(Panel &panel, int64_t block, int64_t chunk);
    void load_next(Panel &panel);

    // row_product_end.cpp
    void begin_epilogue(const ScheduleState &state);
    void drain(const Values &tile, int64_t sums_at, Span pieces);
    void drain_next();
    void finish_drains();
    void join(const Drain &d, int64_t first);
    void drain_narrow(const Drain &d, int64_t first);
    void drain_wide(const Drain &d, int64_t first);
    sim::Operand back(int64_t l1bm, uint32_t mabs, int64_t at, int64_t stride);
    sim::Operand finished(const sim::Operand &sums, int64_t piece);
    void up(const Drain &d, int64_t piece, int64_t pieces);
    void load_end(const Values &tile);
    void load_epilogue(EndOperand &o, int64_t piece);
    sim::Operand end_read(const sim::Operand &sums, int which, int word) const;
    void store(Drain &d);
    void granules(const View &view, const std::vector<DramPlace> &at, int64_t l2bm, uint32_t l2bs, bool store,
                  std::vector<sim::Mv> &all);
    sim::Mv between(uint32_t l2bs, int group, bool store) const;
    void describe();
};

} // namespace kumiko::chip
