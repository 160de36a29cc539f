#include "autotune/search.h"

#include <algorithm>
#include <cmath>

namespace kumiko {

namespace {

constexpr size_t elite = 6;
constexpr double explore_first = 0.6, explore_later = 0.2, cross_share = 0.15;
constexpr size_t first_points = 12; // told, until which exploring prevails

} // namespace

void Search::tell(const Point &point, double seconds) {
    seen_.insert(point);
    const auto [entry, fresh] = told_.emplace(point, seconds);
    if (!fresh) entry->second = seconds;
    best_.clear();
    for (const auto &[p, s] : told_) {
        if (std::isfinite(s)) best_.emplace_back(s, p);
    }
    std::sort(best_.begin(), best_.end());
    if (best_.size() > elite) best_.resize(elite);
}

bool Search::take(const Point &point, std::vector<Point> &proposal) {
    if (!space_.reason_against(point).empty() || !seen_.insert(point).second) return false;
    proposal.push_back(point);
    return true;
}

Point Search::step(const Point &from) {
    const std::vector<Point> near = space_.neighbours(from);
    std::vector<Point> fresh;
    for (const Point &p : near) {
        if (!seen_.count(p)) fresh.push_back(p);
    }
    if (!fresh.empty()) return random_.pick(fresh);
    if (near.empty()) return space_.sample(random_);
    // All of them are known: two steps.
    const std::vector<Point> beyond = space_.neighbours(random_.pick(near));
    return beyond.empty() ? space_.sample(random_) : random_.pick(beyond);
}

Point Search::cross(const Point &a, const Point &b) {
    Point child = a;
    for (size_t i = 0; i < child.size(); i++) {
        if (random_.chance(0.5)) child[i] = b[i];
    }
    return child;
}

std::vector<Point> Search::propose(size_t n) {
    std::vector<Point> proposal;
    if (n > 0 && seen_.insert(space_.default_point()).second) proposal.push_back(space_.default_point());
    for (int idle = 0; proposal.size() < n && idle < 200;) {
        const double explore = told_.size() < first_points ? explore_first : explore_later, draw = random_.real();
        Point point;
        if (best_.empty()) {
            point = random_.chance(0.5) ? step(space_.default_point()) : space_.sample(random_);
        } else if (draw < explore) {
            point = space_.sample(random_);
        } else {
            // The square favours the best of the best.
            const double r = random_.real();
            const Point &parent = best_[static_cast<size_t>(r * r * best_.size())].second;
            point = draw < explore + cross_share ? cross(parent, random_.pick(best_).second) : step(parent);
        }
        if (take(point, proposal))
            idle = 0;
        else
            idle++;
    }
    return proposal;
}

} // namespace kumiko
