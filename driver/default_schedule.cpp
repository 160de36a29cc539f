#include "driver/default_schedule.h"

namespace kumiko {

Schedule default_schedule(const Op &op, const Machine &machine) { return Schedule(op, machine); }

} // namespace kumiko
