// Threads that run one function together, for measuring the limits of a machine.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

namespace kumiko::bench {

// Threads that run one function together, repeatedly, waiting by spinning: a measurement of
// microseconds must not contain a wake-up. The destructor ends them.
class Crew {
public:
    Crew(int threads, std::function<void(int)> job) : job_(std::move(job)) {
        for (int t = 1; t < threads; t++) {
            threads_.emplace_back([this, t] {
                for (int turn = 1;; turn++) {
                    int waited = 0;
                    while (turn_.load(std::memory_order_acquire) < turn) {
                        if (stop_.load(std::memory_order_relaxed)) return;
                        if (++waited > 20000) std::this_thread::sleep_for(std::chrono::microseconds(50));
                    }
                    job_(t);
                    done_.fetch_add(1, std::memory_order_release);
                }
            });
        }
    }
    ~Crew() {
        stop_ = true;
        for (auto &t : threads_) t.join();
    }
    void run() {
        done_.store(0, std::memory_order_relaxed);
        turn_.fetch_add(1, std::memory_order_release);
        job_(0);
        while (done_.load(std::memory_order_acquire) < static_cast<int>(threads_.size())) std::this_thread::yield();
    }

private:
    std::function<void(int)> job_;
    std::atomic<int> turn_{0}, done_{0};
    std::atomic<bool> stop_{false};
    std::vector<std::thread> threads_;
};

} // namespace kumiko::bench
