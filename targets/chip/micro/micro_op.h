// Micro-operations: what the parts of the compiler hand to the packer, and what the packer puts together into words.
//
// A micro-op is what one or a few slots do in one step, as a word in which nothing else stands: the slot's fields, the ports it
// needs with their addresses, its mask, an immediate. sim::merge tells whether two fit into one word. What a micro-op reads and
// writes, and when another may follow it, comes from the word itself (`accesses`, `least_distance`), so that nobody has to
// state it twice.
//
// Micro-ops stand in program order: the list means what it would do were each started after all before it had arrived. A packer
// may reorder and merge as long as, for every pair in which the second depends on the first,
//   step(second) − step(first) ≥ least_distance(first, second)
// and every micro-op marked `follows` stands exactly one step after the one before it in the list: it reads its forward.
#pragma once

#include "sim/assembler.h"

#include <array>
#include <atomic>
#include <optional>
#include <vector>

namespace kumiko::chip {

struct MicroOp {
    sim::Word word;
    bool follows = false; // exactly one step after the micro-op before it
};

// What can be read and written. An LM counts as a whole where the machine's rule does (H2).
enum class Resource : uint8_t { Lm0, Lm1, Grf0, Grf1, T, Mask, Base, Face, L1bm, L2bm, Forward, Move };

// A range of words (entries, registers, faces, forwards by number): [begin, end).
struct Access {
    Resource resource = Resource::Lm0;
    int64_t begin = 0, end = 0;
    bool write = false;
    sim::Slot slot = sim::Slot::Control;

    bool operator==(const Access &) const = default;
};

// All accesses of a word in the first iteration of any REP around it. Addresses by T or a base register count as the whole LM.
// `Move` are the tags: a move writes its tag and a wait for it reads it. The L2BM range of a move counts in its own word, and is
// held until the wait.
std::vector<Access> accesses(const sim::Word &word, const sim::Config &config);

// The least number of steps from `first` to `second`, which comes later in program order; none when they are independent.
//   read after write 1 + gap; write after write 1; write after read 0; a move and its wait 1; a wait and what needs it 0; moves
//   apart as the machine issues them. Forwards do not count: `follows` says all about them.
std::optional<int> least_distance(const sim::Word &first, const sim::Word &second, const sim::Config &config);
std::optional<int> least_distance(const std::vector<Access> &first, const std::vector<Access> &second,
                                  const sim::Config &config);

// A simple packer: each micro-op goes into the earliest step, not before that of the one before it, in which its word merges and
// every distance is kept. Gaps become empty words. The result breaks no rule.
std::vector<sim::Word> emit_in_order(const std::vector<MicroOp> &ops, const sim::Config &config);

// The same words with REPs: stretches that repeat with addresses that move by constant strides, at most two deep, are written
// once. What runs is the same, step by step. Throws UserError soon after *stop becomes true; null: it is not looked at.
std::vector<sim::Word> fold(const std::vector<sim::Word> &words, const sim::Config &config,
                            const std::atomic<bool> *stop = nullptr);

// The cycles of a run of these words (without REPs), moves and waits included, as the simulator counts them, without its data.
int64_t predict_cycles(const std::vector<sim::Word> &words, const sim::Config &config);

} // namespace kumiko::chip
