#include "schedules/library/space.h"

#include "support/names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kumiko {

namespace {

std::string text_of(const Json &value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

} // namespace

int64_t Space::size() const {
    int64_t size = 1;
    for (const ParameterInfo &p : parameters_) {
        if (__builtin_mul_overflow(size, static_cast<int64_t>(p.values.size()), &size)) return INT64_MAX;
    }
    return size;
}

Point Space::sample(Random &random) const {
    for (int draw = 0; draw < 1000; draw++) {
        Point point;
        for (const ParameterInfo &p : parameters_) point.push_back(random.below(p.values.size()));
        if (reason_against(point).empty()) return point;
    }
    return default_point();
}

std::vector<Point> Space::neighbours(const Point &point) const {
    std::vector<Point> all;
    for (size_t i = 0; i < parameters_.size(); i++) {
        if (!matters(point, i)) continue;
        for (size_t v = 0; v < parameters_[i].values.size(); v++) {
            const bool next = v + 1 == point[i] || v == point[i] + 1;
            if (v == point[i] || (parameters_[i].ordered && !next)) continue;
            Point neighbour = point;
            neighbour[i] = v;
            if (reason_against(neighbour).empty()) all.push_back(std::move(neighbour));
        }
    }
    return all;
}

Json Space::to_json(const Point &point) const {
    Json json = Json::object();
    for (size_t i = 0; i < parameters_.size(); i++) json[parameters_[i].name] = parameters_[i].values.at(point.at(i));
    return json;
}

Point Space::default_with(const Json &given) const {
    if (!given.is_object())
        throw UserError("parameters: expected an object of names and values, found " + given.dump());
    Json all = to_json(default_point());
    all.update(given);
    return from_json(all);
}

Point Space::from_json(const Json &json) const {
    if (!json.is_object()) throw UserError("parameters: expected an object of names and values, found " + json.dump());
    std::vector<std::string> names;
    Point point;
    for (const ParameterInfo &p : parameters_) {
        names.push_back(p.name);
        if (!json.contains(p.name)) throw UserError("parameter " + p.name + " is missing");
        const auto found = std::find(p.values.begin(), p.values.end(), json[p.name]);
        if (found == p.values.end()) {
            throw UserError("parameter " + p.name + " cannot be " + json[p.name].dump() + "; here it may be " +
                            Json(p.values).dump());
        }
        point.push_back(found - p.values.begin());
    }
    for (const auto &[key, value] : json.items()) {
        if (std::find(names.begin(), names.end(), key) == names.end()) unknown_parameter(key, names);
    }
    return point;
}

std::string Space::text(const Point &point) const {
    std::string text;
    for (size_t i = 0; i < parameters_.size(); i++) {
        text += (i ? "," : "") + parameters_[i].name + "=" + text_of(parameters_[i].values.at(point.at(i)));
    }
    return text;
}

std::string Space::difference(const Point &from, const Point &to) const {
    std::vector<std::string> changes;
    for (size_t i = 0; i < parameters_.size(); i++) {
        if (from.at(i) == to.at(i)) continue;
        changes.push_back(parameters_[i].name + " = " + text_of(parameters_[i].values.at(to[i])));
    }
    return fmt::format("{}", fmt::join(changes, ", "));
}

} // namespace kumiko
