// A configuration of the simulated chip as a machine table.
#include "machine/machine.h"
#include "support/error.h"
#include "targets/chip/compile.h"

namespace kumiko {

bool is_chip(const std::string &machine) { return machine.rfind("chip:", 0) == 0; }

sim::Config chip_config(const std::string &machine) {
    if (!is_chip(machine))
        throw UserError("machine " + machine + " is not a chip; chips are named chip:small, chip:medium, chip:full");
    return sim::Config::load(machine.substr(5));
}

Machine chip_machine(const sim::Config &c) {
    Machine m;
    // The name by which compile_chip finds it again.
    m.name = "chip:" + (c.file.empty() ? c.name : c.file);
    m.description = "simulated chip, " + c.about;
    m.architecture = "chip";
    m.clock_ghz = c.clock_ghz;
    m.units = {{"group", c.groups}, {"L2B", c.l2bs}, {"L1B", c.l1bs}, {"MAB", c.mabs}, {"PE", sim::pes_per_mab}};
    const auto level = [&](const char *name, int64_t words, const char *scope, int shared, double rate) {
        m.memory.push_back({.name = name,
                            .bytes = words * 8,
                            .scope = scope,
                            .shared_by = shared,
                            .explicit_placement = true,
                            .bandwidth = rate * 8 * c.clock_ghz,
                            .line_bytes = 8});
    };
    const int l1b = c.pes_per_l1b(), l2b = l1b * c.l1bs, group = l2b * c.l2bs;
    level("GRF0", c.sizes.grf, "PE", 1, 2);
    level("GRF1", c.sizes.grf, "PE", 1, 2);
    level("LM0", c.sizes.lm, "PE", 1, 2);
    level("LM1", c.sizes.lm, "PE", 1, 2);
    level("LM", 2 * c.sizes.lm, "PE", 1, 4); // LM0 followed by LM1
    level("L1BM", c.sizes.l1bm, "L1B", l1b, l1b);
    level("L2BM", c.sizes.l2bm, "L2B", l2b, c.links.l2_scatter * c.l1bs);
    level("DRAM", c.sizes.dram, "group", group, c.moves.dram_rate);
    m.vector_bits = 64;
    m.vector_registers = int(2 * c.sizes.grf);
    m.fmas_per_cycle = 1; // of two fp32 values in a PE
    m.features = {"mfma"};
    m.check();
    return m;
}

} // namespace kumiko
