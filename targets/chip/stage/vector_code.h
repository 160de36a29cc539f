// Expressions as operations of vectors: the MAU's vector mode for sums and products of floats, the ALU for the rest. A value is four
// words, one of each cycle of a step, in each PE.
#pragma once

#include "targets/chip/stage/context.h"

namespace kumiko::chip {

class VectorCode {
public:
    // Where the four words of a read stand. Given a cast of a read where the widths differ.
    using Read = std::function<sim::Operand(const Expr &read)>;

    // `who`: for errors. `registers`: words of GRF0 and of GRF1 for intermediate values, at least eight of each.
    VectorCode(Context &c, std::string who, std::array<Ring, 2> registers, Read read)
        : c_(c), who_(std::move(who)), registers_(registers), read_(std::move(read)) {}

    struct Value {
        kumiko::Type type;
        bool there = false; // at `at`; else `op` makes it of `from`
        sim::Operand at;
        Expr op;
        std::vector<sim::Operand> from;
    };
    // Places all operations but the last. Throws Unsupported for what is not built.
    Value evaluate(const Expr &e);
    // The last one, or a copy of a value that is there; without a destination.
    Micro last(const Value &v) const;
    // Where `last` leaves its result for the next step.
    static sim::Source forward(const Micro &last);
    // Places the last operation, into registers or into `to`; returns where.
    sim::Operand stored(const Value &v);
    void store(const Value &v, const sim::Operand &to);
    // A run of registers in GRF1 or GRF0, in turn or as asked (0, 1).
    sim::Operand registers(int words, int stride, int bank = -1);

    static sim::Type alu_type(kumiko::Type t, const std::string &who);

private:
    Context &c_;
    std::string who_;
    std::array<Ring, 2> registers_;
    int next_ = 0;
    std::array<int64_t, 2> taken_{}; // words of each, ever
    Read read_;
    sim::Operand moved(const sim::Operand &from, kumiko::Type type, int bank);
};

} // namespace kumiko::chip
