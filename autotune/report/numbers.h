// Private to autotune's report: what the records of a task say, as numbers.
#pragma once

#include "autotune/model/accuracy.h"
#include "autotune/model/cost_model.h"
#include "autotune/record.h"

#include <map>

namespace kumiko::report {

// What a search by chance alone would reach: of records that were taken by chance, the expected least seconds among n
// of them. As the search does, it tries the default first.
struct ChanceCurve {
    std::vector<double> seconds; // after 1, 2, … trials; ends with the samples
    int samples = 0;             // that it is drawn from
    bool session = false;        // they are of a search by chance; else what another search tried by chance

    bool empty() const { return seconds.empty(); }
};

// Of at least four samples; otherwise empty. Failed ones count as drawn in vain.
ChanceCurve chance_curve(const std::vector<Record> &records);

struct Failures {
    int count = 0;
    Record example;
};

struct Numbers {
    std::vector<Record> trials; // built and measured, in order, without those of a search by chance beside
    std::vector<double> best_so_far;
    ChanceCurve chance;
    std::optional<Record> best;                            // as Database::best() takes it
    std::optional<Record> begun;                           // the default candidate, when it is good
    int good = 0, failed = 0, rejected = 0, by_chance = 0; // by_chance: trials of a search by chance
    std::map<std::string, Failures> failures, rejections;  // kinds of reasons

    // The good candidates: seconds, and what was thought of them; not a number: nothing.
    std::vector<Record> judged;
    std::vector<double> seconds, predicted, estimated;
    std::vector<double> scored; // by the model given, before it learnt from this task
};

// Whether the model is one for such features.
bool judges(const CostModel &model, const Features &features);

// Requires records of one task, in any order; `model` may know nothing.
Numbers numbers_of(std::vector<Record> records, const CostModel &model);

// Of the pairs whose score is known.
struct PairAccuracy {
    int candidates = 0; // with a score
    double pairs = 0;   // of pairs that differ by more than 1 %, the part ordered rightly
};
PairAccuracy pair_accuracy(const std::vector<double> &scores, const std::vector<double> &seconds);

// Why the model sets one candidate above another: contributions to both scores, the largest difference first.
struct Contribution {
    std::string feature;
    double value = 0, other_value = 0; // of the feature
    double part = 0, other_part = 0;   // of the score
};
std::vector<Contribution> contributions_of(const CostModel &model, const Features &best, const Features &other);

} // namespace kumiko::report
