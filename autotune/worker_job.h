// One session's task in a worker: the op made again, and the judge of its candidates.
#pragma once

#include "autotune/local_judge.h"
#include "autotune/queue_format.h"

#include <map>
#include <mutex>

namespace kumiko {

// Schedules as they come, numbered; a point is the number.
class SavedSchedules : public Space {
public:
    SavedSchedules(Op op, Machine machine) : Space(std::move(op), std::move(machine)) {}
    Candidate add(nlohmann::json schedule);
    void remove(const Candidate &candidate);
    Point default_point() const override { return {0}; }
    Schedule schedule(const Point &point) const override;

private:
    mutable std::mutex mutex_; // the judge builds in a thread of its own
    std::map<uint32_t, nlohmann::json> saved_;
    uint32_t last_ = 0;
};

class WorkerJob {
public:
    // Makes the op and what it should compute. The task says with how many threads, and may allow less memory. `over` (null: never) tells
    // that the worker ends, and is asked in the thread that asks for answers. Throws UserError or Unsupported: why this worker cannot
    // serve the task.
    WorkerJob(const QueueTask &task, const Machine &machine, const MeasurerOptions &measurer,
              std::function<bool()> over = nullptr);

    void submit(int64_t number, const QueueItem &item);
    // Of the item that was submitted first. Requires one. Nothing when it is over.
    std::optional<QueueAnswer> next();
    // Requires that nothing is under way. Nothing when it is over.
    std::optional<QueueAnswer> compare(int64_t number, const QueueItem &item);
    void cancel();

    const std::string &op_name() const { return schedules_.op().name(); }

private:
    bool over() const { return over_ && over_(); }

    struct UnderWay {
        int64_t number;
        double best;
    };
    const CpuTarget cpu_;
    const Sizes sizes_;
    SavedSchedules schedules_;
    const std::function<bool()> over_;
    LocalJudge judge_;
    std::map<uint32_t, UnderWay> under_way_; // by point
    bool anchored_ = false;                  // by the session
    int lost_anchors_ = 0;                   // when that was so last
};

} // namespace kumiko
