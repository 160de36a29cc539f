// The trace for ui.perfetto.dev (JSON form): one track for each slot, each tag, each group's DRAM,
// and the words.
#include "sim/assembler.h"
#include "sim/run.h"
#include "support/atomic_file.h"
#include "support/error.h"
#include "support/trace_events.h"

#include <fmt/format.h>

namespace kumiko::sim {

std::string Run::trace() const {
    if (!traced) throw UserError("this run recorded no trace; set SimulateOptions::trace before the run");
    TraceEvents out(1e-3 / config.clock_ghz);
    enum { words = 1, moves = 2, dram = 3 };
    out.process(words, "words");
    out.process(moves, "moves, by tag");
    out.process(dram, "DRAM");
    // The words' notes and the slots. Consecutive steps with the same text are one slice.
    for (int s = -1; s < slot_count; s++) {
        const int track = s + 2;
        bool any = false;
        for (const auto &slots : traced->slots) any |= s < 0 || !slots[size_t(s)].empty();
        if (!any) continue;
        out.track(words, track, s < 0 ? "word" : slot_name(Slot(s)));
        const auto text = [&](uint32_t word) -> const std::string & {
            return s < 0 ? traced->notes[word] : traced->slots[word][size_t(s)];
        };
        std::vector<std::string> names(traced->slots.size()); // quoted once
        for (uint32_t w = 0; w < names.size(); w++) {
            const std::string &full = text(w);
            names[w] = json_quoted(s < 0 ? full : full.substr(0, full.find(' ')));
        }
        const auto &steps = traced->steps;
        for (size_t i = 0; i < steps.size();) {
            const std::string &name = text(steps[i].word);
            size_t end = i + 1;
            while (end < steps.size() && steps[end].cycle == steps[end - 1].cycle + cycles_per_step &&
                   (steps[end].word == steps[i].word || text(steps[end].word) == name))
                end++;
            if (!name.empty())
                out.slice(words, track, double(steps[i].cycle), double(steps[end - 1].cycle + cycles_per_step),
                          names[steps[i].word],
                          fmt::format("\"text\":{},\"step\":{},\"steps\":{},\"word\":{}", json_quoted(name), i, end - i,
                                      steps[i].word));
            i = end;
        }
    }
    for (int tag = 0; tag < 16; tag++) {
        bool any = false;
        for (const TraceMove &m : traced->moves) {
            if (m.tag != tag) continue;
            if (!any) out.track(moves, tag + 1, fmt::format("tag {}", tag));
            any = true;
            out.slice(moves, tag + 1, double(m.begin), double(m.end), json_quoted(m.text.substr(0, m.text.find(' '))),
                      fmt::format("\"text\":{},\"bytes\":{},\"issued\":{},\"begin\":{},\"end\":{},\"word\":{}",
                                  json_quoted(m.text), m.bytes, m.issued, m.begin, m.end, m.word));
        }
    }
    for (int g = 0; g < config.groups; g++) {
        out.track(dram, g + 1, fmt::format("group {}", g));
        for (const TraceMove &m : traced->moves)
            if (m.groups >> g & 1 && m.text.find("dram[") != std::string::npos)
                out.slice(dram, g + 1, double(m.begin), double(m.end), m.in ? "\"read\"" : "\"write\"",
                          fmt::format("\"tag\":{},\"bytes\":{},\"text\":{}", m.tag, m.bytes, json_quoted(m.text)));
    }
    return out.finish(program.empty() ? config.name : program + " on " + config.name, "1 step = 4 cycles");
}

void Run::save_trace(const std::string &path) const { write_file_atomically(path, trace()); }

} // namespace kumiko::sim
