// Internal to the report: plots as SVG with colours from the page's style.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace kumiko::report {

struct PlotSeries {
    enum class Kind { Steps, Line, Dots };
    std::string name;
    std::string colour; // a class of the page's style: "best", "chance", "dot", "dot2"
    Kind kind = Kind::Dots;
    std::vector<std::pair<double, double>> points; // NaN and values beyond 1e±15 are omitted
    std::vector<std::string> notes;                // tooltip of each point, or empty
};

struct PlotAxis {
    std::string title;
    bool logarithmic = false;
    std::function<std::string(double)> text; // label of a tick
};

struct Plot {
    PlotAxis x, y;
    std::vector<PlotSeries> series;
    // A second y axis on the right with factor ÷ y, for example operations per second where y is
    // seconds per call. 0: none.
    double factor = 0;
    PlotAxis right;
    bool diagonal = false; // draws the line x = y

    // A figure with a legend; "" if there are no points.
    std::string html() const;
};

// Round values in [low, high]: 1, 2, 5, 10, … if `logarithmic`, otherwise evenly spaced; at least
// one, about n.
std::vector<double> ticks(double low, double high, bool logarithmic, int n);

} // namespace kumiko::report
