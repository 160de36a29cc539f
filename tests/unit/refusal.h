// The texts of errors that tests expect.
#pragma once

#include "support/error.h"

#include <string>

namespace kumiko {

// The text of the error that f throws, with the place in the user's source, or "no error".
template<typename F>
std::string refusal(F f) {
    try {
        f();
    } catch (const UserError &e) {
        return e.what();
    } catch (const Unsupported &e) {
        return e.what();
    }
    return "no error";
}

// The text of the Unsupported that f throws; "user error: …" if it throws a UserError instead.
template<typename F>
std::string unsupported_text(F f) {
    try {
        f();
    } catch (const Unsupported &e) {
        return e.what();
    } catch (const UserError &e) {
        return std::string("user error: ") + e.what();
    }
    return "no error";
}

// The message of the UserError that f throws, without places, or "no error".
template<typename F>
std::string message_of(F f) {
    try {
        f();
    } catch (const UserError &e) {
        return e.message();
    }
    return "no error";
}

} // namespace kumiko
