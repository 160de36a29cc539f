#include "driver/tuned.h"

#include "autotune/work.h"
#include "support/json.h"

#include <memory>
#include <tuple>

namespace kumiko {

namespace {

std::optional<Record> find(const Database &database, const Op &op, const Machine &machine, BestOptions options) {
    bool complete = true; // run-time sizes need not be known here
    for (const std::string &s : op.sizes()) complete = !options.sizes.emplace(s, 1).second && complete;
    const TaskKey wanted = task_key(op, machine, options);
    if (complete) {
        if (auto exact = database.best(wanted, machine)) return exact;
    }
    std::optional<Record> found;
    for (const Database::TaskSummary &task : database.tasks()) {
        if (task.key.op_hash != wanted.op_hash || task.key.machine != wanted.machine || task.ok == 0) continue;
        if (found && std::abs(found->key.threads - wanted.threads) <= std::abs(task.key.threads - wanted.threads))
            continue;
        if (auto record = database.best(task.key, machine)) found = std::move(record);
    }
    return found;
}

} // namespace

std::optional<ChosenSchedule> tuned_schedule(const Op &op, const Machine &machine, const std::string &database,
                                             const BestOptions &options) {
    return tuned_schedules(database, options)(op, machine, packed_by(options.ahead));
}

ScheduleSource tuned_schedules(const std::string &database, const BestOptions &options) {
    auto opened = std::make_shared<const Database>(database, Database::Mode::Read);
    return [opened, options](const Op &op, const Machine &machine, PackedBy who) -> std::optional<ChosenSchedule> {
        BestOptions wanted = options;
        wanted.ahead = who == PackedBy::Caller;
        const auto record = find(*opened, op, machine, wanted);
        if (!record) return {};
        return ChosenSchedule{Json(*record->saved_schedule), record->parameters, record->seconds(),
                              rate_text(count_work(op, record->key.sizes), record->seconds()), "tuned"};
    };
}

} // namespace kumiko
