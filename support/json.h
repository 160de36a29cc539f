// JSON with readable errors: every message names the document and the path, for example
//   machine.json: /levels/1/bytes: expected a whole number, found "big"
#pragma once

#include "support/boxed_json.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kumiko {

// Throws UserError with line and column; `document` names the text in messages.
Json parse_json(const std::string &text, const std::string &document);
// Also throws UserError if the file cannot be read.
Json load_json(const std::string &path);
// Pretty-printed, with a final newline. Bytes that are not UTF-8 become U+FFFD.
std::string dump_json(const Json &value);

// A value with its path in the document. Cheap to copy; the Json must outlive it.
class JsonView {
public:
    JsonView(const Json &value, std::string document) : value_(&value), document_(std::move(document)) {}

    // A member or element. Throws if it is missing, with similar keys.
    JsonView operator[](const std::string &key) const;
    JsonView operator[](size_t index) const;
    // Requires an array (size, elements) or an object (has, keys); throws otherwise.
    size_t size() const;
    std::vector<JsonView> elements() const;
    bool has(const std::string &key) const;
    std::vector<std::string> keys() const;

    bool is_string() const { return value_->is_string(); }
    bool is_number() const { return value_->is_number(); }
    bool is_array() const { return value_->is_array(); }
    bool is_object() const { return value_->is_object(); }
    bool is_null() const { return value_->is_null(); }

    std::string string() const;
    bool boolean() const;
    int64_t integer() const;                          // an integer, not 2.5
    int64_t integer(int64_t low, int64_t high) const; // in [low, high]
    double number() const;
    std::vector<std::string> strings() const;
    std::vector<int64_t> integers() const;

    // The member, or `otherwise` if it is missing.
    std::string string_or(const std::string &key, const std::string &otherwise) const;
    bool boolean_or(const std::string &key, bool otherwise) const;
    int64_t integer_or(const std::string &key, int64_t otherwise) const;
    double number_or(const std::string &key, double otherwise) const;

    // Throws if the object has other keys, so that a misspelt optional key is not silently ignored.
    void allow_only(const std::vector<std::string> &keys) const;

    // Throws UserError: "document: /path: message".
    [[noreturn]] void fail(const std::string &message) const;
    const Json &raw() const { return *value_; }
    std::string where() const;

private:
    JsonView(const Json &value, std::string document, std::string path)
        : value_(&value), document_(std::move(document)), path_(std::move(path)) {}
    [[noreturn]] void wrong_type(const char *expected) const;

    const Json *value_;
    std::string document_;
    std::string path_;
};

} // namespace kumiko
