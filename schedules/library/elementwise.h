// Any op. Stages run one after the other, each with loops chosen from its own reads. Pointwise
// producers are inlined if that is cheap. Vectors run along a stage's last axis if its reads are at
// most 4 elements apart. A reduction along rows keeps partial results in vectors; one whose rows
// share vectors, as in a product or a convolution, uses register tiles. The outermost loop of each
// stage is distributed over cores.
#pragma once

#include "schedules/library/space.h"

#include <map>
#include <set>

namespace kumiko::library {

// Parameters of schedule_elementwise().
struct ElementwiseParameters {
    BOOST_HANA_DEFINE_STRUCT(ElementwiseParameters, (Tile, unroll), // vectors per iteration
                             // distribute the outermost loop over cores
                             (Flag, parallel));
};

bool is_elementwise(const Op &op); // any op whatsoever
ElementwiseParameters elementwise_parameters(const Op &op, const Machine &machine);
Schedule schedule_elementwise(const Op &op, const Machine &machine, const ElementwiseParameters &p);

// Decisions that replace the rules for single stages. The rules make all other decisions.
struct StageDecisions {
    enum class Place { Inline, Kept }; // Kept: not inlined, nor placed by the rules
    std::map<std::string, Place> places;
    // Splits the loops of one stage, and computes other stages in them. Runs after stages have been
    // inlined. Null: the rules choose the stages.
    std::function<void(Schedule &)> hold;
    // By stage: a function that splits and orders its loops. The rules do it for other stages.
    std::map<std::string, std::function<void(Schedule &)>> loops;
    // Pointwise stages that the rules do not make the epilogue of a reduction.
    std::set<std::string> unfinished;
    bool share_nests = true; // compute_with of stages with equal loops (one_nest.h)
};
// Throws as the directives do.
Schedule schedule_by_rules(const Op &op, const Machine &machine, const ElementwiseParameters &p,
                           const StageDecisions &decided);

} // namespace kumiko::library
