// Pages for people: self-contained, with one style, for light and dark screens of any width.
#pragma once

#include <string>
#include <vector>

namespace kumiko {

// A page with a heading. `title`: text. `body`: HTML. `style`: further rules of CSS. `script`:
// JavaScript that runs after the body is read.
std::string html_page(const std::string &title, const std::string &body, const std::string &style = "",
                      const std::string &script = "");

// A box with a name and its value, for an element of class "facts".
std::string html_fact(const std::string &name, const std::string &value);

// A row of a table. Cells from column `numbers` on are aligned as numbers.
std::string html_row(const std::vector<std::string> &cells, size_t numbers = 1, const char *tag = "td");

} // namespace kumiko
