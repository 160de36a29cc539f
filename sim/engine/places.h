// The memory, forward and port of each source.
#pragma once

#include "sim/engine/plan.h"

namespace kumiko::sim {

constexpr const char *memory_names[5] = {"LM0", "LM1", "GRF0", "GRF1", "T"};

inline const Port &port_of(const Word &w, int index) {
    const Port *ports[port_count] = {&w.lm0, &w.lm1, &w.grf0_read, &w.grf1_read, &w.grf0_write, &w.grf1_write};
    return *ports[index];
}

// −1: none.
inline int memory_of(Source s) {
    return s == Source::Lm0    ? 0
           : s == Source::Lm1  ? 1
           : s == Source::Grf0 ? 2
           : s == Source::Grf1 ? 3
           : s == Source::T    ? 4
                               : -1;
}
inline int forward_of(Source s) {
    return s == Source::Aluf ? 0 : s == Source::Mauf ? 1 : s == Source::Lbf ? 2 : s == Source::Mreadf ? 3 : -1;
}
inline int read_port_of(int memory) { return memory == 2 ? PortGrf0Read : memory == 3 ? PortGrf1Read : memory; }
inline int write_port_of(int memory) { return memory == 2 ? PortGrf0Write : memory == 3 ? PortGrf1Write : memory; }

} // namespace kumiko::sim
