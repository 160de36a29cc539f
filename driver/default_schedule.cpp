#include "driver/default_schedule.h"

#include "schedules/library/table.h"

namespace kumiko {

Schedule default_schedule(const Op &op, const Machine &machine, PackedBy packed_by) {
    const LibraryTemplate *t = library::find_template(op, machine, packed_by);
    const auto space = t->make_space(op, machine, packed_by); // the last template takes any op
    return space->schedule(space->default_point());
}

} // namespace kumiko
