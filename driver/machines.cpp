#include "driver/machines.h"

#include "support/error.h"
#include "support/names.h"
#include "targets/chip/compile.h"

namespace kumiko {

std::vector<std::string> machine_names() {
    std::vector<std::string> names = Machine::names();
    for (const std::string &n : sim::Config::names()) names.push_back("chip:" + n);
    return names;
}

Machine machine_named(const std::string &name) {
    if (is_chip(name)) return chip_machine(chip_config(name));
    try {
        return Machine::named(name);
    } catch (const UserError &) {
        throw UserError("unknown machine '" + name + "'" + suggest(name, machine_names()));
    }
}

} // namespace kumiko
