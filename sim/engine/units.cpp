// The PEs and matrix units: every slot's result is computed for a block of L1Bs from the state
// before the step, then written. A block is small enough that results stay in the host's L1 cache
// in between.
#include "sim/engine/runner.h"
#include "sim/operations.h"

#include <algorithm>
#include <cstring>

namespace kumiko::sim {

namespace {

constexpr size_t max_waiting = 32; // steps; each needs some KiB of one block's data

} // namespace

void Runner::run_units(const PlannedWord &p) {
    const Word &w = p.word;
    const bool l1 = w.l1.op != L1Op::None, up = l1 && is_upward(w.l1.op);
    if (l1 || w.mw.on || w.mau.op != MauOp::None || w.mr.on || w.alu.op != AluOp::None) {
        for (int f = 0; f < forward_count; f++) {
            now_.kept[f] = p.needed[f];
            for (size_t r = 0; r < 8; r++)
                now_.out[f].row[r] = now_.kept[f] ? chip_.forwards[f][step_ & 1][r] : scratch_[8 * size_t(f) + r];
        }
        now_.word = &p, now_.index = index_;
        if (up) hazards_.write_l1bm(now_.l1.begin, now_.l1.end, stamp(Slot::L1));
        // Masks, addresses from T and the chosen MABs are valid in this step only; other cases read
        // L1BM.
        const bool at_once = !p.plain || up || (l1 && now_.l1_partial) || chip_.plane_bytes <= block_l1bs_ * l1b_bytes_;
        if (at_once) {
            run_waiting();
            run_steps({&now_, 1});
        } else {
            waiting_.push_back(now_);
            if (waiting_.size() == max_waiting) run_waiting();
        }
    }
    if (w.l2.op == L2Op::None || is_upward(w.l2.op)) return;
    for (const Resolved &r : waiting_) { // it writes L1BM
        const bool reads = r.word->word.l1.op != L1Op::None;
        if (!reads || r.l1.begin >= l2_l1bm_.end || l2_l1bm_.begin >= r.l1.end) continue;
        run_waiting();
        break;
    }
}

void Runner::run_waiting() {
    run_steps(waiting_);
    waiting_.clear();
}

void Runner::run_steps(std::span<const Resolved> steps) {
    const size_t block = block_l1bs_ * l1b_bytes_;
    for (size_t at = 0; at < chip_.plane_bytes; at += block) {
        for (const Resolved &r : steps) run_block(r, at, std::min(block, chip_.plane_bytes - at));
    }
}

void Runner::run_block(const Resolved &r, size_t at, size_t bytes) {
    const PlannedWord &p = *r.word;
    const Word &w = p.word;
    const size_t mab = at / 32, l1b = at / l1b_bytes_, l1bs = bytes / l1b_bytes_;
    Part part{r, at, bytes, {}};
    for (int f = 0; f < forward_count; f++) part.out_at[f] = r.kept[f] ? at : 0;
    const auto range = [&](int f) { return Range{at, bytes, part.out_at[f]}; };
    const auto rows = [&](Source s) -> const Rows & { return r.rows[int(s)]; };
    const bool down = w.l1.op != L1Op::None && !is_upward(w.l1.op);

    if (down)
        for (size_t b = 0; b < l1bs; b++) l1_down(r, l1b + b, part.out_at[2] + b * l1b_bytes_);

    const Mau &m = w.mau;
    if (p.matrix) {
        const MatrixArgs args{chip_.face(m.face, mab),
                              chip_.face_bits(m.face, mab),
                              rows(m.a),
                              rows(m.c),
                              r.out[1],
                              m.op == MauOp::Mfma,
                              m.narrow_c,
                              m.narrow_y,
                              m.negate,
                              m.half};
        (m.precision == Type::F16 ? kernels_.matrix_f16 : kernels_.matrix_f32)(args, range(1));
    } else if (m.op == MauOp::Pass) {
        if (m.narrow_y)
            kernels_.narrow_pass(rows(m.a), r.out[1], range(1));
        else
            kernels_.alu[int(AluOp::Pass)][int(Type::I32)](rows(m.a), {}, r.out[1], range(1), m.width);
    } else if (m.op != MauOp::None) {
        const VectorArgs args{rows(m.a), rows(m.b), rows(m.c), r.out[1], m.narrow_c, m.narrow_y, m.negate};
        const int op = int(m.op) - int(MauOp::Vfma);
        (m.precision == Type::F16 ? kernels_.vector_f16 : kernels_.vector_f32)[op](args, range(1));
    }
    const Alu &a = w.alu;
    if (a.op == AluOp::Rotate)
        kernels_.rotate(rows(a.a), r.out[0], range(0), a.width, a.rotate);
    else if (a.op == AluOp::Select)
        kernels_.select(rows(a.a), rows(a.b), alu_mask_, r.out[0], range(0), a.width);
    else if (a.op != AluOp::None && a.op != AluOp::SetMask)
        kernels_.alu[int(a.op)][int(a.type)](rows(a.a), info(a.op).operands > 1 ? rows(a.b) : Rows{}, r.out[0],
                                             range(0), a.width);

    const auto face = [&](const auto &slot, Source from) {
        return FaceArgs{chip_.face(slot.face, mab),
                        program_.matrix_reads ? chip_.face_bits(slot.face, mab) : nullptr,
                        rows(from),
                        r.out[3],
                        slot.part,
                        slot.width};
    };
    if (w.mr.on)
        (w.mr.precision == Type::F16 ? kernels_.face_read_f16 : kernels_.face_read_f32)(face(w.mr, Source::None),
                                                                                        range(3));
    if (w.mw.on)
        (w.mw.precision == Type::F16 ? kernels_.face_write_f16 : kernels_.face_write_f32)(face(w.mw, w.mw.from),
                                                                                          range(3));
    if (w.l1.op != L1Op::None && !down)
        for (size_t b = 0; b < l1bs; b++) l1_up(r, l1b + b, at + b * l1b_bytes_);

    const bool write_mask = w.mask.mode == MaskMode::Write;
    if (w.mask.mode == MaskMode::Zero) {
        if (m.op != MauOp::None) mask_result(part, 1, mau_mask_, mau_result_width(m));
        if (a.op != AluOp::None && a.op != AluOp::SetMask) mask_result(part, 0, alu_mask_, alu_result_width(a));
    }
    if (down && w.l1.to) commit(part, w.l1.to, 2, w.l1.width, r.l1_partial ? &selected_rows_ : nullptr);
    if (m.op != MauOp::None && m.to) commit(part, m.to, 1, mau_result_width(m), write_mask ? &mau_mask_ : nullptr);
    if (a.op != AluOp::None && a.to) commit(part, a.to, 0, alu_result_width(a), write_mask ? &alu_mask_ : nullptr);
    if (a.mask) commit_mask_entry(part);
    if (w.mr.on && w.mr.to) commit(part, w.mr.to, 3, w.mr.width, nullptr);
}

void Runner::mask_result(const Part &part, int f, const Rows &mask, int width) {
    for (int r = 0; r < 8; r += 3 - width) {
        auto *to = reinterpret_cast<uint64_t *>(part.step.out[f].row[r] + part.out_at[f]);
        const auto *k = reinterpret_cast<const uint64_t *>(mask.row[r] + part.at);
        for (size_t i = 0; i < part.bytes / 8; i++) to[i] &= k[i];
    }
}

void Runner::commit(const Part &part, uint8_t set, int f, int width, const Rows *mask) {
    const auto &[step, at, bytes, out_at] = part;
    const bool by_t = (set & ToLm0) && step.word->word.lm0.address.by_t;
    for (int memory = 0; memory < 5; memory++) {
        if (!(set >> memory & 1)) continue;
        for (int t = 0; t < 4; t++) {
            for (int j = 0; j < width; j++) {
                const int r = 2 * t + j;
                const uint8_t *from = step.out[f].row[r] + out_at[f];
                if (memory == 0 && by_t) {
                    for (size_t i = 0; i < bytes / 8; i++) {
                        const int address = by_t_[t][at / 8 + i];
                        if (address < 0) continue;
                        uint8_t *to = chip_.pe[0][size_t(address + j)] + at + 8 * i;
                        if (mask)
                            kernels_.blend(from + 8 * i, mask->row[r] + at + 8 * i, to, 8);
                        else
                            std::memcpy(to, from + 8 * i, 8);
                    }
                    continue;
                }
                uint8_t *to = chip_.pe[size_t(memory)][plane_of(step, memory, t, j)] + at;
                if (mask)
                    kernels_.blend(from, mask->row[r] + at, to, bytes);
                else
                    std::memcpy(to, from, bytes);
            }
        }
    }
}

void Runner::commit_mask_entry(const Part &part) {
    const auto &[step, at, bytes, out_at] = part;
    const PlannedWord &p = *step.word;
    const Alu &a = p.word.alu;
    for (int t = 0; t < 4; t++) {
        uint8_t *to = chip_.masks[size_t(4 * a.mask + t)] + at;
        const uint8_t *from = step.out[0].row[2 * t] + out_at[0];
        if (a.op == AluOp::SetMask) {
            uint64_t lanes = 0;
            for (int i = 0; i < 4; i++)
                if (p.word.immediate >> (4 * t + i) & 1) lanes |= uint64_t(0xffff) << 16 * i;
            std::fill_n(reinterpret_cast<uint64_t *>(step.out[0].row[2 * t] + out_at[0]), bytes / 8, lanes);
        }
        if (p.word.mask.mode == MaskMode::Zero && a.op == AluOp::SetMask) mask_result(part, 0, alu_mask_, 1);
        if (p.word.mask.mode == MaskMode::Write)
            kernels_.blend(from, alu_mask_.row[2 * t] + at, to, bytes);
        else
            std::memcpy(to, from, bytes);
    }
}

} // namespace kumiko::sim
