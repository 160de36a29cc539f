// Internal to the report: its sections as HTML.
#pragma once

#include "autotune/report.h"
#include "autotune/report/numbers.h"

namespace kumiko::report {

// The data that all sections of a task use.
struct Subject {
    const ReportTask &task;
    const Numbers &numbers;
    const CostModel &model;

    // "12.3 us", with the rate if the op multiplies: "12.3 us, 87.0 GFLOP/s".
    std::string time(double seconds) const;
    double operations() const; // 0: unknown, or not the measure of this op
};

std::string facts_section(const Subject &s);
std::string curve_section(const Subject &s);      // the best time after each trial
std::string prediction_section(const Subject &s); // predicted and measured times
std::string best_section(const Subject &s);
std::string reasons_section(const Subject &s);
std::string failures_section(const Subject &s);

// "rows=6, columns=16"
std::string parameters_text(const Json &parameters);

} // namespace kumiko::report
