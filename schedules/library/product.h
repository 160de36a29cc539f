// How a machine multiplies elements of two types into a sum: in the sum's own type, or by a tensor instruction that adds several
// products at once.
#pragma once

#include "schedules/library/structure.h"
#include "schedules/values.h"

namespace kumiko::library {

struct Product {
    std::string instruction; // "": multiplications in the sum's type
    Type a, b;               // in which the operands are read: their own, or one that has all their values
    int group = 1;           // steps of the reduction that are taken at once
    int lanes = 1;           // neighbouring results that are computed at once
    int rows = 1;            // rows of results that are computed at once
    int groups = 1;          // groups of steps that are taken at once
    int64_t offset = 0;      // added to the rows' operand, so that `a` holds it
    bool tiles() const { return rows > 1; }
    bool holds(Type of_a, Type of_b) const { return a != of_a || b != of_b; } // some copy is in another type
};

// The ways by name, the best first: instructions that the machine has and that are exact for all values of the types, "widened" (copies hold the sum's type) where the operands
// are narrower, "plain". `a` and `b`: operands of the rows and of the columns. `rewritten`: the rows' operand may have
// a number added (offset), and the caller sees to it that there are steps (extend) and rows enough.
std::vector<std::string> product_ways(const Contraction &c, const Op &op, const Operand &a, const Operand &b,
                                      const Machine &machine, bool rewritten = false);
// One of them.
Product product(const std::string &way, const Contraction &c, const Op &op, const Operand &a, const Operand &b,
                const Machine &machine);

// An instruction that takes more steps at once than the best of all ways, but is exact only while the values of an input are few; nothing
// where there is none.
struct NarrowWay {
    std::string instruction;
    ValuesWithin needs;
};
std::optional<NarrowWay> narrow_way(const Contraction &c, const Op &op, const Operand &a, const Operand &b,
                                    const Machine &machine, bool rewritten = false);

} // namespace kumiko::library
