// What values the elements of tensors may have: those of their type, or fewer where an assumption says so.
#pragma once

#include "schedules/state.h"

namespace kumiko {

struct ValueRange {
    int64_t min = 0, max = 0;
    bool within(const ValueRange &other) const { return other.min <= min && max <= other.max; }
};

inline constexpr const char *within_call_name = "kumiko.within";

// True where every element of an input lies within [min, max]: a condition for assume and specialize, for which the elements are looked
// at when the kernel is called: s.assume(within("B", -64, 64)).
Expr within(const std::string &input, int64_t min, int64_t max);

// Such a condition, and what it says; nothing for another one.
struct ValuesWithin {
    std::string input;
    ValueRange range;
};
std::optional<ValuesWithin> values_condition(const Expr &e);

// Whether some part of the condition is about values.
bool is_about_values(const Expr &condition);

// Why the elements of that input cannot be looked at; "" where they can: integers of at most 32 bits that lie one after the other.
std::string values_refused(const Op &op, const ValuesWithin &condition);

// The values of a whole number type of at most 32 bits; nothing for others.
std::optional<ValueRange> values_of(Type type);

// Those that the elements of an input, or of copies and padding of it, have at most where the conditions hold.
std::optional<ValueRange> values_of(const ScheduleState &state, const std::string &tensor);

} // namespace kumiko
