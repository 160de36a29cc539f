// Schedules of a space: that of the default point, and of random ones that are legal. Tests at a
// lesser level of processors take one random point: the spaces are nearly the same on each.
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
            continue; // a combination that the library says it has not
        }
        check(*s);
    }
}

} // namespace kumiko
