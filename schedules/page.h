// The reference page of the primitives, docs/primitives.md, made from the records: nothing in it is written by hand.
#pragma once

#include <string>

namespace kumiko {

// Markdown. The nests before and after are those of the records' examples, run.
std::string primitives_page();

} // namespace kumiko
