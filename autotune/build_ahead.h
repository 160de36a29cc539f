// Builds a batch of candidates on a thread of its own, a little ahead of whoever measures them.
#pragma once

#include "autotune/build.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace kumiko {

class BuildAhead {
public:
    // With `overlap` false nothing is built while the caller measures: for kernels that use every core.
    BuildAhead(const Space &space, const CpuTarget &target, std::vector<Candidate> batch, bool overlap);
    ~BuildAhead(); // leaves out what is not begun

    // The next one, built, in the order given; nothing after the last.
    std::optional<Candidate> next();

private:
    static constexpr size_t ahead = 3;

    const Space &space_;
    const CpuTarget &target_;
    std::deque<Candidate> waiting_, done_;
    size_t left_; // not yet returned by next()
    bool stopping_ = false;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::thread thread_;
};

} // namespace kumiko
