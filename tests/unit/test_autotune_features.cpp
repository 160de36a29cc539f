// Features of a nest, compared with counts made by hand.
// Sanitized: --test-case-exclude=so*has*one*
#include "autotune/build.h"
#include "autotune/failure.h"
#include "autotune/features/features.h"
#include "autotune/features/loop_tree.h"
#include "autotune/features/traffic.h"
#include "autotune/tune.h"
#include "ops/matmul.h"
#include "ops/registry.h"
#include "schedules/library/matmul.h"
#include "schedules/library/table.h"
#include "support/random.h"
#include "targets/lower/lower.h"

#include <doctest/doctest.h>

#include <cmath>
#include <sstream>

using namespace kumiko;

namespace {

Machine machine() { return Machine::named("x86-64-avx2"); }

BodyWork total(const LoopTree &tree) {
    BodyWork sum;
    for (const LoopNode &loop : tree.loops) sum.add(loop.work, loop.trips);
    return sum;
}

Schedule tiled(const Op &op) {
    Schedule s(op, machine());
    auto c = s.stage("C");
    auto [io, ii] = c.split("i", 4);
    auto [jo, ji] = c.split("j", 16);
    c.reorder({io, jo, "k", ii, ji}).unroll(ii).vectorize(ji);
    s.accumulate_in("C", "registers", jo);
    return s;
}

} // namespace

TEST_CASE("a register tile: multiply-adds, loads and accumulators as counted by hand") {
    const Op op = ops::matmul(Float(32), 64, 64, 32);
    const LoopTree tree = read_loops(lower(tiled(op)), machine(), {});
    const BodyWork sum = total(tree);
    CHECK(sum.multiply_adds == 64 * 64 * 32 / 8);
    CHECK(sum.flops == doctest::Approx(2 * 64 * 64 * 32).epsilon(0.1));
    CHECK(sum.scalar < sum.multiply_adds * 0.01);
    const auto inner = std::max_element(tree.loops.begin(), tree.loops.end(),
                                        [](const LoopNode &a, const LoopNode &b) { return a.trips < b.trips; });
    CHECK(inner->extent == 32); // steps of k
    CHECK(inner->trips == 16 * 4 * 32);
    CHECK(inner->chain == 1);
    CHECK(inner->work.loads == doctest::Approx(4 + 2)); // four values of A, two vectors of B
    CHECK(tree.register_slots == doctest::Approx(8));
}

TEST_CASE("traffic: data that fits is loaded once, other data at every visit") {
    // Columns of B are read once for each row of A: 256 KB, 64 times.
    const Op op = ops::matmul(Float(32), 64, 256, 256);
    Schedule s(op, machine());
    s.stage("C").reorder({"i", "k", "j"}).vectorize("j", 8);
    const LoopTree tree = read_loops(lower(s), machine(), {});
    const std::vector<Traffic> t = count_traffic(tree, {16e3, 4e6});
    const double b = 256 * 256 * 4, a = 64 * 256 * 4;
    CHECK(t[0].read > 60 * b);
    CHECK(t[1].read < 2 * (a + b) + 64 * 256 * 4 * 2);
    CHECK(t[2].read >= a + b);
    CHECK(t[2].read <= t[1].read);
}

TEST_CASE("the estimate tells good schedules from bad ones") {
    const Op op = ops::matmul(Float(32), 256, 256, 256);
    const auto estimate = [&](const Schedule &s) { return cost_of(lower(s), machine(), 1, {}).seconds; };
    const double plain = estimate(Schedule(op, machine())), tile = estimate(tiled(op)),
                 library = estimate(library::matmul(op, machine()));
    CHECK(tile < plain / 4);
    CHECK(library < tile);
    // Not faster than the machine: multiply-adds of 16 lanes per cycle.
    const double peak = 256.0 * 256 * 256 / (machine().fmas_per_cycle * 8);
    CHECK(library > 0.9 * peak / ((machine().clock_ghz > 0 ? machine().clock_ghz : 3) * 1e9));
}

TEST_CASE("threads share the work of a parallel loop") {
    const Op op = ops::matmul(Float(32), 256, 256, 256);
    Schedule s = tiled(op);
    s.stage("C").parallel("i.o");
    const Nest nest = lower(s);
    const double one = cost_of(nest, machine(), 1, {}).seconds, four = cost_of(nest, machine(), 4, {}).seconds;
    CHECK(four < 0.4 * one);
    CHECK(four > 0.2 * one);
}

TEST_CASE("every op has features of one length, all finite, the same each time") {
    const std::vector<std::string> &names = feature_names();
    CHECK(std::set<std::string>(names.begin(), names.end()).size() == names.size());
    const auto check = [&](const Op &op) {
        INFO(op.name());
        const LibraryTemplate *found = library::find_template(op);
        const Schedule s =
            found ? found->make_space(op, machine())->schedule(found->make_space(op, machine())->default_point())
                  : Schedule(op, machine());
        const NestCost cost = cost_of(lower(s), machine(), 1, {});
        CHECK(cost.features.version == features_version);
        REQUIRE(cost.features.values.size() == names.size());
        for (size_t i = 0; i < names.size(); i++) {
            INFO(names[i]);
            CHECK(std::isfinite(cost.features.values[i]));
        }
        CHECK(cost.seconds > 0);
        CHECK(cost_of(lower(s), machine(), 1, {}).features.values == cost.features.values);
    };
    check(ops::matmul(Float(32), 50, 60, 70));
    check(ops::matmul(UInt(8), 32, 32, 64, {.b_type = Int(8)}));
    for (const auto &[name, parameters] : std::vector<std::pair<std::string, Json>>{
             {"conv2d", {{"c", 8}, {"h", 14}, {"w", 14}, {"o", 16}, {"padding", 1}}},
             {"depthwise_conv2d", {{"c", 8}, {"h", 14}, {"w", 14}, {"padding", 1}}},
             {"softmax", {{"m", 20}, {"n", 100}}},
             {"layer_norm", {{"m", 20}, {"n", 100}}},
             {"attention", {{"heads", 2}, {"s", 32}, {"t", 32}, {"d", 16}}},
             {"transpose", {{"m", 40}, {"n", 30}}},
             {"gather", {{"m", 16}, {"n", 32}, {"w", 8}}},
             {"embedding_gradient", {{"b", 2}, {"s", 8}, {"n", 16}, {"w", 8}}},
             {"cumulative_sum", {{"shape", {8, 64}}, {"axis", 1}}},
             {"gelu", {{"n", 1000}}}})
        check(ops::make(name, parameters));
}

TEST_CASE("symbolic sizes are taken as bound") {
    Size n("n");
    const Op op = ops::matmul(Float(32), n, 64, 64);
    const Nest nest = lower(Schedule(op, machine()));
    const double small = cost_of(nest, machine(), 1, {{"n", 64}}).seconds,
                 large = cost_of(nest, machine(), 1, {{"n", 640}}).seconds;
    CHECK(large / small == doctest::Approx(10).epsilon(0.1));
}

TEST_CASE("a nest lowered for features only has the features of the complete one") {
    const Json image = {{"c", 16}, {"h", 20}, {"w", 20}, {"o", 32}, {"padding", 1}};
    const std::vector<std::pair<Op, std::string>> cases = {
        {ops::matmul(Float(32), 50, 70, 40), "matmul"},
        {ops::make("conv2d", image), "conv"},
        {ops::make("conv2d", image), "conv_filters"},
        {ops::make("depthwise_conv2d", {{"c", 16}, {"h", 20}, {"w", 20}}), "depthwise"},
        {ops::make("softmax", {{"m", 30}, {"n", 100}}), "rows"},
        {ops::make("permute", {{"shape", {20, 30, 8}}, {"order", {2, 0, 1}}}), "transpose"}};
    Random random(5);
    int kept = 0;
    for (const auto &[op, name] : cases) {
        const auto found = std::find_if(library::templates().begin(), library::templates().end(),
                                        [&, n = name](const LibraryTemplate &t) { return t.name == n; });
        REQUIRE(found != library::templates().end());
        const auto space = found->make_space(op, machine());
        for (int n = 0; n < 12; n++) {
            const Point point = n == 0 ? space->default_point() : space->sample(random);
            INFO(op.name(), " ", space->text(point));
            const Schedule schedule = space->schedule(point);
            const Nest whole = lower(schedule), counted = lower(schedule, {.to_count = true});
            std::ostringstream text;
            text << counted.body;
            kept += text.str().find("unrolled") != std::string::npos;
            const NestCost a = cost_of(whole, machine(), 1, {}), b = cost_of(counted, machine(), 1, {});
            CHECK(b.seconds == doctest::Approx(a.seconds).epsilon(1e-6));
            for (size_t i = 0; i < a.features.values.size(); i++) {
                INFO(feature_names()[i]);
                CHECK(b.features.values[i] == doctest::Approx(a.features.values[i]).epsilon(1e-5));
            }
        }
    }
    CHECK(kept > 20);
}

TEST_CASE("so has one of any op, in the library's space and in the one made from the formula") {
    const std::vector<std::pair<const char *, Json>> ops = {
        {"matmul", {{"m", 33}, {"n", 40}, {"k", 24}, {"bias", true}, {"activation", "relu"}}},
        {"matmul", {{"m", 16}, {"n", 24}, {"k", 32}, {"type", "u8"}, {"b_type", "i8"}}},
        {"conv2d", {{"c", 8}, {"h", 10}, {"w", 10}, {"o", 16}, {"padding", 1}, {"stride", 2}}},
        {"depthwise_conv2d", {{"c", 16}, {"h", 12}, {"w", 12}, {"padding", 1}}},
        {"max_pool", {{"c", 8}, {"h", 12}, {"w", 12}}},
        {"layer_norm", {{"m", 10}, {"n", 48}}},
        {"attention", {{"heads", 2}, {"s", 16}, {"t", 24}, {"d", 16}}},
        {"reduce", {{"shape", {20, 30}}, {"axes", {0}}}},
        {"transpose", {{"m", 40}, {"n", 24}}}};
    int kept = 0, compared = 0;
    for (const auto &[name, parameters] : ops) {
        const Op op = ops::make(name, parameters);
        for (const SpaceKind kind : {SpaceKind::Library, SpaceKind::Auto}) {
            Random random(6); // so that points do not depend on another space
            const auto space = space_for(op, machine(), kind).second;
            for (int n = 0; n < 5; n++) {
                const Candidate candidate =
                    make_candidate(*space, n == 0 ? space->default_point() : space->sample(random));
                if (candidate.outcome != Outcome::Ok) continue;
                INFO(name, " ", space->text(candidate.point));
                const Schedule schedule = space->schedule(candidate.point);
                std::optional<Nest> whole, counted;
                const auto a = failure_of([&] { whole = lower(schedule, {.verify = false, .most_accesses = 4000}); }),
                           b = failure_of(
                               [&] { counted = lower(schedule, {.most_accesses = 4000, .to_count = true}); });
                CHECK(a == b);
                if (!whole || !counted) continue;
                std::ostringstream text;
                text << counted->body;
                kept += text.str().find("unrolled") != std::string::npos;
                compared++;
                const NestCost all = cost_of(*whole, machine(), 1, {}), few = cost_of(*counted, machine(), 1, {});
                CHECK(few.seconds == doctest::Approx(all.seconds).epsilon(1e-6));
                for (size_t i = 0; i < all.features.values.size(); i++) {
                    INFO(feature_names()[i]);
                    CHECK(few.features.values[i] == doctest::Approx(all.features.values[i]).epsilon(1e-5));
                }
            }
        }
    }
    CHECK(compared > 60);
    CHECK(kept > 20);
}
