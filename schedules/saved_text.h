// A saved schedule (Schedule::to_json) as C++, without the op that it is of.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace kumiko {

// The calls that make it, on a Schedule s of the Op op: what Schedule::to_cpp gives. Throws UserError when it is not a saved
// schedule.
std::string saved_cpp_text(const nlohmann::json &saved);

} // namespace kumiko
