#include "driver/target.h"

namespace kumiko {

Target Target::host() { return {Machine::host(), CpuTarget::host()}; }

Target Target::named(const std::string &name) {
    if (name == "host") return host();
    return {Machine::named(name), CpuTarget::level(name)};
}

} // namespace kumiko
