// Which of several candidates is fastest, told from their features: what was learnt beforehand from other tasks, and what this
// task's own measurements add.
#pragma once

#include "autotune/features/features.h"
#include "autotune/model/boosted_trees.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kumiko {

// Candidates of one task: features, and seconds, infinite for those that failed.
struct ModelTask {
    std::string name;
    std::vector<Features> features;
    std::vector<double> seconds;
    std::vector<double> estimates; // the analytical seconds
};

// What many tasks taught.
class CostModel {
public:
    CostModel() = default; // knows nothing: scores are 0

    // The one that comes with Kumiko for candidates on that machine; made by `kumiko learn`. Processors that multiply and add more than
    // 512 bits a cycle have one of their own: what is fast there is more often bound by loads, stores and caches.
    static std::shared_ptr<const CostModel> shipped(const Machine &machine);
    // The same where the machine is not known but by its candidates' features (features/feature_sets.h).
    static std::shared_ptr<const CostModel> shipped(int features_version = kumiko::features_version);
    // Throws UserError when it is no model, or one of features that this Kumiko does not have.
    static CostModel load(const std::string &bytes, const std::string &document = "the cost model");
    static CostModel load_file(const std::string &path);
    std::string save() const;

    // `before`: a model whose trees stay, and to which those that the tasks teach are added; null:
    // none. Throws UserError when the tasks have features of several kinds, or others than `before`
    // learnt from, or none has two candidates.
    static CostModel learn(const std::vector<ModelTask> &tasks, const TreeOptions &options = default_options(),
                           const CostModel *before = nullptr);
    static TreeOptions default_options();

    bool empty() const { return !trees_.trained(); }
    int version() const { return version_; } // of the features that it learnt from; 0: it knows nothing
    // Greater is faster; comparable only among candidates of one task. Throws UserError for features of another version.
    std::vector<float> score(const std::vector<Features> &candidates) const;
    // What speaks for and against one, the strongest first.
    std::vector<std::pair<std::string, double>> contributions(const Features &features) const;

private:
    BoostedTrees trees_;
    int version_ = 0;
};

// A model while a task is tuned.
class TaskModel {
public:
    // `version`: of the features of the task's candidates; null and models that know nothing suit any. Throws UserError where `before`
    // learnt from others.
    explicit TaskModel(std::shared_ptr<const CostModel> before, int version = features_version);

    void tell(const Features &features, double seconds);
    // Greater is faster. `estimates`: the analytical seconds, which are all there is when nothing was learnt.
    std::vector<float> score(const std::vector<Features> &candidates, const std::vector<double> &estimates);
    std::vector<std::pair<std::string, double>> contributions(const Features &features);

private:
    void learn();

    std::shared_ptr<const CostModel> before_;
    int version_;
    BoostedTrees trees_;
    std::vector<Features> told_;
    std::vector<double> seconds_;
    size_t learnt_ = 0; // of told_, when trees_ were made
};

// Seconds as qualities from 0 (failed) to 1 (the best).
std::vector<float> qualities(const std::vector<double> &seconds);

} // namespace kumiko
