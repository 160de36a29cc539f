// Drawings of graphs in layers: boxes do not overlap, and lines run between them.
// Links: graph/report
// Levels: no
#include "graph/report/drawing.h"
#include "support/error.h"
#include "support/random.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <cmath>

using namespace kumiko;
using namespace kumiko::graph;

namespace {

// The first fault of a drawing; "" if there is none.
std::string fault_of(const Drawing &d, size_t boxes, const std::vector<DrawnLine> &lines, const DrawingSizes &sizes) {
    if (d.boxes.size() != boxes || d.lines.size() != lines.size()) return "boxes or lines are missing";
    for (size_t a = 0; a < boxes; a++) {
        const DrawnPoint &p = d.boxes[a];
        if (p.x < -0.01 || p.y < -0.01 || p.x + sizes.width > d.width + 0.01 || p.y + sizes.height > d.height + 0.01)
            return fmt::format("box {} is outside", a);
        for (size_t b = 0; b < a; b++) {
            if (std::abs(p.x - d.boxes[b].x) < sizes.width + sizes.across - 0.01 && p.y == d.boxes[b].y)
                return fmt::format("boxes {} and {} are too near", b, a);
        }
    }
    for (size_t l = 0; l < lines.size(); l++) {
        const std::vector<DrawnPoint> &points = d.lines[l];
        const DrawnPoint &from = d.boxes[lines[l].from], &to = d.boxes[lines[l].to];
        if (points.front().y != from.y + sizes.height || points.back().y != to.y)
            return fmt::format("line {} ends elsewhere", l);
        if (points.front().x != doctest::Approx(from.x + sizes.width / 2))
            return fmt::format("line {} begins elsewhere", l);
        for (size_t n = 1; n < points.size(); n++) {
            if (points[n].y < points[n - 1].y) return fmt::format("line {} goes up", l);
            for (const DrawnPoint &box : d.boxes) { // within a layer, lines are vertical
                const bool crosses = points[n - 1].y == box.y && points[n].y == box.y + sizes.height;
                if (crosses && points[n].x > box.x && points[n].x < box.x + sizes.width)
                    return fmt::format("line {} crosses a box", l);
            }
        }
    }
    return "";
}

Drawing drawn(size_t boxes, const std::vector<DrawnLine> &lines) {
    const DrawingSizes sizes;
    const Drawing d = draw_layers(boxes, lines, sizes);
    CHECK_EQ(fault_of(d, boxes, lines, sizes), "");
    return d;
}

} // namespace

TEST_CASE("a chain is one column, and a shortcut runs beside it") {
    const DrawingSizes sizes;
    const Drawing d = drawn(4, {{0, 1, 0}, {1, 2, 1}, {2, 3, 2}, {0, 3, 0}});
    for (size_t b = 1; b < 4; b++) CHECK_EQ(d.boxes[b].y, doctest::Approx(double(b) * (sizes.height + sizes.down)));
    CHECK_EQ(d.boxes[1].x, doctest::Approx(d.boxes[2].x).epsilon(0.02));
    CHECK_EQ(d.lines[3].size(), 6); // its ends, and both sides of two layers
    CHECK(d.width < 2 * sizes.width);
}

TEST_CASE("lines do not cross if that can be avoided") {
    // Two chains, whose boxes are numbered in the opposite order in the second layer.
    const Drawing d = drawn(6, {{0, 3, 0}, {1, 2, 1}, {3, 4, 2}, {2, 5, 3}});
    CHECK_EQ(d.boxes[0].x < d.boxes[1].x, d.boxes[3].x < d.boxes[2].x);
    CHECK_EQ(d.boxes[3].x < d.boxes[2].x, d.boxes[4].x < d.boxes[5].x);
}

TEST_CASE("an input that is read late is drawn above its reader") {
    const Drawing d = drawn(5, {{0, 1, 0}, {1, 2, 1}, {2, 3, 2}, {4, 3, 3}});
    CHECK_EQ(d.boxes[4].y, d.boxes[2].y);
}

TEST_CASE("drawings without lines or boxes") {
    CHECK_EQ(drawn(0, {}).height, 0);
    CHECK_EQ(drawn(3, {}).boxes[2].y, 0);
}

TEST_CASE("random graphs are drawn without overlaps") {
    for (uint64_t seed = 0; seed < 60; seed++) {
        CAPTURE(seed);
        Random random(seed);
        const size_t boxes = 1 + size_t(random.below(seed < 55 ? 40 : 400));
        std::vector<DrawnLine> lines;
        for (size_t b = 1; b < boxes; b++) {
            const size_t reads = size_t(random.below(4));
            for (size_t n = 0; n < reads; n++) {
                const size_t from =
                    random.below(3) ? b - 1 - size_t(random.below(std::min<size_t>(b, 5))) : size_t(random.below(b));
                lines.push_back({from, b, from * 2 + size_t(random.below(2))});
            }
        }
        drawn(boxes, lines);
    }
}

TEST_CASE("a cycle is an error") {
    CHECK_THROWS_WITH_AS(draw_layers(2, {{0, 1, 0}, {1, 0, 1}}), doctest::Contains("form a cycle"), InternalError);
}
