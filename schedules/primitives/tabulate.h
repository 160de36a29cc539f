// Parts of a stage that depend on one element of a tensor, and tables of their values.
#pragma once

#include "schedules/state.h"

#include <variant>

namespace kumiko {

// A part of a stage that depends only on one element of a tensor, and its table.
struct LookupTable {
    // "<stage>.of.<tensor>": element v is the part's value for the element first + v.
    Stage stage;
    int64_t first = 0;
};

// Why there is no table.
struct NoLookupTable {
    std::string cause, legal;
};

// The table for the part with the most operations. Parts that only read or convert the element do
// not count.
std::variant<LookupTable, NoLookupTable> table_of(const ScheduleState &state, const StageState &stage,
                                                  const std::string &tensor);

} // namespace kumiko
