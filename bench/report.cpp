#include "bench/suite.h"

#include "bench/peers.h"
#include "bench/summary.h"
#include "support/table.h"

#include <fmt/format.h>

namespace kumiko::bench {

std::vector<std::string> peer_lines() {
    std::vector<std::string> lines;
    for (Peer *p : peers())
        lines.push_back(p->available() ? p->name() + " " + p->version() : p->name() + ": missing, " + p->reason());
    return lines;
}

std::string report_text(const std::vector<BenchRow> &rows, const BenchOptions &options) {
    std::string text;
    std::vector<std::string> remarks;
    std::string suite;
    std::optional<Table> table;
    bool times = false;
    std::map<int, std::vector<BenchRow>> by_threads; // of this suite
    const auto flush = [&] {
        if (table) text += table->text();
        table.reset();
        for (const auto &[threads, some] : by_threads) {
            if (times || some.size() < 2) continue;
            const Summary s = summarize(some);
            text += fmt::format("{} thread{}, {}\n", threads, threads == 1 ? "" : "s", s.text());
        }
        by_threads.clear();
        text += text.empty() ? "" : "\n";
    };
    for (const BenchRow &r : rows) {
        if (!table || r.suite != suite) {
            flush();
            suite = r.suite;
            times = suite == "compile";
            if (times)
                table.emplace(std::vector<std::string>{suite, "median", "unit", "spread"});
            else
                table.emplace(std::vector<std::string>{suite, "threads", "default", "ours", "by", "unit", "of peak",
                                                       "spread", "best peer", "its", "ratio"});
        }
        const std::string spread = fmt::format("{:.1f} %", 100 * r.spread);
        if (times) {
            table->row({r.name, fmt::format("{:.2f}", r.ours), r.unit, spread});
            continue;
        }
        by_threads[r.threads].push_back(r);
        const bool any = !r.best_peer.empty(), there = r.failure.empty();
        const auto rate = [](double value) { return fmt::format("{:.1f}", value); };
        table->row({r.name, std::to_string(r.threads), there ? rate(r.untuned) : "-",
                    there && (r.tuned || options.database.empty()) ? rate(r.ours) : "-", r.way.empty() ? "-" : r.way,
                    r.unit, there && r.of_peak > 0 ? fmt::format("{:.0f} %", 100 * r.of_peak) : "-",
                    there ? spread : "-", any ? r.best_peer : "-", any ? rate(r.peers.at(r.best_peer)) : "-",
                    r.ratio > 0 && there ? fmt::format("{:.2f}x", r.ratio) : "-"});
        for (const std::string &remark : r.remarks) {
            if (std::find(remarks.begin(), remarks.end(), remark) == remarks.end()) remarks.push_back(remark);
        }
    }
    flush();
    for (const std::string &remark : remarks) text += remark + "\n";
    return text;
}

} // namespace kumiko::bench
