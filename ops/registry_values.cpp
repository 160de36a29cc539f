// Parameter values of operators: converts JSON or text to the parameters' kinds.
#include "ops/registry.h"

#include "dsl/types.h"
#include "support/error.h"
#include "support/names.h"

#include <sstream>

namespace kumiko::ops {

namespace {

using Kind = Parameter::Kind;

// Converts a value from JSON or text to the parameter's kind.
Json typed(const Operator &op, const Parameter &p, const Json &v) {
    const auto wrong = [&](const std::string &legal) -> Json {
        throw UserError("op \"" + op.name + "\": parameter \"" + p.name + "\" is " + v.dump() + "; legal is " + legal);
    };
    const auto whole = [](const std::string &s) { // the integer that the text denotes, if any
        std::optional<int64_t> n;
        if (s.empty() || s.size() > 11) return n;
        size_t start = s[0] == '-' ? 1 : 0;
        if (start == s.size() || s.find_first_not_of("0123456789", start) != std::string::npos) return n;
        n = std::stoll(s);
        return n;
    };
    const auto number = [&](const Json &x, int64_t low, int64_t high, const char *legal) -> Json {
        std::optional<int64_t> n;
        if (x.is_number_integer() && (!x.is_number_unsigned() || x.get<uint64_t>() <= INT64_MAX)) n = x.get<int64_t>();
        if (x.is_string()) n = whole(x.get<std::string>());
        if (!n || *n < low || *n > high) return wrong(legal);
        return *n;
    };
    // Schedules round extents up to blocks; the result must fit in 32 bits.
    const auto extent = [&](const Json &x) -> Json {
        if (x.is_string() && is_identifier(x.get<std::string>())) return x;
        return number(x, 0, INT32_MAX - 4095, "a number from 0 to 2147479552, or the name of a size");
    };
    const auto integer = [&](const Json &x) -> Json {
        return number(x, INT32_MIN, INT32_MAX, "a whole number from -2147483648 to 2147483647");
    };
    const auto list = [&](const auto &element) -> Json {
        Json result = Json::array();
        if (v.is_array()) {
            for (const Json &x : v) result.push_back(element(x));
        } else if (v.is_string()) {
            std::stringstream text(v.get<std::string>());
            for (std::string part; std::getline(text, part, ',');) result.push_back(element(Json(part)));
        } else {
            result.push_back(element(v));
        }
        return result;
    };
    switch (p.kind) {
    case Kind::Size:
        return extent(v);
    case Kind::Int:
        return integer(v);
    case Kind::Sizes:
        return list(extent);
    case Kind::Ints:
        return list(integer);
    case Kind::Real:
        if (v.is_number()) return v.get<double>();
        if (v.is_string()) {
            try {
                size_t end = 0;
                const double x = std::stod(v.get<std::string>(), &end);
                if (end == v.get<std::string>().size()) return x;
            } catch (const std::exception &) {
            }
        }
        return wrong("a number");
    case Kind::Flag:
        if (v.is_boolean()) return v;
        if (v == "true" || v == "1" || v == 1) return true;
        if (v == "false" || v == "0" || v == 0) return false;
        return wrong("true or false");
    case Kind::Type:
        if (!v.is_string()) return wrong("the name of a type");
        type_from_name(v.get<std::string>());
        return v;
    case Kind::Choice:
        if (!v.is_string()) return wrong("a name");
        if (std::find(p.choices.begin(), p.choices.end(), v.get<std::string>()) == p.choices.end()) {
            throw UserError("op \"" + op.name + "\": parameter \"" + p.name + "\" is \"" + v.get<std::string>() + "\"" +
                            suggest(v.get<std::string>(), p.choices));
        }
        return v;
    }
    return v;
}

} // namespace

std::string kind_name(Parameter::Kind kind) {
    static const char *names[] = {"size", "int", "real", "flag", "type", "choice", "sizes", "ints"};
    return names[static_cast<int>(kind)];
}

Json complete_parameters(const Operator &op, const Json &parameters) {
    if (!parameters.is_object() && !parameters.is_null())
        throw UserError("op \"" + op.name + "\": the parameters must be an object");
    std::vector<std::string> names;
    for (const Parameter &p : op.parameters) names.push_back(p.name);
    if (parameters.is_object()) {
        for (const auto &[key, value] : parameters.items()) {
            if (std::find(names.begin(), names.end(), key) == names.end()) {
                throw UserError("op \"" + op.name + "\" has no parameter \"" + key + "\"" + suggest(key, names));
            }
        }
    }
    Json complete = Json::object();
    for (const Parameter &p : op.parameters) {
        const bool given = parameters.is_object() && parameters.contains(p.name);
        if (!given && p.required()) {
            throw UserError("op \"" + op.name + "\" needs the parameter \"" + p.name + "\"" +
                            (p.summary.empty() ? "" : ": " + p.summary));
        }
        complete[p.name] = given ? typed(op, p, parameters.at(p.name)) : p.otherwise;
    }
    return complete;
}

} // namespace kumiko::ops
