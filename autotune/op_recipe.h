// How another process constructs the same op: ops::make(name, parameters).
#pragma once

#include "support/boxed_json.h"

namespace kumiko {

// An op by its registry name and parameters.
struct OpRecipe {
    std::string name; // registry name, or "/path/of/libmyops.so:NAME"; "" if unknown
    Boxed<Json> parameters;
};

} // namespace kumiko
