#include "autotune/record.h"

#include "support/json.h"

#include <string_view>

namespace kumiko {

namespace {

constexpr std::string_view cold_text = ", caches cold", ahead_text = ", weights packed ahead";

// Removes the suffix; returns whether it was present.
bool take_end(std::string &text, std::string_view end) {
    if (!text.ends_with(end)) return false;
    text.resize(text.size() - end.size());
    return true;
}

} // namespace

std::string KeyMachine::conditions() const {
    return std::string(cold ? cold_text : "") + std::string(ahead ? ahead_text : "");
}

KeyMachine KeyMachine::parse(std::string text) {
    KeyMachine m;
    m.ahead = take_end(text, ahead_text);
    m.cold = take_end(text, cold_text);
    m.id = std::move(text);
    return m;
}

Schedule Record::schedule(const Op &op) const {
    if (saved_schedule->is_null())
        throw UserError("this record of " + key.op + " has no schedule: " + outcome_name(outcome) + ", " + reason);
    return Schedule::from_json(op, machine, saved_schedule);
}

} // namespace kumiko
