// The ops that the suite `tune` tunes; the cost model that comes with Kumiko learnt from none of them.
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
// Throws UserError when none has the text in its name.
void require_task(const std::vector<TuneCase> &cases, const std::string &text);

} // namespace kumiko::bench
