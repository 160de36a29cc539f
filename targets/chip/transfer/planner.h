// Allocates addresses in the chip's memories. All buffers of a stage live as long as the stage, so
// they are placed one after the other; the parts of a divided stage reuse the memories one after
// the other.
#pragma once

#include "sim/config.h"
#include "support/error.h"

#include <array>
#include <string>
#include <vector>

namespace kumiko::chip {

// Lm: LM0 followed by LM1.
enum class Bank : uint8_t { Lm, Lm0, Lm1, Grf0, Grf1, L1bm, L2bm, Dram };
constexpr int bank_count = 8;
const char *memory_name(Bank m); // as levels of the machine table: "LM0"

struct Held {
    std::string name;
    Bank memory;
    int64_t at = 0, words = 0;
};

class Planner {
public:
    explicit Planner(const sim::Config &config) : config_(config) {}

    // Returns the address of `words` LW. Throws UserError if the memory is full; the message states
    // the request, the free space and the other buffers.
    int64_t take(Bank memory, int64_t words, const std::string &name);
    // Frees everything but DRAM for the next part of the program.
    void release();
    int64_t free_words(Bank memory) const { return size(memory) - taken(memory); }
    int64_t taken(Bank memory) const;
    int64_t size(Bank memory) const;
    // Buffers that are live at the same time, at most, and their purpose.
    const std::vector<Held> &held() const { return held_; }
    std::string to_string() const;

private:
    const sim::Config &config_;
    std::vector<Held> held_;
};

// A ring buffer in a memory.
class Ring {
public:
    Ring() = default;
    Ring(int64_t at, int64_t words) : at_(at), words_(words) {}
    int64_t next(int64_t words) { // at most words()
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
