// Which candidates look best before they are measured. A ranker orders candidates by what it expects of them; the one
// here expects nothing. A learned model takes its place behind the same interface: features of the nest in, an order
// out.
#pragma once

#include "schedules/library/space.h"

#include <memory>
#include <vector>

namespace kumiko {

// Numbers that describe a candidate, in the order that `version` fixes; equal length for all candidates.
struct Features {
    int version = 0; // 0: none
    std::vector<float> values;
};

class FeatureExtractor {
public:
    virtual ~FeatureExtractor() = default;
    virtual Features extract(const Schedule &schedule) const = 0;
};

struct RankedCandidate {
    Point point;
    Features features; // empty without an extractor
};

class Ranker {
public:
    virtual ~Ranker() = default;
    // The indices of the candidates, the most promising first; a permutation.
    virtual std::vector<size_t> rank(const std::vector<RankedCandidate> &candidates) = 0;
    // What measuring brought: seconds, or infinity for a candidate that failed.
    virtual void learn(const std::vector<RankedCandidate> &candidates, const std::vector<double> &seconds) = 0;
};

// Keeps the order in which the search proposes.
class NoRanker : public Ranker {
public:
    std::vector<size_t> rank(const std::vector<RankedCandidate> &candidates) override;
    void learn(const std::vector<RankedCandidate> &, const std::vector<double> &) override {}
};

} // namespace kumiko
