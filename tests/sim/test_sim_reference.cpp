// Compares the simulator with an independent implementation of every operation, on random programs.
// Timeout: 900
// Sanitized: --test-case=some*
// Cost: 40
#include "tests/sim/random_program.h"
#include "tests/sim/reference.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

using namespace kumiko;
using namespace kumiko::sim;

namespace {

using Place = Simulator::Place;

struct Memories {
    std::vector<uint64_t> pe[5], l1bm, l2bm, dram;
    bool operator==(const Memories &) const = default;
};

// Fills both with the same random contents.
template<typename Set>
void fill(const Config &c, uint64_t seed, Set &&set) {
    Random r(seed);
    const int64_t sizes[] = {c.sizes.lm, c.sizes.lm, c.sizes.grf, c.sizes.grf, 8, c.sizes.l1bm, c.sizes.l2bm};
    const int units[] = {c.total_pes(), c.total_pes(),  c.total_pes(), c.total_pes(),
                         c.total_pes(), c.total_l1bs(), c.total_l2bs()};
    for (int place = 0; place < 7; place++)
        for (int u = 0; u < units[place]; u++)
            for (int64_t a = 0; a < sizes[place]; a++) set(Place(place), u, a, random_lw(r));
}

void fill_memory(const Config &c, uint64_t seed, HostMemory &m) {
    Random r(seed ^ 77);
    for (int g = 0; g < c.groups; g++) {
        std::vector<uint64_t> words(static_cast<size_t>(c.sizes.dram));
        for (auto &w : words) w = random_lw(r);
        m.write_dram(g, 0, words);
        m.write(HostMemory::Space::Pdm, g, 0, std::span(words).first(size_t(c.sizes.pdm)));
    }
}

std::string first_difference(const Config &c, const Simulator &s, const reference::Chip &ref, const HostMemory &a,
                             const HostMemory &b) {
    const std::vector<std::vector<uint64_t>> *places[] = {&ref.lm[0], &ref.lm[1], &ref.grf[0], &ref.grf[1],
                                                          &ref.t,     &ref.l1bm,  &ref.l2bm};
    constexpr const char *names[] = {"LM0", "LM1", "GRF0", "GRF1", "T", "L1BM", "L2BM"};
    for (int place = 0; place < 7; place++)
        for (size_t u = 0; u < places[place]->size(); u++)
            for (size_t i = 0; i < (*places[place])[u].size(); i++) {
                const uint64_t want = (*places[place])[u][i], found = s.read(Place(place), int(u), int64_t(i));
                if (want != found)
                    return fmt::format("{}[{}] of unit {}: {:016x}, expected {:016x}", names[place], i, u, found, want);
            }
    for (const auto space : {HostMemory::Space::Dram, HostMemory::Space::Pdm}) {
        std::vector<uint64_t> x(size_t(a.size(space))), y = x;
        for (int g = 0; g < c.groups; g++) {
            a.read(space, g, 0, x), b.read(space, g, 0, y);
            for (size_t i = 0; i < x.size(); i++)
                if (x[i] != y[i])
                    return fmt::format("memory {} of group {}: {:016x}, expected {:016x}", i, g, x[i], y[i]);
        }
    }
    return "";
}

// Runs a random program both ways with all host instructions; "" if they agree.
std::string compare(uint64_t seed, const Config &c, int parts) {
    RandomProgram g(seed, c);
    // All faces start fully written.
    for (uint8_t face = 0; face < 2; face++)
        for (uint8_t part = 0; part < 2; part++) {
            Word w;
            w.mw = {true, Type::F16, face, part, 2, Source::None};
            w.mw.from = w.read(lm0(int(g.r.below(8)), 2));
            g.emit(w);
        }
    const Program p = g.make(parts);
    HostMemory expected_memory(c);
    fill_memory(c, seed, expected_memory);
    reference::Chip ref(c, expected_memory);
    fill(c, seed, [&](Place place, int u, int64_t a, uint64_t v) {
        std::vector<std::vector<uint64_t>> *places[] = {&ref.lm[0], &ref.lm[1], &ref.grf[0], &ref.grf[1],
                                                        &ref.t,     &ref.l1bm,  &ref.l2bm};
        (*places[int(place)])[size_t(u)][size_t(a)] = v;
    });
    ref.run(p);
    uint64_t cycles = 0;
    for (const std::string &host : host_instructions()) {
        SimulateOptions o;
        o.instructions = host;
        o.undefined = Undefined::Zero;
        Simulator s(c, o);
        fill(c, seed, [&](Place place, int u, int64_t a, uint64_t v) { s.write(place, u, a, v); });
        HostMemory memory(c);
        fill_memory(c, seed, memory);
        try {
            const Run run = s.run(p, memory);
            if (cycles && run.cycles() != cycles)
                return fmt::format("{}: {} cycles, before {}", host, run.cycles(), cycles);
            cycles = run.cycles();
        } catch (const std::exception &e) {
            return e.what();
        }
        const std::string difference = first_difference(c, s, ref, memory, expected_memory);
        if (!difference.empty()) return host + ": " + difference;
    }
    return "";
}

// Shrinks a failing program to a readable part that still fails.
void check(uint64_t seed, const Config &c) {
    const std::string found = compare(seed, c, 6);
    if (found.empty()) return;
    int parts = 1;
    while (parts < 6 && compare(seed, c, parts).empty()) parts++;
    RandomProgram g(seed, c);
    FAIL("seed " << seed << ", " << parts << " parts: " << compare(seed, c, parts) << "\n"
                 << disassemble(g.make(parts)));
}

} // namespace

TEST_CASE("some random programs do what the reference does, on all host instructions") {
    const Config tiny = tiny_config(), small = Config::load("small");
    for (uint64_t seed = 1; seed <= 30; seed++) check(seed, tiny);
    for (uint64_t seed = 1; seed <= 5; seed++) check(seed, small);
}

TEST_CASE("further programs") {
    const Config tiny = tiny_config(), small = Config::load("small");
    for (uint64_t seed = 31; seed <= 250; seed++) check(seed, tiny);
    for (uint64_t seed = 6; seed <= 60; seed++) check(seed, small);
}
