// Private to autotune's report: points and lines as SVG that takes its colours from the page.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace kumiko::report {

// For text between tags and in attributes in double quotes. Control characters, which XML cannot hold, become spaces.
std::string escaped(const std::string &text);

struct PlotSeries {
    enum class Kind { Steps, Line, Dots };
    std::string name;
    std::string colour; // a class of the page's style: "best", "chance", "dot", "dot2"
    Kind kind = Kind::Dots;
    std::vector<std::pair<double, double>> points; // those beyond 1e±15, and no numbers, are left out
    std::vector<std::string> notes;                // of each point, shown where one points at it; or empty
};

struct PlotAxis {
    std::string title;
    bool logarithmic = false;
    std::function<std::string(double)> text; // of a tick
};

struct Plot {
    PlotAxis x, y;
    std::vector<PlotSeries> series;
    // Beside the y axis a second one, of factor ÷ y: where y is seconds a call, operations a second. 0: none.
    double factor = 0;
    PlotAxis right;
    bool diagonal = false; // where x = y

    // A figure with a legend; "" when there are no points.
    std::string html() const;
};

// Round numbers between the two: 1, 2, 5, 10, … where `logarithmic`, else evenly spaced; at least one, and about n.
std::vector<double> ticks(double low, double high, bool logarithmic, int n);

} // namespace kumiko::report
