// Micro-operations: what the compiler's parts and the generic move hand to a packer, which merges
// them into words.
//
//   MicroOp m;
//   m.word().l1 = {.op = L1Op::MabBroadcast, .width = 2, .at = {64}};
//   m.next();                                               // the next step, which reads lbf
//   m.word().mw = {.on = true, .face = 1, .from = Source::Lbf};
//
// Micro-ops are in program order. The list means what it would do if each started after all results
// of the earlier ones had arrived. A packer may reorder and merge if, for every pair in which the
// second depends on the first,
//   step(second) − step(first) ≥ min_distance(first, second)
#pragma once

#include "sim/accesses.h"

#include <atomic>
#include <optional>
#include <vector>

namespace kumiko::chip {

// What a few slots do in one step, or in consecutive steps if later ones read forwards of earlier
// ones. The part for each step is a word that contains nothing else: the fields of the slots, the
// ports with their addresses, the mask, an immediate. Everything that it reads, writes and occupies
// follows from the word (sim/accesses.h).
class MicroOp {
public:
    MicroOp() : words_(1) {}
    explicit MicroOp(sim::Word word) { words_.push_back(std::move(word)); }

    int parts() const { return int(words_.size()); }
    const sim::Word &word(int part) const { return words_[size_t(part)]; }
    // The last part.
    sim::Word &word() { return words_.back(); }
    const sim::Word &word() const { return words_.back(); }
    // Begins the part for the next step.
    MicroOp &next(sim::Word word = {}) {
        words_.push_back(std::move(word));
        return *this;
    }
    // Encode an operand of the last part (Word::read, Word::write).
    sim::Source read(const sim::Operand &operand) { return word().read(operand); }
    uint8_t write(const sim::Operand &operand) { return word().write({operand}); }

private:
    std::vector<sim::Word> words_;
};

// The minimum number of steps from `first` to `second`, which is later in program order; nullopt if
// they are independent.
//   read after write 1 + gap; write after write 1; write after read 0 (of a face 1); a move and its
//   wait 1; a wait and its dependents 0; moves as far apart as the machine issues them.
//   Forwards do not count: the parts of a micro-op express them.
std::optional<int> min_distance(const sim::Word &first, const sim::Word &second, const sim::Config &config);
std::optional<int> min_distance(const sim::Accesses &first, const sim::Accesses &second, const sim::Config &config);

// The words of a program that contains only these micro-ops, in order: each goes into the earliest
// step, not before that of its predecessor, in which its words merge and every distance is kept.
// Gaps become empty words. The generic move costs its candidates with it: it takes waits and tags
// as they are, shares ports for equal addresses, and needs no state. The packer of whole programs
// is in pack/.
std::vector<sim::Word> emit_in_order(const std::vector<MicroOp> &ops, const sim::Config &config);

// Compresses words with REPs: sequences that repeat with addresses of constant stride, at most two
// levels deep, are written once. The executed steps are the same. Throws UserError soon after *stop
// becomes true; null: never.
std::vector<sim::Word> fold(const std::vector<sim::Word> &words, const sim::Config &config,
                            const std::atomic<bool> *stop = nullptr);

// The number of cycles that the simulator counts for these words (without REPs), including moves
// and waits, computed without data.
int64_t predict_cycles(const std::vector<sim::Word> &words, const sim::Config &config);

} // namespace kumiko::chip
