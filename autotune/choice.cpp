#include "autotune/choice.h"

#include "autotune/build.h"
#include "autotune/model/cost_model.h"
#include "autotune/spaces/stage_sketch.h"
#include "schedules/library/register_tile.h"
#include "schedules/library/structure.h"

#include <algorithm>

namespace kumiko {

namespace {

constexpr size_t most_counted = 4; // stages, those of the most steps
constexpr double worth = 0.9;      // of the time by rules

// The stages to count, those of the most steps first.
std::vector<std::string> open_stages(const Op &op, const Schedule &by_rules) {
    constexpr int64_t fewest_steps = 1 << 12;
    constexpr size_t most_components = 4; // of any stage: lowering the networks of more takes long
    constexpr int64_t smallest_part = 64; // 1 / 64 of all steps
    const auto holds_others = [&](const std::string &name) {
        return std::any_of(op.stages().begin(), op.stages().end(), [&](const Stage &other) {
            const StageState *state = by_rules.state().find(other.name);
            return state && state->placement.kind == Placement::Kind::At && state->placement.consumer == name;
        });
    };
    std::vector<std::pair<int64_t, std::string>> open;
    int64_t all = 0;
    if (!op.sizes().empty() || op.stages().size() > library::most_stages) return {};
    for (const Stage &stage : op.stages()) {
        const StageSketch sketch = sketch_stage(stage, by_rules.machine());
        all += sketch.steps;
        if (stage.components.size() > most_components) return {};
        if (sketch.way != StageSketch::Way::Reduction || sketch.vector_axes.empty() || sketch.steps < fewest_steps)
            continue;
        const StageState *state = by_rules.state().find(stage.name);
        if (!state || state->placement.kind != Placement::Kind::Root || state->tensorize || holds_others(stage.name) ||
            library::gets_tile(op, stage, by_rules.machine()))
            continue;
        open.emplace_back(sketch.steps, stage.name);
    }
    std::erase_if(open, [&](const auto &stage) { return stage.first * smallest_part < all; });
    std::stable_sort(open.begin(), open.end(), [](const auto &a, const auto &b) { return a.first > b.first; });
    if (open.size() > most_counted) open.resize(most_counted);
    std::vector<std::string> names;
    for (auto &[steps, name] : open) names.push_back(std::move(name));
    return names;
}

// Features and counted time; nothing where the point has no schedule that can be counted.
std::optional<Candidate> counted(const Space &space, const Point &point) {
    auto [candidate, schedule] = make_with_schedule(space, point);
    if (!schedule) return std::nullopt;
    describe(candidate, *schedule, space, static_cast<int>(library::threads_of(space.machine())), {});
    if (candidate.outcome != Outcome::Ok) return std::nullopt;
    return candidate;
}

} // namespace

bool has_choice(const Op &op, const Schedule &by_rules) { return !open_stages(op, by_rules).empty(); }

Point choose_loops(const Space &space, const Point &by_rules) {
    const std::vector<std::string> open = open_stages(space.op(), space.schedule(by_rules));
    if (open.empty()) return by_rules;
    auto best = counted(space, by_rules);
    if (!best) return by_rules;
    const Features beside = best->features;
    set_beside(best->features, beside);
    for (const std::string &stage : open) {
        Point point = best->point;
        for (size_t n = 0; n < point.size(); n++) {
            const ParameterInfo &p = space.parameters()[n];
            if (p.name != stage + ".loops") continue;
            point[n] = static_cast<uint32_t>(std::find(p.values.begin(), p.values.end(), "sketch") - p.values.begin());
        }
        auto other = point == best->point ? std::nullopt : counted(space, point);
        if (!other || other->estimated_seconds > worth * best->estimated_seconds) continue;
        set_beside(other->features, beside);
        const auto model = CostModel::shipped(space.machine()); // reading it takes milliseconds, once
        if (model->empty()) return by_rules;
        const std::vector<float> scores = model->score({best->features, other->features});
        if (scores[1] > scores[0]) best = std::move(other);
    }
    return best->point;
}

} // namespace kumiko
