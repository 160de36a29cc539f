#include "bench/page.h"

#include "bench/plot.h"
#include "bench/summary.h"
#include "support/atomic_file.h"
#include "support/error.h"
#include "support/prose.h"
#include "support/table.h"

#include <algorithm>
#include <cctype>
#include <ctime>
#include <filesystem>
#include <fmt/format.h>
#include <set>

namespace kumiko::bench {

namespace {

namespace fs = std::filesystem;

std::string today() {
    const std::time_t now = std::time(nullptr);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
    return text;
}

std::string caches(const Machine &machine) {
    std::string all;
    for (size_t i = 0; i + 1 < machine.memory.size(); i++) { // the last level is not a cache
        const MemoryLevel &m = machine.memory[i];
        if (m.explicit_placement || m.bytes <= 0) continue;
        const bool small = m.bytes < (1 << 20);
        all += fmt::format("{}{} {} {}", all.empty() ? "" : ", ", m.name, small ? m.bytes >> 10 : m.bytes >> 20,
                           small ? "KiB" : "MiB");
    }
    return all;
}

// The environment of the measurement.
Json where(const Target &target) {
    const Machine &m = target.machine;
    std::string vectors;
    for (const char *feature :
         {"avx2", "fma", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "neon", "dotprod"}) {
        if (m.has(feature)) vectors += (vectors.empty() ? "" : ", ") + std::string(feature);
    }
    return {{"date", today()},
            {"processor", m.description},
            {"cores", m.units_in_all("core")},
            {"caches", caches(m)},
            {"instructions", vectors},
            {"compiler", std::string("Kumiko's generator with LLVM for ") + target.cpu.cpu},
            {"peers", peer_lines()}};
}

std::string where_text(const Json &w) {
    std::string peers;
    for (const Json &p : w.at("peers")) peers += (peers.empty() ? "" : "; ") + p.get<std::string>();
    return wrap_prose(fmt::format("{}, {} cores, {}; {}. {}. Peers: {}. Measured {}.",
                                  w.at("processor").get<std::string>(), w.at("cores").get<int64_t>(),
                                  w.at("caches").get<std::string>(), w.at("instructions").get<std::string>(),
                                  w.at("compiler").get<std::string>(), peers, w.at("date").get<std::string>())) +
           "\n";
}

std::string rate(double value) { return value <= 0 ? "" : fmt::format("{:.{}f}", value, value < 9.95 ? 2 : 1); }

std::string suite_table(const std::vector<BenchRow> &rows) {
    std::set<std::string> peers;
    std::set<int> threads;
    for (const BenchRow &r : rows) {
        for (const auto &[name, its] : r.peers) peers.insert(name);
        threads.insert(r.threads);
    }
    std::vector<std::string> headings = {"case"};
    if (threads.size() > 1) headings.push_back("threads");
    std::set<std::string> ways; // of rows with several
    for (const BenchRow &r : rows) {
        for (const auto &[way, rate] : r.ways) ways.insert(way);
    }
    if (ways.size() < 2) ways.clear();
    const bool winograd = std::any_of(rows.begin(), rows.end(), [](const BenchRow &r) { return r.error != 0; });
    headings.insert(headings.end(), {"Kumiko", "unit", "of peak"});
    for (const std::string &way : ways) headings.push_back("Kumiko, " + way);
    if (winograd) headings.push_back("Winograd's error");
    headings.insert(headings.end(), peers.begin(), peers.end());
    headings.push_back("ratio to the best");
    Table table(headings);
    for (const BenchRow &r : rows) {
        std::vector<std::string> cells = {r.name};
        if (threads.size() > 1) cells.push_back(std::to_string(r.threads));
        cells.push_back(r.failure.empty() ? rate(r.ours) : "not supported");
        cells.push_back(r.unit);
        cells.push_back(r.of_peak > 0 ? fmt::format("{:.0f} %", 100 * r.of_peak) : "-");
        for (const std::string &way : ways) cells.push_back(r.ways.count(way) ? rate(r.ways.at(way)) : "-");
        if (winograd) cells.push_back(r.error != 0 ? fmt::format("{:.1e}", r.error) : "-");
        for (const std::string &p : peers) cells.push_back(r.peers.count(p) ? rate(r.peers.at(p)) : "-");
        cells.push_back(r.ratio > 0 ? fmt::format("{:.2f}", r.ratio) : "-");
        table.row(cells);
    }
    return table.markdown();
}

std::vector<BenchRow> rows_of(const Json &suite) {
    std::vector<BenchRow> rows;
    for (const Json &r : suite.at("rows")) rows.push_back(BenchRow::from_json(r));
    return rows;
}

std::string section(const Json &suite, const std::string &folder, bool name_machine) {
    const std::string name = suite.at("suite").get<std::string>();
    const std::vector<BenchRow> rows = rows_of(suite);
    std::string what = suite.at("summary").get<std::string>();
    what[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(what[0])));
    std::string text = fmt::format("## {}\n\n{}.\n\n", name, what);
    std::set<int> threads;
    for (const BenchRow &r : rows) threads.insert(r.threads);
    for (int t : threads) {
        std::vector<BenchRow> some;
        std::copy_if(rows.begin(), rows.end(), std::back_inserter(some),
                     [&](const BenchRow &r) { return r.threads == t; });
        const std::string line = fmt::format("- {} thread{}, {}.", t, t == 1 ? "" : "s", summarize(some).text());
        text += wrap_prose(line, "  ") + "\n";
    }
    if (name_machine) text += fmt::format("\n{}", where_text(suite.at("where")));
    return text + fmt::format("\n![{0}]({1}/{0}.svg)\n\n", name, folder) + suite_table(rows) + "\n";
}

// PAGE stands for the name of the page.
const char *const preface = R"(# Performance

Made by `./run bench SUITE… --page docs/PAGE`.

- In each case all contestants work on the same arrays, in alternation, and their results are
  compared.
- Rates are medians.
- "ratio to the best" is the median over the rounds of our rate divided by the best peer's rate in
  the same round. Above 1 Kumiko is faster.
- "of peak" is relative to the machine's fastest instruction for these types. If the arrays exceed
  the caches, it is relative to copying memory. Both are timed in the same rounds.
- "Kumiko" is the rate of the tuned schedule if there is one (`kumiko tune` with `--db FILE`, then
  `bench` with `--tuned FILE`), otherwise the rate of the fastest variant. The columns
  "Kumiko, default" and so on have the rates of the single variants.
- Convolutions take NCHW images. All contestants convert the weights to their own layout before the
  measurement; Kumiko does so if the schedule pre-packs them.
- "own layouts": images and results have the layout that the contestant prefers. Kumiko's is NHWC.
  The summaries also have the ratio of those variants that read and write NCHW.
- "Winograd" is the convolution by Winograd's algorithm: F(4x4, 3x3), or F(2x2, 3x3) if that needs
  fewer multiplications, for stride 1 or 2. It is used if it saves at least a quarter of the
  multiplications. Its rate counts the operations of the direct sum, so it may exceed the peak.
- "Winograd's error" is the largest difference from our direct sum in float32, relative to the
  largest result.
- On machines without sums of four products of bytes, the peers' results are right for weights of
  seven bits only. Kumiko's are right for all weights; each call selects the kernel by the values.
- "spread" is the difference between the 90th and the 10th percentile of our times, relative to the
  median. If it is large, other programs ran on the host, and differences of a few per cent are not
  significant.
- "at the 10th percentile" compares the 10th percentile of our times with the least 10th percentile
  of the peers'. Other programs disturb it least.

)";

} // namespace

void write_page(const std::string &page, const std::vector<BenchRow> &rows, const Target &target) {
    const fs::path file(page), folder = fs::path(page).replace_extension();
    if (file.extension() != ".md")
        throw UserError("--page " + page + ": the page is Markdown; its name must end with .md");
    std::map<std::string, std::vector<BenchRow>> by_suite;
    for (const BenchRow &r : rows) by_suite[r.suite].push_back(r);
    const std::vector<std::string> names = suite_names();
    fs::create_directories(folder);
    for (const auto &[name, some] : by_suite) {
        if (std::find(names.begin(), names.end(), name) == names.end() || suite_cases(name).empty())
            throw UserError("--page shows suites with baseline libraries; suite " + name + " has none");
        Json json = {
            {"suite", name}, {"summary", suite_summary(name)}, {"where", where(target)}, {"rows", Json::array()}};
        for (const BenchRow &r : some) json["rows"].push_back(r.json());
        write_file_atomically((folder / (name + ".json")).string(), dump_json(json));
    }
    std::vector<Json> all; // in the order of the suites
    for (const std::string &name : names) {
        const fs::path data = folder / (name + ".json");
        if (!fs::exists(data)) continue;
        all.push_back(load_json(data.string()));
        write_file_atomically((folder / (name + ".svg")).string(), plot_svg(rows_of(all.back())));
    }
    const auto place = [](const Json &suite) {
        Json w = suite.at("where");
        w.erase("date");
        return w;
    };
    const bool one = std::all_of(all.begin(), all.end(), [&](const Json &s) { return place(s) == place(all.front()); });
    std::string text = preface;
    text.replace(text.find("PAGE"), 4, file.filename().string());
    if (one && !all.empty()) {
        Json shared = all.back().at("where");
        std::set<std::string> dates;
        for (const Json &suite : all) dates.insert(suite.at("where").at("date").get<std::string>());
        if (dates.size() > 1) shared["date"] = *dates.begin() + " to " + *dates.rbegin();
        text += where_text(shared) + "\n";
    }
    for (const Json &suite : all) text += section(suite, folder.filename().string(), !one);
    write_file_atomically(page, text);
}

} // namespace kumiko::bench
