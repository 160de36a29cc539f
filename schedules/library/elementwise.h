// Any op: stages one after the other, each by the loops that its own reads ask for. Pointwise
// producers are inlined where that is cheap. Vectors run along a stage's last axis where its reads
// are at most 4 elements apart. A reduction that reads rows keeps partial results in vectors; one
// whose rows share vectors, as a product or a convolution, runs in register tiles. The outermost
// loop of each stage is spread over cores.
#pragma once

#include "schedules/library/space.h"

#include <map>
#include <set>

namespace kumiko::library {

struct ElementwiseParameters {
    BOOST_HANA_DEFINE_STRUCT(ElementwiseParameters, (Tile, unroll), // vectors per iteration
                             (Flag, parallel));                     // spread the outermost loop over cores
};

bool is_elementwise(const Op &op); // any op whatsoever
ElementwiseParameters elementwise_parameters(const Op &op, const Machine &machine);
Schedule schedule_elementwise(const Op &op, const Machine &machine, const ElementwiseParameters &p);

// Decisions that replace the rules for single stages. The rules make all other decisions.
struct StageDecisions {
    enum class Place { Inline, Kept }; // Kept: not inlined, and held by no loop that the rules choose
    std::map<std::string, Place> places;
    // Splits the loops of one stage, and computes other stages in them. Runs after stages have been
    // inlined. Null: the rules choose the stages.
    std::function<void(Schedule &)> hold;
    // By stage: a function that splits and orders its loops. The rules do it for other stages.
    std::map<std::string, std::function<void(Schedule &)>> loops;
    std::set<std::string> unfinished; // pointwise stages that no reduction ends in by the rules
    bool share_nests = true;
};
// Throws as the directives do.
Schedule schedule_by_rules(const Op &op, const Machine &machine, const ElementwiseParameters &p,
                           const StageDecisions &decided);

} // namespace kumiko::library
