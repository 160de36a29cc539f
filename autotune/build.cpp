#include "autotune/build.h"

#include "autotune/failure.h"
#include "autotune/features/chip_features.h"
#include "autotune/work.h"
#include "dsl/buffers.h"
#include "support/duration.h"
#include "support/hash.h"
#include "targets/cpu/crash_guard.h"
#include "targets/cpu/object.h"
#include "targets/lower/lower.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <fmt/format.h>
#include <mutex>
#include <pthread.h>
#include <sched.h>
#include <thread>

namespace kumiko {

namespace {

// Runs f; an exception becomes the candidate's outcome.
void attempt(Candidate &candidate, Outcome outcome, const std::function<void()> &f) {
    if (auto reason = failure_of(f)) candidate.outcome = outcome, candidate.reason = std::move(*reason);
}

// Limit on loads and stores: an excessively unrolled nest takes seconds to compile and is never the
// fastest. A reduction step loads and stores each of its components.
size_t most_accesses(const Op &op) {
    constexpr size_t of_nest = 4000, of_stage = 200, of_component = 2000;
    size_t most = of_nest;
    for (const Stage &s : op.stages()) most += s.components.size() > 1 ? of_component * s.components.size() : of_stage;
    return most;
}

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
    lowering.most_accesses = most_accesses(schedule.op());
    Nest nest = lower(schedule, lowering);
    // Not named after the inputs: their names may exceed the measurer's limit.
    for (size_t i = 0; i < nest.packs.size(); i++) nest.packs[i].name = fmt::format("{}_pack_{}", nest.name, i);
    return nest;
}

} // namespace

bool can_be_lowered(const Space &space, const Point &point) {
    return !failure_of([&] { lower_candidate(space.schedule(point), true); });
}

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
    // The simulator already rejects rule violations.
    if (space.machine().architecture == "chip") return "";
    Candidate again;
    attempt(again, Outcome::Unbuildable,
            [&] { lower_candidate(candidate.made ? *candidate.made : space.schedule(candidate.point), true); });
    return again.reason;
}

namespace {

constexpr std::chrono::milliseconds ask_pause(50);

// One build, shared with its thread, which may be abandoned.
struct Build {
    std::optional<Schedule> schedule;
    std::shared_ptr<const Nest> nest; // null: lower the schedule
    CodegenOptions codegen;
    std::string object;
    std::optional<std::string> failure;
    bool done = false;
    std::mutex mutex;
    std::condition_variable changed;

    void run() {
        auto why = failure_of([&] {
            if (!nest) nest = std::make_shared<const Nest>(lower_candidate(*schedule, false));
            survive_crashes([&] { object = compile_object(with_packs(*nest), codegen).bytes; });
        });
        const std::lock_guard lock(mutex);
        failure = std::move(why);
        done = true;
        changed.notify_all();
    }
};

std::atomic<int> left_behind = 0;

// Runs the thread at idle priority, so that it does not disturb timing, and detaches it.
void abandon(std::thread thread) {
    left_behind++;
    const sched_param none{};
    pthread_setschedparam(thread.native_handle(), SCHED_IDLE, &none);
    thread.detach();
}

void run_build(const std::shared_ptr<Build> &build, const std::function<bool(double)> &give_up) {
    const Stopwatch watch;
    std::thread thread([build] { build->run(); });
    try {
        std::unique_lock lock(build->mutex);
        while (!build->changed.wait_for(lock, ask_pause, [&] { return build->done; })) {
            if (give_up(watch.seconds()))
                throw UserError("the compiler did not end in " + duration_text(watch.seconds()));
        }
    } catch (...) { // also thrown by give_up
        abandon(std::move(thread));
        throw;
    }
    thread.join();
    if (build->failure) throw UserError(*build->failure);
}

// The pre-packed inputs of a kernel at these sizes of the op.
std::vector<PackedInput> packed_inputs(const Nest &kernel, const Sizes &sizes) {
    if (kernel.packs.size() > Measurer::packs)
        throw Unsupported(fmt::format("the kernel has {} pre-packed inputs; a candidate that is measured can have {}",
                                      kernel.packs.size(), Measurer::packs));
    std::vector<PackedInput> all;
    for (const Nest &pack : kernel.packs) {
        const TensorArgument &packed = pack.tensors[1];
        PackedInput input;
        while (kernel.tensors.at(input.tensor).packed_from != packed.packed_from) input.tensor++;
        input.symbol = pack.name + "_packed";
        for (const std::string &s : pack.sizes) input.sizes.push_back(sizes.at(s));
        input.bytes = evaluate_size(packed.extents[0], sizes) * packed.type.bytes();
        all.push_back(std::move(input));
    }
    return all;
}

} // namespace

int abandoned_compilers() { return left_behind; }

void build_candidate(const Space &space, const CpuTarget &target, const Sizes &sizes, Candidate &candidate,
                     const std::function<bool(double seconds)> &give_up) {
    const Stopwatch watch;
    attempt(candidate, Outcome::Unbuildable, [&] {
        const auto build = std::make_shared<Build>();
        build->nest = std::move(candidate.nest);
        if (!build->nest)
            build->schedule = candidate.made ? std::move(*candidate.made) : space.schedule(candidate.point);
        build->codegen.target = target;
        run_build(build, give_up);
        candidate.object = std::move(build->object);
        candidate.symbol = "kumiko_candidate_packed";
        candidate.packs = packed_inputs(*build->nest, sizes);
    });
    candidate.nest.reset();
    candidate.made.reset();
    candidate.build_seconds = watch.seconds();
}

} // namespace kumiko
