// Plain-text tables for terminals and logs: columns fit their widest cell, numbers are
// right-aligned.
#pragma once

#include <string>
#include <vector>

namespace kumiko {

class Table {
public:
    explicit Table(std::vector<std::string> headings);

    // Missing cells are empty. Requires at most as many cells as headings.
    void row(std::vector<std::string> cells);
    // A rule below the headings, two spaces between columns, no trailing spaces. Columns in which
    // all cells are numbers (also with units, such as "1.3x" or "12 %", or "-") are right-aligned.
    // Width is counted in Unicode code points.
    std::string text() const;
    // The same cells as a Markdown table.
    std::string markdown() const;
    size_t rows() const { return rows_.size(); }

private:
    std::vector<std::string> headings_;
    std::vector<std::vector<std::string>> rows_;
};

} // namespace kumiko
