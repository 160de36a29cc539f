// Benchmarks: our kernels and the peers' on the same arrays, timed alternately, together with the
// machine's limits.
#pragma once

#include "bench/timer.h"
#include "driver/target.h"
#include "support/json.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kumiko::bench {

// One op at one shape.
struct BenchCase {
    std::string suite, name; // "gemm-f32", "512x512x512"
    std::string op;          // of the registry
    Json parameters;
    // Weights are pre-packed; for convolutions they are wherever possible.
    bool ahead = false;
};

struct BenchOptions {
    int threads = 1;
    std::string database; // "": the default schedule only
    bool peers = true;
    bool halide = false;         // also times our nest compiled by Halide's code generator
    double budget_seconds = 0.3; // for timing one contestant
    bool check = true;           // compare our outputs with each other and with the peers'
};

// One line of the report. Rates are in `unit`; more is better unless the unit is a time.
struct BenchRow {
    std::string suite, name;
    int threads = 1;
    // "GFLOP/s", "GB/s"; "ms", "ns", "s" in `compile`; "GMAC/s", "Mstep/s" in `sim-speed`;
    // "MAC/cycle", "cycles" for the chip.
    std::string unit;
    double ours = 0;    // of the tuned schedule, or else of the fastest of our ways
    double untuned = 0; // of the op's default schedule
    bool tuned = false;
    std::string way;    // the one of `ways` that produced ours
    double seconds = 0; // of ours
    std::map<std::string, double> peers;
    std::map<std::string, std::string> peer_notes;
    std::string best_peer; // "" when there is none
    // The median over rounds of ours / best_peer in the round; above 1 is better; 0: none.
    double ratio = 0;
    // The ratio of the fastest tenths, which other load on the host disturbs least: ours / the best
    // peer; 0: none.
    double fast_ratio = 0;
    // The machine's limit, in `unit`; 0: none, or all data fits the caches, where copying is no
    // bound.
    double peak = 0;
    double of_peak = 0;
    double spread = 0; // of ours: (p90 − p10) / median
    // Rates of ours: "default", "tuned"; for convolutions "direct", "Winograd", "own layouts", …
    std::map<std::string, double> ways;
    // For Winograd: the largest difference from the direct sum, relative to the largest result; may
    // be NaN.
    double error = 0;
    // The ratio of the default schedule, if ours is tuned; 0: it is not.
    double default_ratio = 0;
    // The ratio among those, ours and theirs, that keep the given layouts, if some use their own;
    // 0: none does.
    double given_ratio = 0;
    std::vector<std::string> remarks;
    std::string failure; // why ours is missing; "" if it is not
    std::string wrong;   // which results differ; "" if all are equal

    // {suite, case, threads, ours, unit, peers, best_peer, ratio, peak, of_peak, spread, …}
    Json json() const;
    // The inverse of json().
    static BenchRow from_json(const Json &j);
};

// "gemm-f32", "conv-f32", "rows", …; bench/cases.cpp lists them
std::vector<std::string> suite_names();
std::string suite_summary(const std::string &suite);
// The cases of a suite; with `shape` ("m=300,n=300,k=300"; parameters of the suite's op) only that
// one. Throws UserError for an unknown suite, with a suggestion. `compile`, `chip-gemm`,
// `chip-conv`, `chip-rows`, `chip-move` and `sim-speed` have none.
std::vector<BenchCase> suite_cases(const std::string &suite, const std::string &shape = "");
// The kernels of a kernels.json (driver/library.h).
std::vector<BenchCase> library_cases(const std::string &file);

// Times one case. Peers that are missing or do not support this op are left out with a remark. If
// our kernel is not supported, the row lacks ours; if it computes something else than the peers,
// `wrong` says so.
BenchRow run_case(const BenchCase &c, const Target &target, const BenchOptions &options = {});

// Compilation: schedule → callable code, and the share of lowering; a library of 50 kernels; the
// cost of a call.
std::vector<BenchRow> run_compile_suite(const Target &target,
                                        const std::function<void(const std::string &)> &progress = {});

// Programs of the chip: multiply-adds per cycle; the peer is the bound given by the matrix units
// and DRAM together.
std::vector<BenchRow> run_chip_suite(const BenchOptions &options,
                                     const std::function<void(const std::string &)> &progress = {});

// Convolutions on the chip: multiply-adds per cycle; the peer is the bound given by the matrix
// units, or the vectors, and DRAM together.
std::vector<BenchRow> run_chip_conv_suite(const BenchOptions &options,
                                          const std::function<void(const std::string &)> &progress = {});

// Vectors and rows on the chip: bytes of DRAM per cycle, and words of LM; the peer is the rate of
// DRAM, or of LM.
std::vector<BenchRow> run_chip_rows_suite(const BenchOptions &options,
                                          const std::function<void(const std::string &)> &progress = {});

// The chip's simulator: its speed with all checks enabled.
std::vector<BenchRow> run_sim_suite(const BenchOptions &options,
                                    const std::function<void(const std::string &)> &progress = {});

// Moves on the chip, simulated, compared with the bound of the links. Independent of the host.
std::vector<BenchRow> run_move_suite(const std::function<void(const std::string &)> &progress = {});

// A table for terminals, preceded by the peers' versions and the missing peers.
std::string report_text(const std::vector<BenchRow> &rows, const BenchOptions &options);
// The peers with versions, or the reason why they are missing; one line each.
std::vector<std::string> peer_lines();

} // namespace kumiko::bench
