// Type conversions.
#include "dsl/interpreter/machine.h"
#include "dsl/interpreter/rows.h"

#include <bit>
#include <cmath>

namespace kumiko::interpreter {

namespace {

// Halide's rule: out-of-range values saturate, NaN gives 0.
int64_t saturated(double x, Type t) {
    if (t.is_bool()) return x != 0;
    if (std::isnan(x)) return 0;
    x = std::trunc(x);
    if (t.is_uint()) {
        if (x <= 0) return 0;
        const double limit = std::ldexp(1.0, t.bits());
        if (x >= limit) return wrapped(-1, t);
        return static_cast<int64_t>(static_cast<uint64_t>(x));
    }
    const double limit = std::ldexp(1.0, t.bits() - 1);
    if (x >= limit) return t.bits() == 64 ? INT64_MAX : (int64_t{1} << (t.bits() - 1)) - 1;
    if (x < -limit) return t.bits() == 64 ? INT64_MIN : -(int64_t{1} << (t.bits() - 1));
    return static_cast<int64_t>(x);
}

uint64_t to_bits(Type t, double f, int64_t i) {
    if (!t.is_float()) return static_cast<uint64_t>(i);
    if (t.bits() == 64) return std::bit_cast<uint64_t>(f);
    if (t.bits() == 32) return std::bit_cast<uint32_t>(static_cast<float>(f));
    return half_bits(t, f);
}

double from_bits(Type t, uint64_t bits) {
    if (t.bits() == 64) return std::bit_cast<double>(bits);
    if (t.bits() == 32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
    return static_cast<double>(half_value(t, static_cast<uint16_t>(bits)));
}

} // namespace

void Machine::convert(const Instruction &op) {
    const Register &to = program_.registers[op.dst], &from = program_.registers[op.a];
    const int64_t n = count(op.dst);
    const bool ra = row(op.a);
    const Type t = op.type;
    if (op.code == Code::Reinterpret) {
        for (int64_t l = 0; l < n; l++) {
            const uint64_t bits =
                to_bits(from.type, from.domain == Domain::Int ? 0 : lane(op.a, l), ints(op.a)[ra ? l : 0]);
            switch (to.domain) {
            case Domain::Int:
                ints(op.dst)[l] = wrapped(static_cast<int64_t>(bits), t);
                break;
            case Domain::Float:
                floats(op.dst)[l] = static_cast<float>(from_bits(t, bits));
                break;
            case Domain::Double:
                doubles(op.dst)[l] = from_bits(t, bits);
                break;
            }
        }
        return;
    }
    if (from.domain == Domain::Int) {
        const bool u64 = from.type.is_uint() && from.type.bits() == 64;
        switch (to.domain) {
        case Domain::Int:
            map1(ints(op.dst), n, ints(op.a), ra,
                 [t](int64_t x) { return t.is_bool() ? int64_t{x != 0} : wrapped(x, t); });
            break;
        case Domain::Float:
            map1(floats(op.dst), n, ints(op.a), ra, [u64, t](int64_t x) {
                if (t.bits() == 16) // rounds once, not twice
                    return half_value(t, u64 ? half_bits(t, static_cast<uint64_t>(x)) : half_bits(t, x));
                return u64 ? static_cast<float>(static_cast<uint64_t>(x)) : static_cast<float>(x);
            });
            break;
        case Domain::Double:
            map1(doubles(op.dst), n, ints(op.a), ra, [u64](int64_t x) {
                return u64 ? static_cast<double>(static_cast<uint64_t>(x)) : static_cast<double>(x);
            });
            break;
        }
        round_row(op.dst);
        return;
    }
    const auto from_float = [&](const auto *a) {
        using From = std::remove_cvref_t<decltype(*a)>;
        switch (to.domain) {
        case Domain::Int:
            map1(ints(op.dst), n, a, ra, [t](From x) { return saturated(static_cast<double>(x), t); });
            break;
        case Domain::Float:
            if (std::is_same_v<From, double> && t.bits() == 16) { // rounds once, not twice
                map1(floats(op.dst), n, a, ra,
                     [t](From x) { return half_value(t, half_bits(t, static_cast<double>(x))); });
            } else {
                map1(floats(op.dst), n, a, ra, [](From x) { return static_cast<float>(x); });
            }
            break;
        case Domain::Double:
            map1(doubles(op.dst), n, a, ra, [](From x) { return static_cast<double>(x); });
            break;
        }
    };
    from.domain == Domain::Float ? from_float(floats(op.a)) : from_float(doubles(op.a));
    round_row(op.dst);
}

} // namespace kumiko::interpreter
