// Channel groups with a symbolic number of channels.
#pragma once

#include "dsl/op.h"
#include "dsl/print.h"

namespace kumiko::ops {

// Requires that the groups divide each number of channels that is not a constant.
inline std::vector<Requirement> whole_groups(const std::vector<Expr> &channels, int groups) {
    std::vector<Requirement> all;
    for (const Expr &c : channels) {
        if (groups == 1 || Halide::Internal::is_const(c)) continue;
        const Expr whole = c % groups == 0;
        all.push_back({whole, to_string(whole) + " (channels in groups)"});
    }
    return all;
}

} // namespace kumiko::ops
