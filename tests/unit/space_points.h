// Schedules of a space: the default point, and random legal ones. Tests at a lower processor level
// use one random point, because the spaces are nearly the same at each level.
#pragma once

#include "schedules/library/space.h"
#include "support/error.h"
#include "tests/level.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <functional>
#include <optional>

namespace kumiko {

inline void for_points(const Space &space, int points, uint64_t seed,
                       const std::function<void(const Schedule &)> &check) {
    check(space.schedule(space.default_point()));
    if (at_lesser_level()) points = std::min(points, 1);
    Random random(seed);
    for (int n = 0; n < points; n++) {
        const Point point = space.sample(random);
        CAPTURE(space.text(point));
        std::optional<Schedule> s;
        try {
            s = space.schedule(point);
        } catch (const UserError &) {
            continue; // not legal here
        } catch (const Unsupported &) {
            continue; // a combination that the library excludes
        }
        check(*s);
    }
}

} // namespace kumiko
