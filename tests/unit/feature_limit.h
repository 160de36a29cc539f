// This process under a limit of processor features, for the lifetime of an object.
#pragma once

#include "targets/cpu/cpu_target.h"

#include <string>

namespace kumiko {

struct Limit {
    explicit Limit(const std::string &level) { limit_features(level); }
    ~Limit() { limit_features("host"); }
    Limit(const Limit &) = delete;
    Limit &operator=(const Limit &) = delete;
};

// Whether this processor runs code for the level.
inline bool here(const std::string &level) { return CpuTarget::level(level).missing_on(CpuTarget::host()).empty(); }

} // namespace kumiko
