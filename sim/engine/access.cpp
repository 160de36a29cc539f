// The accesses of a word in a step: their addresses, the hazard rules, undefined reads, and the
// location of the data.
#include "sim/accesses.h"
#include "sim/engine/places.h"
#include "sim/engine/runner.h"
#include "sim/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace kumiko::sim {

size_t Runner::plane_of(const Resolved &r, int memory, int t, int j) {
    return memory == 4 ? size_t(2 * t + j) : size_t(r.addresses[write_port_of(memory)][t] + j);
}

void Runner::resolve_addresses(const PlannedWord &p) {
    for (int i = 0; i < p.ports_used; i++) {
        const PlannedWord::UsedPort &used = p.ports[size_t(i)];
        const PortAddress &a = port_of(p.word, used.index).address;
        int64_t offset = 0;
        if (used.moves) {
            offset = iteration_[0] * a.repeat[0] + iteration_[1] * a.repeat[1];
            if (a.base) {
                if (options_.hazards) hazards_.read_base(a.base - 1, step_, index_, used.slot);
                offset += chip_.base[a.base - 1];
            }
            if (a.by_t) {
                resolve_by_t(p);
                continue;
            }
        }
        const bool lm = used.index <= PortLm1;
        const int64_t size = lm ? config_.sizes.lm : config_.sizes.grf;
        for (int t = 0; t < 4; t++) {
            const int64_t at = (a.listed ? int64_t(a.at[size_t(t)]) : a.at[0] + int64_t(t) * a.stride) + offset;
            if (at < 0 || at + used.width > size) {
                const char *name = memory_names[lm ? used.index : 2 + used.index % 2];
                fail(used.slot, fmt::format("cycle {} addresses {}[{}{}], and {} has {} LW", t, name, at,
                                            used.width == 2 ? fmt::format("..{}", at + 1) : "", name, size));
            }
            now_.addresses[used.index][t] = int(at);
        }
    }
}

// LM0 at start + t·stride + T's word of cycle t, PE by PE.
void Runner::resolve_by_t(const PlannedWord &p) {
    const PortAddress &a = p.word.lm0.address;
    const bool reads = p.reads[int(Source::Lm0)].width > 0;
    const PlannedAccess &access = reads ? p.reads[int(Source::Lm0)] : p.writes[0];
    const int64_t offset =
        a.at[0] + iteration_[0] * a.repeat[0] + iteration_[1] * a.repeat[1] + (a.base ? chip_.base[a.base - 1] : 0);
    const size_t pes = size_t(config_.total_pes());
    const bool masked =
        !reads && p.word.mask.mode == MaskMode::Write && (access.slot == Slot::Mau || access.slot == Slot::Alu);
    for (int t = 0; t < 4; t++) {
        if (options_.hazards) hazards_.read_t(t, 1, step_, index_, access.slot);
        const size_t plane = size_t(2 * t);
        if (options_.undefined == Undefined::Error && !chip_.defined[4].whole(plane)) {
            const int64_t byte = chip_.defined[4].first_undefined(plane, 0, chip_.plane_bytes);
            if (byte >= 0)
                fail(access.slot,
                     fmt::format("it is addressed by T of PE {} in cycle {}, which was never written", byte / 8, t));
        }
        by_t_[t].resize(pes);
        for (size_t i = 0; i < pes; i++) {
            uint16_t low;
            std::memcpy(&low, chip_.pe[4][plane] + 8 * i, 2);
            int64_t at = offset + int64_t(t) * a.stride + low;
            if (at < 0 || at + access.width > config_.sizes.lm) {
                // A PE whose write the mask suppresses may have any address.
                const Rows &mask = access.slot == Slot::Mau ? mau_mask_ : alu_mask_;
                bool suppressed = masked;
                for (int j = 0; suppressed && j < access.width; j++) {
                    uint64_t lanes;
                    std::memcpy(&lanes, mask.row[2 * t + j] + 8 * i, 8);
                    suppressed = lanes == 0;
                }
                if (!suppressed)
                    fail(access.slot, fmt::format("PE {} addresses LM0[{}] in cycle {} by T, and LM0 has {} LW", i, at,
                                                  t, config_.sizes.lm));
                at = -1;
            }
            by_t_[t][i] = int(at);
        }
    }
}

void Runner::check_operand_defined(const PlannedWord &p, Source s, int width, Slot slot) {
    if (s == Source::None) return;
    const auto report = [&](const std::string &what, int64_t byte) {
        fail(slot, fmt::format("it reads {} of PE {}, which was never written", what, byte / 8));
    };
    if (const int f = forward_of(s); f >= 0) {
        if (forward_partial_[f])
            fail(slot,
                 fmt::format("it reads {} in MABs that the L1 slot of the previous step did not serve", name_of(s)));
        return;
    }
    const int memory = memory_of(s);
    if (memory < 0) return;
    const DefinedPlanes &defined = chip_.defined[size_t(memory)];
    for (int t = 0; t < 4; t++) {
        for (int j = 0; j < width; j++) {
            if (memory == 0 && p.word.lm0.address.by_t) {
                for (size_t i = 0; i < by_t_[t].size(); i++) {
                    const size_t plane = size_t(by_t_[t][i] + j);
                    if (!defined.whole(plane) && defined.first_undefined(plane, 8 * i, 8) >= 0)
                        report(fmt::format("LM0[{}]", plane), int64_t(8 * i));
                }
                continue;
            }
            const size_t plane = memory == 4 ? size_t(2 * t + j) : size_t(now_.addresses[read_port_of(memory)][t] + j);
            if (defined.whole(plane)) continue;
            const std::string what = memory == 4 ? "T" : fmt::format("{}[{}]", memory_names[memory], plane);
            if (slot != Slot::L1) {
                const int64_t byte = defined.first_undefined(plane, 0, chip_.plane_bytes);
                if (byte >= 0) report(what, byte);
                continue;
            }
            for (size_t m = 0; m < chip_.mabs; m++) {
                if (!(p.l1_mabs >> (m % size_t(config_.mabs)) & 1)) continue;
                const int64_t byte = defined.first_undefined(plane, 32 * m, 32);
                if (byte >= 0) report(what, byte);
            }
        }
    }
}

void Runner::check_reads(const PlannedWord &p) {
    const Word &w = p.word;
    if (options_.hazards) {
        for (int s = 1; s < source_count; s++) {
            const PlannedAccess &a = p.reads[size_t(s)];
            if (!a.width) continue;
            const Source source = Source(s);
            if (const int f = forward_of(source); f >= 0) {
                hazards_.read_forward(f, a.width, step_, index_, a.slot);
                continue;
            }
            const int memory = memory_of(source);
            if (memory == 0 || memory == 1) hazards_.read_lm(memory, step_, index_, a.slot);
            if (memory < 2) continue;
            for (int t = 0; t < 4; t++) {
                if (memory == 4)
                    hazards_.read_t(t, a.width, step_, index_, a.slot);
                else
                    hazards_.read_grf(memory - 2, now_.addresses[read_port_of(memory)][t], a.width, step_, index_,
                                      a.slot);
            }
        }
        if (p.matrix) hazards_.read_face(w.mau.face, step_, index_, Slot::Mau);
        if (w.mr.on) hazards_.read_face(w.mr.face, step_, index_, Slot::MatrixRead);
    }
    // A face is read whole, in the precision in which it was written.
    const auto face = [&](int which, Type precision, Slot slot) {
        const ChipState::Face &f = chip_.face_state[which];
        const char *name = which ? "face y" : "face x";
        const uint32_t whole = f.f16 ? 0xffff : 0xff;
        if (f.rows == 0) fail(slot, fmt::format("it reads {}, which was never written", name));
        if (f.rows != whole) hazards_.fail_partly_written(which, f.rows, step_, index_, slot);
        if (f.f16 != (precision == Type::F16))
            fail(slot, fmt::format("it reads {} as {}, which was written as {}", name, name_of(precision),
                                   f.f16 ? "f16" : "f32"));
    };
    if (p.matrix) face(w.mau.face, w.mau.precision, Slot::Mau);
    if (w.mr.on) face(w.mr.face, w.mr.precision, Slot::MatrixRead);

    if (options_.undefined == Undefined::Zero) return;
    each_read(w, [&](Slot slot, Source s, int width) { check_operand_defined(p, s, width, slot); });
}

// Two writes to one address in a step are an error.
void Runner::check_writes(const PlannedWord &p) {
    for (int memory = 0; memory < 4; memory++) {
        const PlannedAccess &a = p.writes[size_t(memory)];
        if (!a.width) continue;
        const auto twice = [&](int u, int t, int64_t at, const std::string &where) {
            hazard(Rule::H1, fmt::format("{}[{}]{}", memory_names[memory], at, where),
                   fmt::format("it is written in cycles {} and {} of one step", u, t), a.slot, a.slot);
        };
        if (memory == 0 && p.word.lm0.address.by_t) {
            for (size_t i = 0; i < by_t_[0].size(); i++)
                for (int t = 1; t < 4; t++)
                    for (int u = 0; u < t; u++)
                        if (by_t_[t][i] >= 0 && by_t_[u][i] >= 0 && std::abs(by_t_[t][i] - by_t_[u][i]) < a.width)
                            twice(u, t, std::max(by_t_[t][i], by_t_[u][i]), fmt::format(" of PE {}", i));
            continue;
        }
        const int *at = now_.addresses[write_port_of(memory)];
        for (int t = 1; t < 4; t++)
            for (int u = 0; u < t; u++)
                if (std::abs(at[t] - at[u]) < a.width) twice(u, t, std::max(at[t], at[u]), "");
    }
}

void Runner::resolve_rows(const PlannedWord &p) {
    for (int s = 1; s < source_count; s++) {
        const int width = p.reads[size_t(s)].width;
        if (!width) continue;
        Rows &rows = now_.rows[s];
        const Source source = Source(s);
        if (source == Source::Id || source == Source::Imm) {
            const uint8_t *row = source == Source::Id ? chip_.id[0] : chip_.immediate[0];
            if (source == Source::Imm && chip_.immediate_value != p.word.immediate) {
                run_waiting(); // deferred steps may read the old value
                auto *words = reinterpret_cast<uint64_t *>(chip_.immediate[0]);
                std::fill_n(words, chip_.plane_bytes / 8, p.word.immediate);
                chip_.immediate_value = p.word.immediate;
            }
            for (auto &r : rows.row) r = row;
            continue;
        }
        if (const int f = forward_of(source); f >= 0) {
            for (size_t r = 0; r < 8; r++) rows.row[r] = chip_.forwards[f][(step_ & 1) ^ 1][r];
            continue;
        }
        const int memory = memory_of(source);
        if (memory == 0 && p.word.lm0.address.by_t) {
            for (int t = 0; t < 4; t++) {
                for (int j = 0; j < width; j++) {
                    uint8_t *row = gathered_[size_t(2 * t + j)];
                    for (size_t i = 0; i < by_t_[t].size(); i++)
                        std::memcpy(row + 8 * i, chip_.pe[0][size_t(by_t_[t][i] + j)] + 8 * i, 8);
                    rows.row[2 * t + j] = row;
                }
            }
            continue;
        }
        for (int t = 0; t < 4; t++)
            for (int j = 0; j < width; j++)
                rows.row[2 * t + j] =
                    chip_.pe[size_t(memory)]
                            [memory == 4 ? size_t(2 * t + j) : size_t(now_.addresses[read_port_of(memory)][t] + j)];
    }
}

// Expands a mask's lanes to whole words for each row of a result.
void Runner::resolve_masks(const PlannedWord &p) {
    const Mask &k = p.word.mask;
    if (k.mode == MaskMode::None) return;
    const Slot user = p.word.alu.op != AluOp::None ? Slot::Alu : Slot::Mau;
    if (options_.hazards) hazards_.read_mask(k.entry, step_, index_, user);
    for (int t = 0; t < 4; t++) {
        const size_t plane = size_t(4 * k.entry + t);
        if (options_.undefined == Undefined::Error && !chip_.masks_defined.whole(plane)) {
            const int64_t byte = chip_.masks_defined.first_undefined(plane, 0, chip_.plane_bytes);
            if (byte >= 0) fail(Slot::Mask, fmt::format("entry {} of PE {} was never written", k.entry, byte / 8));
        }
    }
    const auto expand = [&](MaskForm form, size_t scratch, Rows &out) {
        for (int t = 0; t < 4; t++) {
            const auto *from = reinterpret_cast<const uint64_t *>(chip_.mask_row(k.entry, t));
            for (int j = 0; j < 2; j++) {
                uint8_t *row = mask_scratch_[scratch + size_t(2 * t + j)];
                auto *to = reinterpret_cast<uint64_t *>(row);
                for (size_t i = 0; i < chip_.plane_bytes / 8; i++) {
                    const uint64_t lanes = from[i];
                    uint64_t m = lanes;
                    if (form == MaskForm::Pairs) {
                        const uint64_t low = lanes & 0xffffffff, high = lanes >> 32;
                        m = (low == 0xffffffff ? low : 0) | (high == 0xffffffff ? high << 32 : 0);
                    } else if (form == MaskForm::Wide) {
                        const uint64_t low = lanes >> 32 * j & 0xffff, high = lanes >> (32 * j + 16) & 0xffff;
                        m = (low ? 0xffffffffu : 0) | (high ? uint64_t(0xffffffff) << 32 : 0);
                    }
                    to[i] = k.invert ? ~m : m;
                }
                out.row[2 * t + j] = row;
            }
        }
    };
    if (p.word.mau.op != MauOp::None && k.mode != MaskMode::Select) expand(mask_form(p.word.mau), 0, mau_mask_);
    if (p.word.alu.op != AluOp::None) expand(mask_form(p.word.alu), 8, alu_mask_);
}

} // namespace kumiko::sim
