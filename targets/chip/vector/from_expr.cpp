#include "targets/chip/vector/from_expr.h"

#include "dsl/float_casts.h"
#include "dsl/print.h"
#include "dsl/types.h"
#include "support/error.h"
#include "targets/chip/vector/functions.h"

namespace kumiko::chip {

using namespace sim;
namespace ir = Halide::Internal;
using Halide::Expr;

sim::Type vector_type(Halide::Type t, const std::string &who) {
    if (t == Halide::Float(16)) return sim::Type::F16;
    if (t == Halide::Float(32)) return sim::Type::F32;
    if (t == Halide::Int(32)) return sim::Type::I32;
    if (t == Halide::Int(16)) return sim::Type::I16;
    if (t == Halide::UInt(32)) return sim::Type::U32;
    if (t == Halide::UInt(16)) return sim::Type::U16;
    throw Unsupported(who + ": the chip's vectors have no elements of " + type_name(t) +
                      "; they have f16, f32 and integers of 16 and 32 bits");
}

namespace {

bool is_float(sim::Type t) { return t == sim::Type::F16 || t == sim::Type::F32; }

class Taker {
public:
    Taker(VectorBuilder &b, const std::string &who, const TakeRead &read) : b_(b), who_(who), read_(read) {}

    Id take(const Expr &e) {
        const auto known = done_.find(e);
        if (known != done_.end()) return known->second;
        const Id id = fresh(e);
        done_[e] = id;
        return id;
    }

private:
    VectorBuilder &b_;
    const std::string &who_;
    const TakeRead &read_;
    std::map<Expr, Id, ir::IRDeepCompare> done_;

    [[noreturn]] void refuse(const Expr &e) const {
        throw Unsupported(
            who_ + ": the chip's vectors do not compute " + to_string(e) +
            "; they have + - * of floats and integers (* of floats only), /, min, max, select, comparisons, casts "
            "among f16, f32, i16 and i32, abs, exp, expm1, log, log1p, tanh, erf, erfc, sigmoid, silu, gelu, "
            "gelu_tanh, "
            "sqrt, rsqrt, floor, ceil, round, trunc");
    }

    Id fresh(const Expr &e) {
        const ir::Cast *cast = e.as<ir::Cast>();
        const ir::Call *read = (cast ? cast->value : e).as<ir::Call>();
        if (read && read->call_type == ir::Call::Image) {
            if (const Id id = read_(e); id >= 0) return id;
        }
        if (e.type().is_int() && !read) { // sizes, as in the divisor of a mean
            if (const auto i = ir::as_const_int(simplified(e)))
                return b_.number(double(*i), vector_type(e.type(), who_));
        }
        if (cast) return converted(e, cast->value);
        if (const auto f = ir::as_const_float(e)) return b_.number(*f, vector_type(e.type(), who_));
        if (const auto i = ir::as_const_int(e)) return b_.number(double(*i), vector_type(e.type(), who_));
        if (const auto u = ir::as_const_uint(e); u && e.type().bits() > 1)
            return b_.number(double(*u), vector_type(e.type(), who_));
        if (const auto *op = e.as<ir::Add>()) return arithmetic(e, op->a, op->b, AluOp::Add);
        if (const auto *op = e.as<ir::Sub>()) return arithmetic(e, op->a, op->b, AluOp::Sub);
        if (const auto *op = e.as<ir::Mul>()) {
            if (!e.type().is_float()) refuse(e);
            return b_.mul(take(op->a), take(op->b));
        }
        if (const auto *op = e.as<ir::Div>()) {
            if (!e.type().is_float()) refuse(e);
            return in_f32(e.type(), {op->a, op->b}, [&](const std::vector<Id> &x) { return divide(b_, x[0], x[1]); });
        }
        if (const auto *op = e.as<ir::Max>()) return extreme(op->a, op->b, false);
        if (const auto *op = e.as<ir::Min>()) return extreme(op->a, op->b, true);
        if (const auto *op = e.as<ir::LT>()) return b_.less(take(op->a), take(op->b));
        if (const auto *op = e.as<ir::GT>()) return b_.less(take(op->b), take(op->a));
        if (const auto *op = e.as<ir::LE>()) return b_.alu(AluOp::Le, take(op->a), take(op->b));
        if (const auto *op = e.as<ir::GE>()) return b_.alu(AluOp::Le, take(op->b), take(op->a));
        if (const auto *op = e.as<ir::EQ>()) return b_.equal(take(op->a), take(op->b));
        if (const auto *op = e.as<ir::NE>()) return b_.alu(AluOp::Ne, take(op->a), take(op->b));
        if (const auto *op = e.as<ir::And>()) return logic(e, AluOp::And, op->a, op->b);
        if (const auto *op = e.as<ir::Or>()) return logic(e, AluOp::Or, op->a, op->b);
        if (const auto *op = e.as<ir::Not>()) return b_.alu(AluOp::Not, take(op->a));
        if (const auto *op = e.as<ir::Select>()) return chosen(e, op->condition, op->true_value, op->false_value);
        if (const auto *op = e.as<ir::Let>()) return take(ir::substitute(op->name, op->value, op->body));
        if (const auto *op = e.as<ir::Call>()) return called(e, op);
        refuse(e);
    }

    Id arithmetic(const Expr &e, const Expr &x, const Expr &y, AluOp op) {
        vector_type(e.type(), who_);
        const Id a = take(x), b = take(y);
        if (!e.type().is_float()) return b_.alu(op, a, b);
        return op == AluOp::Add ? b_.add(a, b) : b_.sub(a, b);
    }

    Id extreme(const Expr &x, const Expr &y, bool least) {
        const Id a = take(x), b = take(y);
        if (!is_float(b_.type(a))) return b_.alu(least ? AluOp::Min : AluOp::Max, a, b);
        // If either operand is NaN the result is b; the ALU's own max and min give NaN.
        if (!least && ir::is_const_zero(y)) return b_.alu(AluOp::Relud, a, a);
        return b_.select(least ? b_.less(a, b) : b_.less(b, a), a, b);
    }

    Id logic(const Expr &e, AluOp op, const Expr &x, const Expr &y) {
        const Id a = take(x), b = take(y);
        if (bits_of(b_.type(a)) != bits_of(b_.type(b))) refuse(e);
        return b_.alu(op, a, b);
    }

    Id chosen(const Expr &e, const Expr &condition, const Expr &yes, const Expr &no) {
        const Id c = take(condition), a = take(yes), b = take(no);
        if (bits_of(b_.type(c)) != bits_of(b_.type(a))) refuse(e);
        return b_.select(c, a, b);
    }

    Id converted(const Expr &e, const Expr &value) {
        const sim::Type to = vector_type(e.type(), who_), from = vector_type(value.type(), who_);
        Id x = take(value);
        if (to == from) return x;
        const bool whole = !is_float(to);
        if (is_float(from) && whole) { // towards zero; saturates at 32 bits, as defined
            if (from == sim::Type::F16) x = b_.widen(x);
            if (to != sim::Type::I32) refuse(e);
            return b_.alu(AluOp::ToInt, x);
        }
        if (!is_float(from) && !whole) {
            if (bits_of(from) == 16) x = b_.widen(x);
            x = b_.alu(AluOp::ToFloat, x);
            return to == sim::Type::F16 ? b_.narrow(x) : x;
        }
        if (bits_of(from) == bits_of(to)) return b_.as(x, to);
        return b_.as(bits_of(to) == 32 ? b_.widen(x) : b_.narrow(x), to);
    }

    Id in_f32(Halide::Type t, const std::vector<Expr> &args, const std::function<Id(const std::vector<Id> &)> &f) {
        const bool half = vector_type(t, who_) == sim::Type::F16;
        std::vector<Id> x;
        for (const Expr &a : args) x.push_back(half ? b_.widen(take(a)) : take(a));
        return half ? b_.narrow(f(x)) : f(x);
    }

    Id called(const Expr &e, const ir::Call *op) {
        if (op->is_intrinsic(ir::Call::if_then_else) && op->args.size() == 3)
            return chosen(e, op->args[0], op->args[1], op->args[2]);
        if (op->is_intrinsic(ir::Call::abs)) {
            const Id a = take(op->args[0]);
            if (is_float(b_.type(a))) return b_.absolute(a);
            refuse(e);
        }
        if (op->is_intrinsic(ir::Call::round))
            return in_f32(e.type(), {op->args[0]},
                          [&](const std::vector<Id> &x) { return rounded(b_, x[0], Rounding::Nearest); });
        const std::string name = op->name.substr(0, op->name.rfind('_'));
        if (op->args.size() != 1 || !e.type().is_float() || op->call_type != ir::Call::PureExtern) refuse(e);
        const std::map<std::string, Id (*)(VectorBuilder &, Id)> functions = {
            {"exp", exp},
            {"log", log},
            {"tanh", tanh},
            {"erf", erf},
            {"erfc", erfc},
            {"expm1", expm1},
            {"log1p", log1p},
            {"silu", silu},
            {"gelu", gelu},
            {"gelu_tanh", gelu_tanh},
            {"sigmoid", sigmoid},
            {"sqrt", sqrt},
            {"rsqrt", rsqrt},
            {"inverse_sqrt", rsqrt},
            {"abs", [](VectorBuilder &b, Id x) { return b.absolute(x); }},
            {"inverse", [](VectorBuilder &b, Id x) { return divide(b, b.number(1), x); }},
            {"floor", [](VectorBuilder &b, Id x) { return rounded(b, x, Rounding::Down); }},
            {"ceil", [](VectorBuilder &b, Id x) { return rounded(b, x, Rounding::Up); }},
            {"round", [](VectorBuilder &b, Id x) { return rounded(b, x, Rounding::Nearest); }},
            {"trunc", [](VectorBuilder &b, Id x) { return rounded(b, x, Rounding::Zero); }},
        };
        const auto f = functions.find(name);
        if (f == functions.end()) refuse(e);
        return in_f32(e.type(), {op->args[0]}, [&](const std::vector<Id> &x) { return f->second(b_, x[0]); });
    }
};

} // namespace

Id take_expression(VectorBuilder &b, const Expr &e, const std::string &who, const TakeRead &read) {
    return Taker(b, who, read).take(e);
}

} // namespace kumiko::chip
