// Means of suites, the page and its plots, from rows with known numbers.
// Links: bench
// Sanitized: no
#include "bench/page.h"
#include "bench/plot.h"
#include "bench/summary.h"
#include "support/error.h"
#include "tests/unit/count.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

using namespace kumiko;
using namespace kumiko::bench;

namespace {

BenchRow row(const std::string &suite, const std::string &name, double ours, double peer, double peak = 0) {
    BenchRow r;
    r.suite = suite, r.name = name, r.unit = "GFLOP/s", r.ours = r.untuned = ours, r.seconds = 1;
    if (peer > 0) {
        r.peers["oneDNN"] = peer, r.peers["MKL"] = peer / 2, r.best_peer = "oneDNN";
        r.peer_notes["oneDNN"] = "jit";
        if (ours > 0) r.ratio = ours / peer;
    }
    r.peak = peak;
    if (peak > 0) r.of_peak = ours / peak;
    return r;
}

std::string read(const std::filesystem::path &file) {
    std::ifstream in(file);
    REQUIRE_MESSAGE(in.good(), file.string());
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

// The text with a space in place of each end of a line.
std::string one_line(const std::string &text) {
    std::istringstream in(text);
    std::string out;
    for (std::string word; in >> word;) out += (out.empty() ? "" : " ") + word;
    return out;
}

} // namespace

TEST_CASE("means are geometric, the worst case is named, and missing values do not count") {
    BenchRow failed = row("gemm-f32", "c", 0, 5);
    failed.failure = "not built";
    const Summary s =
        summarize({row("gemm-f32", "a", 2, 1, 8), row("gemm-f32", "b", 1, 8, 2), row("gemm-f32", "d", 3, 0), failed});
    CHECK(s.cases == 4);
    CHECK(s.compared == 2);
    CHECK(s.ratio == doctest::Approx(0.5)); // of 2 and 1/8
    CHECK(s.worst == doctest::Approx(0.125));
    CHECK(s.worst_case == "b");
    CHECK(s.of_peak == doctest::Approx(0.3535534)); // of 1/4 and 1/2
    CHECK(s.unsupported == 1);
    CHECK(s.spread == 0);
    CHECK(s.text() ==
          "4 cases: geometric mean 0.50x of the best peer (worst 0.12x, b) over the 2 that a peer also has, "
          "35 % of peak; 1 of them not supported");
    BenchRow a = row("gemm-f32", "a", 2, 1), b = row("gemm-f32", "b", 1, 8);
    a.fast_ratio = 1, b.fast_ratio = 4;
    CHECK(summarize({a, b}).fast_ratio == doctest::Approx(2));
    CHECK(summarize({a, b}).text() ==
          "2 cases: geometric mean 0.50x of the best peer (worst 0.12x, b), 2.00x at the 10th percentile");
    CHECK(summarize({row("gemm-f32", "d", 3, 0)}).text() == "1 case, none of which a peer has");
}

TEST_CASE("a row round-trips through JSON") {
    BenchRow r = row("gemm-f32", "a", 2, 1, 8);
    r.remarks = {"x"}, r.threads = 3, r.spread = 0.25, r.fast_ratio = 1.5, r.tuned = true, r.failure = "f",
    r.wrong = "w";
    CHECK(BenchRow::from_json(r.json()).json() == r.json());
    const BenchRow bare = row("gemm-f32", "a", 2, 0);
    CHECK(BenchRow::from_json(bare.json()).json() == bare.json());
    r.ways = {{"tuned", 1}}, r.way = "tuned", r.default_ratio = 0.75;
    CHECK(BenchRow::from_json(r.json()).json() == r.json());
    CHECK(BenchRow::from_json(r.json()).ways == r.ways);
    r.ways = {{"direct", 1}, {"Winograd", 2}}, r.error = 1e-6, r.given_ratio = 0.5;
    CHECK(BenchRow::from_json(r.json()).json() == r.json());
    r.error = NAN;
    CHECK(std::isnan(BenchRow::from_json(r.json()).error));
    Json older = bare.json();
    older["direct"] = 1.5, older["error"] = 1e-6;
    const BenchRow by_winograd = BenchRow::from_json(older);
    CHECK(by_winograd.ways == std::map<std::string, double>{{"Winograd", 2}, {"direct", 1.5}});
    CHECK(by_winograd.error == 1e-6);
}

TEST_CASE("each variant of ours has a column, and those in the given layout are compared separately") {
    const auto folder = std::filesystem::path(KUMIKO_BINARY_DIR) / "test_bench_page.ways";
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    const std::string page = (folder / "speed.md").string();
    BenchRow both = row("conv-f32", "3x3", 30, 20), alone = row("conv-f32", "1x1", 40, 20);
    both.ways = {{"direct", 10}, {"Winograd", 20}, {"own layouts", 30}}, both.error = 2e-6, both.given_ratio = 0.5;
    alone.ways = {{"direct", 40}, {"own layouts", 25}}, alone.given_ratio = 2;
    CHECK(summarize({both, alone}).given_ratio == doctest::Approx(1));
    write_page(page, {both, alone}, Target::named("x86-64-avx2"));
    const std::string text = read(page);
    CHECK(count(text, "| Kumiko, Winograd | Kumiko, direct | Kumiko, own layouts | Winograd's error |") == 1);
    CHECK(count(text, "| 3x3 | 30.0 | GFLOP/s | - | 20.0 | 10.0 | 30.0 | 2.0e-06 | 10.0 | 20.0 | 1.50 |") == 1);
    CHECK(count(text, "| 1x1 | 40.0 | GFLOP/s | - | - | 40.0 | 25.0 | - | 10.0 | 20.0 | 2.00 |") == 1);
    CHECK(count(one_line(text), "1.00x for NCHW images and results") == 1);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) CHECK((line.size() <= 100 || line[0] == '|'));

    BenchRow tuned = row("gemm-f32", "a", 30, 20), plain = row("gemm-f32", "b", 10, 20);
    tuned.ways = {{"default", 10}, {"tuned", 30}}, tuned.tuned = true, tuned.default_ratio = 0.5;
    plain.ways = {{"default", 10}};
    CHECK(summarize({tuned, plain}).default_ratio == doctest::Approx(0.5));
    CHECK(summarize({plain}).default_ratio == 0);
    write_page(page, {tuned, plain}, Target::named("x86-64-avx2"));
    CHECK(count(read(page), "| a | 30.0 | GFLOP/s | - | 10.0 | 30.0 | 10.0 | 20.0 | 1.50 |") == 1);
    CHECK(count(read(page), "| b | 10.0 | GFLOP/s | - | 10.0 | - | 10.0 | 20.0 | 0.50 |") == 1);
    CHECK(count(one_line(read(page)), "0.50x by default schedules") == 1);
}

TEST_CASE("a picture has every case, peer and peak, and longer bars for more") {
    const std::string svg =
        plot_svg({row("gemm-f32", "1 < 2 & 3", 20, 40, 100), row("gemm-f32", "second", 60, 50, 100)});
    CHECK(svg.starts_with("<svg "));
    CHECK(svg.ends_with("</svg>\n"));
    CHECK(count(svg, "1 &lt; 2 &amp; 3") == 1);
    for (const char *name : {"second", "oneDNN", "MKL", "Kumiko"}) CHECK_MESSAGE(count(svg, name) == 1, name);
    CHECK(count(svg, "translate(") == 2 + 4); // in the legend, and of each case
    std::vector<double> widths;
    const std::string bar = "height=\"12\"", key = "width=\"";
    for (size_t at = 0; (at = svg.find(bar, at)) != std::string::npos; at += bar.size())
        widths.push_back(std::stod(svg.substr(svg.rfind(key, at) + key.size())));
    REQUIRE(widths.size() == 2);
    CHECK(widths[1] == doctest::Approx(3 * widths[0]).epsilon(0.01));
}

TEST_CASE("measuring a suite again replaces only its section") {
    const auto folder = std::filesystem::path(KUMIKO_BINARY_DIR) / "test_bench_page.scratch";
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    const std::string page = (folder / "speed.md").string();
    const Target target = Target::named("x86-64-avx2");
    write_page(page, {row("gemm-f32", "first", 11, 10), row("rows", "other", 33, 30)}, target);
    write_page(page, {row("gemm-f32", "again", 22, 20)}, target);
    const std::string text = read(page);
    CHECK(count(text, "## gemm-f32") == 1);
    CHECK(count(text, "## rows") == 1);
    CHECK(text.find("## gemm-f32") < text.find("## rows")); // in the order of the suites
    CHECK(count(text, "| again | 22.0 | GFLOP/s | - | 10.0 | 20.0 | 1.10 |") == 1);
    CHECK(count(text, "| other | 33.0") == 1);
    CHECK(count(text, "first") == 0);
    CHECK(count(text, "(speed/rows.svg)") == 1);
    CHECK(count(one_line(text), "Measured ") == 1); // one machine, named once
    Json earlier = Json::parse(read(folder / "speed/rows.json"));
    earlier["where"]["date"] = "2000-01-02";
    std::ofstream(folder / "speed/rows.json") << earlier.dump();
    write_page(page, {row("gemm-f32", "again", 22, 20)}, target);
    CHECK(count(one_line(read(page)), "Measured 2000-01-02 to 20") == 1); // on several days
    CHECK(count(read(folder / "speed/gemm-f32.svg"), "again") == 1);
    write_page(page, {row("rows", "other", 33, 30)}, Target::named("x86-64-avx512"));
    CHECK(count(one_line(read(page)), "Measured ") == 2); // two machines: one in each section
}

TEST_CASE("errors of pages") {
    const Target target = Target::named("x86-64-avx2");
    CHECK_THROWS_WITH_AS(write_page("speed.txt", {row("rows", "a", 1, 1)}, target),
                         doctest::Contains("must end with .md"), UserError);
    CHECK_THROWS_WITH_AS(write_page(KUMIKO_BINARY_DIR "/x.md", {row("compile", "a", 1, 1)}, target),
                         doctest::Contains("suite compile has none"), UserError);
}
