#include "schedules/library/parameters.h"

#include "support/hash.h"
#include "support/names.h"

#include <algorithm>
#include <charconv>

namespace kumiko {

namespace {

std::string text_of(int64_t value) { return std::to_string(value); }
std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(const std::string &value) { return value; }

bool read(const Json &json, int64_t &value) {
    if (!json.is_number_integer()) return false;
    value = json.get<int64_t>();
    return true;
}
bool read(const Json &json, bool &value) {
    if (!json.is_boolean()) return false;
    value = json.get<bool>();
    return true;
}
bool read(const Json &json, std::string &value) {
    if (!json.is_string()) return false;
    value = json.get<std::string>();
    return true;
}

bool parse(const std::string &text, int64_t &value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
}
bool parse(const std::string &text, bool &value) {
    const bool yes = text == "true" || text == "yes" || text == "1",
               no = text == "false" || text == "no" || text == "0";
    value = yes;
    return yes || no;
}
bool parse(const std::string &text, std::string &value) {
    value = text;
    return true;
}

template<typename T>
std::string list(const std::vector<T> &values) {
    std::string text;
    for (const T &value : values) text += (text.empty() ? "" : ", ") + text_of(value);
    return text;
}

} // namespace

template<typename T>
LegalValue<T>::LegalValue(T value, std::vector<T> legal) : values_(std::move(legal)) {
    for (size_t i = 0; i < values_.size(); i++) {
        if (std::find(values_.begin(), values_.begin() + i, values_[i]) != values_.begin() + i) {
            throw InternalError("a parameter's legal values hold " + text_of(values_[i]) + " twice");
        }
    }
    const auto found = std::find(values_.begin(), values_.end(), value);
    if (found == values_.end()) {
        throw InternalError("a parameter's value " + text_of(value) + " is not among the legal ones: " + list(values_));
    }
    index_ = found - values_.begin();
}

template<typename T>
void LegalValue<T>::set_index(size_t index) {
    if (index >= values_.size())
        throw InternalError("a parameter has no legal value of index " + std::to_string(index));
    index_ = index;
}

template<typename T>
void LegalValue<T>::set(const T &value, const std::string &name) {
    const auto found = std::find(values_.begin(), values_.end(), value);
    if (found == values_.end()) {
        throw UserError("parameter " + name + " cannot be " + text_of(value) + "; here it may be " + list(values_));
    }
    index_ = found - values_.begin();
}

template<typename T>
void LegalValue<T>::set_json(const Json &json, const std::string &name) {
    T value;
    if (!read(json, value))
        throw UserError("parameter " + name + " cannot be " + json.dump() + "; here it may be " + list(values_));
    set(value, name);
}

template<typename T>
void LegalValue<T>::set_text(const std::string &text, const std::string &name) {
    T value;
    if (!parse(text, value))
        throw UserError("parameter " + name + " cannot be \"" + text + "\"; here it may be " + list(values_));
    set(value, name);
}

template<typename T>
std::string LegalValue<T>::text() const {
    return text_of(value());
}

template class LegalValue<int64_t>;
template class LegalValue<std::string>;
template class LegalValue<bool>;

std::vector<int64_t> Tile::sizes(int64_t extent, int64_t low, int64_t high) {
    std::vector<int64_t> sizes;
    high = std::min(high, extent);
    for (int64_t p = 1; p <= high; p *= 2) {
        if (p >= low) sizes.push_back(p);
        if (p > 1 && p / 2 * 3 >= low && p / 2 * 3 <= high) sizes.push_back(p / 2 * 3);
    }
    for (int64_t d = 1; d * d <= extent; d++) {
        if (extent % d) continue;
        for (int64_t divisor : {d, extent / d}) {
            if (divisor >= low && divisor <= high) sizes.push_back(divisor);
        }
    }
    if (sizes.empty()) sizes.push_back(std::max<int64_t>(1, std::min(low, extent)));
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    return sizes;
}

Tile Tile::nearest(int64_t wish, std::vector<int64_t> legal) {
    const int64_t value = *std::min_element(
        legal.begin(), legal.end(), [&](int64_t a, int64_t b) { return std::abs(a - wish) < std::abs(b - wish); });
    return Tile(value, std::move(legal));
}

std::vector<std::pair<std::string, std::string>> split_parameter_text(const std::string &text) {
    std::vector<std::pair<std::string, std::string>> pairs;
    for (size_t at = 0; at < text.size();) {
        const size_t comma = std::min(text.find(',', at), text.size());
        const std::string part = text.substr(at, comma - at);
        const size_t equals = part.find('=');
        if (equals == std::string::npos || equals == 0) {
            throw UserError("parameters: expected name=value, found \"" + part + "\"");
        }
        pairs.emplace_back(part.substr(0, equals), part.substr(equals + 1));
        at = comma + 1;
    }
    return pairs;
}

void unknown_parameter(const std::string &name, const std::vector<std::string> &names) {
    throw UserError("there is no parameter \"" + name + "\"" + suggest(name, names));
}

std::string hash_of_json(const Json &json) { return hash_hex(json.dump()); }

} // namespace kumiko
