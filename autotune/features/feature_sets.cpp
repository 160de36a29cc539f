#include "autotune/features/feature_sets.h"

#include "autotune/features/chip_features.h"

#include <algorithm>

namespace kumiko {

namespace {

// Fraction of correctly ordered pairs on held-out training tasks, by weight: 0: 0.954, 2: 0.960, 8:
// 0.970, 16: 0.968.
constexpr float chip_estimate_weight = 8;

const FeatureSet &features_of_nests() {
    static const FeatureSet set{features_version, "nests", feature_names(), own_features()};
    return set;
}

const FeatureSet &features_of_chips() {
    static const FeatureSet set = [] {
        const std::vector<std::string> &names = chip_feature_names();
        const auto base = std::find(names.begin(), names.end(), "estimate") - names.begin();
        return FeatureSet{chip_features_version, "programs of the chip", names,
                          names.size(),          size_t(base),           chip_estimate_weight};
    }();
    return set;
}

} // namespace

const FeatureSet &features_for(const Machine &machine) {
    return machine.architecture == "chip" ? features_of_chips() : features_of_nests();
}

const FeatureSet *find_features(int version) {
    for (const FeatureSet *set : {&features_of_nests(), &features_of_chips()}) {
        if (set->version == version) return set;
    }
    return nullptr;
}

bool is_current(const Features &features) {
    const FeatureSet *set = find_features(features.version);
    return set && features.values.size() == set->names.size();
}

std::string wrong_length(const Features &features) {
    const FeatureSet *set = find_features(features.version);
    if (!set || features.values.size() == set->names.size()) return "";
    return std::to_string(features.values.size()) + " values, but features of " + describe_features(features.version) +
           ", are " + std::to_string(set->names.size());
}

std::string describe_features(int version) {
    const FeatureSet *set = find_features(version);
    return "version " + std::to_string(version) +
           (set ? std::string(", of ") + set->of : std::string(", which this Kumiko does not have"));
}

} // namespace kumiko
