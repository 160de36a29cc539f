#include "targets/chip/move/route.h"

#include "targets/chip/move/hops.h"

#include <fmt/format.h>

#include <algorithm>

namespace kumiko::chip {

namespace {

class Router {
public:
    Router(Memory top, const Scratch &scratch, const sim::Config &config, std::string &lacking)
        : hops{config, scratch, nullptr, nullptr, true}, c(config), lacking_(lacking), top_(top) {}

    std::optional<Route> run(const State &from, const State &to) {
        if (std::min(rank_of(from.memory), rank_of(to.memory)) == 0 && hops.scratch.tag_begin >= hops.scratch.tag_end) {
            lacking_ = "a tag for moves off the chip";
            return std::nullopt;
        }
        std::vector<Hop> after;
        const auto wanted = to_pe(to, after);
        if (!wanted) return std::nullopt;
        State image = from;
        if (!to_top(image)) return std::nullopt;
        if (!deliver(image, *wanted)) return std::nullopt;
        for (size_t i = after.size(); i-- > 0;) append(after[i]);
        return std::move(out);
    }

private:
    Hops hops;
    const sim::Config &c;
    std::string &lacking_;
    Memory top_;
    Route out;

    void append(const Hop &made) {
        out.ops.insert(out.ops.end(), made.ops.begin(), made.ops.end());
        out.texts.push_back(made.text);
    }
    std::optional<int64_t> reserve(Memory memory, int64_t words) {
        Scratch::Range &r = range_of(hops.scratch, memory);
        if (r.words() < words) {
            lacking_ = fmt::format("{} LW of scratch in {}, which has {} left", words, name_of(memory),
                                   std::max<int64_t>(r.words(), 0));
            return std::nullopt;
        }
        const int64_t base = r.begin;
        r.begin += words;
        return base;
    }
    static constexpr Memory in_pes[] = {Memory::Lm0, Memory::Lm1, Memory::Grf0, Memory::Grf1};
    // The PE memory with the most room, preferably not `other`. GRFs need room for the constants of
    // masks.
    Memory roomiest(std::optional<Memory> other) {
        Memory best = Memory::Lm0;
        int64_t most = -1;
        for (const Memory m : in_pes) {
            int64_t room = range_of(hops.scratch, m).words() - (m >= Memory::Grf0 ? 32 : 0);
            if (m == other) room /= 4;
            if (room > most) best = m, most = room;
        }
        return best;
    }

    template<typename Form>
    bool take(State &state, Memory memory, std::vector<Hop> &list, Form &&form) {
        // First determine its size, then place it.
        const int64_t probe = range_of(hops.scratch, memory).begin;
        std::vector<Hop> forms = form(state, probe);
        if (forms.empty()) {
            lacking_ = fmt::format("whole steps between {} and {}", name_of(state.memory), name_of(memory));
            return false;
        }
        Hop &least = *std::min_element(forms.begin(), forms.end(), [](const Hop &a, const Hop &b) {
            return a.state.table.words() < b.state.table.words();
        });
        const int64_t words = round_up(least.state.table.words(), grain_of(memory, c));
        if (!reserve(memory, words)) return false;
        state = lengthened(least.state, words);
        list.push_back(std::move(least));
        return true;
    }

    std::optional<State> to_pe(State state, std::vector<Hop> &after) {
        if (rank_of(state.memory) == 0) {
            if (pull_out(state, range_of(hops.scratch, Memory::L2bm).begin, hops.tag(), c).empty()) {
                lacking_ =
                    "a destination whose ranges are multiples of 64 LW, at multiples of 16 LW, if padding is kept";
                return std::nullopt;
            }
            if (!take(state, Memory::L2bm, after,
                      [&](const State &s, int64_t b) { return pull_out(s, b, hops.tag(), c); }))
                return std::nullopt;
        }
        if (rank_of(state.memory) == 1) return l2bm_to_pe(state, after);
        if (rank_of(state.memory) == 2) {
            const Memory m = roomiest(std::nullopt);
            if (!take(state, m, after, [&](const State &s, int64_t b) { return pull_l1_up(s, m, b, c); }))
                return std::nullopt;
        }
        return state;
    }

    static State part(const State &state, int64_t first, int64_t words) {
        const Contents &t = state.table;
        State made{state.memory, state.base + first,
                   Contents(t.memory(), t.units(), std::min(words, t.words() - first), t.lanes())};
        for (int u = 0; u < t.units(); u++)
            std::copy_n(t.at(u, first), size_t(made.table.words()) * size_t(t.lanes()), made.table.at(u, 0));
        return made;
    }
    static void put(Contents &into, int64_t at, const Contents &from) {
        for (int u = 0; u < into.units(); u++)
            std::copy_n(from.at(u, 0), size_t(from.words()) * size_t(from.lanes()), into.at(u, at));
    }
    // L1BM is the smallest memory on the path, so data passes through it in parts.
    std::optional<int64_t> l1bm_room() {
        const int64_t grain = grain_of(Memory::L1bm, c),
                      room = range_of(hops.scratch, Memory::L1bm).words() / grain * grain;
        if (room) return room;
        lacking_ = fmt::format("{} LW of scratch in l1bm", grain);
        return std::nullopt;
    }

    std::optional<State> l2bm_to_pe(const State &state, std::vector<Hop> &after) {
        const auto room = l1bm_room();
        if (!room) return std::nullopt;
        const int64_t l1bm = range_of(hops.scratch, Memory::L1bm).begin;
        const int64_t slices = c.l1bs, pes = c.pes_per_l1b(), grain = grain_of(Memory::L1bm, c);
        const int64_t words = std::min(*room, round_up((state.table.words() + slices - 1) / slices, grain)) * slices;
        const int64_t parts = (state.table.words() + words - 1) / words, columns = words / slices / pes;
        const Memory m = roomiest(std::nullopt);
        const auto base = reserve(m, round_up(parts * columns, 4));
        if (!base) return std::nullopt;
        State wanted{m, *base, Contents(m, c.total_pes(), round_up(parts * columns, 4), state.table.lanes())};
        for (int64_t i = parts; i-- > 0;) { // they execute in the opposite order
            const State piece = part(state, i * words, words);
            std::vector<Hop> l2 = pull_l2_up(piece, l1bm, c);
            if (l2.empty()) {
                lacking_ = "a destination of whole steps";
                return std::nullopt;
            }
            State required = lengthened(l2.front().state, round_up(l2.front().state.table.words(), 4 * pes));
            if (required.table.words() > *room) {
                lacking_ = fmt::format("{} LW of scratch in l1bm", required.table.words());
                return std::nullopt;
            }
            after.push_back(std::move(l2.front()));
            std::vector<Hop> l1 = pull_l1_up(required, m, *base + i * columns, c);
            put(wanted.table, i * columns, l1.front().state.table);
            after.push_back(std::move(l1.front()));
        }
        return wanted;
    }

    bool pe_to_l2bm(State &state, std::vector<Hop> &list) {
        const auto room = l1bm_room();
        if (!room) return false;
        const int64_t l1bm = range_of(hops.scratch, Memory::L1bm).begin;
        const int64_t pes = c.pes_per_l1b(), grain = grain_of(Memory::L1bm, c);
        const int64_t columns = std::min(*room, round_up(state.table.words() * pes, grain)) / pes;
        const int64_t parts = (state.table.words() + columns - 1) / columns, words = columns * pes * c.l1bs;
        const auto base = reserve(Memory::L2bm, parts * words);
        if (!base) return false;
        State image{Memory::L2bm, *base, Contents(Memory::L2bm, c.total_l2bs(), parts * words, state.table.lanes())};
        for (int64_t i = 0; i < parts; i++) {
            std::vector<Hop> l1 = push_l1_up(part(state, i * columns, columns), l1bm, c);
            std::vector<Hop> l2 = push_l2_up(l1.front().state, *base + i * words, c);
            if (l2.empty()) {
                lacking_ = "scratch in l1bm at lower addresses";
                return false;
            }
            put(image.table, i * words, l2.front().state.table);
            list.push_back(std::move(l1.front()));
            list.push_back(std::move(l2.front()));
        }
        state = std::move(image);
        return true;
    }

    bool to_top(State &state) {
        std::vector<Hop> list;
        if (top_ == Memory::L1bm) {
            if (rank_of(state.memory) == 3 &&
                !take(state, Memory::L1bm, list, [&](const State &s, int64_t b) { return push_l1_up(s, b, c); }))
                return false;
            for (const Hop &m : list) append(m);
            return true;
        }
        const bool off = rank_of(state.memory) == 0;
        if (!off && c.total_l2bs() > 1 && hops.scratch.tag_begin >= hops.scratch.tag_end) {
            lacking_ = "a tag for moves among L2BMs";
            return false;
        }
        if (off && !take(state, Memory::L2bm, list,
                         [&](const State &s, int64_t b) { return push_in(s, b, true, hops.tag(), c); }))
            return false;
        if (rank_of(state.memory) == 3 && !pe_to_l2bm(state, list)) return false;
        if (rank_of(state.memory) == 2 &&
            !take(state, Memory::L2bm, list, [&](const State &s, int64_t b) { return push_l2_up(s, b, c); }))
            return false;
        if (!off && c.total_l2bs() > 1 && !take(state, Memory::L2bm, list, [&](const State &s, int64_t b) {
                return push_across(s, b, hops.tag(), c);
            }))
            return false;
        for (const Hop &m : list) append(m);
        return true;
    }

    // Every L2BM has the image. It is sent window by window to all PEs, which keep what they need.
    bool deliver(const State &image, const State &wanted) {
        const int64_t window = int64_t(sim::cycles_per_step) * c.links.l2_broadcast;
        const int lanes = wanted.table.lanes();
        const Memory show = roomiest(wanted.memory);
        const bool by_l2 = top_ == Memory::L2bm;
        int64_t room = range_of(hops.scratch, show).words() - (show >= Memory::Grf0 ? 32 : 0);
        if (by_l2) room = std::min(room, range_of(hops.scratch, Memory::L1bm).words());
        const int64_t chunk = room / window * window;
        if (chunk < window) {
            const bool l1 = by_l2 && range_of(hops.scratch, Memory::L1bm).words() < window;
            lacking_ =
                fmt::format("{} LW of scratch in {}", window, l1 ? "l1bm" : "lm0 or lm1, beside the other data there");
            return false;
        }
        const std::optional<int64_t> l1bm = by_l2 ? reserve(Memory::L1bm, chunk) : std::nullopt;
        const int64_t at = *reserve(show, chunk);
        std::vector<bool> missing = elements_of(wanted.table);
        for (int64_t w = 0; w < image.table.words();) {
            std::vector<bool> here(missing.size());
            std::vector<int64_t> windows; // the next ones with missing elements
            for (; w < image.table.words() && int64_t(windows.size()) < chunk / window; w += window)
                if (find_missing(image.table, w, window, missing, here)) windows.push_back(w);
            if (windows.empty()) continue;
            const Hop down = show_windows(image, windows, show, at, l1bm);
            append(down);
            State want = wanted;
            for (int u = 0; u < want.table.units(); u++)
                for (int64_t a = 0; a < want.table.words(); a++)
                    for (int l = 0; l < lanes; l++)
                        if (int32_t &e = want.table.at(u, a)[l]; e >= 0 && !here[size_t(e)]) e = untouched;
            const auto taken = hops.match_pe(down.state, want);
            if (!taken) {
                lacking_ =
                    "32 LW of scratch in grf0 or grf1, a mask entry, and 4 LW of scratch in the memories of the PEs";
                return false;
            }
            append(*taken);
        }
        if (std::find(missing.begin(), missing.end(), true) != missing.end())
            throw InternalError("an element of a move's destination is not in its source");
        return true;
    }
    // By element, up to the last: whether a unit wants it.
    static std::vector<bool> elements_of(const Contents &wanted) {
        std::vector<bool> all;
        for (int u = 0; u < wanted.units(); u++)
            for (int64_t a = 0; a < wanted.words(); a++)
                for (int l = 0; l < wanted.lanes(); l++) {
                    const int32_t e = wanted.at(u, a)[l];
                    if (e < 0) continue;
                    if (size_t(e) >= all.size()) all.resize(size_t(e) + 1);
                    all[size_t(e)] = true;
                }
        return all;
    }
    // Marks the missing elements of a window as here. Returns whether there are any.
    static bool find_missing(const Contents &image, int64_t begin, int64_t window, std::vector<bool> &missing,
                             std::vector<bool> &here) {
        bool any = false;
        for (int64_t a = begin; a < std::min(begin + window, image.words()); a++)
            for (int l = 0; l < image.lanes(); l++)
                if (const int32_t e = image.at(0, a)[l]; e >= 0 && size_t(e) < missing.size() && missing[size_t(e)])
                    here[size_t(e)] = true, missing[size_t(e)] = false, any = true;
        return any;
    }
    // Sends windows of the image to all PEs; from L2BMs through L1BMs, at `l1bm`.
    Hop show_windows(const State &image, const std::vector<int64_t> &windows, Memory show, int64_t at,
                     std::optional<int64_t> l1bm) {
        const int64_t window = int64_t(sim::cycles_per_step) * c.links.l2_broadcast;
        const int lanes = image.table.lanes();
        State shown{show, at, Contents(show, c.total_pes(), int64_t(windows.size()) * window, lanes)};
        Hop down{shown,
                 {},
                 fmt::format("l2bm -> l1bm -> {}: {} l2.bcast, {} l1.pe.2", name_of(show), windows.size(),
                             windows.size() * size_t(window) / 8)};
        for (size_t i = 0; i < windows.size(); i++) {
            const int64_t to = int64_t(i) * window;
            // The last window ends at the end of the memory.
            const int64_t first = std::min(image.base + windows[i], size_of(image.memory, c) - window) - image.base;
            if (l1bm) {
                MicroOp op;
                op.word().l2.op = sim::L2Op::Broadcast;
                op.word().l2.l2bm.at = uint16_t(image.base + first);
                op.word().l2.l1bm.at = uint16_t(*l1bm + to);
                down.ops.push_back(op);
            } else {
                show_window(image.base + first, show, at + to, down);
            }
            Contents &table = down.state.table;
            for (int u = 0; u < table.units(); u++)
                for (int64_t x = 0; x < window; x++)
                    if (first + x >= 0 && first + x < image.table.words())
                        std::copy_n(image.table.at(u / (c.total_pes() / image.table.units()), first + x), lanes,
                                    table.at(u, to + x));
        }
        for (size_t i = 0; i < windows.size() && l1bm; i++)
            show_window(*l1bm + int64_t(i) * window, show, at + int64_t(i) * window, down);
        return down;
    }
    void show_window(int64_t l1bm, Memory show, int64_t at, Hop &made) {
        const int64_t window = int64_t(sim::cycles_per_step) * c.links.l2_broadcast;
        const std::vector<Hop> forms =
            push_l1_down({Memory::L1bm, l1bm, Contents(Memory::L1bm, c.total_l1bs(), window, 4)}, show, at, c);
        made.ops.insert(made.ops.end(), forms.back().ops.begin(), forms.back().ops.end());
    }
};

} // namespace

std::optional<Route> route(const State &from, const State &to, Memory top, const Scratch &scratch,
                           const sim::Config &config, std::string &lacking) {
    return Router(top, scratch, config, lacking).run(from, to);
}

} // namespace kumiko::chip
