// Builds and measures candidates for sessions elsewhere (autotune/queue_judge.h), which come and go through a Redis
// server: what `kumiko worker` runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace kumiko {

struct WorkerOptions {
    std::string queue;         // RedisAddress::parse
    int threads = 1;           // serves tasks that are tuned for so many; 0: one per core of the machine
    std::string measurer = {}; // the program kumiko_measurer; empty: found beside this one
    int64_t memory_mib = 0;    // that a measuring process may take at most; 0: three quarters of the machine's
    double idle = 0;           // ends after so many seconds without work; 0: never
    double reconnect_seconds = 60;
    // When it becomes true, what is being measured is finished, what else is held goes back to its queue, and the worker
    // ends.
    const std::atomic<bool> *interrupt = nullptr;
    std::function<void(const std::string &)> log = nullptr; // a line for people
};

// How many candidates of each op it judged. Serves the tasks of its own machine (Machine::id()) alone: times of others
// would say nothing. Throws ServerLost when there is no server, or it stays away for longer than reconnect_seconds.
//
// A task whose op it cannot make is refused, with the reason. Whoever writes to the server decides what is compiled and
// run here, and which shared objects are loaded: it should be reachable by friends only.
std::map<std::string, int> serve(const WorkerOptions &options);

} // namespace kumiko
