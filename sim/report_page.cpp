// The report as one self-contained page: tables, bars, the roofline.
#include "sim/assembler.h"
#include "sim/run.h"
#include "support/duration.h"
#include "support/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kumiko::sim {

namespace {

constexpr const char *style = R"(<style>
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; color: #1d2733; background: #fff }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% } td, th { padding: .2rem .6rem; text-align: left; border-bottom: 1px solid #e3e8ee }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
.bar { background: #eef2f6; height: .8rem; width: 14rem; border-radius: 2px } .bar i { display: block; height: 100%; background: #2f6f9f; border-radius: 2px }
.idle i { background: #c2703d } .facts { display: flex; flex-wrap: wrap; gap: 1rem } .facts div { background: #f4f7fa; padding: .6rem 1rem; border-radius: 6px }
.facts b { display: block; font-size: 1.25rem } .warn { background: #fff4e0; padding: .5rem 1rem } small { color: #5b6875 }
@media (prefers-color-scheme: dark) { body { background: #14191f; color: #dbe3ea } td, th { border-color: #2b343e } .bar, .facts div { background: #222a33 } .warn { background: #43351c } }
</style>)";

std::string bar(double fraction, const char *kind = "") {
    return fmt::format(R"(<div class="bar {}"><i style="width:{:.1f}%"></i></div>)", kind,
                       100 * std::clamp(fraction, 0.0, 1.0));
}

std::string row(const std::string &name, const std::string &value, double fraction, const char *kind = "") {
    return fmt::format("<tr><td>{}</td><td class=n>{}</td><td class=n>{:.1f} %</td><td>{}</td></tr>\n",
                       html_escaped(name), value, 100 * fraction, bar(fraction, kind));
}

std::string fact(const std::string &name, const std::string &value) {
    return fmt::format("<div>{}<b>{}</b></div>\n", html_escaped(name), html_escaped(value));
}

} // namespace

// Both axes are logarithmic: MAC per DRAM byte, and MAC per cycle.
std::string Run::roofline_svg() const {
    const double width = 640, height = 340, left = 70, right = 20, top = 20, bottom = 46;
    const double peak =
        double(matrix_f32_steps > matrix_f16_steps ? config.fp32_macs_per_cycle() : config.fp16_macs_per_cycle());
    const double bandwidth = double(config.dram_bytes_per_cycle());
    const double moved = double(link_bytes[size_t(Link::DramRead)] + link_bytes[size_t(Link::DramWrite)]);
    const double work = bounds.macs > 0 ? bounds.macs : macs(), rate = cycles() ? work / double(cycles()) : 0;
    const double ridge = peak / bandwidth;
    double x0 = ridge / 1024, x1 = ridge * 64;
    const double intensity = moved > 0 ? work / moved : 0;
    if (intensity > 0) x0 = std::min(x0, intensity / 4), x1 = std::max(x1, intensity * 4);
    double y1 = peak * 2, y0 = std::min(peak / 4096, x0 * bandwidth);
    if (rate > 0) y0 = std::min(y0, rate / 2);
    const auto X = [&](double x) { return left + (width - left - right) * std::log(x / x0) / std::log(x1 / x0); };
    const auto Y = [&](double y) {
        return height - bottom - (height - top - bottom) * std::log(y / y0) / std::log(y1 / y0);
    };
    std::string svg = fmt::format(
        R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" width="{}" role="img" font-family="system-ui, sans-serif" font-size="12">)"
        "\n<title>roofline</title>\n",
        width, height, width);
    for (double d = std::pow(10, std::ceil(std::log10(x0))); d < x1; d *= 10)
        svg += fmt::format("<path d=\"M{0:.1f} {1:.1f}V{2:.1f}\" stroke=\"#8884\"/><text x=\"{0:.1f}\" y=\"{3:.1f}\" "
                           "text-anchor=\"middle\" fill=\"#778\">{4:g}</text>\n",
                           X(d), top, height - bottom, height - bottom + 16, d);
    for (double d = std::pow(10, std::ceil(std::log10(y0))); d < y1; d *= 10)
        svg += fmt::format("<path d=\"M{0:.1f} {1:.1f}H{2:.1f}\" stroke=\"#8884\"/><text x=\"{3:.1f}\" y=\"{4:.1f}\" "
                           "text-anchor=\"end\" fill=\"#778\">{5:g}</text>\n",
                           left, Y(d), width - right, left - 6, Y(d) + 4, d);
    svg += fmt::format(
        "<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}H{:.1f}\" fill=\"none\" stroke=\"#2f6f9f\" stroke-width=\"2.5\"/>\n",
        X(x0), Y(x0 * bandwidth), X(ridge), Y(peak), width - right);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\" fill=\"#2f6f9f\">{:g} MAC/cycle</text>\n",
                       width - right, Y(peak) - 6, peak);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"#2f6f9f\">{:g} B/cycle</text>\n", X(x0) + 8,
                       Y(x0 * bandwidth) - 14, bandwidth);
    if (intensity > 0 && rate > 0)
        svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\" fill=\"#c2703d\"/><text x=\"{:.1f}\" "
                           "y=\"{:.1f}\" fill=\"#c2703d\">{:.4g} MAC/cycle</text>\n",
                           X(intensity), Y(rate), X(intensity) + 8, Y(rate) + 16, rate);
    svg += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"#778\">MAC per DRAM byte</text>\n</svg>\n",
        (left + width - right) / 2, height - 10);
    return svg;
}

std::string Run::html() const {
    const double all = std::max<double>(1, double(cycles()));
    double joules = 0;
    for (const EnergyPart &p : energy()) joules += p.joules;
    const std::string title = program.empty() ? "A run on " + config.name : program + " on " + config.name;
    std::string h =
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\n";
    h += "<title>" + html_escaped(title) + "</title>\n" + style + "\n<h1>" + html_escaped(title) +
         "</h1>\n<div class=facts>\n";
    h += fact("cycles", std::to_string(cycles())) +
         fact(fmt::format("at {} GHz", config.clock_ghz), duration_text(seconds()));
    h += fact("of the bound", fmt::format("{:.1f} %", 100 * efficiency())) +
         fact("rate", fmt::format("{:.4g} TFLOP/s", seconds() > 0 ? 2e-12 * macs() / seconds() : 0));
    h += fact("energy, estimated", fmt::format("{:.3g} J", joules)) + fact("steps", std::to_string(steps)) + "</div>\n";
    h += fmt::format("<p>The bound: {:.0f} cycles of the matrix units, {:.0f} of DRAM. {} cycles stalled, {} after the "
                     "last word.</p>\n",
                     matrix_bound_cycles(), dram_bound_cycles(), stall_cycles, tail_cycles);
    for (const std::string &w : warnings) h += "<p class=warn>" + html_escaped(w) + "</p>\n";

    h += "<h2>What the matrix units did</h2><table><tr><th>state</th><th class=n>cycles</th><th class=n>of "
         "all</th><th></th></tr>\n";
    const uint64_t busy = cycles_per_step * (matrix_f16_steps + matrix_f32_steps);
    h += row("at work", std::to_string(busy), double(busy) / all);
    for (int i = 0; i < idle_count; i++)
        if (idle_cycles[size_t(i)])
            h += row("idle: " + idle_name(Idle(i)), std::to_string(idle_cycles[size_t(i)]),
                     double(idle_cycles[size_t(i)]) / all, "idle");
    h += "</table>\n<h2>Use of each unit</h2><table><tr><th>unit</th><th class=n>steps</th><th class=n>of all "
         "cycles</th><th></th></tr>\n";
    for (int s = 1; s < slot_count - 1; s++)
        h += row(slot_name(Slot(s)), std::to_string(slot_steps[size_t(s)]),
                 cycles_per_step * double(slot_steps[size_t(s)]) / all);
    for (size_t g = 0; g < dram_busy_cycles.size(); g++)
        h += row(fmt::format("DRAM of group {}", g), fmt::format("{} cycles", dram_busy_cycles[g]),
                 double(dram_busy_cycles[g]) / all);
    h += "</table>\n<h2>Links</h2><table><tr><th>link</th><th class=n>bytes</th><th class=n>bytes a cycle</th></tr>\n";
    for (int l = 0; l < link_count; l++)
        if (link_bytes[size_t(l)])
            h += fmt::format("<tr><td>{}</td><td class=n>{}</td><td class=n>{:.1f}</td></tr>\n", link_name(Link(l)),
                             link_bytes[size_t(l)], double(link_bytes[size_t(l)]) / all);
    h += "</table>\n";
    const double dram = double(link_bytes[size_t(Link::DramRead)] + link_bytes[size_t(Link::DramWrite)]);
    if (bounds.compulsory_dram_bytes > 0)
        h += fmt::format("<p>DRAM traffic is {:.2f}× the compulsory {:.0f} bytes.</p>\n",
                         dram / bounds.compulsory_dram_bytes, bounds.compulsory_dram_bytes);
    if (bounds.bound_dram_bytes > 0)
        h += fmt::format("<p>DRAM traffic is {:.2f}× the bound of {:.0f} bytes.</p>\n", dram / bounds.bound_dram_bytes,
                         bounds.bound_dram_bytes);
    h += "<h2>Roofline</h2>\n" + roofline_svg();
    h += "<h2>Energy, an estimate</h2><table><tr><th>part</th><th class=n>joules</th><th class=n>of "
         "all</th><th></th></tr>\n";
    for (const EnergyPart &p : energy())
        h += row(p.name, fmt::format("{:.3g}", p.joules), joules > 0 ? p.joules / joules : 0);
    h += "</table>\n<p><small>Table: " + html_escaped(config.energy.source) + "</small></p>\n";
    h += "<h2>Machine</h2><pre>" + html_escaped(config.to_string()) + "</pre>\n</html>\n";
    return h;
}

} // namespace kumiko::sim
