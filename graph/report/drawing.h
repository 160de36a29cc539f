// Places for the boxes and lines of a drawing of a graph without cycles, in layers from top to
// bottom.
//
// The steps are those of Sugiyama, Tagawa and Toda (1981): layers by longest paths, orders within
// layers by medians of neighbours, then coordinates. Lines that cross layers take a place in each.
// Cost: about (boxes + places of lines) · log of that, for each of a fixed number of sweeps.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace kumiko::graph {

// Lines of one source with the same number run together as long as they can.
struct DrawnLine {
    size_t from = 0, to = 0; // boxes
    size_t value = 0;
};

struct DrawingSizes {
    double width = 190, height = 52; // of a box
    double across = 26, down = 40;   // least gaps between boxes of a layer, and between layers
    double line = 12;                // width of a line's place in a layer that it crosses
};

struct DrawnPoint {
    double x = 0, y = 0;
};

struct Drawing {
    double width = 0, height = 0;
    std::vector<DrawnPoint> boxes; // top left corners
    // Of each line, from the bottom of one box to the top of the other. y never decreases.
    std::vector<std::vector<DrawnPoint>> lines;
};

// Each line goes to a box of a lower layer, boxes do not overlap, and lines that cross a layer run
// between its boxes. `boxes`: their number. Throws InternalError if lines form a cycle.
Drawing draw_layers(size_t boxes, const std::vector<DrawnLine> &lines, const DrawingSizes &sizes = {});

} // namespace kumiko::graph
