#include "targets/halide/translate.h"

#include "schedules/values.h"
#include "support/error.h"
#include "targets/lower/extern_calls.h"

#include <cmath>
#include <limits>
#include <set>

namespace kumiko {

using namespace Halide::Internal;

namespace {

// "exp_f32" → {"exp", "f32"}; the type is empty if the name has no type suffix.
std::pair<std::string, std::string> function_and_type(const std::string &name) {
    for (const char *type : {"f32", "f64", "f16", "bf16"}) {
        const std::string end = std::string("_") + type;
        if (name.size() > end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0) {
            return {name.substr(0, name.size() - end.size()), type};
        }
    }
    return {name, ""};
}

class Translate : public IRMutator {
    using IRMutator::visit;

    Expr visit(const Call *op) override {
        if (op->name.rfind("kumiko.inst.", 0) == 0) {
            throw Unsupported("the tensor instruction " + op->name.substr(12) +
                              " through Halide; compile with our own generator");
        }
        if (is_about_values(op))
            throw Unsupported("a condition about values through Halide; compile with our own generator");
        const Expr e = IRMutator::visit(op);
        op = e.as<Call>();
        if (op->is_intrinsic(Call::abs) && op->type.is_float()) { // clears the sign of -0 too
            const Type bits = UInt(op->type.bits(), op->type.lanes());
            const Expr sign = Call::make(bits, Call::shift_left,
                                         {make_one(bits), make_const(bits, op->type.bits() - 1)}, Call::PureIntrinsic);
            const Expr rest = Call::make(bits, Call::bitwise_not, {sign}, Call::PureIntrinsic);
            return Reinterpret::make(
                op->type,
                Call::make(bits, Call::bitwise_and, {Reinterpret::make(bits, op->args[0]), rest}, Call::PureIntrinsic));
        }
        if (op->name == "kumiko.opaque") return op->args[0]; // affects speed only
        if (op->call_type != Call::PureExtern) return e;
        const auto [function, type] = function_and_type(op->name);
        if (type == "f16" || type == "bf16") { // computed in f32, and rounded
            std::vector<Expr> args;
            for (const Expr &a : op->args) args.push_back(converted(Float(32, a.type().lanes()), a));
            const bool predicate = op->type.is_bool();
            const Type wide = predicate ? op->type : Float(32, op->type.lanes());
            const Expr result = mutate(Call::make(wide, function + "_f32", args, Call::PureExtern));
            return predicate ? result : converted(op->type, result);
        }
        const auto call = [&](const char *name, const Expr &x) {
            return Call::make(op->type, name + ("_" + type), {x}, Call::PureExtern);
        };
        const Expr one = make_const(op->type, 1);
        if (op->name == exp_nonpositive) return call("exp", op->args[0]);
        if (op->name == one_plus_erf) return one + mutate(call("erf", op->args[0]));
        if (function == "sigmoid") return one / (one + call("exp", make_zero(op->type) - op->args[0]));
        if (is_tail_function(function)) return tail_function(function, op->type, op->args[0]);
        if (function == "rsqrt" || function == "inverse_sqrt") return one / call("sqrt", op->args[0]);
        if (function == "inverse") return one / op->args[0];
        if (function == "pow") { // Halide's gives 0 for a negative power of 0
            const std::string base = unique_name("pow.base"), power = unique_name("pow.power");
            const Expr x = Variable::make(op->type, base), y = Variable::make(op->type, power),
                       zero = make_zero(op->type);
            const Expr half = y / make_const(op->type, 2);
            const Expr odd = call("floor", y) == y && call("floor", half) != half, inverse = one / x;
            const Expr at_zero = Select::make(odd, inverse, Select::make(inverse < zero, zero - inverse, inverse));
            const Expr raised = Call::make(op->type, op->name, {x, y}, Call::PureExtern);
            return Let::make(base, op->args[0],
                             Let::make(power, op->args[1], Select::make(x == zero && y < zero, at_zero, raised)));
        }
        if (function == "erf") {
            if (type != "f32") throw Unsupported("erf in " + type + " through Halide, which has it in f32 only");
            if (op->type.is_scalar()) return Halide::erf(op->args[0]);
            const std::string name = unique_name("erf");
            std::vector<Expr> lanes; // Halide's erf is scalar
            for (int i = 0; i < op->type.lanes(); i++)
                lanes.push_back(Halide::erf(extract_lane(Variable::make(op->type, name), i)));
            return Let::make(name, op->args[0], Shuffle::make_concat(lanes));
        }
        return e;
    }

    static bool is_tail_function(const std::string &function) {
        static const std::set<std::string> names = {"expm1", "log1p", "erfc", "silu", "gelu", "gelu_tanh"};
        return names.count(function) > 0;
    }

    // Functions that Halide lacks, expressed by its exp and log. Relaxed floating point may drop
    // differences that are zero in real arithmetic, so those that matter are strict. W. Kahan's
    // expm1 and log1p: the error of exp and log divides out (N. Higham, "Accuracy and Stability of
    // Numerical Algorithms", 1.14.1).
    Expr tail_function(const std::string &function, Type t, const Expr &arg) {
        const std::string name = unique_name(function);
        const Expr x = Variable::make(t, name);
        const auto number = [&](double c) { return make_const(t, c); };
        const auto call = [&](const char *f, const Expr &e) {
            return Call::make(t, f + std::string(t.bits() == 32 ? "_f32" : "_f64"), {e}, Call::PureExtern);
        };
        const auto strict = [&](Call::IntrinsicOp op, const Expr &a, const Expr &b) {
            return Call::make(t, op, {a, b}, Call::PureIntrinsic);
        };
        const Expr zero = number(0), one = number(1), two = number(2);
        Expr result;
        if (function == "log1p") {
            const Expr u = strict(Call::strict_add, x, one), near = strict(Call::strict_sub, u, one);
            result = Select::make(u == one || x == number(std::numeric_limits<double>::infinity()), x,
                                  call("log", u) * (x / near));
            result = Select::make(x == number(-1), call("log", zero), result);
        } else if (function == "expm1") {
            const Expr u = call("exp", x), near = strict(Call::strict_sub, u, one);
            const Expr far =
                Select::make(x < number(-1), near, Select::make(x > two, near, near * (x / call("log", u))));
            result = Select::make(u == one, x, far);
        } else if (function == "silu" || function == "gelu_tanh") {
            const Expr bounded = max(x, number(t.bits() == 32 ? -160 : -700));
            const Expr y = function == "silu" ? bounded : max(x, number(t.bits() == 32 ? -12 : -10));
            const Expr z =
                function == "silu" ? y : y * (number(1.5957691216057307) + number(0.07135481627260025) * y * y);
            result = Select::make(x < zero, y, x) / (one + call("exp", zero - z));
            if (t.bits() == 32) { // its exp overflows at the largest number
                const Expr root = call("exp", z * number(0.5));
                result = Select::make(z < number(-80), y * root * root, result);
            }
        } else { // x Φ(x) and 2 Φ(-√2 x), Φ of math_tails.cpp
            if (t.bits() != 32)
                throw Unsupported(function +
                                  " in f64 through Halide, which has no erfc; f32, f16 and bf16 are supported");
            const bool is_gelu = function == "gelu";
            const double scale = is_gelu ? 1 : M_SQRT2;
            // The bounds are where the exponentials are 0.
            const Expr a = min(Halide::abs(x), number(is_gelu ? 14.5 : 10.25));
            const auto rational = [&](std::initializer_list<double> c) {
                Expr sum, power = one;
                double factor = 1;
                for (const double each : c) {
                    const Expr term = number(each * factor) * power;
                    sum = sum.defined() ? sum + term : term;
                    power = power * a, factor *= scale;
                }
                return sum;
            };
            const Expr m =
                rational({0.50000000303, 0.438696803562, 0.183533268886, 0.0407338460751, 0.00413127647878}) /
                rational({1, 1.67527859856, 1.20374056967, 0.470257770366, 0.102110921309, 0.010355458029});
            // a² = high² + (a - high)(a + high), and high² is exact
            const Type bits = UInt(32, t.lanes());
            const Expr high = Reinterpret::make(
                t, Call::make(bits, Call::bitwise_and, {Reinterpret::make(bits, a), make_const(bits, 0xfffff000u)},
                              Call::PureIntrinsic));
            const Expr power = number(is_gelu ? -0.5 : -1);
            const Expr e =
                call("exp", power * high * high) * call("exp", power * strict(Call::strict_sub, a, high) * (a + high));
            const Expr tail = e * m;
            result = is_gelu ? Select::make(x < zero, x * tail, x * (one - tail))
                             : Select::make(x < zero, two - two * tail, two * tail);
        }
        return Let::make(name, arg, result);
    }

    // Whether an f32 or f64 variable is not NaN, tested on its bits: with relaxed floating point a
    // comparison with NaN may give anything.
    static Expr is_number(const Expr &x) {
        const Type bits = UInt(x.type().bits(), x.type().lanes());
        const bool single = bits.bits() == 32;
        const Expr magnitude =
            Call::make(bits, Call::bitwise_and,
                       {Reinterpret::make(bits, x), make_const(bits, single ? int64_t(INT32_MAX) : INT64_MAX)},
                       Call::PureIntrinsic);
        return magnitude <= make_const(bits, single ? int64_t(0x7f800000) : int64_t(0x7ff) << 52);
    }

    // Casts from and to f16 and bf16 as integer operations on their bits, so that every target
    // supports them.
    static Expr converted(Type t, const Expr &v) {
        if (v.type() == t) return v;
        const bool half = (t.is_float() && t.bits() == 16) || (v.type().is_float() && v.type().bits() == 16);
        if (!half) return Cast::make(t, v);
        // The value is bound to a name because Halide shares subexpressions that occur twice, even
        // loads that are under a condition.
        const std::string name = unique_name("converted");
        const Expr x = Variable::make(v.type(), name);
        Expr e = lower_float16_cast(Cast::make(t, x).as<Cast>());
        if (v.type().is_float() && v.type().bits() > 16) { // Halide turns NaN into infinity
            const Expr nan = Reinterpret::make(t, make_const(UInt(16, t.lanes()), t.is_bfloat() ? 0x7fc0 : 0x7e00));
            e = Select::make(is_number(x), e, nan);
        }
        return Let::make(name, v, e);
    }

    // float → integer saturates and NaN gives 0; Halide leaves both to the processor. To bool:
    // comparison with zero.
    Expr visit(const Cast *op) override {
        if (op->type.is_bool()) return mutate(NE::make(op->value, make_zero(op->value.type())));
        const Expr v = mutate(op->value);
        if (!v.type().is_float() || op->type.is_float()) return converted(op->type, v);
        const Type wide = Float(v.type().bits() == 64 || op->type.bits() >= 32 ? 64 : 32, v.type().lanes());
        const std::string name = unique_name("cast.v");
        const Expr x = Variable::make(wide, name);
        // One above the highest.
        const double top = std::ldexp(1.0, op->type.bits() - (op->type.is_int() ? 1 : 0));
        const Expr low = make_const(wide, op->type.is_int() ? -top : 0.0);
        const Expr number = is_number(x);
        const Expr high = make_const(wide, top), inside = number && LT::make(low, x) && LT::make(x, high);
        const Expr limit = Select::make(number && LE::make(high, x), op->type.max(),
                                        Select::make(number && LE::make(x, low), op->type.min(), make_zero(op->type)));
        // The cast operand is in range in every lane, so no lane executes an undefined conversion.
        const Expr safe = Cast::make(op->type, Select::make(inside, x, make_zero(wide)));
        return Let::make(name, v.type() == wide ? v : converted(wide, v), Select::make(inside, safe, limit));
    }

    // Arithmetic in f16 and bf16 is that of f32, rounded after each operation.
    static bool half(const Expr &e) { return e.type().is_float() && e.type().bits() == 16; }
    static Expr wide(const Expr &e) { return half(e) ? converted(Float(32, e.type().lanes()), e) : e; }
    template<typename T>
    Expr arithmetic(const T *op) {
        const Expr a = mutate(op->a), b = mutate(op->b);
        if constexpr (std::is_same_v<T, Div> || std::is_same_v<T, Mod>) {
            // x / 0 = x % 0 = 0; Halide rejects division by a constant zero.
            if (!op->type.is_float() && is_const_zero(b)) return make_zero(op->type);
        }
        const Expr e = T::make(wide(a), wide(b));
        return half(a) ? converted(op->type, e) : e;
    }
    Expr visit(const Add *op) override { return arithmetic(op); }
    Expr visit(const Sub *op) override { return arithmetic(op); }
    Expr visit(const Mul *op) override { return arithmetic(op); }
    Expr visit(const Div *op) override { return arithmetic(op); }
    Expr visit(const Mod *op) override { return arithmetic(op); }
    // As selects, which define the result for NaN: the second operand.
    Expr visit(const Min *op) override { return extremum(op, true); }
    Expr visit(const Max *op) override { return extremum(op, false); }
    template<typename T>
    Expr extremum(const T *op, bool least) {
        const Expr a = mutate(op->a), b = mutate(op->b);
        if (!op->type.is_float()) return T::make(a, b);
        const std::string x = unique_name("extremum.a"), y = unique_name("extremum.b");
        const Expr first = Variable::make(op->type, x), second = Variable::make(op->type, y);
        const Expr wins = least ? LT::make(wide(first), wide(second)) : LT::make(wide(second), wide(first));
        return Let::make(x, a, Let::make(y, b, Select::make(wins, first, second)));
    }
    // Reduces float lanes in the order of our own generator: Halide supports no 16-bit floats here,
    // and may return either operand for a NaN.
    Expr visit(const VectorReduce *op) override {
        if (!op->type.is_float() || !op->type.is_scalar()) return IRMutator::visit(op);
        const auto join = [&](const Expr &a, const Expr &b) {
            switch (op->op) {
            case VectorReduce::Add:
                return Add::make(a, b);
            case VectorReduce::Mul:
                return Mul::make(a, b);
            case VectorReduce::Min:
                return Min::make(a, b);
            case VectorReduce::Max:
                return Max::make(a, b);
            default:
                throw InternalError("a vector of floats is reduced by an operation that floats do not have");
            }
        };
        std::vector<std::pair<std::string, Expr>> steps;
        const auto named = [&](const Expr &e) {
            steps.emplace_back(unique_name("joined"), mutate(e));
            return Variable::make(e.type(), steps.back().first);
        };
        Expr v = named(op->value);
        while (v.type().lanes() > 1 && v.type().lanes() % 2 == 0) {
            const int n = v.type().lanes() / 2;
            v = named(join(Shuffle::make_slice(v, 0, 1, n), Shuffle::make_slice(v, n, 1, n)));
        }
        std::vector<Expr> terms;
        for (int i = 0; i < v.type().lanes(); i++) terms.push_back(v.type().is_scalar() ? v : extract_lane(v, i));
        while (terms.size() > 1) {
            std::vector<Expr> next;
            for (size_t i = 0; i + 1 < terms.size(); i += 2) next.push_back(named(join(terms[i], terms[i + 1])));
            if (terms.size() % 2) next.push_back(terms.back());
            terms = next;
        }
        Expr result = terms[0];
        for (size_t i = steps.size(); i-- > 0;) result = Let::make(steps[i].first, steps[i].second, result);
        return result;
    }

    // Of the comparisons, Halide's generator is exact about NaN for ==, < and <= only.
    template<typename T>
    Expr comparison(const Expr &a, const Expr &b) {
        const Expr x = mutate(a), y = mutate(b);
        return T::make(wide(x), wide(y));
    }
    Expr visit(const LT *op) override { return comparison<LT>(op->a, op->b); }
    Expr visit(const LE *op) override { return comparison<LE>(op->a, op->b); }
    Expr visit(const GT *op) override { return comparison<LT>(op->b, op->a); }
    Expr visit(const GE *op) override { return comparison<LE>(op->b, op->a); }
    Expr visit(const EQ *op) override { return comparison<EQ>(op->a, op->b); }
    Expr visit(const NE *op) override {
        return op->a.type().is_float() ? Not::make(comparison<EQ>(op->a, op->b)) : comparison<NE>(op->a, op->b);
    }

    Stmt visit(const Evaluate *op) override {
        const Call *call = op->value.as<Call>();
        if (call && call->name == extern_call_name)
            throw Unsupported("stage " + extern_use(call).stage +
                              " calls an extern function; code by Halide's generators cannot, the LLVM target can");
        // Affects speed only.
        if (call && call->name == "kumiko.prefetch") return Evaluate::make(0);
        return IRMutator::visit(op);
    }

    // Halide's masked loads and stores work on whole registers, and cannot mask a single remaining
    // lane.
    static bool leaves_one_lane(Type t) {
        for (const int bits : {128, 256, 512}) {
            const int native = bits / std::max(t.bits(), 8);
            if (native > 1 && t.lanes() > native && t.lanes() % native == 1) return true;
        }
        return false;
    }

    // A bool takes a byte in memory.
    Expr visit(const Load *op) override {
        const Ramp *ramp = op->index.as<Ramp>();
        if (op->type.is_vector() && !is_const_one(op->predicate) &&
            (!(ramp && is_const_one(ramp->stride)) || leaves_one_lane(op->type))) {
            // Lane by lane: Halide's masked gathers require lane counts that the processor has.
            // The index is translated first, because extracting a lane simplifies it.
            const Expr index = mutate(op->index), predicate = mutate(op->predicate);
            const Type t = op->type.element_of(), stored = t.is_bool() ? UInt(8) : t;
            std::vector<Expr> lanes;
            for (int i = 0; i < op->type.lanes(); i++) {
                const Expr lane = Load::make(stored, op->name, extract_lane(index, i), op->image, op->param,
                                             const_true(), ModulusRemainder());
                lanes.push_back(Call::make(
                    t, Call::if_then_else,
                    {extract_lane(predicate, i), t.is_bool() ? lane != make_zero(stored) : lane, make_zero(t)},
                    Call::PureIntrinsic));
            }
            return Shuffle::make_concat(lanes);
        }
        if (!op->type.is_bool()) return IRMutator::visit(op);
        const Type byte = UInt(8, op->type.lanes());
        return Load::make(byte, op->name, mutate(op->index), op->image, op->param, mutate(op->predicate),
                          op->alignment) != make_zero(byte);
    }
    Stmt visit(const Allocate *op) override {
        const Type stored = op->type.is_bool() ? UInt(8, op->type.lanes()) : op->type;
        std::vector<Expr> extents;
        for (const Expr &e : op->extents) extents.push_back(mutate(e));
        return Allocate::make(op->name, stored, op->memory_type, extents, op->condition, mutate(op->body));
    }
    Stmt visit(const Store *op) override {
        Expr value = strictify_float(mutate(op->value));
        if (value.type().is_bool())
            value =
                Select::make(value, make_one(UInt(8, value.type().lanes())), make_zero(UInt(8, value.type().lanes())));
        const Expr index = mutate(op->index), predicate = mutate(op->predicate);
        if (value.type().is_scalar() || is_const_one(predicate) || !leaves_one_lane(value.type())) {
            return Store::make(op->name, value, index, op->param, predicate, op->alignment);
        }
        const std::string name = unique_name("stored");
        const Expr all = Variable::make(value.type(), name);
        std::vector<Stmt> lanes;
        for (int i = 0; i < value.type().lanes(); i++) {
            const Stmt lane = Store::make(op->name, extract_lane(all, i), extract_lane(index, i), op->param,
                                          const_true(), ModulusRemainder());
            lanes.push_back(IfThenElse::make(extract_lane(predicate, i), lane));
        }
        return LetStmt::make(name, value, Block::make(lanes));
    }
    Stmt visit(const LetStmt *op) override {
        return LetStmt::make(op->name, strictify_float(mutate(op->value)), mutate(op->body));
    }
};

// Declares that tensors come from the caller: Halide assumes that its own arrays are aligned to a
// vector register.
class FromOutside : public IRMutator {
public:
    explicit FromOutside(const Nest &nest) {
        for (const TensorArgument &t : nest.tensors) {
            const Type stored = t.type.is_bool() ? UInt(8) : t.type;
            tensors_[t.name] = Halide::Parameter(stored, true, static_cast<int>(t.extents.size()), t.name);
        }
    }

private:
    using IRMutator::visit;
    std::map<std::string, Halide::Parameter> tensors_;

    Expr visit(const Load *op) override {
        const Expr index = mutate(op->index), predicate = mutate(op->predicate);
        const auto found = tensors_.find(op->name);
        return Load::make(op->type, op->name, index, op->image, found == tensors_.end() ? op->param : found->second,
                          predicate, op->alignment);
    }
    Stmt visit(const Store *op) override {
        const Expr value = mutate(op->value), index = mutate(op->index), predicate = mutate(op->predicate);
        const auto found = tensors_.find(op->name);
        return Store::make(op->name, value, index, found == tensors_.end() ? op->param : found->second, predicate,
                           op->alignment);
    }
};

} // namespace

Stmt halide_body(const Nest &nest) { return FromOutside(nest).mutate(Translate().mutate(nest.body)); }

} // namespace kumiko
