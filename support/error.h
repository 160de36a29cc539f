// The three errors. Every entry point throws one of these and nothing else; Halide's own errors are caught at the door
// and turned into one of them (dsl/halide_errors.h).
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>

namespace kumiko {

// What UserError and Unsupported have in common: a message and, where it is known, the place in the user's own source.
// what() is "file:line: kind: message", or the message alone.
class PlacedError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
    std::string place() const { return std::string(what(), place_); } // "file:line", or ""
    std::string message() const { return what() + message_; }
    // Without places inside the text, "(kernel.cpp:12)", for schedules that are not the user's.
    std::string message_without_places() const;

protected:
    PlacedError(const std::source_location &where, const char *kind, const std::string &message);

private:
    PlacedError(const std::string &place, const std::string &kind, const std::string &message);
    size_t place_ = 0, message_ = 0; // where in what() the place ends and the message begins
};

// The user wrote something that cannot mean anything, or is not legal here. The message names the cause first and what
// would be legal last.
class UserError : public PlacedError {
public:
    using PlacedError::PlacedError;
    UserError(const std::source_location &where, const std::string &message) : PlacedError(where, "error", message) {}
};

// Legal in principle, but not built yet. The message says what is supported instead.
class Unsupported : public PlacedError {
public:
    using PlacedError::PlacedError;
    Unsupported(const std::source_location &where, const std::string &message)
        : PlacedError(where, "unsupported", message) {}
};

// A broken invariant of Kumiko itself. If a user can cause one, that is a bug.
class InternalError : public std::logic_error {
public:
    using std::logic_error::logic_error;
};

} // namespace kumiko
