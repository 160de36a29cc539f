// What decides which elements a stage's loops touch: how the loops were made, their order, the stage's expressions, and what is assumed
// of the sizes. An answer that depends on nothing else stays true while this stays the same, whatever becomes of other stages or of the kinds of loops.
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

// The last answer about one stage, kept by an obligation. States share it that follow each other, and those of a schedule's copies, which
// go different ways.
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
