#include "graph/formulas/strings.h"

#include "dsl/buffer_elements.h"
#include "dsl/narrow_types.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <cwctype>
#include <fmt/format.h>
#include <regex>

namespace kumiko::graph {

std::vector<std::string> strings_of(const Call &c, size_t input) {
    if (c.type(input) != string_type)
        c.fail(
            fmt::format("its input \"{}\" is {}; legal are strings", c.node.inputs[input], type_name(c.type(input))));
    if (!c.known(input))
        c.unsupported(fmt::format("its strings \"{}\" depend on data; supported in programs are constant strings",
                                  c.node.inputs[input]));
    return strings_of(*c.known(input));
}

namespace {

// A number without its plus sign, and nothing else. Returns false if the text is none.
template<typename T>
bool parse(const std::string &text, T &value) {
    const char *begin = text.data(), *end = begin + text.size();
    if (text.size() > 1 && *begin == '+' && begin[1] != '-') begin++;
    const auto [stop, error] = std::from_chars(begin, end, value);
    return error == std::errc() && stop == end;
}

// As NumPy writes numbers, but infinities and NaN as ONNX reads them.
std::string text_of(Type type, const uint8_t *p) {
    if (type == boolean) return *p ? "True" : "False";
    if (type == i64 || type == u64) { // a double has not all of these
        uint64_t bits;
        std::memcpy(&bits, p, sizeof bits);
        return type == i64 ? std::to_string(static_cast<int64_t>(bits)) : std::to_string(bits);
    }
    const double value = read_element(type, p);
    if (!is_floating(type) && !narrow_float(type)) return fmt::format("{}", static_cast<int64_t>(value));
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "INF" : "-INF";
    std::string text = type == f64 ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
}

Buffer<> numbers_in(const Call &c, const std::vector<std::string> &texts, Type to) {
    Buffer<> made(to, c.extents(0));
    auto *p = static_cast<uint8_t *>(made.data());
    for (const std::string &text : texts) {
        const auto refuse = [&] {
            c.fail(fmt::format("\"{}\" cannot be cast to {}; legal are numbers of this type", text, type_name(to)));
        };
        if (to == i64 || to == u64) {
            int64_t number = 0;
            uint64_t bits = 0;
            if (!(to == i64 ? parse(text, number) : parse(text, bits))) refuse();
            if (to == i64) bits = static_cast<uint64_t>(number);
            std::memcpy(p, &bits, sizeof bits);
        } else {
            double number = 0;
            if (!parse(text, number)) refuse();
            const bool whole = !is_floating(to) && !narrow_float(to);
            const auto [least, most] = whole ? std::pair(to.is_int() ? -std::ldexp(1.0, to.bits() - 1) : 0.0,
                                                         std::ldexp(1.0, to.bits() - int(to.is_int())) - 1)
                                             : std::pair(0.0, 0.0);
            if (whole && to != boolean && (std::trunc(number) != number || number < least || number > most)) refuse();
            write_element(to, p, number);
        }
        p += to.bytes();
    }
    return made;
}

// --- operators ---

Results string_concat(Call &c) {
    const Extents extents = broadcast(c, {c.extents(0), c.extents(1)});
    const std::vector<std::string> a = strings_of(c, 0), b = strings_of(c, 1);
    // Which element of an input is read for each one of the result.
    const auto position = [&](const Extents &own, int64_t n) {
        int64_t at = 0, step = 1;
        for (size_t d = extents.size(); d-- > 0; n /= extents[d]) {
            const size_t missing = extents.size() - own.size();
            if (d < missing) continue;
            if (own[d - missing] != 1) at += n % extents[d] * step;
            step *= own[d - missing];
        }
        return size_t(at);
    };
    std::vector<std::string> made;
    const int64_t count = View{string_type, extents, {}}.elements();
    for (int64_t n = 0; n < count; n++) made.push_back(a[position(c.extents(0), n)] + b[position(c.extents(1), n)]);
    return {string_tensor(made, extents)};
}

std::vector<std::string> split(const std::string &text, const std::string &delimiter, int64_t most) {
    const char *spaces = " \t\n\v\f\r";
    std::vector<std::string> parts;
    size_t at = delimiter.empty() ? text.find_first_not_of(spaces) : 0;
    while (at != std::string::npos && at <= text.size()) {
        size_t end = delimiter.empty() ? text.find_first_of(spaces, at) : text.find(delimiter, at);
        if (int64_t(parts.size()) == most) end = std::string::npos;
        parts.push_back(text.substr(at, end == std::string::npos ? end : end - at));
        if (end == std::string::npos) break;
        at = delimiter.empty() ? text.find_first_not_of(spaces, end) : end + delimiter.size();
    }
    return parts;
}

// The parts of each string along a new last axis, filled up with empty ones; and their numbers.
Results string_split(Call &c) {
    const std::string delimiter = c.node.text("delimiter", "");
    const int64_t most = c.node.has("maxsplit") ? c.node.integer("maxsplit", 0) : INT64_MAX;
    std::vector<std::vector<std::string>> all;
    size_t width = 0;
    for (const std::string &text : strings_of(c, 0)) {
        all.push_back(split(text, delimiter, most));
        width = std::max(width, all.back().size());
    }
    std::vector<std::string> parts;
    std::vector<int64_t> counts;
    for (auto &own : all) {
        counts.push_back(int64_t(own.size()));
        own.resize(width);
        parts.insert(parts.end(), own.begin(), own.end());
    }
    Extents extents = c.extents(0);
    extents.push_back(int64_t(width));
    return {string_tensor(parts, extents), int64_tensor(counts, c.extents(0))};
}

Results regex_full_match(Call &c) {
    const std::string pattern = c.node.text("pattern", "");
    const std::vector<std::string> texts = strings_of(c, 0);
    Buffer<> made(boolean, c.extents(0));
    auto *to = static_cast<uint8_t *>(made.data());
    try {
        const std::regex expression(pattern);
        for (const std::string &text : texts) *to++ = std::regex_match(text, expression);
    } catch (const std::regex_error &e) {
        c.unsupported(
            fmt::format("the pattern \"{}\"; supported are regular expressions of ECMAScript: {}", pattern, e.what()));
    }
    return {made};
}

// A text of UTF-8 with other cases. Bytes that are no UTF-8 stay.
std::string with_case(const std::string &text, bool upper) {
    static const locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    std::string made;
    for (size_t at = 0; at < text.size();) {
        const auto first = static_cast<unsigned char>(text[at]);
        const size_t length = first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
        const std::string bytes = text.substr(at, length);
        at += length;
        wint_t letter = length == 1 ? first : first & (0x7fU >> length);
        for (size_t n = 1; n < bytes.size(); n++) letter = letter << 6 | (static_cast<unsigned char>(bytes[n]) & 0x3fU);
        const bool alone = length == 1 && first >= 0x80; // no UTF-8
        const wint_t changed = alone ? letter : upper ? towupper_l(letter, utf8) : towlower_l(letter, utf8);
        if (changed == letter)
            made += bytes;
        else if (changed < 0x80)
            made += static_cast<char>(changed);
        else if (changed < 0x800)
            made += {static_cast<char>(0xc0 | changed >> 6), static_cast<char>(0x80 | (changed & 0x3f))};
        else if (changed < 0x10000)
            made += {static_cast<char>(0xe0 | changed >> 12), static_cast<char>(0x80 | (changed >> 6 & 0x3f)),
                     static_cast<char>(0x80 | (changed & 0x3f))};
        else
            made += bytes;
    }
    return made;
}

Results string_normalizer(Call &c) {
    const Extents &extents = c.extents(0);
    if (extents.empty() || extents.size() > 2 || (extents.size() == 2 && extents[0] != 1))
        c.fail("its input is not one row of strings; legal are the shapes [C] and [1, C]");
    const std::string change = c.choice("case_change_action", "NONE", {"NONE", "LOWER", "UPPER"});
    const bool exact = c.node.integer("is_case_sensitive", 0) != 0;
    std::vector<std::string> stops, made;
    const auto found = c.node.attributes.find("stopwords");
    if (found != c.node.attributes.end()) stops = std::get<std::vector<std::string>>(found->second.value);
    const auto key = [&](const std::string &text) { return exact ? text : with_case(text, false); };
    for (std::string &stop : stops) stop = key(stop);
    for (const std::string &text : strings_of(c, 0)) {
        if (std::find(stops.begin(), stops.end(), key(text)) != stops.end()) continue;
        made.push_back(change == "NONE" ? text : with_case(text, change == "UPPER"));
    }
    if (made.empty()) made.emplace_back();
    Extents kept = extents;
    kept.back() = int64_t(made.size());
    return {string_tensor(made, kept)};
}

} // namespace

Results cast_strings(Call &c, Type to) {
    if (c.type(0) == string_type && to == string_type) return {c.in(0)};
    if (c.type(0) == string_type) return {numbers_in(c, strings_of(c, 0), to)};
    if (!c.known(0)) c.unsupported("numbers that depend on data as strings; supported in programs are constants");
    std::vector<std::string> texts;
    const Buffer<> &numbers = *c.known(0);
    for_each_element(numbers.raw_buffer(), [&](const std::vector<int64_t> &, const uint8_t *p) {
        texts.push_back(text_of(numbers.type(), p));
    });
    return {string_tensor(texts, c.extents(0))};
}

std::vector<Operator> string_operators() {
    return {
        {"StringConcat", 20, string_concat},
        {"StringSplit", 20, string_split},
        {"RegexFullMatch", 20, regex_full_match},
        {"StringNormalizer", 10, string_normalizer},
    };
}

} // namespace kumiko::graph
