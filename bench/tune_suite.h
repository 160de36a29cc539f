// The quality of the tuner: how close few trials come to the best known schedule, compared with
// random search, and how well the cost model ranks candidates of unseen tasks.
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
    int random = 256;     // samples for comparison and for the model's accuracy; 0: none
    int chip_random = 64; // the same on the chip
    // Also search the space made from the formula, if the library has a space of its own.
    bool formula_spaces = false;
    // Trials of a long search whose best counts as known, and is stored in `known`.
    int explore = 0;
    // A JSON file with the best schedules of longer searches, by task and machine; empty: none.
    std::string known;
    std::string only;       // tasks whose name contains this
    std::string cost_model; // as in TuneOptions
    uint64_t seed = 1;
};

// Seconds are medians of paired runs, infinite if there is none; `known` is the minimum of all.
struct TuneSuiteRow {
    std::string name, failure; // why it could not be tuned
    double untuned = 0, few = 0, tuned = 0, random = 0, known = 0;
    // For an op without its own library schedule: the generic library schedule, and the op's
    // unscheduled loops.
    double plain = 0, nest = 0;
    // The best in the space made from the formula; 0: not requested.
    double formula = 0;
    int known_trials = 0; // trials that the best known needed
    // Trials until tuning was within 2 % of the best random candidate; 0: never.
    int trials = 0, reached_random = 0;
    // Time of the tuning; the part of it spent in the search itself.
    double seconds = 0, search_seconds = 0;
    double gflops = 0;                           // of the tuned one; 0 if GB/s is the measure
    std::optional<Accuracy> learned, analytical; // on the random samples
    Json json() const;
};

std::vector<TuneSuiteRow> run_tune_suite(const Target &target, const TuneSuiteOptions &options,
                                         const std::function<void(const std::string &)> &progress = {});
std::string tune_suite_text(const std::vector<TuneSuiteRow> &rows);

// On the simulated chip, where times are exact: the gain of tuning over the library's default
// schedule.
struct ChipTuneRow {
    std::string name, failure;
    // Simulated seconds; 0 if the library has no schedule.
    double untuned = 0, tuned = 0;
    double formula_untuned = 0, formula = 0; // in the space made from the formula; 0: not requested
    // Samples of the formula's space, or of the library's if there is none: the best of them, and
    // how well the model, the estimate and the space's expected costs rank them.
    double random = 0;
    int samples = 0;
    std::optional<Accuracy> learned, analytical, expected;
    double clock_hz = 0;
    int trials = 0, rejected = 0, bad = 0; // measured; illegal; measured but not good
    std::map<std::string, int> failures;
    // Time of the tuning; the part of it spent in the search itself.
    double seconds = 0, search_seconds = 0;
    Json json() const;
};

std::vector<ChipTuneRow> run_chip_tune_suite(const std::string &machine, const TuneSuiteOptions &options,
                                             const std::function<void(const std::string &)> &progress = {});
std::string chip_tune_suite_text(const std::vector<ChipTuneRow> &rows);

} // namespace kumiko::bench
