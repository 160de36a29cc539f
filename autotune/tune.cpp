#include "autotune/tune.h"

#include "autotune/build.h"
#include "autotune/choice.h"
#include "autotune/session.h"
#include "autotune/spaces/auto_space.h"
#include "autotune/spaces/stage_sketch.h"
#include "autotune/tune_progress.h"
#include "schedules/library/table.h"

#include <algorithm>

namespace kumiko {

namespace {

int resolved_threads(int threads, const Machine &machine) {
    if (threads < 0) throw UserError("a kernel cannot use " + std::to_string(threads) + " threads");
    if (threads > 0) return threads;
    return machine.find_unit("core") ? static_cast<int>(std::max<int64_t>(1, machine.units_in_all("core"))) : 1;
}

// Whether the default point, or one of a few random points, can be lowered.
bool has_schedule(const Space &space) {
    constexpr int samples = 16;
    Random random(1);
    for (int n = 0; n <= samples; n++) {
        const Point point = n == 0 ? space.default_point() : space.sample(random);
        if (can_be_lowered(space, point)) return true;
    }
    return false;
}

} // namespace

std::pair<std::string, std::unique_ptr<Space>> space_for(const Op &op, const Machine &machine, SpaceKind kind,
                                                         PackedBy packed_by) {
    if (packed_by == PackedBy::Caller) {
        if (kind == SpaceKind::Auto)
            throw Unsupported(
                "spaces made from formulas pack no operand ahead of time; those of the library's matrix products and "
                "convolutions do");
        const LibraryTemplate *packed = library::find_template(op, machine, packed_by);
        return {packed->name, packed->make_space(op, machine, packed_by)};
    }
    if (machine.architecture == "chip") {
        const LibraryTemplate *of_chip = library::fitting_template(op, machine);
        // Throws with what the library has.
        if (kind == SpaceKind::Library && !of_chip) library::find_template(op, machine);
        if (kind == SpaceKind::Auto || !of_chip) return {"auto", auto_space(op, machine)};
        return {of_chip->name, of_chip->make_space(op, machine)};
    }
    if (kind == SpaceKind::Auto) return {"auto", auto_space(op, machine)};
    const LibraryTemplate &fitting = *library::fitting_template(op, machine); // some match any op
    // Generic schedules are made by rules; a space can override them per stage.
    constexpr size_t most_stages = 64; // limit, because each adds parameters
    const bool any = fitting.name == "elementwise", rows = fitting.name == "rows" || fitting.name == "reduce";
    const std::vector<Stage> &stages = op.stages();
    const auto reduces = [](const Stage &s) { return s.is_reduction(); };
    const bool poor = any ? stages.size() > 1 || reduces(stages[0]) : rows && library_leaves_out(op, machine);
    if (kind == SpaceKind::Fitting && poor && stages.size() <= most_stages) {
        if (auto space = auto_space(op, machine, any ? nullptr : &fitting); has_schedule(*space))
            return {"auto", std::move(space)};
    }
    const auto &all = library::templates();
    for (auto t = std::find_if(all.begin(), all.end(), [&](const auto &t) { return &t == &fitting; });
         t + 1 != all.end(); ++t) {
        if (!t->matches(op)) continue;
        if (auto space = t->make_space(op, machine); has_schedule(*space)) return {t->name, std::move(space)};
    }
    return {all.back().name, all.back().make_space(op, machine)};
}

BestOptions best_options(const TuneOptions &o) {
    return {.threads = o.threads, .sizes = o.sizes, .cold = o.cold, .ahead = o.ahead};
}

std::string machine_of_key(const Machine &machine, const BestOptions &options) {
    return KeyMachine{machine.id(), options.cold, options.ahead}.text();
}

TaskKey task_key(const Op &op, const Machine &machine, const BestOptions &options) {
    Sizes used;
    for (const std::string &size : op.sizes()) {
        const auto found = options.sizes.find(size);
        if (found == options.sizes.end())
            throw UserError("op " + op.name() + " is tuned for given sizes: give a value for the size " + size);
        used[size] = found->second;
    }
    return {op.name(), op.hash(), used, machine_of_key(machine, options), resolved_threads(options.threads, machine)};
}

Record tune(const Op &op, const Machine &machine, const CpuTarget &cpu, const TuneOptions &options,
            TuneReport *report) {
    TuneReport own;
    Session session(op, machine, cpu, options, report ? *report : own);
    if (!session.over()) {
        const auto progress = make_progress(options, "tuning " + op.name(), options.trials);
        progress->set_known(session.trials());
        progress->update(session.trials());
        session.on_notice([&](const std::string &text) { show_notice(options, progress.get(), text); });
        session.advance(options.trials, [&] { progress->update(session.trials(), session.note()); });
        progress->finish(session.note());
    }
    session.on_notice([&](const std::string &text) { show_notice(options, nullptr, text); });
    return session.finish();
}

std::optional<Record> best(const Op &op, const Machine &machine, const std::string &database,
                           const BestOptions &options) {
    return Database(database, Database::Mode::Read).best(task_key(op, machine, options), machine);
}

} // namespace kumiko
