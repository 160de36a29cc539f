#include "autotune/features/chip_features.h"
#include "autotune/model/learn.h"
#include "autotune/tune.h"
#include "bench/tune_suite.h"
#include "driver/machines.h"
#include "schedules/library/table.h"
#include "support/error.h"
#include "support/table.h"

#include <fmt/format.h>

#include <cmath>

namespace kumiko::bench {

namespace {

Json figures_of(const std::optional<Accuracy> &a) {
    if (!a) return nullptr;
    return {{"pairs", a->pairs}, {"recall_30", a->recall_30}, {"top_1", a->top_1}, {"top_5", a->top_5}};
}

// Measures how well samples of an unseen space are ranked.
void judge_samples(ChipTuneRow &row, const Space &space, const std::vector<Record> &records,
                   const std::string &cost_model) {
    const ModelTask task = model_task(row.name, records, chip_features_version);
    row.samples = int(task.seconds.size());
    if (row.samples < 30) return;
    std::vector<double> estimates, expected;
    for (const double e : task.estimates) estimates.push_back(-e);
    bool known = true;
    for (const Record &r : records) {
        if (r.features.version != chip_features_version) continue;
        expected.push_back(-space.estimate(space.from_json(r.parameters)));
        known = known && expected.back() != 0;
    }
    row.analytical = accuracy(estimates, task.seconds);
    if (known) row.expected = accuracy(expected, task.seconds);
    if (cost_model == "none") return;
    const std::vector<float> scores = cost_model.empty()
                                          ? CostModel::shipped(chip_features_version)->score(task.features)
                                          : CostModel::load_file(cost_model).score(task.features);
    row.learned = accuracy({scores.begin(), scores.end()}, task.seconds);
}

} // namespace

Json ChipTuneRow::json() const {
    Json reasons = Json::object();
    for (const auto &[reason, n] : failures) reasons[reason] = n;
    return {{"task", name},
            {"failure", failure},
            {"untuned_seconds", untuned},
            {"tuned_seconds", tuned},
            {"trials", trials},
            {"rejected", rejected},
            {"not_good", bad},
            {"failures", reasons},
            {"seconds", seconds},
            {"search_seconds", search_seconds},
            {"clock_hz", clock_hz},
            {"random_seconds", random},
            {"samples", samples},
            {"learned", figures_of(learned)},
            {"analytical", figures_of(analytical)},
            {"expected", figures_of(expected)},
            {"formula_untuned_seconds", formula_untuned},
            {"formula_seconds", formula}};
}

std::vector<ChipTuneRow> run_chip_tune_suite(const std::string &machine, const TuneSuiteOptions &options,
                                             const std::function<void(const std::string &)> &progress) {
    const Machine chip = machine_named(machine);
    std::vector<ChipTuneRow> rows;
    require_task(chip_tune_cases(), options.only);
    for (const TuneCase &c : chip_tune_cases()) {
        if (c.name.find(options.only) == std::string::npos) continue;
        if (progress) progress(machine + ": " + c.name);
        ChipTuneRow row;
        row.name = c.name;
        try {
            TuneOptions o;
            o.trials = options.trials;
            o.seed = options.seed;
            o.threads = 1;
            o.cost_model = options.cost_model;
            TuneReport report;
            row.clock_hz = chip.clock_ghz * 1e9;
            const auto search = [&](SpaceKind spaces, double &untuned, double &tuned) {
                o.spaces = spaces;
                tuned = tune(c.op, chip, CpuTarget::host(), o, &report).seconds();
                untuned = report.default_seconds;
                row.trials += report.measured;
                row.rejected += report.rejected;
                const std::string space = spaces == SpaceKind::Auto ? "space of the formula: " : "";
                for (const auto &[reason, n] : report.failures) row.failures[space + reason] += n;
                for (const Record &r : report.records) row.bad += r.outcome != Outcome::Ok;
                row.seconds += report.seconds;
                row.search_seconds += report.search_seconds;
            };
            const bool library = library::fitting_template(c.op, chip) != nullptr;
            if (library) search(SpaceKind::Library, row.untuned, row.tuned);
            try {
                if (options.formula_spaces || !library) search(SpaceKind::Auto, row.formula_untuned, row.formula);
            } catch (const Unsupported &e) {
                if (!library) throw;
                row.failures[std::string("space of the formula: ") + e.what()] = 1;
            }
            if (options.chip_random > 0) {
                const bool formula = options.formula_spaces || !library;
                const auto [name, space] = space_for(c.op, chip, formula ? SpaceKind::Auto : SpaceKind::Library);
                TuneOptions samples = o;
                samples.search = SearchMethod::Random;
                samples.space = space.get();
                samples.trials = options.chip_random;
                row.random = tune(c.op, chip, CpuTarget::host(), samples, &report).seconds();
                judge_samples(row, *space, report.records, options.cost_model);
            }
        } catch (const PlacedError &e) {
            row.failure = e.what();
        }
        rows.push_back(std::move(row));
    }
    return rows;
}

std::string chip_tune_suite_text(const std::vector<ChipTuneRow> &rows) {
    Table table({"cycles on the chip", "library: default", "tuned", "gain", "formula's space: default", "tuned", "gain",
                 "random", "gain", "trials", "not good", "s/trial", "thinking", "pairs", "recall@30", "top-1",
                 "estimate's pairs", "top-1", "space's pairs"});
    double gains = 0, of_formulas = 0;
    int counted = 0, counted_formulas = 0;
    std::vector<Accuracy> learned, analytical, expected;
    std::string failures;
    for (const ChipTuneRow &r : rows) {
        if (!r.failure.empty()) {
            failures += r.name + ": " + r.failure + "\n";
            continue;
        }
        const auto cycles = [&](double seconds) {
            return seconds > 0 ? fmt::format("{:.0f}", seconds * r.clock_hz) : "–";
        };
        const auto figure = [](const std::optional<Accuracy> &a, double Accuracy::*of) {
            return a ? fmt::format("{:.3f}", *a.*of) : std::string("–");
        };
        const auto gain = [&](double tuned) {
            return r.untuned > 0 && tuned > 0 ? fmt::format("{:.2f}", r.untuned / tuned) : "–";
        };
        table.row({r.name, cycles(r.untuned), cycles(r.tuned), gain(r.tuned), cycles(r.formula_untuned),
                   cycles(r.formula), gain(r.formula), cycles(r.random), gain(r.random), fmt::format("{}", r.trials),
                   fmt::format("{}", r.bad), fmt::format("{:.2f}", r.seconds / r.trials),
                   fmt::format("{:.0f} %", 100 * r.search_seconds / r.seconds), figure(r.learned, &Accuracy::pairs),
                   figure(r.learned, &Accuracy::recall_30), figure(r.learned, &Accuracy::top_1),
                   figure(r.analytical, &Accuracy::pairs), figure(r.analytical, &Accuracy::top_1),
                   figure(r.expected, &Accuracy::pairs)});
        if (r.learned) learned.push_back(*r.learned);
        if (r.analytical) analytical.push_back(*r.analytical);
        if (r.expected) expected.push_back(*r.expected);
        if (r.untuned > 0) gains += std::log(r.untuned / r.tuned), counted++;
        if (r.untuned > 0 && r.formula > 0) of_formulas += std::log(r.untuned / r.formula), counted_formulas++;
        for (const auto &[reason, n] : r.failures) failures += fmt::format("{}: {} × {}\n", r.name, n, reason);
    }
    std::string text = table.text();
    if (counted > 0) text += fmt::format("geometric mean of the gains {:.2f}\n", std::exp(gains / counted));
    if (counted_formulas > 0)
        text += fmt::format("of the formulas' spaces, over the library's defaults, {:.2f}\n",
                            std::exp(of_formulas / counted_formulas));
    const auto line = [&](const char *who, const std::vector<Accuracy> &all) {
        if (all.empty()) return;
        const Accuracy a = mean(all);
        text += fmt::format("{}: pairs {:.3f}, recall@30 {:.3f}, top-1 {:.3f}, top-5 {:.3f} on samples of {} tasks\n",
                            who, a.pairs, a.recall_30, a.top_1, a.top_5, all.size());
    };
    line("the model, which was trained on none of them", learned);
    line("the analytical estimate", analytical);
    line("the spaces' expected costs", expected);
    if (!analytical.empty()) text += "chance: pairs 0.500\n";
    return text + failures;
}

} // namespace kumiko::bench
