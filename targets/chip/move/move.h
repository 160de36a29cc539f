// The generic move: copies a tensor from any layout in any memory to any other by the cheapest
// sequence of tree operations found.
//
//   Scratch scratch;
//   scratch.l1bm = {4096, 8192};
//   Move m = plan_move({Memory::L2bm, from, 0}, {Memory::Lm0, to, 64}, scratch, config);
//   m.cycles;                                 // predicted
//   m.ops;                                    // for the packer, or:
//   sim::Program p = program_of(m, config);   // in order, with gaps and REPs
//
// Both tensors own their words from the first to the last (in DRAM and PDM up to the next multiple
// of 64) in all units of the memory. In the destination's padding, and in units that it does not
// cover, the content is undefined after the move. The source is preserved; sharing words with the
// destination is an error. Scratch is clobbered.
#pragma once

#include "targets/chip/layout/conversion.h"
#include "targets/chip/micro/micro_op.h"

#include <string>
#include <vector>

namespace kumiko::chip {

// Scratch space that the caller provides for intermediate results.
struct Scratch {
    struct Range {
        int64_t begin = 0, end = 0; // LW; none when empty
        int64_t words() const { return end - begin; }
    };
    Range l2bm, l1bm, lm0, lm1, grf0, grf1;
    int tag_begin = 0, tag_end = 0;   // tags of off-chip moves
    int mask_begin = 1, mask_end = 1; // mask entries
};

// Source elements that differ along `axis` of the source are combined; the destination lacks that
// axis. The order is the machine's: see docs/chip-layouts.md.
struct MoveReduction {
    int axis = 0;
    sim::Reduction operation = sim::Reduction::AddF32;
};

struct MoveOptions {
    std::optional<MoveReduction> reduction;
    // Preserve destination words that hold no element, for a tile of a larger tensor. In DRAM and
    // PDM, then only ranges whose size is a multiple of 64 LW and whose address is a multiple of 16
    // can be written.
    bool keep_padding = false;
};

struct Move {
    // One kind of operation on all of its data.
    struct Stage {
        std::string text; // "l1.scatter l1bm -> lm0, 16 steps"
    };
    std::vector<Stage> stages;
    std::vector<MicroOp> ops; // in program order; the first ones need no wait
    int64_t cycles = 0;       // predicted, without overlap with other work
    ConversionBound bound;    // no sequence is quicker
    int candidates = 0;       // number of sequences that were costed

    std::string to_string() const;
};

// Throws UserError for placements that do not fit (placement.h), differ in shape or type, or share
// words. Throws Unsupported if no sequence was found; the message names what would make one
// possible: more scratch (which memory, how much), a tag, mask entries.
Move plan_move(const Placement &from, const Placement &to, const Scratch &scratch, const sim::Config &config,
               const MoveOptions &options = {});

// A program that consists of this move.
sim::Program program_of(const Move &move, const sim::Config &config);

} // namespace kumiko::chip
