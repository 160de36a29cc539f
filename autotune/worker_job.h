// One session's task in a worker: the reconstructed op, and the runner of its candidates.
#pragma once

#include "autotune/local_runner.h"
#include "autotune/queue_format.h"

#include <map>
#include <mutex>

namespace kumiko {

// A space of saved schedules; a point is the number of one.
class SavedSchedules : public Space {
public:
    SavedSchedules(Op op, Machine machine) : Space(std::move(op), std::move(machine)) {}
    Candidate add(nlohmann::json schedule);
    void remove(const Candidate &candidate);
    Point default_point() const override { return {0}; }
    Schedule schedule(const Point &point) const override;

private:
    mutable std::mutex mutex_; // the runner builds in a separate thread
    std::map<uint32_t, nlohmann::json> saved_;
    uint32_t last_ = 0;
};

class WorkerJob {
public:
    // Constructs the op and its expected results. The task sets the number of threads, and may
    // lower the memory limit. `over` (may be null) returns true when the worker ends; it is called
    // in the thread that waits for answers. Throws UserError or Unsupported if this worker cannot
    // serve the task.
    WorkerJob(const QueueTask &task, const Machine &machine, const MeasurerOptions &measurer,
              std::function<bool()> over = nullptr);

    void submit(int64_t number, const QueueItem &item);
    // The answer for the item submitted first. Requires one. nullopt when `over` is true.
    std::optional<QueueAnswer> next();
    // Requires that nothing is under way. nullopt when `over` is true.
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
    LocalRunner runner_;
    std::map<uint32_t, UnderWay> under_way_; // by point
    bool anchored_ = false;                  // the session has set the anchor
    int lost_anchors_ = 0;                   // runner's count at that time
};

} // namespace kumiko
