#include "autotune/tune.h"

#include "autotune/build_ahead.h"
#include "autotune/search.h"
#include "autotune/work.h"
#include "schedules/library/table.h"

#include <cmath>
#include <limits>

namespace kumiko {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr size_t batch_size = 8, finalists = 5;

int resolved_threads(int threads, const Machine &machine) {
    if (threads < 0) throw UserError("a kernel cannot use " + std::to_string(threads) + " threads");
    if (threads > 0) return threads;
    return machine.find_unit("core") ? static_cast<int>(std::max<int64_t>(1, machine.units_in_all("core"))) : 1;
}

// Reasons of one kind are counted together: without numbers.
std::string kind_of(const Record &r) {
    const std::string &text = r.reason;
    std::string kind;
    for (size_t i = 0; i < text.size(); i++) {
        const auto digit = [&](size_t k) {
            return k < text.size() && std::isdigit(static_cast<unsigned char>(text[k]));
        };
        if (!digit(i) || (i > 0 && std::isalpha(static_cast<unsigned char>(text[i - 1])))) {
            kind += text[i];
            continue;
        }
        while (digit(i + 1) || (text[i + 1] == '.' && digit(i + 2))) i++;
        kind += "#";
    }
    return outcome_name(r.outcome) + ": " + kind;
}

// One tuning session.
class Session {
public:
    Session(const Op &op, const Machine &machine, const CpuTarget &cpu, const TuneOptions &options, TuneReport &report)
        : op_(op), cpu_(cpu), options_(options), report_(report), space_(choose_space(op, machine, options)),
          key_(task_key(op, machine, options.threads, options.sizes)), work_(count_work(op, options.sizes)),
          search_(*space_, options.seed) {
        if (options.trials < 1)
            throw UserError("tuning needs at least one trial, not " + std::to_string(options.trials));
        if (!options.database.empty()) database_.emplace(options.database);
    }

    Record run() {
        recall();
        if (trials_ < options_.trials) search();
        if (!best_) give_up();
        if (report_.measured > 0 && options_.final_seconds > 0) compare();
        report_.seconds = watch_.seconds();
        return *best_;
    }

private:
    const Op &op_;
    const CpuTarget &cpu_;
    const TuneOptions &options_;
    TuneReport &report_;
    std::unique_ptr<Space> own_space_;
    std::string template_name_;
    const Space *space_;
    TaskKey key_;
    Work work_;
    Search search_;
    NoRanker no_ranker_;
    std::optional<Database> database_;
    std::optional<MeasureTask> task_;
    std::optional<Measurer> measurer_;
    Stopwatch watch_;
    std::map<std::string, Record> records_;      // by schedule hash
    std::map<std::string, Candidate> finalists_; // good candidates with their objects, by schedule hash
    std::optional<Record> best_;
    int trials_ = 0; // counted towards options_.trials

    const Space *choose_space(const Op &op, const Machine &machine, const TuneOptions &options) {
        if (options.space) return options.space;
        const LibraryTemplate *found = library::find_template(op);
        if (!found)
            throw Unsupported("the library has no schedule for an op like " + op.name() +
                              " whose parameters could be tuned; give a space of your own");
        template_name_ = found->name;
        own_space_ = found->make_space(op, machine);
        return own_space_.get();
    }

    // What earlier sessions found counts as if it had been measured here.
    void recall() {
        if (!database_ || options_.fresh) return;
        for (Record &r : database_->records(key_, space_->machine())) {
            if (r.library_template != template_name_) continue;
            try {
                search_.tell(space_->from_json(r.parameters), r.outcome == Outcome::Ok ? r.seconds() : infinity);
            } catch (const UserError &) {
                continue; // of a space that has changed since
            }
            if (r.outcome == Outcome::Illegal) continue;
            trials_++;
            report_.known++;
            if (r.outcome != Outcome::Ok) report_.failures[kind_of(r)]++;
            records_[r.schedule_hash] = r;
        }
        best_ = database_->best(key_, space_->machine());
        if (best_ && !records_.count(best_->schedule_hash)) best_.reset();
    }

    bool over() const {
        if (options_.interrupt && *options_.interrupt) return true;
        return options_.seconds > 0 && watch_.seconds() > options_.seconds - options_.final_seconds &&
               report_.measured > 0;
    }

    void search() {
        Progress progress(options_.progress ? *options_.progress : no_stream(),
                          options_.progress && !options_.quiet ? options_.style : ProgressStyle::Quiet,
                          "tuning " + op_.name(), options_.trials);
        progress.update(trials_);
        while (trials_ < options_.trials && !over() && report_.rejected < 100 + 20 * options_.trials) {
            std::vector<Candidate> batch = next_batch(std::min<size_t>(batch_size, options_.trials - trials_));
            if (batch.empty()) break; // the space is used up
            BuildAhead builder(*space_, cpu_, std::move(batch),
                               2 * key_.threads <= static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
            begin_measuring(); // the reference is computed while the first batch is being built
            while (std::optional<Candidate> candidate = builder.next()) {
                measure(*candidate);
                progress.update(trials_, note());
                if (over()) break;
            }
        }
        report_.interrupted = options_.interrupt && *options_.interrupt;
        progress.finish(note());
    }

    static std::ostream &no_stream() {
        static std::ostream none(nullptr);
        return none;
    }

    std::string note() const {
        return best_ ? "best " + duration_text(best_->seconds()) + ", " + rate_text(work_, best_->seconds())
                     : "nothing good yet";
    }

    // Proposals become schedules; what is not legal, or is a schedule already known under another name, ends here.
    std::vector<Candidate> next_batch(size_t n) {
        std::vector<Candidate> batch;
        while (batch.size() < n && report_.rejected < 100 + 20 * options_.trials) {
            const std::vector<Point> points = ranked(search_.propose(n - batch.size()));
            if (points.empty()) break;
            for (const Point &point : points) {
                Candidate candidate = make_candidate(*space_, point);
                if (candidate.outcome == Outcome::Illegal) {
                    report_.rejected++;
                    keep(candidate, {});
                    continue;
                }
                const auto known = records_.find(candidate.schedule_hash);
                const bool twice = std::any_of(batch.begin(), batch.end(), [&](const Candidate &c) {
                    return c.schedule_hash == candidate.schedule_hash;
                });
                if (known != records_.end())
                    search_.tell(point, known->second.outcome == Outcome::Ok ? known->second.seconds() : infinity);
                else if (!twice)
                    batch.push_back(std::move(candidate));
            }
        }
        return batch;
    }

    std::vector<Point> ranked(std::vector<Point> points) {
        if (!options_.ranker) return points;
        std::vector<RankedCandidate> candidates;
        for (const Point &p : points) {
            candidates.push_back({p, {}});
            try {
                if (options_.features) candidates.back().features = options_.features->extract(space_->schedule(p));
            } catch (const std::exception &) { // not legal, which is found out in its turn
            }
        }
        std::vector<Point> order;
        for (size_t i : options_.ranker->rank(candidates)) order.push_back(points.at(i));
        return order;
    }

    void begin_measuring() {
        if (measurer_) return;
        task_.emplace(op_, options_.sizes);
        measurer_.emplace(*task_, MeasurerOptions{options_.measurer, key_.threads, options_.memory_mib});
        report_.reference_seconds = task_->reference_seconds();
        report_.exact = task_->exact();
        report_.clock_hz = measurer_->clock_hz();
    }

    double timeout() const {
        if (!best_) return options_.timeout;
        return std::min(options_.timeout, std::max(1.0, 100 * best_->timing.least));
    }

    Measured judge(const Candidate &candidate) {
        if (candidate.outcome != Outcome::Ok) return {candidate.outcome, candidate.reason, {}, 0};
        Measured first = measurer_->load(0, candidate.object, candidate.symbol, timeout());
        if (first.outcome != Outcome::Ok) return first;
        // Far behind: one call says enough.
        if (best_ && first.timings[0].least > 4 * best_->timing.least + 0.02) return first;
        Measurer::RunOptions run;
        run.budget = options_.trial_seconds;
        run.give_up_above = best_ ? 1.25 * best_->timing.least : 0;
        run.timeout = 2 * options_.trial_seconds + 12 * timeout();
        return measurer_->run({0}, run);
    }

    void measure(Candidate &candidate) {
        Measured measured = judge(candidate);
        if (measured.outcome == Outcome::Ok) {
            const double least = least_possible_seconds(work_, space_->machine(), key_.threads, measurer_->clock_hz());
            if (measured.timings[0].least < least) {
                measured.outcome = Outcome::Impossible;
                measured.reason = "faster than this machine can be";
            }
        }
        trials_++;
        report_.measured++;
        const Record record = keep(candidate, measured);
        if (record.outcome == Outcome::Ok) {
            if (!best_ || record.seconds() < best_->seconds()) best_ = record;
            if (record.timing.least < 1.3 * best_->timing.least || candidate.point == space_->default_point()) {
                finalists_[candidate.schedule_hash] = std::move(candidate);
            }
        }
        report_.best_so_far.push_back(best_ ? best_->seconds() : infinity);
    }

    // Into the database, the search, and the report.
    Record keep(const Candidate &candidate, const Measured &measured) {
        Record r;
        r.key = key_;
        r.machine = space_->machine();
        r.library_template = template_name_;
        r.parameters = space_->to_json(candidate.point);
        r.saved_schedule = candidate.schedule;
        r.schedule_hash = candidate.schedule_hash;
        r.outcome = candidate.outcome == Outcome::Ok ? measured.outcome : candidate.outcome;
        r.reason = candidate.outcome == Outcome::Ok ? measured.reason : candidate.reason;
        if (r.outcome == Outcome::Ok) r.timing = measured.timings.at(0);
        r.build_seconds = candidate.build_seconds;
        r.seed = options_.seed;
        if (database_) database_->add(op_, r);
        const double seconds = r.outcome == Outcome::Ok ? r.timing.least : infinity;
        search_.tell(candidate.point, seconds);
        if (options_.ranker && r.outcome != Outcome::Illegal)
            options_.ranker->learn({{candidate.point, {}}}, {seconds});
        if (r.outcome != Outcome::Ok) report_.failures[kind_of(r)]++;
        if (!r.schedule_hash.empty()) records_[r.schedule_hash] = r;
        return r;
    }

    // The best few and the default, in turns in one process: what differs then is the kernels, not the hour.
    void compare() {
        std::vector<Record> best;
        for (const auto &[hash, r] : records_) {
            if (r.outcome == Outcome::Ok) best.push_back(r);
        }
        std::sort(best.begin(), best.end(), [](const Record &a, const Record &b) { return a.seconds() < b.seconds(); });
        const Candidate beginning = make_candidate(*space_, space_->default_point());
        std::vector<Record> compared;
        for (const Record &r : best) {
            if (compared.size() < finalists || r.schedule_hash == beginning.schedule_hash) compared.push_back(r);
        }
        std::vector<size_t> slots;
        for (size_t i = 0; i < compared.size(); i++) {
            Candidate &candidate = finalists_[compared[i].schedule_hash];
            if (candidate.object.empty()) {
                candidate = make_candidate(*space_, space_->from_json(compared[i].parameters));
                build_candidate(*space_, cpu_, candidate);
            }
            if (candidate.outcome != Outcome::Ok) return;
            if (measurer_->load(i, candidate.object, candidate.symbol, options_.timeout).outcome != Outcome::Ok) return;
            slots.push_back(i);
        }
        Measurer::RunOptions run;
        run.budget = options_.final_seconds;
        run.tight = 0;
        run.timeout = 2 * options_.final_seconds + static_cast<double>(slots.size()) * 12 * timeout();
        const Measured result = measurer_->run(slots, run);
        // Who passed before and fails now leaves the search's own measurements to decide.
        if (result.outcome != Outcome::Ok) return;
        best_.reset();
        for (size_t i = 0; i < compared.size(); i++) {
            Record &r = compared[i];
            r.final_seconds = result.timings[i].median;
            if (database_) database_->set_final(key_, r.schedule_hash, *r.final_seconds);
            if (r.schedule_hash == beginning.schedule_hash) report_.default_seconds = *r.final_seconds;
            if (!best_ || r.seconds() < best_->seconds()) best_ = r;
        }
    }

    [[noreturn]] void give_up() {
        std::string text = "no candidate for " + op_.name() + " is good:";
        for (const auto &[reason, n] : report_.failures) text += "\n  " + std::to_string(n) + " × " + reason;
        if (report_.failures.empty()) text += " none was measured";
        throw UserError(text);
    }
};

} // namespace

TaskKey task_key(const Op &op, const Machine &machine, int threads, const Sizes &sizes) {
    Sizes used;
    for (const std::string &size : op.sizes()) {
        const auto found = sizes.find(size);
        if (found == sizes.end())
            throw UserError("op " + op.name() + " is tuned for given sizes: give a value for the size " + size);
        used[size] = found->second;
    }
    return {op.name(), op.hash(), used, machine.id(), resolved_threads(threads, machine)};
}

Record tune(const Op &op, const Machine &machine, const CpuTarget &cpu, const TuneOptions &options,
            TuneReport *report) {
    TuneReport own;
    return Session(op, machine, cpu, options, report ? *(*report = {}, report) : own).run();
}

std::optional<Record> best(const Op &op, const Machine &machine, const std::string &database,
                           const BestOptions &options) {
    return Database(database, Database::Mode::Read)
        .best(task_key(op, machine, options.threads, options.sizes), machine);
}

} // namespace kumiko
