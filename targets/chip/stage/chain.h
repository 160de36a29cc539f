// Stages that run one after the other on one unit's data: a stage at the root whose elements leave for DRAM, and those that are computed at a
// loop of it, whose results stay in the PEs. Elements are dealt to lanes, PEs and the units above as the loops say; what a stage reads of another
// one has to stand in the same unit, or be the same in all of them (what was reduced over the units is).
#pragma once

#include "targets/chip/stage/context.h"
#include "targets/chip/vector/emit.h"
#include "targets/chip/vector/from_expr.h"

#include <deque>
#include <map>
#include <optional>

namespace kumiko::chip {

struct ChainStage;

// What a stage reads at one place of its formula: of an input, or of a stage before.
struct ChainRead {
    Expr read; // Call of type Image
    TensorAccess access;
    std::shared_ptr<Loader> loader;
    std::vector<std::pair<size_t, size_t>> loops; // the stage's loops, and those of the stage whose plan the loader has
    const ChainStage *from = nullptr;
};

struct ChainStage {
    const StageState *stage = nullptr;
    std::shared_ptr<StagePlan> plan;
    std::string name;
    kumiko::Type type;
    std::vector<size_t> time;    // own loops in time on which the result depends, outermost first
    std::vector<size_t> reduced; // and those that are reduced over
    std::vector<size_t> lanes;
    bool reduced_lanes = false;
    int64_t points = 1;            // of a unit: iterations of `time`
    Expr value;                    // of an element; of a reduction: the term
    std::optional<Component> fold; // of a reduction
    std::vector<ChainRead> reads;
    bool uses_position = false; // along the axes that it reduces
    VectorProgram program;
    // Where the results stand, four points at a time; −1: they leave.
    Bank home = Bank::Grf0;
    int64_t at = -1;

    int64_t index(const Values &values) const;     // of a point
    void set(Values &values, int64_t point) const; // a point beyond the last is the last
};

// One LW of each of four points.
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
    std::vector<size_t>
        tiles_; // and inside of it, around its tiles: copies that it has of its own are made at the last
    struct Loaded {
        std::string text; // what it holds; equal texts, equal words
        std::vector<size_t> loops;
        std::shared_ptr<Loader> loader;
    };
    std::vector<Loaded> loaders_;
    std::shared_ptr<const Road> store_;
    int64_t store_dram_ = 0;
    Rings store_rings_;
    std::optional<StoredPart> leaving_;
    std::unique_ptr<VectorEmitter> code_;
    bool four_ = false;
    bool transposes_ = false;    // what it reads, in the matrix unit
    size_t depth_ = 0;           // position of the loop at which the stages before the root are computed
    int64_t accumulators_ = 0;   // in GRF0 from here on
    Ring tree_l1bm_, tree_l2bm_; // where sums meet
    std::vector<int64_t> tree_dram_;
    int64_t tree_done_ = 0; // the step from which the last ones have left it
    Values outer_values_;   // of the root's loops around its tiles

    // chain.cpp
    void collect(const StageState &root);
    void read_all(ChainStage &s);
    std::shared_ptr<const Road> road_of(const ChainStage &s, RoadShape &shape) const;
    void load(ChainStage &s, ChainRead &r);
    int64_t transposed(const ChainStage &s, const RoadShape &shape) const;
    void place_homes();
    void make_store();
    void walk(const std::vector<size_t> &loops, const std::function<void()> &inside, size_t depth = 0);
    void begin(ChainStage &s);
    void tile();
    void compute(ChainStage &s);
    int64_t compute_in_runs(ChainStage &s); // in_runs.cpp; points that it has computed
    void leave();
    Expr inlined(const Expr &e) const;

    // chain_reads.cpp
    struct Group { // four points of a stage that are computed
        ChainStage *stage;
        std::array<Values, sim::cycles_per_step> values;
        std::map<int, sim::Operand> chosen; // by read: both parts
    };
    Group group(ChainStage &s, int64_t first) const;
    static Values of_loader(const ChainRead &r, const Values &values);
    sim::Operand word(Group &g, int which, int part);
    sim::Operand of_stage(Group &g, const ChainRead &r, int which, int part);
    void done(Group &g);
    std::array<bool, 4> lane_masks_{}; // those that are set
    int lane_mask(int lane, int lanes);

    // reduction.cpp
    int64_t chains(const ChainStage &s) const; // sums of one point that run side by side
    struct Limit {                             // elements of a reduction axis beyond which there is nothing
        size_t axis;
        int64_t below; // positions of units and lanes
        auto operator<=>(const Limit &) const = default;
    };
    // Of each unit and lane along a reduction axis, counted from where time stands; by how the loops make them.
    std::map<std::string, sim::Operand> positions_;
    void reduce(ChainStage &s);
    bool stands_still(const ChainStage &s, size_t axis) const; // the same position in all units and lanes
    // As f32, in two parts where a word has four lanes, or as i16.
    sim::Operand positions(const ChainStage &s, size_t axis, bool small);
    std::map<std::tuple<const ChainStage *, bool, std::vector<Limit>, std::vector<int64_t>>, VectorProgram> foldings_;
    const VectorProgram &folding(const ChainStage &s, bool first, const std::vector<Limit> &limits,
                                 const Values &values);
    std::vector<Limit> limits(const ChainStage &s, const Values &values) const;
    struct Folding; // what two values become
    // Tree, over MABs, L1Bs, L2Bs and groups, of values that stand in registers.
    void over_units(const ChainStage &s, const Folding &f, const std::vector<sim::Operand> &values,
                    const std::function<void(size_t value, uint32_t mabs, int64_t l1bm)> &arrived);
    void over_l2bs(const ChainStage &s, const Folding &f, int64_t l2bm);
    sim::Operand swapped_lanes(const sim::Operand &pair);
    void alu(sim::AluOp op, sim::Type type, const sim::Operand &a, const std::optional<sim::Operand> &b,
             const sim::Operand &to, int width = 1);
};

} // namespace kumiko::chip
