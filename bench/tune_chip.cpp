#include "autotune/tune.h"
#include "bench/tune_suite.h"
#include "driver/machines.h"
#include "schedules/library/table.h"
#include "support/error.h"
#include "support/table.h"

#include <fmt/format.h>

#include <cmath>

namespace kumiko::bench {

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
            {"clock_hz", clock_hz},
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
            };
            const bool library = library::fitting_template(c.op, chip) != nullptr;
            if (library) search(SpaceKind::Library, row.untuned, row.tuned);
            try {
                if (options.formula_spaces || !library) search(SpaceKind::Auto, row.formula_untuned, row.formula);
            } catch (const Unsupported &e) {
                if (!library) throw;
                row.failures[std::string("space of the formula: ") + e.what()] = 1;
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
                 "trials", "not good", "s/trial"});
    double gains = 0, of_formulas = 0;
    int counted = 0, counted_formulas = 0;
    std::string failures;
    for (const ChipTuneRow &r : rows) {
        if (!r.failure.empty()) {
            failures += r.name + ": " + r.failure + "\n";
            continue;
        }
        const auto cycles = [&](double seconds) {
            return seconds > 0 ? fmt::format("{:.0f}", seconds * r.clock_hz) : "–";
        };
        const auto gain = [&](double tuned) {
            return r.untuned > 0 && tuned > 0 ? fmt::format("{:.2f}", r.untuned / tuned) : "–";
        };
        table.row({r.name, cycles(r.untuned), cycles(r.tuned), gain(r.tuned), cycles(r.formula_untuned),
                   cycles(r.formula), gain(r.formula), fmt::format("{}", r.trials), fmt::format("{}", r.bad),
                   fmt::format("{:.2f}", r.seconds / r.trials)});
        if (r.untuned > 0) gains += std::log(r.untuned / r.tuned), counted++;
        if (r.untuned > 0 && r.formula > 0) of_formulas += std::log(r.untuned / r.formula), counted_formulas++;
        for (const auto &[reason, n] : r.failures) failures += fmt::format("{}: {} × {}\n", r.name, n, reason);
    }
    std::string text = table.text();
    if (counted > 0) text += fmt::format("geometric mean of the gains {:.2f}\n", std::exp(gains / counted));
    if (counted_formulas > 0)
        text += fmt::format("of the formulas' spaces, over the library's defaults, {:.2f}\n",
                            std::exp(of_formulas / counted_formulas));
    return text + failures;
}

} // namespace kumiko::bench
