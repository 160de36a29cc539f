#include "graph/report/page.h"

#include "graph/report/page_parts.h"
#include "support/duration.h"
#include "support/html.h"
#include "support/html_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace kumiko::graph {

double PageSubject::sum_seconds() const {
    double sum = 0;
    for (const size_t s : report.lists.at(0).steps) sum += seconds(s);
    return sum;
}

namespace {

double runs_of(const PageSubject &s, size_t step) { return s.times ? s.times->steps.at(step).runs : 1; }

// A sum over the runs of the step's kernel.
double total(const PageSubject &s, size_t step, double ReportKernel::*what) {
    const size_t kernel = s.report.steps.at(step).kernel;
    return kernel == SIZE_MAX ? 0 : runs_of(s, step) * s.report.kernels.at(kernel).*what;
}

// Heads of columns; those from `numbers` to `texts` − 1 have numbers.
std::string table_head(const std::vector<std::string> &heads, size_t numbers, size_t texts = SIZE_MAX) {
    std::string h = "<thead><tr>";
    for (size_t n = 0; n < heads.size(); n++)
        h += fmt::format("<th{}>{}</th>", n >= numbers && n < texts ? " class=\"n\"" : "", html_escaped(heads[n]));
    return h + "</tr></thead>";
}

// A cell with the number by which the column is sorted.
std::string number_cell(double value, const std::string &text) {
    return fmt::format("<td class=\"n\" data-v=\"{:.9g}\">{}</td>", value, html_escaped(text));
}

std::string rate(double operations, double seconds) {
    return operations > 0 && seconds > 0 ? fmt::format("{:.3g}", operations / seconds * 1e-9) : "";
}

} // namespace

double PageSubject::seconds(size_t step) const {
    return times ? times->steps.at(step).seconds : total(*this, step, &ReportKernel::estimate);
}
double PageSubject::operations(size_t step) const { return total(*this, step, &ReportKernel::operations); }
double PageSubject::bytes(size_t step) const {
    return total(*this, step, &ReportKernel::bytes) + runs_of(*this, step) * 2 * double(report.steps[step].moved_bytes);
}
double PageSubject::bound(size_t step) const { return total(*this, step, &ReportKernel::bound); }

std::string shortened(const std::string &text, size_t most) {
    if (text.size() <= most) return text;
    size_t begin = text.size() - most + 1;
    while (begin < text.size() && (text[begin] & 0xc0) == 0x80) begin++; // a whole character
    return "…" + text.substr(begin);
}

std::string count_text(double n) {
    for (const auto &[unit, name] :
         {std::pair(1e12, " T"), std::pair(1e9, " G"), std::pair(1e6, " M"), std::pair(1e3, " k")}) {
        if (n >= unit) return fmt::format("{:.3g}{}", n / unit, name);
    }
    return fmt::format("{:.3g}", n);
}

std::string facts_part(const PageSubject &s) {
    const ModelReport &r = s.report;
    std::string h = "<div class=\"facts\">\n";
    if (s.times) {
        h += html_fact(fmt::format("a run, {} thread{}", s.times->threads, s.times->threads == 1 ? "" : "s"),
                       duration_text(s.times->seconds));
        for (const ModelTimes::Peer &p : s.times->peers) h += html_fact(p.name, duration_text(p.seconds));
    } else {
        h += html_fact("estimate, 1 thread", duration_text(s.sum_seconds()));
    }
    double operations = 0;
    for (size_t n = 0; n < r.steps.size(); n++) operations += s.operations(n);
    h += html_fact("nodes, steps, kernels",
                   fmt::format("{}, {}, {}", r.nodes, r.lists.at(0).steps.size(), r.kernels.size()));
    h += html_fact("arithmetic", count_text(operations) + (operations < 1e3 ? " FLOP" : "FLOP"));
    h += html_fact("weights", bytes_text(double(r.constant_bytes)));
    h += html_fact("arena", bytes_text(double(r.arena_bytes)));
    if (r.state_bytes > 0) h += html_fact("states", bytes_text(double(r.state_bytes)));
    h += "</div>\n";
    std::string sizes = fmt::format("{}", fmt::join(r.sizes, ", "));
    if (!sizes.empty()) h += "<p class=\"soft\">Sizes: " + html_escaped(sizes) + ".</p>\n";
    return h + "<p class=\"soft\">A step is one call of a kernel, which computes a group of fused nodes, or a copy. "
               "Nodes are those of the graph with fixed sizes, after the rules. FLOP are multiplications and additions "
               "of sums of products.</p>\n";
}

namespace {

// `sum`: seconds of all steps.
std::string step_row(const PageSubject &s, size_t n, double sum) {
    const ReportStep &step = s.report.steps[n];
    std::string h = fmt::format("<tr><td class=\"n\" data-v=\"{0}\"><a href=\"#step{0}\">{0}</a></td><td>{1}</td>", n,
                                html_escaped(shortened(step.title, 60)));
    const double operations = s.operations(n), bytes = s.bytes(n);
    const ModelTimes::Step *time = s.times ? &s.times->steps[n] : nullptr;
    h += number_cell(s.seconds(n), duration_text(s.seconds(n))) +
         number_cell(s.seconds(n), fmt::format("{:.1f} %", sum > 0 ? 100 * s.seconds(n) / sum : 0));
    if (time) {
        h += number_cell(time->runs, fmt::format("{:g}", time->runs));
        for (size_t p = 0; p < s.times->peers.size(); p++) {
            const double peer = p < time->peers.size() ? time->peers[p] : 0;
            h += number_cell(peer, peer > 0 ? duration_text(peer) : "");
        }
    }
    h += number_cell(operations, operations > 0 ? count_text(operations) : "") +
         number_cell(bytes, bytes > 0 ? bytes_text(bytes) : "");
    if (time) {
        const double bound = s.bound(n);
        h += number_cell(operations / std::max(time->seconds, 1e-12), rate(operations, time->seconds)) +
             number_cell(bound, bound > 0 ? duration_text(bound) : "") +
             number_cell(bound / std::max(time->seconds, 1e-12),
                         bound > 0 && time->seconds > 0 ? fmt::format("{:.0f} %", 100 * bound / time->seconds) : "");
    }
    const std::string node = step.nodes.empty() ? "" : step.nodes.back();
    const bool calls = step.kernel != SIZE_MAX;
    return h + number_cell(calls ? double(step.kernel) : -1, calls ? std::to_string(step.kernel) : "") +
           fmt::format("<td title=\"{}\">{}</td></tr>\n", html_escaped(node), html_escaped(shortened(node, 32)));
}

} // namespace

std::string table_part(const PageSubject &s) {
    std::vector<std::string> heads = {"step", "operators", s.times ? "time" : "estimate", "share"};
    if (s.times) {
        heads.push_back("runs");
        for (const ModelTimes::Peer &p : s.times->peers) heads.push_back(p.name);
    }
    heads.insert(heads.end(), {"FLOP", "bytes"});
    if (s.times) heads.insert(heads.end(), {"GFLOP/s", "roofline", "of it"});
    heads.insert(heads.end(), {"kernel", "last node"});
    std::string h = "<h2 id=\"steps\">Steps</h2>\n<div class=\"scroll\"><table class=\"sortable\">\n" +
                    table_head(heads, 2, heads.size() - 1) + "<tbody>\n";
    const double sum = s.sum_seconds();
    for (const ReportList &list : s.report.lists) {
        for (const size_t n : list.steps) h += step_row(s, n, sum);
    }
    h += "</tbody></table></div>\n<p class=\"soft\">Bytes are those of all inputs and outputs of the kernel, once each";
    if (!s.times) {
        h += ". Estimates are those of default schedules, by a model of loops and caches. They rank steps, and may be "
             "wrong by a factor of two, of depthwise convolutions by up to eight";
    } else {
        h += ". Times are medians of whole runs, and those of a loop or branch contain the steps of its lists. The "
             "roofline is max(FLOP ÷ peak, bytes ÷ (one vector for each cycle)), with the peak that this machine "
             "reached with multiply-adds from registers in the same session, and operands of fewer bits in "
             "proportion. Schedules that save products or skip padding can be faster";
        for (const ModelTimes::Peer &p : s.times->peers)
            h += fmt::format(
                ". The times of {} are those of the same nodes, by its profile; {} of them belong to no step",
                html_escaped(p.name), duration_text(p.other));
    }
    return h + ".</p>\n";
}

std::string fusion_part(const PageSubject &s) {
    const ModelReport &r = s.report;
    std::map<std::string, int> fused; // by operators
    struct Reason {
        int values = 0;
        double bytes = 0;
    };
    std::map<std::string, Reason> reasons;
    std::string values;
    for (const ReportStep &step : r.steps) {
        if (step.nodes.size() > 1 && step.kernel != SIZE_MAX) fused[step.title]++;
    }
    for (const ReportList &list : r.lists) {
        for (const ReportLine &line : list.lines) {
            if (line.reason.empty()) continue;
            reasons[line.reason].values++, reasons[line.reason].bytes += double(line.value.bytes);
            const size_t from = list.steps.at(line.from), to = list.steps.at(line.to);
            values += fmt::format(
                "<tr><td>{}</td><td class=\"n\" data-v=\"{}\">{}</td><td data-v=\"{}\"><a href=\"#step{}\">{} "
                "{}</a></td><td data-v=\"{}\"><a href=\"#step{}\">{} {}</a></td><td>{}</td></tr>\n",
                html_escaped(shortened(line.value.name, 32)), line.value.bytes, bytes_text(double(line.value.bytes)),
                from, from, from, html_escaped(shortened(r.steps[from].title, 24)), to, to, to,
                html_escaped(shortened(r.steps[to].title, 24)), html_escaped(line.reason));
        }
    }
    std::string h = "<h2 id=\"fusion\">Fusion</h2>\n<h3>What became one kernel</h3>\n";
    if (fused.empty()) h += "<p>Each kernel computes one node.</p>\n";
    if (!fused.empty()) {
        h += "<div class=\"scroll\"><table class=\"sortable\">\n" + table_head({"operators", "steps"}, 1) + "<tbody>\n";
        for (const auto &[operators, count] : fused)
            h += fmt::format("<tr><td>{}</td>{}</tr>\n", html_escaped(operators),
                             number_cell(count, std::to_string(count)));
        h += "</tbody></table></div>\n";
    }
    h += "<h3>What did not</h3>\n";
    if (reasons.empty()) return h + "<p>No kernel reads what another one stores.</p>\n";
    h += "<p>Each of these values is stored by one kernel and read by another one.</p>\n<div class=\"scroll\"><table "
         "class=\"sortable\">\n" +
         table_head({"reason", "values", "bytes"}, 1) + "<tbody>\n";
    std::vector<std::pair<std::string, Reason>> sorted(reasons.begin(), reasons.end());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto &a, const auto &b) { return a.second.bytes > b.second.bytes; });
    for (const auto &[reason, what] : sorted)
        h += fmt::format("<tr><td>{}</td>{}{}</tr>\n", html_escaped(reason),
                         number_cell(what.values, std::to_string(what.values)),
                         number_cell(what.bytes, bytes_text(what.bytes)));
    return h +
           "</tbody></table></div>\n<details><summary>All values</summary><div class=\"scroll\"><table "
           "class=\"sortable\">\n" +
           table_head({"value", "bytes", "made by", "read by", "reason"}, 9) + "<tbody>\n" + values +
           "</tbody></table></div></details>\n";
}

std::string model_page(const ModelReport &report, const ModelTimes *times) {
    const PageSubject s{report, times};
    return html_page(report.name, facts_part(s) + graph_part(s) + table_part(s) + memory_part(s) + fusion_part(s),
                     page_rules, page_script);
}

} // namespace kumiko::graph
