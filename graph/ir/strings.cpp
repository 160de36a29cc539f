#include "graph/ir/strings.h"

#include "dsl/dense.h"
#include "support/error.h"

#include <deque>
#include <mutex>
#include <unordered_map>

namespace kumiko::graph {

namespace {

struct Table {
    std::mutex mutex;
    std::deque<std::string> texts; // by number
    std::unordered_map<std::string, uint64_t> numbers;
};

Table &table() {
    static Table all;
    return all;
}

} // namespace

uint64_t string_number(const std::string &text) {
    Table &t = table();
    const std::lock_guard lock(t.mutex);
    const auto [at, fresh] = t.numbers.emplace(text, t.texts.size());
    if (fresh) t.texts.push_back(text);
    return at->second;
}

Buffer<> string_tensor(const std::vector<std::string> &texts, const std::vector<int64_t> &extents) {
    Buffer<> made(string_type, extents);
    auto *to = static_cast<uint64_t *>(made.data());
    for (const std::string &text : texts) *to++ = string_number(text);
    return made;
}

std::vector<std::string> strings_of(const Buffer<> &tensor) {
    if (Type(tensor.type()) != string_type) throw InternalError("the strings of a tensor of numbers");
    const Buffer<> elements = dense(tensor);
    const auto *from = static_cast<const uint64_t *>(elements.data());
    Table &t = table();
    const std::lock_guard lock(t.mutex);
    std::vector<std::string> all;
    for (size_t n = 0; n < elements.number_of_elements(); n++) all.push_back(t.texts.at(from[n]));
    return all;
}

} // namespace kumiko::graph
