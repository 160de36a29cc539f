// The packer merges operations in program order into words by list scheduling: each operation goes
// into the earliest step in which its operands are ready and its slots and ports are free, without
// changing earlier placements.
//
// Program order defines the semantics and is the scheduling priority: a later operation takes the
// resources that earlier ones left, and may execute before them if no data dependence forbids it.
// So fully unrolled loop iterations overlap, and transfers for the next tile fill the gaps of the
// current one. All gaps of the machine's hazard rules are kept; the simulator's checker verifies
// it.
//
// Off-chip moves are issued at predicted steps (move_order.h), and a wait is placed in the first
// word after a move's end, so that no wait stalls.
#pragma once

#include "sim/program.h"
#include "targets/chip/micro/micro_op.h"
#include "targets/chip/pack/move_order.h"
#include "targets/chip/pack/packing.h"
#include "targets/chip/pack/tally.h"

#include <atomic>
#include <map>
#include <unordered_map>

namespace kumiko::chip {

class Packer {
public:
    // When *stop is true, the next place() throws UserError; null: never.
    explicit Packer(const sim::Config &config, Packing packing = Packing::Full,
                    const std::atomic<bool> *stop = nullptr);

    // Places an operation not before `earliest`; returns the step of its first part.
    int64_t place(const MicroOp &op, int64_t earliest = 0);
    // Places moves between DRAM and L2BM that belong together: they touch the same words of L2BM,
    // each in L2Bs of its own. Chooses the tags. Returns the step from which all are complete and
    // waited for.
    int64_t place(const std::vector<sim::Mv> &moves, int64_t earliest = 0);

    // The words, with an end after which nothing is in flight.
    sim::Program finish();

    // The cycle at which a group's memory is free after all moves so far, and the cycle from which
    // words that L2 writes to L2BM may be moved.
    int64_t group_free(int group) const { return moves_.group_free(group); }
    int64_t movable(int64_t l2bm, int64_t words) const;

    int64_t steps() const { return int64_t(words_.size()); }
    // The number of steps in which a unit has been busy.
    int64_t busy(Unit u) const { return busy_[size_t(u)]; }
    int64_t operations() const { return operations_; }
    const Tally &tally() const { return tally_; } // of Packing::Counted
    // The first operations in program order, one per line: the step, and what it does.
    const std::string &first_operations() const { return first_; }

private:
    struct Times {                // of one word of a memory, in steps
        int32_t written = -1000;  // last
        int32_t read = -1;        // last
        int32_t ready = 0;        // readable by anyone from here on
        int32_t stored = 0;       // no move from L2BM to DRAM is in flight from here on
        uint32_t stored_l2bs = 0; // in these L2Bs
        bool by_l2 = false;       // last written by the L2 slot
    };
    const sim::Config &config_;
    Packing packing_;
    const std::atomic<bool> *stop_;
    int64_t last_ = -1; // step of the last operation placed
    std::vector<sim::Word> words_;
    std::vector<uint32_t> used_; // units of each step
    // By resource; none of Base, Forward, Move.
    std::array<std::vector<Times>, sim::resource_count> times_;
    // Union–find for each combination of units requested: the next step to try when searching from
    // a step.
    std::unordered_map<uint64_t, std::vector<int32_t>> free_;
    MoveOrder moves_;
    std::vector<std::map<int64_t, int64_t>> tags_; // steps in which each tag is in use: from, to
    std::array<int64_t, 32> busy_{};
    int64_t operations_ = 0;
    std::string first_;
    Tally tally_;
    // Adds a line to first_operations().
    void log_operation(int64_t step, const sim::Word &word);

    // Of the micro-op that is being placed: the accesses of each part, and the units that it
    // occupies in two consecutive steps.
    using Units = std::array<uint32_t, 2>;
    std::array<sim::Accesses, 2> accesses_;
    Units units_{};

    // Makes room for this number of steps.
    void reserve(int64_t steps);
    // Sets accesses_ and units_ to those of the operation.
    void derive_accesses(const MicroOp &op);
    // The earliest step that the data dependences of the operation allow.
    int64_t ready() const;
    // The same for one access.
    int64_t ready(const sim::Access &access) const;
    // Whether the units are free in two consecutive steps.
    bool fits(const Units &units, int64_t step) const;
    // Whether they are free in one step, with the gaps of LM around it.
    bool fits_part(uint32_t units, int64_t step) const;
    // The first such step from `from` on.
    int64_t first_fit(const Units &units, int64_t from);
    // Merges a word into a step.
    void commit(const sim::Word &word, uint32_t units, int64_t step);
    // Records the accesses for later operations, the first part being in that step.
    void record_accesses(int64_t step);
    // The same for the L2BM words of moves.
    int64_t ready(const std::vector<sim::Mv> &moves) const;
    // Records a move that is issued and complete at these steps.
    void record_accesses(const sim::Mv &move, int64_t issued, int64_t done);
    // Counts moves, all issued at once; returns the step at which they are complete.
    int64_t count_moves(const std::vector<sim::Mv> &moves, int64_t from);
    struct MoveBatch { // moves with a common tag and wait
        // Steps: of the first issue; from which all are complete.
        int64_t first = INT64_MAX, done = 0;
        std::vector<int64_t> issued;
    };
    // False if no tag is free from the first of them to the end of this one.
    bool place_move(const sim::Mv &move, int64_t from, MoveBatch &batch);
    // A tag not in use in any of these steps; −1 if there is none.
    int free_tag(int64_t begin, int64_t end) const;
};

} // namespace kumiko::chip
