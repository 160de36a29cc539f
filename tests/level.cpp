// --level=LEVEL of test programs that generate code: the test runs as on a processor with only the
// level's features (limit_features). It is skipped if this processor lacks a feature of the level.
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
