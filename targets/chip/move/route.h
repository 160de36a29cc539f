// The way that always works, given scratch: every PE is shown everything, and takes what is its own.
#pragma once

#include "targets/chip/move/stage.h"

namespace kumiko::chip {

// The source goes up to the L2BMs and from there, piece by piece, to all PEs; masks by unit and lane choose. `lacking` says what would
// make it possible where it is not.
struct Route {
    Ops ops;
    std::vector<std::string> texts;
};
// `top` is the memory whose units the source and the destination stay below: L2BM, or L1BM where the L1Bs do alike.
std::optional<Route> route(const State &from, const State &to, Memory top, const Scratch &scratch,
                           const sim::Config &config, std::string &lacking);

} // namespace kumiko::chip
