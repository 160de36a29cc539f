#include "support/json.h"

#include "support/error.h"
#include "support/names.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

namespace kumiko {

Json parse_json(const std::string &text, const std::string &document) {
    std::vector<std::set<std::string>> open; // the keys of the enclosing objects
    const auto once = [&](int, Json::parse_event_t event, Json &parsed) {
        if (event == Json::parse_event_t::object_start) open.emplace_back();
        if (event == Json::parse_event_t::object_end) open.pop_back();
        if (event == Json::parse_event_t::key && !open.back().insert(parsed.get<std::string>()).second)
            throw UserError(document + ": the key \"" + parsed.get<std::string>() + "\" occurs twice in one object");
        return true;
    };
    try {
        return Json::parse(text, once);
    } catch (const nlohmann::json::parse_error &e) {
        // e.byte is the 1-based position of the unreadable byte.
        size_t line = 1, column = 1;
        size_t end = std::min(text.size(), e.byte > 0 ? e.byte - 1 : 0);
        for (size_t i = 0; i < end; i++) {
            column = text[i] == '\n' ? 1 : column + 1;
            line += text[i] == '\n';
        }
        std::string cause = e.byte > text.size() ? "the text ends early; it may be truncated" : "this is not JSON here";
        throw UserError(document + ":" + std::to_string(line) + ":" + std::to_string(column) + ": " + cause);
    }
}

Json load_json(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) throw UserError(path + ": cannot be read: " + std::strerror(errno));
    if (std::filesystem::is_directory(path)) throw UserError(path + ": cannot be read: it is a folder");
    std::ostringstream text;
    text << in.rdbuf();
    if (in.bad()) throw UserError(path + ": cannot be read: " + std::strerror(errno));
    return parse_json(text.str(), path);
}

std::string dump_json(const Json &value) { return value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

std::string JsonView::where() const { return document_ + (path_.empty() ? "" : ": " + path_); }

void JsonView::fail(const std::string &message) const { throw UserError(where() + ": " + message); }

void JsonView::wrong_type(const char *expected) const {
    std::string found = value_->dump();
    if (found.size() > 40) found = found.substr(0, 37) + "...";
    fail(std::string("expected ") + expected + ", found " + found);
}

JsonView JsonView::operator[](const std::string &key) const {
    if (!value_->is_object()) wrong_type("an object");
    auto it = value_->find(key);
    if (it == value_->end()) fail("'" + key + "' is missing" + suggest(key, keys()));
    return JsonView(*it, document_, path_ + "/" + key);
}

JsonView JsonView::operator[](size_t index) const {
    if (index >= size()) fail("there is no element " + std::to_string(index) + " among " + std::to_string(size()));
    return JsonView((*value_)[index], document_, path_ + "/" + std::to_string(index));
}

size_t JsonView::size() const {
    if (!value_->is_array()) wrong_type("a list");
    return value_->size();
}

std::vector<JsonView> JsonView::elements() const {
    std::vector<JsonView> out;
    for (size_t i = 0; i < size(); i++) out.push_back((*this)[i]);
    return out;
}

bool JsonView::has(const std::string &key) const {
    if (!value_->is_object()) wrong_type("an object");
    return value_->contains(key);
}

std::vector<std::string> JsonView::keys() const {
    if (!value_->is_object()) wrong_type("an object");
    std::vector<std::string> out;
    for (auto it = value_->begin(); it != value_->end(); ++it) out.push_back(it.key());
    return out;
}

std::string JsonView::string() const {
    if (!value_->is_string()) wrong_type("a text");
    return value_->get<std::string>();
}

bool JsonView::boolean() const {
    if (!value_->is_boolean()) wrong_type("true or false");
    return value_->get<bool>();
}

int64_t JsonView::integer() const {
    if (!value_->is_number_integer()) wrong_type("a whole number");
    if (value_->is_number_unsigned() && value_->get<uint64_t>() > uint64_t(INT64_MAX))
        wrong_type("a number below 2^63");
    return value_->get<int64_t>();
}

int64_t JsonView::integer(int64_t low, int64_t high) const {
    int64_t n = integer();
    if (n < low || n > high) {
        fail("expected a whole number from " + std::to_string(low) + " to " + std::to_string(high) + ", found " +
             std::to_string(n));
    }
    return n;
}

double JsonView::number() const {
    if (!value_->is_number()) wrong_type("a number");
    return value_->get<double>();
}

std::vector<std::string> JsonView::strings() const {
    std::vector<std::string> out;
    for (const JsonView &v : elements()) out.push_back(v.string());
    return out;
}

std::vector<int64_t> JsonView::integers() const {
    std::vector<int64_t> out;
    for (const JsonView &v : elements()) out.push_back(v.integer());
    return out;
}

std::string JsonView::string_or(const std::string &key, const std::string &otherwise) const {
    return has(key) ? (*this)[key].string() : otherwise;
}

bool JsonView::boolean_or(const std::string &key, bool otherwise) const {
    return has(key) ? (*this)[key].boolean() : otherwise;
}

int64_t JsonView::integer_or(const std::string &key, int64_t otherwise) const {
    return has(key) ? (*this)[key].integer() : otherwise;
}

double JsonView::number_or(const std::string &key, double otherwise) const {
    return has(key) ? (*this)[key].number() : otherwise;
}

void JsonView::allow_only(const std::vector<std::string> &allowed) const {
    for (const std::string &key : keys()) {
        if (std::find(allowed.begin(), allowed.end(), key) == allowed.end())
            fail("unknown key '" + key + "'" + suggest(key, allowed));
    }
}

} // namespace kumiko
