// This machine with another number of cores, and the number of threads that run on it meanwhile.
#pragma once

#include "machine/machine.h"
#include "runtime/kumiko_runtime.h"

namespace kumiko {

inline Machine with_cores(Machine machine, int64_t cores) {
    for (UnitLevel &u : machine.units) {
        if (u.name == "core") u.count = cores;
    }
    return machine;
}

inline Machine host_of(int64_t cores) { return with_cores(Machine::host(), cores); }

struct Threads {
    explicit Threads(int n) { kumiko_set_num_threads(n); }
    ~Threads() { kumiko_set_num_threads(0); }
};

} // namespace kumiko
