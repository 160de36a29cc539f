// Loads, stores, masks, and the errors for out-of-bounds reads.
#include "dsl/interpreter/machine.h"
#include "dsl/interpreter/rows.h"
#include "support/error.h"

namespace kumiko::interpreter {

int64_t Machine::row_coefficient(const Affine &a) const {
    for (const auto &[level, c] : a.terms) {
        if (level == program_.row_level) return c;
    }
    return 0;
}

std::pair<int64_t, int64_t> Machine::interval(const Mask &mask, int64_t n) const {
    int64_t first = 0, last = n;
    for (int index : mask.conjuncts) {
        const Affine &a = program_.affines[index];
        const int64_t base = evaluate(a), c = row_coefficient(a);
        if (c == 0) {
            if (base < 0) return {0, 0};
        } else if (c > 0) {
            if (base < 0) first = std::max(first, (-base + c - 1) / c);
        } else {
            last = base < 0 ? 0 : std::min(last, base / -c + 1);
        }
    }
    if (first >= last) return {0, 0};
    return {first, last};
}

bool Machine::open(const Mask &mask, int64_t l, std::pair<int64_t, int64_t> in) {
    if (l < in.first || l >= in.second) return false;
    return mask.reg < 0 || ints(mask.reg)[row(mask.reg) ? l : 0] != 0;
}

void Machine::throw_outside(const Array &array, size_t axis, int64_t index) {
    if (index >= 0 && index < array.extents[axis])
        throw InternalError("stage \"" + program_.stage + "\" reads \"" + array.name +
                            "\" beyond the part that was computed");
    std::string at;
    for (size_t l = 0; l < program_.loops.size(); l++) {
        at += (at.empty() ? "" : ", ") + program_.loops[l].name + " = " + std::to_string(value[l + 1]);
        if (static_cast<int>(l) + 1 == program_.row_level && lanes > 1)
            at += "…" + std::to_string(value[l + 1] + lanes - 1);
    }
    throw UserError("stage \"" + program_.stage + "\" reads \"" + array.name + "\" outside: index " +
                    std::to_string(index) + " along axis " + std::to_string(axis) + ", whose extent is " +
                    std::to_string(array.extents[axis]) + (at.empty() ? "" : " (at " + at + ")"));
}

// Checks affine indices at the first and the last active lane. Returns what uniform indices add to
// the offset.
int64_t Machine::checked_uniform_offset(const Access &access, std::pair<int64_t, int64_t> in) {
    const Array &array = context_.arrays[access.array];
    int64_t offset = 0;
    for (const Access::Dimension &d : access.checked) {
        int64_t low, high;
        if (d.reg >= 0) {
            low = high = *ints(d.reg);
            offset += low * array.strides[d.axis];
        } else {
            const int64_t at = evaluate(d.index), c = row_coefficient(d.index);
            low = at + c * in.first;
            high = at + c * (in.second - 1);
        }
        const Range held = array.held(d.axis);
        if (low < held.begin || low >= held.end) throw_outside(array, d.axis, low);
        if (high < held.begin || high >= held.end) throw_outside(array, d.axis, high);
    }
    return offset;
}

// The checked offset of each of `n` lanes; −1 for masked-off lanes.
std::vector<int64_t> Machine::lane_offsets(const Access &access, const Mask *mask, std::pair<int64_t, int64_t> in,
                                           int64_t n) {
    const Array &array = context_.arrays[access.array];
    const int64_t base = evaluate(access.address), stride = row_coefficient(access.address);
    std::vector<int64_t> offsets(static_cast<size_t>(n), -1);
    for (int64_t l = in.first; l < in.second; l++) {
        if (mask && !open(*mask, l, in)) continue;
        int64_t offset = base + stride * l;
        for (const Access::Dimension &d : access.checked) {
            const int64_t at =
                d.reg >= 0 ? ints(d.reg)[row(d.reg) ? l : 0] : evaluate(d.index) + row_coefficient(d.index) * l;
            const Range held = array.held(d.axis);
            if (at < held.begin || at >= held.end) throw_outside(array, d.axis, at);
            if (d.reg >= 0) offset += at * array.strides[d.axis];
        }
        offsets[static_cast<size_t>(l)] = offset;
    }
    return offsets;
}

void Machine::load(const Instruction &op) {
    const Access &access = program_.accesses[op.extra];
    const Array &array = context_.arrays[access.array];
    const Register &reg = program_.registers[op.dst];
    const int64_t n = count(op.dst), stride = row_coefficient(access.address);
    int64_t base = evaluate(access.address);
    const Mask *mask = op.mask >= 0 ? &program_.masks[op.mask] : nullptr;
    const std::pair<int64_t, int64_t> in = mask ? interval(*mask, n) : std::pair<int64_t, int64_t>(0, n);
    const bool lanewise = access.gather || (mask && mask->reg >= 0);
    std::vector<int64_t> offsets;
    if (lanewise)
        offsets = lane_offsets(access, mask, in, n);
    else if (in.first < in.second)
        base += checked_uniform_offset(access, in);

    const auto fetch = [&](auto *to, const auto *from) {
        using To = std::remove_pointer_t<decltype(to)>;
        if (lanewise) {
            for (int64_t l = 0; l < n; l++) to[l] = offsets[l] < 0 ? To(0) : value_as<To>(from[offsets[l]]);
            return;
        }
        for (int64_t l = 0; l < in.first; l++) to[l] = To(0);
        for (int64_t l = in.second; l < n; l++) to[l] = To(0);
        if (stride == 1) {
            for (int64_t l = in.first; l < in.second; l++) to[l] = value_as<To>(from[base + l]);
        } else if (stride == 0) {
            if (in.first >= in.second) return;
            const To v = value_as<To>(from[base]);
            for (int64_t l = in.first; l < in.second; l++) to[l] = v;
        } else {
            for (int64_t l = in.first; l < in.second; l++) to[l] = value_as<To>(from[base + l * stride]);
        }
    };
    with_storage(array.type, [&](auto *type) {
        const auto *from = reinterpret_cast<decltype(type)>(array.data);
        switch (reg.domain) {
        case Domain::Int:
            if constexpr (std::is_integral_v<std::remove_pointer_t<decltype(type)>>) fetch(ints(op.dst), from);
            break;
        case Domain::Float:
            fetch(floats(op.dst), from);
            break;
        case Domain::Double:
            fetch(doubles(op.dst), from);
            break;
        }
    });
    if (double *b = bound(op.dst)) {
        if (array.bound) {
            fetch(b, array.bound);
        } else {
            std::fill_n(b, n, 0.0);
        }
    }
}

void Machine::store(const Array &array, int64_t offset, int64_t stride, int reg, int64_t n) {
    const int64_t step = row(reg) ? 1 : 0;
    const auto put = [&](auto *to, const auto *from) {
        using To = std::remove_pointer_t<decltype(to)>;
        for (int64_t l = 0; l < n; l++) to[offset + l * stride] = value_as<To>(from[l * step]);
    };
    with_storage(array.type, [&](auto *type) {
        auto *to = reinterpret_cast<decltype(type)>(array.data);
        switch (program_.registers[reg].domain) {
        case Domain::Int:
            if constexpr (std::is_integral_v<std::remove_pointer_t<decltype(type)>>) put(to, ints(reg));
            break;
        case Domain::Float:
            put(to, floats(reg));
            break;
        case Domain::Double:
            put(to, doubles(reg));
            break;
        }
    });
    if (array.bound) {
        for (int64_t l = 0; l < n; l++) array.bound[offset + l * stride] = bound(reg)[l * step];
    }
}

} // namespace kumiko::interpreter
