// The reference page of the primitives, docs/primitives.md, made from the records: nothing in it is written by hand.
#pragma once

#include <string>

namespace kumiko {

// Markdown. The nests before and after are those of the records' examples, run.
std::string primitives_page();
// The part of it that is about one primitive. Throws UserError with a suggestion for an unknown name.
std::string primitive_section(const std::string &name);

} // namespace kumiko
