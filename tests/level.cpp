// --level=LEVEL of test programs that generate code: the test runs as on a processor that has no
// more than the level has (limit_features). It is skipped where this processor lacks something of
// the level.
#include "tests/level.h"

#include "targets/cpu/cpu_target.h"

namespace kumiko {

std::string limit_level(const std::string &level) {
    const std::string missing = CpuTarget::level(level).missing_on(CpuTarget::host());
    if (!missing.empty()) return "this processor has no " + missing;
    limit_features(level);
    at_lesser_level() = true;
    return "";
}

} // namespace kumiko
