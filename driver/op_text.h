// Command-line syntax for ops.
#pragma once

#include "support/json.h"

#include <string>

namespace kumiko {

// Parses "m=512,n=512" or "shape=64,128,axes=1" (a value without a name continues the list before
// it) into a JSON object of strings, for ops::complete_parameters. Throws UserError for a part
// without a name, or a name given twice.
Json parse_op_parameters(const std::string &text);

// The same for integer values: "M=100,N=7".
std::map<std::string, int64_t> parse_sizes(const std::string &text);

} // namespace kumiko
