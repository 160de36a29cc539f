#pragma once

namespace kumiko {

enum class SearchMethod {
    Model,     // evolution, ranked by the cost model
    Evolution, // evolution by measurements alone
    Random,    // uniform samples of the space: the baseline, and training data for a model
};

} // namespace kumiko
