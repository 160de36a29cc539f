#include "autotune/search.h"

#include <algorithm>
#include <cmath>

namespace kumiko {

namespace {

// How many of the best points are parents.
constexpr size_t elite = 6;
// The number of results until which exploration dominates. Evolution: the share of random samples
// among proposals, before and after; the share of crossovers.
constexpr size_t first_points = 12;
constexpr double explore_first = 0.6, explore_later = 0.2, cross_share = 0.15;
// The chance to start from a known point rather than from a sample, and to take a parent's value.
constexpr double even_chance = 0.5;
// Draws in a row that propose nothing new, after which a space counts as exhausted.
constexpr int max_idle_draws = 200, max_idle_rounds = 3;

// Pool of the model's search: points per proposed point; draws per pool point; the shares of
// mutations, and of mutations and crossovers together; the most parameters that a mutation changes.
constexpr size_t pool_of_each = 48, draws_of_each = 3;
constexpr double mutated_share = 0.5, inherited_share = 0.7;
constexpr int max_changed = 3;
// Scores requested per proposed point, and in all at least.
constexpr size_t asked_of_each = 5, min_asked = 16;
// One of `unsorted_of` requested points is not chosen by the parameter model. One of `explored_of`
// proposals is not chosen by the cost model.
constexpr size_t unsorted_of = 5, explored_of = 8, draws_to_explore = 10;
constexpr const char *of_pool = "pool"; // origin of points that are scored but not proposed

// Local search: the number of best points from which it begins, the number of results before it,
// and its share of all proposals, the last ones.
constexpr size_t descended_points = 2, results_before_descent = 24;
constexpr double descent_share = 0.2;

} // namespace

Search::Search(const Space &space, uint64_t seed, SearchMethod method, PointFilter *filter)
    : space_(space), random_(seed), method_(method), filter_(filter), parameters_(space) {}

bool Search::tell(const Point &point, double seconds, const std::string &schedule) {
    seen_.insert(point);
    if (!schedule.empty()) seen_schedules_.insert(schedule);
    const auto [entry, fresh] = told_.emplace(point, seconds);
    if (!fresh) entry->second = seconds;
    if (fresh) parameters_.tell(point, seconds);
    best_.clear();
    for (const auto &[p, s] : told_) {
        if (std::isfinite(s)) best_.emplace_back(s, p);
    }
    std::sort(best_.begin(), best_.end());
    if (best_.size() > elite) best_.resize(elite);
    return fresh;
}

bool Search::take(const Point &point, const char *origin, std::vector<Proposal> &proposals) {
    if (!fresh(point)) return false;
    seen_.insert(point);
    if (compares_schedules()) {
        const std::string schedule = filter_->schedule_of(point, origin);
        if (schedule.empty() || !seen_schedules_.insert(schedule).second) return false;
    }
    proposals.push_back({point, origin});
    return true;
}

Point Search::step(const Point &from) {
    const std::vector<Point> near = space_.neighbours(from);
    std::vector<Point> unknown;
    for (const Point &p : near) {
        if (!seen_.count(p)) unknown.push_back(p);
    }
    if (!unknown.empty()) return random_.pick(unknown);
    if (near.empty()) return space_.sample(random_);
    // All neighbours are known: take two steps.
    const std::vector<Point> beyond = space_.neighbours(random_.pick(near));
    return beyond.empty() ? space_.sample(random_) : random_.pick(beyond);
}

Point Search::changed(Point point, int parameters) {
    for (int i = 0; i < parameters && !point.empty(); i++) {
        const size_t k = static_cast<size_t>(random_.real() * static_cast<double>(point.size())) % point.size();
        if (!space_.matters(point, k)) continue;
        const auto n = static_cast<double>(space_.parameters()[k].values.size());
        point[k] = std::min(static_cast<uint32_t>(random_.real() * n), static_cast<uint32_t>(n - 1));
    }
    return point;
}

Point Search::cross(const Point &a, const Point &b) {
    Point child = a;
    for (size_t i = 0; i < child.size(); i++) {
        if (random_.chance(even_chance)) child[i] = b[i];
    }
    return child;
}

// Squaring favours the best points.
const Point &Search::parent() {
    const double r = random_.real();
    return best_[static_cast<size_t>(r * r * static_cast<double>(best_.size()))].second;
}

void Search::propose_random(size_t n, const char *origin, std::vector<Proposal> &proposals) {
    for (int idle = 0; proposals.size() < n && idle < max_idle_draws; idle++) {
        if (take(space_.sample(random_), origin, proposals)) idle = 0;
    }
}

void Search::propose_by_evolution(size_t n, std::vector<Proposal> &proposals) {
    for (int idle = 0; proposals.size() < n && idle < max_idle_draws; idle++) {
        const double explore = told_.size() < first_points ? explore_first : explore_later, draw = random_.real();
        Point point;
        const char *origin = "evolution";
        if (best_.empty()) {
            point = random_.chance(even_chance) ? step(space_.default_point()) : space_.sample(random_);
        } else if (draw < explore) {
            point = space_.sample(random_);
            origin = "explore";
        } else {
            const Point &from = parent();
            point = draw < explore + cross_share ? cross(from, random_.pick(best_).second) : step(from);
        }
        if (take(point, origin, proposals)) idle = 0;
    }
}

// A pool of distinct new points.
std::vector<Point> Search::pool(size_t n, bool descend) {
    std::set<Point> chosen;
    std::vector<Point> all;
    const auto add = [&](const Point &p) {
        if (fresh(p) && chosen.insert(p).second) all.push_back(p);
    };
    if (descend) {
        for (size_t i = 0; i < std::min(descended_points, best_.size()); i++) {
            for (const Point &p : space_.neighbours(best_[i].second)) add(p);
        }
        if (all.size() >= n) return all;
    }
    for (const Point &p : space_.neighbours(best_.empty() ? space_.default_point() : best_[0].second)) add(p);
    for (size_t tries = 0; all.size() < pool_of_each * n && tries < draws_of_each * pool_of_each * n; tries++) {
        const double draw = random_.real();
        // Of a mutation.
        const int parameters = 1 + static_cast<int>(draw / mutated_share * max_changed);
        if (best_.empty())
            add(draw < mutated_share ? changed(space_.default_point(), parameters) : space_.sample(random_));
        else if (draw < mutated_share)
            add(changed(parent(), parameters));
        else if (draw < inherited_share)
            add(cross(parent(), random_.pick(best_).second));
        else
            add(space_.sample(random_));
    }
    return all;
}

// Sorts so that the first n are mostly those with the best predicted parameters; the rest of the
// order is random.
void Search::sort(std::vector<Point> &points, size_t n) {
    if (points.size() <= n) return;
    for (size_t i = points.size() - 1; i > 0; i--)
        std::swap(points[i], points[static_cast<size_t>(random_.real() * static_cast<double>(i + 1))]);
    if (!parameters_.useful()) return;
    const std::vector<float> scores = parameters_.score(points);
    std::vector<size_t> order(points.size());
    for (size_t i = 0; i < order.size(); i++) order[i] = i;
    const size_t by_chance = n / unsorted_of;
    std::stable_sort(order.begin() + static_cast<long>(by_chance), order.end(),
                     [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    std::vector<Point> sorted;
    for (size_t i : order) sorted.push_back(points[i]);
    points = std::move(sorted);
}

// The first n legal points with distinct, new schedules.
std::vector<Point> Search::new_schedules(const std::vector<Point> &points, size_t n) {
    std::vector<Point> all;
    std::set<std::string> here;
    size_t illegal = 0;
    for (const Point &p : points) {
        if (all.size() + illegal == n || filter_->over()) break;
        const std::string schedule = filter_->schedule_of(p, of_pool);
        illegal += schedule.empty();
        if (schedule.empty() || seen_schedules_.count(schedule))
            seen_.insert(p);
        else if (here.insert(schedule).second)
            all.push_back(p);
    }
    return all;
}

void Search::propose_by_model(size_t n, bool descend, std::vector<Proposal> &proposals) {
    const size_t wanted = n - proposals.size();
    std::vector<Point> points = pool(wanted, descend);
    const size_t asked = std::max(min_asked, asked_of_each * wanted);
    sort(points, asked);
    points = new_schedules(points, asked);
    const std::vector<float> scores = filter_->scores(points, of_pool);
    std::vector<size_t> order;
    for (size_t i = 0; i < points.size(); i++) {
        if (std::isnan(scores[i]))
            seen_.insert(points[i]);
        else
            order.push_back(i);
    }
    const size_t by_chance = descend ? 0 : (wanted + explored_of / 2) / explored_of;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    for (size_t i = 0; i < order.size() && proposals.size() + by_chance < n; i++)
        take(points[order[i]], descend ? "descent" : "model", proposals);
    for (size_t tries = 0; tries < draws_to_explore * by_chance && !order.empty() && proposals.size() < n; tries++)
        take(points[random_.pick(order)], "explore", proposals);
}

std::vector<Proposal> Search::propose(size_t n, size_t left) {
    std::vector<Proposal> proposals;
    if (n > 0) take(space_.default_point(), "default", proposals);
    if (proposals.empty() && n > 0 && seen_.insert(space_.default_point()).second)
        proposals.push_back({space_.default_point(), "default"}); // always tried
    while (!suggested_.empty() && proposals.size() < n) {
        take(suggested_.front(), "hint", proposals);
        suggested_.erase(suggested_.begin());
    }
    if (method_ == SearchMethod::Random) {
        propose_random(n, "random", proposals);
    } else if (compares_schedules()) {
        const size_t all = told_.size() + left;
        const bool descend = left > 0 && told_.size() >= results_before_descent &&
                             static_cast<double>(left) <= descent_share * static_cast<double>(all);
        for (int idle = 0; proposals.size() < n && idle < max_idle_rounds && !filter_->over(); idle++)
            propose_by_model(n, descend, proposals);
    } else {
        propose_by_evolution(n, proposals);
    }
    return proposals;
}

} // namespace kumiko
