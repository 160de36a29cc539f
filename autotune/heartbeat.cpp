#include "autotune/heartbeat.h"

namespace kumiko {

namespace {

constexpr std::chrono::seconds beat_pause(1);

} // namespace

Heartbeat::Heartbeat(const RedisAddress &address, const std::string &worker, const WorkerOffer &offer)
    : redis_(address), worker_(worker), offer_(offer.to_json()) {
    beat();
    thread_ = std::thread([this] { run(); });
}

Heartbeat::~Heartbeat() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void Heartbeat::beat() {
    redis_.transaction({{"SET", queue::worker(worker_), offer_, "EX", std::to_string(queue::worker_seconds)},
                        {"SADD", queue::workers(), worker_},
                        {"EXPIRE", queue::held(worker_), std::to_string(queue::leftover_seconds)}});
}

// Server errors are reported by the worker itself, which decides when to give up.
void Heartbeat::run() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, beat_pause, [&] { return stopping_; })) {
        lock.unlock();
        try {
            beat();
        } catch (const std::exception &) {
            try {
                redis_.reconnect();
                beat();
            } catch (const std::exception &) {
            }
        }
        lock.lock();
    }
}

} // namespace kumiko
