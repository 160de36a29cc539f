#include "graph/report/drawing.h"
#include "graph/report/page_parts.h"
#include "support/duration.h"
#include "support/html.h"
#include "support/html_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace kumiko::graph {

namespace {

constexpr size_t box_characters = 29, title_characters = 22; // of a line of text in a box

std::string value_text(const ReportValue &v) {
    return fmt::format("{} · {}{}", v.text, bytes_text(double(v.bytes)), v.channels_last ? " · channels last" : "");
}

std::string path_of(const std::vector<DrawnPoint> &points) {
    std::string d = fmt::format("M{:.0f} {:.0f}", points[0].x, points[0].y);
    for (size_t n = 1; n < points.size(); n++) {
        const DrawnPoint &a = points[n - 1], &b = points[n];
        const double middle = (a.y + b.y) / 2;
        if (a.x == b.x)
            d += fmt::format("V{:.0f}", b.y);
        else
            d += fmt::format("C{:.0f} {:.0f} {:.0f} {:.0f} {:.0f} {:.0f}", a.x, middle, b.x, middle, b.x, b.y);
    }
    return d;
}

// Wider for more bytes: 1 below 4 KiB, 4 above 4 MiB.
double width_of(int64_t bytes) { return std::clamp(1 + 0.3 * std::log2(double(bytes) / 4096 + 1e-9), 1.0, 4.0); }

std::string text_line(double x, double y, const char *kind, const std::string &text) {
    return fmt::format("<text class=\"{}\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>", kind, x, y, html_escaped(text));
}

// Of a list that may have thousands of steps.
std::string list_svg(const PageSubject &s, const ReportList &list, size_t number) {
    std::vector<DrawnLine> lines;
    std::map<std::string, size_t> values;
    for (const ReportLine &l : list.lines)
        lines.push_back({l.from, l.to, values.emplace(l.value.name, values.size()).first->second});
    const size_t boxes = list.steps.size() + list.ends.size();
    const DrawingSizes sizes;
    const Drawing drawing = draw_layers(boxes, lines, sizes);
    constexpr double margin = 12;
    std::string h = fmt::format("<svg class=\"graph\" id=\"graph{}\" viewBox=\"{} {} {:.0f} {:.0f}\" role=\"img\" "
                                "aria-label=\"graph of the steps{}\">\n",
                                number, -margin, -margin, drawing.width + 2 * margin, drawing.height + 2 * margin,
                                html_escaped(list.title.empty() ? "" : " of " + list.title));
    for (size_t l = 0; l < lines.size(); l++) {
        const ReportLine &line = list.lines[l];
        const auto end = [&](size_t box) { return box < list.steps.size() ? fmt::format("{}", list.steps[box]) : ""; };
        h += fmt::format(
            "<path class=\"edge\" data-a=\"{}\" data-b=\"{}\" style=\"stroke-width:{:.1f}\" d=\"{}\"><title>{}: "
            "{}</title></path>\n",
            end(line.from), end(line.to), width_of(line.value.bytes), path_of(drawing.lines[l]),
            html_escaped(line.value.name), html_escaped(value_text(line.value)));
    }
    double most = 0;
    for (const size_t n : list.steps) most = std::max(most, s.seconds(n));
    for (size_t b = 0; b < boxes; b++) {
        const auto [x, y] = drawing.boxes[b];
        const std::string rect = fmt::format("x=\"{:.0f}\" y=\"{:.0f}\" width=\"{}\" height=\"{}\" rx=\"6\"/>", x, y,
                                             sizes.width, sizes.height);
        if (b >= list.steps.size()) {
            const ReportValue &v = list.ends[b - list.steps.size()];
            h += "<g class=\"end\"><rect " + rect +
                 text_line(x + 8, y + 21, "name", shortened(v.name, box_characters - 2)) +
                 text_line(x + 8, y + 39, "", shortened(value_text(v), box_characters + 3)) + "<title>" +
                 html_escaped(v.name + ": " + value_text(v)) + "</title></g>\n";
            continue;
        }
        const size_t n = list.steps[b];
        const ReportStep &step = s.report.steps[n];
        const double seconds = s.seconds(n);
        h += fmt::format("<g class=\"box\" data-step=\"{}\"><rect {}", n, rect);
        if (most > 0) h += fmt::format("<rect class=\"heat\" style=\"opacity:{:.2f}\" {}", 0.65 * seconds / most, rect);
        const size_t kept = step.title.size() <= title_characters ? step.title.size() : title_characters - 1;
        h += text_line(x + 8, y + 16, "name", step.title.substr(0, kept) + (kept < step.title.size() ? "…" : ""));
        if (!step.made.empty()) {
            const ReportValue &v = step.made.front();
            h += text_line(x + 8, y + 31, "", shortened(v.text, box_characters));
            h +=
                text_line(x + 8, y + 45, "", bytes_text(double(v.bytes)) + (v.channels_last ? " · channels last" : ""));
        } else if (step.moved_bytes > 0) {
            h += text_line(x + 8, y + 45, "", bytes_text(double(step.moved_bytes)));
        }
        if (seconds > 0)
            h += fmt::format("<text class=\"time\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>", x + sizes.width - 8, y + 45,
                             duration_text(seconds));
        h += fmt::format("<title>step {}: {}\n{}</title></g>\n", n, html_escaped(step.title),
                         html_escaped(fmt::format("{}", fmt::join(step.nodes, "\n"))));
    }
    return h + "</svg>\n";
}

std::string row(const std::string &name, const std::string &value) {
    return fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", name, value);
}

// The measured and expected times of a step.
std::string time_rows(const PageSubject &s, size_t n) {
    const double operations = s.operations(n), bytes = s.bytes(n);
    std::string h;
    if (s.times) {
        const ModelTimes::Step &t = s.times->steps[n];
        h += row("time", duration_text(t.seconds) +
                             fmt::format(", {:.1f} %", 100 * t.seconds / std::max(1e-12, s.sum_seconds())));
        if (t.runs != 1) h += row("runs", fmt::format("{:g}", t.runs));
        for (size_t p = 0; p < t.peers.size(); p++)
            h += row(html_escaped(s.times->peers[p].name), t.peers[p] > 0 ? duration_text(t.peers[p]) : "-");
        if (const double bound = s.bound(n); bound > 0 && t.seconds > 0)
            h += row("roofline", duration_text(bound) + fmt::format(", {:.0f} % reached", 100 * bound / t.seconds));
        if (operations > 0 && t.seconds > 0)
            h += row("rate", fmt::format("{:.3g} GFLOP/s", operations / t.seconds * 1e-9));
        if (bytes > 0 && t.seconds > 0) h += row("bytes moved", fmt::format("{:.3g} GB/s", bytes / t.seconds * 1e-9));
    }
    if (!s.times && s.seconds(n) > 0) h += row("estimate", duration_text(s.seconds(n)));
    if (operations > 0) h += row("FLOP", count_text(operations));
    if (bytes > 0) h += row("bytes", bytes_text(bytes));
    if (s.report.steps[n].constant_bytes > 0) h += row("weights", bytes_text(double(s.report.steps[n].constant_bytes)));
    return h;
}

std::string step_details(const PageSubject &s, size_t n, const std::string &reads) {
    const ReportStep &step = s.report.steps[n];
    std::string h =
        fmt::format("<section class=\"step\" id=\"step{0}\"><h3>Step {0}: {1}</h3>\n", n, html_escaped(step.title));
    if (!step.remark.empty()) h += "<p>This step " + html_escaped(step.remark) + ".</p>\n";
    for (const ReportList &list : s.report.lists) {
        if (list.around == n)
            h += fmt::format("<p><a href=\"#step{}\">{}</a></p>\n", list.steps.at(0), html_escaped(list.title));
    }
    h += "<table>\n";
    if (step.kernel != SIZE_MAX) {
        const std::string &origin = s.report.kernels[step.kernel].origin;
        h += row("kernel", std::to_string(step.kernel) + (origin.empty() ? "" : ", schedule: " + html_escaped(origin)));
    }
    h += time_rows(s, n);
    std::string nodes;
    for (size_t i = 0; i < step.nodes.size(); i++)
        nodes += fmt::format("{}<code>{}</code> {}", i ? "<br/>" : "", html_escaped(step.nodes[i]),
                             i < step.operators.size() ? html_escaped(step.operators[i]) : "");
    if (!nodes.empty()) h += row("nodes", nodes);
    if (!reads.empty()) h += row("reads", reads);
    std::string made;
    for (const ReportValue &v : step.made)
        made += fmt::format("{}<code>{}</code> {}, {}", made.empty() ? "" : "<br/>", html_escaped(v.name),
                            html_escaped(value_text(v)), html_escaped(v.place));
    if (!made.empty()) h += row("makes", made);
    h += "</table>\n";
    if (step.kernel != SIZE_MAX) {
        std::string stages;
        for (const StageSummary &stage : s.report.kernels[step.kernel].stages) {
            stages += stage.stage + (stage.sketch.empty() ? "" : " (" + stage.sketch + ")");
            stages += ": " + stage.text + "\n";
        }
        if (!stages.empty()) h += "<p class=\"soft\">Schedule, by stage</p>\n<pre>" + html_escaped(stages) + "</pre>\n";
    }
    return h + "</section>\n";
}

// What each step reads, as HTML.
std::map<size_t, std::string> reads_of(const ModelReport &r) {
    std::map<size_t, std::string> all;
    for (const ReportList &list : r.lists) {
        for (const ReportLine &line : list.lines) {
            if (line.to >= list.steps.size()) continue;
            std::string &text = all[list.steps[line.to]];
            text += fmt::format("{}<code>{}</code> {}", text.empty() ? "" : "<br/>", html_escaped(line.value.name),
                                html_escaped(value_text(line.value)));
            if (line.from < list.steps.size())
                text += fmt::format(" of <a href=\"#step{0}\">step {0}</a>", list.steps[line.from]);
            if (!line.reason.empty()) text += "<br/><small>not fused: " + html_escaped(line.reason) + "</small>";
        }
    }
    return all;
}

} // namespace

std::string graph_part(const PageSubject &s) {
    const ModelReport &r = s.report;
    std::string h =
        "<h2 id=\"graph\">Graph</h2>\n<p class=\"soft\">A box is a step, with its operators, the value that it "
        "makes and its time; darker ones take longer. Lines are values, wider for more bytes. Drag to move, "
        "turn the wheel or pinch to zoom, select a box for its details.</p>\n<div class=\"tools\">";
    if (r.lists.size() > 1) {
        h += "<select id=\"list\" aria-label=\"list of steps\">";
        for (size_t l = 0; l < r.lists.size(); l++)
            h += fmt::format("<option value=\"{}\">{}</option>", l,
                             html_escaped(l == 0 ? "the model" : shortened(r.lists[l].title, 60)));
        h += "</select>";
    }
    h += "<button data-zoom=\"1.4\" title=\"larger\">+</button><button data-zoom=\"0.7\" "
         "title=\"smaller\">−</button><button data-zoom=\"all\">all</button><button data-zoom=\"text\">text "
         "size</button><input id=\"find\" type=\"search\" placeholder=\"find a node or value\" aria-label=\"find a "
         "node or "
         "value\"/></div>\n<div class=\"view\">\n";
    for (size_t l = 0; l < r.lists.size(); l++) h += list_svg(s, r.lists[l], l);
    h += "</div>\n<div id=\"details\">\n<p class=\"soft\" id=\"none\">No step is selected.</p>\n";
    const std::map<size_t, std::string> reads = reads_of(r);
    for (const ReportList &list : r.lists) {
        for (const size_t n : list.steps) h += step_details(s, n, reads.count(n) ? reads.at(n) : "");
    }
    return h + "</div>\n";
}

std::string memory_part(const PageSubject &s) {
    const ModelReport &r = s.report;
    constexpr double width = 1000, height = 380, left = 78, right = 12, top = 14, bottom = 42;
    std::string h = "<h2 id=\"memory\">Memory</h2>\n";
    const size_t steps = r.live.size();
    if (r.arena_bytes == 0 || steps == 0) return h + "<p>The steps need no arena.</p>\n";
    const int64_t peak = *std::max_element(r.live.begin(), r.live.end());
    const auto X = [&](double step) { return left + (width - left - right) * step / double(steps); };
    const auto Y = [&](double bytes) {
        return height - bottom - (height - top - bottom) * bytes / double(r.arena_bytes);
    };
    h += fmt::format("<div class=\"facts\">{}{}{}</div>\n", html_fact("arena", bytes_text(double(r.arena_bytes))),
                     html_fact("bound: live at one step", bytes_text(double(r.arena_bound))),
                     html_fact("all values of the arena", bytes_text([&] {
                                   double sum = 0;
                                   for (const ReportBuffer &b : r.buffers) sum += double(b.bytes);
                                   return sum;
                               }())));
    h += fmt::format(
        "<div class=\"scroll\"><figure class=\"wide\"><svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"memory "
        "over the steps\">\n",
        width, height);
    for (int i = 0; i <= 4; i++) {
        const double bytes = double(r.arena_bytes) * i / 4;
        h += fmt::format(
            "<path class=\"grid\" d=\"M{} {:.1f}H{}\"/><text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
            left, Y(bytes), width - right, left - 6, Y(bytes) + 4, bytes_text(bytes));
    }
    const size_t every = std::max<size_t>(1, (steps + 9) / 10);
    for (size_t n = 0; n < steps; n += every)
        h += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", X(double(n) + 0.5),
                         height - bottom + 16, r.lists[0].steps[n]);
    h += fmt::format("<text class=\"name\" x=\"{:.0f}\" y=\"{}\" text-anchor=\"middle\">step</text>\n",
                     (left + width) / 2, height - 8);
    size_t colour = 0;
    for (const ReportBuffer &b : r.buffers) {
        const double x = X(double(b.first)), y = Y(double(b.offset + b.bytes));
        h += fmt::format(
            "<rect class=\"buffer b{}\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\"><title>{}: {}, "
            "from byte {}, steps {} to {}</title></rect>\n",
            colour++ % 4, x, y, X(double(b.last + 1)) - x, Y(double(b.offset)) - y, html_escaped(b.name),
            bytes_text(double(b.bytes)), b.offset, r.lists[0].steps[b.first], r.lists[0].steps[b.last]);
    }
    std::string live;
    for (size_t n = 0; n < steps; n++)
        live += fmt::format("{}{:.1f} {:.1f}H{:.1f}", n == 0 ? "M" : "L", X(double(n)), Y(double(r.live[n])),
                            X(double(n + 1)));
    h += fmt::format(
        "<path class=\"line chance\" d=\"{}\"/>\n</svg>\n</figure></div>\n<figcaption><span><i class=\"best\"></i> "
        "values in their "
        "places of the arena, in the steps that need them</span> <span><i class=\"chance\"></i> live bytes, at "
        "most {}</span></figcaption>\n",
        live, bytes_text(double(peak)));
    return h + "<p class=\"soft\">The bound is the most bytes that are live at one step in this order, so no arena is "
               "smaller. "
               "Inputs, outputs, weights, states and workspaces of kernels are not in the drawing.</p>\n";
}

} // namespace kumiko::graph
