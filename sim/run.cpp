#include "sim/run.h"

#include "sim/assembler.h"
#include "support/atomic_file.h"
#include "support/duration.h"
#include "support/error.h"
#include "support/table.h"

#include <fmt/format.h>

#include <algorithm>

namespace kumiko::sim {

std::string idle_name(Idle reason) {
    constexpr const char *names[idle_count] = {"waiting for loads",         "waiting for stores", "full move queue",
                                               "matrix write or read only", "vector operations",  "ALU only",
                                               "L1, L2 moves only",         "empty words",        "tail"};
    return names[int(reason)];
}

std::string link_name(Link link) {
    constexpr const char *names[link_count] = {
        "DRAM read",    "DRAM write", "PDM read",   "PDM write", "L2BM in",  "L2BM out", "L2BM to L1BM", "L1BM to L2BM",
        "L1BM to L1BM", "L1BM to PE", "PE to L1BM", "LM read",   "LM write", "GRF read", "GRF write"};
    return names[int(link)];
}

double Run::matrix_macs() const {
    return cycles_per_step * (double(matrix_f16_steps) * double(config.fp16_macs_per_cycle()) +
                              double(matrix_f32_steps) * double(config.fp32_macs_per_cycle()));
}

double Run::macs() const {
    const double mabs = config.total_mabs();
    return matrix_macs() + cycles_per_step * mabs * (16 * double(vector_f16_steps) + 8 * double(vector_f32_steps));
}

double Run::matrix_bound_cycles() const {
    if (bounds.macs > 0) {
        // The work's products at the rate of the precision used most.
        const double rate =
            double(matrix_f16_steps >= matrix_f32_steps ? config.fp16_macs_per_cycle() : config.fp32_macs_per_cycle());
        return bounds.macs / rate;
    }
    return cycles_per_step * double(matrix_f16_steps + matrix_f32_steps);
}

double Run::dram_bound_cycles() const {
    const double moved = double(link_bytes[size_t(Link::DramRead)] + link_bytes[size_t(Link::DramWrite)]);
    const double bytes = std::max(bounds.compulsory_dram_bytes, bounds.bound_dram_bytes);
    return (bytes > 0 ? bytes : moved) / double(config.dram_bytes_per_cycle());
}

double Run::efficiency() const {
    return cycles() == 0 ? 0 : std::max(matrix_bound_cycles(), dram_bound_cycles()) / double(cycles());
}

std::vector<Run::EnergyPart> Run::energy() const {
    const Config::Energy &e = config.energy;
    const auto words = [&](Link link) { return double(link_bytes[size_t(link)]) / 8; };
    const double mabs = config.total_mabs(), pes = config.total_pes(), t = cycles_per_step;
    const double f16 = t * mabs * (256 * double(matrix_f16_steps) + 16 * double(vector_f16_steps));
    const double f32 = t * mabs * (32 * double(matrix_f32_steps) + 8 * double(vector_f32_steps));
    std::vector<EnergyPart> parts = {
        {"multiply and add", f16 * (e.fp16_mul + e.fp32_add) + f32 * (e.fp32_mul + e.fp32_add)},
        {"ALU", t * pes * double(slot_steps[size_t(Slot::Alu)]) * e.alu},
        {"GRF", (words(Link::GrfRead) + words(Link::GrfWrite)) * e.grf},
        {"LM", (words(Link::LmRead) + words(Link::LmWrite)) * e.lm},
        {"L1BM", (words(Link::L2ToL1) + words(Link::L1ToL2) + 2 * words(Link::L1ToL1) + words(Link::L1ToPe) +
                  words(Link::PeToL1)) *
                     e.l1bm},
        {"L2BM", (words(Link::L2ToL1) + words(Link::L1ToL2) + words(Link::L2bmIn) + words(Link::L2bmOut)) * e.l2bm},
        {"tree", (words(Link::L2ToL1) + words(Link::L1ToL2) + words(Link::L1ToL1) + words(Link::L1ToPe) +
                  words(Link::PeToL1) + words(Link::L2bmIn) + words(Link::L2bmOut)) *
                     e.tree},
        {"DRAM", (words(Link::DramRead) + words(Link::DramWrite)) * e.dram},
    };
    for (EnergyPart &p : parts) p.joules *= 1e-12;
    parts.push_back({"static", e.static_watts * seconds()});
    return parts;
}

std::string Run::report() const {
    const double all = std::max<double>(1, double(cycles()));
    std::string text = fmt::format("{}{}{}: {} cycles = {} at {} GHz ({} steps, {} stalled, {} tail)\n", program,
                                   program.empty() ? "" : " on ", config.name, cycles(), duration_text(seconds()),
                                   config.clock_ghz, steps, stall_cycles, tail_cycles);
    text += fmt::format("bound: matrix units {:.0f} cycles, DRAM {:.0f}; {:.1f} % of the bound reached",
                        matrix_bound_cycles(), dram_bound_cycles(), 100 * efficiency());
    text += fmt::format("; {:.4g} MAC executed, including padding: {:.4g} TFLOP/s\n\n", macs(),
                        seconds() > 0 ? 2e-12 * macs() / seconds() : 0);

    Table units({"unit", "steps", "of all cycles"});
    for (int s = 1; s < slot_count - 1; s++)
        units.row({slot_name(Slot(s)), std::to_string(slot_steps[size_t(s)]),
                   fmt::format("{:.1f} %", 400 * double(slot_steps[size_t(s)]) / all)});
    for (size_t g = 0; g < dram_busy_cycles.size(); g++)
        units.row(
            {fmt::format("DRAM of group {}", g), "", fmt::format("{:.1f} %", 100 * double(dram_busy_cycles[g]) / all)});
    text += units.text() + "\n";

    Table idle({"matrix units", "cycles", "of all"});
    const uint64_t busy = cycles_per_step * (matrix_f16_steps + matrix_f32_steps);
    idle.row({"at work", std::to_string(busy), fmt::format("{:.1f} %", 100 * double(busy) / all)});
    for (int i = 0; i < idle_count; i++)
        if (idle_cycles[size_t(i)])
            idle.row({"idle: " + idle_name(Idle(i)), std::to_string(idle_cycles[size_t(i)]),
                      fmt::format("{:.1f} %", 100 * double(idle_cycles[size_t(i)]) / all)});
    text += idle.text() + "\n";

    Table links({"link", "bytes", "bytes/cycle"});
    for (int l = 0; l < link_count; l++)
        if (link_bytes[size_t(l)])
            links.row({link_name(Link(l)), std::to_string(link_bytes[size_t(l)]),
                       fmt::format("{:.1f}", double(link_bytes[size_t(l)]) / all)});
    text += links.text();
    const double dram = double(link_bytes[size_t(Link::DramRead)] + link_bytes[size_t(Link::DramWrite)]);
    if (bounds.compulsory_dram_bytes > 0)
        text += fmt::format("DRAM: {:.2f}× the compulsory {:.0f} bytes\n", dram / bounds.compulsory_dram_bytes,
                            bounds.compulsory_dram_bytes);
    if (bounds.bound_dram_bytes > 0)
        text += fmt::format("DRAM: {:.2f}× the bound of {:.0f} bytes\n", dram / bounds.bound_dram_bytes,
                            bounds.bound_dram_bytes);

    double joules = 0;
    std::string parts;
    for (const EnergyPart &p : energy()) joules += p.joules;
    for (const EnergyPart &p : energy())
        parts +=
            fmt::format("{}{} {:.0f} %", parts.empty() ? "" : ", ", p.name, joules > 0 ? 100 * p.joules / joules : 0);
    text += fmt::format("\nenergy, an estimate: {:.3g} J, {:.3g} W ({})\n  table: {}\n", joules,
                        seconds() > 0 ? joules / seconds() : 0, parts, config.energy.source);
    for (const std::string &w : warnings) text += "warning: " + w + "\n";
    return text;
}

Json Run::json() const {
    Json j = {{"program", program},
              {"machine", config.name},
              {"cycles", cycles()},
              {"seconds", seconds()},
              {"steps", steps},
              {"stall_cycles", stall_cycles},
              {"tail_cycles", tail_cycles},
              {"clock_ghz", config.clock_ghz},
              {"macs", macs()},
              {"matrix_bound_cycles", matrix_bound_cycles()},
              {"dram_bound_cycles", dram_bound_cycles()},
              {"efficiency", efficiency()}};
    for (int s = 0; s < slot_count; s++) j["slot_steps"][slot_name(Slot(s))] = slot_steps[size_t(s)];
    j["matrix_steps"] = {{"f16", matrix_f16_steps}, {"f32", matrix_f32_steps}};
    j["vector_steps"] = {{"f16", vector_f16_steps}, {"f32", vector_f32_steps}};
    for (int i = 0; i < idle_count; i++) j["idle_cycles"][idle_name(Idle(i))] = idle_cycles[size_t(i)];
    for (int l = 0; l < link_count; l++) j["link_bytes"][link_name(Link(l))] = link_bytes[size_t(l)];
    j["dram_busy_cycles"] = dram_busy_cycles;
    j["moves"] = moves;
    j["bounds"] = {{"macs", bounds.macs},
                   {"compulsory_dram_bytes", bounds.compulsory_dram_bytes},
                   {"bound_dram_bytes", bounds.bound_dram_bytes}};
    for (const EnergyPart &p : energy()) j["energy_joules"][p.name] = p.joules;
    j["energy_source"] = config.energy.source;
    j["warnings"] = warnings;
    return j;
}

} // namespace kumiko::sim
