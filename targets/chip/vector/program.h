// A formula of elements as operations of the chip's vector units, in an order in which the chip can do them: the MAU's vector mode adds and
// multiplies floats, the ALU does the rest. What a program computes is known to the bit: `evaluate` does on the host what the chip
// does with each element.
//
//   VectorBuilder b;
//   const Id x = b.widen(b.read(0, sim::Type::F16));
//   b.result(b.narrow(exp(b, x)));                     // functions.h
//   evaluate(b.program(), {0x3c00});                   // {0x4170}: e
#pragma once

#include "sim/isa.h"

#include <cstdint>
#include <vector>

namespace kumiko::chip {

using Id = int; // of an operation, in its program

struct VectorOp {
    enum class Kind : uint8_t { Read, Number, Alu, Mau };
    Kind kind = Kind::Number;
    sim::Type type = sim::Type::F32; // elements of the result
    sim::Type of = sim::Type::F32;   // Alu: the type that the operation is given; Mau: the precision
    sim::AluOp alu = sim::AluOp::None;
    sim::MauOp mau = sim::MauOp::None;
    bool negate = false, narrow_c = false;
    std::array<Id, 3> from{-1, -1, -1}; // a, b, c of Mau; a, b of Alu; the condition of Select, a comparison, as c
    uint32_t bits = 0;                  // Number: of one element. Read: which one
    bool operator==(const VectorOp &) const = default;
};

inline int bits_of(sim::Type t) { return sim::is_16_bit(t) ? 16 : 32; }
bool is_comparison(const VectorOp &op);

struct VectorProgram {
    std::vector<VectorOp> ops; // operands before what uses them; only what the result needs
    Id result = -1;
    int uses(Id id) const; // by operations and the result
};

// One operation on one element's operands, as the chip does it.
uint32_t evaluate(const VectorOp &op, uint32_t a, uint32_t b, uint32_t c);
// The result's bits, of those that were read.
uint32_t evaluate(const VectorProgram &program, const std::vector<uint32_t> &reads);

// Makes programs. Equal operations are made once; those of numbers become numbers. A product that is added is fused with the sum (one
// rounding). Sums and products of widened fp16 become operations on the fp16, which are exact and do twice as much.
class VectorBuilder {
public:
    Id read(int which, sim::Type type);
    Id number(double value, sim::Type type = sim::Type::F32);
    Id bits(uint32_t bits, sim::Type type);

    // Floats of one type.
    Id add(Id a, Id b);
    Id sub(Id a, Id b);
    Id mul(Id a, Id b);
    Id fma(Id a, Id b, Id c);         // a · b + c
    Id fnma(Id a, Id b, Id c);        // c − a · b
    Id negated(Id a), absolute(Id a); // the sign bit's

    // Any ALU operation, of the operands' type unless another is said, which has as many bits.
    Id alu(sim::AluOp op, Id a, Id b = -1);
    Id alu(sim::AluOp op, sim::Type of, Id a, Id b = -1);
    Id shifted_left(Id a, int by), shifted_right(Id a, int by); // by the sign where signed
    Id less(Id a, Id b), equal(Id a, Id b);                     // all ones where true
    Id select(Id condition, Id a, Id b);
    Id widen(Id a), narrow(Id a);
    // c[0] + c[1] · x + …, from the last on.
    Id polynomial(Id x, const std::vector<double> &coefficients);

    // The same bits as elements of another type.
    Id as(Id a, sim::Type type);
    sim::Type type(Id id) const { return ops_[size_t(id)].type; }
    const VectorOp &op(Id id) const { return ops_[size_t(id)]; }
    void result(Id id) { result_ = id; }
    VectorProgram program() const; // what the result does not need is left out

private:
    std::vector<VectorOp> ops_;
    Id result_ = -1;
    Id make(const VectorOp &op);
    Id sum(Id product, bool negate, Id c);
    Id narrow_source(Id id) const; // what was widened to this; −1
    Id mau(sim::MauOp op, Id a, Id b, Id c, bool negate);
};

} // namespace kumiko::chip
