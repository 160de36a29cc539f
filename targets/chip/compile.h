// Compiles a schedule to a program for the chip, and runs it on the simulator.
//
//   const sim::Config config = sim::Config::load("small");
//   Schedule s(op, chip_machine(config));
//   … bind, place_in, accumulate_in, tensorize …
//   const ChipProgram p = compile_chip(s, config);
//   const sim::Run run = p.run({a, b, c});           // inputs, then outputs
//   std::cout << run.report();
//
// All sizes are constant: a program is compiled for one shape. The intermediate levels can be
// printed: l3 (the tensors in DRAM and their order), l2 (the single program of all units: loops,
// tiles, the moves that load them, addresses), words.
#pragma once

#include "dsl/buffers.h"
#include "machine/machine.h"
#include "schedules/schedule.h"
#include "sim/simulator.h"
#include "targets/chip/pack/packing.h"

namespace kumiko {

// A compiled program for the simulated chip.
class ChipProgram {
public:
    const Op &op() const;
    const sim::Config &config() const;
    const sim::Program &program() const;

    std::string l3() const; // the position and element order of each tensor in DRAM
    std::string l2() const; // loops, tiles, moves, memory allocation
    // The first operations in program order, each with the step it was packed into.
    std::string l1() const;
    std::string words() const; // the text form; assembles to the same program

    // Runs on a fresh chip: writes the inputs to DRAM, simulates, reads the outputs. `arrays` are
    // the same as for a compiled kernel. Throws UserError for arrays that do not match.
    sim::Run run(const std::vector<Buffer<>> &arrays, const sim::SimulateOptions &options = {}) const;

    // The number of operations before packing, and the compilation time in seconds.
    int64_t operations() const;
    double seconds() const;

    struct Contents;
    explicit ChipProgram(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}

private:
    std::shared_ptr<const Contents> contents_;
};

// The machine table of a chip with that configuration, named "chip:<configuration>".
Machine chip_machine(const sim::Config &config);
// Whether the name is one of a chip: "chip:full" for the simulator's configuration "full",
// "chip:my.json" for a file.
bool is_chip(const std::string &machine);
// The configuration of such a name. Throws UserError for any other name, and as sim::Config::load
// does.
sim::Config chip_config(const std::string &machine);

// Throws UserError for a schedule that does not fit the chip (the message states both sizes),
// Unsupported for one that the compiler does not implement. If `stop` becomes true meanwhile,
// UserError is thrown soon; null: never.
ChipProgram compile_chip(const Schedule &schedule, const sim::Config &config, Packing packing = Packing::Full,
                         const std::atomic<bool> *stop = nullptr);
// For the configuration named by the schedule's machine.
ChipProgram compile_chip(const Schedule &schedule, const std::atomic<bool> *stop = nullptr);

} // namespace kumiko
