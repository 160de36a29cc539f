// Micro-operations: the unit of exchange between parts of the compiler and the packer, which merges
// them into words.
//
// A micro-op is what one or a few slots do in one step, represented as a word with nothing else in
// it: the slot's fields, the ports it uses with their addresses, its mask, an immediate. sim::merge
// decides whether two fit into one word. The reads and writes of a micro-op, and the distance to a
// later one, are derived from the word itself (`accesses`, `least_distance`), so they are stated
// once.
//
// Micro-ops are in program order. The list means what it would do if each started after all results
// of the earlier ones had arrived. A packer may reorder and merge if, for every pair in which the
// second depends on the first,
//   step(second) − step(first) ≥ least_distance(first, second)
// and every micro-op marked `follows` is exactly one step after the one before it in the list,
// whose forward it reads.
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

// The resources that can be read and written. An LM counts as a whole if the machine's rule does
// (H2).
enum class Resource : uint8_t { Lm0, Lm1, Grf0, Grf1, T, Mask, Base, Face, L1bm, L2bm, Forward, Move };

// A range [begin, end) of words (or of entries, registers, faces, forwards by number).
struct Access {
    Resource resource = Resource::Lm0;
    int64_t begin = 0, end = 0;
    bool write = false;
    sim::Slot slot = sim::Slot::Control;

    bool operator==(const Access &) const = default;
};

// All accesses of a word in the first iteration of any enclosing REP. Addresses by T or a base
// register count as the whole LM. `Move` stands for the tags: a move writes its tag and a wait for
// it reads it. The L2BM range of a move is an access of its own word, and is occupied until the
// wait.
std::vector<Access> accesses(const sim::Word &word, const sim::Config &config);

// The minimum number of steps from `first` to `second`, which is later in program order; nullopt if
// they are independent.
//   read after write 1 + gap; write after write 1; write after read 0; a move and its wait 1;
//   a wait and its dependents 0; moves as far apart as the machine issues them.
//   Forwards do not count: `follows` expresses them.
std::optional<int> least_distance(const sim::Word &first, const sim::Word &second, const sim::Config &config);
std::optional<int> least_distance(const std::vector<Access> &first, const std::vector<Access> &second,
                                  const sim::Config &config);

// A simple in-order packer: each micro-op goes into the earliest step, not before that of its
// predecessor, in which its word merges and every distance is kept. Gaps become empty words. The
// result violates no hazard rule.
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
