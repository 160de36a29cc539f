// The configurations that the library carries: name and JSON text. Their definition is made when the project is configured.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace kumiko::sim {

const std::vector<std::pair<std::string, std::string>> &built_in_configs();

} // namespace kumiko::sim
