// Distributes candidates to workers (autotune/worker.h) through a Redis server, and waits for their
// results.
//
// This process still searches, and lowers candidates for their features. A worker gets the op's
// recipe and saved schedules, and builds and measures. Items of a dead worker are requeued, to be
// run alone; a candidate with which two workers died counts as a crash. Items that are in no list,
// for example after a server restart, are requeued too.
#pragma once

#include "autotune/queue_format.h"
#include "autotune/redis.h"
#include "support/duration.h"

#include <functional>
#include <map>
#include <set>

namespace kumiko {

// No worker is available within the time that next() may wait.
class NoWorker : public UserError {
public:
    using UserError::UserError;
};

struct QueueRunnerOptions {
    std::string server;  // for RedisAddress::parse
    double patience = 0; // seconds that next() and compare() wait without a worker; 0: forever
    double reconnect_seconds = 60;
    std::function<bool()> over = nullptr;   // when true, next() returns early
    LeastPossible least_possible = nullptr; // null: unknown
    // Receives messages for the user, for example that there is no worker yet or that one died.
    std::function<void(const std::string &)> notice = nullptr;
};

class QueueRunner : public CandidateRunner {
public:
    // Throws ServerLost if the server cannot be reached, and UserError if the recipe does not
    // produce an op with the hash in `task`.
    QueueRunner(const QueueTask &task, QueueRunnerOptions options);
    ~QueueRunner() override; // removes the session's keys from the server

    void submit(std::vector<Candidate> candidates) override;
    // Results come in the order in which workers finish. Also returns nullopt when `over` is true.
    // Throws NoWorker if there is no result when `patience` ends, and UserError if all available
    // workers refuse the task.
    std::optional<MeasureResult> next(double best) override;
    std::vector<MeasureResult> cancel() override;
    // Runs on one worker.
    std::vector<Measured> compare(std::vector<Candidate> candidates, double seconds,
                                  const std::function<bool()> &over) override;
    size_t wanted() const override;
    // The facts from the last result; unknown before.
    RunnerFacts facts() const override { return facts_; }

    const std::string &session() const { return session_; }
    // The number of workers that serve this session.
    size_t workers() const { return live_.size(); }

private:
    struct Item {
        Candidate candidate;
        QueueItem what;
        std::vector<std::string> died; // workers that died with this item
        bool missing = false;          // in no list at the last check
    };
    struct Lists;

    template<typename F>
    auto with_server(F f);
    std::string of(const char *what) const { return queue::of_session(what, session_); }
    void put(int64_t number, const Item &item, bool first);
    std::optional<QueueAnswer> receive(const std::function<bool()> &over);
    // Maintains the session: its heartbeat, new and dead workers, lost items.
    void maintain_session();
    void update_workers(const Lists &lists);
    MeasureResult taken(QueueAnswer answer);
    void put_back(const std::string &worker, int64_t number);
    void say(const std::string &text) const;
    std::string reason_without_workers(const Lists &lists) const;

    QueueTask task_;
    QueueRunnerOptions options_;
    Redis redis_;
    std::string session_;
    std::map<int64_t, Item> under_way_;
    std::vector<QueueAnswer> own_answers_; // for candidates that need no worker
    int64_t last_number_ = 0;
    std::set<std::string> live_;
    RunnerFacts facts_;
    double best_ = std::numeric_limits<double>::infinity();
    QueueAnchor anchor_;  // the first good candidate
    std::string refusal_; // reason of a worker that refused, while no worker serves the session
    bool answered_ = false, reported_no_workers_ = false;
    Stopwatch polled_, without_worker_;
};

} // namespace kumiko
