// Reads one line of a text program from left to right. Any syntax error is a UserError with the
// position in front.
#pragma once

#include "support/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string>
#include <string_view>

namespace kumiko::sim {

class Line {
public:
    Line(std::string_view text, std::string where) : text_(text), where_(std::move(where)) { skip(); }

    // Throws UserError at the current position.
    [[noreturn]] void fail(const std::string &message) const { fail_at(at_, message); }
    [[noreturn]] void fail_at(size_t at, const std::string &message) const { throw UserError(place(at) + message); }
    std::string place(size_t at) const { return fmt::format("{}{}: ", where_, at + 1); }

    bool done() const { return at_ >= text_.size() || text_[at_] == ';'; }
    size_t at() const { return at_; }
    std::string_view since(size_t begin) const { return between(begin, at_); }
    // The text from `begin` up to the next '|' or the end.
    std::string_view whole(size_t begin) const {
        return between(begin, std::min(text_.find_first_of("|;", begin), text_.size()));
    }
    std::string_view between(size_t begin, size_t end) const {
        std::string_view part = text_.substr(begin, end - begin);
        while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
        return part;
    }

    // Consumes the token if it is next.
    bool take(char c) {
        if (done() || text_[at_] != c) return false;
        at_++;
        skip();
        return true;
    }
    bool take(std::string_view token) {
        if (done() || text_.substr(at_, token.size()) != token) return false;
        at_ += token.size();
        skip();
        return true;
    }
    // Consumes the token, or throws UserError.
    void expect(std::string_view token, const char *what) {
        if (!take(token)) fail(fmt::format("expected '{}' {}, found {}", token, what, found()));
    }
    bool next_is(char c) const { return !done() && text_[at_] == c; }

    // Letters, digits, dots: "l1.mab.2".
    std::string word() {
        const size_t begin = at_;
        while (at_ < text_.size() &&
               (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '.' || text_[at_] == '_'))
            at_++;
        const std::string w(text_.substr(begin, at_ - begin));
        skip();
        return w;
    }
    bool next_is_digit() const { return !done() && std::isdigit(static_cast<unsigned char>(text_[at_])); }

    // An integer in [low, high], decimal or hexadecimal (0x). `what` is for messages.
    int64_t number(int64_t low, int64_t high, const char *what) {
        const size_t begin = at_;
        const char *first = text_.data() + at_, *last = text_.data() + text_.size();
        const bool plus = first != last && *first == '+';
        int base = 10;
        if (plus) first++;
        if (last - first > 2 && first[0] == '0' && first[1] == 'x') first += 2, base = 16;
        int64_t value = 0;
        const auto [end, error] = std::from_chars(first, last, value, base);
        if (error == std::errc::invalid_argument) fail(fmt::format("expected {}, found {}", what, found()));
        if (error != std::errc() || value < low || value > high)
            fail_at(begin, fmt::format("{} must be in {}..{}, found {}", what, low, high,
                                       std::string_view(first, end - first)));
        at_ = size_t(end - text_.data());
        skip();
        return value;
    }

    // The text up to `stop`, which is consumed.
    std::string until(char stop, const char *what) {
        const size_t end = text_.find(stop, at_);
        if (end == std::string_view::npos) fail(fmt::format("expected '{}' {}", stop, what));
        std::string part(text_.substr(at_, end - at_));
        at_ = end + 1;
        skip();
        return part;
    }

    // A text in double quotes, with \n, \r and escaped characters.
    std::string quoted() {
        if (at_ >= text_.size() || text_[at_] != '"') fail("expected a text in double quotes, found " + found());
        const size_t begin = at_++;
        std::string out;
        for (; at_ < text_.size() && text_[at_] != '"'; at_++) {
            if (text_[at_] != '\\') {
                out += text_[at_];
                continue;
            }
            if (++at_ >= text_.size()) break;
            out += text_[at_] == 'n' ? '\n' : text_[at_] == 'r' ? '\r' : text_[at_];
        }
        if (at_ >= text_.size()) fail_at(begin, "the quoted text has no end: a double quote is missing");
        at_++;
        skip();
        return out;
    }

    // The next token, for messages.
    std::string found() const {
        if (done()) return "the end of the line";
        std::string_view rest = text_.substr(at_, 12);
        rest = rest.substr(0, std::max<size_t>(1, rest.find_first_of(" ,;|")));
        return "'" + std::string(rest) + "'";
    }

private:
    void skip() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) at_++;
    }

    std::string_view text_;
    std::string where_;
    size_t at_ = 0;
};

} // namespace kumiko::sim
