// Transfers from one memory of the PEs to another without leaving the MABs: the ALU copies words to
// other addresses, rotates them among the four PEs, and shifts and swaps their lanes; masks select
// the receivers. Masks by unit allow any arrangement, if every MAB holds what its PEs need.
//
// One file, because it is one search over one table of contents.
#include "targets/chip/move/stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>

namespace kumiko::chip {

using namespace sim;

namespace {

// The receivers: all; one PE of each MAB; some lanes in all PEs; one PE of the chip; one lane of
// it.
enum class Who : uint8_t { All, Pe, Lanes, Unit, UnitLane };

// The transformation of a word in transit.
struct Change {
    Who who = Who::All;
    int unit = 0;       // of Pe, Unit, UnitLane
    unsigned lanes = 0; // Lanes: set of 16-bit lanes; UnitLane: the element's lane
    int rotate = 0;
    bool swap = false; // the halves of the word
    int shift = 0;     // lanes up (1) or down (−1) inside each half
    int width = 1;
    auto operator<=>(const Change &) const = default;
};

struct Pair {
    int64_t to, from; // addresses in the tables
};

uint64_t splat16(uint64_t v) { return (v & 0xffff) * 0x1000100010001; }
int bits(int count) { return int(std::bit_width(unsigned(count - 1))); }

// Emits the steps. Constants for masks by unit are in a GRF and are created on first use.
class Emitter {
public:
    Emitter(const Config &config, const Scratch &scratch, const State &from, const State &to)
        : c(config), s(scratch), x(from.memory), y(to.memory), from_base(from.base), to_(to) {
        for (const Memory m : {Memory::Grf1, Memory::Grf0})
            if (const auto &r = range_of(s, m); !has_grf && r.words() >= constants + 20)
                grf = m, z = r.begin, has_grf = true;
    }
    Ops ops;
    int masked = 0;

    bool can_compare() const { return has_grf && s.mask_end > s.mask_begin; }

    // Emits the pairs of one change, four per step (at most four in all for Lanes, Unit, UnitLane).
    // `fillers` are addresses for unused cycles.
    void queue(const Change &change, std::vector<Pair> pairs, std::array<int64_t, 4> fillers) {
        batch_.push_back({change, std::move(pairs), fillers});
        if (int(batch_.size()) >= std::max(1, s.mask_end - s.mask_begin)) flush();
    }
    void flush() {
        // All masks of a batch first, so that other work hides their latency.
        int entry = s.mask_begin;
        std::vector<int> entries;
        for (const Step &step : batch_) {
            const bool computed = step.change.who >= Who::Lanes;
            entries.push_back(computed ? entry : step.change.who == Who::Pe ? 16 + step.change.unit : 0);
            if (computed) make_mask(step, entry++);
        }
        for (size_t i = 0; i < batch_.size(); i++) emit(batch_[i], entries[i]);
        batch_.clear();
    }

private:
    static constexpr int64_t constants =
        12; // LW: the unit's number, the lanes' numbers, and one that equals nothing; four of each
    struct Step {
        Change change;
        std::vector<Pair> pairs;
        std::array<int64_t, 4> fillers;
    };
    const Config &c;
    const Scratch &s;
    Memory x, y, grf = Memory::Grf1;
    int64_t from_base;
    const State &to_;
    int64_t z = 0;
    bool has_grf = false, made_ = false;
    std::vector<Step> batch_;

    // A destination; None: only the forward.
    struct To {
        std::optional<Memory> memory;
        std::array<int64_t, 4> at{};
    };
    // Appends an operation. `follows`: in the step after the one before it, whose forward it reads.
    Word &alu(AluOp op, Type type, int width, const Operand &a, const Operand *b, const To &to, bool follows) {
        if (follows)
            ops.back().next();
        else
            ops.emplace_back();
        Word &w = ops.back().word();
        w.alu.op = op;
        w.alu.type = type;
        w.alu.width = uint8_t(width);
        w.alu.a = w.read(a);
        if (b) w.alu.b = w.read(*b);
        if (to.memory) w.alu.to = w.write({port(*to.memory, to.at)});
        return w;
    }
    Operand in_grf(int64_t at, int64_t stride) const {
        return port(grf, {z + at, z + at + stride, z + at + 2 * stride, z + at + 3 * stride});
    }
    To to_grf(int64_t at, int64_t stride) const {
        return {grf, {z + at, z + at + stride, z + at + 2 * stride, z + at + 3 * stride}};
    }

    // uid = PE | MAB | L1B | L2B of the chip, each in as many bits as it needs.
    int64_t uid(int unit) const {
        const int pe = unit % 4, mab = unit / 4 % c.mabs, l1b = unit / 4 / c.mabs % c.l1bs,
                  l2b = unit / 4 / c.mabs / c.l1bs;
        return pe | mab << 2 | l1b << (2 + bits(c.mabs)) | int64_t(l2b) << (2 + bits(c.mabs) + bits(c.l1bs));
    }
    void make_constants() {
        made_ = true;
        // A level with a single unit here may stand for many identical units, so its number is
        // excluded (a shift by 32 gives 0).
        const Operand id = unit_id(), sixteen = immediate_i32(16);
        const Operand low = immediate((c.l1bs > 1 ? uint64_t(0xffff) << 32 : 0) | 0xffff);
        const Operand spread =
            immediate(uint64_t(c.total_l2bs() > 1 ? bits(c.l1bs) : 32) << 32 | (c.mabs > 1 ? 2 : 32));
        const Operand up = immediate_i32(2 + bits(c.mabs));
        const Operand forward = aluf(), two = immediate_i16(2), numbers = immediate(lane_numbers());
        const Operand xs = in_grf(12, 1), low_words = in_grf(16, 2);
        alu(AluOp::Shr, Type::U32, 1, id, &sixteen, {}, false); // (MAB, L2B)
        // To their bit positions.
        alu(AluOp::Shl, Type::U32, 1, forward, &spread, to_grf(12, 1), true);
        alu(AluOp::And, Type::I32, 1, id, &low, {}, false); // (PE, L1B)
        // (PE and MAB, L1B and L2B).
        alu(AluOp::Add, Type::I32, 1, forward, &xs, {}, true);
        // Each in its own word.
        alu(AluOp::Widen, Type::U16, 1, forward, nullptr, to_grf(16, 2), true);
        alu(AluOp::Shl, Type::U32, 1, in_grf(17, 2), &up, {}, false);
        alu(AluOp::Add, Type::I32, 1, forward, &low_words, to_grf(24, 2), true); // (uid, 0)
        // duplicated.
        alu(AluOp::Pass, Type::I32, 1, forward, nullptr, to_grf(25, 2), true);
        // (uid, 0, uid, 0).
        alu(AluOp::Narrow, Type::I32, 1, in_grf(24, 2), nullptr, to_grf(12, 1), false);
        alu(AluOp::Shl, Type::U32, 1, xs, &sixteen, {}, false);
        alu(AluOp::Add, Type::I32, 1, forward, &xs, to_grf(0, 1), true); // uid in all lanes
        alu(AluOp::Shl, Type::U16, 1, forward, &two, {}, true);
        alu(AluOp::Add, Type::U16, 1, forward, &numbers, to_grf(4, 1), true); // 4·uid + lane
        alu(AluOp::Pass, Type::I32, 1, immediate(~uint64_t(0)), nullptr, to_grf(8, 1), false);
    }
    uint64_t lane_numbers() const { return to_.table.lanes() == 4 ? 0x0003000200010000 : 0x0001000100000000; }

    void make_mask(const Step &step, int entry) {
        const Change &h = step.change;
        if (h.who == Who::Lanes) {
            uint64_t set = 0;
            for (size_t t = 0; t < step.pairs.size(); t++) set |= uint64_t(h.lanes) << (4 * t);
            alu(AluOp::SetMask, Type::I16, 1, immediate(set), nullptr, {}, false).alu.mask = uint8_t(entry);
            masked++;
            return;
        }
        if (!made_) make_constants();
        std::array<int64_t, 4> at{};
        for (size_t t = 0; t < 4; t++)
            at[t] = z + int64_t(t) + (t >= step.pairs.size() ? 8 : h.who == Who::UnitLane ? 4 : 0);
        const int64_t number = h.who == Who::Unit ? uid(h.unit) : 4 * uid(h.unit) + h.lanes;
        const Operand value = immediate(splat16(uint64_t(number)));
        alu(AluOp::Eq, Type::I16, 1, port(grf, at), &value, {}, false).alu.mask = uint8_t(entry);
        masked++;
    }

    void emit(const Step &step, int entry) {
        const Change &h = step.change;
        std::array<int64_t, 4> sources{}, targets{};
        for (size_t t = 0; t < 4; t++) {
            const bool used = t < step.pairs.size();
            sources[t] = from_base + step.pairs[used ? t : 0].from;
            targets[t] = used ? to_.base + step.pairs[t].to : step.fillers[t];
        }
        Operand current = port(x, sources);
        const Operand forward = aluf();
        bool forwarded = false;
        const bool one_port = x == y && x <= Memory::Lm1;
        const To target{y, targets};
        const auto mask = [&](Word &w) {
            if (h.who != Who::All) w.mask = {MaskMode::Write, uint8_t(entry), false};
        };
        const auto step_to_forward = [&](Word &) {
            current = forward;
            forwarded = true;
        };
        if (h.rotate) {
            const bool last = !h.swap && !h.shift && !one_port;
            Word &w = alu(AluOp::Rotate, Type::I16, h.width, current, nullptr, last ? target : To{}, forwarded);
            w.alu.rotate = uint8_t(h.rotate);
            if (last) return mask(w);
            step_to_forward(w);
        }
        if (h.swap) {
            // Three words per cycle: the two widened ones, then the first again.
            alu(AluOp::Widen, Type::U16, 1, current, nullptr, to_grf(12, 3), forwarded);
            alu(AluOp::Pass, Type::I32, 1, in_grf(12, 3), nullptr, to_grf(14, 3), false);
            step_to_forward(alu(AluOp::Narrow, Type::I32, 1, in_grf(13, 3), nullptr, {}, false));
        }
        if (h.shift) {
            const Operand sixteen = immediate_i32(16);
            if (!forwarded && x == Memory::Lm0) // an immediate excludes LM0
                step_to_forward(alu(AluOp::Pass, Type::I16, 1, current, nullptr, {}, forwarded));
            step_to_forward(alu(h.shift > 0 ? AluOp::Shl : AluOp::Shr, Type::U32, 1, current, &sixteen, {}, forwarded));
        }
        if (!forwarded && one_port)
            step_to_forward(alu(AluOp::Pass, Type::I16, h.width, current, nullptr, {}, forwarded));
        mask(alu(AluOp::Pass, Type::I16, h.width, current, nullptr, target, forwarded));
    }
};

class Matcher {
public:
    Matcher(const Config &config, const Scratch &scratch, const State &from, const State &to, bool thorough)
        : want(to.table), have(from.table), s(scratch), from_(from), to_(to), finder(have),
          emitter(config, scratch, from, to), lanes(want.lanes()), units(want.units()), thorough_(thorough) {}

    std::optional<Hop> run() {
        for (int64_t a = 0; a < want.words(); a++)
            if (!column(a)) return std::nullopt;
        if (!steps()) return std::nullopt;
        Hop made{to_, std::move(emitter.ops), ""};
        made.text = fmt::format("{} -> {}: {} copies", name_of(from_.memory), name_of(to_.memory), made.ops.size());
        if (emitter.masked) made.text += fmt::format(", {} masks", emitter.masked);
        return made;
    }

private:
    const Contents &want, &have;
    const Scratch &s;
    const State &from_, &to_;
    Finder finder;
    Emitter emitter;
    int lanes, units;
    bool thorough_;
    std::map<Change, std::vector<Pair>> found;

    static int source_of(int unit, int rotate) { return unit / 4 * 4 + (unit + rotate) % 4; }

    // One address and rotation for all PEs that `chosen` selects; the others must not need the
    // word, unless a mask excludes them.
    template<typename Chosen>
    std::optional<std::pair<int, int64_t>> whole(int64_t a, Chosen &&chosen, bool masked) {
        for (int u = 0; u < units; u++) {
            if (!chosen(u) || !requires_element(want.at(u, a), lanes)) continue;
            for (int r = 0; r < 4; r++)
                for (const int64_t b : finder.find(source_of(u, r), want.at(u, a))) {
                    bool fits = true;
                    for (int v = 0; v < units && fits; v++)
                        if (chosen(v) || !masked) fits = satisfies(want.at(v, a), have.at(source_of(v, r), b), lanes);
                    if (fits) return std::pair{r, b};
                }
            return std::nullopt;
        }
        return std::nullopt;
    }

    // The change that moves lane `from` to lane `to`.
    Change lane_change(int from, int to) const {
        Change h;
        const int half = lanes / 2;
        h.swap = from / half != to / half;
        h.shift = to % half - from % half;
        return h;
    }
    unsigned lane_bits(int lane) const { return lanes == 4 ? 1u << lane : 3u << (2 * lane); }

    bool column(int64_t a) {
        bool any = false, kept = false;
        std::array<bool, 4> pes{};
        for (int u = 0; u < units; u++) {
            const bool w = requires_element(want.at(u, a), lanes);
            any = any || w;
            pes[size_t(u % 4)] = pes[size_t(u % 4)] || w;
            for (int l = 0; l < lanes; l++) kept = kept || want.at(u, a)[l] == untouched;
        }
        if (!any) return true;
        if (!kept)
            if (const auto w = whole(
                    a, [](int) { return true; }, false)) {
                Change h;
                h.rotate = w->first;
                found[h].push_back({a, w->second});
                return true;
            }
        // One PE of each MAB after the other.
        std::vector<std::pair<Change, int64_t>> parts;
        bool good = true;
        for (int p = 0; p < 4 && good; p++) {
            if (!pes[size_t(p)]) continue;
            const auto w = whole(
                a, [p](int u) { return u % 4 == p; }, true);
            good = w.has_value();
            if (!w) break;
            Change h;
            h.who = Who::Pe, h.unit = p, h.rotate = w->first;
            parts.push_back({h, w->second});
        }
        if (good) return add(a, parts);
        if (s.mask_end <= s.mask_begin) return false;
        // Lane by lane in all PEs.
        parts.clear();
        good = true;
        for (int k = 0; k < lanes && good; k++) good = lane_everywhere(a, k, parts);
        if (good) return add(a, parts);
        if (!thorough_ || !emitter.can_compare()) return false;
        // PE by PE.
        parts.clear();
        for (int u = 0; u < units; u++)
            if (requires_element(want.at(u, a), lanes) && !one_unit(a, u, parts)) return false;
        return add(a, parts);
    }

    bool add(int64_t a, const std::vector<std::pair<Change, int64_t>> &parts) {
        for (const auto &[h, b] : parts)
            if (h.swap && !emitter.can_compare()) return false;
        for (const auto &[h, b] : parts) found[h].push_back({a, b});
        return true;
    }

    bool lane_everywhere(int64_t a, int k, std::vector<std::pair<Change, int64_t>> &parts) {
        for (int u = 0; u < units; u++) {
            const int32_t e = want.at(u, a)[k];
            if (e < 0) continue;
            for (int r = 0; r < 4; r++)
                for (const int64_t b : finder.element(source_of(u, r), e))
                    for (int j = 0; j < lanes; j++) {
                        if (have.at(source_of(u, r), b)[j] != e) continue;
                        bool fits = true;
                        for (int v = 0; v < units && fits; v++)
                            fits = want.at(v, a)[k] == anything || want.at(v, a)[k] == have.at(source_of(v, r), b)[j];
                        if (!fits) continue;
                        Change h = lane_change(j, k);
                        h.who = Who::Lanes, h.lanes = lane_bits(k), h.rotate = r;
                        // Combine with other lanes that use the same transfer.
                        for (auto &[other, at] : parts) {
                            Change joined = h;
                            joined.lanes = other.lanes;
                            if (joined == other && at == b) {
                                other.lanes |= h.lanes;
                                return true;
                            }
                        }
                        parts.push_back({h, b});
                        return true;
                    }
            return false;
        }
        return true;
    }

    bool one_unit(int64_t a, int u, std::vector<std::pair<Change, int64_t>> &parts) {
        for (int r = 0; r < 4; r++)
            if (const auto at = finder.find(source_of(u, r), want.at(u, a)); !at.empty()) {
                Change h;
                h.who = Who::Unit, h.unit = u, h.rotate = r;
                parts.push_back({h, at.front()});
                return true;
            }
        for (int k = 0; k < lanes; k++) {
            const int32_t e = want.at(u, a)[k];
            if (e < 0) continue;
            std::optional<std::pair<Change, int64_t>> best;
            const auto effort = [](const Change &h) { return (h.rotate != 0) + 3 * h.swap + (h.shift != 0); };
            for (int r = 0; r < 4; r++)
                for (const int64_t b : finder.element(source_of(u, r), e))
                    for (int j = 0; j < lanes; j++) {
                        if (have.at(source_of(u, r), b)[j] != e) continue;
                        Change h = lane_change(j, k);
                        h.who = Who::UnitLane, h.unit = u, h.lanes = unsigned(k), h.rotate = r;
                        if (!best || effort(h) < effort(best->first)) best = {h, b};
                    }
            if (!best) return false;
            parts.push_back(*best);
        }
        return true;
    }

    // Makes pairs of consecutive words one step of two words per cycle.
    void widen() {
        Change plain, wide;
        wide.width = 2;
        const auto it = found.find(plain);
        if (it == found.end()) return;
        std::vector<Pair> narrow, pairs;
        const std::vector<Pair> &all = it->second;
        for (size_t i = 0; i < all.size(); i++) {
            const bool two = i + 1 < all.size() && all[i + 1].to == all[i].to + 1 && all[i + 1].from == all[i].from + 1;
            (two ? pairs : narrow).push_back(all[i]);
            i += two;
        }
        // A step with fewer than four saves nothing.
        while (pairs.size() % 4 && pairs.size() % 4 <= 2) {
            narrow.push_back(pairs.back());
            narrow.push_back({pairs.back().to + 1, pairs.back().from + 1});
            pairs.pop_back();
        }
        found.erase(it);
        if (!narrow.empty()) found[plain] = narrow;
        if (!pairs.empty()) found[wide] = pairs;
    }

    // Addresses for the cycles of a step that have no word to write: free ones, or spare memory.
    // `taken`: by words of the step.
    std::optional<std::array<int64_t, 4>> fillers_of(const Change &change, const std::vector<Pair> &four,
                                                     std::vector<bool> taken) const {
        const bool by_cycle = change.who >= Who::Lanes; // its masks disable unused cycles
        const Scratch::Range &spare = range_of(s, to_.memory);
        std::array<int64_t, 4> fillers{};
        // Constants are at the beginning of the spare range.
        int64_t next = 0, next_spare = std::max(spare.begin, spare.end - 8);
        const auto good = [&](int64_t a) {
            for (int j = 0; j < change.width; j++)
                if (taken[size_t(a + j)] || (!by_cycle && (forbidden[size_t(a + j)] || begun[size_t(a + j)])))
                    return false;
            return true;
        };
        for (size_t t = four.size(); t < 4; t++) {
            while (next + change.width <= want.words() && !good(next)) next++;
            if (next + change.width <= want.words()) {
                for (int j = 0; j < change.width; j++) taken[size_t(next + j)] = true;
                fillers[t] = to_.base + next;
            } else if (next_spare + change.width <= spare.end) {
                fillers[t] = next_spare;
                next_spare += change.width;
            } else {
                return std::nullopt;
            }
        }
        return fillers;
    }

    // Without harmless addresses: a mask by cycle, with addresses that it disables.
    bool queue_masked(const Change &change, const std::vector<Pair> &four) {
        if (change.who != Who::All || s.mask_end <= s.mask_begin || change.width != 1 || want.words() < 4) return false;
        Change masked = change;
        masked.who = Who::Lanes, masked.lanes = 15;
        std::vector<bool> taken(size_t(want.words()));
        for (const Pair &p : four) taken[size_t(p.to)] = true;
        std::array<int64_t, 4> fillers{};
        int64_t next = 0;
        for (size_t t = four.size(); t < 4; t++) {
            while (taken[size_t(next)]) next++;
            taken[size_t(next)] = true;
            fillers[t] = to_.base + next;
        }
        emitter.queue(masked, four, fillers);
        return true;
    }

    bool steps() {
        widen();
        begun.assign(size_t(want.words()), false), forbidden = begun;
        for (int64_t a = 0; a < want.words(); a++) forbidden[size_t(a)] = forbidden_anywhere(want, a);
        for (const auto &[change, pairs] : found) {
            for (size_t i = 0; i < pairs.size(); i += 4) {
                const std::vector<Pair> four(pairs.begin() + int64_t(i),
                                             pairs.begin() + int64_t(std::min(i + 4, pairs.size())));
                std::vector<bool> taken(size_t(want.words()));
                for (const Pair &p : four)
                    for (int j = 0; j < change.width; j++)
                        taken[size_t(p.to + j)] = true, begun[size_t(p.to + j)] = true;
                if (const auto fillers = fillers_of(change, four, std::move(taken)))
                    emitter.queue(change, four, *fillers);
                else if (!queue_masked(change, four))
                    return false;
            }
        }
        emitter.flush();
        return true;
    }

    std::vector<bool> begun, forbidden; // addresses that were written, and those that must not be
};

} // namespace

std::optional<Hop> Hops::match_pe(const State &from, const State &to) {
    return Matcher(config, scratch, from, to, thorough).run();
}

} // namespace kumiko::chip
