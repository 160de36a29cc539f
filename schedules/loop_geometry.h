// Everything that determines which elements the loops of a stage touch: how its loops were made,
// their order, its expressions, and the assumptions on sizes. A result that depends only on these
// stays valid while they are unchanged, whatever happens to other stages or to loop kinds.
#pragma once

#include "schedules/state.h"

#include <mutex>

namespace kumiko {

class LoopGeometry {
public:
    LoopGeometry(const ScheduleState &state, const StageState &stage);
    bool operator==(const LoopGeometry &other) const;

private:
    std::vector<std::string> names_;
    std::vector<int64_t> numbers_;
    std::vector<Expr> expressions_; // compared by node identity
    void add(const StageState &stage);
};

// A one-entry cache of an obligation's result for one stage. Successive states of a schedule share
// it, and so do copies of the schedule, which may diverge. Thread-safe.
template<typename T>
class LastAnswer {
public:
    // The result for this geometry: the cached one, or compute(), which is then cached.
    template<typename Compute>
    T get_or_compute(const LoopGeometry &geometry, const Compute &compute) const {
        const std::lock_guard lock(kept_->mutex);
        if (!kept_->last || !(kept_->last->first == geometry)) kept_->last.emplace(geometry, compute());
        return kept_->last->second;
    }

private:
    struct Kept {
        std::mutex mutex;
        std::optional<std::pair<LoopGeometry, T>> last;
    };
    std::shared_ptr<Kept> kept_ = std::make_shared<Kept>();
};

} // namespace kumiko
