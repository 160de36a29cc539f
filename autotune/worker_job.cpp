#include "autotune/worker_job.h"

#include "autotune/work.h"
#include "ops/registry.h"

namespace kumiko {

namespace {

Op op_of(const QueueTask &task) {
    Op op = ops::make(task.recipe.name, task.recipe.parameters);
    if (op.hash() != task.op_hash)
        throw UserError("its " + task.recipe.name +
                        " is another formula than the session's: the two are of different "
                        "versions");
    return op;
}

// The session's target must run on this machine.
const QueueTask &checked(const QueueTask &task) {
    const std::string missing = task.cpu.missing_on(CpuTarget::host());
    if (!missing.empty())
        throw UserError("candidates are compiled for " + task.cpu.name + ", and this processor lacks " + missing);
    return task;
}

LocalRunnerOptions runner_options(const QueueTask &task, const Op &op, const Machine &machine,
                                  const MeasurerOptions &measurer, const std::function<bool()> &over) {
    LocalRunnerOptions o;
    o.over = over;
    o.least_possible = [work = count_work(op, task.sizes), machine, threads = task.wanted.threads](double clock_hz) {
        return least_possible_seconds(work, machine, threads, clock_hz);
    };
    o.measurer = {measurer.program, task.wanted.threads, measurer.memory_mib, task.cold};
    if (task.memory_mib > 0 && (o.measurer.memory_mib <= 0 || task.memory_mib < o.measurer.memory_mib))
        o.measurer.memory_mib = task.memory_mib;
    o.trial_seconds = task.trial_seconds;
    o.timeout = task.timeout;
    o.build_timeout = task.build_timeout;
    o.longest_reference = task.longest_reference;
    return o;
}

} // namespace

Candidate SavedSchedules::add(nlohmann::json schedule) {
    const std::lock_guard lock(mutex_);
    Candidate candidate;
    candidate.point = {++last_};
    candidate.schedule = schedule;
    saved_[last_] = std::move(schedule);
    return candidate;
}

void SavedSchedules::remove(const Candidate &candidate) {
    const std::lock_guard lock(mutex_);
    saved_.erase(candidate.point.at(0));
}

Schedule SavedSchedules::schedule(const Point &point) const {
    nlohmann::json saved;
    {
        const std::lock_guard lock(mutex_);
        saved = saved_.at(point.at(0));
    }
    return Schedule::from_json(op(), machine(), saved);
}

WorkerJob::WorkerJob(const QueueTask &task, const Machine &machine, const MeasurerOptions &measurer,
                     std::function<bool()> over)
    : cpu_(checked(task).cpu), sizes_(task.sizes), schedules_(op_of(task), machine), over_(std::move(over)),
      runner_(schedules_, cpu_, sizes_, runner_options(task, schedules_.op(), machine, measurer, over_)) {}

void WorkerJob::submit(int64_t number, const QueueItem &item) {
    if (runner_.lost_anchors() != lost_anchors_) anchored_ = false, lost_anchors_ = runner_.lost_anchors();
    if (!anchored_ && !item.anchor.schedule.is_null()) {
        const Candidate anchor = schedules_.add(item.anchor.schedule);
        Timing timing;
        timing.least = item.anchor.least;
        timing.median = item.anchor.median;
        runner_.use_anchor(anchor, timing);
        schedules_.remove(anchor);
        anchored_ = true;
    }
    Candidate candidate = schedules_.add(item.schedules.at(0));
    under_way_[candidate.point[0]] = {number, item.best};
    runner_.submit({std::move(candidate)});
}

std::optional<QueueAnswer> WorkerJob::next() {
    double best = std::numeric_limits<double>::infinity();
    for (const auto &[point, u] : under_way_) best = std::min(best, u.best);
    std::optional<MeasureResult> measure_result = runner_.next(best);
    if (!measure_result && over()) return std::nullopt;
    if (!measure_result) throw InternalError("the runner has lost a candidate");
    schedules_.remove(measure_result->candidate);
    const auto found = under_way_.find(measure_result->candidate.point.at(0));
    QueueAnswer answer;
    answer.number = found->second.number;
    under_way_.erase(found);
    answer.measured = std::move(measure_result->measured);
    answer.build_seconds = measure_result->candidate.build_seconds;
    answer.facts = runner_.facts();
    return answer;
}

std::optional<QueueAnswer> WorkerJob::compare(int64_t number, const QueueItem &item) {
    std::vector<Candidate> candidates;
    for (const nlohmann::json &s : item.schedules) candidates.push_back(schedules_.add(s));
    QueueAnswer answer;
    answer.number = number;
    if (candidates.size() <= Measurer::slots) {
        answer.compared = runner_.compare(candidates, item.compare_seconds, over_);
    } else {
        answer.measured.outcome = Outcome::Failed;
        answer.measured.reason = "too many to be compared";
    }
    answer.facts = runner_.facts();
    for (const Candidate &c : candidates) schedules_.remove(c);
    if (over()) return std::nullopt;
    return answer;
}

void WorkerJob::cancel() {
    runner_.cancel();
    under_way_.clear();
}

} // namespace kumiko
