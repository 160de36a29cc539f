#include "targets/chip/stage/vector_code.h"

#include "dsl/print.h"
#include "dsl/types.h"
#include "support/error.h"

namespace kumiko::chip {

using namespace sim;
namespace ir = Halide::Internal;

namespace {

Operand constant(const Expr &e) {
    double value = 0;
    if (const auto f = ir::as_const_float(e)) value = *f;
    if (const auto i = ir::as_const_int(e)) value = double(*i);
    if (e.type() == f16) return immediate_f16(float(value));
    if (e.type() == f32) return immediate_f32(float(value));
    if (e.type().bits() == 32) return immediate_i32(int32_t(value));
    return immediate_i16(int16_t(value));
}

// Two operands that one word cannot fetch: the same port at another address, or an immediate beside LM0.
bool clash(const Operand &a, const Operand &b) {
    if (a.source == b.source) return a.source == Source::Imm ? a.immediate != b.immediate : !(a.address == b.address);
    return (a.source == Source::Imm && b.source == Source::Lm0) || (a.source == Source::Lm0 && b.source == Source::Imm);
}

} // namespace

sim::Type VectorCode::alu_type(kumiko::Type t, const std::string &who) {
    if (t == f16) return sim::Type::F16;
    if (t == f32) return sim::Type::F32;
    if (t == i32) return sim::Type::I32;
    if (t == i16) return sim::Type::I16;
    if (t == Halide::UInt(32)) return sim::Type::U32;
    if (t == Halide::UInt(16)) return sim::Type::U16;
    throw Unsupported(who + ": the chip's vectors have no elements of " + type_name(t));
}

Operand VectorCode::registers(int words, int stride, int bank) {
    if (bank < 0) {
        bank = next_;
        next_ ^= 1;
    }
    const int at = int(registers_[size_t(bank)].next(words));
    taken_[size_t(bank)] += words;
    return bank ? grf1(at, stride) : grf0(at, stride);
}

Micro VectorCode::last(const Value &v) const {
    Micro m;
    const auto alu = [&](AluOp op) {
        m.use(Unit::Alu);
        Alu u;
        u.op = op;
        u.type = alu_type(v.type, who_);
        u.a = m.read(v.there ? v.at : v.from[0], 1);
        if (!v.there && v.from.size() > 1) u.b = m.read(v.from[1], 1);
        m.word().alu = u;
    };
    if (v.there) {
        alu(AluOp::Pass);
        return m;
    }
    const bool half = v.type == f16;
    const auto mau = [&](MauOp op, int a, int b, int c, bool negate) {
        m.use(Unit::Mau).use(half ? Unit::F16 : Unit::F32);
        Mau u;
        u.op = op;
        u.precision = half ? sim::Type::F16 : sim::Type::F32;
        u.negate = negate;
        u.narrow_c = half && c >= 0;
        u.narrow_y = half;
        u.a = m.read(v.from[size_t(a)], 1);
        if (b >= 0) u.b = m.read(v.from[size_t(b)], 1);
        if (c >= 0) u.c = m.read(v.from[size_t(c)], 1);
        m.word().mau = u;
    };
    const bool floats = v.type.is_float();
    if (v.op.as<ir::Add>())
        floats ? mau(MauOp::Vadd, 0, -1, 1, false) : alu(AluOp::Add);
    else if (v.op.as<ir::Sub>())
        floats ? mau(MauOp::Vadd, 1, -1, 0, true) : alu(AluOp::Sub); // −b + a
    else if (v.op.as<ir::Mul>())
        mau(MauOp::Vmul, 0, 1, -1, false);
    else if (v.op.as<ir::Max>())
        alu(AluOp::Max);
    else if (v.op.as<ir::Min>())
        alu(AluOp::Min);
    else
        throw InternalError("an operation of vectors that was not chosen");
    return m;
}

Source VectorCode::forward(const Micro &last) {
    return last.word(0).alu.op != AluOp::None ? Source::Aluf : Source::Mauf;
}

void VectorCode::store(const Value &v, const Operand &to) {
    Micro m = last(v);
    const uint8_t set = m.write(to, 1);
    (m.word().alu.op != AluOp::None ? m.word().alu.to : m.word().mau.to) = set;
    c_.packer.place(m);
}

Operand VectorCode::stored(const Value &v) {
    if (v.there) return v.at;
    const Operand to = registers(cycles_per_step, 1);
    store(v, to);
    return to;
}

Operand VectorCode::moved(const Operand &from, kumiko::Type type, int bank) {
    const Operand to = registers(cycles_per_step, 1, bank);
    Value v;
    v.type = type;
    v.there = true;
    v.at = from;
    store(v, to);
    return to;
}

VectorCode::Value VectorCode::evaluate(const Expr &e) {
    Value v;
    v.type = e.type();
    const ir::Cast *cast = e.as<ir::Cast>();
    const ir::Call *read = (cast ? cast->value : e).as<ir::Call>();
    if (read && read->call_type == ir::Call::Image) {
        v.at = read_(e);
        v.there = true;
        return v;
    }
    if (ir::is_const(e)) {
        v.at = constant(e);
        v.there = true;
        return v;
    }
    const auto binary = [&](const Expr &a, const Expr &b) {
        v.op = e;
        v.from = {stored(evaluate(a))};
        const auto before = taken_;
        v.from.push_back(stored(evaluate(b)));
        for (size_t bank = 0; bank < 2; bank++) { // the first operand still stands
            if (taken_[bank] - before[bank] + 2 * cycles_per_step > registers_[bank].words())
                throw Unsupported(who_ + ": the expression " + to_string(e) +
                                  " has more intermediate values than registers");
        }
        if (clash(v.from[0], v.from[1]))
            v.from[1] = moved(v.from[1], b.type(), v.from[0].source == Source::Grf1 ? 0 : 1);
        return v;
    };
    alu_type(e.type(), who_);
    if (const auto *op = e.as<ir::Add>()) return binary(op->a, op->b);
    if (const auto *op = e.as<ir::Sub>()) return binary(op->a, op->b);
    if (const auto *op = e.as<ir::Mul>(); op && e.type().is_float()) return binary(op->a, op->b);
    if (const auto *op = e.as<ir::Max>()) return binary(op->a, op->b);
    if (const auto *op = e.as<ir::Min>()) return binary(op->a, op->b);
    throw Unsupported(who_ + ": the chip's vectors do not compute " + to_string(e) +
                      " yet; sums, differences, products, max and min are built");
}

} // namespace kumiko::chip
