// Formulas as pipelines of Halide, scheduled by its autoscheduler, compute what `interpret`
// computes.
// Links: bench
// Levels: no
// Sanitized: no
#include "bench/halide_peer.h"
#include "bench/own_ops/own_ops.h"
#include "dsl/inout.h"
#include "support/error.h"

#include <doctest/doctest.h>

using namespace kumiko;
using namespace kumiko::bench;

namespace {

const OwnOp &own_op(const std::string &name) {
    for (const OwnOp &own : own_ops()) {
        if (own.name == name) return own;
    }
    throw UserError("no op is called " + name);
}

// Whether the autoscheduler and a C++ compiler are there.
bool peer_is_there() {
    try {
        HalidePeer(own_op("minmax").formula(Extents({{"N", 2}, {"H", 3}, {"W", 5}})), {}, 20);
    } catch (const Unsupported &e) {
        const std::string why = e.what();
        if (why.find("is missing") == std::string::npos && why.find("was not linked") == std::string::npos) throw;
        MESSAGE("left out: " << why);
        return false;
    }
    return true;
}

} // namespace

TEST_CASE("pipelines that Halide schedules compute what interpret computes") {
    if (!peer_is_there()) return;
    // Sizes are small, so that interpret evaluates all elements.
    const std::vector<std::pair<const char *, Sizes>> cases = {
        {"gauss", {{"H", 20}, {"W", 37}, {"R", 3}}},        // clamped
        {"trmm", {{"M", 19}, {"N", 21}}},                   // bounded reductions
        {"maxarg", {{"N", 5}, {"H", 7}, {"W", 9}}},         // two values
        {"segment_mean", {{"N", 60}, {"D", 20}, {"S", 7}}}, // scatters
        {"biquad_frames", {{"C", 19}, {"T", 23}}},          // a recurrence
    };
    for (const auto &[name, sizes] : cases) {
        for (const bool domain_conditions : {true, false}) {
            if (!domain_conditions && std::string(name) != "trmm") continue;
            OwnOp own = own_op(name);
            CAPTURE(own.name);
            CAPTURE(domain_conditions);
            own.sizes = sizes;
            if (own.name == "segment_mean") own.ranges["seg"] = {0, 7};
            const Op op = own.op();
            const std::vector<Buffer<>> inputs = make_inputs(own, op), arguments = make_arguments(op, inputs);
            HalideForm form;
            form.domain_conditions = domain_conditions;
            const HalidePeer peer(op, form, 60);
            std::vector<void *> arrays;
            for (const Buffer<> &b : arguments) arrays.push_back(b.data());
            peer.call(arrays.data());
            CHECK_NOTHROW(check_outputs(own, op, inputs, output_arrays(op, arguments), 10));
        }
    }
}

TEST_CASE("ops that a Halide pipeline cannot express are refused") {
    CHECK_THROWS_WITH_AS(halide_pipeline(own_op("adamw").op()), "a pipeline of Halide cannot update an array in place",
                         Unsupported);
    CHECK_THROWS_AS(halide_pipeline(own_op("viterbi").op()), Unsupported);
}
