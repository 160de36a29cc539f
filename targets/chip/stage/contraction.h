// A contraction of host-packed operands in consumption order, whose inner block is the matrix
// unit's. Matrices are broadcast from L1BM and forwarded to the inactive face while the matrix unit
// processes the vectors of the active one from LM. Sums stay in a GRF until they are complete, and
// are drained during the next tile.
#pragma once

#include "targets/chip/stage/chain.h"
#include "targets/chip/stage/context.h"
#include "targets/chip/vector/emit.h"

#include <deque>
#include <functional>

namespace kumiko::chip {

class Contraction {
public:
    // Throws Unsupported, with the supported order, for loops in another order.
    Contraction(Context &c, const ScheduleState &state, const StageState &stage, const StageState *finished);
    void run();

private:
    Context &c_;
    const StageState &stage_;
    const StageState *finished_;
    std::shared_ptr<StagePlan> plan_;
    std::vector<size_t> time_, vectors_;
    size_t row_ = 0, column_ = 0, accumulate_at_ = 0, last_matrix_loop_ = 0;
    bool has_matrix_loop_ = false;
    TensorAccess matrix_, vector_, result_;
    bool single_ = false; // f32 operands: 8 × 8 matrices, sums of one LW in each PE
    int sum_words_ = 2;
    std::unique_ptr<Loader> x_, w_;
    std::shared_ptr<const TransferPath> store_;
    int64_t store_dram_ = 0;
    Rings store_rings_;
    Values values_;
    int face_ = 0;
    bool bank_ = false; // whether the sums are in GRF1
    struct Drain {      // of a complete tile
        int64_t key;
        bool bank;
        Values values;
        int64_t part = 0; // the next part
    };
    std::optional<Drain> pending_;
    // Pending moves of results. Each is placed after block `due`, behind the loads of that time,
    // which are more urgent.
    struct Store {
        int64_t due;
        uint32_t groups; // groups whose moves are still pending
        StoredPart part;
    };
    std::deque<Store> stores_;
    struct PointOffset { // of a vector: the offsets of its accesses from the first vector's
        int64_t x, sum;
    };
    std::vector<PointOffset> points_;
    bool spare_ = false; // partial groups of four write unused words after the sums
    // The number of blocks so far; after how many of them the moves of a part of the results are
    // due.
    int64_t block_ = 0, lag_ = 0;
    bool all_loaded_ = false;
    // The blocks of the tile so far, and the number of blocks between two drain parts.
    int64_t blocks_ = 0, drain_interval_ = 1;

    // The epilogue of the sums if it is more than a cast: an f32 expression and its other operands.
    struct EpilogueOperand {
        Expr read; // the read in the expression, with its cast to f32 if it is narrower
        std::shared_ptr<StageState> copy;
        std::unique_ptr<Loader> loader;
    };
    Expr epilogue_;
    std::vector<EpilogueOperand> epilogue_operands_;
    std::unique_ptr<VectorEmitter> code_;
    VectorProgram epilogue_program_;
    Expr epilogue_value_; // including its cast
    // Finished words, both parts, being drained.
    std::optional<sim::Operand> epilogue_words_;
    // Of the four accesses that are being finished.
    std::array<Values, sim::cycles_per_step> epilogue_values_;

    std::string output_name() const { return finished_ ? finished_->name() : stage_.name(); }
    sim::Type precision() const { return single_ ? sim::Type::F32 : sim::Type::F16; }
    sim::Operand sums(int64_t at, int64_t stride, bool bank) const {
        return bank ? sim::grf1(int(at), int(stride)) : sim::grf0(int(at), int(stride));
    }
    // contraction_plan.cpp
    void analyze(const ScheduleState &state);
    // Allocates operands, sums and rings.
    void take_memory(const ScheduleState &state);
    // The loader of an operand; throws Unsupported for a memory that is not among `legal`.
    std::unique_ptr<Loader> loader(const ScheduleState &state, const TensorAccess &access, Form form,
                                   const std::vector<Bank> &legal, const std::string &names);
    // The path of the results.
    std::shared_ptr<const TransferPath> store_path();
    // Finds the vectors that one matrix is multiplied with.
    void find_points();
    // Prints the loops for the level l2.
    void describe();
    // contraction.cpp
    void load_copies_at(size_t at);
    // Runs the time loops from `depth` inwards.
    void walk(size_t depth);
    // Writes one matrix to a face, and multiplies its vectors.
    void multiply_block();
    // The products of one half of the matrix's columns (f32), or of all.
    void multiply_vectors(int half);
    // Begins to drain the complete sums of a tile.
    void finish_tile();
    // Drains all that is pending.
    void drain_pending();
    // Places the moves that are due, and all but `keep` of the others.
    void release_stores(int64_t keep);
    // contraction_epilogue.cpp
    void begin_epilogue(const ScheduleState &state);
    // A part of an operand for the current four accesses.
    sim::Operand epilogue_operand(const EpilogueOperand &o, int part);
    // The loops' values at an access of the results.
    Values values_of_access(int64_t access) const;
    // The reads of the epilogue's program for four accesses.
    std::function<sim::Operand(int, int)> epilogue_reader(int64_t n, bool bank);
    // Drains the next part of the pending tile.
    void drain_part();
    // Transfers word w of the finished results of four accesses to L1BM.
    void gather(int64_t n, int w, int64_t l1bm);
};

} // namespace kumiko::chip
