// Programs of elements as operations of the packer: four words of each PE at a time, one in each cycle of a step.
//
// Where a word has four elements, values of 32 bits take two words, side by side: the n-th cycle's at 2n and 2n + 1 ("parts"). Operations of
// fp32 then go part by part, widening and narrowing and the MAU's fp16 operations take both at once. Intermediate values stand in
// GRF0 and GRF1, so that those that meet in an operation stand in different ones where that can be.
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

// The operand so many words further on.
sim::Operand next_word(sim::Operand o, int words);
// Words of each PE from an operand to another, `width` LW a cycle.
void pass(Packer &packer, const sim::Operand &from, const sim::Operand &to, int width);

class VectorEmitter {
public:
    // Where the four words of a read stand, of that part.
    using Read = std::function<sim::Operand(int which, int part)>;
    using Place = std::function<sim::Operand(int part)>;

    // `four`: a word has four elements, not two. `masks`: the first of the mask entries, up to 15, that comparisons may use.
    VectorEmitter(Packer &packer, std::string who, std::array<RegisterRange, 2> registers, bool four,
                  int first_mask = 1);

    // 1, or 2: words of a value of that type.
    int parts(sim::Type type) const { return four_ && bits_of(type) == 32 ? 2 : 1; }
    // Places all of the program, its result at `to`; a result of two parts stands side by side there.
    void run(const VectorProgram &program, const Read &read, const Place &to);
    // Places all but the last operation, of a result of one part, and returns that, without a destination.
    Micro run_to_last(const VectorProgram &program, const Read &read);
    // Where it leaves its result for the next step.
    static sim::Source forward(const Micro &last);

    // Registers for four words of that many parts, until they are given back.
    sim::Operand take(int parts, int bank);
    void give_back(const sim::Operand &registers);
    int room(int bank) const { return int(free_[size_t(bank)].size()); } // how often take still gives some there

private:
    struct Value {
        std::optional<sim::Operand> at; // of part 0
        std::optional<sim::Operand> copy;
        std::array<int, 2> masks{-1, -1};
        int uses = 0;
    };
    struct Planned { // what is known of a program before it runs
        VectorProgram program;
        std::vector<int> bank, uses, choices; // by operation; choices: uses as a condition
    };
    Packer &packer_;
    std::string who_;
    bool four_;
    std::array<std::deque<int>, 2> free_;
    std::deque<int> free_masks_;
    std::map<std::pair<uint64_t, int>, sim::Operand> constants_; // that could not be immediates; by bits and bank
    std::unordered_map<size_t, std::deque<Planned>> planned_;    // by a hash of their operations

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
    // The operation, or one part of it; `both`: both parts at once.
    Micro make(Id id, int part, bool both);
    void finish(Id id);
    sim::Operand operand(Id id, int part) const;
    sim::Operand constant(uint64_t bits, int bank);
    bool whole(Id id) const; // makes both parts at once whatever its operands
};

} // namespace kumiko::chip
