// How much memory this machine has.
#pragma once

#include <cstdint>

namespace kumiko {

// Bytes: what is built in, or less where this program's control group is allowed less. 0: unknown.
int64_t machine_memory();

} // namespace kumiko
