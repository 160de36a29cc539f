// A chain of stages executed one after the other on one unit's data: a root stage whose elements
// are stored to DRAM, and the stages computed at a loop of it, whose results stay in the PEs.
// Elements are distributed to lanes, PEs and the units above by the loops. What one stage reads
// from another must be in the same unit, or be the same in all units (as results of reductions over
// units are).
#pragma once

#include "targets/chip/stage/context.h"
#include "targets/chip/vector/emit.h"
#include "targets/chip/vector/from_expr.h"

#include <deque>
#include <map>
#include <optional>

namespace kumiko::chip {

struct ChainStage;

// A read in a stage's formula: of an input or of an earlier stage.
struct ChainRead {
    Expr read; // Call of type Image
    TensorAccess access;
    std::shared_ptr<Loader> loader;
    // Pairs of a loop of the stage and the corresponding loop of the stage whose plan the loader
    // has.
    std::vector<std::pair<size_t, size_t>> loops;
    const ChainStage *from = nullptr;
};

struct ChainStage {
    const StageState *stage = nullptr;
    std::shared_ptr<StagePlan> plan;
    std::string name;
    kumiko::Type type;
    std::vector<size_t> time;    // own time loops on which the result depends, outermost first
    std::vector<size_t> reduced; // own time loops that reduce
    std::vector<size_t> lanes;
    bool reduced_lanes = false;
    int64_t points = 1;            // iterations of `time` per unit
    Expr value;                    // formula of an element; for a reduction: the term
    std::optional<Component> fold; // for a reduction
    std::vector<ChainRead> reads;
    bool uses_position = false; // reads its position along the axes that it reduces
    VectorProgram program;
    // The location of the results, four points at a time; −1: they are stored to DRAM.
    Bank result_bank = Bank::Grf0;
    int64_t at = -1;

    int64_t index(const Values &values) const;     // number of a point
    void set(Values &values, int64_t point) const; // a point beyond the last counts as the last
};

// One LW address for each of four points.
using PointAddresses = std::array<int64_t, sim::cycles_per_step>;
sim::Operand words_at(const sim::Config &config, Bank bank, const PointAddresses &at);

// Compiles a chain. It has more than 40 methods, because loads, reads, reductions and stores share
// the stages, their registers and the current values of loops; they are grouped by the file that
// defines them.
class Chain {
public:
    Chain(Context &c, const ScheduleState &state, const StageState &root);
    // Places all operations.
    void run();

private:
    Context &c_;
    const ScheduleState &state_;
    std::deque<ChainStage> stages_; // the root last
    ChainStage *root_ = nullptr;
    std::vector<size_t> outer_; // time loops of the root around the chain
    // Time loops of the root inside of those and around its tiles. Its own copies are made at the
    // last one.
    std::vector<size_t> tiles_;
    struct Loaded {
        std::string text; // describes the content; equal texts mean equal words
        std::vector<size_t> loops;
        std::shared_ptr<Loader> loader;
    };
    std::vector<Loaded> loaders_;
    std::shared_ptr<const TransferPath> store_;
    int64_t store_dram_ = 0;
    Rings store_rings_;
    std::optional<StoredPart> pending_store_;
    std::unique_ptr<VectorEmitter> code_;
    bool four_ = false;
    bool transposes_ = false; // transposes its operand in the matrix unit
    // Position of the loop at which the stages before the root are computed.
    size_t depth_ = 0;
    int64_t accumulators_ = 0;   // start of the accumulators in GRF0
    Ring tree_l1bm_, tree_l2bm_; // for reductions over units
    std::vector<int64_t> tree_dram_;
    int64_t tree_done_ = 0; // step from which these are free again
    Values outer_values_;   // values of the root's loops around its tiles

    // chain_stages.cpp
    void collect(const StageState &root);
    // The stages computed at a loop of the root.
    std::vector<const StageState *> stages_inside(const StageState &root) const;
    // Appends a stage.
    ChainStage &add_stage(const StageState &s, std::shared_ptr<StagePlan> plan);
    // Sets the region of axis d that the stages so far read.
    void add_region(const StageState &s, size_t d, Nesting &in) const;
    // Sorts the loops into lanes, time and reductions.
    void classify_loops(bool nested);
    // Finds the reads of a stage, their copies, and its program.
    void read_all(ChainStage &s);
    // The expression with inlined stages replaced by their formulas.
    Expr inlined(const Expr &e) const;

    // chain_transfers.cpp
    std::shared_ptr<const TransferPath> transfer_path_of(const ChainStage &s, TransferPathShape &shape) const;
    // Finds or makes the loader of a read.
    void load(ChainStage &s, ChainRead &r);
    // Divides the loops of the access into keys and digits of the path.
    void place_copy(const ChainStage &s, const std::vector<Copy> &copies, TransferPathShape &shape) const;
    // Moves the loops down to position `at` out of the chain.
    void add_loops_around(size_t at);
    // Describes the words that the copies hold at any time.
    Loaded describe_copies(const ChainStage &s, const std::string &source, const std::vector<Copy> &copies,
                           const TransferPathShape &shape) const;
    // Whether an equal copy exists, whose loader the read then uses.
    bool share_loader(ChainRead &r, const Loaded &made, const Copy &copy) const;
    // The number of consecutive accesses along the last axis if a tile is transposed, otherwise 0.
    int64_t transposed(const ChainStage &s, const TransferPathShape &shape) const;
    // Makes the path of the results.
    void make_store();

    // chain.cpp
    void allocate_results();
    // Calls `inside` for all values of these loops of the root.
    void walk(const std::vector<size_t> &loops, const std::function<void()> &inside, size_t depth = 0);
    // Ensures that the copies that the stage reads are loaded.
    void load_copies(ChainStage &s);
    // Computes and stores a tile of the root.
    void compute_tile();
    // Computes all points of another stage, into its location.
    void compute(ChainStage &s);
    // in_runs.cpp. Returns the number of points computed, 0 if the stage has no such form.
    int64_t compute_in_runs(ChainStage &s);
    // The addresses of both operands of the stage's only operation if they are consecutive words of
    // LM; those of LM1 follow those of LM0.
    std::optional<std::array<int64_t, 2>> consecutive_operands(ChainStage &s);
    // Copies two words per cycle through the ALU.
    void copy_pairs(const sim::Operand &from, const sim::Operand &to);
    // Places the moves of the last stored part.
    void place_pending_store();

    // chain_reads.cpp
    struct Group { // four points of a stage being computed
        ChainStage *stage;
        std::array<Values, sim::cycles_per_step> values;
        std::map<int, sim::Operand> chosen; // by read: both parts
    };
    // The group that begins at point `first`.
    Group group(ChainStage &s, int64_t first) const;
    // The values of the loops of the loader's plan.
    static Values loader_values(const ChainRead &r, const Values &values);
    // The operand for a part of read `which`.
    sim::Operand read_word(Group &g, int which, int part);
    // The operand for a read of another stage's result.
    sim::Operand result_of(Group &g, const ChainRead &r, int which, int part);
    // The elements of another stage that units and lanes read: offsets of the stage's indices that
    // its loops over time must provide.
    struct Selection {
        std::vector<std::vector<int64_t>> of_pe, of_lane; // lanes of all words
        bool by_pe = false, by_lane = false;              // whether they differ
    };
    // The offsets at which units and lanes read.
    Selection selection(const Group &g, const ChainRead &r) const;
    // The number of lanes in a word of the stage.
    static int lanes_per_word(const ChainStage &s);
    // The words that the four points read at these offsets.
    sim::Operand words_of_stage(const Group &g, const ChainRead &r, const std::vector<int64_t> &pe,
                                const std::vector<int64_t> &lane, int part) const;
    // Writes a to `to`; with b, only where the mask is set, and b elsewhere.
    void select_words(sim::Type type, const sim::Operand &a, const sim::Operand *b, int mask, const sim::Operand &to);
    // Returns the registers of a group.
    void release(Group &g);
    std::array<bool, 4> lane_masks_{}; // whether each is set
    // The mask entry that selects a lane, set on first use.
    int lane_mask(int lane, int lanes);

    // reduction.cpp
    struct Folding;                            // combines two values; chain_folding.h
    int64_t chains(const ChainStage &s) const; // number of parallel partial sums of one point
    // The end of a reduction axis, beyond which there are no elements.
    struct Limit {
        size_t axis;
        int64_t below; // in positions of units and lanes
        auto operator<=>(const Limit &) const = default;
    };
    // Positions of each unit and lane along a reduction axis relative to the current time step,
    // keyed by the loops that produce them.
    std::map<std::string, sim::Operand> positions_;
    // Computes all points of a reduction.
    void reduce(ChainStage &s);
    // How a stage's terms become results.
    struct ReductionPlan {
        sim::Type type;             // of the accumulators
        int parts = 1;              // words of an accumulator
        int64_t groups = 1;         // of four points
        int64_t chains = 1;         // accumulators of a point
        std::vector<int> rotations; // distances of the PEs that are combined
        bool tree = false;          // MABs or units above are combined
        // Complete sums are written by the last step: another pass would need the port through
        // which sums are read.
        bool direct = false;
        bool widened() const { return type == sim::Type::F16; }       // combined in f32
        int words() const { return widened() || parts == 2 ? 2 : 1; } // being combined
    };
    // How the terms of the stage become results.
    ReductionPlan plan_reduction(const ChainStage &s) const;
    // The location of an accumulator for four points.
    sim::Operand accumulator(const ReductionPlan &r, int64_t chain, int64_t group) const;
    // The location of a part of the results of four points.
    sim::Operand result_operand(const ChainStage &s, const ReductionPlan &r, int64_t group, int part) const;
    // Folds the terms of all time steps into the accumulators.
    void reduce_over_time(ChainStage &s, const ReductionPlan &r);
    // Folds accumulators, lanes and PEs of a MAB; returns the number of words that hold values.
    int combine_in_mab(const ChainStage &s, const ReductionPlan &r, const Folding &f, int64_t g,
                       const sim::Operand &pair);
    // Writes combined values to the location of the results.
    void store_result(const ChainStage &s, const ReductionPlan &r, int64_t g, const sim::Operand &pair, int left);
    // Combines the values of all units by the tree.
    void combine_over_units(const ChainStage &s, const ReductionPlan &r, const Folding &f, int64_t g,
                            const sim::Operand &pair, int left);
    // Folds a, which passes through the ALU's forward, into b.
    void fold_forwarded(const Folding &f, sim::AluOp op, int rotate, const sim::Operand &a, const sim::Operand &b,
                        const sim::Operand &to);
    // Whether the position is the same in all units and lanes.
    bool is_uniform(const ChainStage &s, size_t axis) const;
    // chain_positions.cpp. The part of a position that depends on the unit is the sum over PE, MAB,
    // L1B and L2B numbers n of factor * (n >> shift & mask).
    struct UnitIndexFields {
        std::array<uint64_t, 4> shift{}, mask{};
        std::array<float, 4> factor{};
    };
    // Throws Unsupported if the loops that distribute the axis have no such form.
    UnitIndexFields unit_index_fields(const ChainStage &s, size_t axis) const;
    // The positions of a word's lanes along the axis in each unit, in registers: as f32, in two
    // parts if a word has four lanes, or as i16.
    sim::Operand positions(const ChainStage &s, size_t axis, bool small);
    std::map<std::tuple<const ChainStage *, bool, std::vector<Limit>, std::vector<int64_t>>, VectorProgram> foldings_;
    // The program that folds a term into the accumulator.
    const VectorProgram &folding(const ChainStage &s, bool first, const std::vector<Limit> &limits,
                                 const Values &values);
    // The axes whose end some unit or lane exceeds at these time steps.
    std::vector<Limit> limits(const ChainStage &s, const Values &values) const;
    // reduction_units.cpp. Tree reduction over MABs, L1Bs, L2Bs and groups of values in registers.
    void over_units(const ChainStage &s, const Folding &f, const std::vector<sim::Operand> &values,
                    const std::function<void(size_t value, uint32_t mabs, int64_t l1bm)> &arrived);
    // Reduces 64 LW of L2BM over L2Bs, via DRAM.
    void over_l2bs(const ChainStage &s, const Folding &f, int64_t l2bm);
    // The first word of a pair with its 32-bit lanes exchanged.
    sim::Operand swapped_lanes(const sim::Operand &pair);
    // Places one ALU operation.
    void alu(sim::AluOp op, sim::Type type, const sim::Operand &a, const std::optional<sim::Operand> &b,
             const sim::Operand &to, int width = 1);
};

} // namespace kumiko::chip
