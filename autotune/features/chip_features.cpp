#include "autotune/features/chip_features.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

namespace kumiko {

namespace {

class ChipTable {
public:
    std::vector<std::string> names;
    std::vector<float> values;

    void log(const std::string &name, double x) { add(name, std::log2(std::max(x, 0.0) + 1)); }
    // log2 of a quotient, clamped to ±20; 0 if there is nothing to compare.
    void ratio(const std::string &name, double a, double b) {
        const bool known = a > 0 && b > 0;
        add(name, known ? std::clamp(std::log2(a / b), -20.0, 20.0) : a > 0 ? 20 : b > 0 ? -20 : 0);
    }
    void share(const std::string &name, double a, double b) { add(name, b > 0 ? std::clamp(a / b, 0.0, 64.0) : 0); }

private:
    void add(const std::string &name, double value) {
        names.push_back(name);
        values.push_back(std::isfinite(value) ? static_cast<float>(value) : 0.f);
    }
};

double upper_bound_of(const std::vector<int64_t> &all) {
    return all.empty() ? 1 : double(*std::max_element(all.begin(), all.end()));
}
double min_of(const std::vector<int64_t> &all) {
    return all.empty() ? 1 : double(*std::min_element(all.begin(), all.end()));
}

// Lower bound on the cycles of any program of the op: products at the matrix units' rate, other
// elements at two per cycle and PE, and each byte of its tensors once.
double min_cycles(const ChipCounts &c) {
    const sim::Config &m = c.config;
    const bool single = c.tally.matrix_f32 > c.tally.matrix_f16;
    const auto rate = double(std::max<int64_t>(1, single ? m.fp32_macs_per_cycle() : m.fp16_macs_per_cycle()));
    const double elements = std::max(0.0, c.points - c.bounds.macs) / (2.0 * std::max(1, m.total_pes()));
    const double bytes = c.bounds.compulsory_dram_bytes / double(std::max<int64_t>(1, m.dram_bytes_per_cycle()));
    return std::max({c.bounds.macs / rate, elements, bytes, 1.0});
}

void describe_units(ChipTable &t, const ChipCounts &c, double cycles) {
    const chip::Tally &n = c.tally;
    const auto steps = [&](const std::string &name, int64_t count) {
        t.share(name, double(count) * sim::cycles_per_step, cycles);
    };
    const std::pair<const char *, chip::Unit> units[] = {{"l2", chip::Unit::L2},
                                                         {"l1", chip::Unit::L1},
                                                         {"mw", chip::Unit::Mw},
                                                         {"mr", chip::Unit::Mr},
                                                         {"mau", chip::Unit::Mau},
                                                         {"alu", chip::Unit::Alu},
                                                         {"mask", chip::Unit::Mask},
                                                         {"t_read", chip::Unit::TRead},
                                                         {"grf0_read", chip::Unit::Grf0Read},
                                                         {"grf0_write", chip::Unit::Grf0Write},
                                                         {"grf1_read", chip::Unit::Grf1Read},
                                                         {"grf1_write", chip::Unit::Grf1Write},
                                                         {"lm0_read", chip::Unit::Lm0Read},
                                                         {"lm0_write", chip::Unit::Lm0Write},
                                                         {"lm1_read", chip::Unit::Lm1Read},
                                                         {"lm1_write", chip::Unit::Lm1Write}};
    for (const auto &[name, unit] : units) steps(std::string("unit.") + name, n.busy[size_t(unit)]);
    const char *const l1[] = {"pe_broadcast", "mab_broadcast", "mab_broadcast4", "scatter",
                              "gather",       "mab_reduce",    "mab_reduce4"};
    for (size_t i = 0; i < std::size(l1); i++) steps(std::string("l1.") + l1[i], n.l1[i + 1]);
    const char *const l2[] = {"broadcast", "broadcast2", "scatter", "unicast_down",
                              "multicast", "gather",     "reduce",  "unicast_up"};
    for (size_t i = 0; i < std::size(l2); i++) steps(std::string("l2.") + l2[i], n.l2[i + 1]);
    steps("matrix.f16", n.matrix_f16);
    steps("matrix.f32", n.matrix_f32);
    steps("vector.f16", n.vector_f16);
    steps("vector.f32", n.vector_f32);
    steps("rotations", n.rotations);
    // Work of the matrix units and PEs relative to the required work: padding, and idle units.
    const auto macs = double(n.matrix_f16) * double(c.config.fp16_macs_per_cycle()) +
                      double(n.matrix_f32) * double(c.config.fp32_macs_per_cycle());
    t.ratio("matrix.waste", macs * sim::cycles_per_step, c.bounds.macs);
    const auto lanes = double(n.vector_f16 + n.vector_f32 + n.busy[size_t(chip::Unit::Alu)]) * sim::cycles_per_step *
                       2 * c.config.total_pes();
    t.ratio("vector.waste", lanes, c.points - c.bounds.macs);
}

void describe_words(ChipTable &t, const ChipCounts &c, double cycles) {
    const chip::Tally &n = c.tally;
    const double needed = c.bounds.compulsory_dram_bytes / 8; // in LW
    const double l2bs = c.config.total_l2bs(), l1bs = c.config.total_l1bs(), pes = c.config.total_pes();
    t.ratio("words.dram_read", double(n.loads.dram_words), needed);
    t.ratio("words.dram_written", double(n.stores.dram_words), needed);
    t.ratio("words.l2bm_in", double(n.loads.l2bm_words), needed);
    t.ratio("words.l2bm_out", double(n.stores.l2bm_words), needed);
    const auto memory = [&](const std::string &name, sim::Resource r, double units) {
        t.ratio("words." + name + "_read", double(n.words[size_t(r)][0]) * units, needed);
        t.ratio("words." + name + "_written", double(n.words[size_t(r)][1]) * units, needed);
    };
    memory("l2bm", sim::Resource::L2bm, l2bs);
    memory("l1bm", sim::Resource::L1bm, l1bs);
    memory("lm0", sim::Resource::Lm0, pes);
    memory("lm1", sim::Resource::Lm1, pes);
    memory("grf0", sim::Resource::Grf0, pes);
    memory("grf1", sim::Resource::Grf1, pes);

    const auto moves = [&](const std::string &name, const chip::Tally::Moves &m) {
        t.log(name + ".moves", double(m.count));
        t.log(name + ".words_each", m.count ? double(m.dram_words) / double(m.count) : 0);
        t.share(name + ".latency", double(m.count) * c.config.moves.dram_start, cycles);
        t.share(name + ".cycles", double(m.cycles) / std::max(1, c.config.groups), cycles);
        t.share(name + ".indirect", double(m.indirect), double(m.count));
    };
    moves("loads", n.loads);
    moves("stores", n.stores);
    t.share("reducing_moves", double(n.reducing_moves), double(n.loads.count + n.stores.count));
    t.share("turns", double(n.turns) * c.config.moves.turnaround, cycles);
    const double sum = double(std::accumulate(n.dram_cycles.begin(), n.dram_cycles.end(), int64_t(0)));
    t.share("uneven_groups", double(n.dram()) * std::max(1, c.config.groups), sum);
}

void describe_memories(ChipTable &t, const ChipCounts &c) {
    const sim::Config::Sizes &s = c.config.sizes;
    const std::tuple<const char *, chip::Bank, int64_t> banks[] = {
        {"lm", chip::Bank::Lm, 2 * s.lm},   {"lm0", chip::Bank::Lm0, s.lm},    {"lm1", chip::Bank::Lm1, s.lm},
        {"grf0", chip::Bank::Grf0, s.grf},  {"grf1", chip::Bank::Grf1, s.grf}, {"l1bm", chip::Bank::L1bm, s.l1bm},
        {"l2bm", chip::Bank::L2bm, s.l2bm}, {"dram", chip::Bank::Dram, s.dram}};
    for (const auto &[name, bank, size] : banks)
        t.share(std::string("taken.") + name, double(c.taken[size_t(bank)]), double(size));
    t.share("kept_twice", c.kept_twice, c.copies);
    t.log("copies", c.copies);
    t.share("drains", c.drains, 1);
    t.log("stages", c.stages);
    double most = 1, least = 1;
    for (size_t v = 0; v < chip::level_count; v++) {
        const double units = std::max(1, chip::units_of(c.config, chip::Tier(v)));
        const std::string name = std::string("used.") + chip::level_names[v];
        t.share(name + ".most", upper_bound_of(c.used[v]), units);
        t.share(name + ".least", min_of(c.used[v]), units);
        most *= upper_bound_of(c.used[v]) / units;
        least *= min_of(c.used[v]) / units;
    }
    t.ratio("used.most", most, 1);
    t.ratio("used.least", least, 1);
}

void describe_machine(ChipTable &t, const sim::Config &m) {
    t.log("machine.groups", m.groups);
    t.log("machine.l2bs", m.total_l2bs());
    t.log("machine.l1bs", m.l1bs);
    t.log("machine.mabs", m.total_mabs());
    t.log("machine.lm", double(m.sizes.lm));
    t.ratio("machine.macs_per_byte", double(m.fp16_macs_per_cycle()), double(m.dram_bytes_per_cycle()));
}

double describe_program(ChipTable &t, const ChipCounts &c, double expected) {
    const chip::Tally &n = c.tally;
    const double cycles = std::max(1.0, c.cycles()), least = min_cycles(c);
    const double flow = double(n.flow) * sim::cycles_per_step, busiest = double(n.busiest()) * sim::cycles_per_step,
                 dram = double(n.dram());
    t.log("bound", least);
    t.ratio("estimate", cycles, least);
    t.ratio("expected", expected, expected > 0 ? least : 0);
    t.ratio("flow", flow, least);
    t.ratio("busiest", busiest, least);
    t.ratio("dram", dram, least);
    t.share("flow.share", flow, cycles);
    t.share("busiest.share", busiest, cycles);
    t.share("dram.share", dram, cycles);
    t.share("in_a_step", double(n.operations) * sim::cycles_per_step, cycles);
    t.share("in_a_step_of_flow", double(n.operations), double(n.flow));
    describe_units(t, c, cycles);
    describe_words(t, c, cycles);
    describe_memories(t, c);
    describe_machine(t, c.config);
    return cycles;
}

} // namespace

const std::vector<std::string> &chip_feature_names() {
    static const std::vector<std::string> names = [] {
        ChipTable table;
        describe_program(table, ChipCounts{}, 0);
        return table.names;
    }();
    return names;
}

NestCost chip_cost_of(const ChipCounts &counts, double expected) {
    ChipTable table;
    const double cycles = describe_program(table, counts, expected);
    const double clock = counts.config.clock_ghz > 0 ? counts.config.clock_ghz * 1e9 : 1e9;
    return {{chip_features_version, std::move(table.values)}, cycles / clock};
}

NestCost chip_cost_of(const Schedule &schedule, double expected) {
    return chip_cost_of(count_chip(schedule), expected);
}

} // namespace kumiko
