// A nest as a tree of loops, each with the work that stands directly in it: what features and estimates are counted from.
#pragma once

#include "autotune/features/affine.h"
#include "machine/machine.h"
#include "targets/lower/nest.h"

#include <vector>

namespace kumiko {

// What one iteration of a loop does by itself, not in loops inside. Operations are counted in slots: instructions that begin
// on one vector register, so that a vector of two registers takes two, and a scalar one.
struct BodyWork {
    double multiply_adds = 0, adds = 0, multiplies = 0;
    double divisions = 0, functions = 0; // square roots count with divisions; functions are exp, tanh, …
    double conversions = 0, selections = 0, shuffles = 0;
    double instructions = 0; // tensor instructions
    double flops = 0;        // arithmetic of all lanes; multiply and add count two
    double scalar = 0;       // of the slots above, those that use one lane
    double loads = 0, broadcasts = 0, masked_loads = 0,
           gathered_lanes = 0; // from memory; gathers also strides of above 4
    double stores = 0, masked_stores = 0, scattered_lanes = 0, streamed_stores = 0;
    double register_reads = 0, register_writes = 0; // of allocations in registers
    double branches = 0, prefetches = 0;

    void add(const BodyWork &other, double times);
    double arithmetic() const; // slots of the units that multiply
};

// Accesses of one array that differ by a constant, all by one loop's body.
struct Access {
    std::string array;
    bool store = false;
    bool known = true;           // false: where depends on what memory holds
    Affine index;                // of the first, in elements
    double lowest = 0, past = 0; // the elements between the least and the greatest
    double elements = 0;         // different ones, at most
    double times = 0;            // accesses in one iteration, conditions considered
    int bytes = 0;               // of an element
    std::vector<double> constants;
};

struct LoopNode {
    std::string name;
    int parent = -1;
    double extent = 1;
    double trips = 1; // iterations in all, of this loop in every run of it
    double runs = 1;
    bool parallel = false;
    BodyWork work;
    std::vector<Access> accesses;
    std::vector<int> children;
    double chain = 0;        // the most updates of one accumulator in one iteration
    double accumulators = 0; // registers that the body updates
};

struct ArrayInfo {
    int bytes = 0;          // of an element
    double size = 0;        // elements, 0: unknown
    bool internal = false;  // an allocation
    bool registers = false; // in registers
};

struct LoopTree {
    std::vector<LoopNode> loops; // the first is the whole nest, one iteration; parents come before children
    std::map<std::string, ArrayInfo> arrays;
    double register_slots = 0; // the most registers that allocations in registers hold at one time
    double workspace = 0;      // bytes of allocations in memory
};

// Loops whose extent depends on others' variables have the one in the middle of their range. Unrolled loops that the nest still has
// (LowerOptions::to_count) count as their copies.
LoopTree read_loops(const Nest &nest, const Machine &machine, const Sizes &sizes);

} // namespace kumiko
