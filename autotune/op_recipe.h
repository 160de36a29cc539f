// How another process makes an op that this one has: ops::make(name, parameters).
#pragma once

#include "ops/registry.h"

namespace kumiko {

struct OpRecipe {
    std::string name; // of the registry, or "/path/of/libmyops.so:NAME"; empty: not known
    Json parameters;
};

} // namespace kumiko
