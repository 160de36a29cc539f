// One run: executes the words step by step. The PEs' work of a step is deferred until something
// depends on it, so that a block of PEs executes several steps while its data stays in the host's
// caches.
#pragma once

#include "sim/engine/chip_state.h"
#include "sim/engine/hazards.h"
#include "sim/engine/moves.h"
#include "sim/engine/plan.h"
#include "sim/simulator.h"

#include <span>

namespace kumiko::sim {

class Runner {
public:
    Runner(const Config &config, const SimulateOptions &options, const Kernels &kernels, ChipState &chip,
           const Program &program, HostMemory &memory);
    Run run();

private:
    void count_results();

    // The words that a tree slot reads or writes.
    struct Extent {
        int64_t begin = 0, end = 0;
    };

    // The inputs of the units for one step. Rows are planes of the PEs, which are not moved.
    struct Resolved {
        const PlannedWord *word = nullptr;
        uint32_t index = 0;
        int addresses[port_count][4];
        Rows rows[source_count];
        RowsOut out[forward_count];
        bool kept[forward_count] = {}; // the result is kept for the next step
        Extent l1;
        bool l1_partial = false; // L1 excludes some MABs
    };

    // step.cpp: one word. access.cpp: its accesses, and whether they are legal.
    void step(uint32_t index);
    // Advances the time until the moves with the tag are complete.
    void wait(const PlannedWord &p);
    // Times a move, checks it, and copies its data.
    void issue_move(const PlannedWord &p);
    // Sets the addresses of all ports in this step.
    void resolve_addresses(const PlannedWord &p);
    // Sets the addresses of LM0 that come from T, for each PE.
    void resolve_by_t(const PlannedWord &p);
    // Checks hazards and definedness of all operands.
    void check_reads(const PlannedWord &p);
    // Checks that no address is written twice.
    void check_writes(const PlannedWord &p);
    // Throws UserError if the operand reads a word that was never written.
    void check_operand_defined(const PlannedWord &p, Source s, int width, Slot slot);
    // Finds the planes of all operands and results.
    void resolve_rows(const PlannedWord &p);
    // Expands the word's mask to planes.
    void resolve_masks(const PlannedWord &p);
    // Records the step of each write, for later hazards.
    void stamp_writes(const PlannedWord &p);
    // Marks the words of a memory as defined.
    void mark_written(const PlannedWord &p, int memory, const PlannedAccess &access);
    // The words of a tree memory that a slot accesses; throws UserError beyond its end.
    Extent extent(const TreeAddress &a, int64_t words, int64_t size, const char *memory, Slot slot) const;
    // Throws UserError with the step and the word.
    [[noreturn]] void fail(Slot slot, const std::string &message) const;
    // Throws HazardError with the step and the word.
    [[noreturn]] void hazard(Rule rule, const std::string &resource, const std::string &cause, Slot a, Slot b) const;
    Stamp stamp(Slot slot) const { return {step_, index_, slot}; }
    // The plane of word j of cycle t.
    static size_t plane_of(const Resolved &r, int memory, int t, int j);

    // units.cpp: the PEs, block by block.
    void run_units(const PlannedWord &p);
    // Executes all deferred steps.
    void run_waiting();
    // Executes steps block by block.
    void run_steps(std::span<const Resolved> steps);
    // The part of a step for a block of PEs: bytes [at, at + bytes) of each plane.
    struct Part {
        const Resolved &step;
        size_t at, bytes;
        size_t out_at[forward_count];
    };
    // Executes one step for one block of PEs.
    void run_block(const Resolved &r, size_t at, size_t bytes);
    // Sets the disabled lanes of a result to zero.
    void mask_result(const Part &part, int forward, const Rows &mask, int width);
    // Writes a result to its destinations.
    void commit(const Part &part, uint8_t to, int forward, int width, const Rows *mask);
    // Writes the mask entry of a comparison.
    void commit_mask_entry(const Part &part);

    // tree.cpp: L1 and L2.
    void l1_extent(const PlannedWord &p);
    // Checks the source of L1.
    void check_l1_source(const PlannedWord &p);
    // Transfers words of one L1BM to its PEs.
    void l1_down(const Resolved &r, size_t l1b, size_t out_at) const;
    // Transfers or reduces words of PEs into L1BM.
    void l1_up(const Resolved &r, size_t l1b, size_t at);
    // Sets the words that L2 accesses.
    void l2_extents(const PlannedWord &p);
    // Reads what L2 transfers, before the writes of the step.
    void l2_read(const PlannedWord &p);
    // Writes it.
    void l2_write(const PlannedWord &p);

    const Config &config_;
    const SimulateOptions &options_;
    const Kernels &kernels_;
    ChipState &chip_;
    Planned program_;
    HostMemory &memory_;
    Hazards hazards_;
    Moves moves_;
    Run run_;

    // The current step.
    int64_t step_ = 0;
    uint64_t cycle_ = 0;
    uint32_t index_ = 0;
    int64_t iteration_[2] = {}; // of the outer and inner REP
    Resolved now_;
    std::vector<int> by_t_[4]; // LM0 addressed by T: one per PE
    Rows mau_mask_, alu_mask_;
    Rows selected_rows_; // selected_ in every row
    Extent l2_l2bm_, l2_l1bm_, l2_second_;
    bool forward_partial_[forward_count] = {};

    std::vector<Resolved> waiting_; // steps that the units have not executed, in order

    size_t l1b_bytes_, block_l1bs_;
    Planes scratch_;      // [8·forward + row], a block
    Planes gathered_;     // LM0 by T: 8 rows
    Planes mask_scratch_; // 8 rows for MAU, 8 for ALU
    Planes selected_;     // all ones in the MABs that L1 serves
    uint32_t selected_set_ = 0;
    bool selected_known_ = false;
    std::vector<uint64_t> l2_data_, reduce_;
    uint16_t tags_issued_ = 0;
    Stamp last_move_;
};

} // namespace kumiko::sim
