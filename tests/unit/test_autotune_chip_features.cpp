// Features of a candidate for the chip, compared with the simulator's counts, and a model trained
// on them.
// Links: ops
// Sanitized: --test-case-exclude=*model*
#include "autotune/arrays.h"
#include "autotune/database.h"
#include "autotune/database_care.h"
#include "autotune/database_lines.h"
#include "autotune/features/chip_features.h"
#include "autotune/features/feature_sets.h"
#include "autotune/model/learn.h"
#include "autotune/model/training_tasks.h"
#include "autotune/tune.h"
#include "ops/registry.h"
#include "schedules/library/table.h"
#include "sim/assembler.h"
#include "support/error.h"
#include "targets/chip/compile.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

using namespace kumiko;

namespace {

Machine small() { return chip_machine(sim::Config::load("small")); }

Op product() {
    return ops::make("matmul",
                     {{"m", 64}, {"n", 128}, {"k", 96}, {"type", "f16"}, {"output", "f32"}, {"transpose_b", true}});
}

Schedule default_of(const Op &op) {
    const auto [name, space] = space_for(op, small(), SpaceKind::Fitting);
    return space->schedule(space->default_point());
}

sim::Run simulated(const Schedule &s) {
    MeasuredArrays arrays = make_measured_arrays(s.op(), {}, 1, longest_reference);
    for (const std::string &o : s.op().outputs()) {
        arrays.inputs.push_back(make_output(s.op(), o, {}));
        fill_unwritten(arrays.inputs.back());
    }
    return compile_chip(s).run(arrays.inputs);
}

// Samples of the formula's space, simulated.
ModelTask sampled(const std::string &op, const Json &parameters, int n) {
    TuneOptions o;
    o.trials = n;
    o.search = SearchMethod::Random;
    o.spaces = SpaceKind::Auto;
    o.final_seconds = 0;
    TuneReport report;
    tune(ops::make(op, parameters), small(), CpuTarget::host(), o, &report);
    return model_task(op + parameters.dump(), report.records, chip_features_version);
}

double pairs(const std::vector<float> &scores, const std::vector<double> &seconds) {
    return accuracy({scores.begin(), scores.end()}, seconds).pairs;
}

} // namespace

TEST_CASE("operations and words are those that the simulator counts") {
    for (const Op &op : {product(), ops::make("softmax", {{"m", 32}, {"n", 128}}),
                         ops::make("reduce", {{"shape", {32, 256}}, {"axes", {1}}})}) {
        INFO(op.name());
        const Schedule s = default_of(op);
        const ChipCounts counts = count_chip(s);
        const sim::Run run = simulated(s);
        const chip::Tally &n = counts.tally;
        CHECK(uint64_t(n.matrix_f16) == run.matrix_f16_steps);
        CHECK(uint64_t(n.vector_f32) >= run.vector_f32_steps); // additions are counted too
        const auto works = [&](sim::Slot s, chip::Unit u) {
            return run.slot_steps[size_t(s)] == uint64_t(n.busy[size_t(u)]);
        };
        CHECK(works(sim::Slot::L2, chip::Unit::L2));
        CHECK(works(sim::Slot::L1, chip::Unit::L1));
        CHECK(works(sim::Slot::Mau, chip::Unit::Mau));
        CHECK(works(sim::Slot::MatrixWrite, chip::Unit::Mw));
        CHECK(works(sim::Slot::Alu, chip::Unit::Alu));
        CHECK(uint64_t(n.loads.count + n.stores.count) == run.moves);
        CHECK(uint64_t(8 * n.loads.dram_words) == run.link_bytes[size_t(sim::Link::DramRead)]);
        CHECK(uint64_t(8 * n.stores.dram_words) == run.link_bytes[size_t(sim::Link::DramWrite)]);
        CHECK(counts.bounds.macs == run.bounds.macs);
        CHECK(n.operations == compile_chip(s).operations());
        // No unit does more than one step's work per step.
        CHECK(uint64_t(n.busiest()) <= run.steps);
        CHECK(counts.cycles() < 2.0 * double(run.cycles()));
        CHECK(counts.cycles() > 0.2 * double(run.cycles()));
    }
}

TEST_CASE("counting refuses what the compiler refuses, with the same text") {
    Schedule s(product(), small());
    std::string compiling, counting;
    try {
        compile_chip(s);
    } catch (const PlacedError &e) {
        compiling = e.what();
    }
    try {
        count_chip(s);
    } catch (const PlacedError &e) {
        counting = e.what();
    }
    CHECK(!compiling.empty());
    CHECK_EQ(counting, compiling);
}

TEST_CASE("features of chips have one length and a name each, in either space, and are the same each time") {
    const std::vector<std::string> &names = chip_feature_names();
    CHECK(std::set<std::string>(names.begin(), names.end()).size() == names.size());
    for (const char *name : {"estimate", "unit.mau", "matrix.waste", "words.dram_read", "loads.latency", "taken.lm",
                             "kept_twice", "used.MAB.most", "l1.mab_reduce"})
        CHECK(std::find(names.begin(), names.end(), name) != names.end());
    for (const auto &[op, parameters] : std::vector<std::pair<std::string, Json>>{
             {"matmul", {{"m", 64}, {"n", 64}, {"k", 64}, {"type", "f16"}, {"output", "f32"}, {"transpose_b", true}}},
             {"conv2d", {{"c", 16}, {"h", 8}, {"w", 8}, {"o", 16}, {"padding", 1}, {"type", "f16"}, {"output", "f32"}}},
             {"depthwise_conv2d", {{"c", 16}, {"h", 8}, {"w", 8}, {"padding", 1}}},
             {"softmax", {{"m", 16}, {"n", 64}}},
             {"transpose", {{"m", 64}, {"n", 64}}},
             {"add", {{"n", 3000}}}}) {
        INFO(op);
        const Schedule s = default_of(ops::make(op, parameters));
        const NestCost cost = chip_cost_of(s);
        CHECK(cost.features.version == chip_features_version);
        REQUIRE(cost.features.values.size() == names.size());
        CHECK(is_current(cost.features));
        CHECK(cost.seconds > 0);
        for (size_t i = 0; i < names.size(); i++) {
            INFO(names[i]);
            CHECK(std::isfinite(cost.features.values[i]));
        }
        CHECK(chip_cost_of(s).features.values == cost.features.values);
    }
}

TEST_CASE("versions distinguish the features of nests from those of chips") {
    CHECK(features_version < 1000);
    CHECK(chip_features_version > 1000);
    CHECK(features_for(Machine::named("x86-64-avx2")).version == features_version);
    CHECK(features_for(small()).version == chip_features_version);
    CHECK(feature_names() != chip_feature_names());
    CHECK(find_features(7) == nullptr);
    CHECK_EQ(describe_features(chip_features_version), "version 1001, of programs of the chip");

    const Features of_chip{chip_features_version, std::vector<float>(chip_feature_names().size())};
    const std::string refused = "trained on features of version " + std::to_string(features_version) +
                                ", of nests, cannot rank a candidate whose features are of version 1001";
    CHECK_THROWS_WITH_AS(CostModel::shipped()->score({of_chip}), doctest::Contains(refused.c_str()), UserError);
    CHECK_THROWS_AS(CostModel::shipped(chip_features_version)
                        ->score({{features_version, std::vector<float>(feature_names().size())}}),
                    UserError);
    CHECK_THROWS_AS(TaskModel(CostModel::shipped(), chip_features_version), UserError);
    ModelTask mixed{"mixed", {of_chip, {features_version, std::vector<float>(feature_names().size())}}, {1, 2}, {1, 1}};
    CHECK_THROWS_AS(CostModel::learn({mixed}), UserError);

    const std::string file = (std::filesystem::temp_directory_path() / "kumiko-nests.ubj").string();
    std::ofstream(file, std::ios::binary) << CostModel::shipped()->save();
    TuneOptions o;
    o.trials = 2;
    o.cost_model = file;
    CHECK_THROWS_WITH_AS(tune(product(), small(), CpuTarget::host(), o),
                         doctest::Contains("kumiko learn --target chip:small makes such a model"), UserError);
    o.search = SearchMethod::Random; // asks no model, but was given one
    CHECK_THROWS_WITH_AS(tune(product(), small(), CpuTarget::host(), o),
                         doctest::Contains("kumiko learn --target chip:small makes such a model"), UserError);
    std::filesystem::remove(file);
}

TEST_CASE("candidates that were refused before they were built are no trials, also when a session is resumed") {
    const std::string path = (std::filesystem::temp_directory_path() / "kumiko-chip-refused.db").string();
    for (const char *suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path + suffix);
    // The chip has no f64.
    const Op op = ops::make("matmul", {{"m", 3}, {"n", 5}, {"k", 7}, {"type", "f64"}});
    TuneOptions o;
    o.trials = 2;
    o.database = path;
    for (int session = 0; session < 2; session++) {
        TuneReport report;
        CHECK_THROWS_WITH_AS(tune(op, small(), CpuTarget::host(), o, &report), doctest::Contains("has elements of f64"),
                             UserError);
        CHECK(report.known == 0);
        CHECK(report.measured == 0);
        CHECK((session > 0 || report.rejected > 2));
    }
    const DatabaseStats stats = database_stats(Database(path, Database::Mode::Read));
    CHECK(stats.records > 2);
    CHECK(stats.outcomes.at("unbuildable") > 2);
    CHECK(stats.trials == 0);
    for (const char *suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path + suffix);
}

TEST_CASE("a database keeps them, and lines carry them") {
    const std::string path = (std::filesystem::temp_directory_path() / "kumiko-chip-features.db").string();
    for (const char *suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path + suffix);
    TuneOptions o;
    o.trials = 4;
    o.database = path;
    TuneReport report;
    const Op op = ops::make("softmax", {{"m", 16}, {"n", 64}});
    tune(op, small(), CpuTarget::host(), o, &report);
    const Database database(path, Database::Mode::Read);
    const std::vector<Record> kept = database.records(task_key(op, small(), {.threads = 0}), small());
    REQUIRE(kept.size() >= report.records.size());
    for (const Record &r : report.records) {
        CHECK(r.features.version == chip_features_version);
        CHECK(r.estimated_seconds > 0);
        const auto same =
            std::find_if(kept.begin(), kept.end(), [&](const Record &k) { return k.schedule_hash == r.schedule_hash; });
        REQUIRE(same != kept.end());
        CHECK(same->features.version == chip_features_version);
        CHECK(same->features.values == r.features.values);
    }
    CHECK(model_task("", kept).features.empty()); // none of nests
    CHECK(model_task("", kept, chip_features_version).features.size() >= 4);
    std::ostringstream lines;
    write_lines(database, lines);
    CHECK(lines.str().find("\"features_version\":1001") != std::string::npos);
    for (const char *suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path + suffix);
}

TEST_CASE("a model orders candidates of chip tasks that it never saw better than the estimate") {
    const Json conv = {{"c", 16}, {"h", 8}, {"w", 8}, {"o", 32}, {"padding", 1}, {"type", "f16"}, {"output", "f32"}};
    const std::vector<ModelTask> tasks = {
        sampled("softmax", {{"m", 48}, {"n", 80}}, 40), sampled("reduce", {{"shape", {48, 200}}, {"axes", {1}}}, 40),
        sampled("matmul", {{"m", 64}, {"n", 96}, {"k", 48}, {"type", "f16"}, {"output", "f32"}}, 40),
        sampled("conv2d", conv, 40)};
    TreeOptions quick = CostModel::default_options();
    quick.rounds = 60;
    const Validation v = cross_validate(tasks, 4, quick);
    REQUIRE(v.tasks.size() == 4);
    CHECK(mean(v.learned).pairs > mean(v.analytical).pairs);
    // The shipped model was not trained on them either.
    std::vector<Accuracy> shipped;
    for (const ModelTask &t : tasks)
        shipped.push_back(accuracy(
            [&] {
                const std::vector<float> s = CostModel::shipped(chip_features_version)->score(t.features);
                return std::vector<double>(s.begin(), s.end());
            }(),
            t.seconds));
    MESSAGE("pairs: learned here ", mean(v.learned).pairs, ", shipped ", mean(shipped).pairs, ", estimate ",
            mean(v.analytical).pairs);
    CHECK(mean(shipped).pairs > mean(v.analytical).pairs + 0.01);
    CHECK(mean(shipped).pairs > 0.9);

    // One task only, trained on half of its samples.
    const ModelTask &t = tasks[3];
    TaskModel own(std::make_shared<CostModel>(), chip_features_version);
    const std::vector<Features> asked(t.features.begin() + 20, t.features.end());
    const std::vector<double> seconds(t.seconds.begin() + 20, t.seconds.end()),
        estimates(t.estimates.begin() + 20, t.estimates.end());
    const double before = pairs(own.score(asked, estimates), seconds);
    for (size_t i = 0; i < 20; i++) own.tell(t.features[i], t.seconds[i]);
    const double after = pairs(own.score(asked, estimates), seconds);
    MESSAGE("one task: estimate ", before, ", learned from 20 ", after);
    CHECK(after > before);
}

TEST_CASE("training tasks of the chip model are supported by the chip") {
    for (const TrainingTask &t : chip_training_tasks()) {
        INFO(t.name);
        CHECK_NOTHROW(library::fitting_template(t.op, small()));
        CHECK(library::fitting_template(t.op, small()) != nullptr);
    }
}
