// Runs candidates in a separate process, the program kumiko_measurer (autotune/measurer/). A crash,
// a hang or a wrong result costs only one candidate: the process is restarted for the next one.
#pragma once

#include "autotune/measurer/protocol.h"
#include "autotune/task.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace kumiko {

enum class Outcome {
    Ok,
    Illegal,     // the directives do not apply
    Unbuildable, // lowering or code generation failed
    Unlinkable,
    Failed, // the kernel returned an error
    Wrong,  // an output differs from the reference, or other memory was written
    Crashed,
    TimedOut,
    Impossible, // faster than the machine's limits
};

std::string outcome_name(Outcome outcome); // "ok", "illegal", …
// Throws UserError for an unknown name.
Outcome outcome_from_name(const std::string &name);

struct Timing {
    // Seconds per call: CPU time for a single-threaded kernel, otherwise wall time.
    double least = 0, median = 0;
    double spread = 0; // interquartile range relative to the median
    int samples = 0;
    // Ratio to the last slot timed with this one: the median over rounds, and its relative standard
    // error.
    double ratio = 1, ratio_error = 0;
};

struct Measured {
    Outcome outcome = Outcome::Ok;
    std::string reason;          // "" if Ok
    std::vector<Timing> timings; // one per slot
    size_t slot = 0;             // the slot that failed; Measurer::slots if unknown or none
    // Out of memory, possibly because of other loaded kernels. In a comparison, if the outcome is
    // Ok: left out for that reason.
    bool no_room = false;
};

struct MeasurerOptions {
    // Empty: kumiko_measurer next to the running program, or one or two folders up. For ops that
    // call functions, empty means the running program if it acts as a measurer.
    std::string program;
    int threads = 1;
    // Memory limit of the process beyond what the program reserves at its start, including arrays;
    // 0: three quarters of the machine's.
    int64_t memory_mib = 0;
    bool cold = false; // evicts the arrays from the caches before each sample
};

// A pre-packed input of a kernel: the function `symbol` of its object (in packed form, with two
// arrays) produces it once, before all calls, as a program would.
struct PackedInput {
    size_t tensor = 0; // index among the op's tensors, inputs first
    std::string symbol;
    std::vector<int64_t> sizes; // arguments of the packing function
    int64_t bytes = 0;          // size of its result
};

class Measurer {
public:
    // Kernels loaded at a time; pre-packed inputs per kernel.
    static constexpr size_t slots = MEASURER_SLOTS, packs = MEASURER_PACKS;

    // The task must outlive the measurer. Throws UserError if the program cannot be started.
    Measurer(const MeasureTask &task, const MeasurerOptions &options);
    ~Measurer();
    Measurer(const Measurer &) = delete;
    Measurer &operator=(const Measurer &) = delete;

    // Links the object, packs inputs, runs its function `symbol` (in packed form) once and checks
    // the results. The slot stays loaded until the process ends, which clears all slots. The result
    // has the time of this first, cold call.
    Measured load(size_t slot, const std::string &object, const std::string &symbol, double timeout,
                  const std::vector<PackedInput> &packs = {});

    struct RunOptions {
        double budget = 0.1; // seconds of samples for all slots together; at least five per slot
        double tight = 0.01; // stop when the median is within this fraction of the minimum
        // Single slot: stop after three samples if the minimum is above; 0: never.
        double give_up_above = 0;
        double timeout = 10; // for all together; no slot has failed when it expires
        // Time limit of one call, which has failed when it expires; 0: limited only by `timeout`.
        double call_timeout = 0;
        // With two slots, times the first against the second: until the error of their ratio is
        // below `tight`, or the ratio is above give_up_above.
        bool paired = false;
    };
    // Times loaded kernels in alternation, and checks each again.
    Measured run(const std::vector<size_t> &slots, const RunOptions &options);

    // Ends the process and with it all loaded kernels; the next load() starts another.
    void unload_all() { stop(); }

    // From now on, requests end soon after `over` becomes true, as if they had timed out; null:
    // never. `over` is called in the thread that requests measurements.
    void end_when(std::function<bool()> over) { over_ = std::move(over); }
    // Whether the last request was ended this way.
    bool cut_short() const { return cut_short_; }

    // The clock as measured by the process; 0 if unknown.
    double clock_hz() const { return clock_hz_; }
    // The process id; 0 if none runs.
    int process() const { return process_; }
    int restarts() const { return restarts_; }

private:
    void start();
    void stop();
    std::string memory_text() const;
    void close_page();
    Measured exchange(const void *request, size_t bytes, const std::string *object, double timeout, size_t n,
                      double call_timeout = 0);
    // The result of a request during which the process timed out or died.
    Measured lost(bool timed_out, double timeout);

    const MeasureTask &task_;
    MeasurerOptions options_;
    bool runs_this_program_ = false;
    int process_ = 0, socket_ = -1, page_file_ = -1, restarts_ = -1;
    void *page_ = nullptr; // shared with the process: which slot is running, and since when
    double clock_hz_ = 0;
    std::function<bool()> over_;
    bool cut_short_ = false;
};

// If the tuner started this process as a measurer, measures and exits; otherwise returns. Call it
// first in main. It is required to tune ops whose extern functions (dsl/extern.h) are defined in
// the program, or in a shared library that uses symbols of the program. In the measurer, static
// objects are initialised again, and nothing of main has run.
void act_as_measurer(int argc, char **argv);
bool acts_as_measurer();

// Finds the measurer program. Throws UserError, with the places searched, if there is none.
std::string find_measurer();

} // namespace kumiko
