// The operation by which a chain's reduction combines two values. Shared by the sources of
// reductions.
#pragma once

#include "targets/chip/stage/chain.h"

namespace kumiko::chip {

// Passes an operand through the ALU's forward, so that it shares no port with the others.
inline sim::Operand passed(MicroOp &m, const sim::Operand &a) {
    sim::Alu u;
    u.op = sim::AluOp::Pass;
    u.type = sim::Type::I32;
    u.a = m.read(a);
    m.word().alu = u;
    m.next();
    return sim::aluf();
}

struct Chain::Folding {
    std::string kind;
    sim::Type type; // the type in words and in the tree: f32 or i32
    bool floats() const { return type == sim::Type::F32; }
    sim::AluOp alu() const {
        return kind == "maximum"            ? sim::AluOp::Max
               : kind == "minimum"          ? sim::AluOp::Min
               : kind == "sum" && !floats() ? sim::AluOp::Add
                                            : sim::AluOp::None;
    }
    // Emits the operation on two values; the first comes from the forward.
    void fold(MicroOp &m, const sim::Operand &a, const sim::Operand &b, const sim::Operand &to) const {
        if (alu() != sim::AluOp::None) {
            sim::Alu u;
            u.op = alu();
            u.type = type;
            u.a = m.read(a);
            u.b = m.read(b);
            u.to = m.write(to);
            m.word().alu = u;
            return;
        }
        sim::Mau u;
        u.op = kind == "product" ? sim::MauOp::Vmul : sim::MauOp::Vadd;
        u.precision = sim::Type::F32;
        u.a = m.read(a);
        (kind == "product" ? u.b : u.c) = m.read(b);
        u.to = m.write(to);
        m.word().mau = u;
    }
    sim::Reduction tree() const {
        if (kind == "sum") return floats() ? sim::Reduction::AddF32 : sim::Reduction::AddI32;
        if (kind == "maximum") return floats() ? sim::Reduction::MaxF32 : sim::Reduction::MaxI32;
        return floats() ? sim::Reduction::MinF32 : sim::Reduction::MinI32;
    }
};

} // namespace kumiko::chip
