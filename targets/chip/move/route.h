// The fallback that always works, given scratch: all data is broadcast to every PE, which keeps its
// own.
#pragma once

#include "targets/chip/move/stage.h"

namespace kumiko::chip {

// The source is moved up to the L2BMs and from there, piece by piece, to all PEs; masks by unit and
// lane select. If that is impossible, `lacking` describes what is missing.
struct Route {
    Ops ops;
    std::vector<std::string> texts;
};
// `top` is the highest memory on the path: L2BM, or L1BM if all L1Bs do the same.
std::optional<Route> route(const State &from, const State &to, Memory top, const Scratch &scratch,
                           const sim::Config &config, std::string &lacking);

} // namespace kumiko::chip
