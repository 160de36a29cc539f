// One task being tuned: what is known of it, what to try next, and the best so far. It goes on in steps, so that several tasks can
// share a budget.
#pragma once

#include "autotune/judge.h"
#include "autotune/scout.h"
#include "autotune/tune.h"
#include "autotune/work.h"
#include "support/duration.h"

#include <limits>
#include <set>

namespace kumiko {

class Session {
public:
    // Reads what the database knows. All must outlive the session; `report` is emptied. Throws as tune() does.
    Session(const Op &op, const Machine &machine, const CpuTarget &cpu, const TuneOptions &options, TuneReport &report);
    ~Session();

    // Measures up to n candidates more; fewer when the options' trials are done, the space is used up, or time is over, and none but
    // a first one is begun after so many seconds.
    void advance(int n, const std::function<void()> &after_each = nullptr,
                 double seconds = std::numeric_limits<double>::infinity());
    // Whether advance() has nothing left to do.
    bool over() const;
    // Whether the options' seconds leave no time for more, be there trials left or not.
    bool budget_over() const { return options_.seconds > 0 && !interrupted() && late(); }
    // Leaves so many seconds of the budget for comparing, where several sessions share it; TuneOptions::final_seconds unless stated.
    void leave_to_compare(double seconds) { seconds_to_compare_ = seconds; }
    // Compares the best few and returns the best. Throws UserError when no candidate is good. Where it is interrupted, or the budget is
    // over, what the search measured decides.
    Record finish();
    // The same, but nothing when no candidate is good.
    std::optional<Record> conclude();

    int trials() const { return trials_; } // those of earlier sessions counted
    const std::optional<Record> &best() const { return best_; }
    // "best 1.2 ms, 112 GFLOP/s, 0.93 of the roofline"
    std::string note() const;
    // Seconds a call that the next trials may save, judged by what the last ones did; next to none while no candidate is good.
    double expected_gain() const;
    // Lets go of the process that measures and of its arrays; the next advance() makes them again.
    void rest();
    // Where to say what people should know at once: that no worker is there. Nowhere unless it is set.
    void on_notice(std::function<void(const std::string &)> notice) { notice_ = std::move(notice); }

private:
    static constexpr size_t compared_at_most = 10; // and the default
    static constexpr double calls_to_compare = 10; // of each at least, about

    // Adds the seconds that pass until the end of its life.
    struct Adding {
        const Stopwatch &watch;
        double &to;
        ~Adding() { to += watch.seconds(); }
    };

    const Space *choose_space();
    void require_possible() const;
    void recall();
    void take_hints();
    bool interrupted() const;
    double seconds_left() const; // infinite without a budget
    bool late() const;           // interrupted, or nothing is left of the budget but what comparing takes
    bool out_of_time() const;    // the same, but for the first candidate, which is measured in any case
    bool used_up() const;
    std::vector<Candidate> next_batch(size_t n);
    void begin_measuring();
    std::unique_ptr<Judge> make_judge();
    void take_facts();
    void measure(Verdict verdict);
    // `instead`: of what the database has, be that better.
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
    Scout scout_;
    Search search_;
    std::optional<Database> database_;
    std::unique_ptr<Judge> judge_;
    JudgeFacts facts_;
    std::function<void(const std::string &)> notice_;
    Stopwatch watch_;
    std::map<std::string, Record> records_;      // by schedule hash
    std::map<std::string, Candidate> finalists_; // good candidates with their objects, by schedule hash
    std::set<std::string> under_way_schedules_;  // hashes of those that are with the judge
    std::set<std::string> sound_;                // hashes of those whose nests the verifier found right
    std::optional<Record> best_;
    double seconds_to_compare_;
    int64_t seen_row_ = 0; // of the database
    int trials_ = 0;       // counted towards options_.trials
    int under_way_ = 0;    // with the judge
    bool in_hand_ = false; // some candidate waits to be submitted
    bool exhausted_ = false;
};

} // namespace kumiko
