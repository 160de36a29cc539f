#include "dsl/interpreter/machine.h"

#include "dsl/types.h"
#include "support/error.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace kumiko::interpreter {

float rounded(float x, Type t) {
    if (t.bits() != 16) return x;
    return t.is_bfloat() ? static_cast<float>(bfloat16_t(x)) : static_cast<float>(float16_t(x));
}

int64_t wrapped(int64_t x, Type t) {
    if (t.bits() == 64) return x;
    if (t.bits() == 1) return x & 1;
    const int shift = 64 - t.bits();
    const uint64_t up = static_cast<uint64_t>(x) << shift;
    return t.is_uint() ? static_cast<int64_t>(up >> shift) : static_cast<int64_t>(up) >> shift;
}

const std::vector<NamedUnary> &unary_functions() {
    static const std::vector<NamedUnary> table = {
        {"exp", std::exp, true}, {"log", std::log, true}, {"tanh", std::tanh, true}, {"erf", std::erf, true},
        {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, true},
        {"sqrt", std::sqrt, true}, {"rsqrt", [](double x) { return 1 / std::sqrt(x); }, true},
        {"inverse_sqrt", [](double x) { return 1 / std::sqrt(x); }, true},
        {"fast_inverse_sqrt", [](double x) { return 1 / std::sqrt(x); }, true},
        {"inverse", [](double x) { return 1 / x; }, true}, {"fast_inverse", [](double x) { return 1 / x; }, true},
        {"sin", std::sin, false}, {"cos", std::cos, false}, {"tan", std::tan, true}, {"asin", std::asin, true},
        {"acos", std::acos, true}, {"atan", std::atan, true}, {"sinh", std::sinh, true}, {"cosh", std::cosh, false},
        {"asinh", std::asinh, true}, {"acosh", std::acosh, true}, {"atanh", std::atanh, true},
        {"floor", std::floor, true}, {"ceil", std::ceil, true}, {"trunc", std::trunc, true},
        {"round", std::nearbyint, true}, {"exp2", std::exp2, true}, {"log2", std::log2, true}, {"log1p", std::log1p, true},
        {"expm1", std::expm1, true}, {"cbrt", std::cbrt, true}};
    return table;
}

const std::vector<std::pair<const char *, BinaryFunction>> &binary_functions() {
    static const std::vector<std::pair<const char *, BinaryFunction>> table = {
        {"pow", std::pow}, {"atan2", std::atan2}, {"hypot", std::hypot}, {"fmod", std::fmod}};
    return table;
}

Machine::Machine(const Context &context, const Program &program, bool bounds)
    : value(program.loops.size() + 1, 0), context_(context), program_(program) {
    size_t words = 0;
    std::vector<size_t> at;
    for (const Register &r : program.registers) {
        at.push_back(words);
        words += r.row ? static_cast<size_t>(row_lanes) : 1;
    }
    memory_.resize(words);
    for (size_t a : at) place_.push_back(reinterpret_cast<uint8_t *>(memory_.data() + a));
    if (bounds) {
        bound_memory_.resize(words, 0);
        for (size_t a : at) bound_place_.push_back(bound_memory_.data() + a);
    }
    for (const Program::Constant &c : program.constants) {
        switch (program.registers[c.reg].domain) {
        case Domain::Int: *ints(c.reg) = c.i; break;
        case Domain::Float: *floats(c.reg) = static_cast<float>(c.d); break;
        case Domain::Double: *doubles(c.reg) = c.d; break;
        }
    }
}

double Machine::lane(int reg, int64_t l) {
    if (!row(reg)) l = 0;
    switch (program_.registers[reg].domain) {
    case Domain::Int: return static_cast<double>(ints(reg)[l]);
    case Domain::Float: return floats(reg)[l];
    default: return doubles(reg)[l];
    }
}

void Machine::copy_lane(int to, int from, int64_t l) {
    if (!row(from)) l = 0;
    if (program_.registers[to].domain == Domain::Float) {
        *floats(to) = floats(from)[l];
    } else {
        *ints(to) = ints(from)[l];
    }
    if (bound(to)) *bound(to) = bound(from)[l];
}

void Machine::copy(int to, int from) {
    const int64_t n = count(to), step = row(from) ? 1 : 0;
    if (to == from) return;
    if (program_.registers[to].domain == Domain::Float) {
        for (int64_t l = 0; l < n; l++) floats(to)[l] = floats(from)[l * step];
    } else {
        for (int64_t l = 0; l < n; l++) ints(to)[l] = ints(from)[l * step];
    }
    if (bound(to)) {
        for (int64_t l = 0; l < n; l++) bound(to)[l] = bound(from)[l * step];
    }
}

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
    std::string at;
    for (size_t l = 0; l < program_.loops.size(); l++) {
        at += (at.empty() ? "" : ", ") + program_.loops[l].name + " = " + std::to_string(value[l + 1]);
        if (static_cast<int>(l) + 1 == program_.row_level && lanes > 1) at += "…" + std::to_string(value[l + 1] + lanes - 1);
    }
    throw UserError("stage \"" + program_.stage + "\" reads \"" + array.name + "\" outside: index " + std::to_string(index) +
                    " along axis " + std::to_string(axis) + ", whose extent is " + std::to_string(array.extents[axis]) +
                    (at.empty() ? "" : " (at " + at + ")"));
}

namespace {

// Calls f with a null pointer of the C++ type in which `t` lies in memory.
template<typename F>
void with_storage(Type t, F f) {
    if (t.is_float()) {
        if (t.bits() == 64) return f(static_cast<double *>(nullptr));
        if (t.bits() == 32) return f(static_cast<float *>(nullptr));
        if (t.is_bfloat()) return f(static_cast<bfloat16_t *>(nullptr));
        return f(static_cast<float16_t *>(nullptr));
    }
    if (t.is_uint()) {
        if (t.bits() <= 8) return f(static_cast<uint8_t *>(nullptr));
        if (t.bits() == 16) return f(static_cast<uint16_t *>(nullptr));
        if (t.bits() == 32) return f(static_cast<uint32_t *>(nullptr));
        return f(static_cast<uint64_t *>(nullptr));
    }
    if (t.bits() == 8) return f(static_cast<int8_t *>(nullptr));
    if (t.bits() == 16) return f(static_cast<int16_t *>(nullptr));
    if (t.bits() == 32) return f(static_cast<int32_t *>(nullptr));
    return f(static_cast<int64_t *>(nullptr));
}

template<typename To, typename From>
To value_as(From v) {
    constexpr bool half = std::is_same_v<From, float16_t> || std::is_same_v<From, bfloat16_t>;
    constexpr bool to_half = std::is_same_v<To, float16_t> || std::is_same_v<To, bfloat16_t>;
    if constexpr (half) {
        return static_cast<To>(static_cast<float>(v));
    } else if constexpr (to_half) {
        if constexpr (std::is_same_v<From, float> || std::is_same_v<From, double>) {
            return To(v);
        } else {
            return To(static_cast<double>(v));
        }
    } else {
        return static_cast<To>(v);
    }
}

} // namespace

void Machine::load(const Instruction &op) {
    const Access &access = program_.accesses[op.extra];
    const Array &array = context_.arrays[access.array];
    const Register &reg = program_.registers[op.dst];
    const int64_t n = count(op.dst);
    int64_t base = evaluate(access.address), stride = row_coefficient(access.address);
    std::pair<int64_t, int64_t> in = {0, n};
    const Mask *mask = op.mask >= 0 ? &program_.masks[op.mask] : nullptr;
    if (mask) in = interval(*mask, n);
    bool lanewise = access.gather || (mask && mask->reg >= 0);

    // Uniform indices join the base; affine ones are checked at both ends of the lanes that are read.
    if (in.first < in.second && !lanewise) {
        for (const Access::Dimension &d : access.checked) {
            int64_t low, high;
            if (d.reg >= 0) {
                low = high = *ints(d.reg);
                base += low * array.strides[d.axis];
            } else {
                const int64_t at = evaluate(d.index), c = row_coefficient(d.index);
                low = at + c * in.first;
                high = at + c * (in.second - 1);
            }
            if (low < 0 || low >= array.extents[d.axis]) throw_outside(array, d.axis, low);
            if (high < 0 || high >= array.extents[d.axis]) throw_outside(array, d.axis, high);
        }
    }
    std::vector<int64_t> offsets;
    if (lanewise) { // an offset for each lane, −1 where closed
        offsets.assign(static_cast<size_t>(n), -1);
        for (int64_t l = in.first; l < in.second; l++) {
            if (mask && !open(*mask, l, in)) continue;
            int64_t offset = base + stride * l;
            for (const Access::Dimension &d : access.checked) {
                const int64_t at = d.reg >= 0 ? ints(d.reg)[row(d.reg) ? l : 0] : evaluate(d.index) + row_coefficient(d.index) * l;
                if (at < 0 || at >= array.extents[d.axis]) throw_outside(array, d.axis, at);
                if (d.reg >= 0) offset += at * array.strides[d.axis];
            }
            offsets[static_cast<size_t>(l)] = offset;
        }
    }

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
        case Domain::Float: fetch(floats(op.dst), from); break;
        case Domain::Double: fetch(doubles(op.dst), from); break;
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
        case Domain::Float: put(to, floats(reg)); break;
        case Domain::Double: put(to, doubles(reg)); break;
        }
    });
    if (array.bound) {
        for (int64_t l = 0; l < n; l++) array.bound[offset + l * stride] = bound(reg)[l * step];
    }
}

void Machine::round_row(int reg) {
    const Register &r = program_.registers[reg];
    if (r.domain != Domain::Float || r.type.bits() != 16) return;
    float *x = floats(reg);
    for (int64_t l = 0, n = count(reg); l < n; l++) x[l] = rounded(x[l], r.type);
}

namespace {

// d[l] = f(a[l], b[l]) where uniform operands do not advance.
template<typename D, typename A, typename B, typename F>
void map2(D *d, int64_t n, const A *a, bool a_row, const B *b, bool b_row, F f) {
    if (a_row && b_row) {
        for (int64_t l = 0; l < n; l++) d[l] = f(a[l], b[l]);
    } else if (a_row) {
        const B y = *b;
        for (int64_t l = 0; l < n; l++) d[l] = f(a[l], y);
    } else if (b_row) {
        const A x = *a;
        for (int64_t l = 0; l < n; l++) d[l] = f(x, b[l]);
    } else {
        const D v = f(*a, *b);
        for (int64_t l = 0; l < n; l++) d[l] = v;
    }
}

template<typename D, typename A, typename F>
void map1(D *d, int64_t n, const A *a, bool a_row, F f) {
    if (a_row) {
        for (int64_t l = 0; l < n; l++) d[l] = f(a[l]);
    } else {
        const D v = f(*a);
        for (int64_t l = 0; l < n; l++) d[l] = v;
    }
}

int64_t euclidean_div(int64_t a, int64_t b) {
    const int64_t q = a / b, r = a - q * b;
    return r < 0 ? (b > 0 ? q - 1 : q + 1) : q;
}

} // namespace

template<typename T>
void Machine::arithmetic(const Instruction &op) {
    T *d = reinterpret_cast<T *>(place_[op.dst]);
    const T *a = reinterpret_cast<T *>(place_[op.a]), *b = op.b >= 0 ? reinterpret_cast<T *>(place_[op.b]) : nullptr;
    const bool ra = row(op.a), rb = op.b >= 0 && row(op.b);
    const int64_t n = count(op.dst);
    switch (op.code) {
    case Code::Add: map2(d, n, a, ra, b, rb, [](T x, T y) { return x + y; }); break;
    case Code::Sub: map2(d, n, a, ra, b, rb, [](T x, T y) { return x - y; }); break;
    case Code::Mul: map2(d, n, a, ra, b, rb, [](T x, T y) { return x * y; }); break;
    case Code::Div: map2(d, n, a, ra, b, rb, [](T x, T y) { return x / y; }); break;
    case Code::Mod: map2(d, n, a, ra, b, rb, [](T x, T y) { return x - y * std::floor(x / y); }); break;
    case Code::Min: map2(d, n, a, ra, b, rb, [](T x, T y) { return x < y ? x : y; }); break;
    case Code::Max: map2(d, n, a, ra, b, rb, [](T x, T y) { return x > y ? x : y; }); break;
    case Code::Abs: map1(d, n, a, ra, [](T x) { return std::abs(x); }); break;
    case Code::Unary: {
        const UnaryFunction f = unary_functions()[op.extra].f;
        map1(d, n, a, ra, [f](T x) { return static_cast<T>(f(static_cast<double>(x))); });
        break;
    }
    case Code::Binary: {
        const BinaryFunction f = binary_functions()[op.extra].second;
        map2(d, n, a, ra, b, rb, [f](T x, T y) { return static_cast<T>(f(static_cast<double>(x), static_cast<double>(y))); });
        break;
    }
    default: throw InternalError("the interpreter has no float form of an instruction");
    }
    round_row(op.dst);
}

void Machine::throw_overflow(const Instruction &op) {
    const char *symbol = op.code == Code::Add ? "+" : op.code == Code::Sub ? "-" : op.code == Code::Mul ? "*" : "/";
    const int64_t n = count(op.dst);
    if (op.dst == op.a || op.dst == op.b) { // an accumulator, already overwritten
        throw UserError("stage \"" + program_.stage + "\": " + type_name(op.type) + " overflow while accumulating with " + symbol +
                        "; cast to a wider type");
    }
    std::pair<int64_t, int64_t> in = {0, n};
    const Mask *mask = op.mask >= 0 ? &program_.masks[op.mask] : nullptr;
    if (mask) in = interval(*mask, n);
    for (int64_t l = 0; l < n; l++) {
        if (mask && !open(*mask, l, in)) continue;
        const int64_t a = ints(op.a)[row(op.a) ? l : 0], b = op.b >= 0 ? ints(op.b)[row(op.b) ? l : 0] : 0;
        const __int128 exact = op.code == Code::Add   ? static_cast<__int128>(a) + b
                               : op.code == Code::Sub ? static_cast<__int128>(a) - b
                               : op.code == Code::Mul ? static_cast<__int128>(a) * b
                                                      : -static_cast<__int128>(a);
        const __int128 limit = static_cast<__int128>(1) << (op.type.bits() - 1);
        if (exact < limit && exact >= -limit) continue;
        throw UserError("stage \"" + program_.stage + "\": " + type_name(op.type) + " overflow in " + std::to_string(a) + " " +
                        symbol + " " + std::to_string(b) + "; cast to a wider type");
    }
}

void Machine::integers(const Instruction &op) {
    int64_t *d = ints(op.dst);
    const int64_t n = count(op.dst);
    const Type t = op.type, from = program_.registers[op.a].type;
    const int64_t *a = ints(op.a), *b = op.b >= 0 ? ints(op.b) : nullptr;
    const bool ra = row(op.a), rb = op.b >= 0 && row(op.b);
    const bool u64 = from.is_uint() && from.bits() == 64;
    const auto unsigned_op = [](auto f) {
        return [f](int64_t x, int64_t y) { return static_cast<int64_t>(f(static_cast<uint64_t>(x), static_cast<uint64_t>(y))); };
    };
    // Sums and products: checked in i32 and i64, wrapped elsewhere.
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
                for (int64_t l = 0; l < n; l++) d[l] = wrapped(d[l], t); // only where nobody looks
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
        sum_like([](uint64_t x, uint64_t y) { return x + y; }, [](int64_t x, int64_t y, int64_t *r) { return __builtin_add_overflow(x, y, r); });
        break;
    case Code::Sub:
        sum_like([](uint64_t x, uint64_t y) { return x - y; }, [](int64_t x, int64_t y, int64_t *r) { return __builtin_sub_overflow(x, y, r); });
        break;
    case Code::Mul:
        sum_like([](uint64_t x, uint64_t y) { return x * y; }, [](int64_t x, int64_t y, int64_t *r) { return __builtin_mul_overflow(x, y, r); });
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
            map2(d, n, a, ra, b, rb, [](int64_t x, int64_t y) {
                return y == 0 || y == -1 ? int64_t{0} : x - euclidean_div(x, y) * y;
            });
        }
        break;
    case Code::DivToZero: wrap([](int64_t x, int64_t y) { return y == 0 ? 0 : y == -1 ? static_cast<int64_t>(0 - static_cast<uint64_t>(x)) : x / y; }); break;
    case Code::ModToZero: wrap([](int64_t x, int64_t y) { return y == 0 || y == -1 ? 0 : x % y; }); break;
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
    case Code::EQ: map2(d, n, a, ra, b, rb, [](int64_t x, int64_t y) { return int64_t{x == y}; }); break;
    case Code::NE: map2(d, n, a, ra, b, rb, [](int64_t x, int64_t y) { return int64_t{x != y}; }); break;
    case Code::And: case Code::BitAnd: map2(d, n, a, ra, b, rb, [](int64_t x, int64_t y) { return x & y; }); break;
    case Code::Or: case Code::BitOr: map2(d, n, a, ra, b, rb, [](int64_t x, int64_t y) { return x | y; }); break;
    case Code::BitXor: map2(d, n, a, ra, b, rb, [](int64_t x, int64_t y) { return x ^ y; }); break;
    case Code::Not: map1(d, n, a, ra, [](int64_t x) { return int64_t{x == 0}; }); break;
    case Code::BitNot: map1(d, n, a, ra, [t](int64_t x) { return wrapped(~x, t); }); break;
    case Code::Abs: map1(d, n, a, ra, [t](int64_t x) { return wrapped(x < 0 ? static_cast<int64_t>(0 - static_cast<uint64_t>(x)) : x, t); }); break;
    case Code::ShiftLeft: case Code::ShiftRight: {
        const bool left = op.code == Code::ShiftLeft;
        map2(d, n, a, ra, b, rb, [&](int64_t x, int64_t y) {
            const bool l = left == (y >= 0); // a negative amount shifts the other way
            const int64_t by = std::min<int64_t>(std::abs(y), 63);
            if (l) return std::abs(y) >= t.bits() ? 0 : wrapped(static_cast<int64_t>(static_cast<uint64_t>(x) << by), t);
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
        map1(d, n, a, ra, [from](int64_t x) { return std::min<int64_t>(std::countr_zero(static_cast<uint64_t>(x)), from.bits()); });
        break;
    case Code::PopCount:
        map1(d, n, a, ra, [from](int64_t x) { return int64_t{std::popcount(static_cast<uint64_t>(x) << (64 - from.bits()))}; });
        break;
    default: throw InternalError("the interpreter has no integer form of an instruction");
    }
}

namespace {

// Halide's: out of range gives the nearest end, NaN gives 0.
int64_t saturated(double x, Type t) {
    if (std::isnan(x)) return 0;
    if (t.is_bool()) return x != 0;
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
    return t.is_bfloat() ? bfloat16_t(f).to_bits() : float16_t(f).to_bits();
}

double from_bits(Type t, uint64_t bits) {
    if (t.bits() == 64) return std::bit_cast<double>(bits);
    if (t.bits() == 32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
    const auto half = static_cast<uint16_t>(bits);
    return static_cast<double>(t.is_bfloat() ? static_cast<float>(bfloat16_t::make_from_bits(half))
                                             : static_cast<float>(float16_t::make_from_bits(half)));
}

} // namespace

void Machine::convert(const Instruction &op) {
    const Register &to = program_.registers[op.dst], &from = program_.registers[op.a];
    const int64_t n = count(op.dst);
    const bool ra = row(op.a);
    const Type t = op.type;
    if (op.code == Code::Reinterpret) {
        for (int64_t l = 0; l < n; l++) {
            const uint64_t bits = to_bits(from.type, from.domain == Domain::Int ? 0 : lane(op.a, l), ints(op.a)[ra ? l : 0]);
            switch (to.domain) {
            case Domain::Int: ints(op.dst)[l] = wrapped(static_cast<int64_t>(bits), t); break;
            case Domain::Float: floats(op.dst)[l] = static_cast<float>(from_bits(t, bits)); break;
            case Domain::Double: doubles(op.dst)[l] = from_bits(t, bits); break;
            }
        }
        return;
    }
    if (from.domain == Domain::Int) {
        const bool u64 = from.type.is_uint() && from.type.bits() == 64;
        switch (to.domain) {
        case Domain::Int:
            map1(ints(op.dst), n, ints(op.a), ra, [t](int64_t x) { return t.is_bool() ? int64_t{x != 0} : wrapped(x, t); });
            break;
        case Domain::Float:
            map1(floats(op.dst), n, ints(op.a), ra, [u64](int64_t x) { return u64 ? static_cast<float>(static_cast<uint64_t>(x)) : static_cast<float>(x); });
            break;
        case Domain::Double:
            map1(doubles(op.dst), n, ints(op.a), ra, [u64](int64_t x) { return u64 ? static_cast<double>(static_cast<uint64_t>(x)) : static_cast<double>(x); });
            break;
        }
        round_row(op.dst);
        return;
    }
    const auto from_float = [&](const auto *a) {
        using From = std::remove_cvref_t<decltype(*a)>;
        switch (to.domain) {
        case Domain::Int: map1(ints(op.dst), n, a, ra, [t](From x) { return saturated(static_cast<double>(x), t); }); break;
        case Domain::Float:
            if (std::is_same_v<From, double> && t.bits() == 16) { // one rounding, not two
                map1(floats(op.dst), n, a, ra, [t](From x) { return t.is_bfloat() ? static_cast<float>(bfloat16_t(x)) : static_cast<float>(float16_t(x)); });
            } else {
                map1(floats(op.dst), n, a, ra, [](From x) { return static_cast<float>(x); });
            }
            break;
        case Domain::Double: map1(doubles(op.dst), n, a, ra, [](From x) { return static_cast<double>(x); }); break;
        }
    };
    from.domain == Domain::Float ? from_float(floats(op.a)) : from_float(doubles(op.a));
    round_row(op.dst);
}

void Machine::execute_one(const Instruction &op) {
    const int64_t n = count(op.dst);
    switch (op.code) {
    case Code::Affine: {
        const Affine &a = program_.affines[op.extra];
        const int64_t base = evaluate(a), c = row(op.dst) ? row_coefficient(a) : 0;
        for (int64_t l = 0; l < n; l++) ints(op.dst)[l] = base + c * l;
        return;
    }
    case Code::Load: return load(op);
    case Code::Move: return copy(op.dst, op.a);
    case Code::Cast: case Code::Reinterpret: return convert(op);
    case Code::Select: case Code::Blend: {
        const Mask *mask = op.code == Code::Blend ? &program_.masks[op.extra] : nullptr;
        const auto in = mask ? interval(*mask, n) : std::pair<int64_t, int64_t>{0, 0};
        const int64_t sa = row(op.a) ? 1 : 0, sb = row(op.b) ? 1 : 0, sc = op.c >= 0 && row(op.c) ? 1 : 0;
        const int64_t *c = op.c >= 0 ? ints(op.c) : nullptr;
        const auto pick = [&](auto *d, const auto *a, const auto *b) {
            if (mask) {
                for (int64_t l = 0; l < n; l++) d[l] = l >= in.first && l < in.second ? a[l * sa] : b[l * sb];
            } else {
                for (int64_t l = 0; l < n; l++) d[l] = c[l * sc] ? a[l * sa] : b[l * sb];
            }
        };
        if (program_.registers[op.dst].domain == Domain::Float) {
            pick(floats(op.dst), floats(op.a), floats(op.b));
        } else {
            pick(ints(op.dst), ints(op.a), ints(op.b));
        }
        return;
    }
    default: break;
    }
    const Domain from = program_.registers[op.a].domain, to = program_.registers[op.dst].domain;
    if (from != Domain::Int && to == Domain::Int) { // comparisons and classes of floats
        const auto compare = [&](const auto *a, const auto *b) {
            using T = std::remove_cvref_t<decltype(*a)>;
            const bool ra = row(op.a), rb = op.b >= 0 && row(op.b);
            int64_t *d = ints(op.dst);
            switch (op.code) {
            case Code::EQ: map2(d, n, a, ra, b, rb, [](T x, T y) { return int64_t{x == y}; }); break;
            case Code::NE: map2(d, n, a, ra, b, rb, [](T x, T y) { return int64_t{x != y}; }); break;
            case Code::LT: map2(d, n, a, ra, b, rb, [](T x, T y) { return int64_t{x < y}; }); break;
            case Code::LE: map2(d, n, a, ra, b, rb, [](T x, T y) { return int64_t{x <= y}; }); break;
            case Code::IsNan: map1(d, n, a, ra, [](T x) { return int64_t{std::isnan(x)}; }); break;
            case Code::IsInf: map1(d, n, a, ra, [](T x) { return int64_t{std::isinf(x)}; }); break;
            case Code::IsFinite: map1(d, n, a, ra, [](T x) { return int64_t{std::isfinite(x)}; }); break;
            default: throw InternalError("the interpreter cannot compare so");
            }
        };
        const int b = op.b >= 0 ? op.b : op.a;
        from == Domain::Float ? compare(floats(op.a), floats(b)) : compare(doubles(op.a), doubles(b));
        return;
    }
    switch (to) {
    case Domain::Int: return integers(op);
    case Domain::Float: return arithmetic<float>(op);
    case Domain::Double: return arithmetic<double>(op);
    }
}

void Machine::execute(const std::vector<Instruction> &code) {
    if (bound_place_.empty()) {
        for (const Instruction &op : code) execute_one(op);
        return;
    }
    for (const Instruction &op : code) propagate(op);
}

} // namespace kumiko::interpreter
