// Scatters: builds the list of steps per element, so that each element folds only its own steps.
#include "dsl/interpreter/scatter.h"

#include "dsl/scatter.h"
#include "dsl/types.h"

namespace kumiko::interpreter {

using namespace Halide::Internal;

std::string scatter_axis(const Stage &stage) {
    const auto s = scattered(stage);
    if (!s || !identity_is_neutral(stage)) return "";
    for (const Axis &a : stage.axes) {
        if (expr_uses_var(s->index, a.name())) return "";
    }
    return s->axis;
}

Steps steps_by_index(const Context &context, const Stage &stage, int64_t extent, const std::vector<int64_t> &extents) {
    Stage index;
    index.name = stage.name + ".index";
    index.kind = Stage::Kind::Pointwise;
    index.type = i64;
    index.axes = stage.reduction_axes;
    // u64 values that do not fit become negative, and so are out of bounds too.
    index.value = cast(i64, scattered(stage)->index);
    int64_t n = 1;
    for (int64_t e : extents) n *= e;
    std::vector<int64_t> values(static_cast<size_t>(n));
    Context with = context;
    std::vector<int64_t> strides(extents.size(), 1);
    for (size_t d = extents.size(); d-- > 1;) strides[d - 1] = strides[d] * extents[d];
    with.arrays.push_back({index.name, i64, extents, strides, reinterpret_cast<uint8_t *>(values.data()), nullptr});
    run(with, index, compile(with, index, extents, {}), {static_cast<int>(with.arrays.size()) - 1}, false);
    Steps steps(static_cast<size_t>(extent));
    for (int64_t at = 0; at < n; at++) {
        const int64_t named = values[static_cast<size_t>(at)];
        if (named >= 0 && named < extent) steps[static_cast<size_t>(named)].push_back(at);
    }
    return steps;
}

} // namespace kumiko::interpreter
