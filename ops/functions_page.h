// The reference page of the functions of values, docs/functions.md, made from the tables of
// ops/elementwise.h.
#pragma once

#include <string>

namespace kumiko::ops {

std::string functions_page(); // Markdown

} // namespace kumiko::ops
