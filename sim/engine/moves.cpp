#include "sim/engine/moves.h"

#include "sim/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace kumiko::sim {

namespace {

HostMemory::Space space_of(const Mv &m) { return m.pdm ? HostMemory::Space::Pdm : HostMemory::Space::Dram; }

} // namespace

Moves::Moves(const Config &config, ChipState &chip, HostMemory &memory)
    : config_(config), chip_(chip), memory_(memory), clock_(config), dram_busy_(size_t(config.groups)) {}

std::vector<int> Moves::unit_numbers(uint32_t l2bs) const {
    std::vector<int> all;
    for (int u = 0; u < config_.total_l2bs(); u++)
        if (l2bs >> u & 1) all.push_back(u);
    return all;
}

std::vector<Moves::Stream> Moves::streams(const Mv &m) const {
    std::vector<Stream> all;
    if (is_inside(m)) return all;
    const std::vector<int> units = unit_numbers(m.l2bs);
    for (int g = 0; g < config_.groups; g++) {
        if (!(m.groups >> g & 1)) continue;
        Stream s{g, {}};
        for (const int u : units)
            if (m.chip || u / config_.l2bs == g) s.l2bs.push_back(u);
        all.push_back(std::move(s));
    }
    return all;
}

MoveTimes Moves::time(const Mv &m, uint64_t now) {
    const MoveDemand demand = demand_of(m, config_);
    for (size_t g = 0; g < dram_busy_.size() && demand.direction; g++)
        if (demand.groups >> g & 1) dram_busy_[g] += uint64_t(demand.cycles);
    return clock_.issue(demand, now);
}

std::vector<int64_t> Moves::granules(const Mv &m, int group) const {
    const int64_t count = words_of(m, config_) / config_.moves.granule;
    std::vector<uint64_t> table(size_t(count + 1) / 2);
    memory_.read(HostMemory::Space::Dram, group, m.table, table);
    std::vector<int64_t> at;
    for (int64_t i = 0; i < count; i++) {
        const uint32_t entry = uint32_t(table[size_t(i / 2)] >> (i % 2 ? 32 : 0));
        const int64_t address = int64_t(m.address) + int64_t(entry) * config_.moves.granule;
        if (address + config_.moves.granule > config_.sizes.dram)
            throw UserError(fmt::format("entry {} of the table is granule {}, which is outside DRAM of {} LW", i, entry,
                                        config_.sizes.dram));
        at.push_back(address);
    }
    return at;
}

template<typename F>
void Moves::each_block(const Mv &m, int group, F &&f) const {
    if (m.indirect) {
        for (const int64_t at : granules(m, group)) f(at, int64_t(config_.moves.granule));
        return;
    }
    for (int64_t i = 0; i < m.blocks; i++) f(int64_t(m.address) + i * m.stride, int64_t(m.size) * config_.moves.block);
}

void Moves::footprints(const Mv &m, PendingMove &out) const {
    const int64_t n = words_of(m, config_);
    out.tag = m.tag;
    out.in = is_load(m);
    std::vector<MoveFootprint> &l2bm = is_load(m) ? out.writes : out.reads,
                               &memory = is_load(m) ? out.reads : out.writes;
    const auto l2bm_range = [](uint32_t l2bs, int64_t at, int64_t count) {
        MoveFootprint f;
        f.l2bs = l2bs, f.l2bm = at, f.l2bm_words = count;
        return f;
    };
    if (is_inside(m)) {
        const bool copy = !info(m.op).reduces;
        out.reads.push_back(l2bm_range(copy ? 1u << m.child : m.l2bs, m.l2bm, n));
        out.writes.push_back(l2bm_range(copy ? m.l2bs : 1u << m.child, m.to, n));
        return;
    }
    for (const Stream &s : streams(m)) {
        uint32_t set = 0;
        for (const int u : s.l2bs) set |= 1u << u;
        l2bm.push_back(l2bm_range(set, m.l2bm, info(m.op).distributes ? n / int64_t(s.l2bs.size()) : n));
        MoveFootprint f;
        f.groups = 1u << s.group;
        f.pdm = m.pdm;
        if (m.indirect) {
            f.granules = granules(m, s.group);
            f.block = config_.moves.granule;
            std::sort(f.granules.begin(), f.granules.end());
            if (is_store(m) && std::adjacent_find(f.granules.begin(), f.granules.end()) != f.granules.end())
                throw UserError(fmt::format("the table names granule address {} twice, and the move writes it",
                                            *std::adjacent_find(f.granules.begin(), f.granules.end())));
            MoveFootprint table;
            table.groups = f.groups;
            table.address = m.table, table.blocks = 1, table.block = (n / config_.moves.granule + 1) / 2;
            out.reads.push_back(table);
        } else {
            f.address = m.address, f.stride = m.stride, f.blocks = m.blocks,
            f.block = int64_t(m.size) * config_.moves.block;
        }
        memory.push_back(std::move(f));
    }
}

// The words of a move in L2BMs.
class Moves::L2bmData {
public:
    L2bmData(ChipState &chip, const Mv &m, int64_t words, bool zero) : chip_(chip), m_(m), words_(words), zero_(zero) {}

    void append(int unit, int64_t at, int64_t count, std::vector<uint64_t> &to) const {
        const int64_t missing =
            zero_ ? -1 : chip_.l2bm_defined.first_undefined(size_t(unit), size_t(at), size_t(count));
        if (missing >= 0)
            throw UserError(fmt::format("it reads L2BM[{}] of L2B {}, which was never written", missing, unit));
        const uint64_t *from = chip_.l2bm_words(size_t(unit)) + at;
        to.insert(to.end(), from, from + count);
    }
    void put(int unit, int64_t at, const uint64_t *from, int64_t count) {
        std::memcpy(chip_.l2bm_words(size_t(unit)) + at, from, size_t(count) * 8);
        chip_.l2bm_defined.set(size_t(unit), size_t(at), size_t(count));
    }
    // Reduces pairs of neighbours level by level; an odd one is passed up.
    std::vector<uint64_t> reduce(const std::vector<int> &units) const {
        const Kernels &k = *baseline_kernels();
        std::vector<std::vector<uint64_t>> level;
        for (const int u : units) append(u, m_.l2bm, words_, level.emplace_back());
        const auto bytes = [](std::vector<uint64_t> &v) { return reinterpret_cast<uint8_t *>(v.data()); };
        while (level.size() > 1) {
            std::vector<std::vector<uint64_t>> above;
            for (size_t i = 0; i < level.size(); i += 2) {
                if (i + 1 < level.size())
                    k.combine[int(m_.reduction)](bytes(level[i]), bytes(level[i + 1]), bytes(level[i]),
                                                 size_t(words_) * 8);
                above.push_back(std::move(level[i]));
            }
            level = std::move(above);
        }
        return std::move(level.front());
    }

private:
    ChipState &chip_;
    const Mv &m_;
    int64_t words_;
    bool zero_;
};

void Moves::copy_data(const Mv &m, bool zero) {
    L2bmData l2bm(chip_, m, words_of(m, config_), zero);
    if (is_inside(m) && !info(m.op).reduces) {
        std::vector<uint64_t> data;
        l2bm.append(m.child, m.l2bm, words_of(m, config_), data);
        for (const int u : unit_numbers(m.l2bs)) l2bm.put(u, m.to, data.data(), int64_t(data.size()));
    } else if (is_inside(m)) {
        const std::vector<uint64_t> data = l2bm.reduce(unit_numbers(m.l2bs));
        l2bm.put(m.child, m.to, data.data(), int64_t(data.size()));
    }
    for (const Stream &s : streams(m)) {
        if (is_load(m))
            load_stream(m, s, zero, l2bm);
        else
            store_stream(m, s, l2bm);
    }
}

void Moves::load_stream(const Mv &m, const Stream &s, bool zero, L2bmData &l2bm) {
    const int64_t n = words_of(m, config_), block = config_.moves.block, units = int64_t(s.l2bs.size());
    std::vector<uint64_t> data(static_cast<size_t>(n));
    int64_t at = 0;
    each_block(m, s.group, [&](int64_t address, int64_t count) {
        const int64_t missing = zero ? -1 : memory_.first_undefined(space_of(m), s.group, address, count);
        if (missing >= 0)
            throw UserError(fmt::format("it reads {}[{}] of group {}, which was never written", m.pdm ? "PDM" : "DRAM",
                                        missing, s.group));
        memory_.read(space_of(m), s.group, address, {data.data() + at, size_t(count)});
        at += count;
    });
    for (int64_t u = 0; u < units; u++) {
        if (!info(m.op).distributes) {
            l2bm.put(s.l2bs[size_t(u)], m.l2bm, data.data(), n);
            continue;
        }
        for (int64_t b = u; b < n / block; b += units)
            l2bm.put(s.l2bs[size_t(u)], m.l2bm + b / units * block, data.data() + b * block, block);
    }
}

void Moves::store_stream(const Mv &m, const Stream &s, const L2bmData &l2bm) {
    const int64_t n = words_of(m, config_), block = config_.moves.block, units = int64_t(s.l2bs.size());
    std::vector<uint64_t> data;
    if (info(m.op).reduces) {
        data = l2bm.reduce(s.l2bs);
    } else {
        data.reserve(static_cast<size_t>(n));
        for (int64_t b = 0; b < n / block; b++)
            l2bm.append(s.l2bs[size_t(b % units)], m.l2bm + b / units * block, block, data);
    }
    data.resize(static_cast<size_t>(n));
    int64_t at = 0;
    each_block(m, s.group, [&](int64_t address, int64_t count) {
        memory_.write(space_of(m), s.group, address, {data.data() + at, size_t(count)});
        at += count;
    });
}

Moves::Traffic Moves::traffic(const Mv &m) const {
    Traffic t;
    const uint64_t bytes = uint64_t(words_of(m, config_)) * 8, units = unit_numbers(m.l2bs).size();
    if (is_inside(m)) return info(m.op).reduces ? Traffic{0, bytes, bytes * units} : Traffic{0, bytes * units, bytes};
    for (const Stream &s : streams(m)) {
        t.memory += bytes;
        (is_load(m) ? t.l2bm_in : t.l2bm_out) += info(m.op).distributes ? bytes : bytes * s.l2bs.size();
    }
    return t;
}

} // namespace kumiko::sim
