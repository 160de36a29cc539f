#include "dsl/interpreter/machine.h"

#include "dsl/interpreter/rows.h"
#include "support/error.h"

#include <cmath>

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

namespace {

// x · sigmoid(z), where x and z have the same sign. sqrt(exp(z)) is a normal number wherever the
// result is not zero.
double times_sigmoid(double x, double z) {
    if (!(z < 0)) return x / (1 + std::exp(-z));
    const double root = std::exp(0.5 * z);
    return root == 0 ? -0.0 : x * root * root / (1 + root * root);
}

// x/2 · erfc(−x/√2). The rounding error of x/√2 is corrected with the derivative, because erfc
// amplifies it by x².
double gelu(double x) {
    if (x == -std::numeric_limits<double>::infinity()) return -0.0;
    const double root = 0.70710678118654752440, root_rest = -4.833646656726457e-17, b = -x * root;
    const double rest = std::fma(-x, root, -b) - x * root_rest;
    const double slope = std::isinf(x) ? 0 : rest * 1.12837916709551257390 * std::exp(-b * b);
    return 0.5 * x * (std::erfc(b) - slope);
}

} // namespace

const std::vector<NamedUnary> &unary_functions() {
    static const std::vector<NamedUnary> table = {
        {"exp", std::exp, true},
        {"log", std::log, true},
        {"tanh", std::tanh, true},
        {"erf", std::erf, true},
        {"erfc", std::erfc, true},
        {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, true},
        {"silu", [](double x) { return times_sigmoid(x, x); }, false},
        {"gelu", gelu, false},
        {"gelu_tanh",
         [](double x) {
             return times_sigmoid(x, x * (1.5957691216057307117597842397375 + 0.071354816272600248776 * x * x));
         },
         false},
        {"sqrt", std::sqrt, true},
        {"rsqrt", [](double x) { return 1 / std::sqrt(x); }, true},
        {"inverse_sqrt", [](double x) { return 1 / std::sqrt(x); }, true},
        {"fast_inverse_sqrt", [](double x) { return 1 / std::sqrt(x); }, true},
        {"inverse", [](double x) { return 1 / x; }, true},
        {"fast_inverse", [](double x) { return 1 / x; }, true},
        {"sin", std::sin, false},
        {"cos", std::cos, false},
        {"tan", std::tan, true},
        {"asin", std::asin, true},
        {"acos", std::acos, true},
        {"atan", std::atan, true},
        {"sinh", std::sinh, true},
        {"cosh", std::cosh, false},
        {"asinh", std::asinh, true},
        {"acosh", std::acosh, true},
        {"atanh", std::atanh, true},
        {"floor", std::floor, true},
        {"ceil", std::ceil, true},
        {"trunc", std::trunc, true},
        {"round", std::nearbyint, true},
        {"exp2", std::exp2, true},
        {"log2", std::log2, true},
        {"log1p", std::log1p, true},
        {"expm1", std::expm1, true},
        {"cbrt", std::cbrt, true}};
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
        case Domain::Int:
            *ints(c.reg) = c.i;
            break;
        case Domain::Float:
            *floats(c.reg) = static_cast<float>(c.d);
            break;
        case Domain::Double:
            *doubles(c.reg) = c.d;
            break;
        }
    }
}

double Machine::lane(int reg, int64_t l) {
    if (!row(reg)) l = 0;
    switch (program_.registers[reg].domain) {
    case Domain::Int:
        return static_cast<double>(ints(reg)[l]);
    case Domain::Float:
        return floats(reg)[l];
    default:
        return doubles(reg)[l];
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

void Machine::round_row(int reg) {
    const Register &r = program_.registers[reg];
    if (r.domain != Domain::Float || r.type.bits() != 16) return;
    float *x = floats(reg);
    for (int64_t l = 0, n = count(reg); l < n; l++) x[l] = rounded(x[l], r.type);
}

template<typename T>
void Machine::arithmetic(const Instruction &op) {
    T *d = reinterpret_cast<T *>(place_[op.dst]);
    const T *a = reinterpret_cast<T *>(place_[op.a]), *b = op.b >= 0 ? reinterpret_cast<T *>(place_[op.b]) : nullptr;
    const bool ra = row(op.a), rb = op.b >= 0 && row(op.b);
    const int64_t n = count(op.dst);
    switch (op.code) {
    case Code::Add:
        map2(d, n, a, ra, b, rb, [](T x, T y) { return x + y; });
        break;
    case Code::Sub:
        map2(d, n, a, ra, b, rb, [](T x, T y) { return x - y; });
        break;
    case Code::Mul:
        map2(d, n, a, ra, b, rb, [](T x, T y) { return x * y; });
        break;
    case Code::Div:
        map2(d, n, a, ra, b, rb, [](T x, T y) { return x / y; });
        break;
    case Code::Mod:
        map2(d, n, a, ra, b, rb, [](T x, T y) { return x - y * std::floor(x / y); });
        break;
    case Code::Min:
        map2(d, n, a, ra, b, rb, [](T x, T y) { return x < y ? x : y; });
        break;
    case Code::Max:
        map2(d, n, a, ra, b, rb, [](T x, T y) { return x > y ? x : y; });
        break;
    case Code::Abs:
        map1(d, n, a, ra, [](T x) { return std::abs(x); });
        break;
    case Code::Unary: {
        const UnaryFunction f = unary_functions()[op.extra].f;
        map1(d, n, a, ra, [f](T x) { return static_cast<T>(f(static_cast<double>(x))); });
        break;
    }
    case Code::Binary: {
        const BinaryFunction f = binary_functions()[op.extra].second;
        map2(d, n, a, ra, b, rb,
             [f](T x, T y) { return static_cast<T>(f(static_cast<double>(x), static_cast<double>(y))); });
        break;
    }
    default:
        throw InternalError("the interpreter has no float form of an instruction");
    }
    round_row(op.dst);
}

// Select and Blend.
void Machine::select(const Instruction &op) {
    const int64_t n = count(op.dst);
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
}

// Comparisons and classification of floats.
void Machine::compare(const Instruction &op) {
    const int64_t n = count(op.dst);
    const auto compare_as = [&](const auto *a, const auto *b) {
        using T = std::remove_cvref_t<decltype(*a)>;
        const bool ra = row(op.a), rb = op.b >= 0 && row(op.b);
        int64_t *d = ints(op.dst);
        switch (op.code) {
        case Code::EQ:
            map2(d, n, a, ra, b, rb, [](T x, T y) { return int64_t{x == y}; });
            break;
        case Code::NE:
            map2(d, n, a, ra, b, rb, [](T x, T y) { return int64_t{x != y}; });
            break;
        case Code::LT:
            map2(d, n, a, ra, b, rb, [](T x, T y) { return int64_t{x < y}; });
            break;
        case Code::LE:
            map2(d, n, a, ra, b, rb, [](T x, T y) { return int64_t{x <= y}; });
            break;
        case Code::IsNan:
            map1(d, n, a, ra, [](T x) { return int64_t{std::isnan(x)}; });
            break;
        case Code::IsInf:
            map1(d, n, a, ra, [](T x) { return int64_t{std::isinf(x)}; });
            break;
        case Code::IsFinite:
            map1(d, n, a, ra, [](T x) { return int64_t{std::isfinite(x)}; });
            break;
        default:
            throw InternalError("the interpreter has no float comparison of an instruction");
        }
    };
    const int b = op.b >= 0 ? op.b : op.a;
    if (program_.registers[op.a].domain == Domain::Float)
        compare_as(floats(op.a), floats(b));
    else
        compare_as(doubles(op.a), doubles(b));
}

void Machine::execute_one(const Instruction &op) {
    switch (op.code) {
    case Code::Affine: {
        const Affine &a = program_.affines[op.extra];
        const int64_t n = count(op.dst), base = evaluate(a), c = row(op.dst) ? row_coefficient(a) : 0;
        for (int64_t l = 0; l < n; l++) ints(op.dst)[l] = base + c * l;
        return;
    }
    case Code::Load:
        return load(op);
    case Code::Move:
        return copy(op.dst, op.a);
    case Code::Cast:
    case Code::Reinterpret:
        return convert(op);
    case Code::Select:
    case Code::Blend:
        return select(op);
    default:
        break;
    }
    const Domain to = program_.registers[op.dst].domain;
    if (program_.registers[op.a].domain != Domain::Int && to == Domain::Int) return compare(op);
    switch (to) {
    case Domain::Int:
        return integers(op);
    case Domain::Float:
        return arithmetic<float>(op);
    case Domain::Double:
        return arithmetic<double>(op);
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
