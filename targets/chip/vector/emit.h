// Emits element programs as packer operations: four words of each PE at a time, one in each cycle
// of a step.
//
// If a word has four elements, a 32-bit value takes two adjacent words ("parts"): cycle n uses 2n
// and 2n + 1. fp32 operations are emitted part by part; widening, narrowing and the MAU's fp16
// operations process both parts at once. Intermediate values are allocated in GRF0 and GRF1;
// operands of one operation are in different GRFs if possible.
#pragma once

#include "targets/chip/pack/packer.h"
#include "targets/chip/vector/program.h"

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>

namespace kumiko::chip {

struct RegisterRange {
    int at = 0, words = 0;
};

// The operand `words` words later.
sim::Operand next_word(sim::Operand o, int words);
// Copies words of each PE from one operand to another, `width` LW per cycle.
void pass(Packer &packer, const sim::Operand &from, const sim::Operand &to, int width);

class VectorEmitter {
public:
    // The location of the four words of a part of a read.
    using Read = std::function<sim::Operand(int which, int part)>;
    using Place = std::function<sim::Operand(int part)>;

    // `four`: a word has four elements instead of two. Comparisons may use the mask entries from
    // `first_mask` to 15.
    VectorEmitter(Packer &packer, std::string who, std::array<RegisterRange, 2> registers, bool four,
                  int first_mask = 1);

    // The number of words (1 or 2) of a value of that type.
    int parts(sim::Type type) const { return four_ && bits_of(type) == 32 ? 2 : 1; }
    // Places the whole program with its result at `to`; the parts of a two-part result are adjacent
    // there.
    void run(const VectorProgram &program, const Read &read, const Place &to);
    // Places all but the last operation of a program with a one-part result; returns that operation
    // without a destination.
    MicroOp run_to_last(const VectorProgram &program, const Read &read);
    // The forward by which it makes its result available to the next step.
    static sim::Source forward(const MicroOp &last);

    // Allocates registers for four words of that many parts until give_back.
    sim::Operand take(int parts, int bank);
    void give_back(const sim::Operand &registers);
    // The number of such allocations left.
    int room(int bank) const { return int(free_[size_t(bank)].size()); }

private:
    struct Value {
        std::optional<sim::Operand> at; // of part 0
        std::optional<sim::Operand> copy;
        std::array<int, 2> masks{-1, -1};
        int uses = 0;
    };
    struct Planned { // analysis of a program before it runs
        VectorProgram program;
        std::vector<int> bank, uses, choices; // by operation; choices: uses as a condition
    };
    Packer &packer_;
    std::string who_;
    bool four_;
    std::array<std::deque<int>, 2> free_;
    std::deque<int> free_masks_;
    // Constants that could not be immediates, by bits and bank.
    std::map<std::pair<uint64_t, int>, sim::Operand> constants_;
    std::unordered_map<size_t, std::deque<Planned>> planned_; // by a hash of their operations

    const Planned *plan_ = nullptr; // of the program that runs
    const Read *read_ = nullptr;
    std::vector<Value> values_;

    const Planned &planned(const VectorProgram &program);
    void run_all(const VectorProgram &program, const Read &read);
    void place(Id id, const Place *to);
    bool shares_port(Id id, const sim::Operand &to) const;
    struct From { // an operand of an operation
        Id id;
        sim::Operand at;
        int width;
    };
    static int free_bank(const std::vector<From> &from, const From &but);
    sim::Operand copied(Id id, int part, int width, int bank);
    // The operation or one part of it; `both`: both parts at once.
    MicroOp make(Id id, int part, bool both);
    void finish(Id id);
    sim::Operand operand(Id id, int part) const;
    sim::Operand constant(uint64_t bits, int bank);
    bool whole(Id id) const; // whether it always produces both parts at once
};

} // namespace kumiko::chip
