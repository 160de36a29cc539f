#include "bench/summary.h"

#include <cmath>
#include <fmt/format.h>

namespace kumiko::bench {

Summary summarize(const std::vector<BenchRow> &rows) {
    Summary s;
    double ratios = 0, fast_ratios = 0, given_ratios = 0, defaults = 0, shares = 0;
    int peaks = 0, given = 0, tuned = 0;
    std::vector<double> spreads;
    for (const BenchRow &r : rows) {
        s.cases++;
        if (!r.failure.empty())
            s.unsupported++;
        else
            spreads.push_back(r.spread);
        if (r.ratio > 0) {
            s.compared++;
            ratios += std::log(r.ratio), fast_ratios += std::log(r.fast_ratio);
            if (s.worst == 0 || r.ratio < s.worst) s.worst = r.ratio, s.worst_case = r.name;
        }
        if (r.given_ratio > 0) given++, given_ratios += std::log(r.given_ratio);
        if (r.ratio > 0 && r.tuned)
            defaults += std::log(r.default_ratio > 0 ? r.default_ratio : r.ratio * r.untuned / r.ours);
        else if (r.ratio > 0)
            defaults += std::log(r.ratio);
        if (r.tuned) tuned++;
        if (r.of_peak > 0) {
            peaks++;
            shares += std::log(r.of_peak);
        }
    }
    if (!spreads.empty()) s.spread = summarize(spreads).median;
    if (s.compared) s.ratio = std::exp(ratios / s.compared), s.fast_ratio = std::exp(fast_ratios / s.compared);
    if (given) s.given_ratio = std::exp(given_ratios / given);
    if (tuned && s.compared) s.default_ratio = std::exp(defaults / s.compared);
    if (peaks) s.of_peak = std::exp(shares / peaks);
    return s;
}

std::string Summary::text() const {
    std::string t = fmt::format("{} case{}", cases, cases == 1 ? "" : "s");
    if (compared) {
        t += fmt::format(": geometric mean {:.2f}x of the best peer (worst {:.2f}x, {})", ratio, worst, worst_case);
        if (fast_ratio > 0) t += fmt::format(", {:.2f}x at the 10th percentile", fast_ratio);
        if (default_ratio > 0) t += fmt::format(", {:.2f}x by default schedules", default_ratio);
        if (given_ratio > 0) t += fmt::format(", {:.2f}x for NCHW images and results", given_ratio);
        if (compared < cases) t += fmt::format(" over the {} that a peer also has", compared);
    } else {
        t += ", none of which a peer has";
    }
    if (of_peak > 0) t += fmt::format(", {:.0f} % of peak", 100 * of_peak);
    if (spread > 0) t += fmt::format("; spread {:.0f} %", 100 * spread);
    if (unsupported) t += fmt::format("; {} of them not supported", unsupported);
    return t;
}

} // namespace kumiko::bench
