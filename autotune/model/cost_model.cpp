#include "autotune/model/cost_model.h"

#include "support/error.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>
#include <sstream>

namespace kumiko {

namespace {

constexpr size_t enough_to_learn = 6; // measurements of the task itself

Rows rows_of(const std::vector<Features> &candidates) {
    Rows rows;
    for (const Features &f : candidates) {
        if (f.version != features_version)
            throw InternalError("features of version " + std::to_string(f.version) + " where " +
                                std::to_string(features_version) + " are meant");
        rows.add(f.values);
    }
    return rows;
}

std::vector<std::pair<std::string, double>> named(const std::vector<float> &contributions) {
    const std::vector<std::string> &names = feature_names();
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
    o.rounds = 250;
    o.depth = 5;
    o.rate = 0.1;
    o.keep_rows = 0.8;
    o.keep_columns = 0.5;
    return o;
}

CostModel CostModel::learn(const std::vector<ModelTask> &tasks, const TreeOptions &options) {
    Rows rows;
    std::vector<float> quality;
    std::vector<size_t> groups;
    for (const ModelTask &task : tasks) {
        if (task.features.size() < 2) continue;
        const Rows own = rows_of(task.features);
        rows.columns = own.columns;
        rows.values.insert(rows.values.end(), own.values.begin(), own.values.end());
        const std::vector<float> q = qualities(task.seconds);
        quality.insert(quality.end(), q.begin(), q.end());
        groups.push_back(q.size());
    }
    if (groups.empty())
        throw UserError("there is nothing to learn from: no task has two measured candidates with features");
    CostModel model;
    model.trees_.order(rows, quality, groups, {}, options);
    model.trees_.set_note("kumiko_features_version", std::to_string(features_version));
    return model;
}

CostModel CostModel::load(const std::string &bytes, const std::string &document) {
    CostModel model;
    model.trees_ = BoostedTrees::load(bytes, document);
    const std::string version = model.trees_.note("kumiko_features_version");
    if (version != std::to_string(features_version))
        throw UserError(document + " was learnt from features of version " + (version.empty() ? "unknown" : version) +
                        "; this Kumiko has version " + std::to_string(features_version) + ": learn it anew");
    if (model.trees_.columns() != feature_names().size())
        throw UserError(document + " was learnt from " + std::to_string(model.trees_.columns()) +
                        " features; this Kumiko has " + std::to_string(feature_names().size()) + ": learn it anew");
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
    return trees_.predict(rows_of(candidates));
}

std::vector<std::pair<std::string, double>> CostModel::contributions(const Features &features) const {
    return named(trees_.contributions(features.values));
}

TaskModel::TaskModel(std::shared_ptr<const CostModel> before) : before_(std::move(before)) {
    if (!before_) before_ = std::make_shared<CostModel>();
}

void TaskModel::tell(const Features &features, double seconds) {
    if (features.version != features_version) return;
    told_.push_back(features);
    seconds_.push_back(seconds);
}

void TaskModel::learn() {
    if (told_.size() < enough_to_learn || told_.size() == learnt_) return;
    TreeOptions o;
    o.rounds = 80;
    o.depth = 4;
    o.rate = 0.2;
    o.keep_columns = 0.5;
    o.min_weight = 0.3;
    trees_ = BoostedTrees();
    trees_.order(rows_of(told_), qualities(seconds_), {told_.size()}, before_->score(told_), o);
    learnt_ = told_.size();
}

std::vector<float> TaskModel::score(const std::vector<Features> &candidates, const std::vector<double> &estimates) {
    learn();
    std::vector<float> scores(candidates.size(), 0.f);
    if (before_->empty()) {
        for (size_t i = 0; i < scores.size(); i++)
            scores[i] = static_cast<float>(-std::log2(std::max(estimates[i], 1e-12)));
        if (learnt_ == 0) return scores;
        std::fill(scores.begin(), scores.end(), 0.f);
    } else {
        scores = before_->score(candidates);
    }
    const std::vector<float> own = trees_.predict(rows_of(candidates));
    for (size_t i = 0; i < scores.size(); i++) scores[i] += own[i];
    return scores;
}

std::vector<std::pair<std::string, double>> TaskModel::contributions(const Features &features) {
    learn();
    std::vector<float> all(feature_names().size(), 0.f);
    const auto add = [&](const std::vector<float> &part) {
        for (size_t i = 0; i < all.size() && i < part.size(); i++) all[i] += part[i];
    };
    if (trees_.trained()) add(trees_.contributions(features.values));
    std::vector<std::pair<std::string, double>> result = named(all);
    if (before_->empty()) return result;
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
