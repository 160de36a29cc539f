// Looks at points before they are measured: makes their schedules, takes features of their nests or programs, and asks the model of the task. What it found out about
// a schedule it keeps, for a point that was not taken is often asked about again.
#pragma once

#include "autotune/build.h"
#include "autotune/model/cost_model.h"
#include "autotune/search.h"

#include <map>

namespace kumiko {

class Scout : public Advisor {
public:
    // The space must outlive the scout.
    Scout(const Space &space, int threads, const Sizes &sizes, std::shared_ptr<const CostModel> before);

    std::string schedule_of(const Point &point, const char *origin) override;
    // Those that were not yet looked at when it is over have none.
    std::vector<float> scores(const std::vector<Point> &points, const char *origin) override;
    bool over() const override { return over_ && over_(); }
    // When to end looking at points, however many were asked for: each may take as long as lowering a schedule.
    void end_when(std::function<bool()> over) { over_ = std::move(over); }
    // The candidate of a proposal, described; one that was asked about keeps its score.
    Candidate candidate(const Proposal &proposal);
    // Forgets the schedules of points that were asked about and not taken.
    void forget() { at_hand_.clear(); }

    TaskModel &model() { return model_; }
    // Points that were found illegal, or not to be lowered, while the search asked; and why. Emptied by the call.
    std::vector<Candidate> take_rejected();

private:
    struct Described { // of a schedule
        Features features;
        double estimated_seconds = 0;
        std::optional<double> predicted;
    };
    struct AtHand {
        Candidate candidate;
        std::optional<Schedule> schedule; // where it is legal
    };
    AtHand &look_at(const Point &point, const char *origin);
    void describe(Candidate &candidate, const Schedule &schedule);
    // Nothing where it cannot be lowered.
    const Described *described(const Point &point, const char *origin);

    const Space &space_;
    int threads_;
    const Sizes &sizes_;
    TaskModel model_;
    std::optional<Features>
        default_; // of the space's default point, beside which candidates are described; empty ones where it has none
    std::map<Point, std::string> hashes_; // of schedules
    std::map<std::string, Described> described_;
    std::map<Point, AtHand> at_hand_;
    std::vector<Candidate> rejected_;
    std::function<bool()> over_;
};

} // namespace kumiko
