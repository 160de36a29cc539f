#include "targets/chip/pack/units.h"

#include "sim/accesses.h"

namespace kumiko::chip {

namespace {

uint32_t read_port_bit(sim::Source s) {
    switch (s) {
    case sim::Source::Lm0:
    case sim::Source::Imm: // the immediate is encoded in LM0's field
        return bit(Unit::Lm0Read);
    case sim::Source::Lm1:
        return bit(Unit::Lm1Read);
    case sim::Source::Grf0:
        return bit(Unit::Grf0Read);
    case sim::Source::Grf1:
        return bit(Unit::Grf1Read);
    case sim::Source::T:
        return bit(Unit::TRead);
    default:
        return 0;
    }
}

uint32_t write_port_bits(uint8_t to) {
    return (to & sim::ToLm0 ? bit(Unit::Lm0Write) : 0) | (to & sim::ToLm1 ? bit(Unit::Lm1Write) : 0) |
           (to & sim::ToGrf0 ? bit(Unit::Grf0Write) : 0) | (to & sim::ToGrf1 ? bit(Unit::Grf1Write) : 0) |
           (to & sim::ToT ? bit(Unit::TWrite) : 0);
}

uint32_t precision_bit(sim::Type t) { return bit(t == sim::Type::F16 ? Unit::F16 : Unit::F32); }

} // namespace

uint32_t units_of(const sim::Word &w) {
    uint32_t units = 0;
    if (!(w.control == sim::Control{})) units |= bit(Unit::Control);
    if (w.mv.op != sim::MvOp::None) units |= bit(Unit::Mv);
    if (w.l2.op != sim::L2Op::None) units |= bit(Unit::L2);
    if (w.l1.op != sim::L1Op::None) units |= bit(Unit::L1);
    if (w.mw.on) units |= bit(Unit::Mw) | precision_bit(w.mw.precision);
    if (w.mr.on) units |= bit(Unit::Mr);
    if (w.mau.op != sim::MauOp::None) units |= bit(Unit::Mau) | precision_bit(w.mau.precision);
    if (w.alu.op != sim::AluOp::None) units |= bit(Unit::Alu);
    if (w.mask.mode != sim::MaskMode::None) units |= bit(Unit::Mask);
    each_read(w, [&](sim::Slot, sim::Source s, int) { units |= read_port_bit(s); });
    each_write(w, [&](sim::Slot, uint8_t to, int) { units |= write_port_bits(to); });
    return units;
}

} // namespace kumiko::chip
