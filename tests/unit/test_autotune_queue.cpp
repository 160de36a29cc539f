// Candidates through a Redis server: addresses, messages, and candidates whose workers die. The
// test acts as the worker; tests/e2e/test_autotune_workers.cpp has real workers.
#include "autotune/queue_runner.h"
#include "ops/registry.h"
#include "support/json.h"
#include "tests/e2e/redis_server.h"

#include <doctest/doctest.h>

#include <thread>

using namespace kumiko;
using kumiko::e2e::redis_installed;
using kumiko::e2e::RedisServer;

namespace {

std::string message_of(const std::function<void()> &f) {
    try {
        f();
    } catch (const PlacedError &e) {
        return e.message();
    }
    return "nothing was thrown";
}

QueueTask matmul_task() {
    QueueTask task;
    task.recipe = {"matmul", Json{{"m", 16}, {"n", 16}, {"k", 16}}};
    task.op_hash = ops::make(task.recipe.name, task.recipe.parameters).hash();
    task.wanted = {"here-1", 1};
    task.cpu = CpuTarget::host();
    return task;
}

Candidate candidate(int n) {
    Candidate c;
    c.schedule = {{"kumiko", "schedule"}, {"n", n}};
    return c;
}

// A worker without a process.
class Puppet {
public:
    Puppet(const RedisServer &server, const std::string &name, const WorkerOffer &offer)
        : redis_(server.connect()), name_(name) {
        redis_.command({"SADD", queue::workers(), name});
        redis_.command({"SET", queue::worker(name), offer.to_json()});
    }
    // The number of the item, or −1 if there is none.
    int64_t take(const std::string &session, const char *kind) {
        const RedisReply item =
            redis_.command({"LMOVE", queue::of_session(kind, session), queue::held(name_), "LEFT", "RIGHT"});
        return item.null ? -1 : queue::parse_item_name(item.text).second;
    }
    void answer(const std::string &session, int64_t number, double seconds) {
        QueueAnswer a;
        a.number = number;
        a.worker = name_;
        a.measured.timings = {{seconds, seconds, 0, 5}};
        a.facts = {1, true, 3e9};
        redis_.command({"RPUSH", queue::of_session("answers", session), a.to_json()});
        redis_.command({"LREM", queue::held(name_), "1", queue::item_name(session, number)});
    }
    void die() { redis_.command({"DEL", queue::worker(name_)}); }
    Redis &redis() { return redis_; }

private:
    Redis redis_;
    std::string name_;
};

} // namespace

TEST_CASE("addresses of servers") {
    RedisAddress a = RedisAddress::parse("redis://10.0.0.7:7000/3");
    CHECK(a.host == "10.0.0.7");
    CHECK(a.port == 7000);
    CHECK(a.database == 3);
    CHECK(a.text() == "redis://10.0.0.7:7000/3");
    a = RedisAddress::parse("redis://me:p%40ss%3aword@host");
    CHECK(a.user == "me");
    CHECK(a.password == "p@ss:word");
    CHECK(a.text() == "redis://host:6379"); // messages never contain the password
    a = RedisAddress::parse("redis://:secret@[::1]:6380/");
    CHECK(a.user.empty());
    CHECK(a.password == "secret");
    CHECK(a.host == "::1");
    CHECK(a.text() == "redis://[::1]:6380");
    CHECK(RedisAddress::parse("redis://").text() == "redis://localhost:6379");
    a = RedisAddress::parse("unix:///run/redis.sock?db=2");
    CHECK(a.socket == "/run/redis.sock");
    CHECK(a.text() == "unix:///run/redis.sock?db=2");
    CHECK(message_of([] { RedisAddress::parse("localhost:6379"); }) ==
          "\"localhost:6379\" is not the address of a Redis server; legal are redis://host:port/database and "
          "unix:///path/of/socket");
    CHECK(message_of([] { RedisAddress::parse("redis://h:70000"); }).find("\"70000\" is no port") == 0);
    CHECK(message_of([] { RedisAddress::parse("redis://h/x"); }).find("\"x\" is no database") == 0);
    CHECK(message_of([] { RedisAddress::parse("unix://redis.sock"); }).find("full path") != std::string::npos);
    CHECK_THROWS_AS(RedisAddress::parse("rediss://h"), Unsupported);
}

TEST_CASE("tasks, candidates and answers round-trip") {
    QueueTask task = matmul_task();
    task.sizes = {{"M", 100}};
    task.memory_mib = 512;
    task.trial_seconds = 0.1;
    const QueueTask read = QueueTask::from_json(task.to_json());
    CHECK(read.to_json() == task.to_json());
    CHECK(read.recipe.parameters == task.recipe.parameters);
    CHECK(read.cpu == task.cpu);
    CHECK(read.sizes == task.sizes);
    CHECK(read.wanted == task.wanted);

    QueueItem item;
    item.schedules = {{{"b", 1}, {"a", "x"}}};
    QueueItem again = QueueItem::from_json(item.to_json());
    CHECK(again.schedules == item.schedules);
    CHECK(std::isinf(again.best));
    CHECK(again.anchor.schedule.is_null());
    item.anchor = {item.schedules[0], 1e-3, 2e-3};
    again = QueueItem::from_json(item.to_json());
    CHECK(again.anchor.schedule == item.schedules[0]);
    CHECK(again.anchor.median == 2e-3);
    item.best = 0.1 + 0.2; // to the last bit
    CHECK(QueueItem::from_json(item.to_json()).best == item.best);
    item.schedules.push_back({{"c", 2}});
    CHECK_THROWS_AS(QueueItem::from_json(item.to_json()), UserError); // two, and no comparison
    item.compare_seconds = 0.5;
    CHECK(QueueItem::from_json(item.to_json()).schedules.size() == 2);

    QueueAnswer answer;
    answer.number = 7;
    answer.worker = "host:1";
    answer.measured = {Outcome::Wrong, "odd \xff byte", {{1e-3, 2e-3, 0.1, 9, 1.5, 0.01}}, 0};
    answer.facts = {0.5, true, 2.5e9};
    const QueueAnswer back = QueueAnswer::from_json(answer.to_json());
    CHECK(back.number == 7);
    CHECK(back.measured.outcome == Outcome::Wrong);
    CHECK(back.measured.timings.at(0).ratio == 1.5);
    CHECK(back.facts.clock_hz == 2.5e9);
    answer.compared = {{Outcome::Ok, "", {{1e-3, 2e-3, 0.1, 9}}, 0}, {Outcome::Crashed, "why", {}, 0}, {}};
    const std::vector<Measured> compared = QueueAnswer::from_json(answer.to_json()).compared;
    REQUIRE(compared.size() == 3);
    CHECK(compared[0].timings.at(0).median == 2e-3);
    CHECK(compared[1].outcome == Outcome::Crashed);
    CHECK(compared[1].reason == "why");
    CHECK(compared[2].timings.empty());
    CHECK_FALSE(compared[2].no_room);
    answer.compared[2].no_room = true;
    CHECK(QueueAnswer::from_json(answer.to_json()).compared[2].no_room);
    CHECK(message_of([] { QueueAnswer::from_json("{\"number\": 1}"); }).find("not come from this version") !=
          std::string::npos);
    CHECK(queue::parse_item_name("ab/12") == std::pair<std::string, int64_t>("ab", 12));
    CHECK_THROWS_AS(queue::parse_item_name("ab"), UserError);
}

TEST_CASE("without a server, and without a recipe") {
    QueueRunnerOptions options;
    options.server = "unix:///nowhere/redis.sock";
    CHECK(message_of([&] { QueueRunner(matmul_task(), options); }) ==
          "no Redis at unix:///nowhere/redis.sock: No such file or directory; start one with redis-server --unixsocket "
          "/nowhere/redis.sock");
    options.server = "redis://127.0.0.1:1";
    CHECK(message_of([&] { QueueRunner(matmul_task(), options); }) ==
          "no Redis at redis://127.0.0.1:1: Connection refused; start one with redis-server --port 1");
    if (!redis_installed()) return;
    const RedisServer server;
    options.server = server.url();
    QueueTask task = matmul_task();
    task.op_hash = "other";
    CHECK(message_of([&] { QueueRunner(task, options); }).find("constructs another op") != std::string::npos);
    task.recipe = {};
    CHECK(message_of([&] { QueueRunner(task, options); }).find("TuneOptions::recipe") != std::string::npos);
}

TEST_CASE("only the candidate of a dead worker is taken by another, and after two deaths it is a crash") {
    if (!redis_installed()) return;
    const RedisServer server;
    std::vector<std::string> notices;
    QueueRunnerOptions options;
    options.server = server.url();
    options.notice = [&](const std::string &text) { notices.push_back(text); };
    {
        Puppet first(server, "first", matmul_task().wanted), second(server, "second", matmul_task().wanted),
            third(server, "third", matmul_task().wanted);
        QueueRunner runner(matmul_task(), options);
        CHECK(runner.workers() == 3);
        CHECK(runner.wanted() == 12);
        const std::string session = runner.session();
        runner.submit({candidate(1), candidate(2)});
        CHECK(first.take(session, "queue") == 1);
        first.die();
        CHECK(second.take(session, "queue") == 2);
        second.answer(session, 2, 1e-3);
        auto measure_result = runner.next(1);
        REQUIRE(measure_result);
        CHECK(measure_result->candidate.schedule == candidate(2).schedule);
        CHECK(measure_result->worker == "second");
        CHECK(measure_result->measured.timings.at(0).least == 1e-3);
        CHECK(runner.facts().clock_hz == 3e9);
        // It now waits for a worker of its own.
        std::thread killer([&] {
            int64_t taken = -1;
            for (int i = 0; i < 100 && taken < 0; i++) {
                usleep(50000);
                taken = second.take(session, "alone");
            }
            CHECK(taken == 1);
            CHECK(second.take(session, "queue") == -1);
            second.die();
        });
        measure_result = runner.next(1);
        killer.join();
        REQUIRE(measure_result);
        CHECK(measure_result->candidate.schedule == candidate(1).schedule);
        CHECK(measure_result->measured.outcome == Outcome::Crashed);
        CHECK(measure_result->measured.reason == "two workers died while they measured it");
        CHECK_FALSE(runner.next(1));
        CHECK(runner.workers() == 1);
        REQUIRE(notices.size() == 2);
        CHECK(notices[0] == "worker first is gone; 1 candidate goes to others");
    }
    // The third item, and the set of workers.
    CHECK(server.connect().command({"KEYS", "kumiko:3:*"}).texts().size() == 2);
}

TEST_CASE("results are kept when the rest is cancelled, and an impossible time is not an anchor") {
    if (!redis_installed()) return;
    const RedisServer server;
    QueueRunnerOptions options;
    options.server = server.url();
    options.least_possible = [](double clock_hz) { return 3e6 / clock_hz; }; // a millisecond
    Puppet worker(server, "worker", matmul_task().wanted);
    QueueRunner runner(matmul_task(), options);
    const std::string session = runner.session();
    const auto anchored = [&](int64_t number) {
        const std::string item =
            worker.redis().command({"HGET", queue::of_session("items", session), std::to_string(number)}).text;
        return !QueueItem::from_json(item).anchor.schedule.is_null();
    };
    runner.submit({candidate(1)});
    worker.answer(session, worker.take(session, "queue"), 1e-6);
    CHECK(runner.next(1)->measured.outcome == Outcome::Impossible);
    runner.submit({candidate(2)});
    CHECK(!anchored(2));
    worker.answer(session, worker.take(session, "queue"), 2e-3);
    CHECK(runner.next(1)->measured.outcome == Outcome::Ok);
    runner.submit({candidate(3), candidate(4)});
    CHECK(anchored(3));
    worker.answer(session, worker.take(session, "queue"), 3e-3);
    const std::vector<MeasureResult> done = runner.cancel();
    REQUIRE(done.size() == 1);
    CHECK(done[0].candidate.schedule == candidate(3).schedule);
    CHECK(done[0].measured.timings.at(0).least == 3e-3);
    CHECK_FALSE(runner.next(1));
}

TEST_CASE("a restarted server is empty, and the session sends all candidates again") {
    if (!redis_installed()) return;
    RedisServer server;
    QueueRunnerOptions options;
    options.server = server.url();
    QueueRunner runner(matmul_task(), options);
    runner.submit({candidate(1), candidate(2), candidate(3)});
    server.start();
    std::thread worker([&] {
        Puppet puppet(server, "late", matmul_task().wanted);
        int left = 3;
        for (int i = 0; i < 200 && left > 0; i++) {
            usleep(50000);
            if (const int64_t number = puppet.take(runner.session(), "queue"); number > 0) {
                puppet.answer(runner.session(), number, 1e-3);
                left--;
            }
        }
        CHECK(left == 0);
    });
    for (int i = 0; i < 3; i++) CHECK(runner.next(1));
    worker.join();
    CHECK_FALSE(runner.next(1));
}

TEST_CASE("a waiting session reports the reason, and stops after the time limit") {
    if (!redis_installed()) return;
    const RedisServer server;
    Puppet other(server, "other", {"there-2", 1}), wide(server, "wide", {"here-1", 4});
    std::vector<std::string> notices;
    QueueRunnerOptions options;
    options.server = server.url();
    options.patience = 5;
    options.notice = [&](const std::string &text) { notices.push_back(text); };
    QueueRunner runner(matmul_task(), options);
    runner.submit({candidate(1)});
    CHECK(message_of([&] { runner.next(1); }) ==
          "no worker came within 5.00 s: start one with kumiko worker --queue " + server.url());
    REQUIRE(notices.size() == 1);
    CHECK(notices[0] == "no worker is there yet: start kumiko worker --queue " + server.url() +
                            " on a machine like this one (here-1)\n"
                            "  other is another machine (there-2), whose times are not comparable\n"
                            "  wide measures with 4 threads, and this task is for 1");

    const Puppet unwilling(server, "unwilling", matmul_task().wanted);
    options.patience = 0;
    QueueRunner again(matmul_task(), options);
    other.redis().command({"HSET", queue::of_session("refusals", again.session()), "unwilling", "no such op"});
    again.submit({candidate(1)});
    CHECK(message_of([&] { again.next(1); }) == "no worker takes this task: unwilling: no such op");
}

TEST_CASE("an error inside a transaction is reported, and the connection stays usable") {
    if (!redis_installed()) return;
    const RedisServer server;
    Redis redis = server.connect();
    redis.command({"SET", "word", "x"});
    std::string said;
    try {
        redis.transaction({{"SET", "other", "y"}, {"LRANGE", "word", "0", "-1"}, {"SET", "third", "z"}});
    } catch (const UserError &e) {
        said = e.what();
    }
    CHECK(said == "the Redis at " + server.url() +
                      " refuses LRANGE of word: WRONGTYPE Operation against a key holding the wrong kind of value");
    CHECK(redis.command({"GET", "third"}).text == "z");
    CHECK(redis.transaction({{"GET", "other"}, {"GET", "none"}}).at(0).text == "y");
}
