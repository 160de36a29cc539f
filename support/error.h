// The three error types. Every entry point throws one of these and nothing else. Errors of Halide
// are caught at the API boundary and converted.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>

namespace kumiko {

// Base of UserError and Unsupported: a message and, if known, the location in the user's source.
// what() is "file:line: kind: message", or only the message.
class PlacedError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
    std::string place() const { return std::string(what(), place_); } // "file:line", or ""
    std::string message() const { return what() + message_; }
    // The message without locations, "(kernel.cpp:12)", for schedules that the user did not write.
    std::string message_without_places() const;

protected:
    PlacedError(const std::source_location &where, const char *kind, const std::string &message);

private:
    PlacedError(const std::string &place, const std::string &kind, const std::string &message);
    size_t place_ = 0, message_ = 0; // offsets in what(): end of the location, start of the message
};

// The user's input is invalid or illegal here. The message gives the cause first and the legal
// alternatives last.
class UserError : public PlacedError {
public:
    using PlacedError::PlacedError;
    UserError(const std::source_location &where, const std::string &message) : PlacedError(where, "error", message) {}
};

// Legal in principle, but not implemented. The message says what is supported instead.
class Unsupported : public PlacedError {
public:
    using PlacedError::PlacedError;
    Unsupported(const std::source_location &where, const std::string &message)
        : PlacedError(where, "unsupported", message) {}
};

// A violated invariant of Kumiko itself. It is a bug if user input can cause one.
class InternalError : public std::logic_error {
public:
    using std::logic_error::logic_error;
};

} // namespace kumiko
