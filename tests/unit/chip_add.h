// A sum of two tensors, with its elements distributed over the chip.
#pragma once

#include "dsl/op.h"
#include "dsl/types.h"
#include "schedules/schedule.h"
#include "sim/config.h"

namespace kumiko {

inline Op add(Type t, int n) {
    Axis i("i", n);
    Tensor A = input("A", t, {i}), B = input("B", t, {i});
    return Op("add", {A, B}, {compute("C", {i}, A(i) + B(i))});
}

// Distributes axis i over the PEs: lanes, addresses, units, tiles.
inline void deal(StageHandle C, const sim::Config &config, int lanes, int words) {
    C.split("i", lanes, {"io", "lane"});
    C.split("io", sim::pes_per_mab, {"im", "pe"});
    C.split("im", config.mabs, {"il1", "mab"});
    C.split("il1", config.l1bs, {"il2", "l1b"});
    C.split("il2", config.l2bs, {"ig", "l2b"});
    C.split("ig", config.groups, {"it", "group"});
    C.split("it", words, {"tile", "word"});
    C.reorder({"tile", "group", "l2b", "l1b", "mab", "pe", "word", "lane"});
    C.bind("group", "group").bind("l2b", "L2B").bind("l1b", "L1B").bind("mab", "MAB").bind("pe", "PE");
    C.vectorize("lane");
}

} // namespace kumiko
