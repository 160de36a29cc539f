// The cost model on synthetic candidates.
#include "autotune/features/chip_features.h"
#include "autotune/model/accuracy.h"
#include "autotune/model/cost_model.h"
#include "autotune/model/learn.h"
#include "support/error.h"
#include "support/random.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>

using namespace kumiko;

namespace {

// Candidates whose time is a function of three of their features, at a task-specific scale.
ModelTask made_up(uint64_t seed, int n) {
    Random random(seed);
    ModelTask task{"task" + std::to_string(seed), {}, {}, {}};
    const double scale = std::pow(10, random.real() * 4 - 6);
    for (int i = 0; i < n; i++) {
        Features f{features_version, std::vector<float>(feature_names().size())};
        for (float &v : f.values) v = static_cast<float>(random.real());
        const double seconds = scale * (0.2 + f.values[3] + (f.values[7] > 0.5 ? 0.5 : 0) + f.values[3] * f.values[20]);
        task.features.push_back(std::move(f));
        task.seconds.push_back(seconds);
        task.estimates.push_back(seconds * (0.5 + random.real()));
    }
    return task;
}

TreeOptions quick() {
    TreeOptions o = CostModel::default_options();
    o.rounds = 60;
    return o;
}

std::vector<double> doubles(const std::vector<float> &f) { return {f.begin(), f.end()}; }

} // namespace

TEST_CASE("a model orders candidates of tasks that it never saw") {
    const CostModel model = CostModel::learn({made_up(1, 150), made_up(2, 150), made_up(3, 150)}, quick());
    const ModelTask unseen = made_up(9, 100);
    const Accuracy a = accuracy(doubles(model.score(unseen.features)), unseen.seconds);
    CHECK(a.pairs > 0.9);
    CHECK(a.recall_30 > 0.7);
    CHECK(a.top_5 > 0.85);

    SUBCASE("saved and loaded it gives the same scores") {
        const CostModel again = CostModel::load(model.save());
        CHECK(again.score(unseen.features) == model.score(unseen.features));
    }
    SUBCASE("contributions add up to the score, and name what matters") {
        const auto parts = model.contributions(unseen.features[0]);
        CHECK(parts.size() >= 3);
        const std::string names[] = {feature_names()[3], feature_names()[7], feature_names()[20]};
        CHECK(std::find(std::begin(names), std::end(names), parts[0].first) != std::end(names));
        double sum = 0;
        for (const auto &[name, value] : parts) sum += value;
        const auto first = model.score({unseen.features[0], unseen.features[1]});
        double other = 0;
        for (const auto &[name, value] : model.contributions(unseen.features[1])) other += value;
        // except for the common initial score
        CHECK(sum - other == doctest::Approx(first[0] - first[1]).epsilon(1e-3));
    }
    SUBCASE("learning is deterministic") {
        const CostModel again = CostModel::learn({made_up(1, 150), made_up(2, 150), made_up(3, 150)}, quick());
        CHECK(again.score(unseen.features) == model.score(unseen.features));
    }
}

TEST_CASE("training continues from a model and keeps its trees") {
    const CostModel before = CostModel::learn({made_up(1, 150), made_up(2, 150)}, quick());
    // Other tasks, in which another feature determines the time.
    const auto other = [](uint64_t seed) {
        ModelTask t = made_up(seed, 150);
        for (size_t i = 0; i < t.seconds.size(); i++) t.seconds[i] = t.seconds[i] * (1 + t.features[i].values[50]);
        return t;
    };
    const CostModel on = CostModel::learn({made_up(3, 150), other(4), other(5)}, quick(), &before);
    const auto pairs = [](const CostModel &m, const ModelTask &t) {
        return accuracy(doubles(m.score(t.features)), t.seconds).pairs;
    };
    CHECK(pairs(on, other(9)) > pairs(before, other(9)) + 0.02);
    CHECK(pairs(on, made_up(9, 100)) > 0.85);
    CHECK(CostModel::load(on.save()).score(other(9).features) == on.score(other(9).features));
    CHECK(on.save().size() > before.save().size() * 3 / 2);

    // A round with almost no weight leaves the scores unchanged.
    TreeOptions little = quick();
    little.rounds = 1, little.rate = 1e-6;
    const std::vector<float> was = before.score(other(9).features);
    const std::vector<float> is = CostModel::learn({other(4)}, little, &before).score(other(9).features);
    for (size_t i = 0; i < was.size(); i++) CHECK(is[i] == doctest::Approx(was[i]).epsilon(1e-3));

    const CostModel nothing;
    CHECK(CostModel::learn({made_up(1, 50)}, quick(), &nothing).save() ==
          CostModel::learn({made_up(1, 50)}, quick()).save());
    CHECK_THROWS_WITH_AS(CostModel::learn({made_up(1, 50)}, quick(), &*CostModel::shipped(chip_features_version)),
                         doctest::Contains("cannot be trained further on features of version 3, of nests"), UserError);

    // The old model's accuracy is reported beside the new one's.
    const Validation v = cross_validate({other(4), other(5), other(6)}, 3, quick(), nullptr, &before);
    CHECK(v.before.size() == 3);
    CHECK(mean(v.learned).pairs > mean(v.before).pairs);
    CHECK(cross_validate({other(4), other(5)}, 2, quick()).before.empty());
}

TEST_CASE("a task's own measurements correct the pre-trained model") {
    ModelTask elsewhere = made_up(1, 150);
    for (double &s : elsewhere.seconds) s = 1e-6 / s; // the contrary of the truth
    TaskModel model(std::make_shared<CostModel>(CostModel::learn({elsewhere}, quick())));
    const ModelTask task = made_up(5, 160);
    const std::vector<Features> asked(task.features.begin() + 100, task.features.end());
    const std::vector<double> truth(task.seconds.begin() + 100, task.seconds.end()),
        estimates(task.estimates.begin() + 100, task.estimates.end());
    const double before = accuracy(doubles(model.score(asked, estimates)), truth).pairs;
    CHECK(before < 0.3);
    for (size_t i = 0; i < 100; i++) model.tell(task.features[i], task.seconds[i]);
    const double after = accuracy(doubles(model.score(asked, estimates)), truth).pairs;
    CHECK(after > 0.6);
}

TEST_CASE("without a model, the estimate ranks") {
    TaskModel model(nullptr);
    const ModelTask task = made_up(5, 3);
    const std::vector<float> scores = model.score(task.features, {3e-6, 1e-6, 2e-6});
    CHECK(scores[1] > scores[2]);
    CHECK(scores[2] > scores[0]);
}

TEST_CASE("candidates that failed are slower than all others") {
    ModelTask task = made_up(3, 120);
    for (size_t i = 0; i < task.seconds.size(); i++) {
        if (task.features[i].values[40] > 0.5) task.seconds[i] = std::numeric_limits<double>::infinity();
    }
    const CostModel model = CostModel::learn({task}, quick());
    CHECK(accuracy(doubles(model.score(task.features)), task.seconds).pairs > 0.95);
}

TEST_CASE("files that are not a model, or a model of other features") {
    CHECK_THROWS_WITH_AS(CostModel::load("garbage", "mine.ubj"),
                         doctest::Contains("mine.ubj is not a saved cost model"), UserError);
    CHECK_THROWS_WITH_AS(CostModel::load("", "empty.ubj"), doctest::Contains("empty.ubj is not a saved cost model"),
                         UserError);
    BoostedTrees other;
    Rows rows;
    for (int i = 0; i < 20; i++) rows.add({static_cast<float>(i), 1.f});
    other.fit(rows, std::vector<float>(20, 1.f), {});
    other.set_note("kumiko_features_version", "0");
    CHECK_THROWS_WITH_AS(CostModel::load(other.save(), "old.ubj"),
                         doctest::Contains("old.ubj was trained on features of version 0"), UserError);
    CHECK_THROWS_WITH_AS(CostModel::load_file("/nowhere/m.ubj"), "cannot read the cost model /nowhere/m.ubj",
                         UserError);
    CHECK_THROWS_WITH_AS(CostModel::learn({}), doctest::Contains("nothing to train on"), UserError);
}

TEST_CASE("a model that was damaged anywhere is refused") {
    const std::string good = CostModel::learn({made_up(1, 40)}, quick()).save();
    CHECK_NOTHROW(CostModel::load(good));
    Random random(8);
    for (int n = 0; n < 200; n++) {
        std::string bad = good;
        const auto at = static_cast<size_t>(random.real() * static_cast<double>(bad.size() - 1));
        bad[at] = static_cast<char>(bad[at] ^ (1 << (n % 8)));
        INFO("byte ", at);
        CHECK_THROWS_AS(CostModel::load(bad), UserError);
    }
    for (const size_t left : {size_t(20), size_t(48), good.size() / 2, good.size() - 1})
        CHECK_THROWS_WITH_AS(CostModel::load(good.substr(0, left), "mine.ubj"),
                             doctest::Contains("mine.ubj is corrupt"), UserError);
    CHECK_THROWS_WITH_AS(CostModel::load(good.substr(good.find('\n') + 1), "old.ubj"),
                         doctest::Contains("old.ubj is not a saved cost model, or it is of an earlier Kumiko"),
                         UserError);
}

TEST_CASE("a model that adds to another share of the estimate is refused") {
    for (const char *weight : {"0.5", ""}) {
        BoostedTrees trees;
        Rows rows;
        for (int i = 0; i < 8; i++) rows.add(std::vector<float>(feature_names().size(), static_cast<float>(i)));
        trees.fit(rows, std::vector<float>(8, 1.f), {});
        trees.set_note("kumiko_features_version", std::to_string(features_version));
        if (*weight) trees.set_note("kumiko_estimate_weight", weight);
        CHECK_THROWS_WITH_AS(CostModel::load(trees.save(), "mine.ubj"),
                             doctest::Contains("times the estimate; this Kumiko begins with 0 times: train it again"),
                             UserError);
    }
}

TEST_CASE("features of another length are skipped in training, and refused in ranking") {
    const Features small{features_version, {1, 2, 3}}, large{features_version, std::vector<float>(1000)};
    std::vector<Record> records(3);
    ModelTask two = made_up(1, 2);
    records[0].features = two.features[0];
    records[1].features = small;
    records[2].features = large;
    CHECK(model_task("", records).features.size() == 1);
    const std::string refused =
        "a candidate has 3 values, but features of version 3, of nests, are " + std::to_string(feature_names().size());
    two.features[1] = small;
    CHECK_THROWS_WITH_AS(CostModel::learn({two}, quick()), doctest::Contains(refused.c_str()), UserError);
    CHECK_THROWS_WITH_AS(CostModel::shipped()->score({small}), doctest::Contains(refused.c_str()), UserError);
    TaskModel model(nullptr);
    const ModelTask task = made_up(5, 20);
    for (size_t i = 0; i < 20; i++) {
        model.tell(task.features[i], task.seconds[i]);
        model.tell(small, 1);
        model.tell(large, 1);
    }
    CHECK(accuracy(doubles(model.score(task.features, task.estimates)), task.seconds).pairs > 0.9);
    CHECK_THROWS_AS(model.score({small}, {1}), UserError);
    CHECK_THROWS_AS(model.contributions(large), UserError);
}

TEST_CASE("figures of accuracy, by hand") {
    const double inf = std::numeric_limits<double>::infinity();
    const Accuracy right = accuracy({3, 2, 1, 0}, {1, 2, 3, inf});
    CHECK(right.pairs == 1);
    CHECK(right.top_1 == 1);
    const Accuracy one_wrong = accuracy({2, 3, 1}, {1, 2, 4});
    CHECK(one_wrong.pairs == doctest::Approx(2.0 / 3));
    CHECK(one_wrong.top_1 == doctest::Approx(0.5));
    CHECK(one_wrong.top_5 == 1);
    CHECK(accuracy({1, 1, 1}, {1, 2, 3}).pairs == 0.5);
    std::vector<double> scores(60), seconds(60);
    std::iota(seconds.begin(), seconds.end(), 1);
    // Half of the fastest 30 are ranked last.
    for (size_t i = 0; i < 60; i++) scores[i] = i < 15 ? 100 : i < 30 ? -100 : 0;
    CHECK(accuracy(scores, seconds).recall_30 == doctest::Approx(0.5));
}
