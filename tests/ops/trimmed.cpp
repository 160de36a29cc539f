// A shared object as written by a user of the command: its op calls a C function of the object.
#include "dsl/extern.h"
#include "ops/export.h"

#include <algorithm>

using namespace kumiko;

namespace {

// Y: the rows of X, each sorted.
int sort_rows(void *const *arrays, const int64_t *extents, const int64_t *strides) {
    const auto *from = static_cast<const float *>(arrays[0]);
    auto *to = static_cast<float *>(arrays[1]);
    if (strides[1] != 1 || strides[3] != 1) return 1;
    for (int64_t i = 0; i < extents[0]; i++) {
        float *row = to + i * strides[2];
        std::copy_n(from + i * strides[0], extents[1], row);
        std::sort(row, row + extents[1]);
    }
    return 0;
}

// The mean of each row without its smallest and largest quarter.
Op trimmed_mean(Expr M, Expr N) {
    Axis i("i", M), j("j", N), k("k", N / 2);
    Tensor X = input("X", f32, {i, j});
    Tensor S = extern_stage("S", f32, {i, j}, {X}, {"sort_rows", sort_rows});
    return Op("trimmed_mean", {X}, {compute("Y", {i}, sum(S(i, k + N / 4), k) / cast<float>(N / 2))});
}

} // namespace

KUMIKO_EXPORT_OPS(KUMIKO_OP(trimmed_mean, "the mean of the middle half of each row", M, N))
