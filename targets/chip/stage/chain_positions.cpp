// Positions of units and lanes along a reduction axis, for formulas that use them and for the ends
// of axes.
#include "targets/chip/stage/chain_folding.h"

#include "support/error.h"

#include <bit>
#include <fmt/format.h>

namespace kumiko::chip {

using namespace sim;

bool Chain::is_uniform(const ChainStage &s, size_t axis) const {
    const auto &loops = s.plan->loops();
    const Affine &index = s.plan->axis(s.stage->def.reduction_axes[axis].name());
    for (size_t l = 0; l < loops.size(); l++) {
        if (loops[l].kind != PlannedLoop::Kind::Time && loops[l].extent > 1 && index.depends(l)) return false;
    }
    return true;
}

Chain::UnitIndexFields Chain::unit_index_fields(const ChainStage &s, size_t axis) const {
    const StagePlan &plan = *s.plan;
    const Affine &index = plan.axis(s.stage->def.reduction_axes[axis].name());
    // $id has 16 bits for each unit number: PE, MAB, L1B, and L2B over all groups. Shifts and masks
    // extract the values of the loops.
    UnitIndexFields fields;
    auto &[shift, mask, factor] = fields;
    const auto refuse = [&](const PlannedLoop &p) {
        throw Unsupported(fmt::format(
            "stage {}: reduction axis {} ends inside the part that loop {} of {} iterations distributes over {}; this "
            "is supported if one loop for each level distributes the axis, in powers of two, and the loop over groups "
            "is next to that over all of their L2Bs",
            s.name, s.stage->def.reduction_axes[axis].name(), p.name, p.extent, level_names[size_t(p.level)]));
    };
    for (const Tier tier : {Tier::Pe, Tier::Mab, Tier::L1b, Tier::L2b, Tier::Group}) {
        const size_t lane = size_t(Tier::Pe) - size_t(std::max(tier, Tier::L2b));
        int64_t stride = tier == Tier::Group ? c_.config.l2bs : 1, count = 0;
        for (size_t l = plan.loops().size(); l-- > 0;) {
            const PlannedLoop &p = plan.loops()[l];
            if (p.kind != PlannedLoop::Kind::Unit || p.level != tier) continue;
            if (index.depends(l)) {
                const int64_t step = index.coefficients[l];
                if (count++ || !std::has_single_bit(uint64_t(stride)) || !std::has_single_bit(uint64_t(p.extent)))
                    refuse(p);
                if (!mask[lane])
                    shift[lane] = uint64_t(std::countr_zero(uint64_t(stride))), factor[lane] = float(step);
                else if (shift[lane] || int64_t(mask[lane]) + 1 != stride || step != stride * int64_t(factor[lane]))
                    refuse(p); // a group's number does not continue where its L2Bs' numbers end
                mask[lane] |= uint64_t(p.extent - 1) * uint64_t(stride) >> shift[lane];
            }
            stride *= p.extent;
        }
    }
    return fields;
}

Operand Chain::positions(const ChainStage &s, size_t axis, bool small) {
    const StagePlan &plan = *s.plan;
    const Affine &index = plan.axis(s.stage->def.reduction_axes[axis].name());
    std::string text = small ? "i16" : "f32";
    for (size_t l = 0; l < plan.loops().size(); l++) {
        const PlannedLoop &p = plan.loops()[l];
        if (p.kind != PlannedLoop::Kind::Time)
            text += fmt::format(" {}:{}:{}", int(p.level), p.extent, index.coefficients[l]);
    }
    const auto known = positions_.find(text);
    if (known != positions_.end()) return known->second;
    if (small) { // from those in f32
        const Operand wide = positions(s, axis, false), pair = code_->take(2, 0), narrow = code_->take(1, 1);
        for (int w = 0; w < 2; w++)
            alu(AluOp::Round, sim::Type::F32, next_word(wide, w), std::nullopt, next_word(pair, w));
        alu(AluOp::Narrow, sim::Type::I32, pair, std::nullopt, narrow);
        code_->give_back(pair);
        return positions_[text] = narrow;
    }
    const UnitIndexFields fields = unit_index_fields(s, axis);
    const auto quarters = [](const std::array<uint64_t, 4> &v) {
        return immediate(v[0] | v[1] << 16 | v[2] << 32 | v[3] << 48);
    };
    const auto floats = [](float a, float b) {
        return immediate(uint64_t(__builtin_bit_cast(uint32_t, a)) | uint64_t(__builtin_bit_cast(uint32_t, b)) << 32);
    };
    const auto fused = [&](const Operand &a, const Operand &by, const std::optional<Operand> &c, const Operand &to) {
        MicroOp m;
        const Operand first = passed(m, a);
        Mau u;
        u.op = c ? MauOp::Vfma : MauOp::Vmul;
        u.precision = sim::Type::F32;
        u.a = m.read(first);
        u.b = m.read(by);
        if (c) u.c = m.read(*c);
        u.to = m.write(to);
        m.word().mau = u;
        c_.packer.place(m);
    };
    const Operand id = code_->take(1, 0), wide = code_->take(2, 1), pair = code_->take(2, 0);
    alu(AluOp::Shr, sim::Type::U16, unit_id(), quarters(fields.shift), id);
    alu(AluOp::And, sim::Type::U16, id, quarters(fields.mask), id);
    alu(AluOp::Widen, sim::Type::I16, id, std::nullopt, wide);
    for (int w = 0; w < 2; w++)
        alu(AluOp::ToFloat, sim::Type::I32, next_word(wide, w), std::nullopt, next_word(wide, w));
    fused(next_word(wide, 1), floats(fields.factor[2], fields.factor[3]), std::nullopt, pair);
    fused(next_word(wide, 0), floats(fields.factor[0], fields.factor[1]), pair, pair);
    const Operand other = swapped_lanes(pair);
    const Folding add{"sum", sim::Type::F32};
    MicroOp sum;
    add.fold(sum, passed(sum, other), pair, id);
    c_.packer.place(sum);
    const Operand result = code_->take(2, 1);
    const auto lane = [&](int e) {
        int64_t rest = e, at = 0;
        for (size_t i = s.lanes.size(); i-- > 0;) {
            at += rest % plan.loops()[s.lanes[i]].extent * index.coefficients[s.lanes[i]];
            rest /= plan.loops()[s.lanes[i]].extent;
        }
        return float(at);
    };
    for (int w = 0; w < (four_ ? 2 : 1); w++) {
        MicroOp m;
        add.fold(m, id, floats(lane(2 * w), lane(2 * w + 1)), next_word(result, w));
        c_.packer.place(m);
    }
    for (const Operand &o : {id, wide, pair, other}) code_->give_back(o);
    return positions_[text] = result;
}

} // namespace kumiko::chip
