#include "autotune/build_ahead.h"

namespace kumiko {

BuildAhead::BuildAhead(const Space &space, const CpuTarget &target, std::vector<Candidate> batch, bool overlap)
    : space_(space), target_(target),
      waiting_(std::make_move_iterator(batch.begin()), std::make_move_iterator(batch.end())), left_(waiting_.size()) {
    if (!overlap) return;
    thread_ = std::thread([this] {
        std::unique_lock lock(mutex_);
        while (!waiting_.empty()) {
            changed_.wait(lock, [&] { return stopping_ || done_.size() < ahead; });
            if (stopping_) return;
            Candidate candidate = std::move(waiting_.front());
            waiting_.pop_front();
            lock.unlock();
            build_candidate(space_, target_, candidate);
            lock.lock();
            done_.push_back(std::move(candidate));
            changed_.notify_all();
        }
    });
}

BuildAhead::~BuildAhead() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

std::optional<Candidate> BuildAhead::next() {
    if (left_ == 0) return std::nullopt;
    left_--;
    if (!thread_.joinable()) {
        Candidate candidate = std::move(waiting_.front());
        waiting_.pop_front();
        build_candidate(space_, target_, candidate);
        return candidate;
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !done_.empty(); });
    Candidate candidate = std::move(done_.front());
    done_.pop_front();
    changed_.notify_all();
    return candidate;
}

} // namespace kumiko
