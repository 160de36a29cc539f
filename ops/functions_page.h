// Generates docs/functions.md, the reference of the functions of values, from the tables in
// ops/elementwise.h.
#pragma once

#include <string>

namespace kumiko::ops {

std::string functions_page(); // Markdown

} // namespace kumiko::ops
