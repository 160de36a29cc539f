// Whether a part occurs in a text, and how often.
#pragma once

#include <string>

namespace kumiko {

inline size_t count(const std::string &text, const std::string &part) {
    size_t n = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) n++;
    return n;
}

// Whether `part` occurs in `text`.
inline bool says(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

} // namespace kumiko
