// What went wrong with a candidate, as a reason to keep, and reasons of one kind counted together.
#pragma once

#include "autotune/record.h"

#include <functional>
#include <optional>

namespace kumiko {

// Runs f. The first line of what it throws, which tells the kind of failure (the rest shows nests; the place is one in the source of the
// library's schedules); nothing when it returns.
std::optional<std::string> failure_of(const std::function<void()> &f);

// "wrong: element # of tensor # differs": the outcome and the reason without its numbers.
std::string failure_kind(const Record &record);

} // namespace kumiko
