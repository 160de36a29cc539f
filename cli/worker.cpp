// kumiko worker: builds and measures for remote sessions.
#include "cli/common.h"

#include "autotune/worker.h"

#include <fmt/format.h>

#include <atomic>
#include <csignal>
#include <iostream>
#include <memory>

namespace kumiko::cli {

namespace {

std::atomic<bool> worker_ended = false;

// The first signal ends it properly, a second one at once.
void end_worker(int signal) {
    worker_ended = true;
    std::signal(signal, SIG_DFL);
}

struct WorkerArguments {
    WorkerOptions options;
    bool quiet = false;
};

void run_worker(WorkerArguments a) {
    std::signal(SIGINT, end_worker);
    std::signal(SIGTERM, end_worker);
    a.options.interrupt = &worker_ended;
    if (!a.quiet) a.options.log = [](const std::string &line) { std::cerr << line << std::endl; };
    const std::map<std::string, int> judged = serve(a.options);
    if (a.quiet) return;
    for (const auto &[op, n] : judged) std::cout << fmt::format("{}: {} judged\n", op, n);
    if (judged.empty()) std::cout << "no work arrived\n";
}

} // namespace

void add_worker(CLI::App &app) {
    auto *command = app.add_subcommand("worker", "build and measure candidates for `kumiko tune --workers`");
    auto a = std::make_shared<WorkerArguments>();
    command->add_option("--queue", a->options.queue, "address of the Redis server to which tuning sends candidates")
        ->required()
        ->type_name("redis://HOST:PORT");
    command
        ->add_option("--threads", a->options.threads,
                     "serve sessions that tune kernels for this number of threads; 0: one per core")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str();
    command
        ->add_option("--memory", a->options.memory_mib,
                     "memory limit in MiB of the process that runs candidates, whatever its session allows; 0: three "
                     "quarters of the machine's")
        ->check(not_below_zero())
        ->capture_default_str();
    command->add_option("--idle", a->options.idle, "end after this number of seconds without work; 0: never")
        ->check(not_below_zero())
        ->capture_default_str();
    command->add_flag("--quiet", a->quiet, "print errors only");
    add_examples(
        *command,
        "  redis-server --port 6379 &\n"
        "  kumiko worker --queue redis://localhost:6379\n"
        "  kumiko tune matmul --shape m=512,n=512,k=512 --workers redis://localhost:6379\n"
        "Control-C ends it properly: its candidates return to the queue. It serves sessions whose machine is like "
        "its own,\nand compiles and runs what the server sends, so only trusted clients may reach the server.");
    command->callback([a] { run_worker(*a); });
}

} // namespace kumiko::cli
