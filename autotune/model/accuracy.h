// Ranking quality of scores, compared with measured times.
#pragma once

#include <vector>

namespace kumiko {

struct Accuracy {
    // Fraction of correctly ordered pairs, of those that differ by more than 1 %.
    double pairs = 0;
    double recall_30 = 0; // fraction of the 30 fastest among the 30 best scores
    double top_1 = 0;     // time of the fastest ÷ time of the best score
    double top_5 = 0;     // ÷ shortest time among the five best scores
    double top_16 = 0;
};

// Scores: higher is predicted faster; pairs with equal scores count half. Seconds may be infinite.
Accuracy accuracy(const std::vector<double> &scores, const std::vector<double> &seconds);
// The mean of each figure.
Accuracy mean(const std::vector<Accuracy> &all);

} // namespace kumiko
