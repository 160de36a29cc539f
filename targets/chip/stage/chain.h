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
    Bank home = Bank::Grf0;
    int64_t at = -1;

    int64_t index(const Values &values) const;     // number of a point
    void set(Values &values, int64_t point) const; // a point beyond the last counts as the last
};

// One LW address for each of four points.
using Four = std::array<int64_t, sim::cycles_per_step>;
sim::Operand words_at(const sim::Config &config, Bank bank, const Four &at);

class Chain {
public:
    Chain(Context &c, const ScheduleState &state, const StageState &root);
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
    std::optional<StoredPart> leaving_;
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
    std::vector<const StageState *> stages_inside(const StageState &root) const;
    ChainStage &add_stage(const StageState &s, std::shared_ptr<StagePlan> plan);
    void add_region(const StageState &s, size_t d, Nesting &in) const;
    void classify_loops(bool nested);
    void read_all(ChainStage &s);
    Expr inlined(const Expr &e) const;

    // chain_transfers.cpp
    std::shared_ptr<const TransferPath> transfer_path_of(const ChainStage &s, TransferPathShape &shape) const;
    void load(ChainStage &s, ChainRead &r);
    void place_copy(const ChainStage &s, const std::vector<Copy> &copies, TransferPathShape &shape) const;
    void add_loops_around(size_t at);
    Loaded describe_copies(const ChainStage &s, const std::string &source, const std::vector<Copy> &copies,
                           const TransferPathShape &shape) const;
    bool share_loader(ChainRead &r, const Loaded &made, const Copy &copy) const;
    int64_t transposed(const ChainStage &s, const TransferPathShape &shape) const;
    void make_store();

    // chain.cpp
    void place_homes();
    void walk(const std::vector<size_t> &loops, const std::function<void()> &inside, size_t depth = 0);
    void begin(ChainStage &s);
    void tile();
    void compute(ChainStage &s);
    int64_t compute_in_runs(ChainStage &s); // in_runs.cpp; returns the number of points computed
    void leave();

    // chain_reads.cpp
    struct Group { // four points of a stage being computed
        ChainStage *stage;
        std::array<Values, sim::cycles_per_step> values;
        std::map<int, sim::Operand> chosen; // by read: both parts
    };
    Group group(ChainStage &s, int64_t first) const;
    static Values of_loader(const ChainRead &r, const Values &values);
    sim::Operand word(Group &g, int which, int part);
    sim::Operand of_stage(Group &g, const ChainRead &r, int which, int part);
    // The elements of another stage that units and lanes read: offsets of the stage's indices that
    // its loops over time must provide.
    struct Selection {
        std::vector<std::vector<int64_t>> of_pe, of_lane; // lanes of all words
        bool by_pe = false, by_lane = false;              // whether they differ
    };
    Selection selection(const Group &g, const ChainRead &r) const;
    static int lanes_per_word(const ChainStage &s);
    sim::Operand words_of_stage(const Group &g, const ChainRead &r, const std::vector<int64_t> &pe,
                                const std::vector<int64_t> &lane, int part) const;
    void select_words(sim::Type type, const sim::Operand &a, const sim::Operand *b, int mask, const sim::Operand &to);
    void done(Group &g);
    std::array<bool, 4> lane_masks_{}; // whether each is set
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
    void reduce(ChainStage &s);
    // How a stage's terms become results.
    struct Reducing {
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
    Reducing reducing(const ChainStage &s) const;
    sim::Operand accumulator(const Reducing &r, int64_t chain, int64_t group) const;
    sim::Operand home_of(const ChainStage &s, const Reducing &r, int64_t group, int part) const;
    void reduce_over_time(ChainStage &s, const Reducing &r);
    int combine_in_mab(const ChainStage &s, const Reducing &r, const Folding &f, int64_t g, const sim::Operand &pair);
    void store_result(const ChainStage &s, const Reducing &r, int64_t g, const sim::Operand &pair, int left);
    void combine_over_units(const ChainStage &s, const Reducing &r, const Folding &f, int64_t g,
                            const sim::Operand &pair, int left);
    void fold_forwarded(const Folding &f, sim::AluOp op, int rotate, const sim::Operand &a, const sim::Operand &b,
                        const sim::Operand &to);
    // Whether the position is the same in all units and lanes.
    bool stands_still(const ChainStage &s, size_t axis) const;
    // chain_positions.cpp. As f32, in two parts if a word has four lanes, or as i16.
    sim::Operand positions(const ChainStage &s, size_t axis, bool small);
    std::map<std::tuple<const ChainStage *, bool, std::vector<Limit>, std::vector<int64_t>>, VectorProgram> foldings_;
    const VectorProgram &folding(const ChainStage &s, bool first, const std::vector<Limit> &limits,
                                 const Values &values);
    std::vector<Limit> limits(const ChainStage &s, const Values &values) const;
    // reduction_units.cpp. Tree reduction over MABs, L1Bs, L2Bs and groups of values in registers.
    void over_units(const ChainStage &s, const Folding &f, const std::vector<sim::Operand> &values,
                    const std::function<void(size_t value, uint32_t mabs, int64_t l1bm)> &arrived);
    void over_l2bs(const ChainStage &s, const Folding &f, int64_t l2bm);
    sim::Operand swapped_lanes(const sim::Operand &pair);
    void alu(sim::AluOp op, sim::Type type, const sim::Operand &a, const std::optional<sim::Operand> &b,
             const sim::Operand &to, int width = 1);
};

} // namespace kumiko::chip
