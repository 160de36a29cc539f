// How another process makes an op that this one has: ops::make(name, parameters).
#pragma once

#include "support/boxed_json.h"

namespace kumiko {

struct OpRecipe {
    std::string name; // of the registry, or "/path/of/libmyops.so:NAME"; empty: not known
    Boxed<Json> parameters;
};

} // namespace kumiko
