// Executes programs: bit-exact results and exact cycles in one run.
//
//   Config config = Config::load("full");
//   HostMemory memory(config);
//   memory.write_dram(0, 0, words);
//   Run run = simulate(program, config, memory);
//   std::cout << run.report();
//   run.save_trace("matmul.perfetto.json");
//
// Violating a rule is a HazardError. An address outside a memory, a read of an undefined word, and
// a wait on a tag that was never issued are UserErrors. Both name the word and the step.
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

// What a read of an undefined word does: it is an error, or it gives zero.
enum class Undefined : uint8_t { Error, Zero };

// Options of a run.
struct SimulateOptions {
    Undefined undefined = Undefined::Error; // for reads of undefined words
    // false: the rules that span words are not checked (bits and cycles stay the same).
    bool hazards = true;
    bool trace = false;              // keep the data for save_trace: 16 bytes per step
    uint64_t max_steps = UINT64_MAX; // the limit, beyond which UserError is thrown
    // Checked before each step; if it is true, the run ends with a UserError. Null: never.
    const std::atomic<bool> *stop = nullptr;
    // Host instructions: "baseline", "avx2" or "avx512"; "": the best available.
    std::string instructions;
};

// The host instruction sets that this machine supports, best first. All produce the same bits.
std::vector<std::string> host_instructions();

// A chip whose memories keep their contents from run to run.
class Simulator {
public:
    // Allocates the chip's memories (`full`: 170 MB as they are touched).
    explicit Simulator(const Config &config, const SimulateOptions &options = {});
    ~Simulator();
    Simulator(Simulator &&) noexcept;

    // Runs from the first word to the end. The on-chip memories keep the content of an earlier run;
    // time and hazards start anew.
    Run run(const Program &program, HostMemory &memory);

    // Accesses the chip's memories, for tests and dumps. `unit` is numbered over the chip within
    // its kind: PEs for LM0, LM1, GRF0, GRF1, T (address 2·t + word), L1Bs, L2Bs.
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
