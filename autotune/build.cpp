#include "autotune/build.h"

#include "autotune/failure.h"
#include "autotune/features/chip_features.h"
#include "autotune/work.h"
#include "support/duration.h"
#include "support/hash.h"
#include "targets/cpu/crash_guard.h"
#include "targets/cpu/object.h"
#include "targets/lower/lower.h"

namespace kumiko {

namespace {

// Runs f; what it throws becomes the candidate's outcome.
void attempt(Candidate &candidate, Outcome outcome, const std::function<void()> &f) {
    if (auto reason = failure_of(f)) candidate.outcome = outcome, candidate.reason = std::move(*reason);
}

// Unrolled without measure, a nest takes seconds to compile and never wins.
constexpr size_t most_accesses = 4000;

} // namespace

std::string hash_of_schedule(const nlohmann::json &saved) {
    return hash_hex(saved.contains("directives") ? saved.at("directives").dump() : saved.dump());
}

std::pair<Candidate, std::optional<Schedule>> make_with_schedule(const Space &space, const Point &point) {
    std::pair<Candidate, std::optional<Schedule>> made;
    auto &[candidate, schedule] = made;
    candidate.point = point;
    attempt(candidate, Outcome::Illegal, [&candidate = candidate, &schedule = schedule, &space, &point] {
        schedule = space.schedule(point);
        candidate.schedule = schedule->to_json();
        candidate.schedule_hash = hash_of_schedule(candidate.schedule);
    });
    return made;
}

Candidate make_candidate(const Space &space, const Point &point) { return make_with_schedule(space, point).first; }

namespace {

Nest lower_candidate(const Schedule &schedule, bool verify, bool to_count = false) {
    LowerOptions lowering;
    lowering.verify = verify;
    lowering.to_count = to_count;
    lowering.kernel_name = "kumiko_candidate";
    lowering.most_accesses = most_accesses;
    return lower(schedule, lowering);
}

} // namespace

void describe(Candidate &candidate, const Schedule &schedule, const Space &space, int threads, const Sizes &sizes) {
    attempt(candidate, Outcome::Unbuildable, [&] {
        NestCost cost;
        if (space.machine().architecture == "chip") {
            cost = chip_cost_of(schedule, space.estimate(candidate.point));
        } else {
            const Nest nest = lower_candidate(schedule, false, true);
            cost = cost_of(nest, space.machine(), threads, sizes, count_work(space.op(), sizes).operations);
        }
        candidate.features = std::move(cost.features);
        candidate.estimated_seconds = cost.seconds;
    });
}

std::string fault_of(const Space &space, const Candidate &candidate) {
    if (space.machine().architecture == "chip") return ""; // the simulator has refused what breaks a rule
    Candidate again;
    attempt(again, Outcome::Unbuildable,
            [&] { lower_candidate(candidate.made ? *candidate.made : space.schedule(candidate.point), true); });
    return again.reason;
}

void build_candidate(const Space &space, const CpuTarget &target, Candidate &candidate) {
    const Stopwatch watch;
    attempt(candidate, Outcome::Unbuildable, [&] {
        if (!candidate.nest) {
            if (!candidate.made) candidate.made = space.schedule(candidate.point);
            candidate.nest = std::make_shared<const Nest>(lower_candidate(*candidate.made, false));
        }
        CodegenOptions codegen;
        codegen.target = target;
        survive_crashes([&] { candidate.object = compile_object({*candidate.nest}, codegen).bytes; });
        candidate.symbol = "kumiko_candidate_packed";
    });
    candidate.nest.reset();
    candidate.made.reset();
    candidate.build_seconds = watch.seconds();
}

} // namespace kumiko
