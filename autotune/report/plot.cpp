#include "autotune/report/plot.h"

#include "support/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace kumiko::report {

namespace {

constexpr size_t max_dots = 1500; // per series: keeps pages small; more points only form a cloud
constexpr double width = 720, height = 320, margin_left = 76, margin_right = 20, margin_top = 14, margin_bottom = 44;

struct Range {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    bool logarithmic = false;

    void take(double v) {
        low = std::min(low, v);
        high = std::max(high, v);
    }
    // Adds a margin on both sides.
    void widen() {
        if (logarithmic) {
            const double room = std::max(1.05, std::pow(high / low, 0.04));
            low /= room;
            high *= room;
        } else {
            const double room = high > low ? 0.03 * (high - low) : 1;
            low -= room;
            high += room;
        }
    }
    // Maps to [0, 1].
    double place(double v) const {
        return logarithmic ? std::log(v / low) / std::log(high / low) : (v - low) / (high - low);
    }
};

// The decimation of a series of many dots.
size_t every(const PlotSeries &s) {
    return s.kind == PlotSeries::Kind::Dots ? 1 + (s.points.size() - 1) / max_dots : 1;
}

std::string shape_of(const PlotSeries &s, const std::function<double(double)> &X,
                     const std::function<double(double)> &Y) {
    std::string out;
    if (s.kind == PlotSeries::Kind::Dots) {
        for (size_t i = 0; i < s.points.size(); i += every(s)) {
            out += fmt::format(R"(<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="3">)", s.colour, X(s.points[i].first),
                               Y(s.points[i].second));
            if (i < s.notes.size()) out += "<title>" + html_escaped(s.notes[i]) + "</title>";
            out += "</circle>\n";
        }
        return out;
    }
    for (size_t i = 0; i < s.points.size(); i++) {
        const double x = X(s.points[i].first), y = Y(s.points[i].second);
        if (i == 0)
            out += fmt::format("M{:.1f} {:.1f}", x, y);
        else if (s.kind == PlotSeries::Kind::Steps)
            out += fmt::format("H{:.1f}V{:.1f}", x, y);
        else
            out += fmt::format("L{:.1f} {:.1f}", x, y);
    }
    return fmt::format("<path class=\"line {}\" d=\"{}\"/>\n", s.colour, out);
}

} // namespace

std::vector<double> ticks(double low, double high, bool logarithmic, int n) {
    std::vector<double> all;
    if (logarithmic && high / low > 4) {
        for (double decade = std::pow(10, std::floor(std::log10(low))); decade <= high; decade *= 10) {
            for (const double step : {1, 2, 5}) {
                if (decade * step >= low && decade * step <= high) all.push_back(decade * step);
            }
        }
        // If there are many, only whole decades.
        if (all.size() > static_cast<size_t>(n) + 2)
            std::erase_if(all, [](double t) { return std::abs(std::log10(t) - std::round(std::log10(t))) > 1e-9; });
        return all;
    }
    const double rough = (high - low) / n, power = std::pow(10, std::floor(std::log10(rough)));
    const double step = rough / power > 5 ? 10 * power : rough / power > 2 ? 5 * power : 2 * power;
    // + 0.0: the ceiling of a small negative number is -0, which would be printed so.
    for (double t = std::ceil(low / step) + 0.0; t * step <= high; t++) all.push_back(t * step);
    return all;
}

std::string Plot::html() const {
    Range across, up;
    across.logarithmic = x.logarithmic;
    up.logarithmic = y.logarithmic;
    // Drops implausible values, which would dominate the scale.
    std::vector<PlotSeries> shown = series;
    const auto absurd = [](const PlotAxis &axis, double v) {
        return !(std::abs(v) < 1e15) || (axis.logarithmic && !(v > 1e-15));
    };
    for (PlotSeries &s : shown) {
        PlotSeries kept = s;
        kept.points.clear();
        kept.notes.clear();
        for (size_t i = 0; i < s.points.size(); i++) {
            const auto &[px, py] = s.points[i];
            if (absurd(x, px) || absurd(y, py)) continue;
            across.take(px);
            up.take(py);
            kept.points.push_back(s.points[i]);
            if (i < s.notes.size()) kept.notes.push_back(s.notes[i]);
        }
        s = std::move(kept);
    }
    if (across.low > across.high) return "";
    if (diagonal) {
        across.take(up.low);
        across.take(up.high);
        up.take(across.low);
        up.take(across.high);
    }
    across.widen();
    up.widen();
    const double right_edge = width - (factor > 0 ? margin_left : margin_right), bottom = height - margin_bottom;
    const auto X = [&](double v) { return margin_left + (right_edge - margin_left) * across.place(v); };
    const auto Y = [&](double v) { return bottom - (bottom - margin_top) * up.place(v); };

    std::string svg = fmt::format("<figure><svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n", width, height,
                                  html_escaped(y.title + " against " + x.title));
    for (const double t : ticks(across.low, across.high, x.logarithmic, 8))
        svg += fmt::format("<path class=\"grid\" d=\"M{0:.1f} {1}V{2}\"/><text x=\"{0:.1f}\" y=\"{3}\" "
                           "text-anchor=\"middle\">{4}</text>\n",
                           X(t), margin_top, bottom, bottom + 16, html_escaped(x.text(t)));
    for (const double t : ticks(up.low, up.high, y.logarithmic, 6))
        svg += fmt::format("<path class=\"grid\" d=\"M{1} {0:.1f}H{2}\"/><text x=\"{3}\" y=\"{4:.1f}\" "
                           "text-anchor=\"end\">{5}</text>\n",
                           Y(t), margin_left, right_edge, margin_left - 6, Y(t) + 4, html_escaped(y.text(t)));
    if (factor > 0) {
        for (const double t : ticks(factor / up.high, factor / up.low, y.logarithmic, 6))
            svg += fmt::format("<text x=\"{}\" y=\"{:.1f}\">{}</text>\n", right_edge + 6, Y(factor / t) + 4,
                               html_escaped(right.text(t)));
        svg += fmt::format("<text class=\"name\" text-anchor=\"middle\" transform=\"translate({},{:.1f}) "
                           "rotate(-90)\">{}</text>\n",
                           width - 6, (margin_top + bottom) / 2, html_escaped(right.title));
    }
    svg += fmt::format("<text class=\"name\" text-anchor=\"middle\" x=\"{:.1f}\" y=\"{}\">{}</text>\n",
                       (margin_left + right_edge) / 2, height - 8, html_escaped(x.title));
    svg += fmt::format("<text class=\"name\" text-anchor=\"middle\" transform=\"translate(12,{:.1f}) "
                       "rotate(-90)\">{}</text>\n",
                       (margin_top + bottom) / 2, html_escaped(y.title));
    if (diagonal) {
        const double low = std::max(across.low, up.low), high = std::min(across.high, up.high);
        svg += fmt::format("<path class=\"diagonal\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>\n", X(low), Y(low), X(high),
                           Y(high));
    }
    for (const PlotSeries &s : shown) svg += shape_of(s, X, Y);
    svg += "</svg>\n<figcaption>";
    for (const PlotSeries &s : shown) {
        if (s.points.empty()) continue;
        svg += fmt::format("<span><i class=\"{}\"></i> {}{}</span> ", s.colour, html_escaped(s.name),
                           every(s) > 1 ? fmt::format(" (one of {} is drawn)", every(s)) : "");
    }
    return svg + "</figcaption></figure>\n";
}

} // namespace kumiko::report
