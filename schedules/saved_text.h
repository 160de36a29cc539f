// Prints a saved schedule (Schedule::to_json) as C++, without its op.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace kumiko {

// Throws UserError if it is not a saved schedule or its version is newer, which could be misread.
void require_saved_schedule(const nlohmann::json &saved);

// C++ calls that rebuild it on a Schedule s of the Op op, as Schedule::to_cpp prints them. Throws
// like require_saved_schedule().
std::string saved_cpp_text(const nlohmann::json &saved);

} // namespace kumiko
