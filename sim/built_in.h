// The configurations built into the library: name and JSON text. The definition is generated when
// the build is configured.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace kumiko::sim {

const std::vector<std::pair<std::string, std::string>> &built_in_configs();

} // namespace kumiko::sim
