// Examines points before they are measured: makes their schedules, extracts features of their nests
// or programs, and asks the task's model. Results are cached per schedule: points that were not
// chosen are frequently revisited.
#pragma once

#include "autotune/build.h"
#include "autotune/model/cost_model.h"
#include "autotune/search.h"

#include <map>

namespace kumiko {

class CandidateFilter : public PointFilter {
public:
    // The space must outlive the filter.
    CandidateFilter(const Space &space, int threads, const Sizes &sizes, std::shared_ptr<const CostModel> before);

    std::string schedule_of(const Point &point, const char *origin) override;
    // Points not yet examined when over() becomes true have no score.
    std::vector<float> scores(const std::vector<Point> &points, const char *origin) override;
    bool over() const override { return over_ && over_(); }
    // When to stop examining points: each may take as long as lowering a schedule.
    void end_when(std::function<bool()> over) { over_ = std::move(over); }
    // The described candidate for a proposal; keeps the score of an earlier query.
    Candidate candidate(const Proposal &proposal);
    // Drops the schedules of points that were queried but not taken.
    void forget() { examined_.clear(); }

    TaskModel &model() { return model_; }
    // Returns and clears the points that turned out illegal or could not be lowered during the
    // search, with reasons.
    std::vector<Candidate> take_rejected();

private:
    // The features and predictions of a schedule.
    struct Described {
        Features features;
        double estimated_seconds = 0;
        std::optional<double> predicted;
    };
    // A point whose schedule was made.
    struct Examined {
        Candidate candidate;
        std::optional<Schedule> schedule; // if it is legal
    };
    Examined &examine(const Point &point, const char *origin);
    void describe(Candidate &candidate, const Schedule &schedule);
    // Null if it cannot be lowered.
    const Described *described(const Point &point, const char *origin);

    const Space &space_;
    int threads_;
    const Sizes &sizes_;
    TaskModel model_;
    // Features of the space's default point, the reference of the difference features; empty if it
    // cannot be described.
    std::optional<Features> default_;
    std::map<Point, std::string> hashes_; // schedule hash by point
    std::map<std::string, Described> described_;
    std::map<Point, Examined> examined_;
    std::vector<Candidate> rejected_;
    std::function<bool()> over_;
};

} // namespace kumiko
