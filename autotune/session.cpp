#include "autotune/session.h"

#include "autotune/chip_runner.h"
#include "autotune/failure.h"
#include "autotune/features/feature_sets.h"
#include "autotune/local_runner.h"
#include "autotune/queue_runner.h"
#include "autotune/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace kumiko {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
// The part of the budget that the comparison of slow kernels may take.
constexpr double max_to_compare = 0.1;
// The numbers of illegal candidates, in all and per trial, whose sum ends a session.
constexpr int64_t max_rejected = 100, max_rejected_per_trial = 20;
// Candidates take part in the final comparison up to this ratio to the best time.
constexpr double finalist_ratio = 1.3;
constexpr size_t first_batch = 4, later_batch = 8;
constexpr double lock_timeout = 60; // merging large files locks a database for seconds
// These trials run in small batches, so that each is chosen with the results of the previous one.
constexpr int first_trials = 16;

// The initial model. A given model file is always read and its kind checked, even if the search
// does not use it.
std::shared_ptr<const CostModel> model_for(const TuneOptions &options, const Machine &machine) {
    const bool asked = options.search == SearchMethod::Model;
    if (options.cost_model == "none") return std::make_shared<CostModel>();
    const FeatureSet &features = features_for(machine);
    if (options.cost_model.empty()) return asked ? CostModel::shipped(machine) : std::make_shared<CostModel>();
    auto model = std::make_shared<CostModel>(CostModel::load_file(options.cost_model));
    if (model->version() != features.version)
        throw UserError("the cost model " + options.cost_model + " was trained on features of " +
                        describe_features(model->version()) + "; candidates for " + machine.name + " have those of " +
                        describe_features(features.version) + ": kumiko learn --target " + machine.name +
                        " makes such a model");
    return asked ? model : std::make_shared<CostModel>();
}

} // namespace

Session::Session(const Op &op, const Machine &machine, const CpuTarget &cpu, const TuneOptions &options,
                 TuneReport &report)
    : op_(op), machine_(machine), cpu_(cpu), options_(options), report_(report = {}), space_(choose_space()),
      key_(task_key(op, machine, best_options(options))), work_(count_work(op, options.sizes)),
      filter_(*space_, key_.threads, key_.sizes, model_for(options, machine)),
      search_(*space_, options.seed, options.search, &filter_), seconds_to_compare_(options.final_seconds) {
    if (!options.workers.empty()) { // fail early, even if all trials are already known
        if (space_->machine().architecture == "chip")
            throw Unsupported("workers measure on processors; candidates for the chip are simulated on this machine");
        const Redis reachable(RedisAddress::parse(options.workers));
    }
    if (options.cold && space_->machine().architecture == "chip")
        throw Unsupported("candidates for the chip, which has no caches, cannot be measured with cold ones");
    if (options.trials < 1) throw UserError("tuning needs at least one trial, not " + std::to_string(options.trials));
    if (!options.database.empty()) database_.emplace(options.database, Database::Mode::ReadWrite, lock_timeout);
    filter_.end_when([this] {
        const bool any = in_hand_ || best_ || report_.measured + under_way_ > 0;
        return interrupted() || (any && late());
    });
    recall();
    if (!over()) require_possible();
    if (options_.search != SearchMethod::Random) {
        for (const Point &p : space_->starts()) search_.suggest(p);
        take_hints();
    }
    report_.seconds = watch_.seconds();
}

Session::~Session() = default;

// Rejects tasks that cannot be measured before anything is tried. Workers check the memory of their
// own machines.
void Session::require_possible() const {
    const bool here = space_->machine().architecture != "chip" && options_.workers.empty();
    if (const std::string missing = here ? cpu_.missing_on(CpuTarget::host()) : ""; !missing.empty())
        throw UserError(fmt::format("kernels for {} cannot be timed on this machine, which lacks {}; legal are its own "
                                    "processor and the lesser levels of that",
                                    cpu_.triple, missing));
    if (space_->machine().architecture != "chip" && options_.workers.empty()) require_measurable(op_);
    if (options_.workers.empty()) require_memory(op_, key_.sizes, options_.longest_reference);
}

const Space *Session::choose_space() {
    if (options_.space && options_.ahead)
        throw UserError("TuneOptions::space and TuneOptions::ahead exclude each other: the schedules of a space of the "
                        "caller's own say themselves what is packed ahead. Leave out ahead, or leave out space for "
                        "the library's schedules that take weights packed ahead");
    if (options_.space) return options_.space;
    std::tie(template_name_, own_space_) = space_for(op_, machine_, options_.spaces, packed_by(options_.ahead));
    return own_space_.get();
}

bool Session::interrupted() const { return options_.interrupt && *options_.interrupt; }

double Session::seconds_left() const { return options_.seconds > 0 ? options_.seconds - watch_.seconds() : infinity; }

bool Session::late() const {
    if (interrupted()) return true;
    // Slow kernels take longer to compare: reserve up to a tenth of the budget.
    const double slow =
        best_ ? std::min(calls_to_compare * compared_at_most * best_->timing.least, max_to_compare * options_.seconds)
              : 0;
    return seconds_left() < std::max(seconds_to_compare_, options_.final_seconds > 0 ? slow : 0);
}

bool Session::out_of_time() const { return interrupted() || (report_.measured > 0 && late()); }

bool Session::used_up() const {
    return exhausted_ || report_.rejected >= max_rejected + max_rejected_per_trial * options_.trials;
}

bool Session::over() const {
    return trials_ >= options_.trials || out_of_time() || used_up() || !report_.unmeasured.empty();
}

void Session::advance(int n, const std::function<void()> &after_each, double seconds) {
    const Stopwatch watch;
    const Adding adding{watch, report_.seconds};
    const int goal = std::min(options_.trials, trials_ + n);
    begin_measuring();
    const auto take = [&](MeasureResult measure_result) {
        under_way_--;
        under_way_schedules_.erase(measure_result.candidate.schedule_hash);
        measure(std::move(measure_result));
        if (after_each) after_each();
    };
    while (true) {
        const auto paused = [&] { return watch.seconds() > seconds && report_.measured + under_way_ > 0; };
        while (!out_of_time() && !paused() && trials_ + under_way_ < goal &&
               under_way_ < static_cast<int>(runner_->wanted()) && !used_up()) {
            recall(); // results of other sessions since then
            if (trials_ + under_way_ >= goal) break;
            const size_t size = trials_ + under_way_ < first_trials ? first_batch : later_batch;
            std::vector<Candidate> batch = next_batch(std::min<size_t>(size, goal - trials_ - under_way_));
            if (out_of_time()) break; // the runner would be told to cancel them
            if (batch.empty()) exhausted_ = true;
            under_way_ += static_cast<int>(batch.size());
            runner_->submit(std::move(batch));
        }
        std::optional<MeasureResult> measure_result;
        try {
            if (!out_of_time()) measure_result = runner_->next(best_ ? best_->timing.least : infinity);
        } catch (const NoWorker &e) { // known results stay valid
            if (!best_ && report_.measured == 0) throw;
            if (report_.measured == 0) report_.unmeasured = e.message();
        }
        if (!measure_result) break;
        take(std::move(*measure_result));
    }
    for (MeasureResult &measured : runner_->cancel()) take(std::move(measured));
    under_way_ = 0;
    under_way_schedules_.clear();
    if (trials_ < goal && !out_of_time() && used_up())
        report_.used_up = exhausted_ ? fmt::format("nothing else in its space is legal and not known yet ({} rejected)",
                                                   report_.rejected)
                                     : fmt::format("{} candidates were rejected", report_.rejected);
}

// Turns proposals into candidates. Illegal points, and schedules already known under another point,
// are dropped here.
std::vector<Candidate> Session::next_batch(size_t n) {
    const Stopwatch watch;
    std::vector<Candidate> batch;
    in_hand_ = false;
    while (batch.size() < n && !used_up() && !out_of_time()) {
        const size_t left = static_cast<size_t>(options_.trials - trials_ - under_way_) - batch.size();
        const std::vector<Proposal> proposals = search_.propose(n - batch.size(), left);
        for (const Candidate &rejected : filter_.take_rejected()) {
            report_.rejected++;
            report_.rejections.push_back(keep(rejected, {}));
        }
        if (proposals.empty()) break;
        for (const Proposal &proposal : proposals) {
            if (out_of_time()) break;
            Candidate candidate = filter_.candidate(proposal);
            if (candidate.outcome != Outcome::Ok) {
                report_.rejected++;
                report_.rejections.push_back(keep(candidate, {}));
                continue;
            }
            const auto known = records_.find(candidate.schedule_hash);
            if (known != records_.end())
                search_.tell(proposal.point, known->second.outcome == Outcome::Ok ? known->second.seconds() : infinity);
            else if (under_way_schedules_.insert(candidate.schedule_hash).second)
                batch.push_back(std::move(candidate)), in_hand_ = true;
        }
        filter_.forget();
    }
    report_.search_seconds += watch.seconds();
    return batch;
}

void Session::begin_measuring() {
    if (runner_) return;
    runner_ = make_runner();
    take_facts();
}

std::unique_ptr<CandidateRunner> Session::make_runner() {
    const auto over = [this] { return out_of_time(); };
    if (space_->machine().architecture == "chip")
        return std::make_unique<ChipRunner>(
            *space_, ChipRunnerOptions{.longest_reference = options_.longest_reference, .over = over});
    const auto least_possible = [this](double clock_hz) {
        return least_possible_seconds(work_, space_->machine(), key_.threads, clock_hz);
    };
    if (options_.workers.empty()) {
        LocalRunnerOptions local;
        local.measurer = {options_.measurer, key_.threads, options_.memory_mib, options_.cold};
        local.trial_seconds = options_.trial_seconds;
        local.timeout = options_.timeout;
        local.build_timeout = options_.build_timeout;
        local.longest_reference = options_.longest_reference;
        local.least_possible = least_possible;
        local.over = over;
        return std::make_unique<LocalRunner>(*space_, cpu_, key_.sizes, local);
    }
    const QueueTask task = {options_.recipe,
                            key_.op_hash,
                            key_.sizes,
                            {space_->machine().id(), key_.threads},
                            cpu_,
                            options_.trial_seconds,
                            options_.timeout,
                            options_.build_timeout,
                            options_.memory_mib,
                            options_.longest_reference,
                            options_.cold};
    QueueRunnerOptions queue;
    queue.server = options_.workers;
    if (options_.seconds > 0) queue.patience = std::max(1.0, options_.seconds - watch_.seconds());
    queue.over = over;
    queue.least_possible = least_possible;
    queue.notice = [this](const std::string &text) {
        if (notice_) notice_(text);
    };
    return std::make_unique<QueueRunner>(task, queue);
}

void Session::take_facts() {
    facts_ = runner_->facts();
    report_.reference_seconds = facts_.reference_seconds;
    report_.exact = facts_.exact;
    report_.clock_hz = facts_.clock_hz;
    if (facts_.sampled > 0 && report_.checked_elements == 0 && notice_)
        notice_(fmt::format("{} takes long to evaluate: results are checked at a sample of {} elements", op_.name(),
                            facts_.sampled));
    report_.checked_elements = facts_.sampled;
}

void Session::release_runner() { runner_.reset(); }

void Session::measure(MeasureResult measure_result) {
    auto &[candidate, measured, worker] = measure_result;
    take_facts(); // workers report facts with each result
    if (!worker.empty()) report_.by_worker[worker]++;
    trials_++;
    report_.measured++;
    const Record record = keep(candidate, measured);
    if (record.outcome == Outcome::Ok) {
        if (!best_ || record.seconds() < best_->seconds()) best_ = record;
        if (candidate.origin == "default") report_.default_seconds = record.seconds();
        if (record.timing.least < finalist_ratio * best_->timing.least || candidate.point == space_->default_point())
            finalists_[candidate.schedule_hash] = std::move(candidate);
    }
    report_.best_so_far.push_back(best_ ? best_->seconds() : infinity);
    report_.records.push_back(record);
}

void Session::count_failure(const Record &r) {
    const std::string kind = failure_kind(r);
    report_.failures[kind]++;
    report_.failure_examples.emplace(kind, outcome_name(r.outcome) + ": " + r.reason);
}

// Stores the result in the database, the search, the model and the report.
Record Session::keep(const Candidate &candidate, const Measured &measured, bool instead) {
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
    r.features = candidate.features;
    r.estimated_seconds = candidate.estimated_seconds;
    r.predicted = candidate.predicted;
    r.origin = candidate.origin;
    if (database_ && (instead || options_.fresh))
        database_->replace(op_, r);
    else if (database_)
        database_->add(op_, r);
    const double seconds = r.outcome == Outcome::Ok ? r.timing.least : infinity;
    search_.tell(candidate.point, seconds, candidate.schedule_hash);
    filter_.model().tell(candidate.features, seconds);
    if (r.outcome != Outcome::Ok) count_failure(r);
    if (!r.schedule_hash.empty()) records_[r.schedule_hash] = r;
    return r;
}

} // namespace kumiko
