// The PEs and matrix units: every slot's result is made for a block of L1Bs from what stood there before, then written. A block is
// small enough that results stay in the host's first cache between the two.
#include "sim/engine/runner.h"
#include "sim/operations.h"

#include <algorithm>
#include <cstring>

namespace kumiko::sim {

void Runner::run_units(const PlannedWord &p) {
    const Word &w = p.word;
    const bool l1 = w.l1.op != L1Op::None;
    if (!l1 && !w.mw.on && w.mau.op == MauOp::None && !w.mr.on && w.alu.op == AluOp::None) return;
    for (int f = 0; f < forward_count; f++) {
        kept_[f] = p.needed[f];
        for (size_t r = 0; r < 8; r++)
            out_[f].row[r] = kept_[f] ? chip_.forwards[f][step_ & 1][r] : scratch_[8 * size_t(f) + r];
    }
    if (l1 && is_upward(w.l1.op)) hazards_.write_l1bm(l1_.begin, l1_.end, stamp(Slot::L1));
    const size_t block = block_l1bs_ * l1b_bytes_;
    for (size_t at = 0; at < chip_.plane_bytes; at += block) run_block(p, at, std::min(block, chip_.plane_bytes - at));
}

void Runner::run_block(const PlannedWord &p, size_t at, size_t bytes) {
    const Word &w = p.word;
    const size_t mab = at / 32, l1b = at / l1b_bytes_, l1bs = bytes / l1b_bytes_;
    for (int f = 0; f < forward_count; f++) out_at_[f] = kept_[f] ? at : 0;
    const auto range = [&](int f) { return Range{at, bytes, out_at_[f]}; };
    const auto rows = [&](Source s) -> const Rows & { return rows_[int(s)]; };
    const bool down = w.l1.op != L1Op::None && !is_upward(w.l1.op);

    if (down)
        for (size_t b = 0; b < l1bs; b++) l1_down(p, l1b + b, out_[2], out_at_[2] + b * l1b_bytes_);

    const Mau &m = w.mau;
    if (p.matrix) {
        const MatrixArgs args{chip_.face(m.face, mab),
                              chip_.face_bits(m.face, mab),
                              rows(m.a),
                              rows(m.c),
                              out_[1],
                              m.op == MauOp::Mfma,
                              m.narrow_c,
                              m.narrow_y,
                              m.negate,
                              m.half};
        (m.precision == Type::F16 ? kernels_.matrix_f16 : kernels_.matrix_f32)(args, range(1));
    } else if (m.op == MauOp::Pass) {
        if (m.narrow_y)
            kernels_.narrow_pass(rows(m.a), out_[1], range(1));
        else
            kernels_.alu[int(AluOp::Pass)][int(Type::I32)](rows(m.a), {}, out_[1], range(1), m.width);
    } else if (m.op != MauOp::None) {
        const VectorArgs args{rows(m.a), rows(m.b), rows(m.c), out_[1], m.narrow_c, m.narrow_y, m.negate};
        const int op = int(m.op) - int(MauOp::Vfma);
        (m.precision == Type::F16 ? kernels_.vector_f16 : kernels_.vector_f32)[op](args, range(1));
    }
    const Alu &a = w.alu;
    if (a.op == AluOp::Rotate)
        kernels_.rotate(rows(a.a), out_[0], range(0), a.width, a.rotate);
    else if (a.op == AluOp::Select)
        kernels_.select(rows(a.a), rows(a.b), alu_mask_, out_[0], range(0), a.width);
    else if (a.op != AluOp::None && a.op != AluOp::SetMask)
        kernels_.alu[int(a.op)][int(a.type)](rows(a.a), info(a.op).operands > 1 ? rows(a.b) : Rows{}, out_[0], range(0),
                                             a.width);

    const auto face = [&](const auto &slot, Source from) {
        return FaceArgs{chip_.face(slot.face, mab),
                        program_.matrix_reads ? chip_.face_bits(slot.face, mab) : nullptr,
                        rows(from),
                        out_[3],
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
        for (size_t b = 0; b < l1bs; b++) l1_up(p, l1b + b, at + b * l1b_bytes_);

    const bool write_mask = w.mask.mode == MaskMode::Write;
    if (w.mask.mode == MaskMode::Zero) {
        if (m.op != MauOp::None) mask_result(p, 1, mau_mask_, mau_result_width(m), at, bytes);
        if (a.op != AluOp::None && a.op != AluOp::SetMask) mask_result(p, 0, alu_mask_, alu_result_width(a), at, bytes);
    }
    if (down && w.l1.to) commit(w.l1.to, 2, w.l1.width, l1_partial_ ? &selected_rows_ : nullptr, at, bytes);
    if (m.op != MauOp::None && m.to) commit(m.to, 1, mau_result_width(m), write_mask ? &mau_mask_ : nullptr, at, bytes);
    if (a.op != AluOp::None && a.to) commit(a.to, 0, alu_result_width(a), write_mask ? &alu_mask_ : nullptr, at, bytes);
    if (a.mask) commit_mask_entry(p, at, bytes);
    if (w.mr.on && w.mr.to) commit(w.mr.to, 3, w.mr.width, nullptr, at, bytes);
}

void Runner::mask_result(const PlannedWord &, int f, const Rows &mask, int width, size_t at, size_t bytes) {
    for (int r = 0; r < 8; r += 3 - width) {
        auto *to = reinterpret_cast<uint64_t *>(out_[f].row[r] + out_at_[f]);
        const auto *k = reinterpret_cast<const uint64_t *>(mask.row[r] + at);
        for (size_t i = 0; i < bytes / 8; i++) to[i] &= k[i];
    }
}

void Runner::commit(uint8_t set, int f, int width, const Rows *mask, size_t at, size_t bytes) {
    const bool by_t = (set & ToLm0) && program_.words[index_].word.lm0.address.by_t;
    for (int memory = 0; memory < 5; memory++) {
        if (!(set >> memory & 1)) continue;
        for (int t = 0; t < 4; t++) {
            for (int j = 0; j < width; j++) {
                const int r = 2 * t + j;
                const uint8_t *from = out_[f].row[r] + out_at_[f];
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
                uint8_t *to = chip_.pe[size_t(memory)][plane_of(memory, t, j)] + at;
                if (mask)
                    kernels_.blend(from, mask->row[r] + at, to, bytes);
                else
                    std::memcpy(to, from, bytes);
            }
        }
    }
}

void Runner::commit_mask_entry(const PlannedWord &p, size_t at, size_t bytes) {
    const Alu &a = p.word.alu;
    for (int t = 0; t < 4; t++) {
        uint8_t *to = chip_.masks[size_t(4 * a.mask + t)] + at;
        const uint8_t *from = out_[0].row[2 * t] + out_at_[0];
        if (a.op == AluOp::SetMask) {
            uint64_t lanes = 0;
            for (int i = 0; i < 4; i++)
                if (p.word.immediate >> (4 * t + i) & 1) lanes |= uint64_t(0xffff) << 16 * i;
            std::fill_n(reinterpret_cast<uint64_t *>(out_[0].row[2 * t] + out_at_[0]), bytes / 8, lanes);
        }
        if (p.word.mask.mode == MaskMode::Zero && a.op == AluOp::SetMask) mask_result(p, 0, alu_mask_, 1, at, bytes);
        if (p.word.mask.mode == MaskMode::Write)
            kernels_.blend(from, alu_mask_.row[2 * t] + at, to, bytes);
        else
            std::memcpy(to, from, bytes);
    }
}

} // namespace kumiko::sim
