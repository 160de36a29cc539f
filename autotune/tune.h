// Finds a good schedule for an op by measuring.
//
//   Record best = tune(op, Target::host(), {.trials = 128, .database = "tuning.db"});
//   Kernel k = compile(best.schedule(op), Target::host());
//
// The space is that of the library schedule that fits the op, or one made from its formula. Candidates are built here and run in another process
// (autotune/measurer.h), so that one which crashes or hangs costs itself alone, be it while it is compiled; each is checked against the formula
// before it is timed. A model that learnt from other tasks, and learns from this one, says which to try (autotune/model/). The
// best few are compared once more, side by side, before one is called best.
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

// What is searched.
enum class SpaceKind {
    // The library's schedule that fits the op; Auto where that is the one for anything and the op reduces, or one for rows and a
    // reduction reads the same for several of its results; on the chip where the library has none.
    // On a processor, a space in which no tried point can be lowered is skipped. The next schedule
    // of the library that matches is taken. The last one has the plain nest, which every op has.
    Fitting,
    Library, // Unsupported where it has none
    Auto,    // a space made from the formula's structure (autotune/spaces/auto_space.h)
};

// The space, and the name under which a database keeps its parameters.
// Throws Unsupported where the caller shall pack and that space has no such schedules.
std::pair<std::string, std::unique_ptr<Space>> space_for(const Op &op, const Machine &machine, SpaceKind kind,
                                                         PackedBy packed_by = PackedBy::Kernel);

struct TuneOptions {
    // Candidates to measure, those of earlier sessions in the database counted: an interrupted session is resumed by
    // running it again, and a finished one costs nothing.
    int trials = 64;
    std::string database; // a file; empty: results are not kept
    uint64_t seed = 1;    // the search proposes the same for a seed, given the same measurements
    double seconds = 0;   // end after this time, 0: when the trials are done. The default is measured in any case.
    bool quiet = false;
    int threads = 0;    // that a kernel may use; 0: one per core of the machine
    Sizes sizes = {};   // values of the op's symbolic sizes to tune for
    bool fresh = false; // measure again what the database knows

    double trial_seconds = 0.1; // timing of one candidate
    // Kernels find their arrays out of the caches, as in a program that does other things in between; else in them, as far as they fit. What was
    // measured the one way counts as another machine's the other way.
    bool cold = false;
    // The caller packs weights, once, ahead of all calls, and the kernel takes them so: another kernel, whose results are kept apart. Of
    // matrix products and convolutions, in the library's spaces alone.
    bool ahead = false;
    double final_seconds = 0.6; // the comparison at the end, 0: none
    double timeout = 10;        // of one call's worth of a candidate, before a good one is known; then 100 times that
    double build_timeout =
        60; // of a candidate's compiling; what does not end is left behind in a thread (autotune/build.h)
    double longest_reference =
        kumiko::longest_reference; // an op whose formula takes longer is checked on a sample (autotune/arrays.h)
    int64_t memory_mib = 0;        // that the measuring process may take; 0: three quarters of the machine's
    std::string measurer = {};     // the program kumiko_measurer; empty: found beside this one
    const Space *space = nullptr;  // a space of the caller's own
    SpaceKind spaces = SpaceKind::Fitting;
    SearchMethod search = SearchMethod::Model;
    std::string cost_model =
        {}; // a file that `kumiko learn` made; empty: the one that comes with Kumiko; "none": begin with nothing
    // The address of a Redis server, redis://host:port, whose workers (`kumiko worker`) build and measure in place of this
    // process; empty: this process does.
    std::string workers = {};
    OpRecipe recipe = {};             // of the op, for workers
    std::ostream *progress = nullptr; // where progress is shown; null: nowhere
    ProgressStyle style = ProgressStyle::Plain;
    std::function<int()> columns = nullptr;       // of the terminal, as Progress takes it
    const std::atomic<bool> *interrupt = nullptr; // when it becomes true, tuning ends in order with the best so far
};

struct TuneReport {
    std::string error; // why it could not be tuned at all, of several tasks; empty: it could
    int measured = 0;  // in this session
    int known = 0;     // in the database before
    int rejected = 0;  // not legal; these cost next to nothing and are not trials
    // "wrong: wrong result: element # of tensor #…" → how many, those of the database among them; numbers are left out.
    std::map<std::string, int> failures;
    std::map<std::string, std::string> failure_examples; // of each kind the first, with its numbers
    double default_seconds = 0;   // of the schedule with default parameters; from the final comparison if there was one
    double seconds = 0;           // that the session took; of several tasks, this one
    double search_seconds = 0;    // of them, those in which the tuner thought: spaces, nests, features, models
    double reference_seconds = 0; // that evaluating the formula took
    double clock_hz = 0;
    bool exact = false;           // outputs had to have equal bits
    int64_t checked_elements = 0; // of the outputs, where only a sample was checked; 0: all
    bool interrupted = false;
    bool budget_ended = false; // before its trials were done; of several tasks, before those of all were
    std::string
        unmeasured; // why nothing was measured, where what was known is returned all the same; empty: something was, or need not be
    std::string used_up; // why it ended before its trials, where nothing was left to try; empty: something was
    std::vector<double> best_so_far;      // seconds, after each trial of this session; infinite until one is good
    std::vector<Record> records;          // of this session's trials, in order
    std::vector<Record> rejections;       // of the candidates that were not legal
    std::map<std::string, int> by_worker; // how many of them each worker measured
};

// Throws UserError when no candidate is good (it says what was wrong with how many), when a symbolic size has no value,
// when the database cannot be used, or when there is no server or no recipe for workers; Unsupported when neither the
// library nor the formula gives a space for the op.
Record tune(const Op &op, const Machine &machine, const CpuTarget &cpu, const TuneOptions &options = {},
            TuneReport *report = nullptr);

// With a Target (driver/target.h).
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
    double weight = 1;    // how often it runs, as compared with others
    OpRecipe recipe = {}; // for workers
    bool ahead = false;   // in place of TuneOptions::ahead
};

// Tunes all, options.trials each on average: the first trials of each, then more where the last ones brought most, by weight ×
// expected gain, but at most four times the average; one without a good candidate by then gets what the others leave. What is in
// options.seconds is for all together, and shared alike for the first trials. Tasks of one formula are tuned once.
//
// A task without a good candidate, or one that cannot be tuned, is an empty record; its report says why. Throws what tune() would
// where none can be tuned.
std::vector<std::optional<Record>> tune_all(const std::vector<TuneTask> &tasks, const Machine &machine,
                                            const CpuTarget &cpu, const TuneOptions &options,
                                            std::vector<TuneReport> *reports = nullptr);

struct BestOptions {
    int threads = 0; // 0: one per core of the machine
    Sizes sizes = {};
    bool cold = false;  // tuned for cold caches
    bool ahead = false; // taking weights that are packed ahead
};

// Those with which a session's results are found again.
BestOptions best_options(const TuneOptions &options);

TaskKey task_key(const Op &op, const Machine &machine, const BestOptions &options = {});
// What a key says of the machine, and of how it was measured.
std::string machine_of_key(const Machine &machine, const BestOptions &options);

// The best that a database knows for the op on this machine; nothing when it knows none. Throws UserError when there is
// no such database.
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
