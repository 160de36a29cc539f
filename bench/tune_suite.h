// How good the tuner is: what few trials reach of the best schedule known, beside random search, and how well the cost model orders
// candidates of tasks that it never saw.
#pragma once

#include "autotune/model/accuracy.h"
#include "bench/tune_tasks.h"
#include "driver/target.h"
#include "support/json.h"

#include <functional>
#include <map>
#include <optional>

namespace kumiko::bench {

struct TuneSuiteOptions {
    int trials = 64, few = 16;
    int random = 256;            // samples for comparison and for the model's accuracy; 0: none
    int chip_random = 64;        // the same on the chip
    bool formula_spaces = false; // also search the space made from the formula, where the library has one of its own
    int explore = 0;             // trials of a long search whose best counts as known, and is kept in `known`
    std::string known;      // a JSON file with the best schedules of longer searches, by task and machine; empty: none
    std::string only;       // tasks whose name contains this
    std::string cost_model; // as in TuneOptions
    uint64_t seed = 1;
};

// Seconds are medians of runs side by side, infinite where there is none; `known` is the least of all.
struct TuneSuiteRow {
    std::string name, failure; // why it could not be tuned
    double untuned = 0, few = 0, tuned = 0, random = 0, known = 0;
    // Of an op that has no schedule of its own in the library: of that for anything, and of the op's plain loops, without any schedule.
    double plain = 0, nest = 0;
    double formula = 0;                     // of the best in the space made from the formula; 0: not asked for
    int known_trials = 0;                   // that the best known took
    int trials = 0, reached_random = 0;     // trials after which tuning was within 2 % of the best random one; 0: never
    double seconds = 0, search_seconds = 0; // of the tuning; of them, those in which the tuner thought
    double gflops = 0;                      // of the tuned one; 0 where GB/s is the measure
    std::optional<Accuracy> learned, analytical; // on the random samples
    Json json() const;
};

std::vector<TuneSuiteRow> run_tune_suite(const Target &target, const TuneSuiteOptions &options,
                                         const std::function<void(const std::string &)> &progress = {});
std::string tune_suite_text(const std::vector<TuneSuiteRow> &rows);

// On the simulated chip, where times are exact: what tuning gains over the library's default schedule.
struct ChipTuneRow {
    std::string name, failure;
    double untuned = 0, tuned = 0;           // simulated seconds; 0 where the library has no schedule
    double formula_untuned = 0, formula = 0; // in the space made from the formula; 0: not asked for
    // Samples of the formula's space, or of the library's where there is none: the best of them, and how the model, the estimate and what the
    // space's author expects order them.
    double random = 0;
    int samples = 0;
    std::optional<Accuracy> learned, analytical, expected;
    double clock_hz = 0;
    int trials = 0, rejected = 0, bad = 0; // measured; not legal; of those measured, not good
    std::map<std::string, int> failures;
    double seconds = 0, search_seconds = 0; // of the tuning; of them, those in which the tuner thought
    Json json() const;
};

std::vector<ChipTuneRow> run_chip_tune_suite(const std::string &machine, const TuneSuiteOptions &options,
                                             const std::function<void(const std::string &)> &progress = {});
std::string chip_tune_suite_text(const std::vector<ChipTuneRow> &rows);

} // namespace kumiko::bench
