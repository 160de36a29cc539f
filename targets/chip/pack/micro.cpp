#include "targets/chip/pack/micro.h"

namespace kumiko::chip {

using sim::Source;

void Micro::port(const sim::Operand &o, int width, bool write) {
    Space space;
    switch (o.source) {
    case Source::Lm0:
        space = Space::Lm0;
        use(write ? Unit::Lm0Write : Unit::Lm0Read);
        break;
    case Source::Lm1:
        space = Space::Lm1;
        use(write ? Unit::Lm1Write : Unit::Lm1Read);
        break;
    case Source::Grf0:
        space = Space::Grf0;
        use(write ? Unit::Grf0Write : Unit::Grf0Read);
        break;
    case Source::Grf1:
        space = Space::Grf1;
        use(write ? Unit::Grf1Write : Unit::Grf1Read);
        break;
    case Source::T:
        use(write ? Unit::TWrite : Unit::TRead);
        touches_.push_back({Space::T, write, false, uint8_t(parts_ - 1), 0, 8, 0, 1});
        return;
    case Source::Imm:
        use(Unit::Lm0Read); // the immediate is encoded in LM0's field
        return;
    default:
        return;
    }
    if (o.address.listed) {
        for (const uint16_t at : o.address.at)
            touches_.push_back({space, write, false, uint8_t(parts_ - 1), at, width, 0, 1});
        return;
    }
    touches_.push_back(
        {space, write, false, uint8_t(parts_ - 1), o.address.at[0], width, o.address.stride, sim::cycles_per_step});
}

Source Micro::read(const sim::Operand &operand, int width) {
    port(operand, width, false);
    return word().read(operand);
}

uint8_t Micro::write(const sim::Operand &operand, int width) {
    port(operand, width, true);
    return word().write({operand});
}

} // namespace kumiko::chip
