// An element formula as operations of the chip's vector units, in an executable order: the MAU's
// vector mode adds and multiplies floats, the ALU does the rest. The result is defined to the bit:
// `evaluate` computes on the host what the chip computes for each element.
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

using Id = int; // index of an operation in its program

struct VectorOp {
    enum class Kind : uint8_t { Read, Number, Alu, Mau };
    Kind kind = Kind::Number;
    sim::Type type = sim::Type::F32; // elements of the result
    // Alu: the type that the operation is given; Mau: the precision.
    sim::Type of = sim::Type::F32;
    sim::AluOp alu = sim::AluOp::None;
    sim::MauOp mau = sim::MauOp::None;
    bool negate = false, narrow_c = false;
    // Mau: a, b, c. Alu: a, b; the condition of Select, a comparison, as c.
    std::array<Id, 3> from{-1, -1, -1};
    uint32_t bits = 0; // Number: bits of one element. Read: number of the read
    bool operator==(const VectorOp &) const = default;
};

inline int bits_of(sim::Type t) { return sim::is_16_bit(t) ? 16 : 32; }
bool is_comparison(const VectorOp &op);

struct VectorProgram {
    std::vector<VectorOp> ops; // operands precede their uses; no unused operations
    Id result = -1;
    int uses(Id id) const; // number of uses by operations and as the result
};

// Evaluates one operation on one element's operands, as the chip does.
uint32_t evaluate(const VectorOp &op, uint32_t a, uint32_t b, uint32_t c);
// The result's bits, for the given values of the reads.
uint32_t evaluate(const VectorProgram &program, const std::vector<uint32_t> &reads);

// Builds programs. Equal operations are created once, and operations on constants are folded. A
// product that is added is fused with the sum (one rounding). Sums and products of widened fp16
// become fp16 operations, which are exact and have twice the rate.
class VectorBuilder {
public:
    // The read with this number, counted from 0: one of the values that `evaluate` is given.
    Id read(int which, sim::Type type);
    Id number(double value, sim::Type type = sim::Type::F32);
    Id bits(uint32_t bits, sim::Type type);

    // Floats of one type.
    Id add(Id a, Id b);
    Id sub(Id a, Id b);
    Id mul(Id a, Id b);
    Id fma(Id a, Id b, Id c);         // a · b + c
    Id fnma(Id a, Id b, Id c);        // c − a · b
    Id negated(Id a), absolute(Id a); // changes the sign bit

    // Any ALU operation on the operands' type, or on `of`, which must have the same width.
    Id alu(sim::AluOp op, Id a, Id b = -1);
    Id alu(sim::AluOp op, sim::Type of, Id a, Id b = -1);
    Id shifted_left(Id a, int by), shifted_right(Id a, int by); // arithmetic if signed
    Id less(Id a, Id b), equal(Id a, Id b);                     // all ones if true
    Id select(Id condition, Id a, Id b);
    Id widen(Id a), narrow(Id a);
    // c[0] + c[1] · x + …, by Horner's rule.
    Id polynomial(Id x, const std::vector<double> &coefficients);

    // Reinterprets the bits as another type.
    Id as(Id a, sim::Type type);
    sim::Type type(Id id) const { return ops_[size_t(id)].type; }
    const VectorOp &op(Id id) const { return ops_[size_t(id)]; }
    void result(Id id) { result_ = id; }
    VectorProgram program() const; // without unused operations

private:
    std::vector<VectorOp> ops_;
    Id result_ = -1;
    Id make(const VectorOp &op);
    Id sum(Id product, bool negate, Id c);
    Id narrow_source(Id id) const; // the fp16 value that was widened to it; −1 if none
    Id mau(sim::MauOp op, Id a, Id b, Id c, bool negate);
};

} // namespace kumiko::chip
