// The end of a session, and its messages on the way.
#include "autotune/failure.h"
#include "autotune/session.h"

#include "support/duration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace kumiko {

namespace {

constexpr double shortest_comparison = 0.01; // seconds

} // namespace

// Compares the finalists and the default in alternation in one process, so that all see the same
// machine load. Times of an earlier comparison are not comparable: its winner is compared again,
// and the times of the others are discarded.
void Session::compare() {
    begin_measuring();
    std::vector<Record> good;
    for (const auto &[hash, r] : records_) {
        if (r.outcome == Outcome::Ok) good.push_back(r);
    }
    const auto first =
        std::min_element(good.begin(), good.end(), [](const Record &a, const Record &b) { return a.ranks_before(b); });
    const std::string winner = first != good.end() && first->final_seconds ? first->schedule_hash : "";
    const auto rank = [&](const Record &r) { return std::pair(r.schedule_hash != winner, r.timing.least); };
    std::stable_sort(good.begin(), good.end(), [&](const Record &a, const Record &b) { return rank(a) < rank(b); });
    const Candidate beginning = make_candidate(*space_, space_->default_point());
    std::vector<Record> compared;
    std::vector<Candidate> candidates;
    double expected = 0; // seconds
    bool left_out = false;
    for (const Record &r : good) {
        if (interrupted()) return;
        if (compared.size() >= compared_at_most && r.schedule_hash != beginning.schedule_hash) continue;
        const auto built = finalists_.find(r.schedule_hash);
        const double takes = calls_to_compare * r.timing.least + (built != finalists_.end() ? 0 : r.build_seconds);
        if (expected + takes > seconds_left()) { // the remaining ones are slower
            left_out = true;
            break;
        }
        expected += takes;
        Candidate candidate = again(r);
        if (!is_sound(r, candidate)) continue;
        compared.push_back(r);
        candidates.push_back(std::move(candidate));
    }
    if (compared.empty() || (left_out && compared.size() < 2)) return;
    const std::vector<Measured> results = runner_->compare(
        std::move(candidates), std::min(options_.final_seconds, std::max(shortest_comparison, seconds_left())),
        [this] { return interrupted() || seconds_left() < 0; });
    std::optional<Record> fastest;
    std::set<std::string> timed;               // schedule hashes
    bool no_room = false, nothing_else = true; // reasons why some were not compared
    for (size_t i = 0; i < compared.size(); i++) {
        Record &r = compared[i];
        no_room = no_room || results[i].no_room;
        nothing_else = nothing_else && (results[i].no_room || results[i].outcome != Outcome::Ok);
        if (results[i].outcome != Outcome::Ok) {
            refute(r, results[i]);
        } else if (!results[i].timings.empty()) {
            timed.insert(r.schedule_hash);
            r.final_seconds = results[i].timings[0].median;
            if (const auto known = records_.find(r.schedule_hash); known != records_.end()) known->second = r;
            if (r.schedule_hash == beginning.schedule_hash) report_.default_seconds = *r.final_seconds;
            if (!fastest || r.seconds() < fastest->seconds()) fastest = r;
        }
    }
    if (no_room && notice_ && (!timed.empty() || nothing_else))
        notice_(!timed.empty()
                    ? fmt::format("{}: there was memory to compare {} of the best {} side by side; the others keep "
                                  "the times of the search",
                                  op_.name(), timed.size(), compared.size())
                    : fmt::format("{}: there was no memory to compare the best {} side by side; the times of the "
                                  "search decide",
                                  op_.name(), compared.size()));
    // If no comparison was completed, the search's own measurements decide.
    const auto known = records_.find(best_->schedule_hash);
    if (fastest) {
        best_ = fastest;
        keep_comparison(timed);
    } else if (known != records_.end() && known->second.outcome != Outcome::Ok)
        choose_best();
}

// Stores the times of exactly one comparison in one transaction, whenever the program ends.
void Session::keep_comparison(const std::set<std::string> &timed) {
    const auto keep_all = [&] {
        for (auto &[hash, r] : records_) {
            if (!r.final_seconds) continue;
            if (!timed.count(hash)) r.final_seconds.reset();
            if (database_) database_->set_final(key_, hash, r.final_seconds);
        }
    };
    if (database_)
        database_->in_transaction(keep_all);
    else
        keep_all();
}

// Replaces the result of a candidate that was good by its failure.
void Session::refute(const Record &record, const Measured &found) {
    Candidate candidate = {.point = space_->from_json(record.parameters),
                           .schedule = record.saved_schedule,
                           .schedule_hash = record.schedule_hash,
                           .build_seconds = record.build_seconds,
                           .origin = record.origin,
                           .features = record.features,
                           .estimated_seconds = record.estimated_seconds,
                           .predicted = record.predicted};
    replace_in_report(keep(candidate, found, true));
}

void Session::replace_in_report(const Record &now) {
    std::replace_if(
        report_.records.begin(), report_.records.end(),
        [&](const Record &r) { return r.schedule_hash == now.schedule_hash; }, now);
}

// The candidate of a record; not Ok if the space no longer accepts its parameters. Its schedule is
// the measured one, even if the space now produces another.
Candidate Session::again(const Record &record) const {
    const auto built = finalists_.find(record.schedule_hash);
    if (built != finalists_.end()) return built->second;
    Candidate candidate = make_candidate(*space_, space_->from_json(record.parameters));
    if (candidate.outcome != Outcome::Ok || candidate.schedule_hash == record.schedule_hash) return candidate;
    candidate = {.point = candidate.point, .schedule = record.saved_schedule, .schedule_hash = record.schedule_hash};
    try {
        candidate.made = record.schedule(op_);
    } catch (const UserError &e) {
        candidate.outcome = Outcome::Illegal;
        candidate.reason = e.what();
    }
    return candidate;
}

// Whether the verifier accepts the nest; if not, the failure is stored as the candidate's outcome.
bool Session::is_sound(const Record &record, const Candidate &candidate) {
    if (sound_.count(record.schedule_hash)) return true;
    // A candidate that is no longer accepted is unchanged in the database.
    if (candidate.outcome != Outcome::Ok) {
        Record refused = record;
        refused.outcome = candidate.outcome, refused.reason = candidate.reason;
        records_.erase(record.schedule_hash);
        replace_in_report(refused);
        return false;
    }
    const std::string fault = fault_of(*space_, candidate);
    if (fault.empty()) return sound_.insert(record.schedule_hash).second;
    refute(record, {Outcome::Unbuildable, fault, {}, 0});
    return false;
}

// Chooses among the candidates that are good at this point.
void Session::choose_best() {
    best_.reset();
    for (const auto &[hash, r] : records_) {
        if (r.outcome == Outcome::Ok && (!best_ || r.ranks_before(*best_))) best_ = r;
    }
}

// Only a verified candidate is called best, even if there was no time to compare.
void Session::settle() {
    while (best_ && !sound_.count(best_->schedule_hash)) {
        const auto known = records_.find(best_->schedule_hash); // missing if it was dropped
        if (known != records_.end() && known->second.outcome == Outcome::Ok && is_sound(*best_, again(*best_))) return;
        choose_best();
    }
}

std::optional<Record> Session::conclude() {
    const Stopwatch watch;
    const Adding adding{watch, report_.seconds};
    report_.budget_ended = !used_up() && trials_ < options_.trials && budget_over();
    if (best_ && report_.measured > 0 && options_.final_seconds > 0 && !interrupted() && seconds_left() > 0) compare();
    settle();
    report_.interrupted = interrupted();
    return best_;
}

Record Session::finish() {
    if (!conclude()) give_up();
    return *best_;
}

std::string Session::note() const {
    if (!best_) return "nothing good yet";
    std::string text = "best " + duration_text(best_->seconds()) + ", " + rate_text(work_, best_->seconds());
    const double bound = bound_seconds(work_, space_->machine(), key_.threads, facts_.clock_hz);
    if (bound > 0) text += ", " + roofline_text(bound, best_->seconds());
    return text;
}

double Session::expected_gain() const {
    constexpr double hardly_any = 1e-12;       // seconds
    constexpr size_t last_trials = 16;         // of which the progress counts
    constexpr double before_first_success = 2; // times the best time
    // Of the best time, at `last_trials` trials; then less.
    constexpr double expected_progress = 0.02;
    if (!best_) return hardly_any;
    const std::vector<double> &curve = report_.best_so_far;
    const size_t n = curve.size();
    if (n < last_trials) return best_->seconds();
    const double then = curve[n - last_trials];
    const double before = std::isfinite(then) ? then : best_->seconds() * before_first_success;
    return std::max(before - curve[n - 1], expected_progress * best_->seconds() * last_trials / static_cast<double>(n));
}

void Session::give_up() const {
    std::string text = "no candidate for " + op_.name() + " is good:";
    for (const auto &[kind, n] : report_.failures) {
        text += "\n  " + std::to_string(n) + " × " + report_.failure_examples.at(kind);
    }
    if (report_.failures.empty()) text += " none was measured";
    throw UserError(text);
}

} // namespace kumiko
