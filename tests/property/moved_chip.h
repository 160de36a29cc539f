// A simulated chip filled with random words, for moves: compares what arrives with what was sent.
#pragma once

#include "sim/simulator.h"
#include "support/random.h"
#include "targets/chip/move/move.h"

#include <fmt/format.h>

#include <functional>
#include <map>

namespace kumiko::chip {

struct MovedChip {
    const sim::Config &c;
    sim::Simulator simulator;
    sim::HostMemory host;

    // DRAM and PDM are filled up to this address.
    static constexpr int64_t filled = 4096;

    // Large machines stay empty; reading unwritten memory gives zero.
    explicit MovedChip(const sim::Config &config, uint64_t seed = 7)
        : c(config),
          simulator(config, {.undefined = config.total_pes() > 64 ? sim::Undefined::Zero : sim::Undefined::Error}),
          host(config) {
        Random r(seed);
        if (config.total_pes() > 64) return;
        for (int m = 0; m < memory_count; m++)
            for (int u = 0; u < units_of(Memory(m), c); u++)
                for (int64_t a = 0; a < (Memory(m) <= Memory::Pdm ? filled : size_of(Memory(m), c)); a++)
                    write(Memory(m), u, a, r());
    }

    uint64_t read(Memory m, int unit, int64_t at) const {
        if (m > Memory::Pdm) return simulator.read(place(m), unit, at);
        uint64_t w;
        host.read(space(m), unit, at, {&w, 1});
        return w;
    }
    void write(Memory m, int unit, int64_t at, uint64_t w) {
        if (m > Memory::Pdm) return simulator.write(place(m), unit, at, w);
        host.write(space(m), unit, at, {&w, 1});
    }
    uint64_t lane(Memory m, int unit, int64_t at, int l, int lanes) const {
        const uint64_t w = read(m, unit, at);
        return lanes == 4 ? w >> (16 * l) & 0xffff : w >> (32 * l) & 0xffffffff;
    }
    void set_lane(Memory m, int unit, int64_t at, int l, int lanes, uint64_t value) {
        const int bits = 64 / lanes;
        const uint64_t mask = (bits == 32 ? 0xffffffffull : 0xffffull) << (bits * l);
        write(m, unit, at, (read(m, unit, at) & ~mask) | value << (bits * l));
    }

    // Calls f(element number, unit, address, lane) for every place of the tensor.
    void each(const Placement &p, const std::function<void(int32_t, int, int64_t, int)> &f) const {
        const Contents all = contents(p, c);
        for (int u = 0; u < all.units(); u++)
            for (int64_t a = 0; a < all.words(); a++)
                for (int l = 0; l < all.lanes(); l++)
                    if (const int32_t e = all.at(u, a)[l]; e >= 0) f(e, u, p.base + a, l);
    }
    // Writes values to the tensor: those of `value`, or random ones.
    std::map<int32_t, uint64_t> send(const Placement &p, const std::function<uint64_t(int32_t)> &value = nullptr) {
        std::map<int32_t, uint64_t> values;
        const int lanes = elements_per_word(p.layout.type());
        each(p, [&](int32_t e, int u, int64_t a, int l) {
            const auto [it, fresh] = values.try_emplace(e, 0);
            if (fresh) {
                uint64_t state = sent_++;
                it->second = value ? value(e) : splitmix64(state) & (lanes == 4 ? 0xffff : 0xffffffff);
            }
            set_lane(p.memory, u, a, l, lanes, it->second);
        });
        return values;
    }
    // The first place with another value, or "".
    std::string differs(const Placement &p, const std::map<int32_t, uint64_t> &values) const {
        std::string found;
        const int lanes = elements_per_word(p.layout.type());
        each(p, [&](int32_t e, int u, int64_t a, int l) {
            const uint64_t is = lane(p.memory, u, a, l, lanes);
            if (found.empty() && is != values.at(e)) {
                Place place = place_of(u, p.memory, c);
                place.address = a, place.lane = l;
                found =
                    fmt::format("element {} at {}: {:#x}, not {:#x}", e, place.to_string(p.memory), is, values.at(e));
            }
        });
        return found;
    }
    sim::Run run(const Move &move) { return simulator.run(program_of(move, c), host); }

private:
    uint64_t sent_ = 1;
    static sim::Simulator::Place place(Memory m) {
        using Place = sim::Simulator::Place;
        constexpr Place places[] = {Place::L2bm, Place::L1bm, Place::Lm0, Place::Lm1, Place::Grf0, Place::Grf1};
        return places[int(m) - int(Memory::L2bm)];
    }
    static sim::HostMemory::Space space(Memory m) {
        return m == Memory::Dram ? sim::HostMemory::Space::Dram : sim::HostMemory::Space::Pdm;
    }
};

} // namespace kumiko::chip
