// Text in HTML and SVG.
#pragma once

#include <string>

namespace kumiko {

// The text with the characters escaped that HTML reads as markup, also in the values of attributes.
// Control characters become spaces.
std::string html_escaped(const std::string &text);

} // namespace kumiko
