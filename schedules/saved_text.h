// A saved schedule (Schedule::to_json) as C++, without the op that it is of.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace kumiko {

// Throws UserError when it is no saved schedule, or one of a newer version, which could be misread.
void require_saved_schedule(const nlohmann::json &saved);

// The calls that make it, on a Schedule s of the Op op: what Schedule::to_cpp gives. Throws as
// require_saved_schedule().
std::string saved_cpp_text(const nlohmann::json &saved);

} // namespace kumiko
