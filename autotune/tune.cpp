#include "autotune/tune.h"

#include "autotune/session.h"
#include "autotune/spaces/auto_space.h"
#include "autotune/spaces/stage_sketch.h"
#include "schedules/library/table.h"

#include <algorithm>

namespace kumiko {

namespace {

constexpr int slice = 16; // trials of one task before another may go on

int resolved_threads(int threads, const Machine &machine) {
    if (threads < 0) throw UserError("a kernel cannot use " + std::to_string(threads) + " threads");
    if (threads > 0) return threads;
    return machine.find_unit("core") ? static_cast<int>(std::max<int64_t>(1, machine.units_in_all("core"))) : 1;
}

std::ostream &no_stream() {
    static std::ostream none(nullptr);
    return none;
}

std::unique_ptr<Progress> make_progress(const TuneOptions &options, const std::string &title, int total) {
    const bool shown = options.progress && !options.quiet;
    return std::make_unique<Progress>(shown ? *options.progress : no_stream(),
                                      shown ? options.style : ProgressStyle::Quiet, title, total);
}

// Without a bar, too: who waits for nothing should know.
void show_notice(const TuneOptions &options, Progress *progress, const std::string &text) {
    if (!options.progress) return;
    if (progress && !options.quiet)
        progress->line(text);
    else
        *options.progress << text << std::endl;
}

} // namespace

std::pair<std::string, std::unique_ptr<Space>> space_for(const Op &op, const Machine &machine, SpaceKind kind) {
    if (machine.architecture == "chip") {
        const LibraryTemplate *of_chip = library::fitting_template(op, machine);
        if (kind == SpaceKind::Library && !of_chip) library::find_template(op, machine); // says what the library has
        if (kind == SpaceKind::Auto || !of_chip) return {"auto", auto_space(op, machine)};
        return {of_chip->name, of_chip->make_space(op, machine)};
    }
    const LibraryTemplate &fitting = *library::find_template(op); // the last one takes any op
    // Schedules of rows and of anything keep no tile of results: they leave what tiles would read less.
    const bool general = fitting.name == "elementwise" || fitting.name == "rows" || fitting.name == "reduce";
    const bool poor =
        general && std::any_of(op.stages().begin(), op.stages().end(), [&](const Stage &s) {
            return s.is_reduction() && (fitting.name == "elementwise" || !sketch_stage(s, machine).tiles.empty());
        });
    if (kind == SpaceKind::Auto || (kind == SpaceKind::Fitting && poor)) return {"auto", auto_space(op, machine)};
    return {fitting.name, fitting.make_space(op, machine)};
}

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
    Session session(op, machine, cpu, options, report ? *report : own);
    if (!session.over()) {
        const auto progress = make_progress(options, "tuning " + op.name(), options.trials);
        progress->update(session.trials());
        session.on_notice([&](const std::string &text) { show_notice(options, progress.get(), text); });
        session.advance(options.trials, [&] { progress->update(session.trials(), session.note()); });
        progress->finish(session.note());
    }
    session.on_notice([&](const std::string &text) { show_notice(options, nullptr, text); });
    return session.finish();
}

std::vector<std::optional<Record>> tune_all(const std::vector<TuneTask> &tasks, const Machine &machine,
                                            const CpuTarget &cpu, const TuneOptions &options,
                                            std::vector<TuneReport> *reports) {
    std::vector<TuneReport> own;
    std::vector<TuneReport> &all = reports ? *reports : own;
    all.assign(tasks.size(), {});
    const int64_t budget = int64_t(options.trials) * static_cast<int64_t>(tasks.size());
    std::vector<TuneOptions> each(tasks.size(), options);
    const Stopwatch watch;
    std::vector<std::unique_ptr<Session>> sessions;
    for (size_t i = 0; i < tasks.size(); i++) {
        each[i].trials = static_cast<int>(std::min<int64_t>(int64_t(4) * options.trials, INT32_MAX));
        each[i].recipe = tasks[i].recipe;
        sessions.push_back(std::make_unique<Session>(tasks[i].op, machine, cpu, each[i], all[i]));
    }
    // Every task is compared when all are done; half of the budget is for the search in any case.
    const double to_compare = options.final_seconds * static_cast<double>(tasks.size());
    for (const auto &s : sessions) s->leave_to_compare(std::min(to_compare, 0.5 * options.seconds));
    // What was known of a task beyond its share was not taken from the others'.
    std::vector<int> beyond;
    for (const auto &s : sessions) beyond.push_back(std::max(0, s->trials() - options.trials));
    const auto spent = [&] {
        int64_t sum = 0;
        for (size_t i = 0; i < sessions.size(); i++) sum += sessions[i]->trials() - beyond[i];
        return sum;
    };
    const auto progress = make_progress(options, "tuning", static_cast<int>(std::min<int64_t>(budget, INT32_MAX)));
    for (const auto &s : sessions)
        s->on_notice([&](const std::string &text) { show_notice(options, progress.get(), text); });
    while (spent() < budget) {
        Session *next = nullptr;
        size_t which = 0;
        double most = 0;
        for (size_t i = 0; i < sessions.size(); i++) {
            Session &s = *sessions[i];
            // Every task's first trials come before anyone's later ones.
            const double gain = s.trials() < slice ? 1e30 : tasks[i].weight * s.expected_gain();
            if (!s.over() && gain > most) next = &s, most = gain, which = i;
        }
        if (!next || (options.interrupt && *options.interrupt)) break;
        next->advance(static_cast<int>(std::min<int64_t>(slice, budget - spent())), [&] {
            progress->update(static_cast<int>(spent()), tasks[which].op.name() + ": " + next->note());
        });
        if (sessions.size() > 4) next->rest(); // arrays of many tasks together may be large
    }
    progress->finish();
    std::vector<std::optional<Record>> best(tasks.size());
    for (size_t i = 0; i < sessions.size(); i++) {
        if (sessions[i]->best()) best[i] = sessions[i]->conclude();
        sessions[i]->rest();
    }
    return best;
}

std::optional<Record> best(const Op &op, const Machine &machine, const std::string &database,
                           const BestOptions &options) {
    return Database(database, Database::Mode::Read)
        .best(task_key(op, machine, options.threads, options.sizes), machine);
}

} // namespace kumiko
