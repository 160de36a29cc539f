// Benchmarks: our kernels and the peers' on the same arrays, timed in turn, with what the machine can do beside them.
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
    bool ahead = false; // weights are packed ahead; of convolutions they are where they can be
};

struct BenchOptions {
    int threads = 1;
    std::string database; // "": the default schedule only
    bool peers = true;
    bool halide = false;         // our nest through Halide's own code generator too
    double budget_seconds = 0.3; // of timing one piece
    bool check = true;           // compare our outputs with each other and with the peers'
};

// One line of the report. Rates are in `unit`; more is better except where the unit is a time.
struct BenchRow {
    std::string suite, name;
    int threads = 1;
    std::string
        unit; // "GFLOP/s", "GB/s"; "ms", "ns", "s" in `compile`; "GMAC/s", "Mstep/s" in `sim-speed`; "MAC/cycle", "cycles" of the chip
    double ours = 0;    // of the tuned schedule where there is one, else of the fastest of our ways
    double untuned = 0; // of the op's default schedule
    bool tuned = false;
    std::string way;    // by which ours was made, one of `ways`
    double seconds = 0; // of ours
    std::map<std::string, double> peers;
    std::map<std::string, std::string> peer_notes;
    std::string best_peer; // "" when there is none
    double ratio = 0;      // median over the rounds of ours / best_peer in that round, above 1 is better; 0: none
    double fast_ratio =
        0; // of each one's fastest tenth, which neighbours on the host disturb least: ours / the best peer; 0: none
    double peak = 0; // what the machine can do, in `unit`; 0: none, or the caches hold it all and copying is no bound
    double of_peak = 0;
    double spread = 0; // of ours: (p90 − p10) / median
    std::map<std::string, double>
        ways; // of ours: "default", "tuned"; of convolutions "direct", "Winograd", "own layouts", …
    double error =
        0; // of Winograd's: the largest difference from the direct sum, relative to the largest result; may be NaN
    double default_ratio = 0; // where ours is tuned: the ratio of the default schedule; 0: it is not tuned
    double given_ratio =
        0; // where some have layouts of their own: the ratio of the others, ours and theirs; 0: none have
    std::vector<std::string> remarks;
    std::string failure; // why ours is not there: what is not supported; "" when it is
    std::string wrong;   // who differs from whom; "" when all computed the same

    // {suite, case, threads, ours, unit, peers, best_peer, ratio, peak, of_peak, spread, …}
    Json json() const;
    // Of what json() gave.
    static BenchRow from_json(const Json &j);
};

// "gemm-f32", "conv-f32", "rows", …; bench/cases.cpp lists them
std::vector<std::string> suite_names();
std::string suite_summary(const std::string &suite);
// The cases of a suite; with `shape` ("m=300,n=300,k=300"; parameters of the suite's op) that one alone. Throws UserError for
// an unknown suite, with a suggestion. `compile`, `chip-gemm`, `chip-conv`, `chip-rows`, `chip-move` and `sim-speed` have none.
std::vector<BenchCase> suite_cases(const std::string &suite, const std::string &shape = "");
// The kernels of a kernels.json (driver/library.h).
std::vector<BenchCase> library_cases(const std::string &file);

// Times one case. Peers that are missing or do not do this op are left out, and a remark says so. A case of ours that is not
// supported is a row without ours, and one that computes something else than the peers says so in `wrong`.
BenchRow run_case(const BenchCase &c, const Target &target, const BenchOptions &options = {});

// Compilation: schedule → callable code, with the lowering's part; a library of 50 kernels; the cost of a call.
std::vector<BenchRow> run_compile_suite(const Target &target,
                                        const std::function<void(const std::string &)> &progress = {});

// Programs of the chip: multiply-adds a cycle; the peer is the bound, what the matrix units and DRAM allow together.
std::vector<BenchRow> run_chip_suite(const BenchOptions &options,
                                     const std::function<void(const std::string &)> &progress = {});

// Convolutions on the chip: multiply-adds a cycle; the peer is the bound, what the matrix units, or the vectors, and DRAM allow together.
std::vector<BenchRow> run_chip_conv_suite(const BenchOptions &options,
                                          const std::function<void(const std::string &)> &progress = {});

// Vectors and rows on the chip: bytes of DRAM a cycle, and words of LM; the peer is the rate of DRAM, or of LM.
std::vector<BenchRow> run_chip_rows_suite(const BenchOptions &options,
                                          const std::function<void(const std::string &)> &progress = {});

// The chip's simulator: how fast it simulates, with all checks on.
std::vector<BenchRow> run_sim_suite(const BenchOptions &options,
                                    const std::function<void(const std::string &)> &progress = {});

// Moves on the chip, simulated, against the bound of the links. Does not depend on the host.
std::vector<BenchRow> run_move_suite(const std::function<void(const std::string &)> &progress = {});

// A table for terminals, with the peers' versions above, and what is missing.
std::string report_text(const std::vector<BenchRow> &rows, const BenchOptions &options);
// Which peers there are, with versions or the reason why not; one line each.
std::vector<std::string> peer_lines();

} // namespace kumiko::bench
