#include "targets/chip/vector/program.h"

#include "sim/operations.h"
#include "support/error.h"
#include "support/half.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace kumiko::chip {

using namespace sim;
using Kind = VectorOp::Kind;

bool is_comparison(const VectorOp &op) { return op.kind == Kind::Alu && info(op.alu).result == AluResult::Mask; }

int VectorProgram::uses(Id id) const {
    int n = id == result;
    for (const VectorOp &op : ops) n += int(std::count(op.from.begin(), op.from.end(), id));
    return n;
}

uint32_t evaluate(const VectorProgram &p, const std::vector<uint32_t> &reads) {
    std::vector<uint32_t> values(p.ops.size());
    for (size_t i = 0; i < p.ops.size(); i++) {
        const VectorOp &op = p.ops[i];
        const auto from = [&](size_t n) { return op.from[n] < 0 ? 0 : values[size_t(op.from[n])]; };
        values[i] = op.kind == Kind::Read ? reads.at(op.bits) : evaluate(op, from(0), from(1), from(2));
    }
    return values.at(size_t(p.result));
}

Id VectorBuilder::make(const VectorOp &op) {
    for (size_t i = 0; i < ops_.size(); i++) {
        if (ops_[i] == op) return Id(i);
    }
    bool known = op.kind == Kind::Alu || op.kind == Kind::Mau;
    std::array<uint32_t, 3> values{};
    for (size_t i = 0; i < 3; i++) {
        if (op.from[i] < 0) continue;
        const VectorOp &from = ops_[size_t(op.from[i])];
        known = known && from.kind == Kind::Number;
        values[i] = from.bits;
    }
    if (known) return bits(evaluate(op, values[0], values[1], values[2]), op.type);
    ops_.push_back(op);
    return Id(ops_.size() - 1);
}

Id VectorBuilder::read(int which, sim::Type type) {
    VectorOp op;
    op.kind = Kind::Read;
    op.type = op.of = type;
    op.bits = uint32_t(which);
    return make(op);
}

Id VectorBuilder::bits(uint32_t bits, sim::Type type) {
    VectorOp op;
    op.type = op.of = type;
    op.bits = bits_of(type) == 16 ? bits & 0xffff : bits;
    return make(op);
}

Id VectorBuilder::number(double value, sim::Type type) {
    if (type == sim::Type::F32) return bits(__builtin_bit_cast(uint32_t, float(value)), type);
    if (type == sim::Type::F16) return bits(half_from_float(float(value)), type);
    return bits(uint32_t(int64_t(value)), type);
}

Id VectorBuilder::narrow_source(Id id) const {
    const VectorOp &op = ops_[size_t(id)];
    return op.kind == Kind::Alu && op.alu == AluOp::Widen && op.of == sim::Type::F16 ? op.from[0] : -1;
}

// The factors as fp16 if they are widened fp16; c and the result are f32.
Id VectorBuilder::mau(MauOp which, Id a, Id b, Id c, bool negate) {
    VectorOp op;
    op.kind = Kind::Mau;
    op.mau = which;
    op.negate = negate;
    op.from = {a, b, c};
    op.type = op.of = type(a);
    if (op.of == sim::Type::F32) {
        const Id small_a = narrow_source(a), small_b = b < 0 ? -1 : narrow_source(b);
        if (small_a >= 0 && (b < 0 || small_b >= 0)) {
            op.of = sim::Type::F16;
            op.from[0] = small_a;
            op.from[1] = small_b;
            if (c >= 0 && narrow_source(c) >= 0) op.from[2] = narrow_source(c);
        }
    }
    op.narrow_c = c >= 0 && type(op.from[2]) == sim::Type::F16;
    return make(op);
}

// Fuses a product that is added with the sum; the product may have no other use.
Id VectorBuilder::sum(Id product, bool negate, Id c) {
    const VectorOp p = ops_[size_t(product)];
    if (p.kind != Kind::Mau || p.mau != MauOp::Vmul || p.type != type(c)) return -1;
    VectorOp op = p;
    op.mau = MauOp::Vfma;
    op.negate = p.negate != negate;
    op.from[2] = c;
    if (op.of == sim::Type::F16 && op.type == sim::Type::F32 && narrow_source(c) >= 0) op.from[2] = narrow_source(c);
    op.narrow_c = type(op.from[2]) == sim::Type::F16;
    return make(op);
}

Id VectorBuilder::add(Id a, Id b) {
    if (const Id f = sum(a, false, b); f >= 0) return f;
    if (const Id f = sum(b, false, a); f >= 0) return f;
    // The first operand may be narrow.
    return narrow_source(b) >= 0 && narrow_source(a) < 0 ? mau(MauOp::Vadd, b, -1, a, false)
                                                         : mau(MauOp::Vadd, a, -1, b, false);
}

Id VectorBuilder::sub(Id a, Id b) {
    if (const Id f = sum(b, true, a); f >= 0) return f;
    return mau(MauOp::Vadd, b, -1, a, true);
}

Id VectorBuilder::mul(Id a, Id b) { return mau(MauOp::Vmul, a, b, -1, false); }
Id VectorBuilder::fma(Id a, Id b, Id c) { return mau(MauOp::Vfma, a, b, c, false); }
Id VectorBuilder::fnma(Id a, Id b, Id c) { return mau(MauOp::Vfma, a, b, c, true); }

Id VectorBuilder::negated(Id a) {
    return alu(AluOp::Xor, a, bits(bits_of(type(a)) == 16 ? 0x8000 : 0x80000000, type(a)));
}

Id VectorBuilder::absolute(Id a) {
    return alu(AluOp::And, a, bits(bits_of(type(a)) == 16 ? 0x7fff : 0x7fffffff, type(a)));
}

Id VectorBuilder::alu(AluOp which, Id a, Id b) { return alu(which, type(a), a, b); }

Id VectorBuilder::alu(AluOp which, sim::Type of, Id a, Id b) {
    VectorOp op;
    op.kind = Kind::Alu;
    op.alu = which;
    op.of = op.type = of;
    op.from = {a, b, -1};
    switch (info(which).result) {
    case AluResult::Mask:
        op.type = bits_of(of) == 16 ? sim::Type::I16 : sim::Type::I32;
        break;
    case AluResult::Wider:
        op.type = of == sim::Type::F16 ? sim::Type::F32 : of == sim::Type::I16 ? sim::Type::I32 : sim::Type::U32;
        break;
    case AluResult::Narrower:
        op.type = of == sim::Type::F32 ? sim::Type::F16 : of == sim::Type::I32 ? sim::Type::I16 : sim::Type::U16;
        break;
    default:
        if (which == AluOp::ToInt || which == AluOp::Round)
            op.type = bits_of(of) == 16 ? sim::Type::I16 : sim::Type::I32;
        if (which == AluOp::ToFloat) op.type = bits_of(of) == 16 ? sim::Type::F16 : sim::Type::F32;
    }
    return make(op);
}

Id VectorBuilder::shifted_left(Id a, int by) { return alu(AluOp::Shl, a, bits(uint32_t(by), type(a))); }
Id VectorBuilder::shifted_right(Id a, int by) { return alu(AluOp::Shr, a, bits(uint32_t(by), type(a))); }
Id VectorBuilder::less(Id a, Id b) { return alu(AluOp::Lt, a, b); }
Id VectorBuilder::equal(Id a, Id b) { return alu(AluOp::Eq, a, b); }

Id VectorBuilder::select(Id condition, Id a, Id b) {
    if (a == b) return a;
    if (ops_[size_t(condition)].kind == Kind::Number) return ops_[size_t(condition)].bits ? a : b;
    if (!is_comparison(ops_[size_t(condition)])) // the mask is written by a comparison
        condition = alu(AluOp::Ne, condition, bits(0, type(condition)));
    if (bits_of(type(condition)) != bits_of(type(a)))
        throw InternalError("a select between elements of another width than the compared ones");
    VectorOp op;
    op.kind = Kind::Alu;
    op.alu = AluOp::Select;
    op.of = op.type = type(a);
    op.from = {a, b, condition};
    return make(op);
}

Id VectorBuilder::as(Id a, sim::Type type) {
    VectorOp op = ops_[size_t(a)];
    op.type = type;
    return make(op);
}

Id VectorBuilder::widen(Id a) { return alu(AluOp::Widen, a); }

Id VectorBuilder::narrow(Id a) {
    const VectorOp op = ops_[size_t(a)];
    if (narrow_source(a) >= 0) return op.from[0];
    // The MAU narrows its result itself.
    if (op.kind == Kind::Mau && op.of == sim::Type::F16 && op.type == sim::Type::F32) {
        VectorOp narrow = op;
        narrow.type = sim::Type::F16;
        return make(narrow);
    }
    return alu(AluOp::Narrow, a);
}

Id VectorBuilder::polynomial(Id x, const std::vector<double> &c) {
    Id p = number(c.back(), type(x));
    for (size_t i = c.size() - 1; i-- > 0;) p = fma(p, x, number(c[i], type(x)));
    return p;
}

VectorProgram VectorBuilder::program() const {
    std::vector<bool> needed(ops_.size(), false);
    needed.at(size_t(result_)) = true;
    for (size_t i = ops_.size(); i-- > 0;) {
        if (!needed[i]) continue;
        for (const Id f : ops_[i].from) {
            if (f >= 0) needed[size_t(f)] = true;
        }
    }
    VectorProgram p;
    std::vector<Id> now(ops_.size(), -1);
    for (size_t i = 0; i < ops_.size(); i++) {
        if (!needed[i]) continue;
        VectorOp op = ops_[i];
        for (Id &f : op.from) f = f < 0 ? -1 : now[size_t(f)];
        now[i] = Id(p.ops.size());
        p.ops.push_back(op);
    }
    p.result = now[size_t(result_)];
    return p;
}

} // namespace kumiko::chip
