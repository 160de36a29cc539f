// Runs candidates in a process of its own, the program kumiko_measurer (autotune/measurer/). A crash, a hang or a wrong
// result costs one candidate: the process is started again for the next.
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
    Illegal,     // the schedule's directives do not apply
    Unbuildable, // lowering or code generation failed
    Unlinkable,
    Failed, // the kernel returned an error
    Wrong,  // an output differs from the reference, or something else was written
    Crashed,
    TimedOut,
    Impossible, // faster than the machine can be
};

std::string outcome_name(Outcome outcome); // "ok", "illegal", …
// Throws UserError for an unknown name.
Outcome outcome_from_name(const std::string &name);

struct Timing {
    double least = 0, median = 0; // seconds a call: of the processor for a kernel of one thread, else on the wall
    double spread = 0;            // between the quartiles, as a part of the median
    int samples = 0;
    double ratio = 1,
           ratio_error =
               0; // to the last slot timed with it: the median over the rounds, and its standard error as a part of it
};

struct Measured {
    Outcome outcome = Outcome::Ok;
    std::string reason;          // empty when Ok
    std::vector<Timing> timings; // one per slot
    size_t slot = 0;             // the one that failed; Measurer::slots where that is not known, or none did
    // It had no memory, perhaps for what else is loaded takes it. Of those that are compared, and are Ok: left out for that.
    bool no_room = false;
};

struct MeasurerOptions {
    // Empty: kumiko_measurer beside the running program, or one or two folders up from it. For ops
    // that call functions, empty means the running program if it acts as a measurer.
    std::string program;
    int threads = 1;
    // That the process may take beyond what the program reserves at its start, its arrays among
    // them; 0: three quarters of the machine's.
    int64_t memory_mib = 0;
    bool cold = false; // the arrays leave the caches before each sample
};

// An input that a kernel takes in another form, which the function `symbol` of its object makes of it (the packed form of a kernel of two
// arrays), as a program does once, ahead of all calls.
struct PackedInput {
    size_t tensor = 0; // of the op's, inputs first
    std::string symbol;
    std::vector<int64_t> sizes; // that the function is called with
    int64_t bytes = 0;          // that it writes
};

class Measurer {
public:
    // Kernels loaded at a time; inputs that each may take packed.
    static constexpr size_t slots = MEASURER_SLOTS, packs = MEASURER_PACKS;

    // The task must outlive the measurer. Throws UserError when the program cannot be started.
    Measurer(const MeasureTask &task, const MeasurerOptions &options);
    ~Measurer();
    Measurer(const Measurer &) = delete;
    Measurer &operator=(const Measurer &) = delete;

    // Links the object, packs inputs, runs its function `symbol` (the packed form of a kernel) once and checks what it computed. The
    // slot stays loaded until the process dies, which empties all slots. The timing is that of the one, cold call.
    Measured load(size_t slot, const std::string &object, const std::string &symbol, double timeout,
                  const std::vector<PackedInput> &packs = {});

    struct RunOptions {
        double budget = 0.1;      // seconds of samples, for all slots together; at least five are taken of each
        double tight = 0.01;      // stop when the median is within this part of the least
        double give_up_above = 0; // with one slot: stop after three samples when the least is above; 0: never
        double timeout = 10;      // of all together; when it ends, no slot has failed
        double call_timeout = 0;  // of one call, which has failed when it ends; 0: as long as there is time for all
        // Of two slots, the first is timed against the second: until the error of its ratio is below `tight`; given up when
        // the ratio is above give_up_above.
        bool paired = false;
    };
    // Times loaded kernels, in turns, and checks each again.
    Measured run(const std::vector<size_t> &slots, const RunOptions &options);

    // Ends the process, and with it all that is loaded; whoever is loaded next starts another.
    void unload_all() { stop(); }

    // From now on, what is asked ends soon after `over` becomes true, as if its time were over; null: never. It is asked in the
    // thread that asks for measurements.
    void end_when(std::function<bool()> over) { over_ = std::move(over); }
    // Whether what was asked last ended so.
    bool cut_short() const { return cut_short_; }

    // As the process measured it, 0 when unknown.
    double clock_hz() const { return clock_hz_; }
    // The process, 0 when none runs.
    int process() const { return process_; }
    int restarts() const { return restarts_; }

private:
    void start();
    void stop();
    std::string memory_text() const;
    void close_page();
    Measured exchange(const void *request, size_t bytes, const std::string *object, double timeout, size_t n,
                      double call_timeout = 0);
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

// If the tuner started this process as a measurer, measures and ends the process; else returns.
// Call it first in main. It is needed to tune ops whose extern functions (dsl/extern.h) are defined
// in the program, or in a shared library that uses symbols of the program. In the measurer static
// objects are initialized again, and nothing of main has run.
void act_as_measurer(int argc, char **argv);
bool acts_as_measurer();

// Where the program is looked for, and found; throws UserError when nowhere.
std::string find_measurer();

} // namespace kumiko
