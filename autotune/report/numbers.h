// Internal to the report: statistics of the records of a task.
#pragma once

#include "autotune/model/accuracy.h"
#include "autotune/model/cost_model.h"
#include "autotune/record.h"

#include <map>

namespace kumiko::report {

// The expected result of a purely random search: the expected minimum among n of the records that
// were sampled at random. Like the search, it tries the default first.
struct ChanceCurve {
    std::vector<double> seconds; // after 1, 2, … trials, up to the number of samples
    int samples = 0;             // number of random samples
    // Whether the samples come from a random-search session; otherwise they are the random trials
    // of another search.
    bool session = false;

    bool empty() const { return seconds.empty(); }
};

// Requires at least four samples; otherwise empty. Failed samples count as trials.
ChanceCurve chance_curve(const std::vector<Record> &records);

struct Failures {
    int count = 0;
    Record example;
};

struct Numbers {
    std::vector<Record> trials; // built and measured, in order; excludes a random-search session
    std::vector<double> best_so_far;
    ChanceCurve chance;
    std::optional<Record> best;                            // as Database::best() selects it
    std::optional<Record> default_record;                  // the default candidate, if it is good
    int good = 0, failed = 0, rejected = 0, by_chance = 0; // by_chance: trials of a random search
    std::map<std::string, Failures> failures, rejections;  // by kind of reason

    // The good candidates: seconds and predictions; NaN: unknown.
    std::vector<Record> good_records;
    std::vector<double> seconds, predicted, estimated;
    std::vector<double> scored; // by the given model, before it was refined on this task
};

// Whether the model applies to these features.
bool applies_to(const CostModel &model, const Features &features);

// Requires records of one task, in any order; `model` may be untrained.
Numbers numbers_of(std::vector<Record> records, const CostModel &model);

// Statistics of the pairs with known scores.
struct PairAccuracy {
    int candidates = 0; // candidates with a score
    // Fraction of correctly ordered pairs, of those that differ by more than 1 %.
    double pairs = 0;
};
PairAccuracy pair_accuracy(const std::vector<double> &scores, const std::vector<double> &seconds);

// Why the model prefers one candidate to another: the contributions to both scores, the largest
// difference first.
struct Contribution {
    std::string feature;
    double value = 0, other_value = 0; // of the feature
    double part = 0, other_part = 0;   // of the score
};
std::vector<Contribution> contributions_of(const CostModel &model, const Features &best, const Features &other);

} // namespace kumiko::report
