// Predicts which of several candidates is fastest from their features: a model pre-trained on other
// tasks, refined with this task's measurements.
#pragma once

#include "autotune/features/features.h"
#include "autotune/model/boosted_trees.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kumiko {

// Candidates of one task: features, and seconds (infinite if failed).
struct ModelTask {
    std::string name;
    std::vector<Features> features;
    std::vector<double> seconds;
    std::vector<double> estimates; // the analytical seconds
};

// A model trained on many tasks.
class CostModel {
public:
    CostModel() = default; // untrained: all scores are 0

    // The model shipped with Kumiko for candidates on that machine, produced by `kumiko learn`.
    // Processors with more than 512 bits of FMAs per cycle have their own, because they are more
    // often bound by loads, stores and caches.
    static std::shared_ptr<const CostModel> shipped(const Machine &machine);
    // The same if only the version of the candidates' features is known
    // (autotune/features/feature_sets.h).
    static std::shared_ptr<const CostModel> shipped(int features_version = kumiko::features_version);
    // Throws UserError if it is not a model, or uses features that this Kumiko does not have.
    static CostModel load(const std::string &bytes, const std::string &document = "the cost model");
    static CostModel load_file(const std::string &path);
    std::string save() const;

    // Trains a model. `before`: a model whose trees are kept and extended; may be null. Throws
    // UserError if the tasks have features of several kinds, or of another kind than `before`, or
    // if no task has two candidates.
    static CostModel learn(const std::vector<ModelTask> &tasks, const TreeOptions &options = default_options(),
                           const CostModel *before = nullptr);
    static TreeOptions default_options();

    bool empty() const { return !trees_.trained(); }
    int version() const { return version_; } // version of the features; 0: untrained
    // Higher is predicted faster; comparable only within one task. Throws UserError for features of
    // another version.
    std::vector<float> score(const std::vector<Features> &candidates) const;
    // The contribution of each feature to one score, the largest first.
    std::vector<std::pair<std::string, double>> contributions(const Features &features) const;

private:
    BoostedTrees trees_;
    int version_ = 0;
};

// A model that is refined while a task is tuned.
class TaskModel {
public:
    // `version`: of the features of the task's candidates; null and untrained models accept any.
    // Throws UserError if `before` was trained on other features.
    explicit TaskModel(std::shared_ptr<const CostModel> before, int version = features_version);

    void tell(const Features &features, double seconds);
    // Higher is predicted faster. `estimates`: the analytical seconds, which are used alone if
    // there is no trained model.
    std::vector<float> score(const std::vector<Features> &candidates, const std::vector<double> &estimates);
    std::vector<std::pair<std::string, double>> contributions(const Features &features);

private:
    void learn();

    std::shared_ptr<const CostModel> before_;
    int version_;
    BoostedTrees trees_;
    std::vector<Features> told_;
    std::vector<double> seconds_;
    size_t learned_ = 0; // measurements used by trees_
};

// Maps seconds to qualities from 0 (failed) to 1 (the best).
std::vector<float> qualities(const std::vector<double> &seconds);

} // namespace kumiko
