// The subcommands' work for the simulated chip.
#pragma once

#include "cli/common.h"

namespace kumiko::cli {

struct ChipArguments {
    OpArguments op;
    ScheduleArguments schedule;
    std::string target; // "chip:full"
    bool check = true;
    std::string trace, report, json;
};

// kumiko run OP --target chip:full
void run_on_chip(const ChipArguments &a);
// kumiko show OP --target chip:full --stage l3|l2|l1|words; returns the text.
std::string show_on_chip(const Schedule &schedule, const std::string &stage);

} // namespace kumiko::cli
