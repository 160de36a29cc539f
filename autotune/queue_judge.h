// Hands candidates to workers (autotune/worker.h) through a Redis server, and waits for their verdicts.
//
// This process still searches, and lowers candidates for their features; a worker gets the op's recipe and saved
// schedules, builds and measures. What a dead worker held is put back, to be taken alone; a candidate with which two
// workers died is a crash. What no list holds any more, as after the server was started anew, is put back too.
#pragma once

#include "autotune/queue_format.h"
#include "autotune/redis.h"
#include "support/duration.h"

#include <functional>
#include <map>
#include <set>

namespace kumiko {

// Nobody measures: next() has waited as long as it may.
class NoWorker : public UserError {
public:
    using UserError::UserError;
};

struct QueueJudgeOptions {
    std::string server;  // RedisAddress::parse
    double patience = 0; // seconds until next() and compare() end when no worker is there; 0: they wait for ever
    double reconnect_seconds = 60;
    std::function<bool()> over = nullptr;   // when true, next() waits no longer
    LeastPossible least_possible = nullptr; // null: unknown
    // Told what people should know: that there is no worker yet, that one is gone.
    std::function<void(const std::string &)> notice = nullptr;
};

class QueueJudge : public Judge {
public:
    // Throws ServerLost when there is no server, and UserError when the recipe does not make an op of the hash in
    // `task`.
    QueueJudge(const QueueTask &task, QueueJudgeOptions options);
    ~QueueJudge() override; // takes away what the session has in the server

    void submit(std::vector<Candidate> candidates) override;
    // Verdicts come as workers give them. Also nothing when it is over. Throws NoWorker when patience has ended before
    // any worker gave a verdict, and UserError when those that are there refuse the task.
    std::optional<Verdict> next(double best) override;
    std::vector<Verdict> cancel() override;
    // By one worker.
    std::vector<Measured> compare(std::vector<Candidate> candidates, double seconds,
                                  const std::function<bool()> &over) override;
    size_t wanted() const override;
    // Of the last verdict; unknown before.
    JudgeFacts facts() const override { return facts_; }

    const std::string &session() const { return session_; }
    // Workers that serve this session.
    size_t workers() const { return live_.size(); }

private:
    struct Item {
        Candidate candidate;
        QueueItem what;
        std::vector<std::string> died; // workers, with it
        bool missing = false;          // from all lists, when last looked at
    };
    struct Lists;

    template<typename F>
    auto with_server(F f);
    std::string of(const char *what) const { return queue::of_session(what, session_); }
    void put(int64_t number, const Item &item, bool first);
    std::optional<QueueAnswer> receive(const std::function<bool()> &over);
    // Looks after the session: signs of life, workers that came or died, items that are nowhere.
    void look_around();
    void look_at_workers(const Lists &lists);
    Verdict taken(QueueAnswer answer);
    void put_back(const std::string &worker, int64_t number);
    void say(const std::string &text) const;
    std::string why_nobody(const Lists &lists) const;

    QueueTask task_;
    QueueJudgeOptions options_;
    Redis redis_;
    std::string session_;
    std::map<int64_t, Item> under_way_;
    std::vector<QueueAnswer> own_answers_; // for candidates that are judged without a worker
    int64_t last_number_ = 0;
    std::set<std::string> live_;
    JudgeFacts facts_;
    double best_ = std::numeric_limits<double>::infinity();
    QueueAnchor anchor_;  // the first good candidate
    std::string refusal_; // of a worker that could else serve the session, where none does
    bool answered_ = false, said_nobody_ = false;
    Stopwatch looked_, without_worker_;
};

} // namespace kumiko
