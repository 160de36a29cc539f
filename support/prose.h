// Text of generated Markdown pages.
#pragma once

#include <string>

namespace kumiko {

// The words of the text in lines of at most 100 columns. Lines after the first begin with `indent`.
// A word that begins with an operator stays on the line of the word before it, even beyond column
// 100, because Markdown reads an operator at the start of a line as a list or a heading.
std::string wrap_prose(const std::string &text, const std::string &indent = "");

} // namespace kumiko
