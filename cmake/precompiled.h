// The one precompiled header: what nearly every source includes, and what costs seconds to parse.
#include "dsl/halide_passes.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>
