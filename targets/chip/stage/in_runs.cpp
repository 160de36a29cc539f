// One operation on operands in LM with its result in LM. An LM has one port and cannot be read for
// two steps after a write. So the operand that shares its LM with the result is loaded into
// registers, two words per cycle, and the result leaves through registers, in runs: many reads,
// then many writes. The MAU is then busy in nearly every step, which uses three of the LMs' four
// words per cycle.
#include "targets/chip/stage/chain.h"

#include <algorithm>

namespace kumiko::chip {

using namespace sim;

namespace {

constexpr int64_t run_points = 2 * cycles_per_step; // of an access with two words per cycle

} // namespace

std::optional<std::array<int64_t, 2>> Chain::consecutive_operands(ChainStage &s) {
    const auto &ops = s.program.ops;
    if (s.points < run_points) return std::nullopt;
    std::array<int64_t, 2> base{};
    for (size_t r = 0; r < 2; r++) {
        if (ops[r].kind != VectorOp::Kind::Read) return std::nullopt;
        for (int64_t p = 0; p < s.points; p += cycles_per_step) {
            const int64_t first = std::min(p, s.points - cycles_per_step);
            Group g = group(s, first);
            const Operand o = read_word(g, int(ops[r].bits), 0);
            if ((o.source != Source::Lm0 && o.source != Source::Lm1) || o.address.listed || o.address.stride != 1)
                return std::nullopt;
            const int64_t at = o.address.at[0] + (o.source == Source::Lm1 ? c_.config.sizes.lm : 0) - first;
            if (p == 0) base[r] = at;
            if (at != base[r]) return std::nullopt;
        }
    }
    return base;
}

void Chain::copy_pairs(const Operand &from, const Operand &to) {
    MicroOp m;
    Alu u;
    u.op = AluOp::Pass;
    u.type = sim::Type::I32;
    u.width = 2;
    u.a = m.read(from);
    u.to = m.write(to);
    m.word().alu = u;
    c_.packer.place(m);
}

int64_t Chain::compute_in_runs(ChainStage &s) {
    const auto &ops = s.program.ops;
    const VectorOp &op = ops.back();
    if (op.kind != VectorOp::Kind::Mau || op.from[1] >= 0 || ops.size() != 3 ||
        (s.result_bank != Bank::Lm0 && s.result_bank != Bank::Lm1))
        return 0;
    for (const VectorOp &o : ops) {
        if (code_->parts(o.type) != 1) return 0;
    }
    const auto operands = consecutive_operands(s);
    if (!operands) return 0;
    const std::array<int64_t, 2> &base = *operands;
    const int64_t lm = c_.config.sizes.lm;
    const auto bank = [&](int64_t at) { return at >= lm; };
    const int64_t home = s.at + (s.result_bank == Bank::Lm1 ? lm : 0);
    if (bank(base[0]) == bank(base[1])) return 0;
    const size_t shared = bank(base[0]) == bank(home) ? 0 : 1; // is loaded into registers
    const int64_t runs = s.points / run_points, together = std::min(code_->room(0), code_->room(1)) / 2;
    if (together < 1) return 0;
    std::deque<Operand> loaded, made; // registers
    const auto load = [&](int64_t first) {
        for (int64_t r = first; r < std::min(runs, first + together); r++) {
            loaded.push_back(code_->take(2, 0));
            copy_pairs(lm_operand(c_.config, base[shared] + r * run_points, 2), loaded.back());
        }
    };
    load(0);
    for (int64_t first = 0; first < runs; first += together) {
        load(first + together);
        const int64_t end = std::min(runs, first + together);
        for (int64_t r = first; r < end; r++) {
            made.push_back(code_->take(2, 1));
            for (int64_t half = 0; half < run_points; half += cycles_per_step) {
                const auto words = [&](Operand o) { // four of the eight
                    o.address.at[0] = uint16_t(o.address.at[0] + half);
                    o.address.stride = 1;
                    return o;
                };
                std::array<Operand, 2> from;
                from[shared] = words(loaded.front());
                from[1 - shared] = lm_operand(c_.config, base[1 - shared] + r * run_points + half, 1);
                const size_t a = op.from[0] == 0 ? 0 : 1;
                MicroOp m;
                Mau u;
                u.op = op.mau;
                u.precision = op.of;
                u.negate = op.negate;
                u.narrow_c = op.narrow_c;
                u.narrow_y = op.type == sim::Type::F16;
                u.a = m.read(from[a]);
                u.c = m.read(from[1 - a]);
                u.to = m.write(words(made.back()));
                m.word().mau = u;
                c_.packer.place(m);
            }
            code_->give_back(loaded.front());
            loaded.pop_front();
        }
        for (int64_t r = first; r < end; r++) {
            copy_pairs(made.front(), lm_operand(c_.config, home + r * run_points, 2));
            code_->give_back(made.front());
            made.pop_front();
        }
    }
    return runs * run_points;
}

} // namespace kumiko::chip
