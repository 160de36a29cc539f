// One op at one shape: our kernels and the peers' in turn.
#include "bench/suite.h"

#include "autotune/work.h"
#include "bench/peak.h"
#include "bench/peers.h"
#include "driver/default_schedule.h"
#include "driver/kernel.h"
#include "driver/tuned.h"
#include "ops/elementwise.h"
#include "ops/registry.h"
#include "runtime/kumiko_runtime.h"
#include "support/error.h"

#include <algorithm>

namespace kumiko::bench {

namespace {

struct Piece {
    std::string name, note;
    std::function<void()> run;
    std::function<void()> collect = [] {};
    Buffer<> output; // the first one; empty for what computes nothing
};

// The arrays of an op, and pieces of work on them.
class Contest {
public:
    Contest(const BenchCase &c, const Target &target, const BenchOptions &options)
        : case_(c), target_(target), options_(options), op_(ops::make(c.op, c.parameters)) {
        if (!op_.sizes().empty())
            throw UserError(c.name + ": size " + op_.sizes()[0] +
                            " has no value; benchmarks need numbers for all sizes");
        uint64_t seed = 1;
        for (const Input &in : op_.inputs()) {
            inputs_.push_back(make_input(in, {}));
            if (in.type.is_float())
                fill_random(inputs_.back(), seed++, -1, 1);
            else
                fill_random_integers(inputs_.back(), seed++, in.type.is_uint() ? 0 : -4, 4);
        }
    }

    const Op &op() const { return op_; }

    Kernel add_ours(const std::string &name, const Schedule &schedule, bool through_halide = false) {
        CompileOptions options;
        options.through_halide = through_halide;
        const Kernel kernel = compile(schedule, target_, options);
        std::vector<Buffer<>> arrays = inputs_;
        bool packs = false;
        for (size_t i = 0; i < inputs_.size(); i++) {
            const std::string &from = kernel.nest().tensors[i].packed_from;
            if (!from.empty()) arrays[i] = kernel.pack(from, inputs_[i]), packs = true;
        }
        const size_t first = arrays.size();
        for (const std::string &o : op_.outputs()) arrays.push_back(make_output(op_, o, {}));
        pieces.push_back(
            {name, packs ? "weights packed before" : "", [kernel, arrays] { kernel(arrays); }, [] {}, arrays[first]});
        packed = packed || packs;
        return kernel;
    }

    void add_peers() {
        for (Peer *peer : bench::peers()) {
            if (!peer->available()) {
                remarks.push_back(peer->name() + " is missing: " + peer->reason());
                continue;
            }
            add_peer(*peer, {.threads = options_.threads, .prepack_weights = packed});
        }
    }

    std::vector<Piece> pieces;
    std::vector<std::string> remarks;
    bool packed = false; // one of our kernels takes packed weights, so the peers may too

private:
    const BenchCase &case_;
    const Target &target_;
    const BenchOptions &options_;
    Op op_;
    std::vector<Buffer<>> inputs_;

    const float *in(size_t i) const { return reinterpret_cast<const float *>(inputs_.at(i).data()); }
    int64_t integer(const char *name) const { return case_.parameters.at(name).get<int64_t>(); }
    bool plain(const std::vector<const char *> &names) const { // options that the peers' interface does not know
        for (const char *name : names) {
            const auto found = case_.parameters.find(name);
            if (found == case_.parameters.end()) continue;
            if (*found != false && *found != "" && *found != 0 && *found != "same") return false;
        }
        return true;
    }

    void add_peer(Peer &peer, const PeerOptions &o) {
        for (const Input &input : op_.inputs()) {
            if (input.type != Float(32)) return;
        }
        if (op_.outputs().size() != 1) return;
        Buffer<> out = make_output(op_, op_.outputs()[0], {});
        fill_unwritten(out);
        if (out.type() != halide_type_t(Float(32))) return;
        float *to = reinterpret_cast<float *>(out.data());
        Peer::Result kernel;
        if (case_.op == "matmul" &&
            plain({"transpose_a", "transpose_b", "batch", "bias", "residual", "activation", "strided"})) {
            kernel = peer.matmul({integer("m"), integer("n"), integer("k")}, in(0), in(1), to, o);
        } else if (case_.op == "conv2d" || case_.op == "depthwise_conv2d") {
            if (!plain({"residual", "activation"}) || case_.parameters.at("layout") != "nchw") return;
            const bool depthwise = case_.op != "conv2d";
            ConvCase s{integer("n"),  integer("c"), integer("h"), integer("w"), depthwise ? integer("c") : integer("o"),
                       integer("kh"), integer("kw")};
            s.stride = integer("stride"), s.pad = integer("padding"), s.dilation = integer("dilation");
            s.groups = depthwise ? s.c : integer("groups");
            const float *bias = case_.parameters.at("bias") == true ? in(2) : nullptr;
            // Deep learning libraries keep weights in their own layout between calls, so that is not counted against them.
            PeerOptions with = o;
            with.prepack_weights = true;
            kernel = peer.conv2d(s, in(0), in(1), bias, to, with);
            with.own_activations = true;
            Buffer<> own = make_output(op_, op_.outputs()[0], {});
            fill_unwritten(own);
            if (auto k = peer.conv2d(s, in(0), in(1), bias, reinterpret_cast<float *>(own.data()), with)) {
                pieces.push_back({peer.name() + ", own layouts", k->note, k->run, k->collect, own});
            }
        } else if (case_.op == "softmax") {
            kernel = peer.softmax({integer("m"), integer("n")}, in(0), to, o);
        } else if (case_.op == "layer_norm") {
            kernel = peer.layer_norm({integer("m"), integer("n")}, case_.parameters.at("eps").get<float>(), in(0),
                                     in(1), in(2), to, o);
        } else if (op_.inputs().size() == 1 && case_.parameters.contains("n") && !case_.parameters.contains("m")) {
            kernel = peer.elementwise(case_.op, integer("n"), in(0), to, o);
        }
        if (kernel) pieces.push_back({peer.name(), kernel->note, kernel->run, kernel->collect, out});
    }
};

// Every contestant must have computed the same, up to the order of sums.
void check_outputs(const std::string &name, const std::vector<Piece> &pieces) {
    const Piece *first = nullptr;
    for (const Piece &p : pieces) {
        if (!p.output.raw_buffer() || !p.output.data()) continue;
        p.collect();
        if (!first) {
            first = &p;
            continue;
        }
        try {
            check_close(p.output, first->output, {.relative = 2e-3, .absolute = 2e-3});
        } catch (const UserError &e) {
            throw UserError(name + ": " + p.name + " and " + first->name + " differ: " + e.what());
        }
    }
}

} // namespace

Json BenchRow::json() const {
    Json j = {{"suite", suite}, {"case", name}, {"threads", threads}, {"ours", ours}, {"unit", unit}, {"peers", peers}};
    j["best_peer"] = best_peer.empty() ? Json(nullptr) : Json(best_peer);
    j["ratio"] = ratio > 0 ? Json(ratio) : Json(nullptr);
    j["peak"] = peak > 0 ? Json(peak) : Json(nullptr);
    j["of_peak"] = peak > 0 ? Json(of_peak) : Json(nullptr);
    j["spread"] = spread;
    j["tuned"] = tuned;
    j["untuned"] = untuned;
    j["seconds"] = seconds;
    j["notes"] = peer_notes;
    j["remarks"] = remarks;
    return j;
}

BenchRow run_case(const BenchCase &c, const Target &target, const BenchOptions &options) {
    kumiko_set_num_threads(options.threads);
    Contest contest(c, target, options);
    const Work work = count_work(contest.op(), {});
    BenchRow row;
    row.suite = c.suite, row.name = c.name, row.threads = options.threads;
    row.unit = measured_by_operations(work) ? "GFLOP/s" : "GB/s";
    const double amount = (measured_by_operations(work) ? work.operations : work.bytes) * 1e-9;

    const CountedWork peak = measured_by_operations(work) ? fma_peak(options.threads) : copy_bandwidth(options.threads);
    contest.pieces.push_back({"peak", "", peak.run, [] {}, {}});
    const Schedule plain = default_schedule(contest.op(), target.machine);
    contest.add_ours("default", plain);
    std::optional<Schedule> best;
    if (!options.database.empty()) {
        if (const auto found =
                tuned_schedule(contest.op(), target.machine, options.database, {.threads = options.threads})) {
            best = Schedule::from_json(contest.op(), target.machine, found->schedule);
            contest.add_ours("tuned", *best);
        } else {
            row.remarks.push_back("not in " + options.database);
        }
    }
    const size_t ours = contest.pieces.size() - 1;
    row.tuned = best.has_value();
    if (options.peers && options.halide) {
        try {
            contest.add_ours("Halide", best ? *best : plain, true);
        } catch (const Unsupported &e) {
            row.remarks.push_back(std::string("Halide's code generator is missing: ") + e.what());
        }
    }
    if (options.peers) contest.add_peers();

    TimerOptions timer;
    timer.budget_seconds = options.budget_seconds;
    timer.pause_seconds = options.threads > 1 && contest.pieces.size() > ours + 1 ? 0.005 : 0;
    std::vector<std::function<void()>> runs;
    for (const Piece &p : contest.pieces) runs.push_back(p.run);
    const std::vector<Timing> timings = time_interleaved(runs, timer);
    if (options.check) check_outputs(c.name, contest.pieces);

    row.seconds = timings[ours].median;
    row.ours = amount / timings[ours].median;
    row.untuned = amount / timings[1].median;
    row.spread = timings[ours].spread();
    row.peak =
        (measured_by_operations(work) ? peak.flops : peak.bytes) * 1e-9 / timings[0].min; // at its best: it is a bound
    row.of_peak = row.ours / row.peak;
    size_t fastest = 0;
    for (size_t i = ours + 1; i < contest.pieces.size(); i++) {
        row.peers[contest.pieces[i].name] = amount / timings[i].median;
        if (!contest.pieces[i].note.empty()) row.peer_notes[contest.pieces[i].name] = contest.pieces[i].note;
        if (!fastest || timings[i].median < timings[fastest].median) fastest = i;
    }
    if (fastest) {
        row.best_peer = contest.pieces[fastest].name;
        row.ratio = speedup(timings[ours], timings[fastest]);
    }
    row.remarks.insert(row.remarks.end(), contest.remarks.begin(), contest.remarks.end());
    return row;
}

} // namespace kumiko::bench
