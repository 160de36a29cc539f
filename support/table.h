// Plain text tables for terminals and logs: columns as wide as their widest cell, numbers to the right.
#pragma once

#include <string>
#include <vector>

namespace kumiko {

class Table {
public:
    explicit Table(std::vector<std::string> headings);

    // Missing cells are empty. Requires no more cells than headings.
    void row(std::vector<std::string> cells);
    // Lines under the headings, two spaces between columns, no trailing spaces. Columns whose cells are all numbers (or
    // numbers with a unit, as "1.3x", "12 %", or "-") are set to the right. UTF-8 counts by code point.
    std::string text() const;
    // A Markdown table of the same cells.
    std::string markdown() const;
    size_t rows() const { return rows_.size(); }

private:
    std::vector<std::string> headings_;
    std::vector<std::vector<std::string>> rows_;
};

} // namespace kumiko
