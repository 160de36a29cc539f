#include "sim/engine/plan.h"

#include "sim/accesses.h"
#include "sim/operations.h"

#include <fmt/format.h>

#include <algorithm>

namespace kumiko::sim {

namespace {

// Finds the resources that each slot of one word uses.
void plan_accesses(PlannedWord &p) {
    const Word &w = p.word;
    each_read(w, [&](Slot slot, Source s, int width) {
        PlannedAccess &a = p.reads[int(s)];
        if (s != Source::None && a.width < width) a = {uint8_t(width), slot};
    });
    each_write(w, [&](Slot slot, uint8_t to, int width) {
        for (int i = 0; i < 5; i++)
            if (to >> i & 1) p.writes[i] = {uint8_t(width), slot};
    });
    const auto port = [&](PortIndex index, const Port &port, const PlannedAccess &access) {
        if (!access.width) return;
        const PortAddress &a = port.address;
        p.ports[p.ports_used++] = {index, access.width, a.repeat[0] || a.repeat[1] || a.base || a.by_t, access.slot};
    };
    port(PortLm0, w.lm0, p.reads[int(Source::Lm0)].width ? p.reads[int(Source::Lm0)] : p.writes[0]);
    port(PortLm1, w.lm1, p.reads[int(Source::Lm1)].width ? p.reads[int(Source::Lm1)] : p.writes[1]);
    port(PortGrf0Read, w.grf0_read, p.reads[int(Source::Grf0)]);
    port(PortGrf1Read, w.grf1_read, p.reads[int(Source::Grf1)]);
    port(PortGrf0Write, w.grf0_write, p.writes[2]);
    port(PortGrf1Write, w.grf1_write, p.writes[3]);
}

Idle idle_reason(const Word &w) {
    if (w.mau.op != MauOp::None) return Idle::Vector;
    if (w.mw.on || w.mr.on) return Idle::MatrixWrite;
    if (w.alu.op != AluOp::None) return Idle::Alu;
    if (w.l1.op != L1Op::None || w.l2.op != L2Op::None) return Idle::Moves;
    return Idle::Empty;
}

uint32_t chosen(uint32_t set, int count) { return count >= 32 ? set : set & ((1u << count) - 1); }

} // namespace

Planned::Planned(const Program &program, const Config &config) {
    const auto fail = [&](size_t i, const std::string &message) {
        const std::string &note = program.words[i].note;
        throw UserError(fmt::format("word {}: {}{}", i, message, note.empty() ? "" : " (" + note + ")"));
    };
    struct Open {
        size_t first, end;
    };
    std::vector<Open> open;
    std::vector<std::pair<size_t, size_t>> backward; // last word of a REP, its first
    words.resize(program.words.size());
    for (size_t i = 0; i < words.size(); i++) {
        PlannedWord &p = words[i];
        p.word = canonical(program.words[i]);
        const Word &w = p.word;
        try {
            check_word(w, config);
        } catch (const HazardError &e) {
            HazardParty a = e.first, b = e.second;
            a.word = b.word = int64_t(i);
            throw HazardError(e.rule, e.resource, e.cause, a, b);
        } catch (const UserError &e) {
            throw UserError(fmt::format("word {}: {}", i, e.what()));
        }
        while (!open.empty() && open.back().end <= i) open.pop_back();
        for (const auto &r : w.control.repeat) {
            if (!r.count) continue;
            const size_t end = i + r.length;
            if (end > words.size())
                fail(i, fmt::format("its rep of {} words extends beyond the program's end", r.length));
            if (!open.empty() && end > open.back().end)
                fail(i, fmt::format("its rep of {} words extends beyond the end of the enclosing rep", r.length));
            open.push_back({i, end});
            if (int(open.size()) > config.repeat.nest)
                fail(i, fmt::format("reps are nested {} deep; {} is possible on {}", open.size(), config.repeat.nest,
                                    config.name));
            backward.push_back({end - 1, i});
        }
        p.depth = int(open.size());
        if (p.depth) {
            if (w.control.wait) fail(i, "a wait is inside a rep");
            if (w.mv.op != MvOp::None) fail(i, "a move is inside a rep");
            if (w.control.end) fail(i, "the end is inside a rep");
        }
        if (w.control.end && i + 1 != words.size()) fail(i, "the end is before the last word");
        plan_accesses(p);
        p.matrix = info(w.mau.op).matrix;
        p.idle = idle_reason(w);
        p.l1_mabs = chosen(w.l1.mabs, config.mabs);
        p.l2_l1bs = chosen(w.l2.l1bs, config.l1bs);
        p.plain = w.mask.mode == MaskMode::None && !w.lm0.address.by_t;
        matrix_reads |= w.mr.on;
    }
    // A forward is kept if a word that may come next reads it.
    const auto next = [&](size_t from, size_t to) {
        constexpr Source forwards[] = {Source::Aluf, Source::Mauf, Source::Lbf, Source::Mreadf};
        for (int f = 0; f < 4; f++) words[from].needed[f] |= words[to].reads[int(forwards[f])].width > 0;
    };
    for (size_t i = 0; i + 1 < words.size(); i++) next(i, i + 1);
    for (const auto &[last, first] : backward) next(last, first);
}

} // namespace kumiko::sim
