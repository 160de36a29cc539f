// One step: executes the word, starts or awaits moves, and records its writes.
#include "sim/accesses.h"
#include "sim/engine/places.h"
#include "sim/engine/runner.h"
#include "sim/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace kumiko::sim {

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
            throw HazardError(Rule::H4, "the MV slot",
                              fmt::format("it issues one move in {} steps", config_.moves.issue_steps),
                              hazards_.party(last_move_), hazards_.party(move.issued));
        hazards_.check_new_move(move);
    }
    last_move_ = move.issued;
    const MoveTimes timed = moves_.time(m, cycle_);
    run_.stall_cycles += timed.stall;
    run_.idle_cycles[size_t(Idle::Queue)] += timed.stall;
    cycle_ += timed.stall;
    try {
        moves_.copy_data(m, options_.undefined == Undefined::Zero);
    } catch (const UserError &e) {
        fail(Slot::Mv, e.what());
    }
    move.complete = timed.end;
    if (run_.traced) {
        const Moves::Traffic t = moves_.traffic(m);
        run_.traced->moves.push_back({cycle_, timed.begin, timed.end, index_, is_inside(m) ? uint16_t(0) : m.groups,
                                      m.tag, move.in, is_inside(m) ? t.l2bm_in : t.memory,
                                      disassemble(p.word, Slot::Mv)});
    }
    hazards_.add_move(std::move(move));
    tags_issued_ |= uint16_t(1 << m.tag);
    run_.moves++;
}

void Runner::mark_written(const PlannedWord &p, int memory, const PlannedAccess &a) {
    DefinedPlanes &defined = chip_.defined[size_t(memory)];
    const bool by_t = memory == 0 && p.word.lm0.address.by_t;
    const bool masked = p.word.mask.mode == MaskMode::Write && (a.slot == Slot::Mau || a.slot == Slot::Alu);
    const bool partial = a.slot == Slot::L1 && now_.l1_partial;
    for (int t = 0; t < 4; t++) {
        for (int j = 0; j < a.width; j++) {
            const uint8_t *lanes = masked    ? (a.slot == Slot::Mau ? mau_mask_ : alu_mask_).row[2 * t + j]
                                   : partial ? selected_[0]
                                             : nullptr;
            if (by_t) {
                for (size_t i = 0; i < by_t_[t].size(); i++) {
                    if (by_t_[t][i] < 0) continue;
                    for (size_t b = 0; b < 8; b += 2)
                        if (!lanes || lanes[8 * i + b]) defined.add_bytes(size_t(by_t_[t][i] + j), 8 * i + b, 2);
                }
            } else if (lanes) {
                defined.add(plane_of(now_, memory, t, j), lanes);
            } else {
                defined.set_whole(plane_of(now_, memory, t, j));
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
            if (memory == 4)
                hazards_.write_t(t, a.width, s);
            else
                hazards_.write_grf(memory - 2, now_.addresses[write_port_of(memory)][t], a.width, s);
        }
    }
    if (w.alu.op != AluOp::None) {
        if (w.alu.mask) {
            hazards_.write_mask(w.alu.mask, stamp(Slot::Alu));
            for (int t = 0; t < 4; t++) {
                const size_t plane = size_t(4 * w.alu.mask + t);
                if (w.mask.mode == MaskMode::Write)
                    chip_.masks_defined.add(plane, alu_mask_.row[2 * t]);
                else
                    chip_.masks_defined.set_whole(plane);
            }
        }
    }
    each_forward(w, [&](Slot slot, int forward, int width) {
        hazards_.write_forward(forward, width, stamp(slot));
        if (slot == Slot::L1) forward_partial_[forward] = now_.l1_partial;
    });
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

    if (!p.plain) run_waiting(); // it reads masks or T
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
