// The search on its own, with synthetic times, and its starting points.
#include "autotune/model/training_tasks.h"
#include "autotune/search.h"
#include "ops/matmul.h"
#include "schedules/library/table.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace kumiko;

namespace {

struct Many {
    BOOST_HANA_DEFINE_STRUCT(Many, (Tile, a), (Tile, b), (Tile, c), (Tile, d), (Choice, e), (Flag, f));
};

std::unique_ptr<Space> space(bool picky = false) {
    return make_template<Many>(
               "many", "", [](const Op &) { return true; },
               [](const Op &, const Machine &) {
                   const std::vector<int64_t> steps = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
                   return Many{
                       Tile(0, steps), Tile(9, steps), Tile(0, steps), Tile(9, steps), Choice("x", {"x", "y", "z"}),
                       Flag(false)};
               },
               [](const Op &op, const Machine &m, const Many &) { return Schedule(op, m); },
               [picky](const Op &, const Machine &, const Many &p) {
                   return picky && p.a + p.b > 10 ? "too much" : "";
               })
        .make_space(ops::matmul(Float(32), 4, 4, 4), Machine::host());
}

// Smooth in the tiles, with the best at a = 6, b = 3, c = 7, d = 2, e = "y", f.
double seconds(const Point &p) {
    const auto distance = [](int x, int best) { return (x - best) * (x - best) * 0.03; };
    return 1 + distance(p[0], 6) + distance(p[1], 3) + distance(p[2], 7) + distance(p[3], 2) + (p[4] == 1 ? 0 : 0.5) +
           (p[5] ? 0 : 0.3);
}

double run(Search &search, int trials, std::vector<Point> *order = nullptr) {
    double best = std::numeric_limits<double>::infinity();
    for (int done = 0; done < trials; done += 8) {
        for (const auto &[p, origin] : search.propose(8, static_cast<size_t>(trials - done))) {
            if (order) order->push_back(p);
            best = std::min(best, seconds(p));
            search.tell(p, seconds(p));
        }
    }
    return best;
}

} // namespace

TEST_CASE("the default is proposed first, and no point twice") {
    auto s = space();
    Search search(*s, 1);
    std::vector<Point> order;
    run(search, 200, &order);
    CHECK(order.front() == s->default_point());
    CHECK(std::set<Point>(order.begin(), order.end()).size() == order.size());
    CHECK(order.size() == 200);
}

TEST_CASE("a seed determines what is proposed") {
    auto s = space();
    std::vector<Point> first, second, third;
    for (auto [seed, order] : {std::pair{7, &first}, std::pair{7, &second}, std::pair{8, &third}}) {
        Search search(*s, seed);
        run(search, 100, order);
    }
    CHECK(first == second);
    CHECK(first != third);
}

TEST_CASE("the search beats chance") {
    auto s = space();
    double searched = 0, random = 0;
    for (int seed = 0; seed < 10; seed++) {
        Search search(*s, seed);
        searched += run(search, 96);
        Random draw(seed);
        double best = 1e9;
        for (int i = 0; i < 96; i++) best = std::min(best, seconds(s->sample(draw)));
        random += best;
    }
    INFO("mean best of 10 seeds after 96 of 60,000 points: searched ", searched / 10, ", at random ", random / 10);
    CHECK(searched / 10 < 1.06);
    CHECK(searched < random);
}

// Knows the times except for a synthetic part; treats some points as illegal.
struct Oracle : PointFilter {
    double noise = 0.1;
    size_t asked = 0;
    size_t idle = SIZE_MAX;       // a parameter that changes no schedule
    uint32_t banned = UINT32_MAX; // a value of the first parameter that no schedule can have
    Random random{11};
    std::string schedule_of(const Point &p, const char *) override {
        std::string name;
        for (size_t i = 0; i < p.size(); i++) name += i == idle ? "" : std::to_string(p[i]) + ",";
        return p[0] == banned ? "" : name;
    }
    std::vector<float> scores(const std::vector<Point> &points, const char *) override {
        asked += points.size();
        std::vector<float> all;
        for (const Point &p : points)
            all.push_back(p[0] == 9 ? std::numeric_limits<float>::quiet_NaN()
                                    : static_cast<float>(-seconds(p) + noise * random.real()));
        return all;
    }
};

TEST_CASE("a filter's scores lead, and what it finds illegal is not proposed") {
    auto s = space();
    double advised = 0, alone = 0;
    for (int seed = 0; seed < 10; seed++) {
        Oracle oracle;
        Search with(*s, seed, SearchMethod::Model, &oracle), without(*s, seed);
        std::vector<Point> order;
        advised += run(with, 32, &order);
        alone += run(without, 32);
        CHECK(order.size() == 32);
        for (const Point &p : order) CHECK(p[0] != 9);
        CHECK(oracle.asked < 32 * 8);
    }
    INFO("mean best after 32: with scores ", advised / 10, ", without ", alone / 10);
    CHECK(advised / 10 < 1.1);
    CHECK(advised < alone);
}

TEST_CASE("of points with one schedule one is proposed") {
    auto s = space();
    Oracle oracle;
    oracle.idle = 1;
    oracle.banned = 8;
    Search search(*s, 4, SearchMethod::Model, &oracle);
    std::vector<Point> order;
    run(search, 64, &order);
    std::set<std::string> schedules;
    for (const Point &p : order) {
        CHECK(p[0] != 8);
        CHECK(schedules.insert(oracle.schedule_of(p, "")).second);
    }
    CHECK(order.size() == 64);
}

TEST_CASE("of points with equal schedules one is proposed, also before any result") {
    auto s = space();
    for (int seed = 0; seed < 10; seed++) {
        Oracle oracle;
        oracle.idle = 1;
        Search search(*s, seed, SearchMethod::Model, &oracle);
        Point hint = s->default_point();
        hint[5] = 1;
        search.suggest(hint);
        hint[1] = 3; // the same schedule
        search.suggest(hint);
        std::set<std::string> schedules;
        for (int batch = 0; batch < 4; batch++) {
            for (const Proposal &p : search.propose(8)) CHECK(schedules.insert(oracle.schedule_of(p.point, "")).second);
        }
        CHECK(schedules.size() > 16);
        CHECK(schedules.count(oracle.schedule_of(s->default_point(), "")));
        CHECK(schedules.count(oracle.schedule_of(hint, "")));
    }
}

TEST_CASE("a filter that has ended is not called again") {
    struct Ending : Oracle {
        size_t schedules = 0;
        std::string schedule_of(const Point &p, const char *origin) override {
            schedules++;
            return Oracle::schedule_of(p, origin);
        }
        bool over() const override { return schedules >= 5; }
    } ending;
    auto s = space();
    Search search(*s, 6, SearchMethod::Model, &ending);
    const std::vector<Proposal> all = search.propose(8);
    CHECK(ending.schedules < 16); // of at least the number that it would have requested
    REQUIRE(!all.empty());
    CHECK(all[0].origin == "default");
    CHECK(search.propose(8).empty());
}

TEST_CASE("random search proposes the default and then samples") {
    auto s = space();
    Search search(*s, 5, SearchMethod::Random);
    const std::vector<Proposal> all = search.propose(20);
    REQUIRE(all.size() == 20);
    CHECK(all[0].origin == "default");
    for (size_t i = 1; i < all.size(); i++) CHECK(all[i].origin == "random");
}

TEST_CASE("reasons against points are kept to, and a small space is used up") {
    auto s = space(true);
    Search search(*s, 3);
    std::vector<Point> order;
    run(search, 100, &order);
    for (const Point &p : order) CHECK(p[0] + p[1] <= 10);

    struct Few {
        BOOST_HANA_DEFINE_STRUCT(Few, (Flag, a), (Flag, b));
    };
    auto few = make_template<Few>(
                   "few", "", [](const Op &) { return true; },
                   [](const Op &, const Machine &) {
                       return Few{Flag(false), Flag(false)};
                   },
                   [](const Op &op, const Machine &m, const Few &) { return Schedule(op, m); })
                   .make_space(ops::matmul(Float(32), 4, 4, 4), Machine::host());
    Search small(*few, 1);
    CHECK(small.propose(8).size() == 4);
    CHECK(small.propose(8).empty());
}

TEST_CASE("a space has no reason against where it begins") {
    int looked_at = 0;
    for (const std::string &name : Machine::names()) {
        const Machine machine = Machine::named(name);
        for (const TrainingTask &t : training_tasks()) {
            const auto space = library::find_template(t.op, machine)->make_space(t.op, machine);
            INFO(name, ": ", t.op.to_string(), space->text(space->default_point()));
            CHECK_EQ(space->reason_against(space->default_point()), "");
            looked_at++;
        }
    }
    CHECK(looked_at > 1000);
}
