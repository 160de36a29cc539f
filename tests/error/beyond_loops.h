// Ops with stages that are more than loops over independent elements: an update in place, an extern
// function, a scan and a scatter.
#pragma once

#include "dsl/extern.h"
#include "dsl/inout.h"
#include "dsl/scan.h"
#include "dsl/scatter.h"

namespace kumiko {

inline int reversed(void *const *arrays, const int64_t *extents, const int64_t *) {
    const auto *from = static_cast<const float *>(arrays[0]);
    auto *to = static_cast<float *>(arrays[1]);
    for (int64_t i = 0; i < extents[0]; i++) to[i] = from[extents[0] - 1 - i];
    return 0;
}

inline Op updated() {
    Axis i("i", 64);
    Tensor X = input("X", f32, {i}), Y = inout("Y", f32, {i});
    return Op("updated", {X, Y}, {update(Y, Y(i) + X(i))});
}
inline Op called() {
    Axis i("i", 64);
    Tensor X = input("X", f32, {i});
    Tensor R = extern_stage("R", f32, {i}, {X}, {"reversed", reversed});
    return Op("called", {X}, {compute("Y", {i}, R(i) * 2)});
}
inline Op running() {
    Axis i("i", 64);
    Tensor X = input("X", f32, {i});
    return Op("running", {X}, {compute("Y", {i}, scan([](Expr a, Expr b) { return a + b; }, 0, X(i), i))});
}
inline Op counted() {
    Axis n("n", 64), v("v", 16);
    Tensor ids = input("ids", i32, {n});
    return Op("counted", {ids}, {compute("Y", {v}, scatter(sum, 1, v, ids(n), n))});
}

} // namespace kumiko
