#include "driver/op_text.h"

#include "support/error.h"

#include <sstream>

namespace kumiko {

Json parse_op_parameters(const std::string &text) {
    Json result = Json::object();
    std::string last;
    std::stringstream parts(text);
    for (std::string part; std::getline(parts, part, ',');) {
        const size_t equals = part.find('=');
        if (equals == std::string::npos) {
            if (last.empty()) throw UserError("expected name=value, as \"m=512,n=512\", found \"" + part + "\"");
            result[last] = result[last].get<std::string>() + "," + part;
            continue;
        }
        last = part.substr(0, equals);
        if (last.empty()) throw UserError("expected name=value, as \"m=512,n=512\", found \"" + part + "\"");
        if (result.contains(last)) throw UserError("\"" + last + "\" is given twice in \"" + text + "\"");
        result[last] = part.substr(equals + 1);
    }
    return result;
}

std::map<std::string, int64_t> parse_sizes(const std::string &text) {
    std::map<std::string, int64_t> sizes;
    const Json given = parse_op_parameters(text); // named, because items() only refers to it
    for (const auto &[name, value] : given.items()) {
        const std::string digits = value.get<std::string>();
        if (digits.empty() || digits.size() > 10 || digits.find_first_not_of("0123456789") != std::string::npos ||
            std::stoll(digits) > INT32_MAX) {
            throw UserError("size \"" + name + "\" is \"" + digits + "\"; legal is a number from 0 to 2147483647");
        }
        sizes[name] = std::stoll(digits);
    }
    return sizes;
}

} // namespace kumiko
