// Multiplication strategies: how a machine multiplies elements of two types into a sum, in the
// sum's own type or by a tensor instruction that adds several products at once.
#pragma once

#include "schedules/library/structure.h"
#include "schedules/values.h"

namespace kumiko::library {

struct Product {
    std::string instruction; // "": multiplications in the sum's type
    Type a, b;               // types in which the operands are read: their own, or wider ones
    int group = 1;           // steps of the reduction taken at once
    int lanes = 1;           // neighbouring results computed at once
    int rows = 1;            // rows of results computed at once
    int groups = 1;          // groups of steps taken at once
    int64_t offset = 0;      // added to the rows' operand, so that type `a` holds it
    bool tiles() const { return rows > 1; }
    // Whether a copy of an operand of these types converts it.
    bool holds(Type of_a, Type of_b) const { return a != of_a || b != of_b; }
};

// Names of the multiplication strategies that apply, best first: machine instructions that are
// exact for all values of the types; "widened" (operands narrower than the sum are converted by
// their copies); "plain". `a` and `b`: operands of the rows and of the columns. `rewritten`: a
// number may be added to the rows' operand (offset), and the caller provides enough steps (extend)
// and rows.
std::vector<std::string> multiply_strategies(const Contraction &c, const Op &op, const Operand &a, const Operand &b,
                                             const Machine &machine, bool rewritten = false);
// The product for one of these names.
Product product(const std::string &strategy, const Contraction &c, const Op &op, const Operand &a, const Operand &b,
                const Machine &machine);

// An instruction that takes more steps at once than the best strategy, but is exact only while an
// input's values are in a small range; nothing if there is none.
struct NarrowStrategy {
    std::string instruction;
    ValuesWithin needs;
};
std::optional<NarrowStrategy> narrow_strategy(const Contraction &c, const Op &op, const Operand &a, const Operand &b,
                                              const Machine &machine, bool rewritten = false);

} // namespace kumiko::library
