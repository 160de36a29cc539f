// Attention for a block of queries at a time: scores, their softmax, and the weighted sum of
// values, all kept in L1 and L2. Vectors run along queries, so that maxima and sums over keys need
// no horizontal reduction. With few queries, vectors run along keys and value elements instead.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

// Parameters of schedule_attention().
struct AttentionParameters {
    BOOST_HANA_DEFINE_STRUCT(
        // "queries"; or, with few queries, "keys"
        AttentionParameters, (Choice, vectors_of),
        // queries per task
        (Tile, rows),
        // keys in the register tile of scores
        (Tile, keys),
        // queries in the register tile of the weighted sum
        (Tile, queries),
        // vectors of scores or values beside them
        (Tile, vectors),
        // keys in a panel of values in L1
        (Tile, depth),
        // online softmax: one pass over blocks of `depth` keys
        (Flag, online),
        // sum exponentials while they are in registers
        (Flag, sum_on_the_way),
        // take the maximum of each score tile in registers
        (Flag, top_on_the_way),
        // distribute tasks over cores
        (Flag, parallel),
        (Flag,
         // with an unknown number of queries: one kernel each for at least `rows`, at least a
         // vector, and fewer
         whole));
};

// Whether the op is a softmax, along keys, of products of two inputs, and its product with a third
// one, with pointwise stages in between.
bool is_attention(const Op &op);
AttentionParameters attention_parameters(const Op &op, const Machine &machine);
Schedule schedule_attention(const Op &op, const Machine &machine, const AttentionParameters &p);

} // namespace kumiko::library
