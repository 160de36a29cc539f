#include "autotune/choice.h"

#include "autotune/build.h"
#include "autotune/model/cost_model.h"
#include "autotune/spaces/stage_sketch.h"
#include "schedules/library/register_tile.h"
#include "schedules/library/structure.h"

#include <algorithm>

namespace kumiko {

namespace {

constexpr size_t max_counted = 4;           // stages per op
constexpr double accepted_with_model = 0.9; // fraction of the counted time, if the model agrees
constexpr double accepted_alone = 0.55;     // fraction of the counted time, without the model
constexpr int64_t min_steps = 1 << 12;      // steps of a stage times its folded values

// Whether all steps for one result of the reduction fill only a few vectors.
bool fills_few_vectors(const Stage &stage, const Machine &machine) {
    constexpr int64_t few_vectors = 4;
    int64_t steps = 1;
    for (const Axis &k : stage.reduction_axes) steps *= extent_of(k);
    return steps < few_vectors * library::vector_lanes(machine, stage.type);
}

// Whether the stage folds several values along a row that fills few vectors. The rules then run
// lanes along the row, which need a scalar reduction at the end, or use none.
bool folds_short_rows(const Stage &stage, const Machine &machine) {
    return stage.is_reduction() && stage.components.size() > 1 &&
           library::reads_along(stage, stage.reduction_axes.back().name()) && fills_few_vectors(stage, machine);
}

// Whether a row index is data-dependent. Tiles cannot reuse such rows, but the cost count assumes
// that they are in one cached array.
bool gathers_rows(const Stage &stage) {
    if (stage.axes.empty()) return false;
    const std::string &last = stage.axes.back().name();
    for (const Expr &e : stage.expressions()) {
        for (const Halide::Internal::Call *read : tensor_reads(e)) {
            for (const Expr &index : read->args) {
                if (reads_data(index) && !Halide::Internal::expr_uses_var(index, last)) return true;
            }
        }
    }
    return false;
}

// Whether axes of the stage are fused. The cost count sees loops before partitioning, and treats
// reads at quotients and remainders of a fused loop as gathers.
bool joins_axes(const StageState &stage) {
    return std::any_of(stage.relations.begin(), stage.relations.end(),
                       [](const Relation &r) { return std::holds_alternative<FuseRelation>(r); });
}

struct OpenStage {
    std::string name;
    int64_t steps = 0; // times the folded values
    bool short_rows = false;
};

// The stages to count, by descending number of steps.
std::vector<OpenStage> open_stages(const Op &op, const Schedule &by_rules) {
    constexpr size_t max_components = 4;  // of any stage: larger networks take long to lower
    constexpr int64_t smallest_part = 64; // at least 1 / 64 of all steps
    const Machine &machine = by_rules.machine();
    const auto holds_others = [&](const std::string &name) { // apart from its own partial results
        return std::any_of(op.stages().begin(), op.stages().end(), [&](const Stage &other) {
            const StageState *state = by_rules.state().find(other.name);
            return state && state->placement.kind == Placement::Kind::At && state->placement.consumer == name;
        });
    };
    std::vector<OpenStage> open;
    int64_t all = 0;
    if (!op.sizes().empty() || op.stages().size() > library::most_stages) return {};
    for (const Stage &stage : op.stages()) {
        const StageSketch sketch = sketch_stage(stage, machine);
        const int64_t steps = sketch.steps * static_cast<int64_t>(std::max<size_t>(1, stage.components.size()));
        all += steps;
        if (stage.components.size() > max_components) return {};
        if (sketch.kind != StageSketch::Kind::Reduction || sketch.vector_axes.empty() || steps < min_steps) continue;
        const StageState *state = by_rules.state().find(stage.name);
        if (!state || state->placement.kind != Placement::Kind::Root || state->tensorize || holds_others(stage.name) ||
            library::gets_tile(op, stage, machine) || gathers_rows(stage) || joins_axes(*state))
            continue;
        open.push_back({stage.name, steps, folds_short_rows(stage, machine)});
    }
    std::erase_if(open, [&](const OpenStage &stage) { return stage.steps * smallest_part < all; });
    std::stable_sort(open.begin(), open.end(),
                     [](const OpenStage &a, const OpenStage &b) { return a.steps > b.steps; });
    if (open.size() > max_counted) open.resize(max_counted);
    return open;
}

// The index of the space's parameter with this name.
std::optional<size_t> find_parameter(const Space &space, const std::string &name) {
    for (size_t n = 0; n < space.parameters().size(); n++) {
        if (space.parameters()[n].name == name) return n;
    }
    return std::nullopt;
}

// Keeps the point that is predicted to be fastest among those considered.
class Comparison {
public:
    Comparison(const Space &space, const Point &first, std::vector<ComparedPoint> &compared)
        : space_(space), best_(counted(first)), point_(first), compared_(compared) {
        if (!best_) return;
        beside_ = best_->features;
        set_beside(best_->features, beside_);
    }
    const Point &point() const { return point_; }

    // Accepts a point whose counted time is at most `alone` times the best one's, regardless of the
    // model.
    void consider(const Point &point, double alone = accepted_alone) {
        if (!best_) return;
        ComparedPoint &compared = compared_.emplace_back(ComparedPoint{space_.difference(point_, point)});
        auto other = counted(point);
        if (!other) return;
        if (best_->estimated_seconds > 0) compared.relative_time = other->estimated_seconds / best_->estimated_seconds;
        if (other->estimated_seconds > accepted_with_model * best_->estimated_seconds) return;
        set_beside(other->features, beside_);
        if (other->estimated_seconds > alone * best_->estimated_seconds) {
            // Loading it takes milliseconds, once.
            const auto model = CostModel::shipped(space_.machine());
            if (model->empty()) return;
            const std::vector<float> scores = model->score({best_->features, other->features});
            compared.score = double(scores[1]) - double(scores[0]);
            if (*compared.score <= 0) return;
        }
        compared.chosen = true;
        best_ = std::move(other);
        point_ = point;
    }

private:
    const Space &space_;
    std::optional<Candidate> best_;
    // Features of the first point, the reference of the model's difference features.
    Features beside_;
    Point point_;
    std::vector<ComparedPoint> &compared_;

    // The point with features and counted time; nullopt if it has no schedule that can be counted.
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
    const auto short_rows = [&](const Stage &stage) {
        return op.sizes().empty() && !stage.axes.empty() && fills_few_vectors(stage, machine) &&
               sketch_stage(stage, machine).steps >= min_steps;
    };
    return std::any_of(op.stages().begin(), op.stages().end(), [&](const Stage &stage) {
        return stage.is_reduction() && (short_rows(stage) || !sketch_stage(stage, machine).tiles.empty());
    });
}

Point choose_point(const Space &space, const Point &first, const std::vector<Point> &others,
                   std::vector<ComparedPoint> &compared) {
    if (!space.op().sizes().empty()) return first;
    const std::vector<Stage> &stages = space.op().stages();
    const bool short_rows = std::any_of(stages.begin(), stages.end(),
                                        [&](const Stage &stage) { return folds_short_rows(stage, space.machine()); });
    Comparison all(space, first, compared);
    for (const Point &other : others) all.consider(other, short_rows ? accepted_with_model : accepted_alone);
    return all.point();
}

Point choose_loops(const Space &space, const Point &by_rules, std::vector<ComparedPoint> &compared) {
    const std::vector<OpenStage> open = open_stages(space.op(), space.schedule(by_rules));
    if (open.empty()) return by_rules;
    Comparison all(space, by_rules, compared);
    for (const OpenStage &stage : open) {
        const auto loops = find_parameter(space, stage.name + ".loops");
        if (!loops) continue;
        const std::vector<Json> &choices = space.parameters()[*loops].values;
        Point sketch = all.point();
        sketch[*loops] = static_cast<uint32_t>(std::find(choices.begin(), choices.end(), "sketch") - choices.begin());
        if (sketch == all.point()) continue;
        const double alone = stage.short_rows ? accepted_with_model : accepted_alone;
        all.consider(sketch, alone);
        const auto vector = find_parameter(space, stage.name + ".vector");
        if (!vector || !stage.short_rows) continue;
        for (uint32_t axis = 0; axis < space.parameters()[*vector].values.size(); axis++) {
            Point other = sketch;
            other[*vector] = axis;
            if (other != sketch) all.consider(other, alone);
        }
    }
    return all.point();
}

} // namespace kumiko
