// What of a stage decides which elements its loops touch: how the loops were made, their order, and the stage's expressions. An answer
// that depends on nothing else stays true while this stays the same, whatever becomes of other stages or of the kinds of loops.
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
    std::vector<Expr> expressions_; // compared as nodes
    void add(const StageState &stage);
};

// The last answer about one stage, kept by an obligation, of which the states that follow each other share one.
template<typename T>
class LastAnswer {
public:
    template<typename Ask>
    T of(const LoopGeometry &geometry, const Ask &ask) const {
        const std::lock_guard lock(kept_->mutex);
        if (!kept_->last || !(kept_->last->first == geometry)) kept_->last.emplace(geometry, ask());
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
