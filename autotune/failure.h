// Reasons of one kind counted together.
#pragma once

#include "autotune/record.h"

namespace kumiko {

// "wrong: element # of tensor # differs": the outcome and the reason without its numbers.
std::string failure_kind(const Record &record);

} // namespace kumiko
