// A self-contained page about a model: the graph of its steps, a table of times, memory, and what
// was fused.
#pragma once

#include "graph/report/model_report.h"

namespace kumiko::graph {

// Measured times of a model.
struct ModelTimes {
    struct Step {
        double seconds = 0, runs = 0; // in one run of the model
        std::vector<double> peers;    // seconds of the same nodes, by `peers`; empty: not measured
    };
    struct Peer {
        std::string name;
        double seconds = 0; // of a run
        double other = 0;   // of them in parts that belong to no step
    };
    int threads = 1;
    double seconds = 0;      // of a run
    std::vector<Step> steps; // as ModelReport::steps
    std::vector<Peer> peers;
};

// The page as HTML, without external resources. Without scripts it shows all of this, but neither
// zooms nor sorts. `times`: null if nothing was measured.
std::string model_page(const ModelReport &report, const ModelTimes *times = nullptr);

} // namespace kumiko::graph
