// The three errors. Every entry point throws one of these and nothing else; Halide's own errors are caught at the door
// and turned into one of them (dsl/halide_errors.h).
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>

namespace kumiko {

// The user wrote something that cannot mean anything, or is not legal here. The message names the cause first and what
// would be legal last.
class UserError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
    // Prefixes "file:line: error: ", the place in the user's own source.
    UserError(const std::source_location &where, const std::string &message);
};

// Legal in principle, but not built yet. The message says what is supported instead.
class Unsupported : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
    Unsupported(const std::source_location &where, const std::string &message);
};

// A broken invariant of Kumiko itself. If a user can cause one, that is a bug.
class InternalError : public std::logic_error {
public:
    using std::logic_error::logic_error;
};

} // namespace kumiko
