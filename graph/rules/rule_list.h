// The rules in the files of graph/rules/rewrites.
#pragma once

#include "graph/rules/rules.h"

namespace kumiko::graph {

std::vector<Rule> rule_list();

} // namespace kumiko::graph
