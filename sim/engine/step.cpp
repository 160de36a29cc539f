// What a word touches in a step: addresses, rules, what was never written.
#include "sim/engine/runner.h"
#include "sim/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace kumiko::sim {

namespace {

constexpr const char *memory_names[5] = {"LM0", "LM1", "GRF0", "GRF1", "T"};

const Port &port_of(const Word &w, int index) {
    const Port *ports[port_count] = {&w.lm0, &w.lm1, &w.grf0_read, &w.grf1_read, &w.grf0_write, &w.grf1_write};
    return *ports[index];
}

int memory_of(Source s) {
    return s == Source::Lm0 ? 0 : s == Source::Lm1 ? 1 : s == Source::Grf0 ? 2 : s == Source::Grf1 ? 3 : s == Source::T ? 4 : -1;
}
int forward_of(Source s) {
    return s == Source::Aluf ? 0 : s == Source::Mauf ? 1 : s == Source::Lbf ? 2 : s == Source::Mreadf ? 3 : -1;
}
int read_port_of(int memory) { return memory == 2 ? PortGrf0Read : memory == 3 ? PortGrf1Read : memory; }
int write_port_of(int memory) { return memory == 2 ? PortGrf0Write : memory == 3 ? PortGrf1Write : memory; }

} // namespace

void Runner::fail(Slot slot, const std::string &message) const {
    const Word &w = program_.words[index_].word;
    throw UserError(fmt::format("step {}, word {}: {}: {}{}", step_, index_, disassemble(w, slot), message,
                                w.note.empty() ? "" : " (" + w.note + ")"));
}

void Runner::hazard(Rule rule, const std::string &resource, const std::string &cause, Slot a, Slot b) const {
    throw HazardError(rule, resource, cause, hazards_.party(stamp(a)), hazards_.party(stamp(b)));
}

void Runner::wait(const PlannedWord &p) {
    const uint8_t tag = *p.word.control.wait;
    if (!(tags_issued_ >> tag & 1)) fail(Slot::Control, fmt::format("no move with tag {} was issued before", tag));
    uint64_t until = cycle_;
    bool in = true;
    for (const PendingMove &m : hazards_.pending())
        if (m.tag == tag && m.complete > until) until = m.complete, in = m.in;
    run_.idle_cycles[size_t(in ? Idle::WaitLoad : Idle::WaitStore)] += until - cycle_;
    run_.stall_cycles += until - cycle_;
    cycle_ = until;
    hazards_.drop(tag);
}

void Runner::issue_move(const PlannedWord &p) {
    const Mv &m = p.word.mv;
    PendingMove move;
    move.issued = stamp(Slot::Mv);
    try {
        moves_.footprints(m, move);
    } catch (const UserError &e) {
        fail(Slot::Mv, e.what());
    }
    if (options_.hazards) {
        if (step_ < last_move_.step + config_.moves.issue_steps)
            throw HazardError(Rule::H4, "the MV slot", fmt::format("it takes one move in {} steps", config_.moves.issue_steps),
                              hazards_.party(last_move_), hazards_.party(move.issued));
        hazards_.check_new_move(move);
    }
    last_move_ = move.issued;
    const Moves::Timed timed = moves_.time(m, cycle_);
    run_.stall_cycles += timed.stall;
    run_.idle_cycles[size_t(Idle::Queue)] += timed.stall;
    cycle_ += timed.stall;
    try {
        moves_.carry(m, options_.undefined == Undefined::Zero);
    } catch (const UserError &e) {
        fail(Slot::Mv, e.what());
    }
    move.complete = timed.end;
    if (run_.traced) {
        const Moves::Traffic t = moves_.traffic(m);
        const bool inside = !Moves::is_load(m) && !Moves::is_store(m);
        run_.traced->moves.push_back({cycle_, timed.begin, timed.end, index_, inside ? uint16_t(0) : m.groups, m.tag, move.in,
                                      inside ? t.l2bm_in : t.memory, disassemble(p.word, Slot::Mv)});
    }
    hazards_.add_move(std::move(move));
    tags_issued_ |= uint16_t(1 << m.tag);
    run_.moves++;
}

size_t Runner::plane_of(int memory, int t, int j) const {
    return memory == 4 ? size_t(2 * t + j) : size_t(addresses_[write_port_of(memory)][t] + j);
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
            addresses_[used.index][t] = int(at);
        }
    }
}

// LM0 at start + t·stride + T's word of cycle t, PE by PE.
void Runner::resolve_by_t(const PlannedWord &p) {
    const PortAddress &a = p.word.lm0.address;
    const bool reads = p.reads[int(Source::Lm0)].width > 0;
    const PlannedAccess &access = reads ? p.reads[int(Source::Lm0)] : p.writes[0];
    const int64_t offset = a.at[0] + iteration_[0] * a.repeat[0] + iteration_[1] * a.repeat[1] + (a.base ? chip_.base[a.base - 1] : 0);
    const size_t pes = size_t(config_.total_pes());
    const bool masked = !reads && p.word.mask.mode == MaskMode::Write && (access.slot == Slot::Mau || access.slot == Slot::Alu);
    for (int t = 0; t < 4; t++) {
        if (options_.hazards) hazards_.read_t(t, 1, step_, index_, access.slot);
        const size_t plane = size_t(2 * t);
        if (options_.undefined == Undefined::Error && !chip_.defined[4].whole(plane)) {
            const int64_t byte = chip_.defined[4].first_undefined(plane, 0, chip_.plane_bytes);
            if (byte >= 0) fail(access.slot, fmt::format("it is addressed by T of PE {} in cycle {}, which was never written", byte / 8, t));
        }
        by_t_[t].resize(pes);
        for (size_t i = 0; i < pes; i++) {
            uint16_t low;
            std::memcpy(&low, chip_.pe[4][plane] + 8 * i, 2);
            int64_t at = offset + int64_t(t) * a.stride + low;
            if (at < 0 || at + access.width > config_.sizes.lm) {
                // A PE whose write the mask suppresses may point anywhere.
                const Rows &mask = access.slot == Slot::Mau ? mau_mask_ : alu_mask_;
                bool suppressed = masked;
                for (int j = 0; suppressed && j < access.width; j++) {
                    uint64_t lanes;
                    std::memcpy(&lanes, mask.row[2 * t + j] + 8 * i, 8);
                    suppressed = lanes == 0;
                }
                if (!suppressed)
                    fail(access.slot, fmt::format("PE {} addresses LM0[{}] in cycle {} by T, and LM0 has {} LW", i, at, t, config_.sizes.lm));
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
        if (forward_partial_[f]) fail(slot, fmt::format("it reads {} in MABs that the L1 slot of the step before left out", name_of(s)));
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
            const size_t plane = memory == 4 ? size_t(2 * t + j) : size_t(addresses_[read_port_of(memory)][t] + j);
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
                if (memory == 4) hazards_.read_t(t, a.width, step_, index_, a.slot);
                else hazards_.read_grf(memory - 2, addresses_[read_port_of(memory)][t], a.width, step_, index_, a.slot);
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
        if (f.rows != whole)
            throw HazardError(Rule::H6, name, fmt::format("only rows {:#x} of it have been written", f.rows),
                              {-1, -1, "(the matrix writes so far)", ""}, hazards_.party(stamp(slot)));
        if (f.f16 != (precision == Type::F16))
            fail(slot, fmt::format("it reads {} as {}, which was written as {}", name, name_of(precision), f.f16 ? "f16" : "f32"));
    };
    if (p.matrix) face(w.mau.face, w.mau.precision, Slot::Mau);
    if (w.mr.on) face(w.mr.face, w.mr.precision, Slot::MatrixRead);

    if (options_.undefined == Undefined::Zero) return;
    if (w.l1.op != L1Op::None && is_upward(w.l1.op)) check_operand_defined(p, w.l1.from, w.l1.width, Slot::L1);
    if (w.mw.on) check_operand_defined(p, w.mw.from, w.mw.width, Slot::MatrixWrite);
    if (w.mau.op != MauOp::None) {
        check_operand_defined(p, w.mau.a, mau_a_width(w.mau), Slot::Mau);
        check_operand_defined(p, w.mau.b, 1, Slot::Mau);
        check_operand_defined(p, w.mau.c, mau_c_width(w.mau), Slot::Mau);
    }
    if (w.alu.op != AluOp::None) {
        check_operand_defined(p, w.alu.a, alu_operand_width(w.alu), Slot::Alu);
        check_operand_defined(p, w.alu.b, alu_operand_width(w.alu), Slot::Alu);
    }
}

// Two writes to one address in a step are an error.
void Runner::check_writes(const PlannedWord &p) {
    for (int memory = 0; memory < 4; memory++) {
        const PlannedAccess &a = p.writes[size_t(memory)];
        if (!a.width) continue;
        const auto twice = [&](int64_t at, const std::string &where) {
            hazard(Rule::H1, fmt::format("{}[{}]{}", memory_names[memory], at, where), "it is written in two cycles of one step", a.slot, a.slot);
        };
        if (memory == 0 && p.word.lm0.address.by_t) {
            for (size_t i = 0; i < by_t_[0].size(); i++)
                for (int t = 1; t < 4; t++)
                    for (int u = 0; u < t; u++)
                        if (by_t_[t][i] >= 0 && by_t_[u][i] >= 0 && std::abs(by_t_[t][i] - by_t_[u][i]) < a.width)
                            twice(by_t_[t][i], fmt::format(" of PE {}", i));
            continue;
        }
        const int *at = addresses_[write_port_of(memory)];
        for (int t = 1; t < 4; t++)
            for (int u = 0; u < t; u++)
                if (std::abs(at[t] - at[u]) < a.width) twice(std::max(at[t], at[u]), "");
    }
}

void Runner::resolve_rows(const PlannedWord &p) {
    for (int s = 1; s < source_count; s++) {
        const int width = p.reads[size_t(s)].width;
        if (!width) continue;
        Rows &rows = rows_[s];
        const Source source = Source(s);
        if (source == Source::Id || source == Source::Imm) {
            const uint8_t *row = source == Source::Id ? chip_.id[0] : chip_.immediate[0];
            if (source == Source::Imm && chip_.immediate_value != p.word.immediate) {
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
                    for (size_t i = 0; i < by_t_[t].size(); i++) std::memcpy(row + 8 * i, chip_.pe[0][size_t(by_t_[t][i] + j)] + 8 * i, 8);
                    rows.row[2 * t + j] = row;
                }
            }
            continue;
        }
        for (int t = 0; t < 4; t++)
            for (int j = 0; j < width; j++)
                rows.row[2 * t + j] = chip_.pe[size_t(memory)][memory == 4 ? size_t(2 * t + j) : size_t(addresses_[read_port_of(memory)][t] + j)];
    }
}

// A mask's lanes as whole words for each row of a result.
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

void Runner::mark_written(const PlannedWord &p, int memory, const PlannedAccess &a) {
    DefinedPlanes &defined = chip_.defined[size_t(memory)];
    const bool by_t = memory == 0 && p.word.lm0.address.by_t;
    const bool masked = p.word.mask.mode == MaskMode::Write && (a.slot == Slot::Mau || a.slot == Slot::Alu);
    const bool partial = a.slot == Slot::L1 && l1_partial_;
    for (int t = 0; t < 4; t++) {
        for (int j = 0; j < a.width; j++) {
            const uint8_t *lanes = masked ? (a.slot == Slot::Mau ? mau_mask_ : alu_mask_).row[2 * t + j] : partial ? selected_[0] : nullptr;
            if (by_t) {
                for (size_t i = 0; i < by_t_[t].size(); i++) {
                    if (by_t_[t][i] < 0) continue;
                    for (size_t b = 0; b < 8; b += 2)
                        if (!lanes || lanes[8 * i + b]) defined.add_bytes(size_t(by_t_[t][i] + j), 8 * i + b, 2);
                }
            } else if (lanes) {
                defined.add(plane_of(memory, t, j), lanes);
            } else {
                defined.set_whole(plane_of(memory, t, j));
            }
        }
    }
}

void Runner::stamp_writes(const PlannedWord &p) {
    const Word &w = p.word;
    for (int memory = 0; memory < 5; memory++) {
        const PlannedAccess &a = p.writes[size_t(memory)];
        if (!a.width) continue;
        mark_written(p, memory, a);
        const Stamp s = stamp(a.slot);
        if (memory < 2) hazards_.write_lm(memory, s);
        for (int t = 0; t < 4 && memory >= 2; t++) {
            if (memory == 4) hazards_.write_t(t, a.width, s);
            else hazards_.write_grf(memory - 2, addresses_[write_port_of(memory)][t], a.width, s);
        }
    }
    if (w.alu.op != AluOp::None) {
        if (w.alu.mask) {
            hazards_.write_mask(w.alu.mask, stamp(Slot::Alu));
            for (int t = 0; t < 4; t++) {
                const size_t plane = size_t(4 * w.alu.mask + t);
                if (w.mask.mode == MaskMode::Write) chip_.masks_defined.add(plane, alu_mask_.row[2 * t]);
                else chip_.masks_defined.set_whole(plane);
            }
        }
        if (w.alu.op != AluOp::SetMask) hazards_.write_forward(0, alu_result_width(w.alu), stamp(Slot::Alu));
    }
    if (w.mau.op != MauOp::None) hazards_.write_forward(1, mau_result_width(w.mau), stamp(Slot::Mau));
    if (w.l1.op != L1Op::None && !is_upward(w.l1.op)) {
        hazards_.write_forward(2, w.l1.width, stamp(Slot::L1));
        forward_partial_[2] = l1_partial_;
    }
    if (w.mr.on) hazards_.write_forward(3, w.mr.width, stamp(Slot::MatrixRead));
    if (w.mw.on) {
        hazards_.write_face(w.mw.face, stamp(Slot::MatrixWrite));
        ChipState::Face &f = chip_.face_state[w.mw.face];
        const bool f16 = w.mw.precision == Type::F16;
        if (f.f16 != f16 || f.rows == (f.f16 ? 0xffffu : 0xffu)) f.rows = 0;
        f.f16 = f16;
        const int rows = face_rows(w.mw.width);
        f.rows |= ((1u << rows) - 1) << w.mw.part * rows;
    }
    if (w.control.base) {
        int16_t &b = chip_.base[*w.control.base];
        if (w.control.base_add && options_.hazards) hazards_.read_base(*w.control.base, step_, index_, Slot::Control);
        b = int16_t(w.control.base_add ? b + w.control.base_value : w.control.base_value);
        hazards_.write_base(*w.control.base, stamp(Slot::Control));
    }
}

void Runner::step(uint32_t index) {
    const PlannedWord &p = program_.words[index];
    const Word &w = p.word;
    index_ = index;
    if (w.control.wait) wait(p);
    const bool l1 = w.l1.op != L1Op::None, l2 = w.l2.op != L2Op::None;
    if (w.mv.op != MvOp::None) issue_move(p);
    if (run_.traced) run_.traced->steps.push_back({cycle_, index});

    resolve_masks(p);
    resolve_addresses(p);
    check_reads(p);
    check_writes(p);
    if (l1) l1_extent(p);
    if (l2) l2_extents(p);
    resolve_rows(p);
    if (l2) l2_read(p);
    run_units(p);
    if (l2) l2_write(p);
    stamp_writes(p);
    run_.executed[index]++;
    step_++;
    cycle_ += cycles_per_step;
}

} // namespace kumiko::sim
