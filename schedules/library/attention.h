// Attention: scores, their softmax and the mix of values for a block of queries at a time, all in the nearest caches. Queries stand
// side by side in vectors, so that maxima and sums over keys need no joining of lanes; few queries take vectors along
// keys and values instead.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct AttentionParameters {
    BOOST_HANA_DEFINE_STRUCT(
        AttentionParameters, (Choice, vectors_of), // "queries", or "keys" where those are few
        (Tile, rows),                              // queries in one task
        (Tile, keys),                              // keys whose scores are in registers
        (Tile, queries),                           // queries whose mixes are in registers
        (Tile, vectors),                           // vectors of scores or values beside them
        (Tile, depth),                             // keys whose values wait in the first cache
        (Flag, online),                            // scores of so many keys at a time, in one pass
        (Flag, sum_on_the_way),                    // exponentials are summed while they are in registers
        (Flag, top_on_the_way),                    // the greatest score is taken of each tile of scores
        (Flag, parallel),                          // spread tasks over cores
        (Flag,
         whole)); // of queries that only a run numbers: blocks of so many, the last by itself, and few along keys
};

bool is_attention(const Op &op);
AttentionParameters attention_parameters(const Op &op, const Machine &machine);
Schedule schedule_attention(const Op &op, const Machine &machine, const AttentionParameters &p);

} // namespace kumiko::library
