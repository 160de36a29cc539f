// Runs programs: bit-exact results and exact cycles in one run.
//
//   Config config = Config::load("full");
//   HostMemory memory(config);
//   memory.write_dram(0, 0, words);
//   Run run = simulate(program, config, memory);
//   std::cout << run.report();
//   run.save_trace("matmul.perfetto.json");
//
// A rule that the program breaks is a HazardError; an address outside a memory, a read of what was never written, a wait on a
// tag never issued is a UserError; both name the word and the step.
#pragma once

#include "sim/assembler.h"
#include "sim/memory.h"
#include "sim/program.h"
#include "sim/run.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace kumiko::sim {

enum class Undefined : uint8_t { Error, Zero };

struct SimulateOptions {
    Undefined undefined = Undefined::Error; // reading what was never written
    bool hazards = true;                    // false: no rule across words is checked (bits and cycles stay the same)
    bool trace = false;                     // keep what save_trace needs: 16 bytes a step
    uint64_t max_steps = UINT64_MAX;        // beyond: UserError
    const std::atomic<bool> *stop =
        nullptr;              // looked at before each step; when it is true, the run ends with a UserError
    std::string instructions; // "", the best there is; "baseline", "avx2", "avx512": host instructions
};

// The host instruction sets that this machine can run, best first. All give the same bits.
std::vector<std::string> host_instructions();

class Simulator {
public:
    // Allocates the chip's memories (`full`: 170 MB as they are touched).
    explicit Simulator(const Config &config, const SimulateOptions &options = {});
    ~Simulator();
    Simulator(Simulator &&) noexcept;

    // Runs from the first word to the end; the on-chip memories keep what an earlier run left, time and hazards start anew.
    Run run(const Program &program, HostMemory &memory);

    // What stands in the chip, for tests and dumps. `unit` counts in its own kind over the chip: PEs for LM0, LM1, GRF0, GRF1, T
    // (address 2·t + word), L1Bs, L2Bs.
    enum class Place : uint8_t { Lm0, Lm1, Grf0, Grf1, T, L1bm, L2bm };
    uint64_t read(Place place, int unit, int64_t address) const;
    bool defined(Place place, int unit, int64_t address) const;
    void write(Place place, int unit, int64_t address, uint64_t value);
    const Config &config() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

// One run on a fresh chip.
Run simulate(const Program &program, const Config &config, HostMemory &memory, const SimulateOptions &options = {});

} // namespace kumiko::sim
