#include "autotune/hints.h"

#include <algorithm>
#include <tuple>

namespace kumiko {

std::vector<Hint> hints(const Op &op, const Machine &machine, const std::string &database, const BestOptions &options) {
    const Database opened(database, Database::Mode::Read);
    const TaskKey wanted = task_key(op, machine, options);
    std::vector<Hint> all;
    for (const Database::TaskSummary &t : opened.tasks()) {
        if (t.key.op_hash != wanted.op_hash || t.key.sizes != wanted.sizes || t.key.machine == wanted.machine) continue;
        if (!KeyMachine::parse(t.key.machine).same_conditions(KeyMachine::parse(wanted.machine))) continue;
        auto record = opened.best(t.key, machine);
        if (!record) continue;
        Hint hint{std::move(*record), ""};
        try {
            hint.record.schedule(op);
            // Newer version, or instructions or register sizes that this machine lacks.
        } catch (const PlacedError &e) {
            hint.unfit = e.what();
        }
        all.push_back(std::move(hint));
    }
    std::stable_sort(all.begin(), all.end(), [&](const Hint &a, const Hint &b) {
        const auto rank = [&](const Hint &h) {
            return std::tuple(!h.unfit.empty(), std::abs(h.record.key.threads - wanted.threads), h.record.seconds());
        };
        return rank(a) < rank(b);
    });
    return all;
}

} // namespace kumiko
