// Schedules of a space: that of the default point, and of random ones that are legal.
#pragma once

#include "schedules/library/space.h"
#include "support/error.h"

#include <doctest/doctest.h>
#include <functional>
#include <optional>

namespace kumiko {

inline void for_points(const Space &space, int points, uint64_t seed,
                       const std::function<void(const Schedule &)> &check) {
    check(space.schedule(space.default_point()));
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
