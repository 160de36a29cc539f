#include "driver/default_schedule.h"

#include "schedules/library/table.h"

namespace kumiko {

Schedule default_schedule(const Op &op, const Machine &machine, PackedBy packed_by) {
    const auto space = library::space_of(op, machine, packed_by);
    return space->schedule(space->default_point());
}

} // namespace kumiko
