// Methods of the tuner's search.
#pragma once

namespace kumiko {

// How the tuner proposes candidates.
enum class SearchMethod {
    Model,     // evolution, ranked by the cost model
    Evolution, // evolution, based only on measurements
    Random,    // uniform samples of the space: a baseline, and training data for models
};

} // namespace kumiko
