// Arithmetic on integers and bools.
#include "dsl/interpreter/machine.h"
#include "dsl/interpreter/rows.h"
#include "dsl/types.h"
#include "support/error.h"

#include <bit>

namespace kumiko::interpreter {

namespace {

// The quotient whose remainder is in [0, |b|).
int64_t euclidean_div(int64_t a, int64_t b) {
    const int64_t q = a / b, r = a - q * b;
    return r < 0 ? (b > 0 ? q - 1 : q + 1) : q;
}

} // namespace

void Machine::throw_overflow(const Instruction &op) {
    const char *symbol = op.code == Code::Add ? "+" : op.code == Code::Sub ? "-" : op.code == Code::Mul ? "*" : "/";
    const int64_t n = count(op.dst);
    if (op.dst == op.a || op.dst == op.b) { // the accumulator is already overwritten
        throw UserError("stage \"" + program_.stage + "\": " + type_name(op.type) +
                        " overflow while accumulating with " + symbol + "; cast to a wider type");
    }
    std::pair<int64_t, int64_t> in = {0, n};
    const Mask *mask = op.mask >= 0 ? &program_.masks[op.mask] : nullptr;
    if (mask) in = interval(*mask, n);
    for (int64_t l = 0; l < n; l++) {
        if (mask && !open(*mask, l, in)) continue;
        const int64_t a = ints(op.a)[row(op.a) ? l : 0], b = op.b >= 0 ? ints(op.b)[row(op.b) ? l : 0] : 0;
        if (op.code == Code::Div && b != -1) continue;
        const __int128 exact = op.code == Code::Add   ? static_cast<__int128>(a) + b
                               : op.code == Code::Sub ? static_cast<__int128>(a) - b
                               : op.code == Code::Mul ? static_cast<__int128>(a) * b
                                                      : -static_cast<__int128>(a);
        const __int128 limit = static_cast<__int128>(1) << (op.type.bits() - 1);
        if (exact < limit && exact >= -limit) continue;
        throw UserError("stage \"" + program_.stage + "\": " + type_name(op.type) + " overflow in " +
                        std::to_string(a) + " " + symbol + " " + std::to_string(b) + "; cast to a wider type");
    }
}

// A switch over the operations on integers.
void Machine::integers(const Instruction &op) {
    int64_t *d = ints(op.dst);
    const int64_t n = count(op.dst);
    const Type t = op.type, from = program_.registers[op.a].type;
    const int64_t *a = ints(op.a), *b = op.b >= 0 ? ints(op.b) : nullptr;
    const bool ra = row(op.a), rb = op.b >= 0 && row(op.b);
    const bool u64 = from.is_uint() && from.bits() == 64;
    const auto unsigned_op = [](auto f) {
        return [f](int64_t x, int64_t y) {
            return static_cast<int64_t>(f(static_cast<uint64_t>(x), static_cast<uint64_t>(y)));
        };
    };
    // Sums and products: overflow is checked for i32 and i64; other types wrap.
    const auto sum_like = [&](auto f, auto overflows) {
        if (t.is_int() && t.bits() == 32) {
            uint64_t bad = 0;
            map2(d, n, a, ra, b, rb, [&](int64_t x, int64_t y) {
                const auto r = static_cast<int64_t>(f(static_cast<uint64_t>(x), static_cast<uint64_t>(y)));
                bad |= static_cast<uint64_t>(r + 0x80000000LL) >> 32;
                return r;
            });
            if (bad) {
                throw_overflow(op);
                // Overflow only in masked-off lanes.
                for (int64_t l = 0; l < n; l++) d[l] = wrapped(d[l], t);
            }
        } else if (t.is_int() && t.bits() == 64) {
            bool bad = false;
            map2(d, n, a, ra, b, rb, [&](int64_t x, int64_t y) {
                int64_t r;
                bad = overflows(x, y, &r) || bad;
                return r;
            });
            if (bad) throw_overflow(op);
        } else {
            map2(d, n, a, ra, b, rb, unsigned_op(f));
            for (int64_t l = 0; l < n; l++) d[l] = wrapped(d[l], t);
        }
    };
    const auto wrap = [&](auto f) {
        map2(d, n, a, ra, b, rb, [&](int64_t x, int64_t y) { return wrapped(f(x, y), t); });
    };
    switch (op.code) {
    case Code::Add:
        sum_like([](uint64_t x, uint64_t y) { return x + y; },
                 [](int64_t x, int64_t y, int64_t *r) { return __builtin_add_overflow(x, y, r); });
        break;
    case Code::Sub:
        sum_like([](uint64_t x, uint64_t y) { return x - y; },
                 [](int64_t x, int64_t y, int64_t *r) { return __builtin_sub_overflow(x, y, r); });
        break;
    case Code::Mul:
        sum_like([](uint64_t x, uint64_t y) { return x * y; },
                 [](int64_t x, int64_t y, int64_t *r) { return __builtin_mul_overflow(x, y, r); });
        break;
    case Code::Div:
        if (u64) {
            map2(d, n, a, ra, b, rb, unsigned_op([](uint64_t x, uint64_t y) { return y ? x / y : 0; }));
        } else {
            bool bad = false;
            map2(d, n, a, ra, b, rb, [&](int64_t x, int64_t y) {
                if (y == 0) return int64_t{0};
                if (y == -1) {
                    bad = bad || (t.bits() >= 32 && t.is_int() && x == -(int64_t{1} << (t.bits() - 2)) * 2);
                    return wrapped(static_cast<int64_t>(0 - static_cast<uint64_t>(x)), t);
                }
                return euclidean_div(x, y);
            });
            if (bad) throw_overflow(op);
        }
        break;
    case Code::Mod:
        if (u64) {
            map2(d, n, a, ra, b, rb, unsigned_op([](uint64_t x, uint64_t y) { return y ? x % y : 0; }));
        } else {
            map2(d, n, a, ra, b, rb,
                 [](int64_t x, int64_t y) { return y == 0 || y == -1 ? int64_t{0} : x - euclidean_div(x, y) * y; });
        }
        break;
    case Code::DivToZero:
        wrap([](int64_t x, int64_t y) {
            return y == 0 ? 0 : y == -1 ? static_cast<int64_t>(0 - static_cast<uint64_t>(x)) : x / y;
        });
        break;
    case Code::ModToZero:
        wrap([](int64_t x, int64_t y) { return y == 0 || y == -1 ? 0 : x % y; });
        break;
    case Code::Min:
        u64 ? map2(d, n, a, ra, b, rb, unsigned_op([](uint64_t x, uint64_t y) { return x < y ? x : y; }))
            : map2(d, n, a, ra, b, rb, [](int64_t x, int64_t y) { return x < y ? x : y; });
        break;
    case Code::Max:
        u64 ? map2(d, n, a, ra, b, rb, unsigned_op([](uint64_t x, uint64_t y) { return x > y ? x : y; }))
            : map2(d, n, a, ra, b, rb, [](int64_t x, int64_t y) { return x > y ? x : y; });
        break;
    case Code::LT:
        u64 ? map2(d, n, a, ra, b, rb, unsigned_op([](uint64_t x, uint64_t y) { return x < y; }))
            : map2(d, n, a, ra, b, rb, [](int64_t x, int64_t y) { return int64_t{x < y}; });
        break;
    case Code::LE:
        u64 ? map2(d, n, a, ra, b, rb, unsigned_op([](uint64_t x, uint64_t y) { return x <= y; }))
            : map2(d, n, a, ra, b, rb, [](int64_t x, int64_t y) { return int64_t{x <= y}; });
        break;
    case Code::EQ:
        map2(d, n, a, ra, b, rb, [](int64_t x, int64_t y) { return int64_t{x == y}; });
        break;
    case Code::NE:
        map2(d, n, a, ra, b, rb, [](int64_t x, int64_t y) { return int64_t{x != y}; });
        break;
    case Code::And:
    case Code::BitAnd:
        map2(d, n, a, ra, b, rb, [](int64_t x, int64_t y) { return x & y; });
        break;
    case Code::Or:
    case Code::BitOr:
        map2(d, n, a, ra, b, rb, [](int64_t x, int64_t y) { return x | y; });
        break;
    case Code::BitXor:
        map2(d, n, a, ra, b, rb, [](int64_t x, int64_t y) { return x ^ y; });
        break;
    case Code::Not:
        map1(d, n, a, ra, [](int64_t x) { return int64_t{x == 0}; });
        break;
    case Code::BitNot:
        map1(d, n, a, ra, [t](int64_t x) { return wrapped(~x, t); });
        break;
    case Code::Abs:
        map1(d, n, a, ra,
             [t](int64_t x) { return wrapped(x < 0 ? static_cast<int64_t>(0 - static_cast<uint64_t>(x)) : x, t); });
        break;
    case Code::ShiftLeft:
    case Code::ShiftRight: {
        const bool left = op.code == Code::ShiftLeft;
        map2(d, n, a, ra, b, rb, [&](int64_t x, int64_t y) {
            const bool l = left == (y >= 0); // a negative amount shifts in the other direction
            const int64_t by = std::min<int64_t>(std::abs(y), 63);
            if (l)
                return std::abs(y) >= t.bits() ? 0 : wrapped(static_cast<int64_t>(static_cast<uint64_t>(x) << by), t);
            return t.is_uint() ? static_cast<int64_t>(std::abs(y) > 63 ? 0 : static_cast<uint64_t>(x) >> by) : x >> by;
        });
        break;
    }
    case Code::LeadingZeros:
        map1(d, n, a, ra, [from](int64_t x) {
            const uint64_t bits = static_cast<uint64_t>(x) << (64 - from.bits());
            return bits ? int64_t{std::countl_zero(bits)} : int64_t{from.bits()};
        });
        break;
    case Code::TrailingZeros:
        map1(d, n, a, ra,
             [from](int64_t x) { return std::min<int64_t>(std::countr_zero(static_cast<uint64_t>(x)), from.bits()); });
        break;
    case Code::PopCount:
        map1(d, n, a, ra,
             [from](int64_t x) { return int64_t{std::popcount(static_cast<uint64_t>(x) << (64 - from.bits()))}; });
        break;
    default:
        throw InternalError("the interpreter has no integer form of an instruction");
    }
}

} // namespace kumiko::interpreter
