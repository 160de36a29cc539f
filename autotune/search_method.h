#pragma once

namespace kumiko {

enum class SearchMethod {
    Model,     // evolution, ranked by the cost model
    Evolution, // evolution, based only on measurements
    Random,    // uniform samples of the space: a baseline, and training data for models
};

} // namespace kumiko
