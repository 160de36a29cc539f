// Time of one pass of the lowering.
#pragma once

#include <string>

namespace kumiko {

// Name and time of one pass.
struct PassReport {
    std::string name;
    double milliseconds = 0;
};

} // namespace kumiko
