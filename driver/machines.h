// All named machines: processors ("host", "x86-64-avx2", …) and simulated chips ("chip:small",
// "chip:full").
#pragma once

#include "machine/machine.h"

namespace kumiko {

// Throws UserError with a suggestion for an unknown name.
Machine machine_named(const std::string &name);
std::vector<std::string> machine_names();

} // namespace kumiko
