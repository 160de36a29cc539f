#include "targets/chip/transfer/planner.h"

#include "support/error.h"

#include <algorithm>
#include <fmt/format.h>

namespace kumiko::chip {

const char *memory_name(Bank m) {
    constexpr const char *names[] = {"LM", "LM0", "LM1", "GRF0", "GRF1", "L1BM", "L2BM", "DRAM"};
    return names[int(m)];
}

int64_t Planner::size(Bank m) const {
    switch (m) {
    case Bank::Lm:
        return 2 * config_.sizes.lm;
    case Bank::Lm0:
    case Bank::Lm1:
        return config_.sizes.lm;
    case Bank::Grf0:
    case Bank::Grf1:
        return config_.sizes.grf;
    case Bank::L1bm:
        return config_.sizes.l1bm;
    case Bank::L2bm:
        return config_.sizes.l2bm;
    case Bank::Dram:
        return config_.sizes.dram;
    }
    return 0;
}

namespace {

// LM0 and LM1 are parts of LM.
bool shares(Bank a, Bank b) {
    const auto lm = [](Bank m) { return m == Bank::Lm || m == Bank::Lm0 || m == Bank::Lm1; };
    return a == b || (lm(a) && lm(b) && (a == Bank::Lm || b == Bank::Lm));
}

} // namespace

int64_t Planner::taken(Bank m) const {
    // LM0 and LM1 are numbered consecutively.
    const auto begin = [&](Bank b) { return b == Bank::Lm1 ? config_.sizes.lm : 0; };
    int64_t n = 0;
    for (const Held &h : held_) {
        if (!shares(h.memory, m)) continue;
        const int64_t from = begin(h.memory) + h.at;
        n += std::max<int64_t>(0, std::min(from + h.words, begin(m) + size(m)) - std::max(from, begin(m)));
    }
    return n;
}

int64_t Planner::take(Bank m, int64_t words, const std::string &name) {
    // LM0 and LM1 are numbered consecutively. Find the first free place at the end of an
    // allocation.
    const auto begin = [&](Bank b) { return b == Bank::Lm1 ? config_.sizes.lm : 0; };
    const int64_t first = begin(m);
    int64_t at = first;
    for (bool moved = true; moved;) {
        moved = false;
        for (const Held &h : held_) {
            const int64_t from = begin(h.memory) + h.at;
            if (!shares(h.memory, m) || from >= at + words || from + h.words <= at) continue;
            at = from + h.words;
            moved = true;
        }
    }
    if (at + words > first + size(m)) {
        std::string others;
        for (const Held &h : held_) {
            if (shares(h.memory, m)) others += fmt::format("{}{} {}", others.empty() ? "" : ", ", h.name, h.words);
        }
        throw UserError(fmt::format(
            "{} needs {} LW of {}, which has {}{}; {}", name, words, memory_name(m), size(m),
            others.empty() ? "" : fmt::format(", {} of them free ({})", std::max<int64_t>(0, free_words(m)), others),
            m == Bank::Dram ? "smaller tensors would fit" : "smaller tiles, a loop further in, or a larger level"));
    }
    held_.push_back({name, m, at - first, words});
    return at - first;
}

void Planner::release() {
    std::erase_if(held_, [](const Held &h) { return h.memory != Bank::Dram; });
}

std::string Planner::to_string() const {
    std::string text;
    for (int m = 0; m < bank_count; m++) {
        bool first = true;
        for (const Held &h : held_) {
            if (int(h.memory) != m) continue;
            if (first) text += fmt::format("{}: {} of {} LW\n", memory_name(Bank(m)), taken(Bank(m)), size(Bank(m)));
            first = false;
            text += fmt::format("  {:>8}..{:<8} {}\n", h.at, h.at + h.words - 1, h.name);
        }
    }
    return text;
}

} // namespace kumiko::chip
