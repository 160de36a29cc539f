// One task being tuned: the known results, the next candidates, and the best so far. It advances in
// steps, so that several tasks can share a budget.
#pragma once

#include "autotune/candidate_filter.h"
#include "autotune/runner.h"
#include "autotune/tune.h"
#include "autotune/work.h"
#include "support/duration.h"

#include <limits>
#include <set>

namespace kumiko {

class Session {
public:
    // Reads the known results from the database. All arguments must outlive the session; `report`
    // is cleared. Throws as tune() does.
    Session(const Op &op, const Machine &machine, const CpuTarget &cpu, const TuneOptions &options, TuneReport &report);
    ~Session();

    // Measures up to n more candidates. Fewer if the options' trials are done, the space is
    // exhausted, or time is over; after `seconds`, only a first candidate is still started.
    void advance(int n, const std::function<void()> &after_each = nullptr,
                 double seconds = std::numeric_limits<double>::infinity());
    // Whether advance() has nothing left to do.
    bool over() const;
    // Whether the time budget (options.seconds) is used up, regardless of remaining trials.
    bool budget_over() const { return options_.seconds > 0 && !interrupted() && late(); }
    // Reserves time of the budget for the final comparison, if several sessions share it; by
    // default TuneOptions::final_seconds.
    void leave_to_compare(double seconds) { seconds_to_compare_ = seconds; }
    // Compares the finalists and returns the best. Throws UserError if no candidate is good. If
    // interrupted or out of time, the search's own measurements decide.
    Record finish();
    // The same, but nullopt if no candidate is good.
    std::optional<Record> conclude();

    int trials() const { return trials_; } // includes earlier sessions
    const std::optional<Record> &best() const { return best_; }
    // "best 1.2 ms, 112 GFLOP/s, 0.93 of the roofline"
    std::string note() const;
    // Expected reduction of the time per call by the next trials, from the progress of the last
    // ones; almost 0 while no candidate is good.
    double expected_gain() const;
    // Releases the measuring process and its arrays; the next advance() recreates them.
    void release_runner();
    // Sets the receiver of immediate messages for the user, for example that there is no worker. By
    // default they are dropped.
    void on_notice(std::function<void(const std::string &)> notice) { notice_ = std::move(notice); }

private:
    static constexpr size_t compared_at_most = 10; // including the default
    static constexpr double calls_to_compare = 10; // approximate minimum per candidate

    // Adds the seconds of its lifetime to `to`.
    struct Adding {
        const Stopwatch &watch;
        double &to;
        ~Adding() { to += watch.seconds(); }
    };

    // The space of the options, or the one that fits the op. The next: checks before the first
    // trial; known results of the database; hints of other machines.
    const Space *choose_space();
    void require_possible() const;
    void recall();
    void take_hints();
    bool interrupted() const;
    double seconds_left() const; // infinite without a budget
    bool late() const;           // interrupted, or only the time for the comparison is left
    // The same, except for the first candidate, which is always measured.
    bool out_of_time() const;
    bool used_up() const;
    // Up to n proposals of the search as described candidates.
    std::vector<Candidate> next_batch(size_t n);
    void begin_measuring();
    std::unique_ptr<CandidateRunner> make_runner();
    void take_facts();
    void measure(MeasureResult measure_result);
    // `instead`: replaces the database's record even if that is better.
    Record keep(const Candidate &candidate, const Measured &measured, bool instead = false);
    void count_failure(const Record &record);
    void compare();
    void keep_comparison(const std::set<std::string> &timed); // schedule hashes
    void settle();
    Candidate again(const Record &record) const;
    bool is_sound(const Record &record, const Candidate &candidate);
    void refute(const Record &record, const Measured &found);
    void replace_in_report(const Record &now);
    void choose_best();
    [[noreturn]] void give_up() const;

    const Op &op_;
    const Machine &machine_;
    const CpuTarget &cpu_;
    const TuneOptions &options_;
    TuneReport &report_;
    std::unique_ptr<Space> own_space_;
    std::string template_name_;
    const Space *space_;
    TaskKey key_;
    Work work_;
    CandidateFilter filter_;
    Search search_;
    std::optional<Database> database_;
    std::unique_ptr<CandidateRunner> runner_;
    RunnerFacts facts_;
    std::function<void(const std::string &)> notice_;
    Stopwatch watch_;
    std::map<std::string, Record> records_; // by schedule hash
    // Good candidates with their objects, by schedule hash.
    std::map<std::string, Candidate> finalists_;
    std::set<std::string> under_way_schedules_; // schedule hashes of candidates at the runner
    // Schedule hashes of candidates whose nests were verified.
    std::set<std::string> sound_;
    std::optional<Record> best_;
    double seconds_to_compare_;
    int64_t seen_row_ = 0; // of the database
    int trials_ = 0;       // counted towards options_.trials
    int under_way_ = 0;    // at the runner
    bool in_hand_ = false; // a candidate is about to be submitted
    bool exhausted_ = false;
};

} // namespace kumiko
