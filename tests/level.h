#pragma once

#include <string>

namespace kumiko {

// Limits this process to a level of processor features. Returns the reason if that is not possible,
// otherwise nothing. Weak: programs without code generation do not define it.
[[gnu::weak]] std::string limit_level(const std::string &level);

// True in a test that was limited to a level below this processor's.
inline bool &at_lesser_level() {
    static bool lesser = false;
    return lesser;
}

} // namespace kumiko
