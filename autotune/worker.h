// Builds and measures candidates for remote sessions (autotune/queue_runner.h), which connect
// through a Redis server. `kumiko worker` runs this.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace kumiko {

struct WorkerOptions {
    std::string queue;         // for RedisAddress::parse
    int threads = 1;           // serves tasks tuned for this number; 0: one per core of the machine
    std::string measurer = {}; // path of kumiko_measurer; "": next to this program
    int64_t memory_mib = 0;    // limit of a measuring process; 0: three quarters of the machine's
    double idle = 0;           // ends after this time without work; 0: never
    double reconnect_seconds = 60;
    // When it becomes true, the running measurement is finished, other held items are requeued, and
    // the worker ends.
    const std::atomic<bool> *interrupt = nullptr;
    std::function<void(const std::string &)> log = nullptr; // receives log lines
};

// Returns the number of candidates measured per op. Serves only tasks for its own machine
// (Machine::id()), because times of others are not comparable. Throws ServerLost if there is no
// server, or it is unreachable for longer than reconnect_seconds.
//
// A task whose op cannot be constructed is refused with the reason. Whoever can write to the server
// decides what is compiled and run here, and which shared objects are loaded: make it reachable
// only by trusted clients.
std::map<std::string, int> serve(const WorkerOptions &options);

} // namespace kumiko
