#include "autotune/worker.h"

#include "autotune/heartbeat.h"
#include "autotune/redis.h"
#include "autotune/worker_job.h"
#include "support/duration.h"

#include <fmt/format.h>

#include <deque>
#include <random>
#include <set>
#include <thread>
#include <unistd.h>

namespace kumiko {

namespace {

constexpr size_t max_held = 2; // one is timed while the other is built
constexpr size_t max_jobs = 3; // jobs whose arrays are kept
// Candidates of one session before the next session's turn.
constexpr int turn = 16;
const std::string block_seconds = "0.25"; // latency for noticing an interrupt or another session
constexpr std::chrono::milliseconds poll_pause(250);

std::string worker_name() {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    std::random_device device;
    return fmt::format("{}:{}:{:04x}", host, getpid(), device() & 0xffff);
}

int offered_threads(int threads, const Machine &machine) {
    if (threads < 0) throw UserError("a worker cannot measure with " + std::to_string(threads) + " threads");
    if (threads > 0) return threads;
    return machine.find_unit("core") ? static_cast<int>(std::max<int64_t>(1, machine.units_in_all("core"))) : 1;
}

class Worker {
public:
    explicit Worker(const WorkerOptions &options)
        : options_(options), machine_(Machine::host()),
          name_(worker_name()), offer_{machine_.id(), offered_threads(options.threads, machine_)},
          redis_(RedisAddress::parse(options.queue)),
          heartbeat_(std::make_unique<Heartbeat>(redis_.address(), name_, offer_)) {}

    std::map<std::string, int> run();

private:
    struct Job {
        std::unique_ptr<WorkerJob> job;
        size_t used = 0; // last use, by clock_
    };

    bool stopped() const { return options_.interrupt && *options_.interrupt; }
    void say(const std::string &text) const {
        if (options_.log) options_.log(text);
    }
    template<typename F>
    auto with_server(F f);
    void after_reconnecting();
    void take();
    void take_more();
    bool take_from(const std::string &session);
    std::vector<std::string> sessions_in_turn();
    bool begin(const std::string &item, bool alone);
    WorkerJob *job_of(const std::string &session);
    void finish_one();
    void answer(const std::string &item, QueueAnswer answer);
    void drop(const std::string &item);
    void give_back(const std::string &item, const char *kind);
    void refuse(const std::string &session, const std::string &why);
    void leave();

    WorkerOptions options_;
    Machine machine_;
    std::string name_;
    WorkerOffer offer_;
    Redis redis_;
    std::unique_ptr<Heartbeat> heartbeat_;

    std::map<std::string, Job> jobs_; // by session
    std::string current_;             // the session of all items in held_
    std::deque<std::string> held_;    // items, in submission order
    std::set<std::string> refused_;   // sessions
    bool given_up_ = false;           // reconnecting has failed
    std::map<std::string, int> measured_;
    int taken_this_turn_ = 0; // candidates of the current session in this turn
    size_t clock_ = 0;
    Stopwatch idle_;
};

template<typename F>
auto Worker::with_server(F f) {
    while (true) {
        try {
            return f();
        } catch (const ServerLost &e) {
            if (given_up_) throw;
            say(std::string(e.what()) + "; trying to reach it again");
            given_up_ = true;
            redis_.reconnect(options_.reconnect_seconds, [&] { return stopped(); });
            given_up_ = false;
            say("there it is again");
            after_reconnecting();
        }
    }
}

// An item may have been moved here by a command whose reply was lost.
void Worker::after_reconnecting() {
    try {
        for (const std::string &item : redis_.command({"LRANGE", queue::held(name_), "0", "-1"}).texts()) {
            if (std::find(held_.begin(), held_.end(), item) == held_.end()) drop(item);
        }
    } catch (const ServerLost &) { // the next command reports it
    }
}

std::map<std::string, int> Worker::run() {
    say(fmt::format("{} waits for candidates at {}: machine {}, {} thread{}", name_, redis_.address().text(),
                    offer_.machine, offer_.threads, offer_.threads == 1 ? "" : "s"));
    try {
        while (!stopped()) {
            with_server([&] { held_.empty() ? take() : take_more(); });
            if (!held_.empty())
                finish_one();
            else if (options_.idle > 0 && idle_.seconds() > options_.idle)
                break;
        }
        leave();
    } catch (const ServerLost &) {
        if (!stopped()) throw;
    }
    return measured_;
}

// Sessions that this worker can serve: the current one first, unless its turn is over.
std::vector<std::string> Worker::sessions_in_turn() {
    std::vector<std::string> all =
        redis_.command({"SMEMBERS", queue::sessions(offer_.machine, offer_.threads)}).texts();
    std::sort(all.begin(), all.end());
    std::vector<Redis::Command> questions;
    for (const std::string &s : all) questions.push_back({"EXISTS", queue::of_session("task", s)});
    const std::vector<RedisReply> alive = redis_.transaction(questions);
    for (size_t i = all.size(); i-- > 0;) {
        if (alive.at(i).integer) continue;
        redis_.command(
            // A live session adds itself again.
            {"SREM", queue::sessions(offer_.machine, offer_.threads), all[i]});
        all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
    }
    const auto is_current = [&](const std::string &s) {
        return taken_this_turn_ < turn ? s >= current_ : s > current_;
    };
    std::rotate(all.begin(), std::find_if(all.begin(), all.end(), is_current), all.end());
    taken_this_turn_ = 0;
    std::erase_if(jobs_, [&](const auto &job) { return std::find(all.begin(), all.end(), job.first) == all.end(); });
    std::erase_if(all, [&](const std::string &s) { return refused_.count(s) != 0; });
    return all;
}

// With nothing held: takes any item.
void Worker::take() {
    const std::vector<std::string> sessions = sessions_in_turn();
    for (const std::string &session : sessions) {
        if (take_from(session)) return;
    }
    if (sessions.empty()) {
        std::this_thread::sleep_for(poll_pause);
        return;
    }
    const std::string queue = queue::of_session("queue", sessions[0]);
    const RedisReply item = redis_.command({"BLMOVE", queue, queue::held(name_), "LEFT", "RIGHT", block_seconds});
    if (!item.null) begin(item.text, false);
}

bool Worker::take_from(const std::string &session) {
    for (const char *kind : {"alone", "queue"}) {
        while (true) {
            const RedisReply item =
                redis_.command({"LMOVE", queue::of_session(kind, session), queue::held(name_), "LEFT", "RIGHT"});
            if (item.null) break;
            if (begin(item.text, kind == std::string("alone"))) return true;
            // Otherwise it would be taken again.
            if (refused_.count(session) || stopped()) return false;
        }
    }
    return false;
}

// With an item held: takes the next one, to build it during the measurement. Not if another item
// needs a worker of its own, or it is another session's turn.
void Worker::take_more() {
    if (held_.size() >= max_held) return;
    if (taken_this_turn_ >= turn) {
        if (redis_.command({"SCARD", queue::sessions(offer_.machine, offer_.threads)}).integer > 1) return;
        taken_this_turn_ = 0;
    }
    if (redis_.command({"LLEN", queue::of_session("alone", current_)}).integer > 0) return;
    const RedisReply item =
        redis_.command({"LMOVE", queue::of_session("queue", current_), queue::held(name_), "LEFT", "RIGHT"});
    if (!item.null) begin(item.text, false);
}

// Passes an item to its runner. False if it was cancelled meanwhile, or this worker cannot run it.
bool Worker::begin(const std::string &item, bool alone) {
    const auto [session, number] = queue::parse_item_name(item);
    const RedisReply body = redis_.command({"HGET", queue::of_session("items", session), std::to_string(number)});
    WorkerJob *job = body.null ? nullptr : job_of(session);
    std::optional<QueueAnswer> compared;
    if (job) {
        current_ = session;
        taken_this_turn_++;
        try {
            const QueueItem what = QueueItem::from_json(body.text);
            if (what.compare_seconds > 0) {
                compared = job->compare(number, what);
                if (!compared) {
                    give_back(item, "alone");
                    return false;
                }
            } else {
                job->submit(number, what);
            }
        } catch (const PlacedError &e) {
            refuse(session, e.message());
            job = nullptr;
        }
    }
    if (!job) {
        refused_.count(session) ? give_back(item, alone ? "alone" : "queue") : drop(item);
        return false;
    }
    if (compared) {
        answer(item, std::move(*compared));
        return true;
    }
    held_.push_back(item);
    if (alone) finish_one();
    return true;
}

// Null if this worker cannot serve the session, or the session has ended.
WorkerJob *Worker::job_of(const std::string &session) {
    Job &entry = jobs_[session];
    entry.used = ++clock_;
    if (entry.job) return entry.job.get();
    const RedisReply text = redis_.command({"GET", queue::of_session("task", session)});
    std::string why;
    try {
        if (!text.null)
            entry.job = std::make_unique<WorkerJob>(QueueTask::from_json(text.text), machine_,
                                                    MeasurerOptions{options_.measurer, 1, options_.memory_mib},
                                                    [this] { return stopped(); });
    } catch (const Halide::Error &e) {
        why = std::string("Halide: ") + e.what();
    } catch (const PlacedError &e) {
        why = e.message();
    }
    if (!entry.job) {
        jobs_.erase(session);
        if (!why.empty()) refuse(session, why);
        return nullptr;
    }
    say(fmt::format("{}: candidates of session {}", entry.job->op_name(), session));
    while (jobs_.size() > max_jobs)
        jobs_.erase(std::min_element(jobs_.begin(), jobs_.end(),
                                     [](const auto &a, const auto &b) { return a.second.used < b.second.used; }));
    return jobs_.at(session).job.get();
}

void Worker::finish_one() {
    std::optional<QueueAnswer> found;
    try {
        found = jobs_.at(current_).job->next();
    } catch (const PlacedError &e) { // an error of the measurer, not of a candidate
        const std::string why = e.message();
        with_server([&] {
            refuse(current_, why);
            for (; !held_.empty(); held_.pop_back()) drop(held_.back());
        });
        jobs_.erase(current_);
        return;
    }
    if (!found) return; // held items are requeued
    const std::string item = queue::item_name(current_, found->number);
    answer(item, std::move(*found));
    std::erase(held_, item);
}

void Worker::answer(const std::string &item, QueueAnswer answer) {
    const std::string session = queue::parse_item_name(item).first;
    answer.worker = name_;
    const std::string answers = queue::of_session("answers", session);
    with_server([&] {
        redis_.transaction({{"RPUSH", answers, answer.to_json()},
                            {"EXPIRE", answers, std::to_string(queue::leftover_seconds)},
                            {"LREM", queue::held(name_), "1", item}});
    });
    measured_[jobs_.at(session).job->op_name()]++;
    idle_.restart();
}

// Its session, if still interested, detects that the item is lost and requeues it.
void Worker::drop(const std::string &item) { redis_.command({"LREM", queue::held(name_), "1", item}); }

void Worker::give_back(const std::string &item, const char *kind) {
    const std::string queue = queue::of_session(kind, queue::parse_item_name(item).first);
    redis_.transaction({{"LREM", queue::held(name_), "1", item},
                        {"LPUSH", queue, item},
                        {"EXPIRE", queue, std::to_string(queue::leftover_seconds)}});
}

void Worker::refuse(const std::string &session, const std::string &why) {
    refused_.insert(session);
    say("session " + session + " is not served: " + why);
    const std::string refusals = queue::of_session("refusals", session);
    redis_.transaction({{"HSET", refusals, name_, why}, {"EXPIRE", refusals, std::to_string(queue::leftover_seconds)}});
}

void Worker::leave() {
    if (!held_.empty()) jobs_.at(current_).job->cancel();
    heartbeat_.reset();
    with_server([&] {
        for (; !held_.empty(); held_.pop_back()) give_back(held_.back(), "queue");
        redis_.transaction({{"DEL", queue::worker(name_), queue::held(name_)}, {"SREM", queue::workers(), name_}});
    });
}

} // namespace

std::map<std::string, int> serve(const WorkerOptions &options) { return Worker(options).run(); }

} // namespace kumiko
