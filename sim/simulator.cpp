#include "sim/simulator.h"

#include "sim/engine/runner.h"
#include "support/names.h"

#include <fmt/format.h>

namespace kumiko::sim {

namespace {

std::vector<const Kernels *> all_kernels() {
    std::vector<const Kernels *> all;
    for (const Kernels *k : {avx512_kernels(), avx2_kernels(), baseline_kernels()})
        if (k) all.push_back(k);
    return all;
}

const Kernels &find_kernels(const std::string &name) {
    const std::vector<const Kernels *> all = all_kernels();
    if (name.empty()) return *all.front();
    for (const Kernels *k : all)
        if (name == k->name) return *k;
    throw UserError(
        fmt::format("this machine cannot run host instructions '{}'{}", name, suggest(name, host_instructions())));
}

} // namespace

std::vector<std::string> host_instructions() {
    std::vector<std::string> names;
    for (const Kernels *k : all_kernels()) names.push_back(k->name);
    return names;
}

struct Simulator::State {
    State(const Config &c, const SimulateOptions &o)
        : config(c), options(o), kernels(find_kernels(o.instructions)), chip(config) {}

    Config config;
    SimulateOptions options;
    const Kernels &kernels;
    ChipState chip;

    void check(Place place, int unit, int64_t address) const {
        const int units = place == Place::L1bm   ? config.total_l1bs()
                          : place == Place::L2bm ? config.total_l2bs()
                                                 : config.total_pes();
        const int64_t sizes[] = {config.sizes.lm,   config.sizes.lm,  config.sizes.grf, config.sizes.grf, 8,
                                 config.sizes.l1bm, config.sizes.l2bm};
        if (unit < 0 || unit >= units) throw UserError(fmt::format("there is no unit {}; there are {}", unit, units));
        if (address < 0 || address >= sizes[int(place)])
            throw UserError(fmt::format("address {} is outside a memory of {} LW", address, sizes[int(place)]));
    }
    uint64_t *word(Place place, int unit, int64_t address) const {
        check(place, unit, address);
        if (place == Place::L1bm) return chip.l1bm_words(size_t(unit)) + address;
        if (place == Place::L2bm) return chip.l2bm_words(size_t(unit)) + address;
        return reinterpret_cast<uint64_t *>(chip.pe[size_t(place)][size_t(address)]) + unit;
    }
};

Simulator::Simulator(const Config &config, const SimulateOptions &options)
    : state_(std::make_unique<State>(config, options)) {
    config.check(config.name);
}
Simulator::~Simulator() = default;
Simulator::Simulator(Simulator &&) noexcept = default;

const Config &Simulator::config() const { return state_->config; }

Run Simulator::run(const Program &program, HostMemory &memory) {
    if (memory.groups() != state_->config.groups || memory.size(HostMemory::Space::Dram) != state_->config.sizes.dram ||
        memory.size(HostMemory::Space::Pdm) != state_->config.sizes.pdm)
        throw UserError("the memory was made for another machine");
    Runner runner(state_->config, state_->options, state_->kernels, state_->chip, program, memory);
    return runner.run();
}

uint64_t Simulator::read(Place place, int unit, int64_t address) const { return *state_->word(place, unit, address); }

bool Simulator::defined(Place place, int unit, int64_t address) const {
    state_->check(place, unit, address);
    const ChipState &c = state_->chip;
    if (place == Place::L1bm) return c.l1bm_defined.all(size_t(unit), size_t(address), 1);
    if (place == Place::L2bm) return c.l2bm_defined.all(size_t(unit), size_t(address), 1);
    return c.defined[size_t(place)].first_undefined(size_t(address), 8 * size_t(unit), 8) < 0;
}

void Simulator::write(Place place, int unit, int64_t address, uint64_t value) {
    *state_->word(place, unit, address) = value;
    ChipState &c = state_->chip;
    if (place == Place::L1bm)
        c.l1bm_defined.set(size_t(unit), size_t(address), 1);
    else if (place == Place::L2bm)
        c.l2bm_defined.set(size_t(unit), size_t(address), 1);
    else
        c.defined[size_t(place)].add_bytes(size_t(address), 8 * size_t(unit), 8);
}

Run simulate(const Program &program, const Config &config, HostMemory &memory, const SimulateOptions &options) {
    return Simulator(config, options).run(program, memory);
}

} // namespace kumiko::sim
