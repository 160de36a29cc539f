// Looks at points before they are measured: makes their nests, and asks the model of the task about them.
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

    std::vector<float> scores(const std::vector<Point> &points) override;
    // The candidate of a point, described; one that was asked about keeps its score.
    Candidate candidate(const Point &point);
    // Forgets the candidates that were asked about and not taken.
    void forget() { seen_.clear(); }

    TaskModel &model() { return model_; }
    // Points that were found illegal, or not to be lowered, while scores were asked; and why. Emptied by the call.
    std::vector<Candidate> take_rejected();
    double seconds() const { return seconds_; } // spent here

private:
    const Space &space_;
    int threads_;
    const Sizes &sizes_;
    TaskModel model_;
    std::map<Point, Candidate> seen_;
    std::vector<Candidate> rejected_;
    double seconds_ = 0;
};

} // namespace kumiko
