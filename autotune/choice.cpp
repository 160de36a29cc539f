#include "autotune/choice.h"

#include "autotune/build.h"
#include "autotune/model/cost_model.h"
#include "autotune/spaces/stage_sketch.h"
#include "schedules/library/register_tile.h"
#include "schedules/library/structure.h"

#include <algorithm>

namespace kumiko {

namespace {

constexpr size_t most_counted = 4;          // stages of an op
constexpr double accepted_with_model = 0.9; // of the counted time, if the model expects less too
constexpr double accepted_alone = 0.55;     // of the counted time, without the model
constexpr int64_t fewest_steps = 1 << 12;   // of a stage

// The stages to count, in the order of their steps, which begins with the most.
std::vector<std::string> open_stages(const Op &op, const Schedule &by_rules) {
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

// The point that is expected to be fastest of those considered.
class Comparison {
public:
    Comparison(const Space &space, const Point &first) : space_(space), best_(counted(first)), point_(first) {
        if (!best_) return;
        beside_ = best_->features;
        set_beside(best_->features, beside_);
    }
    const Point &point() const { return point_; }

    void consider(const Point &point) {
        auto other = best_ ? counted(point) : std::nullopt;
        if (!other || other->estimated_seconds > accepted_with_model * best_->estimated_seconds) return;
        set_beside(other->features, beside_);
        if (other->estimated_seconds > accepted_alone * best_->estimated_seconds) {
            const auto model = CostModel::shipped(space_.machine()); // reading it takes milliseconds, once
            if (model->empty()) return;
            const std::vector<float> scores = model->score({best_->features, other->features});
            if (scores[1] <= scores[0]) return;
        }
        best_ = std::move(other);
        point_ = point;
    }

private:
    const Space &space_;
    std::optional<Candidate> best_;
    Features beside_; // of the first point, which the model has learnt to compare with
    Point point_;

    // With features and counted time; nothing where the point has no schedule that can be counted.
    std::optional<Candidate> counted(const Point &point) const {
        auto [candidate, schedule] = make_with_schedule(space_, point);
        if (!schedule) return std::nullopt;
        describe(candidate, *schedule, space_, static_cast<int>(library::threads_of(space_.machine())), {});
        if (candidate.outcome != Outcome::Ok) return std::nullopt;
        return candidate;
    }
};

} // namespace

bool has_choice(const Op &op, const Schedule &by_rules) { return !open_stages(op, by_rules).empty(); }

bool library_leaves_out(const Op &op, const Machine &machine) {
    constexpr int64_t few_vectors = 4;
    const auto short_rows = [&](const Stage &stage) {
        if (!op.sizes().empty() || stage.axes.empty()) return false;
        int64_t steps = 1, rows = 1; // steps of a row
        for (const Axis &k : stage.reduction_axes) steps *= extent_of(k);
        for (const Axis &a : stage.axes) rows *= extent_of(a);
        return steps < few_vectors * library::vector_lanes(machine, stage.type) && rows * steps >= fewest_steps;
    };
    return std::any_of(op.stages().begin(), op.stages().end(), [&](const Stage &stage) {
        return stage.is_reduction() && (short_rows(stage) || !sketch_stage(stage, machine).tiles.empty());
    });
}

Point choose_point(const Space &space, const Point &first, const std::vector<Point> &others) {
    if (!space.op().sizes().empty()) return first;
    Comparison all(space, first);
    for (const Point &other : others) all.consider(other);
    return all.point();
}

Point choose_loops(const Space &space, const Point &by_rules) {
    const std::vector<std::string> open = open_stages(space.op(), space.schedule(by_rules));
    if (open.empty()) return by_rules;
    Comparison all(space, by_rules);
    for (const std::string &stage : open) {
        Point point = all.point();
        for (size_t n = 0; n < point.size(); n++) {
            const ParameterInfo &p = space.parameters()[n];
            if (p.name != stage + ".loops") continue;
            point[n] = static_cast<uint32_t>(std::find(p.values.begin(), p.values.end(), "sketch") - p.values.begin());
        }
        if (point != all.point()) all.consider(point);
    }
    return all.point();
}

} // namespace kumiko
