#include "bench/tune_suite.h"

#include "autotune/local_runner.h"
#include "autotune/model/learn.h"
#include "autotune/tune.h"
#include "autotune/work.h"
#include "bench/known.h"
#include "driver/default_schedule.h"
#include "support/duration.h"
#include "support/table.h"
#include "targets/lower/lower.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <unistd.h>

namespace kumiko::bench {

namespace {

constexpr double as_good = 1.02; // the accuracy of times within a session
constexpr double none = std::numeric_limits<double>::infinity();

// A database that is deleted with this object.
class Scratch {
public:
    Scratch()
        : path_((std::filesystem::temp_directory_path() / fmt::format("kumiko-tune-suite-{}.db", getpid())).string()) {
        remove();
    }
    ~Scratch() { remove(); }
    const std::string &path() const { return path_; }

private:
    std::string path_;
    void remove() {
        std::error_code error;
        for (const char *suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path_ + suffix, error);
    }
};

Candidate candidate_of(const Schedule &schedule) {
    Candidate c;
    c.schedule = schedule.to_json();
    LowerOptions options;
    options.kernel_name = "kumiko_candidate";
    c.nest = std::make_shared<const Nest>(lower(schedule, options));
    return c;
}

class Runner {
public:
    Runner(const TuneCase &c, const Target &target, const TuneSuiteOptions &options, KnownSchedules &known)
        : case_(c), target_(target), options_(options), known_(known) {
        row_.name = c.name;
    }

    TuneSuiteRow run() {
        const Scratch scratch;
        TuneOptions tuning;
        tuning.threads = 1;
        tuning.seed = options_.seed;
        tuning.database = scratch.path();
        tuning.cost_model = options_.cost_model;
        tuning.trials = options_.few;
        TuneReport first, second;
        const Record few = tune(case_.op, target_, tuning, &first);
        tuning.trials = options_.trials;
        const Record tuned = tune(case_.op, target_, tuning, &second);
        row_.trials = first.measured + second.measured;
        row_.seconds = first.seconds + second.seconds;
        row_.search_seconds = first.search_seconds + second.search_seconds;

        std::optional<Record> random;
        if (options_.random > 0) {
            TuneReport report;
            TuneOptions o = tuning;
            o.database.clear();
            o.search = SearchMethod::Random;
            o.trials = options_.random;
            random = tune(case_.op, target_, o, &report);
            judge_model(report.records);
        }
        std::optional<Record> explored;
        if (options_.explore > 0) {
            TuneOptions o = tuning;
            o.database.clear();
            o.trials = options_.explore;
            o.seed = options_.seed + 1000;
            explored = tune(case_.op, target_, o);
        }
        std::optional<Record> formula;
        if (options_.formula_spaces && space_for(case_.op, target_.machine, SpaceKind::Fitting).first != "auto") {
            TuneOptions o = tuning;
            o.database.clear();
            o.spaces = SpaceKind::Auto;
            formula = tune(case_.op, target_, o);
        }
        compare(few, tuned, random, formula, explored);
        std::vector<double> curve = first.best_so_far;
        curve.insert(curve.end(), second.best_so_far.begin(), second.best_so_far.end());
        // Two sessions measured the machine at different times: their paired bests convert the
        // random session's best to seconds of the other session.
        const double to_reach = random && !curve.empty() ? as_good * curve.back() * row_.random / row_.tuned : 0;
        for (size_t i = 0; i < curve.size() && row_.reached_random == 0; i++) {
            if (curve[i] <= to_reach) row_.reached_random = static_cast<int>(i) + 1;
        }
        const Work work = count_work(case_.op, {});
        if (measured_by_operations(work)) row_.gflops = work.operations / row_.tuned * 1e-9;
        return row_;
    }

private:
    const TuneCase &case_;
    const Target &target_;
    const TuneSuiteOptions &options_;
    KnownSchedules &known_;
    TuneSuiteRow row_;

    void judge_model(const std::vector<Record> &records) {
        const ModelTask task = model_task(case_.name, records);
        if (task.features.size() < 30) return;
        std::vector<double> analytical;
        for (double e : task.estimates) analytical.push_back(-e);
        row_.analytical = accuracy(analytical, task.seconds);
        if (options_.cost_model == "none") return;
        const std::vector<float> scores = options_.cost_model.empty()
                                              ? CostModel::shipped(target_.machine)->score(task.features)
                                              : CostModel::load_file(options_.cost_model).score(task.features);
        row_.learned = accuracy({scores.begin(), scores.end()}, task.seconds);
    }

    // Compares all of them alternately in one process.
    void compare(const Record &few, const Record &tuned, const std::optional<Record> &random,
                 const std::optional<Record> &formula, const std::optional<Record> &explored) {
        const auto [own, space_of_op] = space_for(case_.op, target_.machine, SpaceKind::Fitting);
        const Schedule untuned = space_of_op->schedule(space_of_op->default_point());
        std::vector<Candidate> candidates;
        std::vector<double *> results;
        double known = none, explored_seconds = none;
        const auto add = [&](const Schedule &s, double *result) {
            candidates.push_back(candidate_of(s));
            results.push_back(result);
        };
        add(untuned, &row_.untuned);
        add(few.schedule(case_.op), &row_.few);
        add(tuned.schedule(case_.op), &row_.tuned);
        if (random) add(random->schedule(case_.op), &row_.random);
        if (own == "auto") {
            add(default_schedule(case_.op, target_.machine), &row_.plain);
            add(Schedule(case_.op, target_.machine), &row_.nest);
        }
        if (formula) add(formula->schedule(case_.op), &row_.formula);
        const Json *kept = known_.find(case_.name, case_.op, target_.machine);
        if (kept) add(Schedule::from_json(case_.op, target_.machine, nlohmann::json((*kept)["schedule"])), &known);
        if (explored) add(explored->schedule(case_.op), &explored_seconds);

        struct NoSpace : Space { // candidates provide their nests
            NoSpace(const Op &op, const Machine &machine) : Space(op, machine) {}
            Point default_point() const override { return {}; }
            Schedule schedule(const Point &) const override { return Schedule(op(), machine()); }
        } no_space(case_.op, target_.machine);
        LocalRunner runner(no_space, target_.cpu, {}, {});
        const std::vector<Measured> compared =
            runner.compare(candidates, 0.3 * static_cast<double>(candidates.size()), nullptr);
        row_.known = std::numeric_limits<double>::infinity();
        for (size_t i = 0; i < results.size(); i++) {
            if (compared[i].timings.empty())
                throw UserError("the schedules found could not be compared: " + compared[i].reason);
            *results[i] = compared[i].timings[0].median;
            row_.known = std::min(row_.known, *results[i]);
        }
        row_.known_trials = kept ? (*kept).value("trials", 0) : 0;
        if (explored) { // the better one remains known after the longer search
            const bool better = explored_seconds <= known;
            row_.known_trials = std::max(row_.known_trials, options_.explore);
            known_.keep(case_.name, case_.op, target_.machine,
                        better ? *explored->saved_schedule : nlohmann::json((*kept)["schedule"]), row_.known_trials);
        }
    }
};

} // namespace

Json TuneSuiteRow::json() const {
    const auto number = [](double s) { return std::isfinite(s) && s > 0 ? Json(s) : Json(nullptr); };
    const auto figures = [](const std::optional<Accuracy> &a) {
        if (!a) return Json(nullptr);
        return Json{{"pairs", a->pairs}, {"recall_30", a->recall_30}, {"top_1", a->top_1}, {"top_5", a->top_5}};
    };
    return {{"task", name},
            {"failure", failure},
            {"untuned_seconds", number(untuned)},
            {"few_seconds", number(few)},
            {"tuned_seconds", number(tuned)},
            {"random_seconds", number(random)},
            {"known_seconds", number(known)},
            {"plain_seconds", number(plain)},
            {"nest_seconds", number(nest)},
            {"times_as_fast_as_nest", nest > 0 ? number(nest / tuned) : Json(nullptr)},
            {"formula_seconds", number(formula)},
            {"known_trials", known_trials},
            {"trials", trials},
            {"reached_random", reached_random},
            {"seconds", seconds},
            {"search_seconds", search_seconds},
            {"gflops", gflops},
            {"learned", figures(learned)},
            {"analytical", figures(analytical)}};
}

std::vector<TuneSuiteRow> run_tune_suite(const Target &target, const TuneSuiteOptions &options,
                                         const std::function<void(const std::string &)> &progress) {
    KnownSchedules known(options.known);
    std::vector<TuneSuiteRow> rows;
    require_task(tune_cases(), options.only);
    for (const TuneCase &c : tune_cases()) {
        if (c.name.find(options.only) == std::string::npos) continue;
        if (progress) progress(c.name);
        try {
            rows.push_back(Runner(c, target, options, known).run());
        } catch (const PlacedError &e) {
            rows.push_back({});
            rows.back().name = c.name;
            rows.back().failure = e.what();
        }
    }
    return rows;
}

std::string tune_suite_text(const std::vector<TuneSuiteRow> &rows) {
    Table table({"task", "GFLOP/s", "0 trials", "few", "all", "random", "trials to reach random", "formula's space",
                 "plain loops", "s/trial", "thinking", "pairs", "recall@30", "top-1", "estimate's pairs"});
    double sums[4] = {0, 0, 0, 0}, seconds = 0, thinking = 0;
    int counted = 0, trials = 0, nests = 0;
    double beside_nests = 0;
    std::vector<Accuracy> learned, analytical;
    std::string failures;
    for (const TuneSuiteRow &r : rows) {
        if (!r.failure.empty()) {
            failures += r.name + ": " + r.failure + "\n";
            continue;
        }
        const double parts[4] = {r.known / r.untuned, r.known / r.few, r.known / r.tuned,
                                 r.random > 0 ? r.known / r.random : 0};
        for (int i = 0; i < 4; i++) sums[i] += std::log(std::max(parts[i], 1e-9));
        counted++;
        trials += r.trials;
        seconds += r.seconds;
        thinking += r.search_seconds;
        if (r.nest > 0) beside_nests += std::log(r.nest / r.tuned), nests++;
        if (r.learned) learned.push_back(*r.learned);
        if (r.analytical) analytical.push_back(*r.analytical);
        const auto part = [](double p) { return p > 0 ? fmt::format("{:.2f}", p) : std::string("-"); };
        table.row({r.name, r.gflops > 0 ? fmt::format("{:.0f}", r.gflops) : "-", part(parts[0]), part(parts[1]),
                   part(parts[2]), part(parts[3]),
                   r.random > 0 ? (r.reached_random ? fmt::format("{}", r.reached_random) : "never") : "-",
                   r.formula > 0 ? part(r.known / r.formula)
                                 : (r.plain > 0 ? fmt::format("{:.1f}x plain", r.plain / r.tuned) : std::string("-")),
                   r.nest > 0 ? fmt::format("{:.1f}x", r.nest / r.tuned) : "-",
                   fmt::format("{:.3f}", r.seconds / r.trials),
                   fmt::format("{:.0f} %", 100 * r.search_seconds / r.seconds),
                   r.learned ? part(r.learned->pairs) : "-", r.learned ? part(r.learned->recall_30) : "-",
                   r.learned ? part(r.learned->top_1) : "-", r.analytical ? part(r.analytical->pairs) : "-"});
    }
    std::string text = table.text();
    if (counted > 0) {
        const auto geometric = [&](int i) { return std::exp(sums[i] / counted); };
        text += fmt::format("geometric means of the best known: 0 trials {:.3f}, few {:.3f}, all {:.3f}", geometric(0),
                            geometric(1), geometric(2));
        if (sums[3] > counted * std::log(1e-8)) text += fmt::format(", random {:.3f}", geometric(3));
        if (nests > 0)
            text +=
                fmt::format("\nwithout a schedule of their own {}, {:.1f} times as fast as plain loops, geometric mean",
                            nests, std::exp(beside_nests / nests));
        text += fmt::format("\n{:.3f} s a trial, {:.0f} % of it in the search itself\n", seconds / trials,
                            100 * thinking / seconds);
        const auto line = [&](const char *who, const std::vector<Accuracy> &all) {
            const Accuracy a = mean(all);
            text += fmt::format("{}: pairs {:.3f}, recall@30 {:.3f}, top-1 {:.3f}, top-5 {:.3f} on {} tasks that it "
                                "was not trained on\n",
                                who, a.pairs, a.recall_30, a.top_1, a.top_5, all.size());
        };
        if (!learned.empty()) line("the model", learned);
        if (!analytical.empty()) line("the analytical estimate", analytical);
        if (!analytical.empty()) text += "chance: pairs 0.500\n";
    }
    return text + failures;
}

} // namespace kumiko::bench
