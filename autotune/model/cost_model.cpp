#include "autotune/model/cost_model.h"

#include "autotune/features/chip_features.h"
#include "autotune/features/feature_sets.h"
#include "support/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>
#include <sstream>

namespace kumiko {

namespace {

constexpr const char *weight_note = "kumiko_estimate_weight"; // weight of the initial scores
std::string weight_text(int version) { return fmt::format("{:g}", find_features(version)->weight); }

constexpr size_t enough_to_learn = 6; // measurements of the task itself

// The first `columns` values of each.
Rows rows_of(const std::vector<Features> &candidates, int version, size_t columns) {
    Rows rows;
    for (const Features &f : candidates) {
        if (f.version != version)
            throw UserError("a cost model trained on features of " + describe_features(version) +
                            ", cannot rank a candidate whose features are of " + describe_features(f.version));
        if (const std::string wrong = wrong_length(f); !wrong.empty()) throw UserError("a candidate has " + wrong);
        rows.add({f.values.begin(), f.values.begin() + static_cast<long>(columns)});
    }
    return rows;
}

Rows rows_of(const std::vector<Features> &candidates, int version) {
    return rows_of(candidates, version, find_features(version)->names.size());
}

// The rows that a task's own trees are trained on.
Rows own_rows(const std::vector<Features> &candidates, int version) {
    return rows_of(candidates, version, find_features(version)->own);
}

// Initial scores of candidates with features of that version.
std::vector<float> beginnings(const std::vector<Features> &candidates, int version) {
    const FeatureSet *set = find_features(version);
    std::vector<float> all;
    for (const Features &f : candidates) all.push_back(set->begin(f));
    return all;
}

// Contributions of the trees to one score, plus the initial score.
std::vector<float> with_beginning(std::vector<float> contributions, const Features &features) {
    const FeatureSet *set = find_features(features.version);
    if (set->base < contributions.size()) contributions[set->base] += set->begin(features);
    return contributions;
}

std::vector<std::pair<std::string, double>> named(const std::vector<float> &contributions, int version) {
    const std::vector<std::string> &names = find_features(version)->names;
    std::vector<std::pair<std::string, double>> all;
    for (size_t i = 0; i < names.size() && i < contributions.size(); i++) {
        if (contributions[i] != 0) all.emplace_back(names[i], contributions[i]);
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const auto &a, const auto &b) { return std::abs(a.second) > std::abs(b.second); });
    return all;
}

} // namespace

std::vector<float> qualities(const std::vector<double> &seconds) {
    double best = std::numeric_limits<double>::infinity();
    for (double s : seconds) best = std::min(best, s);
    std::vector<float> all;
    for (double s : seconds) all.push_back(std::isfinite(s) ? static_cast<float>(best / s) : 0.f);
    return all;
}

TreeOptions CostModel::default_options() {
    TreeOptions o;
    o.rounds = 600;
    o.equal_weights = true;
    o.depth = 5;
    o.rate = 0.1;
    o.keep_rows = 0.8;
    o.keep_columns = 0.5;
    return o;
}

CostModel CostModel::learn(const std::vector<ModelTask> &tasks, const TreeOptions &options, const CostModel *before) {
    if (before && before->empty()) before = nullptr;
    Rows rows;
    std::vector<float> quality, offsets;
    std::vector<size_t> groups;
    int version = 0;
    for (const ModelTask &task : tasks) {
        if (task.features.size() < 2) continue;
        if (groups.empty()) version = task.features[0].version;
        if (!find_features(version))
            throw UserError("no model can be trained on features of " + describe_features(version));
        const Rows own = rows_of(task.features, version);
        rows.columns = own.columns;
        rows.values.insert(rows.values.end(), own.values.begin(), own.values.end());
        const std::vector<float> q = qualities(task.seconds);
        quality.insert(quality.end(), q.begin(), q.end());
        const std::vector<float> begin = beginnings(task.features, version);
        if (find_features(version)->weight > 0) offsets.insert(offsets.end(), begin.begin(), begin.end());
        groups.push_back(q.size());
    }
    if (groups.empty())
        throw UserError("there is nothing to train on: no task has two measured candidates with features");
    if (before && before->version() != version)
        throw UserError("a cost model trained on features of " + describe_features(before->version()) +
                        ", cannot be trained further on features of " + describe_features(version));
    CostModel model;
    model.trees_.order(rows, quality, groups, offsets, options, before ? &before->trees_ : nullptr);
    model.trees_.set_note("kumiko_features_version", std::to_string(version));
    model.trees_.set_note(weight_note, weight_text(version));
    model.version_ = version;
    return model;
}

CostModel CostModel::load(const std::string &bytes, const std::string &document) {
    CostModel model;
    model.trees_ = BoostedTrees::load(bytes, document);
    const std::string version = model.trees_.note("kumiko_features_version");
    for (const FeatureSet *set : {find_features(features_version), find_features(chip_features_version)}) {
        if (version == std::to_string(set->version)) model.version_ = set->version;
    }
    if (!model.version_)
        throw UserError(document + " was trained on features of version " + (version.empty() ? "unknown" : version) +
                        "; this Kumiko has version " + std::to_string(features_version) + " of nests, and " +
                        std::to_string(chip_features_version) + " of programs of the chip: train it again");
    const size_t columns = find_features(model.version_)->names.size();
    if (model.trees_.columns() != columns)
        throw UserError(document + " was learned from " + std::to_string(model.trees_.columns()) +
                        " features; this Kumiko has " + std::to_string(columns) + ": train it again");
    if (const std::string weight = model.trees_.note(weight_note); weight != weight_text(model.version_))
        throw UserError(document + " was trained to correct " + (weight.empty() ? "an unknown number of" : weight) +
                        " times the estimate; this Kumiko begins with " + weight_text(model.version_) +
                        " times: train it again");
    return model;
}

CostModel CostModel::load_file(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) throw UserError("cannot read the cost model " + path);
    std::ostringstream bytes;
    bytes << in.rdbuf();
    return load(bytes.str(), path);
}

std::string CostModel::save() const { return trees_.save(); }

std::vector<float> CostModel::score(const std::vector<Features> &candidates) const {
    if (empty()) return std::vector<float>(candidates.size(), 0.f);
    std::vector<float> scores = trees_.predict(rows_of(candidates, version_));
    const std::vector<float> begin = beginnings(candidates, version_);
    for (size_t i = 0; i < scores.size(); i++) scores[i] += begin[i];
    return scores;
}

std::vector<std::pair<std::string, double>> CostModel::contributions(const Features &features) const {
    if (empty()) return {};
    rows_of({features}, version_);
    return named(with_beginning(trees_.contributions(features.values), features), version_);
}

TaskModel::TaskModel(std::shared_ptr<const CostModel> before, int version)
    : before_(std::move(before)), version_(version) {
    if (!before_) before_ = std::make_shared<CostModel>();
    if (!before_->empty() && before_->version() != version_)
        throw UserError("the cost model was trained on features of " + describe_features(before_->version()) +
                        "; candidates here have those of " + describe_features(version_));
}

void TaskModel::tell(const Features &features, double seconds) {
    if (features.version != version_ || !is_current(features)) return;
    told_.push_back(features);
    seconds_.push_back(seconds);
}

void TaskModel::learn() {
    if (told_.size() < enough_to_learn || told_.size() == learned_) return;
    TreeOptions o;
    o.rounds = 80;
    o.depth = 4;
    o.rate = 0.2;
    o.keep_columns = 0.5;
    o.min_weight = 0.3;
    trees_ = BoostedTrees();
    trees_.order(own_rows(told_, version_), qualities(seconds_), {told_.size()},
                 before_->empty() ? beginnings(told_, version_) : before_->score(told_), o);
    learned_ = told_.size();
}

std::vector<float> TaskModel::score(const std::vector<Features> &candidates, const std::vector<double> &estimates) {
    learn();
    const Rows rows = own_rows(candidates, version_);
    std::vector<float> scores(candidates.size(), 0.f);
    if (before_->empty()) {
        for (size_t i = 0; i < scores.size(); i++)
            scores[i] = static_cast<float>(-std::log2(std::max(estimates[i], 1e-12)));
        if (learned_ == 0) return scores;
        scores = beginnings(candidates, version_);
    } else {
        scores = before_->score(candidates);
    }
    const std::vector<float> own = trees_.predict(rows);
    for (size_t i = 0; i < scores.size(); i++) scores[i] += own[i];
    return scores;
}

std::vector<std::pair<std::string, double>> TaskModel::contributions(const Features &features) {
    learn();
    const Rows own = own_rows({features}, version_);
    std::vector<float> all(find_features(version_)->names.size(), 0.f);
    const auto add = [&](const std::vector<float> &part) {
        for (size_t i = 0; i < all.size() && i < part.size(); i++) all[i] += part[i];
    };
    if (trees_.trained()) {
        std::vector<float> part = trees_.contributions(own.values);
        part.resize(own.columns); // followed by the common bias
        add(part);
    }
    std::vector<std::pair<std::string, double>> result = named(all, version_);
    if (before_->empty()) return named(with_beginning(all, features), version_);
    for (const auto &[name, value] : before_->contributions(features)) {
        const auto found = std::find_if(result.begin(), result.end(), [&](const auto &r) { return r.first == name; });
        if (found == result.end())
            result.emplace_back(name, value);
        else
            found->second += value;
    }
    std::stable_sort(result.begin(), result.end(),
                     [](const auto &a, const auto &b) { return std::abs(a.second) > std::abs(b.second); });
    return result;
}

} // namespace kumiko
