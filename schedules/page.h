// Generates docs/primitives.md, the reference of the primitives, from their records.
#pragma once

#include <string>

namespace kumiko {

// The page as Markdown. The nests before and after each primitive come from running the record's
// example.
std::string primitives_page();
// The section of one primitive. Throws UserError with a suggestion for an unknown name.
std::string primitive_section(const std::string &name);

} // namespace kumiko
