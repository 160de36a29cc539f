// The contestants of one case: our kernels and the peers', on the same arrays.
#pragma once

#include "bench/suite.h"

#include "autotune/work.h"
#include "bench/peers.h"
#include "driver/kernel.h"

namespace kumiko::bench {

// The work of one run of a case. `amount` divided by the seconds of a run is the rate in `unit`.
struct CaseWork {
    Work work;
    bool by_operations = false; // rates count operations, not bytes
    std::string unit;           // "GFLOP/s", "GOP/s" or "GB/s"
    double amount = 0;
};
CaseWork work_of(const BenchCase &c, const Op &op);

// Nullopt for a type that peers are not compared for.
std::optional<Dtype> dtype_of(Type t);

// A contestant: a kernel of ours or a peer's. `collect` copies its result to `output`.
struct Piece {
    std::string name, note;
    TimedWork work;
    std::function<void()> collect = [] {};
    Buffer<> output;                   // the first one; empty if there is none
    std::vector<Buffer<>> arrays = {}; // of ours: the kernel's arguments, inputs first
};

class Contest {
public:
    // Throws UserError for an op with sizes without values. `target` and `options` must outlive it.
    Contest(const BenchCase &c, const Target &target, const BenchOptions &options);

    const Op &op() const { return op_; }
    const BenchCase &bench_case() const { return case_; }
    const std::vector<Buffer<>> &inputs() const { return inputs_; }

    // Adds a kernel of ours with that schedule, of the op or of one whose arrays differ only in the
    // order of their axes; inputs are permuted before the timing, and results after it. The
    // schedule's op may have symbolic sizes: the kernel is called with those of the case. Throws
    // what compile() throws.
    void add_ours(const std::string &name, const Schedule &schedule, bool through_halide = false);
    // Adds every peer that supports this op, and a remark for each missing one. Call it last: if
    // one of our kernels takes pre-packed weights, the peers may too.
    void add_peers();
    // "" if every contestant has computed the same, up to the order of sums; otherwise which ones
    // differ, and how.
    std::string differences() const;

    std::vector<Piece> pieces;
    std::vector<std::string> remarks;

private:
    const BenchCase &case_;
    const Target &target_;
    const BenchOptions &options_;
    Op op_;
    std::vector<Buffer<>> inputs_;
    bool packed_ = false;

    // bench/contest_moves.cpp; nullopt for other ops
    std::optional<Peer::Result> ask_images(Peer &peer, void *out, const PeerOptions &options) const;
    std::optional<Peer::Result> ask_moves(Peer &peer, void *out, const PeerOptions &options) const;
    // An option that is a list of integers.
    std::vector<int64_t> integers(const char *name) const;
    // The extents of an input.
    std::vector<int64_t> extents(size_t input) const;
    // bench/contest_peers.cpp
    void add_peer(Peer &peer, PeerOptions options);
    // The peer's kernel for the op of the case, by the functions below.
    Peer::Result ask(Peer &peer, void *out, const PeerOptions &options) const;
    Peer::Result ask_matmul(Peer &peer, void *out, const PeerOptions &options) const;
    Peer::Result ask_conv(Peer &peer, void *out, const PeerOptions &options) const;
    Peer::Result ask_attention(Peer &peer, float *out, const PeerOptions &options) const;
    Peer::Result ask_recurrent(Peer &peer, float *out, const PeerOptions &options) const;
    Peer::Result ask_rows(Peer &peer, float *out, const PeerOptions &options) const;
    bool given(const char *name) const; // whether an option is present and not the default
    int64_t integer(const char *name) const { return case_.parameters.at(name).get<int64_t>(); }
    bool flag(const char *name) const { return case_.parameters.at(name).get<bool>(); }
    const float *in(size_t i) const { return reinterpret_cast<const float *>(inputs_.at(i).data()); }
    Type output_type() const;
    bool floats() const; // all inputs and the one output are float32
    // Of bias, residual and activation; nullopt if they cannot be passed to a peer, since they are
    // not float32.
    std::optional<Epilogue> epilogue() const;
};

} // namespace kumiko::bench
