// Tuning with workers in processes of their own, which are killed or ended in the middle.
// Links: driver
// Cost: 30
#include "autotune/queue_runner.h"
#include "autotune/tune.h"
#include "autotune/worker.h"
#include "driver/target.h"
#include "ops/registry.h"
#include "schedules/primitive.h"
#include "support/duration.h"
#include "support/json.h"
#include "tests/e2e/redis_server.h"
#include "tests/e2e/shell.h"

#include <fmt/format.h>

#include <set>
#include <sstream>
#include <thread>

using namespace kumiko;
using kumiko::e2e::Process;
using kumiko::e2e::redis_installed;
using kumiko::e2e::RedisServer;

namespace {

const std::string command = std::string(KUMIKO_BINARY_DIR) + "/kumiko";

std::unique_ptr<Process> start_worker(const RedisServer &server, const std::string &log) {
    return std::make_unique<Process>(std::vector<std::string>{command, "worker", "--queue", server.url()},
                                     server.folder() + "/" + log);
}

// The name of a process as a worker; waits for it.
std::string name_of(Redis &redis, const Process &process) {
    for (int i = 0; i < 400; i++) {
        for (const std::string &name : redis.command({"SMEMBERS", "kumiko:3:workers"}).texts()) {
            if (name.find(fmt::format(":{}:", process.id())) != std::string::npos) return name;
        }
        usleep(50000);
    }
    FAIL("the worker does not show up");
    return "";
}

// Waits until a worker has finished some item and holds another, stops it there, and calls f.
template<typename F>
void in_the_middle(Redis &redis, const Process &process, F f) {
    const std::string held = "kumiko:3:held:" + name_of(redis, process);
    std::set<std::string> seen;
    for (int i = 0; i < 20000; i++) {
        for (const std::string &item : redis.command({"LRANGE", held, "0", "-1"}).texts()) seen.insert(item);
        if (seen.size() > 2) { // it holds two at most
            process.signal(SIGSTOP);
            if (redis.command({"LLEN", held}).integer > 0) return f();
            process.signal(SIGCONT);
        }
        usleep(1000);
    }
    FAIL_CHECK("the worker does nothing");
}

TuneOptions options_for(const RedisServer &server, int trials) {
    TuneOptions o;
    o.workers = server.url();
    o.cost_model = "none";
    o.recipe = {"matmul", Json{{"m", 96}, {"n", 96}, {"k", 96}}};
    o.trials = trials;
    o.threads = 1;
    o.trial_seconds = 0.02;
    o.final_seconds = 0.1;
    return o;
}

} // namespace

TEST_CASE("two workers measure, and one of them is killed in the middle") {
    if (!redis_installed()) return;
    const RedisServer server;
    Redis redis = server.connect();
    auto a = start_worker(server, "a.log"), b = start_worker(server, "b.log");
    const std::string name_a = name_of(redis, *a), name_b = name_of(redis, *b);
    TuneOptions options = options_for(server, 24);
    std::ostringstream log;
    options.progress = &log;
    const Op op = ops::make(options.recipe.name, options.recipe.parameters);
    std::thread killer([&] { in_the_middle(redis, *a, [&] { a->end(SIGKILL); }); });
    TuneReport report;
    const Record best = tune(op, Target::host(), options, &report);
    killer.join();
    INFO(log.str() << "\n" << e2e::read(server.folder() + "/b.log"));
    CHECK(report.measured == 24);
    CHECK(report.by_worker[name_a] >= 1);
    CHECK(report.by_worker[name_b] >= 1);
    CHECK(report.by_worker[name_a] + report.by_worker[name_b] == 24);
    CHECK(report.exact);
    CHECK(report.clock_hz > 0);
    CHECK(best.final_seconds); // compared by the remaining worker
    CHECK(best.schedule(op).directives().size() > 0);
    CHECK(log.str().find("worker " + name_a + " is gone; ") != std::string::npos);
    for (const Record &r : report.records) CHECK(r.reason.find("two workers died") == std::string::npos);

    // The other worker ends in order and leaves nothing behind.
    CHECK(b->end(SIGTERM) == 0);
    CHECK(e2e::read(server.folder() + "/b.log").find("matmul: ") != std::string::npos);
    const auto left = redis.command({"KEYS", "*"}).texts();
    CHECK_MESSAGE(left.empty(), fmt::format("{}", fmt::join(left, " ")));
}

TEST_CASE("a worker that is told to end gives back what it holds") {
    if (!redis_installed()) return;
    const RedisServer server;
    Redis redis = server.connect();
    auto a = start_worker(server, "a.log"), b = start_worker(server, "b.log");
    name_of(redis, *b);
    TuneOptions options = options_for(server, 20);
    std::ostringstream log;
    options.progress = &log;
    const Op op = ops::make(options.recipe.name, options.recipe.parameters);
    std::thread killer([&] {
        in_the_middle(redis, *a, [&] {
            a->signal(SIGTERM);
            CHECK(a->end(SIGCONT) == 0);
        });
    });
    TuneReport report;
    tune(op, Target::host(), options, &report);
    killer.join();
    CHECK(report.measured == 20);
    CHECK(log.str().find("is gone") == std::string::npos);
}

TEST_CASE("a worker that is told to end while it compares takes the comparison no second time, and another compares") {
    if (!redis_installed()) return;
    const RedisServer server;
    Redis redis = server.connect();
    const std::string measurer = server.folder() + "/hangs_late"; // tests/unit/odd_measurer.c
    std::filesystem::create_symlink(std::string(KUMIKO_BINARY_DIR) + "/tests/odd_measurer", measurer);
    const auto taken = [&] {
        const std::string text = redis.command({"INFO", "commandstats"}).text, name = "cmdstat_lmove:calls=";
        const size_t at = text.find(name);
        return at == std::string::npos ? -1 : std::stoll(text.substr(at + name.size()));
    };
    std::atomic<bool> interrupt = false, ended = false;
    std::jthread comparer([&] {
        WorkerOptions options;
        options.queue = server.url();
        options.measurer = measurer;
        options.interrupt = &interrupt;
        serve(options);
        ended = true;
    });
    std::unique_ptr<Process> other;
    std::jthread interrupter([&] {
        const auto wait_for = [](const auto &what, double seconds) {
            for (const Stopwatch watch; !what() && watch.seconds() < seconds;) usleep(10'000);
            return what();
        };
        CHECK(wait_for([&] { return std::filesystem::exists(measurer + ".hangs"); }, 120));
        const auto before = taken();
        CHECK(before > 0);
        interrupt = true;
        CHECK(wait_for([&] { return ended.load(); }, 20));
        CHECK(taken() == before);
        other = start_worker(server, "other.log");
    });
    TuneOptions options = options_for(server, 6);
    options.timeout = 600; // what hangs is not ended for that
    const Op op = ops::make(options.recipe.name, options.recipe.parameters);
    TuneReport report;
    const Record best = tune(op, Target::host(), options, &report);
    interrupter.join();
    comparer.join();
    CHECK(report.measured == 6);
    CHECK(best.final_seconds);
}

TEST_CASE("a worker refuses what it cannot do, and goes on with others") {
    if (!redis_installed()) return;
    const RedisServer server;
    Redis redis = server.connect();
    const auto worker = start_worker(server, "log");
    const std::string name = name_of(redis, *worker);
    TuneOptions options = options_for(server, 4);
    const Op op = ops::make(options.recipe.name, options.recipe.parameters);
    QueueTask task{options.recipe, op.hash(), {}, {Machine::host().id(), 1}, CpuTarget::level("aarch64")};
    if (CpuTarget::host().architecture() == "aarch64") task.cpu = CpuTarget::level("x86-64-sse4.2");
    QueueRunner runner(task, {server.url()});
    runner.submit({Candidate{}, Candidate{}});
    std::string text;
    try {
        runner.next(1);
    } catch (const UserError &e) {
        text = e.what();
    }
    CHECK(text.find("no worker takes this task: " + name + ": candidates are compiled for ") == 0);
    TuneReport report;
    tune(op, Target::host(), options, &report);
    CHECK(report.by_worker[name] == 4);
}

TEST_CASE("the command: no server, and tuning through workers") {
    std::string text;
    CHECK(e2e::run(command + " worker --queue redis://127.0.0.1:1", text) == 1);
    CHECK(text ==
          "kumiko: no Redis at redis://127.0.0.1:1: Connection refused; start one with redis-server --port 1\n");
    const std::string tune = command + " tune matmul --shape m=32,n=32,k=32 --quiet --cost-model none --db " +
                             (e2e::scratch("test_autotune_workers", "tune") / "tuning.db").string();
    CHECK(e2e::run(tune + " --trials 6 --workers redis://127.0.0.1:1", text) == 1);
    CHECK(text ==
          "kumiko: no Redis at redis://127.0.0.1:1: Connection refused; start one with redis-server --port 1\n");
    CHECK(e2e::run(tune + " --trials 6 --workers localhost", text) == 1);
    CHECK(text.find("\"localhost\" is not the address of a Redis server") != std::string::npos);
    if (!redis_installed()) return;
    const RedisServer server;
    CHECK(e2e::run(tune + " --trials 6 --budget 4 --workers " + server.url(), text) == 1);
    CHECK(text.find("no worker is there yet: start kumiko worker --queue " + server.url()) != std::string::npos);
    CHECK(text.find("no worker came within") != std::string::npos);
    const auto worker = start_worker(server, "log");
    const std::string json = e2e::must_run(tune + " --trials 6 --json - --workers " + server.url());
    CHECK(json.find("\"by_worker\"") != std::string::npos);
    CHECK(json.find("\"measured\": 6") != std::string::npos);
    // Without workers, known results are shown.
    worker->end(SIGTERM);
    CHECK(e2e::run(tune + " --trials 12 --budget 2 --workers " + server.url(), text) == 0);
    CHECK(text.find("matmul: nothing was measured; this was known before: no worker came within ") !=
          std::string::npos);
    CHECK(text.find("matmul: the budget ended it after 6 of 12 trials\n") != std::string::npos);
    CHECK(text.find(" GFLOP/s") != std::string::npos);
    // Also if nothing is left to measure.
    CHECK(e2e::run(tune + " --trials 6 --workers redis://127.0.0.1:1", text) == 1);
    CHECK(text.find("no Redis at redis://127.0.0.1:1") != std::string::npos);
    // Without work, a worker ends after --idle seconds.
    text = e2e::must_run(command + " worker --idle 0.5 --queue " + server.url());
    CHECK(text.find("no work arrived") != std::string::npos);
}
