// The kinds of features that there are: those of nests, and those of programs for a chip. Each kind numbers its versions in a range of its own.
#pragma once

#include "autotune/features/features.h"

namespace kumiko {

struct FeatureSet {
    int version;
    const char *of; // "nests", "programs of the chip"
    const std::vector<std::string> &names;
    size_t
        own; // of these, the first ones, that differ within a task by more than a constant: what the task's own measurements teach
    // What a score begins with, before anything is learnt: −`weight` × the value in `base`, a logarithm of estimated time; trees learn what is
    // missing. 0: it begins with nothing.
    size_t base = 0;
    float weight = 0;

    float begin(const Features &features) const { return weight > 0 ? -weight * features.values.at(base) : 0.f; }
};

// Those that candidates for the machine have.
const FeatureSet &features_for(const Machine &machine);
// Null: of another version of Kumiko.
const FeatureSet *find_features(int version);
// Of a version that this Kumiko has, and as long as that is.
bool is_current(const Features &features);
// "7 values, but features of version 2, of nests, are 123"; empty where they are as many as their version has, or of one that this Kumiko
// does not have.
std::string wrong_length(const Features &features);
// "version 2, of nests"; "version 7, which this Kumiko does not have".
std::string describe_features(int version);

} // namespace kumiko
