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
    if (judged.empty()) std::cout << "nothing was asked for\n";
}

} // namespace

void add_worker(CLI::App &app) {
    auto *command = app.add_subcommand("worker", "build and measure candidates for `kumiko tune --workers`");
    auto a = std::make_shared<WorkerArguments>();
    command->add_option("--queue", a->options.queue, "the Redis server where tuning leaves candidates")
        ->required()
        ->type_name("redis://HOST:PORT");
    command
        ->add_option("--threads", a->options.threads,
                     "serves what is tuned for kernels of so many threads; 0: one per core")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str();
    command
        ->add_option(
            "--memory", a->options.memory_mib,
            "MiB that a process which runs candidates may take, whatever its session allows; 0: three quarters "
            "of the machine's")
        ->check(not_below_zero())
        ->capture_default_str();
    command->add_option("--idle", a->options.idle, "end after so many seconds without work; 0: never")
        ->check(not_below_zero())
        ->capture_default_str();
    command->add_flag("--quiet", a->quiet, "say nothing but errors");
    examples(*command,
             "  redis-server --port 6379 &\n"
             "  kumiko worker --queue redis://localhost:6379\n"
             "  kumiko tune matmul --shape m=512,n=512,k=512 --workers redis://localhost:6379\n"
             "Control-C ends it in order: what it holds goes back to the queue. It serves sessions whose machine is "
             "like its own,\nand compiles and runs what the server says: let friends only reach that one.");
    command->callback([a] { run_worker(*a); });
}

} // namespace kumiko::cli
