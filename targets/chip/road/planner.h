// Addresses: who holds which words of the chip's memories. All of a stage's buffers live as long as the stage, so they lie one
// behind the other; the parts of a divided stage have the memories one after another.
#pragma once

#include "sim/config.h"
#include "support/error.h"

#include <array>
#include <string>
#include <vector>

namespace kumiko::chip {

enum class Bank : uint8_t { Lm, Lm0, Lm1, Grf0, Grf1, L1bm, L2bm, Dram }; // Lm: LM0 and, behind it, LM1
constexpr int memory_count = 8;
const char *memory_name(Bank m); // as levels of the machine's table: "LM0"

struct Held {
    std::string name;
    Bank memory;
    int64_t at = 0, words = 0;
};

class Planner {
public:
    explicit Planner(const sim::Config &config) : config_(config) {}

    // Throws UserError when the memory has no room: what is asked, what is there, and who has the rest.
    int64_t take(Bank memory, int64_t words, const std::string &name);
    // Gives back all but DRAM: what comes next in the program may use it again.
    void release();
    int64_t free_words(Bank memory) const { return size(memory) - taken(memory); }
    int64_t taken(Bank memory) const;
    int64_t size(Bank memory) const;
    // Words that are in use at the same time, at most, and what for.
    const std::vector<Held> &held() const { return held_; }
    std::string to_string() const;

private:
    const sim::Config &config_;
    std::vector<Held> held_;
};

// Words of a memory used in turn.
class Ring {
public:
    Ring() = default;
    Ring(int64_t at, int64_t words) : at_(at), words_(words) {}
    int64_t next(int64_t words) { // of at most words()
        if (words > words_)
            throw InternalError("a ring of " + std::to_string(words_) + " LW is asked for " + std::to_string(words));
        if (used_ + words > words_) used_ = 0;
        const int64_t here = at_ + used_;
        used_ += words;
        return here;
    }
    int64_t begin() const { return at_; }
    int64_t words() const { return words_; }

private:
    int64_t at_ = 0, words_ = 0, used_ = 0;
};

} // namespace kumiko::chip
