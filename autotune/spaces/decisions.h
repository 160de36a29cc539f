// A point of a space by parameter name: "C.tile_i" is `tile_i` of stage C.
#pragma once

#include "schedules/library/space.h"

namespace kumiko {

class Decisions {
public:
    Decisions(const Space &space, const Point &point) {
        for (size_t n = 0; n < point.size(); n++)
            values_.emplace(space.parameters()[n].name, &space.parameters()[n].values.at(point[n]));
    }
    // `otherwise` is returned for parameters that the point does not have.
    int64_t number(const std::string &name, int64_t otherwise) const {
        const auto found = values_.find(name);
        return found == values_.end() ? otherwise : found->second->get<int64_t>();
    }
    std::string choice(const std::string &name, const std::string &otherwise) const {
        const auto found = values_.find(name);
        return found == values_.end() ? otherwise : found->second->get<std::string>();
    }
    bool yes(const std::string &name) const {
        const auto found = values_.find(name);
        return found != values_.end() && found->second->get<bool>();
    }

private:
    std::map<std::string, const Json *> values_;
};

} // namespace kumiko
