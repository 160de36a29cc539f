// Internal to the page: its parts as HTML.
#pragma once

#include "graph/report/page.h"

namespace kumiko::graph {

// What all parts read.
struct PageSubject {
    const ModelReport &report;
    const ModelTimes *times;

    double sum_seconds() const; // of the steps of the model's list
    // Of all runs of a step, measured or estimated; 0: unknown.
    double seconds(size_t step) const;
    // Of all runs of a step in one run of the model.
    double operations(size_t step) const;
    double bytes(size_t step) const;
    double bound(size_t step) const;
};

std::string facts_part(const PageSubject &s);
std::string graph_part(const PageSubject &s);
std::string table_part(const PageSubject &s);
std::string memory_part(const PageSubject &s);
std::string fusion_part(const PageSubject &s);

// The last characters of a text that is longer than `most`, after an ellipsis.
std::string shortened(const std::string &text, size_t most);
// "1.25 G", "312 k".
std::string count_text(double n);

extern const char *const page_rules;  // CSS
extern const char *const page_script; // JavaScript

} // namespace kumiko::graph
