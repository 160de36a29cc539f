// What the loops of a row product mean: the distribution of operands, sums and result over the
// units. Computed once; the other parts of a row product (row_product.h) only read it.
#pragma once

#include "targets/chip/counts.h"
#include "targets/chip/stage/context.h"
#include "targets/chip/transfer/dram_order.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace kumiko::chip {

// For k over halves of the L1Bs: rows drained at a time; L1Bs of a half; MABs whose columns are
// loaded together.
constexpr int64_t half_chunk = 8;
constexpr int half_l1bs = 4, half_loads = half_l1bs;

// A tensor as the stage uses it.
struct ProductView {
    TensorAccess access;
    std::shared_ptr<const DramOrder> order;
    int64_t dram = 0;
    size_t k = SIZE_MAX; // which axis is k
    bool across = false; // the columns, not k, are contiguous
    int64_t row(const Values &values) const;
    int64_t last(const Values &values) const; // index of the last axis
};

// L2Bs that need the same rows of a tensor, and those rows.
struct L2bRows {
    uint32_t l2bs = 0;
    std::vector<int64_t> rows;
    int64_t word = 0; // first word needed in each row
};

// A range of an L1B's pieces of 8 LW of a result row.
struct PieceSpan {
    int64_t begin, end;
    int64_t count() const { return end - begin; }
    bool has(int64_t piece) const { return begin <= piece && piece < end; }
};

// The columns that are in LM at one time.
struct ColumnPanel {
    size_t first = 0, tiles = 0;           // row tiles that use it: the first, the number
    int64_t at = 0;                        // address in LM
    std::vector<std::vector<bool>> loaded; // by block of 64 LW along k, and piece
    size_t loads_done = 0;                 // number of loads done, in order
};

struct ProductForm {
    ProductForm(const sim::Config &config, const ScheduleState &state, const StageState &stage,
                const StageState *finished);

    const sim::Config &config;
    const StageState &stage;
    const StageState *finished; // the stage of the epilogue, or null
    std::shared_ptr<StagePlan> plan;
    // Positions of loops in the plan.
    size_t row = SIZE_MAX, column = SIZE_MAX, mab = SIZE_MAX, part = SIZE_MAX, vector = SIZE_MAX;
    std::vector<size_t> outer, set_loops, tile_loops;
    size_t panel_at = 0;
    std::vector<Copy> columns_copies;
    bool two_panels = false; // two panels fit in LM
    ProductView x, w, y;
    kumiko::Type type; // of the result
    Expr epilogue;     // the epilogue, if it is more than a cast

    // LW of a row in a set; the sets and the rows that one step distributes to the PEs; sets in a
    // block of 64 LW.
    int64_t mabs, l1bs, distribution = 1, sets_of_step = 1, rows_of_step = 1, sets_of_block = 1;
    int64_t sides = 1; // the number of neighbouring MABs with columns of their own
    int64_t parts = 1; // of k: 2 for halves of the L1Bs
    // V; matrices of a MAB; along k: sets, and blocks of 64 LW.
    int64_t vectors = 1, matrices = 1, sets = 1, blocks = 1;
    // A matrix of an L1B's columns; of_l1b has them in the order of the result.
    struct Matrix {
        int64_t number, side;
    };
    std::vector<Matrix> of_l1b;
    std::vector<int64_t> piece_of;        // by number · sides + side
    bool single = false, narrows = false; // operands are f32; results are f16
    // The size of a MAB's matrix in columns and in k; LW of a sum in each PE.
    int64_t side = 16, sum_words = 2;
    // Matrices in a piece of 8 LW; pieces of an L1B in a row.
    int64_t of_piece = 1, pieces = 1;
    int64_t chunk_pieces = 1; // transposed columns: pieces in one load
    // The row distance of words collected in one MAB; words of a MAB for four such rows.
    int64_t apart = 1, slots = 1;
    int64_t row_words = 0; // LW of an L2B's part of a result row

    std::vector<Values> tiles; // in execution order
    std::vector<ColumnPanel> panels;

    std::string who() const { return "stage " + stage.name() + ": "; }
    int64_t l1b_matrices() const { return matrices * sides; }
    PieceSpan all_pieces() const { return {0, pieces}; }
    // LW of an epilogue operand in L1BM.
    int64_t epilogue_words() const { return (narrows ? 2 * mabs : 4) * 8; }
    // The MABs of a side, or all.
    uint32_t mabs_of(int64_t of_side) const;
    void set_tile(Values &values, int64_t tile) const;
    // The address of matrix t of a MAB, set s, in LM.
    int64_t face_at(const ColumnPanel &panel, int64_t t, int64_t s) const;
    std::vector<L2bRows> classes(const Values &tile, const std::function<void(Values &, L2bRows &)> &rows) const;
};

// The view of a tensor in DRAM, for which it takes memory. Throws Unsupported for elements of
// another size than 16 or 32 bits.
ProductView dram_view(Context &c, TensorAccess access, const std::string &name, bool output, std::vector<size_t> order,
                      int64_t pitch = block_words);

// Fills in a form. All methods throw Unsupported, with what is supported, for other loops.
class ProductAnalysis {
public:
    // The form takes the DRAM of its tensors from the context.
    ProductAnalysis(Context &c, ProductForm &form) : c_(c), f_(form) {}
    // Analyses the loops, in the order of the methods below.
    void analyze(const ScheduleState &state);

private:
    Context &c_;
    ProductForm &f_;

    [[noreturn]] void refuse(const std::string &what) const;
    int64_t set_of_k() const { return f_.side * f_.mabs / f_.sides; } // elements of k
    // The distribution of the reduction and the columns.
    void analyze_units();
    // The two operands, and where the schedule puts them.
    void analyze_operands(const ScheduleState &state);
    // Checks that k is distributed in elements of each MAB, set after set.
    void check_mabs() const;
    // Checks that blocks of k alternate between the halves.
    void check_halves() const;
    // The sequential loops.
    void analyze_time();
    // The sets along k.
    void count_sets();
    // The result and its epilogue.
    void analyze_result(const ScheduleState &state);
    // Assigns pieces of a result row to L1Bs.
    void columns_of_l1bs();
    // The same for halves of the L1Bs.
    void columns_of_halves();
    // The order of the row tiles, and their panels.
    void order_tiles();
    // The view of an operand, whose copies are returned.
    ProductView view(const ScheduleState &state, const Expr &read, const std::vector<Bank> &legal,
                     const std::string &names, std::vector<Copy> &copies, bool columns);
    // LW of a result row in DRAM, including padding.
    int64_t result_pitch(const TensorAccess &own) const;
};

} // namespace kumiko::chip
