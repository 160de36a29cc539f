// From a schedule to a program for the chip, and running it on the simulator.
//
//   const sim::Config config = sim::Config::load("small");
//   Schedule s(op, chip_machine(config));
//   … bind, place_in, accumulate_in, tensorize …
//   const ChipProgram p = compile_chip(s, config);
//   const sim::Run run = p.run({a, b, c});           // inputs, then outputs
//   std::cout << run.report();
//
// All sizes are numbers: a program is made for one shape. The levels on the way can be printed: l3 (whole tensors and their order in
// DRAM), l2 (one program for all units: loops, tiles and the moves that bring them, addresses), words.
#pragma once

#include "dsl/buffers.h"
#include "machine/machine.h"
#include "schedules/schedule.h"
#include "sim/simulator.h"
#include "targets/chip/pack/packing.h"

namespace kumiko {

class ChipProgram {
public:
    const Op &op() const;
    const sim::Config &config() const;
    const sim::Program &program() const;

    std::string l3() const;    // where each tensor stands in DRAM, in which order
    std::string l2() const;    // loops, tiles, moves, who holds which words of the memories
    std::string l1() const;    // the first operations in program order, with the step in which each stands
    std::string words() const; // the text form; assembles to the same program

    // Runs on a fresh chip: writes the inputs to DRAM, simulates, reads the outputs. Arrays as a compiled kernel takes them. Throws
    // UserError for arrays that do not fit.
    sim::Run run(const std::vector<Buffer<>> &arrays, const sim::SimulateOptions &options = {}) const;

    // Operations before packing, and how long the way from the schedule to words took, in seconds.
    int64_t operations() const;
    double seconds() const;

    struct Contents;
    explicit ChipProgram(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}

private:
    std::shared_ptr<const Contents> contents_;
};

// The table of a chip of that configuration, named "chip:<configuration>".
Machine chip_machine(const sim::Config &config);
// "chip:full" names a machine of the simulator's configuration "full", "chip:my.json" one of a file.
bool is_chip(const std::string &machine);
// Of such a name; throws UserError for any other, and as sim::Config::load.
sim::Config chip_config(const std::string &machine);

// Throws UserError for a schedule that the chip cannot hold (what does not fit says both sizes), Unsupported for one that it could.
// When `stop` becomes true meanwhile, UserError is thrown soon; null: it is not looked at.
ChipProgram compile_chip(const Schedule &schedule, const sim::Config &config, Packing packing = Packing::Full,
                         const std::atomic<bool> *stop = nullptr);
// For the configuration that the name of the schedule's machine says.
ChipProgram compile_chip(const Schedule &schedule, const std::atomic<bool> *stop = nullptr);

} // namespace kumiko
