// A nest as a tree of loops with the work directly in each body. Features and estimates are counted
// on it.
#pragma once

#include "autotune/features/affine.h"
#include "machine/machine.h"
#include "targets/lower/nest.h"

#include <vector>

namespace kumiko {

// The work of one iteration of a loop. Inner loops do not count. Operations are counted in
// slots: one instruction issued on one vector register. A vector of two registers takes two slots,
// a scalar one.
struct BodyWork {
    double multiply_adds = 0, adds = 0, multiplies = 0;
    double divisions = 0, functions = 0; // divisions include square roots; functions: exp, tanh, …
    double conversions = 0, selections = 0, shuffles = 0;
    double instructions = 0; // tensor instructions
    double flops = 0;        // over all lanes; an FMA counts as two
    double scalar = 0;       // the part of the slots above that uses one lane
    double loads = 0, broadcasts = 0, masked_loads = 0,
           gathered_lanes = 0; // from memory; includes strides above 4
    double stores = 0, masked_stores = 0, scattered_lanes = 0, streamed_stores = 0;
    double register_reads = 0, register_writes = 0; // of allocations in registers
    double branches = 0, prefetches = 0;

    void add(const BodyWork &other, double times);
    double arithmetic() const; // slots of the multiplying units
};

// Accesses of one array in one loop body that differ by a constant.
struct Access {
    std::string array;
    bool store = false;
    bool known = true;           // false: the address is data-dependent
    Affine index;                // of the first access, in elements
    double lowest = 0, past = 0; // half-open range of elements
    double elements = 0;         // number of distinct elements, at most
    double times = 0;            // accesses per iteration, weighted by conditions
    int bytes = 0;               // per element
    std::vector<double> constants;
};

struct LoopNode {
    std::string name;
    int parent = -1;
    double extent = 1;
    double trips = 1; // total number of iterations over all runs
    double runs = 1;
    bool parallel = false;
    BodyWork work;
    std::vector<Access> accesses;
    std::vector<int> children;
    double chain = 0;        // longest chain of updates of one accumulator per iteration
    double accumulators = 0; // registers that the body updates
};

struct ArrayInfo {
    int bytes = 0;          // per element
    double size = 0;        // in elements; 0: unknown
    bool internal = false;  // an allocation of the kernel
    bool registers = false; // in registers
};

struct LoopTree {
    // The first is the whole nest, with one iteration; parents precede children.
    std::vector<LoopNode> loops;
    std::map<std::string, ArrayInfo> arrays;
    double register_slots = 0; // peak number of registers held by allocations
    double workspace = 0;      // bytes of allocations in memory
};

// A loop whose extent depends on other loop variables gets its extent at the middle of their
// ranges. Unrolled loops that remain in the nest (LowerOptions::to_count) count as their copies.
LoopTree read_loops(const Nest &nest, const Machine &machine, const Sizes &sizes);

} // namespace kumiko
