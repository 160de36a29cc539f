// Makes the loops of one stage from the decisions: outer loops in which other stages may be
// computed, cache blocks, register tiles, vectors inside.
#pragma once

#include "autotune/spaces/decisions.h"
#include "autotune/spaces/stage_sketch.h"
#include "schedules/library/product.h"

namespace kumiko {

struct LoopsPlan {
    const StageSketch &sketch;
    const Decisions &decisions;
    // That of the stage, which a tensor instruction may compute.
    const library::MatrixProduct *product = nullptr;
    std::vector<std::string> held = {}; // leading axes in whose loops other stages are computed
    int64_t held_block = 1;             // block size of the last of them
    bool parallel = false;              // the outermost loop runs on several cores
};

// The decided vector axis; "" if none.
std::string decided_vectors(const StageSketch &sketch, const Decisions &decisions);
// The number of result vectors in a reduction's register tile; 0: no tile.
int64_t decided_accumulators(const StageSketch &sketch, const Decisions &decisions);
// The tensors of which the reduction may read packed copies.
std::vector<const SketchRead *> packable_reads(const StageSketch &sketch);

// Applies splits, reorders and vectorization. Returns the innermost loop that holds others, "" if
// there is none. Throws as the directives do.
std::string schedule_loops(Schedule &schedule, const LoopsPlan &plan);

} // namespace kumiko
