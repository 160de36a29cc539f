// Two kinds of features exist: features of nests and features of chip programs. Each kind has its
// own range of version numbers.
#pragma once

#include "autotune/features/features.h"

namespace kumiko {

struct FeatureSet {
    int version;
    const char *of; // "nests", "programs of the chip"
    const std::vector<std::string> &names;
    // The number of leading values that vary within a task; a task's own measurements train on
    // these.
    size_t own;
    // Initial score before any training: −`weight` × the value at `base`, the logarithm of an
    // estimated time. The trees learn the residual. weight 0: no initial score.
    size_t base = 0;
    float weight = 0;

    float begin(const Features &features) const { return weight > 0 ? -weight * features.values.at(base) : 0.f; }
};

// The features that candidates for the machine have.
const FeatureSet &features_for(const Machine &machine);
// Null if the version is from another version of Kumiko.
const FeatureSet *find_features(int version);
// Whether the version and the length match this version of Kumiko.
bool is_current(const Features &features);
// "7 values, but features of version 2, of nests, are 123"; "" if the length is right, or the
// version is unknown.
std::string wrong_length(const Features &features);
// "version 2, of nests"; "version 7, which this Kumiko does not have".
std::string describe_features(int version);

} // namespace kumiko
