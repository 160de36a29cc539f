// Each schedule that an expert wrote for an op of the suite own-ops has a structure of the space in
// which the op is tuned.
// Links: bench
// Levels: no
// Sanitized: no
#include "autotune/tune.h"
#include "bench/own_ops/own_ops.h"
#include "dsl/reduction.h"
#include "schedule_structure.h"
#include "schedules/library/space.h"
#include "support/error.h"

#include <doctest/doctest.h>

using namespace kumiko;
using namespace kumiko::bench;

namespace {

// Walks through a space towards a structure: from each start by single parameters, and by two at a
// time where one is not enough.
class Walk {
public:
    Walk(const Space &space, const Op &op, StructureOf::Facts wanted)
        : space_(space), op_(op), wanted_(std::move(wanted)) {
        std::vector<Point> points = space.starts();
        points.insert(points.begin(), space.default_point());
        for (int steps = 1; steps <= 2; steps++) {
            for (Point &point : points) {
                if (!best_.empty()) point = nearest(point, steps);
            }
        }
    }
    // The facts in which the nearest point differs; none if the structure is found.
    const std::vector<std::string> &missing() const { return best_; }
    int tried = 0;

private:
    const Space &space_;
    const Op &op_;
    const StructureOf::Facts wanted_;
    std::vector<std::string> best_ = {"a legal schedule"};
    bool begun_ = false;
    static constexpr int max_tried = 3000;

    std::optional<std::vector<std::string>> missing_of(const Point &point) {
        if (!space_.reason_against(point).empty()) return std::nullopt;
        tried++;
        try {
            return differences(wanted_, StructureOf(space_.schedule(point), op_).facts());
        } catch (const UserError &) {
        } catch (const Unsupported &) {
        }
        return std::nullopt;
    }

    // Points that differ in one parameter: for ordered ones, in the neighbouring values.
    template<typename F>
    void for_each_step(const Point &point, size_t n, const F &f) {
        const ParameterInfo &p = space_.parameters()[n];
        Point next = point;
        for (uint32_t v = 0; space_.matters(point, n) && v < p.values.size(); v++) {
            next[n] = v;
            if (v != point[n] && (!p.ordered || v == point[n] + 1 || v + 1 == point[n])) f(next);
        }
    }

    // The first point found that misses less; of two steps where one is not enough.
    std::optional<Point> better(const Point &point, size_t than, int steps) {
        std::optional<Point> found;
        std::vector<Point> others;
        for (size_t p = 0; p < point.size(); p++) {
            for_each_step(point, p, [&](const Point &next) {
                if (found) return;
                const auto missing = missing_of(next);
                if (missing && missing->size() < than)
                    found = next;
                else if (steps > 1)
                    others.push_back(next);
            });
        }
        for (size_t n = 0; n < others.size() && !found && tried < max_tried; n++)
            found = better(others[n], than, steps - 1);
        return found;
    }

    // Sets each parameter in turn to the value with the fewest differences, until none improves.
    Point nearest_by_one(Point point) {
        auto here = missing_of(point);
        for (bool moved = true; moved && here && !here->empty();) {
            moved = false;
            for (size_t n = 0; n < point.size(); n++) {
                const Point from = point;
                for_each_step(from, n, [&](const Point &next) {
                    const auto there = missing_of(next);
                    if (there && there->size() < here->size()) here = there, point = next, moved = true;
                });
            }
        }
        if (here && (!begun_ || here->size() < best_.size())) best_ = *here, begun_ = true;
        return point;
    }

    Point nearest(Point point, int steps) {
        point = nearest_by_one(point);
        while (steps > 1 && !best_.empty()) {
            const auto here = missing_of(point);
            const auto next = here ? better(point, here->size(), steps) : std::nullopt;
            if (!next) break;
            point = nearest_by_one(*next);
        }
        return point;
    }
};

} // namespace

TEST_CASE("hand schedules have structures of the space") {
    // Structures that are missing, and why.
    const std::set<std::string> exceptions = {
        "iou", // a pointwise stage reads a copy: the space copies what reductions read
    };
    // The tuner walks the space of the library's schedule of the whole op: rows, or a convolution.
    const std::set<std::string> of_other_spaces = {"layer_norm_moments", "layernorm3", "conv_hard_swish_pool"};
    const Machine machine = Machine::named("x86-64-avx512");
    int schedules = 0;
    for (const OwnOp &own : own_ops()) {
        if (!own.hand) continue;
        CAPTURE(own.name);
        schedules++;
        const Op op = own.op();
        Schedule hand(op, machine);
        own.hand(hand);
        const StructureOf::Facts wanted = StructureOf(hand, op).facts();
        const auto missing_of = [&](SpaceKind kind) {
            return Walk(*space_for(op, machine, kind).second, op, wanted).missing();
        };
        std::vector<std::string> missing = missing_of(SpaceKind::Fitting);
        if (of_other_spaces.count(own.name)) {
            CHECK_FALSE(missing.empty());
            missing = missing_of(SpaceKind::Auto);
        }
        CAPTURE(missing);
        CHECK_EQ(missing.empty(), !exceptions.count(own.name));
    }
    CHECK_GE(schedules, 45);
}

TEST_CASE("schedules of different structure differ in what they are named for") {
    Axis i("i", 64), j("j", 64), k("k", 64);
    Tensor A = input("A", f32, {i, k}), B = input("B", f32, {k, j});
    Tensor T = compute("T", {i, k}, A(i, k) + 1.f);
    const Op op("two", {A, B}, {compute("C", {i, j}, sum(T(i, k) * B(k, j), k))});
    const Machine machine = Machine::named("x86-64-avx512");
    const auto facts = [&](const std::function<void(Schedule &)> &apply) {
        Schedule s(op, machine);
        apply(s);
        return StructureOf(s, op).facts();
    };
    const auto root = facts([](Schedule &s) { s.stage("T").vectorize("k", 8); });
    CHECK_EQ(root, StructureOf::Facts{{"C.place", "root"}, {"T.place", "root"}, {"T.vectors", "k"}});
    const auto tile = [](Schedule &s) {
        tile_in_registers(s.stage("C"), "i", 4, "j", 16, 16, {"j.o", "i.o"}, {"k"});
        s.stage("T").compute_at("C", "i.o");
        s.place_in("B", "L2", "C", "j.o");
    };
    const auto tiled = facts(tile);
    CHECK_EQ(tiled,
             StructureOf::Facts{
                 {"C.place", "root"}, {"C.vectors", "j"}, {"C.rows", "i"}, {"C.copies", "B"}, {"T.place", "C: i j"}});
    CHECK_EQ(differences(tiled, root).size(), 4);
    CHECK_EQ(differences(root, tiled).size(), 3); // one place, vectors, and a copy too many
    CHECK_EQ(differences(tiled, tiled).size(), 0);
    CHECK_EQ(facts([](Schedule &s) { s.stage("T").inline_into(); }).at("T.place"), "inline");
}

TEST_CASE("nearly all points of the spaces have schedules") {
    const Machine machine = Machine::named("x86-64-avx512");
    constexpr int points = 20; // of each op
    int tried = 0, illegal = 0;
    for (const OwnOp &own : own_ops()) {
        const Op op = own.op();
        const auto space = space_for(op, machine, SpaceKind::Fitting).second;
        Random random(3);
        for (int n = 0; n < points; n++, tried++) {
            try {
                space->schedule(space->sample(random));
            } catch (const UserError &) {
                illegal++;
            } catch (const Unsupported &) {
                illegal++;
            }
        }
    }
    CAPTURE(illegal);
    CHECK_LE(100 * illegal, tried);
}
