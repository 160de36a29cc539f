// Failure reasons of candidates, and their grouping by kind.
#pragma once

#include "autotune/record.h"

#include <functional>
#include <optional>

namespace kumiko {

// Runs f. Returns the first line of the exception's message, which identifies the kind of failure,
// without the location in the library's sources; nullopt if f returns.
std::optional<std::string> failure_of(const std::function<void()> &f);

// "wrong: element # of tensor # differs": the outcome and the reason with numbers replaced.
std::string failure_kind(const Record &record);

} // namespace kumiko
