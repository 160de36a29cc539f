// The registers of a running program, and the operations on rows of values.
#pragma once

#include "dsl/interpreter/program.h"

namespace kumiko::interpreter {

class Machine {
public:
    Machine(const Context &context, const Program &program, bool bounds);

    // Loop variables by level, from 1. For the row loop: the value of the first lane. `lanes`:
    // number of lanes in the current row.
    std::vector<int64_t> value;
    int64_t lanes = 1;

    void execute(const std::vector<Instruction> &code);

    int64_t *ints(int reg) { return reinterpret_cast<int64_t *>(place_[reg]); }
    float *floats(int reg) { return reinterpret_cast<float *>(place_[reg]); }
    double *doubles(int reg) { return reinterpret_cast<double *>(place_[reg]); }
    double *bound(int reg) { return bound_place_.empty() ? nullptr : bound_place_[reg]; }
    // Whether the register holds a row; the number of its values.
    bool row(int reg) const { return program_.registers[reg].row; }
    int64_t count(int reg) const { return row(reg) ? lanes : 1; }

    void copy_lane(int to, int from, int64_t lane); // to a uniform register
    void copy(int to, int from);                    // the whole row; a uniform source is broadcast
    void store(const Array &array, int64_t offset, int64_t stride, int reg, int64_t n);

    // A value as double, for messages and bounds.
    double lane(int reg, int64_t l);
    void throw_overflow(const Instruction &op);

private:
    const Context &context_;
    const Program &program_;
    std::vector<uint64_t> memory_;
    std::vector<uint8_t *> place_;
    std::vector<double> bound_memory_;
    std::vector<double *> bound_place_;

    int64_t evaluate(const Affine &a) const {
        int64_t v = a.constant;
        for (const auto &[level, c] : a.terms) v += c * value[level];
        return v;
    }
    int64_t row_coefficient(const Affine &a) const;
    // The lanes [first, last) in which the mask's conjuncts hold.
    std::pair<int64_t, int64_t> interval(const Mask &mask, int64_t n) const;
    // Whether the mask is true in a lane. `in`: interval() of the mask.
    bool open(const Mask &mask, int64_t lane, std::pair<int64_t, int64_t> in);
    void load(const Instruction &op);
    int64_t checked_uniform_offset(const Access &access, std::pair<int64_t, int64_t> in);
    std::vector<int64_t> lane_offsets(const Access &access, const Mask *mask, std::pair<int64_t, int64_t> in,
                                      int64_t n);
    [[noreturn]] void throw_outside(const Array &array, size_t axis, int64_t index);
    template<typename T>
    void arithmetic(const Instruction &op);
    void integers(const Instruction &op);
    void convert(const Instruction &op);
    void execute_one(const Instruction &op);
    void select(const Instruction &op);
    void compare(const Instruction &op);
    void round_row(int reg);
    void propagate(const Instruction &op); // dsl/interpreter/bounds.cpp
};

// Rounds to f16 or bf16; other types are returned unchanged.
float rounded(float x, Type t);
// Truncates to the width of the type, with wraparound.
int64_t wrapped(int64_t x, Type t);

} // namespace kumiko::interpreter
