// Matrix products that the library schedules with tile instructions.
#pragma once

#include "ops/ops.h"
#include "schedules/library/matmul.h"

#include <doctest/doctest.h>

namespace kumiko {

struct TileKind {
    const char *name;
    Type a, b;
};
inline const std::vector<TileKind> tile_kinds = {{"amx.tdpbf16ps", bf16, bf16},
                                                 {"amx.tdpbssd", i8, i8},
                                                 {"amx.tdpbsud", i8, u8},
                                                 {"amx.tdpbusd", u8, i8},
                                                 {"amx.tdpbuud", u8, u8}};

inline Op product(Type a, Type b, const Expr &m, const Expr &n, const Expr &k, ops::MatmulOptions o = {}) {
    o.b_type = b;
    return ops::matmul(a, m, n, k, o);
}

inline Schedule tiled(const Op &op, const Machine &machine, const std::string &way,
                      const std::string &parallel = "none") {
    library::MatmulParameters p = library::matmul_parameters(op, machine);
    CHECK(std::string(p.multiply) == way);
    for (const char *each : {"none", "rows", "columns"}) {
        if (parallel == each) p.parallel = Choice(each, {"none", "rows", "columns"});
    }
    return library::schedule_matmul(op, machine, p);
}

} // namespace kumiko
