#include "autotune/local_runner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

namespace kumiko {

namespace {

constexpr size_t anchor_slot = Measurer::slots - 1;
// The longest call of a candidate, in times of the best; and how many calls of that length it gets.
constexpr double longest_call = 100, longest_calls = 12;
// A candidate is not called again if its first call takes longer than the best time times the first
// number, plus the second one in seconds.
constexpr double far_slower = 4, slack_of_first_call = 0.02;
// Relative spread at which timing ends: of the ratio to the anchor, and of a candidate alone.
constexpr double tight_ratio = 0.005, tight_alone = 0.01;
constexpr double given_up = 1.25;   // times the best, above which timing ends early
constexpr double slow_anchor = 0.5; // a candidate with this ratio to the anchor replaces it
constexpr double time_to_end = 1;   // seconds granted to a build after cancellation

bool has_room_beside(int threads) {
    return 2 * threads <= static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

} // namespace

LocalRunner::LocalRunner(const Space &space, const CpuTarget &target, const Sizes &sizes,
                         const LocalRunnerOptions &options)
    : space_(space), target_(target), sizes_(sizes), options_(options),
      task_(std::make_unique<MeasureTask>(space.op(), sizes, 1, options.longest_reference)),
      measurer_(std::make_unique<Measurer>(*task_, options.measurer)), best_(std::numeric_limits<double>::infinity()),
      beside_(has_room_beside(options.measurer.threads)) {
    end_measuring_when_over();
    if (!beside_) return;
    builder_ = std::thread([this] { build_all(); });
    timer_ = std::thread([this] { measure_all(); });
}

LocalRunner::~LocalRunner() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = ending_ = true;
    }
    changed_.notify_all();
    if (builder_.joinable()) builder_.join();
    if (timer_.joinable()) timer_.join();
}

RunnerFacts LocalRunner::facts() const {
    return {task_->reference_seconds(), task_->exact(), measurer_->clock_hz(), task_->sampled()};
}

void LocalRunner::submit(std::vector<Candidate> candidates) {
    {
        const std::lock_guard lock(mutex_);
        std::move(candidates.begin(), candidates.end(), std::back_inserter(waiting_));
    }
    changed_.notify_all();
}

// The timer thread must not call the caller's `over`.
void LocalRunner::end_measuring_when_over() {
    if (beside_)
        measurer_->end_when([this] { return ending_.load(); });
    else
        measurer_->end_when(options_.over);
}

std::vector<MeasureResult> LocalRunner::cancel() {
    std::unique_lock lock(mutex_);
    generation_++;
    waiting_.clear();
    built_.clear();
    std::vector<MeasureResult> done(std::make_move_iterator(done_.begin()), std::make_move_iterator(done_.end()));
    done_.clear();
    ending_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !building_ && !measuring_; });
    ending_ = false;
    return done;
}

// A compiler that hangs costs only one candidate.
void LocalRunner::build(Candidate &candidate, const std::function<bool()> &over) const {
    build_candidate(space_, target_, sizes_, candidate, [&](double seconds) {
        return seconds > options_.build_timeout || (seconds > time_to_end && over && over());
    });
}

void LocalRunner::build_all() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [&] { return stopping_ || (!waiting_.empty() && built_.size() < ahead); });
        if (stopping_) return;
        Candidate candidate = std::move(waiting_.front());
        waiting_.pop_front();
        building_ = true;
        const size_t generation = generation_;
        lock.unlock();
        build(candidate, [this] { return ending_.load(); });
        lock.lock();
        building_ = false;
        if (generation == generation_) built_.push_back(std::move(candidate));
        changed_.notify_all();
    }
}

void LocalRunner::measure_all() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [&] { return stopping_ || !built_.empty(); });
        if (stopping_) return;
        MeasureResult measure_result{std::move(built_.front()), {}};
        built_.pop_front();
        measuring_ = true;
        const size_t generation = generation_;
        const double best = best_;
        changed_.notify_all(); // there is room for another candidate
        lock.unlock();
        std::exception_ptr failed;
        try {
            measure_result.measured = measure(measure_result.candidate, best);
        } catch (...) { // the measurer cannot be restarted
            failed = std::current_exception();
        }
        lock.lock();
        measuring_ = false;
        if (failed) failed_ = failed;
        if (generation == generation_) {
            if (measure_result.measured.outcome == Outcome::Ok && !measure_result.measured.timings.empty())
                best_ = std::min(best_, measure_result.measured.timings[0].least);
            if (!failed) done_.push_back(std::move(measure_result));
        }
        changed_.notify_all();
    }
}

std::optional<MeasureResult> LocalRunner::next(double best) {
    std::unique_lock lock(mutex_);
    best_ = std::min(best_, best);
    if (!beside_) {
        if (waiting_.empty()) return std::nullopt;
        MeasureResult measure_result{std::move(waiting_.front()), {}};
        waiting_.pop_front();
        build(measure_result.candidate, options_.over);
        if (measure_result.candidate.outcome != Outcome::Ok && over()) return std::nullopt;
        measure_result.measured = measure(measure_result.candidate, best_);
        if (measurer_->cut_short()) return std::nullopt;
        return measure_result;
    }
    const auto idle = [&] { return waiting_.empty() && built_.empty() && !building_ && !measuring_; };
    while (!failed_ && done_.empty() && !idle()) {
        if (over()) return std::nullopt;
        changed_.wait_for(lock, polling_interval);
    }
    if (failed_) std::rethrow_exception(failed_);
    if (done_.empty()) return std::nullopt;
    MeasureResult measure_result = std::move(done_.front());
    done_.pop_front();
    return measure_result;
}

double LocalRunner::timeout(double best) const {
    if (!std::isfinite(best)) return options_.timeout;
    return std::min(options_.timeout, std::max(1.0, longest_call * best));
}

double LocalRunner::least_possible() const {
    return options_.least_possible ? options_.least_possible(measurer_->clock_hz()) : 0;
}

Measured LocalRunner::measure(const Candidate &candidate, double best) {
    if (candidate.outcome != Outcome::Ok) return {candidate.outcome, candidate.reason, {}, 0};
    const auto load = [&] {
        return measurer_->load(0, candidate.object, candidate.symbol, timeout(best), candidate.packs);
    };
    Measured first = load();
    if (first.no_room) {
        measurer_->unload_all(); // frees the memory of the current or an earlier anchor
        first = load();
    }
    if (first.outcome != Outcome::Ok) return first;
    // Far slower than the best: a single call is enough.
    if (first.timings[0].least > far_slower * best + slack_of_first_call) {
        accept(first, least_possible());
        return first;
    }
    const int process = measurer_->process();
    const bool paired = anchor_ready(best);
    // The anchor cannot be loaded together with this candidate.
    if (!paired && !anchor_.object.empty()) {
        anchor_ = {};
        lost_anchors_++;
        // The process died and took the candidate with it.
        if (measurer_->process() != process) return measure(candidate, best);
    }
    Measurer::RunOptions run;
    run.budget = options_.trial_seconds;
    run.timeout = 2 * options_.trial_seconds + longest_calls * timeout(best);
    run.call_timeout = options_.timeout;
    run.paired = paired;
    run.tight = paired ? tight_ratio : tight_alone;
    if (std::isfinite(best)) run.give_up_above = given_up * best / (paired ? anchor_timing_.least : 1);
    if (!paired) {
        Measured alone = measurer_->run({0}, run);
        // An impossible time would make all later ones wrong, since they are multiples of it.
        if (accept(alone, least_possible())) set_anchor(candidate, alone.timings[0]);
        return alone;
    }
    Measured result = measurer_->run({0, anchor_slot}, run);
    if (result.no_room || (result.outcome != Outcome::Ok && result.slot != 0 && !measurer_->cut_short())) {
        if (result.no_room) measurer_->unload_all();
        anchor_ = {}; // the anchor may be at fault: a measurement without it decides
        lost_anchors_++;
        return measure(candidate, best);
    }
    if (result.outcome != Outcome::Ok) return result;
    Timing t = result.timings[0];
    t.least = anchor_timing_.least * t.ratio;
    t.median = anchor_timing_.median * t.ratio;
    result.timings = {t};
    if (!accept(result, least_possible())) {
        // If the caches hold the arrays of one but not of both, both take longer than alone.
        run.paired = false;
        run.tight = tight_alone;
        run.give_up_above = 0;
        Measured alone = measurer_->run({0}, run);
        accept(alone, least_possible());
        return alone;
    }
    const Timing &accepted = result.timings[0];
    // The anchor's sample was too short.
    if (accepted.least != t.least) anchor_timing_.least = anchor_timing_.median;
    // A slow anchor is an imprecise reference and costs time.
    if (t.ratio < slow_anchor) set_anchor(candidate, accepted);
    return result;
}

void LocalRunner::set_anchor(Candidate anchor, const Timing &timing) {
    anchor_ = std::move(anchor);
    anchor_timing_ = timing;
    anchor_process_ = 0; // its slot holds a different kernel
}

// Loads the anchor if it is not loaded: initially, and after a restart of the process.
bool LocalRunner::anchor_ready(double best) {
    if (anchor_.object.empty()) return false;
    if (anchor_process_ != 0 && anchor_process_ == measurer_->process()) return true;
    if (measurer_->load(anchor_slot, anchor_.object, anchor_.symbol, timeout(best), anchor_.packs).outcome !=
        Outcome::Ok)
        return false;
    anchor_process_ = measurer_->process();
    return true;
}

void LocalRunner::use_anchor(Candidate anchor, const Timing &timing) {
    {
        std::unique_lock lock(mutex_);
        if (beside_) changed_.wait(lock, [&] { return waiting_.empty() && !building_; });
    }
    build(anchor, [this] { return over(); });
    if (anchor.outcome != Outcome::Ok) return;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !measuring_; });
    set_anchor(std::move(anchor), timing);
}

std::vector<Measured> LocalRunner::compare(std::vector<Candidate> candidates, double seconds,
                                           const std::function<bool()> &over) {
    cancel();
    anchor_process_ = 0;     // its slot may be reused
    measurer_->unload_all(); // makes room
    measurer_->end_when(over);
    std::vector<Measured> results = compare_now(candidates, seconds, over);
    end_measuring_when_over();
    return results;
}

namespace {

// Candidates in a comparison, and their results so far.
struct Comparison {
    std::vector<Candidate> &candidates;
    std::vector<Measured> results;
    std::vector<int> loaded_in; // process ids
    double once = 0;            // seconds of one call of each
    size_t room;                // candidates from this index on are left out

    explicit Comparison(std::vector<Candidate> &candidates)
        : candidates(candidates), results(candidates.size()), loaded_in(candidates.size(), 0), room(candidates.size()) {
    }
    void leave_out_from(size_t first) {
        for (size_t i = first; i < room; i++) results[i].no_room = results[i].outcome == Outcome::Ok;
        room = first;
    }
    void fail(size_t i, Outcome outcome, const std::string &reason) {
        results[i].outcome = outcome, results[i].reason = reason;
    }
};

// Builds and loads all candidates that have not failed. Returns their slots; nothing if `over`.
std::optional<std::vector<size_t>> load_candidates(Comparison &c, Measurer &measurer, double timeout,
                                                   const std::function<void(Candidate &)> &build,
                                                   const std::function<bool()> &over) {
    std::vector<size_t> slots;
    for (size_t i = 0; i < c.room; i++) {
        Candidate &candidate = c.candidates[i];
        if (c.results[i].outcome != Outcome::Ok) continue;
        if (over && over()) return std::nullopt;
        if (candidate.object.empty()) build(candidate);
        if (over && over()) return std::nullopt;
        if (candidate.outcome != Outcome::Ok) {
            c.fail(i, candidate.outcome, candidate.reason);
            continue;
        }
        if (c.loaded_in[i] == 0 || c.loaded_in[i] != measurer.process()) {
            const Measured loaded = measurer.load(i, candidate.object, candidate.symbol, timeout, candidate.packs);
            if (over && over()) return std::nullopt;
            if (loaded.no_room && !slots.empty()) {
                c.leave_out_from(i);
                break;
            }
            if (loaded.outcome != Outcome::Ok) {
                c.fail(i, loaded.outcome, loaded.reason);
                continue;
            }
            if (c.loaded_in[i] == 0) c.once += loaded.timings.at(0).least;
            c.loaded_in[i] = measurer.process();
        }
        slots.push_back(i);
    }
    return slots;
}

} // namespace

// Repeats until all remaining candidates are good. A candidate that ends the process unloads all
// others. Packed inputs stay in memory during the comparison; if there is not enough, the last
// candidates are left out.
std::vector<Measured> LocalRunner::compare_now(std::vector<Candidate> &candidates, double seconds,
                                               const std::function<bool()> &over) {
    Comparison c(candidates);
    double best;
    {
        const std::lock_guard lock(mutex_);
        best = best_;
    }
    while (true) {
        const auto loaded = load_candidates(
            c, *measurer_, options_.timeout, [&](Candidate &candidate) { build(candidate, over); }, over);
        if (!loaded) return c.results;
        const std::vector<size_t> &slots = *loaded;
        if (slots.size() == 1 && c.room < candidates.size()) { // nothing to compare it with
            c.leave_out_from(slots[0]);
            return c.results;
        }
        if (slots.empty()) return c.results;
        const int process = measurer_->process();
        if (std::any_of(slots.begin(), slots.end(), [&](size_t i) { return c.loaded_in[i] != process; })) continue;
        Measurer::RunOptions run;
        run.budget = seconds;
        run.tight = 0;
        run.call_timeout = options_.timeout;
        // About ten calls of each good candidate, however busy the machine is, plus one that hangs.
        run.timeout = 2 * seconds + options_.timeout +
                      std::min(static_cast<double>(slots.size()) * longest_calls * timeout(best), 200 * c.once);
        const Measured result = measurer_->run(slots, run);
        if (over && over()) return c.results;
        if (result.no_room && slots.size() > 1) { // memory for a workspace while all are loaded
            c.leave_out_from(slots.back());
            measurer_->unload_all();
            continue;
        }
        if (result.outcome != Outcome::Ok) {
            // No candidate, if all together took too long; unknown if the candidate that ended the
            // process overwrote the slot.
            if (std::find(slots.begin(), slots.end(), result.slot) == slots.end()) return c.results;
            c.fail(result.slot, result.outcome, result.reason);
            continue;
        }
        size_t possible = 0;
        for (size_t n = 0; n < slots.size(); n++) {
            Measured &m = c.results[slots[n]];
            m.timings = {result.timings[n]};
            m.timings[0].least = m.timings[0].median; // the deciding figure
            possible += accept(m, least_possible());
        }
        if (possible == slots.size()) return c.results;
        for (Measured &m : c.results) m.timings.clear();
    }
}

} // namespace kumiko
