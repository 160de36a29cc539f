// The ops that the suite `tune` tunes; the cost model shipped with Kumiko was trained on none of
// them.
#pragma once

#include "dsl/op.h"

#include <string>
#include <vector>

namespace kumiko::bench {

struct TuneCase {
    std::string name;
    Op op;
};

std::vector<TuneCase> tune_cases();
std::vector<TuneCase> chip_tune_cases();
// Throws UserError if no name contains the text.
void require_task(const std::vector<TuneCase> &cases, const std::string &text);

} // namespace kumiko::bench
