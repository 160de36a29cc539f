#include "autotune/record.h"

namespace kumiko {

Schedule Record::schedule(const Op &op) const {
    if (saved_schedule.is_null())
        throw UserError("this record of " + key.op + " has no schedule: " + outcome_name(outcome) + ", " + reason);
    return Schedule::from_json(op, machine, saved_schedule);
}

} // namespace kumiko
