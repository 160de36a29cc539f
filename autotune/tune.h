// Finds a good schedule for an op by measuring candidates.
//
//   Record best = tune(op, Target::host(), {.trials = 128, .database = "tuning.db"});
//   Kernel k = compile(best.schedule(op), Target::host());
//
// The space is that of the matching library schedule, or one derived from the formula. Candidates
// are built here and run in another process (autotune/measurer.h), so that a crash or a hang, even
// during compilation, costs only that candidate. Each candidate is checked against the formula
// before it is timed. A cost model, pre-trained on other tasks and refined on this one, selects the
// candidates (autotune/model/). The finalists are compared side by side before one is called best.
#pragma once

#include "autotune/arrays.h"
#include "autotune/database.h"
#include "autotune/op_recipe.h"
#include "autotune/search_method.h"
#include "schedules/library/packed_by.h"
#include "support/progress_style.h"
#include "targets/cpu/cpu_target.h"

#include <atomic>
#include <iosfwd>

namespace kumiko {

class Space; // schedules/library/space.h

// The space to search.
enum class SpaceKind {
    // The space of the first library schedule that matches. Auto is used instead
    //   - on a processor, if that is "elementwise" and the op has several stages or a reduction, or
    //     if it is "rows" or "reduce" and a reduction has reads that several of its results share;
    //     ops of more than 64 stages are excepted;
    //   - on the chip, if no library schedule matches.
    // On a processor, a space in which no sampled point can be lowered is skipped. The library's
    // next matching schedule follows; the last one, "stages", matches every op.
    // If the caller packs weights: the space of the first library schedule that pre-packs them.
    Fitting,
    Library, // Unsupported if there is none
    Auto,    // derived from the formula (autotune/spaces/auto_space.h)
};

// The space, and the name under which the database stores its parameters.
// Throws Unsupported if the caller packs weights and the space has no such schedules.
std::pair<std::string, std::unique_ptr<Space>> space_for(const Op &op, const Machine &machine, SpaceKind kind,
                                                         PackedBy packed_by = PackedBy::Kernel);

// Budget, conditions of measurement, and search of a tuning session.
struct TuneOptions {
    // Candidates to measure, including those of earlier sessions in the database: an interrupted
    // session is resumed by running it again, and a finished one costs nothing.
    int trials = 64;
    std::string database; // path; "": results are not stored
    uint64_t seed = 1;    // for equal measurements, a seed gives the same proposals
    // Time limit; 0: until the trials are done. The default is always measured.
    double seconds = 0;
    bool quiet = false;
    int threads = 0;    // threads per kernel; 0: one per core of the machine
    Sizes sizes = {};   // values of the op's symbolic sizes
    bool fresh = false; // ignores the database's results

    double trial_seconds = 0.1; // timing of one candidate
    // Arrays are evicted from the caches before each call, as in a program that does other work in
    // between; otherwise they are cached as far as they fit. Results of the two modes are stored as
    // those of different machines.
    bool cold = false;
    // Pre-packed weights: the caller packs them once before all calls. Such kernels' results are
    // stored separately. Only for matrix products and convolutions in the library's spaces.
    bool ahead = false;
    double final_seconds = 0.6; // for the final comparison; 0: none
    // Time limit of one call, until a good candidate is known; then 100 times its time.
    double timeout = 10;
    // Time limit for compiling one candidate; a compiler that hangs is abandoned in its thread
    // (autotune/build.h).
    double build_timeout = 60;
    // Ops that take longer to evaluate are checked on a sample (autotune/arrays.h).
    double longest_reference = kumiko::longest_reference;
    // Limit of the measuring process; 0: three quarters of the machine's.
    int64_t memory_mib = 0;
    std::string measurer = {};    // path of kumiko_measurer; "": next to this program
    const Space *space = nullptr; // a user-defined space
    SpaceKind spaces = SpaceKind::Fitting;
    SearchMethod search = SearchMethod::Model;
    // File from `kumiko learn`; "": the shipped model; "none": start untrained.
    std::string cost_model = {};
    // Address of a Redis server, redis://host:port, whose workers (`kumiko worker`) build and
    // measure instead of this process; "": this process does.
    std::string workers = {};
    OpRecipe recipe = {};             // for workers
    std::ostream *progress = nullptr; // null: no progress output
    ProgressStyle style = ProgressStyle::Plain;
    std::function<int()> columns = nullptr; // of the terminal, for Progress
    // When it becomes true, tuning ends cleanly with the best so far.
    const std::atomic<bool> *interrupt = nullptr;
};

// What a session measured, how long it took, and why it ended.
struct TuneReport {
    std::string error; // with several tasks: why this one could not be tuned; "" if it could
    int measured = 0;  // in this session
    int known = 0;     // in the database before
    int rejected = 0;  // illegal candidates; they cost little and are not trials
    // "wrong: wrong result: element # of tensor #…" → count, including those in the database;
    // numbers are replaced.
    std::map<std::string, int> failures;
    // The first example of each kind, with its numbers.
    std::map<std::string, std::string> failure_examples;
    // Time of the schedule with default parameters; from the final comparison if there was one.
    double default_seconds = 0;
    double seconds = 0;           // duration of the session; with several tasks, of this one
    double search_seconds = 0;    // of these, spent in the search: spaces, nests, features, models
    double reference_seconds = 0; // time to evaluate the formula
    double clock_hz = 0;
    bool exact = false;           // outputs had to be equal bit for bit
    int64_t checked_elements = 0; // number of output elements checked, if only a sample was; 0: all
    bool interrupted = false;
    // Whether the budget ended before its trials were done; with several tasks, before those of all
    // were.
    bool budget_ended = false;
    // Why nothing was measured, if known results are returned anyway; "" otherwise.
    std::string unmeasured;
    // Why it ended before its trials because nothing was left to try; "" otherwise.
    std::string used_up;
    // Best time after each trial of this session; infinite until one is good.
    std::vector<double> best_so_far;
    std::vector<Record> records;          // of this session's trials, in order
    std::vector<Record> rejections;       // of the illegal candidates
    std::map<std::string, int> by_worker; // candidates measured per worker
};

// Throws UserError if no candidate is good (with counts of the reasons), if a symbolic size has no
// value, if the database cannot be used, or if there is no server or no recipe for workers. Throws
// Unsupported if neither the library nor the formula provides a space for the op.
Record tune(const Op &op, const Machine &machine, const CpuTarget &cpu, const TuneOptions &options = {},
            TuneReport *report = nullptr);

// Overload for a Target (driver/target.h).
template<typename T>
requires requires(const T &target) {
    { target.machine } -> std::convertible_to<Machine>;
    { target.cpu } -> std::convertible_to<CpuTarget>;
}
Record tune(const Op &op, const T &target, const TuneOptions &options = {}, TuneReport *report = nullptr) {
    return tune(op, target.machine, target.cpu, options, report);
}

// One of several tasks that share a budget.
struct TuneTask {
    Op op;
    double weight = 1;    // relative call frequency
    OpRecipe recipe = {}; // for workers
    bool ahead = false;   // overrides TuneOptions::ahead
};

// Tunes all tasks with options.trials each on average: first an initial number each, then more for
// the tasks that gained most from the last ones, by weight × expected gain, but at most four times
// the average. A task without a good candidate by then gets what the others leave. options.seconds
// is the budget of all together, divided equally for the initial trials. Tasks with the same
// formula are tuned once.
//
// A task without a good candidate, or one that cannot be tuned, returns nullopt; its report has the
// reason. If no task can be tuned, throws what tune() would.
std::vector<std::optional<Record>> tune_all(const std::vector<TuneTask> &tasks, const Machine &machine,
                                            const CpuTarget &cpu, const TuneOptions &options,
                                            std::vector<TuneReport> *reports = nullptr);

// Which of the database's results for an op are asked for.
struct BestOptions {
    int threads = 0; // 0: one per core of the machine
    Sizes sizes = {};
    bool cold = false;  // tuned for cold caches
    bool ahead = false; // with pre-packed weights
};

// The options that find a session's results again.
BestOptions best_options(const TuneOptions &options);

TaskKey task_key(const Op &op, const Machine &machine, const BestOptions &options = {});
// The machine part of a key: the machine's id and the measuring conditions.
std::string machine_of_key(const Machine &machine, const BestOptions &options);

// The best record in the database for the op on this machine; nullopt if there is none. Throws
// UserError if the database does not exist.
std::optional<Record> best(const Op &op, const Machine &machine, const std::string &database,
                           const BestOptions &options = {});

template<typename T>
requires requires(const T &target) {
    { target.machine } -> std::convertible_to<Machine>;
}
std::optional<Record> best(const Op &op, const T &target, const std::string &database,
                           const BestOptions &options = {}) {
    return best(op, target.machine, database, options);
}

} // namespace kumiko
