#include "support/table.h"

#include "support/error.h"

#include <algorithm>
#include <cctype>

namespace kumiko {

namespace {

size_t width_of(const std::string &text) {
    return std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xc0) != 0x80; });
}

bool reads_as_number(const std::string &cell) {
    if (cell.empty() || cell == "-" || cell == "–") return true;
    size_t at = cell[0] == '-' || cell[0] == '+' ? 1 : 0;
    return at < cell.size() && std::isdigit(static_cast<unsigned char>(cell[at])) && width_of(cell) <= 14;
}

} // namespace

Table::Table(std::vector<std::string> headings) : headings_(std::move(headings)) {}

void Table::row(std::vector<std::string> cells) {
    if (cells.size() > headings_.size()) throw InternalError("a table row has more cells than the table has columns");
    cells.resize(headings_.size());
    rows_.push_back(std::move(cells));
}

std::string Table::text() const {
    std::vector<size_t> width(headings_.size());
    std::vector<bool> right(headings_.size(), !rows_.empty());
    for (size_t c = 0; c < headings_.size(); c++) {
        width[c] = width_of(headings_[c]);
        for (const auto &row : rows_) {
            width[c] = std::max(width[c], width_of(row[c]));
            if (!reads_as_number(row[c])) right[c] = false;
        }
    }
    auto line = [&](const std::vector<std::string> &cells) {
        std::string out;
        for (size_t c = 0; c < cells.size(); c++) {
            std::string space(width[c] - width_of(cells[c]), ' ');
            out += (c ? "  " : "") + (right[c] ? space + cells[c] : cells[c] + space);
        }
        out.erase(out.find_last_not_of(' ') + 1);
        return out + "\n";
    };
    std::string out = line(headings_);
    std::vector<std::string> rule;
    for (size_t w : width) rule.emplace_back(w, '-');
    out += line(rule);
    for (const auto &row : rows_) out += line(row);
    return out;
}

std::string Table::markdown() const {
    auto line = [](const std::vector<std::string> &cells) {
        std::string out = "|";
        for (std::string cell : cells) {
            for (size_t at = 0; (at = cell.find('|', at)) != std::string::npos; at += 2) cell.insert(at, "\\");
            out += " " + cell + " |";
        }
        return out + "\n";
    };
    std::string out = line(headings_) + "|";
    for (size_t c = 0; c < headings_.size(); c++) out += " --- |";
    out += "\n";
    for (const auto &row : rows_) out += line(row);
    return out;
}

} // namespace kumiko
