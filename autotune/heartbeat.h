// Reports that a worker is alive, with its own connection and thread, independently of builds and
// measurements.
#pragma once

#include "autotune/queue_format.h"
#include "autotune/redis.h"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace kumiko {

class Heartbeat {
public:
    // The worker is registered when this returns. Throws ServerLost.
    Heartbeat(const RedisAddress &address, const std::string &worker, const WorkerOffer &offer);
    ~Heartbeat();
    Heartbeat(const Heartbeat &) = delete;

private:
    void beat();
    void run();

    Redis redis_;
    std::string worker_, offer_;
    bool stopping_ = false;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::thread thread_;
};

} // namespace kumiko
