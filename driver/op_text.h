// Ops as people write them on a command line.
#pragma once

#include "support/json.h"

#include <string>

namespace kumiko {

// "m=512,n=512" or "shape=64,128,axes=1" (what follows a comma without a name belongs to the value before) as an object of
// texts, for ops::complete_parameters. Throws UserError for a part without a name, or a name given twice.
Json parse_op_parameters(const std::string &text);

// The same as whole numbers, for sizes: "M=100,N=7".
std::map<std::string, int64_t> parse_sizes(const std::string &text);

} // namespace kumiko
