#include "autotune/queue_runner.h"

#include "ops/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace kumiko {

namespace {

constexpr double poll_every = 1, report_no_workers_after = 3; // seconds
constexpr size_t deaths_of_a_crash = 2, items_a_worker = 4;

std::string random_name() {
    std::random_device device;
    return fmt::format("{:08x}{:08x}", device(), device());
}

void check_recipe(const QueueTask &task) {
    if (task.recipe.name.empty())
        throw UserError("workers make the op from its name and parameters, and this op has none: give "
                        "TuneOptions::recipe, as {\"matmul\", parameters} of an operator of the registry or "
                        "{\"/path/of/libmyops.so:NAME\", parameters} of a shared object");
    const Op op = ops::make(task.recipe.name, task.recipe.parameters);
    if (op.hash() != task.op_hash)
        throw UserError("the recipe " + task.recipe.name + " " + task.recipe.parameters->dump() +
                        " constructs another op than the one to be tuned");
}

} // namespace

// A snapshot of the server's data.
struct QueueRunner::Lists {
    struct Worker {
        bool alive = false;
        WorkerOffer offer; // if alive
        std::vector<std::string> held;
    };
    std::map<std::string, Worker> workers;
    std::map<std::string, std::string> refusals;
    std::set<std::string> waiting; // this session's queued items
    std::set<int64_t> answered;
};

template<typename F>
auto QueueRunner::with_server(F f) {
    while (true) {
        try {
            return f();
        } catch (const ServerLost &e) {
            say(std::string(e.what()) + "; trying to reach it again");
            redis_.reconnect(options_.reconnect_seconds, [&] { return options_.over && options_.over(); });
        }
    }
}

QueueRunner::QueueRunner(const QueueTask &task, QueueRunnerOptions options)
    : task_(task), options_(std::move(options)), redis_(RedisAddress::parse(options_.server)), session_(random_name()) {
    check_recipe(task_);
    maintain_session();
}

QueueRunner::~QueueRunner() {
    try {
        Redis::Command all = {"DEL"};
        for (const char *what : {"task", "items", "queue", "alone", "answers", "refusals"}) all.push_back(of(what));
        redis_.transaction({all, {"SREM", queue::sessions(task_.wanted.machine, task_.wanted.threads), session_}});
    } catch (const std::exception &) { // the keys expire
    }
}

void QueueRunner::say(const std::string &text) const {
    if (options_.notice) options_.notice(text);
}

void QueueRunner::put(int64_t number, const Item &item, bool first) {
    const bool alone = item.what.compare_seconds > 0 || !item.died.empty();
    const std::string queue = of(alone ? "alone" : "queue");
    // Keys expire in case this process dies.
    const std::string leftover = std::to_string(queue::leftover_seconds);
    redis_.transaction({{"HSET", of("items"), std::to_string(number), item.what.to_json()},
                        {"EXPIRE", of("items"), leftover},
                        {first ? "LPUSH" : "RPUSH", queue, queue::item_name(session_, number)},
                        {"EXPIRE", queue, leftover}});
}

void QueueRunner::submit(std::vector<Candidate> candidates) {
    for (Candidate &candidate : candidates) {
        Item item;
        item.what.schedules = {candidate.schedule};
        item.what.best = best_;
        item.what.anchor = anchor_;
        candidate.nest.reset(), candidate.made.reset(); // the worker makes its own
        item.candidate = std::move(candidate);
        const int64_t number = ++last_number_;
        with_server([&] { put(number, item, false); });
        under_way_.emplace(number, std::move(item));
    }
}

std::optional<MeasureResult> QueueRunner::next(double best) {
    best_ = std::min(best_, best);
    if (under_way_.empty()) return std::nullopt;
    std::optional<QueueAnswer> answer = receive([&] {
        if (options_.over && options_.over()) return true;
        if (!answered_ && live_.empty() && !refusal_.empty() && without_worker_.seconds() > report_no_workers_after)
            throw UserError("no worker takes this task: " + refusal_);
        if (options_.patience <= 0 || !live_.empty() || without_worker_.seconds() < options_.patience) return false;
        if (!answered_)
            throw NoWorker(fmt::format("no worker came within {}: start one with kumiko worker --queue {}",
                                       duration_text(options_.patience), redis_.address().text()));
        return true;
    });
    if (!answer) return std::nullopt;
    return taken(std::move(*answer));
}

MeasureResult QueueRunner::taken(QueueAnswer answer) {
    const auto found = under_way_.find(answer.number);
    MeasureResult measure_result{std::move(found->second.candidate), std::move(answer.measured), answer.worker};
    under_way_.erase(found);
    measure_result.candidate.build_seconds = answer.build_seconds;
    if (accept(measure_result.measured, options_.least_possible ? options_.least_possible(answer.facts.clock_hz) : 0)) {
        const Timing &t = measure_result.measured.timings.at(0);
        best_ = std::min(best_, t.least);
        if (anchor_.schedule.is_null()) anchor_ = {measure_result.candidate.schedule, t.least, t.median};
    }
    return measure_result;
}

std::vector<MeasureResult> QueueRunner::cancel() {
    std::vector<MeasureResult> done;
    if (under_way_.empty()) return done;
    // Items held by workers are still measured; their answers are ignored.
    const std::vector<RedisReply> replies = with_server([&] {
        return redis_.transaction(
            {{"LRANGE", of("answers"), "0", "-1"}, {"DEL", of("items"), of("queue"), of("alone"), of("answers")}});
    });
    for (const std::string &text : replies.at(0).texts()) own_answers_.push_back(QueueAnswer::from_json(text));
    for (QueueAnswer &answer : own_answers_) {
        if (under_way_.count(answer.number) && answer.compared.empty()) done.push_back(taken(std::move(answer)));
    }
    under_way_.clear();
    own_answers_.clear();
    return done;
}

std::vector<Measured> QueueRunner::compare(std::vector<Candidate> candidates, double seconds,
                                           const std::function<bool()> &over) {
    cancel();
    Item item;
    for (const Candidate &c : candidates) item.what.schedules.push_back(c.schedule);
    item.what.compare_seconds = seconds;
    item.what.best = best_;
    const int64_t number = ++last_number_;
    with_server([&] { put(number, item, false); });
    under_way_.emplace(number, std::move(item));
    const std::optional<QueueAnswer> answer = receive([&] {
        if (over && over()) return true;
        const bool late = (options_.over && options_.over()) || options_.patience > 0;
        return late && live_.empty();
    });
    if (!answer) cancel();
    under_way_.clear();
    if (!answer || answer->compared.size() != candidates.size()) return std::vector<Measured>(candidates.size());
    return answer->compared;
}

size_t QueueRunner::wanted() const { return items_a_worker * std::max<size_t>(1, live_.size()); }

std::optional<QueueAnswer> QueueRunner::receive(const std::function<bool()> &over) {
    while (true) {
        if (polled_.seconds() > poll_every) maintain_session();
        std::optional<QueueAnswer> answer;
        if (!own_answers_.empty()) {
            answer = own_answers_.back();
            own_answers_.pop_back();
        } else {
            if (over()) return std::nullopt;
            const RedisReply reply = with_server([&] { return redis_.command({"BLPOP", of("answers"), "0.25"}); });
            if (reply.elements.size() < 2) continue;
            answer = QueueAnswer::from_json(reply.elements[1].text);
        }
        // A requeued item may be answered twice, and a cancelled one late.
        if (!under_way_.count(answer->number)) continue;
        with_server([&] { redis_.command({"HDEL", of("items"), std::to_string(answer->number)}); });
        if (answer->facts.reference_seconds > 0) facts_ = answer->facts;
        answered_ = true;
        return answer;
    }
}

void QueueRunner::maintain_session() {
    const Lists lists = with_server([&] {
        const std::string sessions = queue::sessions(task_.wanted.machine, task_.wanted.threads);
        const std::string leftover = std::to_string(queue::leftover_seconds);
        const std::vector<std::string> names = redis_.command({"SMEMBERS", queue::workers()}).texts();
        std::vector<Redis::Command> commands = {
            {"SET", of("task"), task_.to_json(), "EX", std::to_string(queue::session_seconds)},
            {"SADD", sessions, session_},
            {"EXPIRE", sessions, leftover}};
        for (const char *what : {"items", "queue", "alone", "answers", "refusals"})
            commands.push_back({"EXPIRE", of(what), leftover});
        const size_t begin = commands.size();
        commands.push_back({"HGETALL", of("refusals")});
        for (const char *what : {"queue", "alone", "answers"}) commands.push_back({"LRANGE", of(what), "0", "-1"});
        for (const std::string &w : names) {
            commands.push_back({"GET", queue::worker(w)});
            commands.push_back({"LRANGE", queue::held(w), "0", "-1"});
        }
        const std::vector<RedisReply> replies = redis_.transaction(commands);
        Lists l;
        const std::vector<std::string> refusals = replies.at(begin).texts();
        for (size_t i = 0; i + 1 < refusals.size(); i += 2) l.refusals[refusals[i]] = refusals[i + 1];
        for (size_t i : {begin + 1, begin + 2}) {
            for (const std::string &name : replies.at(i).texts()) l.waiting.insert(name);
        }
        for (const std::string &text : replies.at(begin + 3).texts())
            l.answered.insert(QueueAnswer::from_json(text).number);
        for (size_t i = 0; i < names.size(); i++) {
            const RedisReply &offer = replies.at(begin + 4 + 2 * i);
            Lists::Worker &w = l.workers[names[i]];
            w.alive = !offer.null;
            if (w.alive) w.offer = WorkerOffer::from_json(offer.text);
            w.held = replies.at(begin + 5 + 2 * i).texts();
        }
        return l;
    });
    polled_.restart();
    update_workers(lists);
    std::set<std::string> somewhere = lists.waiting;
    for (const auto &[name, worker] : lists.workers) somewhere.insert(worker.held.begin(), worker.held.end());
    for (auto &[number, item] : under_way_) {
        const bool own = std::any_of(own_answers_.begin(), own_answers_.end(),
                                     [&, n = number](const QueueAnswer &a) { return a.number == n; });
        const bool missing =
            !own && !somewhere.count(queue::item_name(session_, number)) && !lists.answered.count(number);
        // A worker that registered between the two queries was not asked: an item is lost only if
        // missing twice.
        if (missing && item.missing) with_server([&, n = number, &i = item] { put(n, i, true); });
        item.missing = missing && !item.missing;
    }
}

void QueueRunner::update_workers(const Lists &lists) {
    std::set<std::string> live;
    refusal_.clear();
    for (const auto &[name, worker] : lists.workers) {
        if (worker.alive) {
            if (worker.offer != task_.wanted) continue;
            const auto refusal = lists.refusals.find(name);
            if (refusal == lists.refusals.end())
                live.insert(name);
            else
                refusal_ = name + ": " + refusal->second;
            continue;
        }
        size_t back = 0;
        for (const std::string &held : worker.held) {
            const auto [session, number] = queue::parse_item_name(held);
            if (session != session_) continue; // handled by its own session
            put_back(name, number);
            back++;
        }
        if (back == worker.held.size()) // no session waits for its items
            with_server([&, &n = name] { redis_.command({"SREM", queue::workers(), n}); });
        if (back > 0)
            say(fmt::format("worker {} is gone; {} candidate{} to others", name, back, back == 1 ? " goes" : "s go"));
    }
    live_ = std::move(live);
    if (!live_.empty()) {
        if (reported_no_workers_)
            say(fmt::format("{} worker{} there now", live_.size(), live_.size() == 1 ? " is" : "s are"));
        without_worker_.restart();
        reported_no_workers_ = false;
    } else if (!reported_no_workers_ && without_worker_.seconds() > report_no_workers_after) {
        reported_no_workers_ = true;
        say(reason_without_workers(lists));
    }
}

void QueueRunner::put_back(const std::string &worker, int64_t number) {
    with_server([&] { redis_.command({"LREM", queue::held(worker), "1", queue::item_name(session_, number)}); });
    const auto found = under_way_.find(number);
    if (found == under_way_.end()) return;
    Item &item = found->second;
    item.died.push_back(worker);
    if (item.died.size() < deaths_of_a_crash) {
        with_server([&] { put(number, item, true); });
        return;
    }
    QueueAnswer crash;
    crash.number = number;
    crash.measured.outcome = Outcome::Crashed;
    crash.measured.reason = "two workers died while they measured it";
    own_answers_.push_back(std::move(crash));
}

std::string QueueRunner::reason_without_workers(const Lists &lists) const {
    const auto [machine, threads] = task_.wanted;
    std::string text =
        fmt::format("no worker is there yet: start kumiko worker --queue {}{} on a machine like this one ({})",
                    redis_.address().text(), threads == 1 ? "" : fmt::format(" --threads {}", threads), machine);
    for (const auto &[name, worker] : lists.workers) {
        if (!worker.alive) continue;
        if (worker.offer.machine != machine)
            text +=
                "\n  " + name + " is another machine (" + worker.offer.machine + "), whose times are not comparable";
        else if (worker.offer.threads != threads)
            text += fmt::format("\n  {} measures with {} thread{}, and this task is for {}", name, worker.offer.threads,
                                worker.offer.threads == 1 ? "" : "s", threads);
    }
    return text;
}

} // namespace kumiko
