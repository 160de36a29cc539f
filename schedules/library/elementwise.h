// Any op: stages one after the other, each by the loops that its own reads ask for. Pointwise
// producers are inlined where that is cheap. Vectors run along a stage's last axis where its reads
// are at most 4 elements apart. A reduction that reads rows keeps partial results in vectors; one
// whose rows share vectors, as a product or a convolution, runs in register tiles. The outermost
// loop of each stage is spread over cores.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct ElementwiseParameters {
    BOOST_HANA_DEFINE_STRUCT(ElementwiseParameters, (Tile, unroll), // vectors per iteration
                             (Flag, parallel));                     // spread the outermost loop over cores
};

bool is_elementwise(const Op &op); // any op whatsoever
ElementwiseParameters elementwise_parameters(const Op &op, const Machine &machine);
Schedule schedule_elementwise(const Op &op, const Machine &machine, const ElementwiseParameters &p);

// What is decided of single stages in place of these rules; all else is as they say.
struct StageDecisions {
    enum class Place { Inline, Kept }; // Kept: not inlined, and held by no loop that the rules choose
    std::map<std::string, Place> places;
    // Makes the loops of one stage that others may be computed in, and computes these there, after
    // stages have been inlined. Null: the rules do.
    std::function<void(Schedule &)> hold;
    std::map<std::string, std::function<void(Schedule &)>> loops; // makes those of the stage
    bool share_nests = true;
};
// Throws as the directives do.
Schedule schedule_by_rules(const Op &op, const Machine &machine, const ElementwiseParameters &p,
                           const StageDecisions &decided);

} // namespace kumiko::library
