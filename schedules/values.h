// Value ranges of tensor elements: those of the type, or narrower ones by assumption.
#pragma once

#include "schedules/state.h"

namespace kumiko {

// The least and the greatest value of an integer.
struct ValueRange {
    int64_t min = 0, max = 0;
    bool within(const ValueRange &other) const { return other.min <= min && max <= other.max; }
};

inline constexpr const char *within_call_name = "kumiko.within";

// A condition for assume and specialize: every element of an input is in [min, max]. The elements
// are scanned when the kernel is called. s.assume(within("B", -64, 64))
Expr within(const std::string &input, int64_t min, int64_t max);

// Decodes such a condition; nullopt for other conditions.
struct ValuesWithin {
    std::string input;
    ValueRange range;
};
std::optional<ValuesWithin> values_condition(const Expr &e);

// Whether the condition contains within().
bool is_about_values(const Expr &condition);

// Why the elements of that input cannot be scanned; "" if they can: integers of at most 32 bits in
// a dense array.
std::string values_refused(const Op &op, const ValuesWithin &condition);

// The range of an integer type of at most 32 bits; nullopt for other types.
std::optional<ValueRange> values_of(Type type);

// The range of the elements of an input, or of copies and paddings of it, under the assumptions.
std::optional<ValueRange> values_of(const ScheduleState &state, const std::string &tensor);

} // namespace kumiko
