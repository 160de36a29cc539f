// Tunes several tasks that share a budget.
#include "autotune/session.h"
#include "autotune/tune_progress.h"

#include <algorithm>
#include <limits>

namespace kumiko {

namespace {

constexpr int slice = 16; // trials of one task before another continues

// One task, or several with the same formula.
struct Part {
    size_t index; // of the first of them
    double weight;
    TuneOptions options;
    std::unique_ptr<Session> session = nullptr; // null: it cannot be tuned
    std::exception_ptr failed = nullptr;        // the reason
    int beyond = 0;                             // trials known before that exceed the task's share
    bool had_turn = false;
};

// A task that cannot be tuned reports its error; the others continue.
class Shared {
public:
    Shared(const std::vector<TuneTask> &tasks, const Machine &machine, const CpuTarget &cpu, const TuneOptions &options,
           std::vector<TuneReport> &reports)
        : tasks_(tasks), options_(options), reports_(reports) {
        reports_.assign(tasks.size(), {});
        progress_ = make_progress(options, "tuning", 0);
        for (size_t i = 0; i < tasks.size(); i++) {
            const auto twin = std::find_if(parts_.begin(), parts_.end(), [&](const Part &p) {
                return tasks[p.index].op.hash() == tasks[i].op.hash() && tasks[p.index].ahead == tasks[i].ahead;
            });
            part_of_.push_back(static_cast<size_t>(twin - parts_.begin()));
            if (twin != parts_.end()) {
                twin->weight += tasks[i].weight;
                continue;
            }
            Part part{i, tasks[i].weight, options};
            part.options.trials = static_cast<int>(std::min<int64_t>(int64_t(4) * options.trials, INT32_MAX));
            part.options.recipe = tasks[i].recipe;
            part.options.ahead = tasks[i].ahead;
            parts_.push_back(std::move(part));
        }
        for (Part &part : parts_) {
            attempt(part, [&] {
                part.session =
                    std::make_unique<Session>(tasks[part.index].op, machine, cpu, part.options, reports_[part.index]);
                part.beyond = std::max(0, part.session->trials() - options.trials);
                part.session->on_notice(
                    [this](const std::string &text) { show_notice(options_, progress_.get(), text); });
            });
        }
        progress_->set_known(spent());
        // All tasks are compared at the end; at least half of the budget is for the search.
        to_compare_ = std::min(options.final_seconds * static_cast<double>(living()), 0.5 * options.seconds);
        for (const Part &part : parts_) {
            if (part.session) part.session->leave_to_compare(to_compare_);
        }
    }

    std::vector<std::optional<Record>> tune() {
        while (spent() < budget()) {
            Part *next = next_part();
            if (!next || interrupted()) break;
            advance(*next);
            // The arrays of many tasks may be large.
            if (parts_.size() > 4 && next->session) next->session->release_runner();
        }
        progress_->finish();
        if (living() == 0 && !parts_.empty()) std::rethrow_exception(parts_[0].failed);
        const bool budget_ended = spent() < budget() && std::any_of(parts_.begin(), parts_.end(), [](const Part &p) {
                                      return p.session && p.session->budget_over();
                                  });
        std::vector<std::optional<Record>> best(tasks_.size());
        for (Part &part : parts_) {
            if (!part.session) continue;
            if (part.session->best()) best[part.index] = part.session->conclude();
            part.session->release_runner();
        }
        for (const Part &part : parts_) {
            TuneReport &report = reports_[part.index];
            report.budget_ended = budget_ended && part.session && report.used_up.empty();
        }
        for (size_t i = 0; i < tasks_.size(); i++) {
            const size_t first = parts_[part_of_[i]].index;
            if (first == i) continue;
            best[i] = best[first];
            reports_[i] = of_twin(reports_[first]);
        }
        return best;
    }

private:
    // An error before the first measurement belongs to the task.
    template<typename F>
    void attempt(Part &part, F f) {
        TuneReport &report = reports_[part.index];
        try {
            return f();
        } catch (const Halide::Error &e) {
            report.error = std::string("Halide: ") + e.what();
            part.failed = std::current_exception();
        } catch (const PlacedError &e) {
            report.error = e.message();
            part.failed = std::current_exception();
        }
        if (report.measured > 0) std::rethrow_exception(part.failed);
        part.session.reset();
        show_notice(options_, progress_.get(), tasks_[part.index].op.name() + " cannot be tuned: " + report.error);
    }

    bool interrupted() const { return options_.interrupt && *options_.interrupt; }
    int64_t living() const {
        return std::count_if(parts_.begin(), parts_.end(), [](const Part &p) { return p.session != nullptr; });
    }
    int64_t budget() const { return int64_t(options_.trials) * living(); }
    int64_t spent() const {
        int64_t sum = 0;
        for (const Part &p : parts_) sum += p.session ? p.session->trials() - p.beyond : 0;
        return sum;
    }

    // Initial trials of each task, including those known before; they precede all later ones.
    int first_trials() const { return std::min(slice, options_.trials); }
    bool waits(const Part &p) const {
        return p.session && !p.had_turn && p.session->trials() < first_trials() && !p.session->over();
    }

    Part *next_part() {
        Part *next = nullptr;
        double most = 0;
        for (Part &part : parts_) {
            if (!part.session || part.session->over()) continue;
            const double gain =
                waits(part) ? std::numeric_limits<double>::max() : part.weight * part.session->expected_gain();
            if (gain > most) next = &part, most = gain;
        }
        return next;
    }

    void advance(Part &part) {
        // The initial turns share the remaining time equally.
        double seconds = std::numeric_limits<double>::infinity();
        if (options_.seconds > 0 && waits(part)) {
            const auto waiting = static_cast<double>(
                std::count_if(parts_.begin(), parts_.end(), [&](const Part &p) { return waits(p); }));
            seconds = std::max(0.0, options_.seconds - watch_.seconds() - to_compare_) / waiting;
        }
        const int64_t trials = waits(part) ? first_trials() - part.session->trials() : slice;
        part.had_turn = true;
        progress_->set_total(budget());
        const auto show = [&] {
            progress_->update(spent(), tasks_[part.index].op.name() + ": " + part.session->note());
        };
        attempt(part,
                [&] { part.session->advance(static_cast<int>(std::min(trials, budget() - spent())), show, seconds); });
    }

    // The report of a task with the same formula: everything is known from the first one.
    static TuneReport of_twin(TuneReport report) {
        report.known += report.measured;
        report.measured = 0;
        report.seconds = report.search_seconds = 0;
        report.best_so_far.clear();
        report.records.clear();
        report.rejections.clear();
        report.by_worker.clear();
        return report;
    }

    const std::vector<TuneTask> &tasks_;
    const TuneOptions &options_;
    std::vector<TuneReport> &reports_;
    const Stopwatch watch_;
    double to_compare_ = 0; // seconds
    std::vector<Part> parts_;
    std::vector<size_t> part_of_; // by task
    std::unique_ptr<Progress> progress_;
};

} // namespace

std::vector<std::optional<Record>> tune_all(const std::vector<TuneTask> &tasks, const Machine &machine,
                                            const CpuTarget &cpu, const TuneOptions &options,
                                            std::vector<TuneReport> *reports) {
    std::vector<TuneReport> own;
    return Shared(tasks, machine, cpu, options, reports ? *reports : own).tune();
}

} // namespace kumiko
