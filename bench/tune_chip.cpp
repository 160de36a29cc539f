#include "autotune/tune.h"
#include "bench/tune_suite.h"
#include "driver/machines.h"
#include "support/table.h"

#include <fmt/format.h>

#include <cmath>

namespace kumiko::bench {

Json ChipTuneRow::json() const {
    Json reasons = Json::object();
    for (const auto &[reason, n] : failures) reasons[reason] = n;
    return {{"task", name},           {"failure", failure},  {"untuned_seconds", untuned},
            {"tuned_seconds", tuned}, {"trials", trials},    {"rejected", rejected},
            {"not_good", bad},        {"failures", reasons}, {"seconds", seconds}};
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
            TuneReport report;
            row.tuned = tune(c.op, chip, CpuTarget::host(), o, &report).seconds();
            row.untuned = report.default_seconds;
            row.trials = report.measured;
            row.rejected = report.rejected;
            row.failures = report.failures;
            for (const Record &r : report.records) row.bad += r.outcome != Outcome::Ok;
            row.seconds = report.seconds;
        } catch (const PlacedError &e) {
            row.failure = e.what();
        }
        rows.push_back(std::move(row));
    }
    return rows;
}

std::string chip_tune_suite_text(const std::vector<ChipTuneRow> &rows) {
    Table table({"task on the chip", "default", "tuned", "gain", "trials", "not good", "s/trial"});
    double gains = 0;
    int counted = 0;
    std::string failures;
    for (const ChipTuneRow &r : rows) {
        if (!r.failure.empty()) {
            failures += r.name + ": " + r.failure + "\n";
            continue;
        }
        if (r.untuned > 0) gains += std::log(r.untuned / r.tuned), counted++;
        table.row({r.name, fmt::format("{:.1f} µs", r.untuned * 1e6), fmt::format("{:.1f} µs", r.tuned * 1e6),
                   fmt::format("{:.2f}", r.untuned / r.tuned), fmt::format("{}", r.trials), fmt::format("{}", r.bad),
                   fmt::format("{:.2f}", r.seconds / r.trials)});
        for (const auto &[reason, n] : r.failures) failures += fmt::format("{}: {} × {}\n", r.name, n, reason);
    }
    std::string text = table.text();
    if (counted > 0) text += fmt::format("geometric mean of the gains {:.2f}\n", std::exp(gains / counted));
    return text + failures;
}

} // namespace kumiko::bench
