// The transposition of a tile in LM, as the generic move plans it (move/move.h).
#pragma once

#include "targets/chip/micro/micro_op.h"

namespace kumiko::chip {

// A tile of faces: 16 words of 16 columns (f16), or 8 of 8 (f32). `faces` of them are interleaved,
// so that word r of face f of a run is at address r · faces + f.
struct TransposedTile {
    int per_word = 4; // elements in a LW: 4 (f16) or 2 (f32)
    int64_t runs = 1, faces = 1;
};

// The micro-operations that transpose each face: word r, element c becomes word c, element r. Faces
// of the result follow one another. The tile is at address 0 of LM0, the result at address 0 of
// LM1; a micro-operation reads or writes one of them, so both can be moved elsewhere.
std::vector<MicroOp> plan_transposition(const TransposedTile &tile, const sim::Config &config);

} // namespace kumiko::chip
