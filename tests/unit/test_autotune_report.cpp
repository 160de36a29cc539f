// The tuning report: the page is well-formed, loads nothing, escapes its contents, and holds the
// numbers.
#include "autotune/report.h"
#include "autotune/report/numbers.h"
#include "autotune/report/plot.h"
#include "autotune/tune.h"
#include "ops/matmul.h"
#include "schedules/library/space.h"
#include "support/json.h"
#include "tests/unit/count.h"
#include "tests/unit/html_fault.h"
#include "tests/unit/refusal.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace kumiko;
using report::chance_curve;

namespace {

bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

Op product() { return ops::matmul(Float(32), 64, 64, 64); }

// A search of n candidates, of which every seventh fails; features 3 and 7 make candidates fast.
std::vector<Record> records_of(const Op &op, int n) {
    std::vector<Record> all;
    for (int i = 0; i < n; i++) {
        Schedule s(op);
        auto [outer, inner] = s.stage("C").split("i", 2 + i % 16);
        s.stage("C").reorder({outer, "j", "k", inner}).unroll(inner);
        Record r;
        r.key = task_key(op, Machine::host(), {.threads = 1});
        r.parameters = Json{{"rows", i}, {"name", "<a & \"b\">"}};
        r.saved_schedule = s.to_json();
        r.schedule_hash = "hash" + std::to_string(i);
        r.library_template = "demo";
        r.features = {features_version, std::vector<float>(feature_names().size())};
        r.features.values[3] = static_cast<float>(i % 10);
        r.features.values[7] = static_cast<float>(i % 3);
        const double seconds = 1e-5 * (1 + 0.3 * (i % 10) + 0.5 * (i % 3));
        r.timing = {seconds, seconds, 0.01, 9};
        r.estimated_seconds = 8e-6 * (1 + 0.2 * (i % 10));
        r.predicted = -0.3 * (i % 10) - 0.5 * (i % 3);
        r.origin = i == 0 ? "default" : i % 4 == 1 ? "explore" : "model";
        char created[32];
        std::snprintf(created, sizeof created, "2026-11-20T10:%02d:00Z", i);
        r.created = created;
        if (i == 0) r.timing = {4e-5, 4e-5, 0.01, 9};
        if (i % 7 == 6) {
            r.outcome = i % 2 ? Outcome::Wrong : Outcome::Crashed;
            r.reason = i % 2 ? "element " + std::to_string(i) + " of <C> & others differs" : "it stopped";
            r.timing = {};
        }
        all.push_back(r);
    }
    Record rejected = all[0];
    rejected.schedule_hash = "";
    rejected.saved_schedule = nullptr;
    rejected.outcome = Outcome::Illegal;
    rejected.reason = "9 registers are too few";
    rejected.origin = "model";
    rejected.parameters = Json{{"rows", 99}};
    all.push_back(rejected);
    return all;
}

std::shared_ptr<const CostModel> model_of(const std::vector<Record> &records) {
    ModelTask task{"task", {}, {}, {}};
    for (const Record &r : records) {
        if (r.outcome != Outcome::Ok) continue;
        task.features.push_back(r.features);
        task.seconds.push_back(r.timing.least);
        task.estimates.push_back(r.estimated_seconds);
    }
    TreeOptions quick = CostModel::default_options();
    quick.rounds = 20;
    return std::make_shared<CostModel>(CostModel::learn({task}, quick));
}

ReportTask task_of(const Op &op, std::vector<Record> records) {
    const TaskKey key = records[0].key;
    return {Database::task_of(op, key), std::move(records), count_work(op, {})};
}

Record sample(double seconds, const char *origin) {
    Record r;
    r.origin = origin;
    r.timing.least = std::isfinite(seconds) ? seconds : 0;
    if (!std::isfinite(seconds)) r.outcome = Outcome::Failed;
    return r;
}

} // namespace

TEST_CASE("a page holds what was found, and needs nothing else") {
    const Op op = product();
    std::vector<Record> records = records_of(op, 40);
    records[10].final_seconds = 1.02e-5;
    const std::string html = report_page({task_of(op, records)}, {.model = model_of(records)});
    CHECK(fault_of_html(html) == "");
    for (const std::string loads : {"http:", "https:", "src=", "<script", "<link", "url(", "@import"})
        CHECK_MESSAGE(!has(html, loads), loads);
    CHECK(has(html, "prefers-color-scheme: dark"));
    for (const std::string part :
         {"Tuning of matmul", "A: f32 64 × 64", "Tuning curve", "The best schedule", "Predicted and measured",
          "Why the model prefers it", "Failed candidates", "Rejected candidates", "10.2 us", "51.4 GFLOP/s", "40.0 us",
          "3.92x", "s.stage(&quot;C&quot;).split(", "<td>unroll</td>", "pairs ordered rightly",
          "trials that this search made "
          "by chance",
          "Machine "})
        CHECK_MESSAGE(has(html, part), part);
    CHECK(has(html, Machine::host().id()));
    // The best schedule's unroll is explained once, in the words of its record.
    CHECK(has(html, "<td>Replaces a loop by copies of its body, in the same order</td>"));
    CHECK(has(html, feature_names()[3]));
    // Five of forty failed: numbers 6, 13, 20, 27, 34.
    CHECK(has(html, "<td class=\"n\">3</td><td>crashed: it stopped</td>"));
    CHECK(has(html,
              "<td class=\"n\">2</td><td>wrong: element # of &lt;C&gt; &amp; others differs</td><td>element 13 of"));
    CHECK(has(html, "illegal: # registers are too few"));
    CHECK(has(html, "35, 5, 1"));
    CHECK(has(html, "name=&lt;a &amp; &quot;b&quot;&gt;"));
    CHECK(!has(html, "<a & "));
    CHECK(count(html, "<circle class=\"dot") == 3 * 35);
    CHECK(count(html, "<svg") == 3);
    CHECK(has(html, ">GFLOP/s</text>"));
}

TEST_CASE("names that are HTML stay text, and several tasks share a page") {
    const Op op = product();
    std::vector<Record> records = records_of(op, 9);
    ReportTask first = task_of(op, records), second = first;
    first.task.key.op = "</title><script>alert('x')</script>";
    first.task.key.machine = "\"><img src=x>";
    first.task.formula = "C(i, j) = A < B && \x01";
    first.task.tensors = Json{{{"name", "<b>"}, {"type", "f32"}, {"shape", {2, 3}}}};
    first.records[0].created = "<i>";
    first.records[3].origin = "<u>&";
    second.work.reset();
    second.task.key.machine += ", caches cold, weights packed ahead";
    const std::string html = report_page({first, second}, {.model = std::make_shared<CostModel>()});
    CHECK(fault_of_html(html) == "");
    for (const std::string raw : {"<script", "<img", "<b>:", "<i>", "<u>"}) CHECK_MESSAGE(!has(html, raw), raw);
    CHECK(has(html, "&lt;script&gt;alert(&#39;x&#39;)"));
    CHECK(has(html, "Tuning of 2 tasks"));
    CHECK(has(html, "<h2>matmul, caches cold, weights packed ahead</h2>"));
    CHECK(count(html, "<section") == 2);
    CHECK(count(html, ">GFLOP/s</text>") == 1); // of the one whose work is known
    CHECK(has(html, "There is no cost model"));
}

TEST_CASE("pages of little") {
    const Op op = product();
    std::vector<Record> one = records_of(op, 1);
    one.resize(1);
    std::string html = report_page({task_of(op, one)}, {.model = model_of(records_of(op, 20))});
    CHECK(fault_of_html(html) == "");
    CHECK(has(html, "The default schedule is the best"));
    CHECK(has(html, "No trial failed"));
    CHECK(!has(html, "at a sample of"));
    ReportTask sampled = task_of(op, one);
    sampled.checked_elements = 512;
    html = report_page({sampled}, {.model = model_of(records_of(op, 20))});
    CHECK(fault_of_html(html) == "");
    CHECK(has(html, "checked at a sample of 512 elements"));
    CHECK(has(html, "Too few records were made by chance"));
    one[0].outcome = Outcome::TimedOut;
    html = report_page({task_of(op, one)}, {.model = std::make_shared<CostModel>()});
    CHECK(fault_of_html(html) == "");
    CHECK(has(html, "No candidate is good"));
    // A schedule of a newer version is not shown as if it were known.
    std::vector<Record> newer = records_of(op, 2);
    newer.resize(2);
    (*newer[1].saved_schedule)["version"] = 2;
    html = report_page({task_of(op, newer)}, {.model = std::make_shared<CostModel>()});
    CHECK(has(html, "The schedule cannot be shown: the saved schedule has format version 2, newer than 1"));
    // Records from before features were stored.
    std::vector<Record> old = records_of(op, 12);
    for (Record &r : old) {
        r.features = {};
        r.predicted.reset();
        r.estimated_seconds = 0;
        r.origin.clear();
    }
    html = report_page({task_of(op, old)}, {.model = model_of(records_of(op, 20))});
    CHECK(fault_of_html(html) == "");
    CHECK(has(html, "the model cannot compare them"));
    CHECK(count(html, "not known</td>") == 3);
}

TEST_CASE("a session that found nothing good leaves what a page tells") {
    struct Refusing : Space {
        explicit Refusing(const Op &op) : Space(op, Machine::host()) { set_parameters({{"n", {1, 2, 3}, true}}); }
        Point default_point() const override { return {0}; }
        Schedule schedule(const Point &p) const override {
            throw UserError("there is room for less than " + std::to_string(p[0]));
        }
    } space(product());
    TuneReport report;
    CHECK_THROWS_AS(
        tune(product(), Machine::host(), CpuTarget::host(), {.trials = 4, .threads = 1, .space = &space}, &report),
        UserError);
    CHECK(report.records.empty());
    REQUIRE(report.rejections.size() == 3);
    const std::string html = report_page({task_of(product(), report.rejections)});
    CHECK(fault_of_html(html) == "");
    CHECK(has(html, "No candidate is good"));
    CHECK(has(html, "<td class=\"n\">3</td><td>illegal: there is room for less than #</td>"));
}

TEST_CASE("what cannot be reported") {
    CHECK(refusal([] { report_page({}); }) == "there is nothing to report: no task is given");
    ReportTask none;
    none.task.key.op = "matmul";
    CHECK(refusal([&] { report_page({none}); }) ==
          "there is nothing to report of matmul: it has no records; tune it first");
    Database db(":memory:");
    CHECK(refusal([&] { report_tasks(db); }) == ":memory: holds no records to report; tune something first");
    const Op op = product();
    for (const Record &r : records_of(op, 3)) db.add(op, r);
    CHECK(refusal([&] { report_tasks(db, {"matmull"}); }) ==
          ":memory: has no records of an op \"matmull\" (did you mean 'matmul'?)");
    const auto tasks = report_tasks(db, {"matmul"});
    REQUIRE(tasks.size() == 1);
    CHECK(tasks[0].records.size() == 4);
}

TEST_CASE("the model that comes for the task's machine runners, however the task was measured") {
    const Op op = product();
    ReportTask t = task_of(op, records_of(op, 20));
    const auto by = [&](const char *name) {
        return report_page({t}, {.model = CostModel::shipped(Machine::named(name))});
    };
    CHECK(by("x86-64-avx512") != by("x86-64-avx2"));
    for (const char *name : {"x86-64-avx512", "x86-64-avx2"}) {
        const Machine machine = Machine::named(name);
        for (const char *measured : {"", ", caches cold", ", weights packed ahead"}) {
            t.task.key.machine = machine.id() + measured;
            CHECK(report_page({t}) == by(name));
        }
    }
}

TEST_CASE("the expected best of n draws") {
    const double never = std::numeric_limits<double>::infinity();
    const auto of = [](const std::vector<double> &seconds, const char *origin, double first) {
        std::vector<Record> all = {sample(first, "default"), sample(0.1, "model")};
        for (double s : seconds) all.push_back(sample(s, origin));
        return chance_curve(all);
    };
    // Of 1, 2, 3, 4: one draw 2.5; two draws (1+1+1+2+2+3)/6; three (1+1+1+2)/4; four 1.
    const auto curve = of({4, 2, 3, 1}, "random", 5);
    CHECK(curve.session);
    CHECK(curve.samples == 4);
    REQUIRE(curve.seconds.size() == 5);
    CHECK(curve.seconds[0] == 5);
    CHECK(curve.seconds[1] == doctest::Approx(2.5));
    CHECK(curve.seconds[2] == doctest::Approx(10.0 / 6));
    CHECK(curve.seconds[3] == doctest::Approx(1.25));
    CHECK(curve.seconds[4] == doctest::Approx(1));
    // A default that is faster than most is a bound; a failed draw leaves it.
    CHECK(of({4, 2, 3, never}, "explore", 2.5).seconds[1] == doctest::Approx((2.5 + 2 + 2.5 + 2.5) / 4));
    CHECK(!of({4, 2, 3, never}, "explore", 2.5).session);
    // Without a default, failed draws are left out.
    const auto bare = of({4, 2, 3, never}, "random", never);
    CHECK(bare.seconds[0] == doctest::Approx(3));
    CHECK(bare.seconds.back() == doctest::Approx(2));
    CHECK(of({1, 2, 3}, "random", 5).empty());
    CHECK(of({never, never, never, never}, "random", 5).empty());
}

TEST_CASE("a random search beside is not part of the curve") {
    const Op op = product();
    std::vector<Record> records = records_of(op, 10);
    for (int i = 0; i < 8; i++) {
        Record r = records[2];
        r.origin = "random";
        r.created = "2026-11-20T09:00:00Z";
        r.schedule_hash = "random" + std::to_string(i);
        records.push_back(r);
    }
    const CostModel nothing;
    const auto numbers = report::numbers_of(records, nothing);
    CHECK(numbers.trials.size() == 10);
    CHECK(numbers.by_chance == 8);
    CHECK(numbers.chance.session);
    CHECK(numbers.trials[0].origin == "default");
    records.erase(records.begin() + 1,
                  // The default and the random candidates remain, with a curve of their own.
                  records.begin() + 10);
    CHECK(report::numbers_of(records, nothing).trials.size() == 9);
}

TEST_CASE("of many dots some are drawn, and the page says so") {
    report::Plot plot;
    plot.x = {"x", false, [](double) { return std::string("x"); }};
    plot.y = {"y", true, [](double) { return std::string("y"); }};
    plot.series.resize(1);
    for (int i = 1; i <= 4000; i++) plot.series[0].points.emplace_back(i, i);
    plot.series[0].points.emplace_back(3, 1e300); // what no measurement gives
    plot.series[0].points.emplace_back(3, -1);
    plot.series[0].points.emplace_back(std::nan(""), 1);
    const std::string html = plot.html();
    CHECK(count(html, "<circle") == 1334);
    CHECK(has(html, "(one of 3 is drawn)"));
    plot.series[0].points.clear();
    CHECK(plot.html().empty());
}

TEST_CASE("ticks are round") {
    CHECK(report::ticks(0, 40, false, 8) == std::vector<double>{0, 5, 10, 15, 20, 25, 30, 35, 40});
    CHECK(report::ticks(0.9, 21, true, 6) == std::vector<double>{1, 2, 5, 10, 20});
    CHECK_FALSE(std::signbit(report::ticks(-0.4, 40, false, 8)[0])); // 0, not -0
    for (const auto &[low, high] : std::vector<std::pair<double, double>>{{1e-6, 1.1e-6}, {3e-9, 4e3}, {5, 19.9}}) {
        const auto all = report::ticks(low, high, true, 6);
        CHECK(all.size() >= 1);
        CHECK(all.size() <= 14);
    }
}
