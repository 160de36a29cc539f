// Compares ops with independent loops: random arguments, every element of the result.
#pragma once

#include "dsl/interpret.h"
#include "ops/ops.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

namespace kumiko {

using Index = std::vector<int64_t>;

inline std::vector<Buffer<>> random_inputs(const Op &op) {
    std::vector<Buffer<>> buffers;
    uint64_t seed = 1;
    for (const Input &in : op.inputs()) {
        buffers.push_back(make_input(in, {}));
        in.type.is_float() ? fill_random(buffers.back(), seed++, -1, 1)
                           : fill_random_integers(buffers.back(), seed++, in.type.is_uint() ? 0 : -3, 3);
    }
    return buffers;
}

inline double at(const Buffer<> &b, const Index &index) { return element(b.raw_buffer(), index); }

// 0 if the index is out of bounds.
inline double at_or_zero(const Buffer<> &b, const Index &index) {
    for (size_t d = 0; d < index.size(); d++) {
        if (index[d] < 0 || index[d] >= b.extents()[d]) return 0;
    }
    return at(b, index);
}

// The element at a row-major position.
inline double at_position(const Buffer<> &b, int64_t position) {
    Index index(b.extents().size());
    for (size_t d = index.size(); d-- > 0; position /= b.extents()[d]) index[d] = position % b.extents()[d];
    return at(b, index);
}

inline void for_each_index(const Index &extents, const std::function<void(const Index &)> &f) {
    Index index(extents.size(), 0);
    for (const int64_t n : extents) {
        if (n == 0) return;
    }
    for (;;) {
        f(index);
        size_t d = index.size();
        while (d-- > 0) {
            if (++index[d] < extents[d]) break;
            index[d] = 0;
            if (d == 0) return;
        }
        if (index.empty()) return;
    }
}

// The op's only output must have these extents, and elements within `most` of `expected`.
inline void check_elements(const Op &op, const std::vector<Buffer<>> &in, const Index &extents,
                           const std::function<double(const Index &)> &expected, double most = 1e-11) {
    CAPTURE(op.to_string());
    const Buffer<> y = interpret(op, in);
    REQUIRE(y.extents() == extents);
    int wrong = 0;
    for_each_index(extents, [&](const Index &i) {
        const double is = at(y, i), should = expected(i);
        const bool good = std::isnan(should) ? std::isnan(is) : is == should || std::abs(is - should) <= most;
        if (good || wrong++) return;
        std::string place;
        for (const int64_t n : i) place += std::to_string(n) + " ";
        CAPTURE(place);
        CHECK(is == should);
    });
    CHECK(wrong == 0);
}

} // namespace kumiko
