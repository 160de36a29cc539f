// The loops of one stage as decisions say: an outer part, in which other stages may be computed, blocks for the caches, tiles for the
// registers, vectors inside.
#pragma once

#include "autotune/spaces/decisions.h"
#include "autotune/spaces/stage_sketch.h"
#include "schedules/library/product.h"

namespace kumiko {

struct LoopsPlan {
    const StageSketch &sketch;
    const Decisions &decisions;
    const library::MatrixProduct *product = nullptr; // the stage's, which a tensor instruction may compute
    std::vector<std::string> held = {};              // leading axes in whose loops others are computed
    int64_t held_block = 1;                          // so many of the last of them at a time
    bool parallel = false;                           // the outermost loop over cores
};

// The vector axis that is decided for: "" for none.
std::string decided_vectors(const StageSketch &sketch, const Decisions &decisions);
// Vectors of results that a reduction's tile holds; 0: it holds no tile.
int64_t decided_accumulators(const StageSketch &sketch, const Decisions &decisions);
// The tensors of which a reduction may read copies.
std::vector<const SketchRead *> packable_reads(const StageSketch &sketch);

// Splits, orders, vectorizes. Returns the innermost loop that holds others, "" when there is none. Throws as the directives do.
std::string schedule_loops(Schedule &schedule, const LoopsPlan &plan);

} // namespace kumiko
