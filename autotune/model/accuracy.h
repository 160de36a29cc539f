// How well scores order candidates that were measured.
#pragma once

#include <vector>

namespace kumiko {

struct Accuracy {
    double pairs = 0;     // of pairs whose seconds differ by more than 1 %, the part that is ordered rightly
    double recall_30 = 0; // of the 30 fastest, the part among the 30 best scores
    double top_1 = 0;     // the fastest's seconds ÷ those of the best score
    double top_5 = 0;     // ÷ the least seconds among the five best scores
    double top_16 = 0;
};

// Scores: greater is faster; among equal scores chance decides, which counts half. Seconds may be infinite.
Accuracy accuracy(const std::vector<double> &scores, const std::vector<double> &seconds);
// Each figure's mean.
Accuracy mean(const std::vector<Accuracy> &all);

} // namespace kumiko
