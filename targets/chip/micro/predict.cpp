// Predicts cycles without data: steps, the queues and ports of moves as docs/chip.md times them,
// and the tail.
#include "targets/chip/micro/micro_op.h"

#include <algorithm>
#include <deque>

namespace kumiko::chip {

using namespace sim;

namespace {

class MoveTimes {
public:
    explicit MoveTimes(const Config &config)
        : c(config), groups_(size_t(config.groups)), in_(size_t(config.total_l2bs())),
          out_(size_t(config.total_l2bs())) {}

    // Issues a move at `now`; returns the number of stall cycles.
    int64_t issue(const Mv &m, int64_t now) {
        const int64_t words = int64_t(m.blocks) * m.size * c.moves.block;
        const bool load = m.op == MvOp::Broadcast || m.op == MvOp::Scatter;
        const bool inside = m.op == MvOp::Copy || m.op == MvOp::ReduceTo;
        const bool dealt = m.op == MvOp::Scatter || m.op == MvOp::Gather;
        std::vector<int> units;
        for (int u = 0; u < c.total_l2bs(); u++)
            if (m.l2bs >> u & 1) units.push_back(u);
        struct Stream {
            int group;
            std::vector<int> l2bs;
        };
        std::vector<Stream> streams;
        for (int g = 0; g < c.groups && !inside; g++) {
            if (!(m.groups >> g & 1)) continue;
            streams.push_back({g, {}});
            for (const int u : units)
                if (m.chip || u / c.l2bs == g) streams.back().l2bs.push_back(u);
        }
        int64_t stall = 0;
        for (const Stream &s : streams) {
            auto &ends = groups_[size_t(s.group)].ends;
            while (!ends.empty() && ends.front() <= now) ends.pop_front();
            if (int(ends.size()) > c.moves.queue)
                stall = std::max(stall, ends[ends.size() - size_t(c.moves.queue) - 1] - now);
        }
        now += stall;
        int64_t begin = now + (m.pdm || inside ? c.moves.pdm_start : c.moves.dram_start), cycles = 0;
        const auto rounds = [](int64_t n, int64_t rate) { return (n + rate - 1) / rate; };
        std::vector<int> ins, outs;
        if (inside) {
            const bool across =
                std::any_of(units.begin(), units.end(), [&](int u) { return u / c.l2bs != m.child / c.l2bs; });
            cycles = rounds(words, across ? c.moves.across_rate : c.moves.l2bm_rate);
            (m.op == MvOp::Copy ? ins : outs) = units;
            (m.op == MvOp::Copy ? outs : ins).push_back(m.child);
        }
        const int direction = load ? 1 : 2;
        for (const Stream &s : streams) {
            Group &g = groups_[size_t(s.group)];
            const bool across = std::any_of(s.l2bs.begin(), s.l2bs.end(), [&](int u) { return u / c.l2bs != s.group; });
            const int rate = m.pdm        ? across ? c.moves.pdm_across_rate : c.moves.pdm_rate
                             : m.indirect ? c.moves.indirect_rate
                                          : c.moves.dram_rate;
            begin = std::max(begin, g.free);
            if (!m.pdm && g.direction && g.direction != direction)
                begin = std::max(begin, g.dram_end + c.moves.turnaround);
            const int64_t share = dealt ? words / int64_t(s.l2bs.size()) : words;
            cycles = std::max({cycles, rounds(words, rate), rounds(share, c.moves.l2bm_rate)});
            auto &ports = load ? ins : outs;
            ports.insert(ports.end(), s.l2bs.begin(), s.l2bs.end());
        }
        for (const int u : ins) begin = std::max(begin, in_[size_t(u)]);
        for (const int u : outs) begin = std::max(begin, out_[size_t(u)]);
        const int64_t end = begin + cycles;
        for (const int u : ins) in_[size_t(u)] = end;
        for (const int u : outs) out_[size_t(u)] = end;
        for (const Stream &s : streams) {
            Group &g = groups_[size_t(s.group)];
            g.free = end;
            g.ends.push_back(end);
            if (!m.pdm) g.dram_end = end, g.direction = direction;
        }
        complete_[m.tag] = std::max(complete_[m.tag], end);
        return stall;
    }
    int64_t complete(int tag) const { return complete_[size_t(tag)]; }
    int64_t last() const { return *std::max_element(complete_.begin(), complete_.end()); }

private:
    struct Group {
        int64_t free = 0, dram_end = 0;
        int direction = 0;
        std::deque<int64_t> ends;
    };
    const Config &c;
    std::vector<Group> groups_;
    std::vector<int64_t> in_, out_;
    std::array<int64_t, 16> complete_{};
};

// The number of steps after a word until all of its writes have arrived.
int settle_steps(const Word &w, const Config &c) {
    const Config::Gaps &g = c.gaps;
    int gap = 0;
    const uint8_t to = w.l1.to | w.mau.to | w.mr.to | w.alu.to;
    if (to & (ToLm0 | ToLm1)) gap = std::max(gap, g.lm);
    if (to & (ToGrf0 | ToGrf1)) gap = std::max(gap, g.grf);
    if (to & ToT) gap = std::max(gap, g.t);
    if (w.alu.mask) gap = std::max(gap, g.mask);
    if (w.control.base) gap = std::max(gap, g.base);
    if (w.mw.on) gap = std::max(gap, g.matrix);
    if (w.l1.op != L1Op::None && is_upward(w.l1.op)) gap = std::max(gap, g.l1bm_by_pe);
    switch (w.l2.op) {
    case L2Op::None:
        break;
    case L2Op::Gather:
    case L2Op::Reduce:
    case L2Op::UnicastUp:
        gap = std::max({gap, g.l2bm_l2, g.l2bm_mv});
        break;
    default:
        gap = std::max({gap, g.l1bm_by_l2, g.l1bm_l2_l2});
    }
    return gap;
}

} // namespace

int64_t predict_cycles(const std::vector<Word> &words, const Config &config) {
    MoveTimes moves(config);
    int64_t cycle = 0, step = 0, settled = 0;
    for (const Word &w : words) {
        if (w.control.wait) cycle = std::max(cycle, moves.complete(*w.control.wait));
        if (w.mv.op != MvOp::None) cycle += moves.issue(w.mv, cycle);
        step++;
        cycle += cycles_per_step;
        settled = std::max(settled, step + settle_steps(w, config));
    }
    return std::max(cycle + std::max<int64_t>(0, settled - step) * cycles_per_step, moves.last());
}

} // namespace kumiko::chip
