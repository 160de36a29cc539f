#include "dsl/buffer_elements.h"

#include "dsl/half.h"
#include "dsl/narrow_types.h"

#include <cstring>

namespace kumiko {

std::string list_text(const std::vector<int64_t> &values) {
    std::string text = "[";
    for (size_t i = 0; i < values.size(); i++) text += (i ? ", " : "") + std::to_string(values[i]);
    return text + "]";
}

std::vector<int64_t> strides_of(const halide_buffer_t *b) {
    std::vector<int64_t> strides;
    for (size_t d = 0; d < rank(b); d++) strides.push_back(axis_stride(b, d));
    return strides;
}

void for_each_element(const halide_buffer_t *b, const std::function<void(const std::vector<int64_t> &, uint8_t *)> &f) {
    const size_t n = rank(b);
    const std::vector<int64_t> extents = axis_extents(b), strides = strides_of(b);
    for (int64_t e : extents) {
        if (e == 0) return;
    }
    const int64_t bytes = Type(b->type).bytes();
    std::vector<int64_t> index(n, 0);
    for (;;) {
        int64_t offset = 0;
        for (size_t d = 0; d < n; d++) offset += index[d] * strides[d];
        f(index, b->host + offset * bytes);
        size_t d = n;
        while (d > 0 && ++index[d - 1] == extents[d - 1]) index[--d] = 0;
        if (d == 0) return;
    }
}

double read_element(Type t, const uint8_t *p) {
    const auto as = [&](auto zero) {
        std::memcpy(&zero, p, sizeof zero);
        return static_cast<double>(zero);
    };
    if (is_narrow(t)) return narrow_value(t, *p);
    if (t.is_float()) {
        if (t.bits() == 64) return as(0.0);
        if (t.bits() == 32) return as(0.0f);
        uint16_t bits;
        std::memcpy(&bits, p, 2);
        return static_cast<double>(half_value(t, bits));
    }
    if (t.is_int())
        return t.bits() == 8    ? as(int8_t{})
               : t.bits() == 16 ? as(int16_t{})
               : t.bits() == 32 ? as(int32_t{})
                                : as(int64_t{});
    return t.bits() <= 8    ? as(uint8_t{})
           : t.bits() == 16 ? as(uint16_t{})
           : t.bits() == 32 ? as(uint32_t{})
                            : as(uint64_t{});
}

void write_element(Type t, uint8_t *p, double v) {
    const auto put = [&](auto value) { std::memcpy(p, &value, sizeof value); };
    if (is_narrow(t)) return put(narrow_bits(t, v));
    if (t.is_float()) {
        if (t.bits() == 64) return put(v);
        if (t.bits() == 32) return put(static_cast<float>(v));
        return put(half_bits(t, v));
    }
    const auto n = static_cast<int64_t>(v);
    if (t.is_bool()) return put(static_cast<uint8_t>(n != 0));
    if (t.bits() == 8) return put(static_cast<uint8_t>(n));
    if (t.bits() == 16) return put(static_cast<uint16_t>(n));
    if (t.bits() == 32) return put(static_cast<uint32_t>(n));
    put(static_cast<uint64_t>(n));
}

} // namespace kumiko
