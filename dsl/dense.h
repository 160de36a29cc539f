// Arrays without gaps, in row-major order.
#pragma once

#include "dsl/buffers.h"

namespace kumiko {

// Whether the elements are in row-major order without gaps. Strides of axes with one element do not
// matter.
inline bool is_dense(const Buffer<> &b) {
    const std::vector<int64_t> strides = dense_strides(b.extents());
    for (size_t d = 0; d < b.rank(); d++) {
        if (b.extent(d) > 1 && b.stride(d) != strides[d]) return b.number_of_elements() == 0;
    }
    return true;
}

// The same elements, dense: the array itself if it is, otherwise a copy. Buffer::copy() keeps the
// order of the axes in memory.
inline Buffer<> dense(const Buffer<> &b) {
    if (is_dense(b)) return b;
    Buffer<> made(b.type(), b.extents());
    made.copy_from(b);
    return made;
}

} // namespace kumiko
