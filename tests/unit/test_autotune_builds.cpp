// A hanging compiler costs one candidate. It hangs in a user's instruction, whose emitter never
// returns; abandoned threads exist until the process ends, which still ends in order.
// Links: ops
// Sanitized: no
#include "autotune/build.h"
#include "autotune/local_runner.h"
#include "autotune/tune.h"
#include "ops/matmul.h"
#include "targets/cpu/emit.h"
#include "tests/database_help.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

using namespace kumiko;
using kumiko::testing::fresh_file;

namespace {

std::atomic<int> hanging = 0;

// Four dot products of two floats each. The emitter works, or never returns.
Instruction dot2(bool hangs) {
    return Instruction(hangs ? "mine.endless" : "mine.dot2",
                       [](Axis i, Axis k) {
                           Tensor a = input("a", Float(32), {k}), b = input("b", Float(32), {i, k});
                           return accumulate("c", Float(32), {i}, sum(a(k) * b(i, k), k));
                       },
                       {4, 2})
        .emit([hangs](llvm::IRBuilder<> &ir, auto args) {
            if (hangs) hanging++;
            for (volatile bool never = hangs; never;) {
            }
            llvm::Value *sum = args[0];
            for (int k = 0; k < 2; k++) {
                llvm::Value *a = ir.CreateShuffleVector(args[1], {k, k, k, k});
                llvm::Value *b = ir.CreateShuffleVector(args[2], {k, 2 + k, 4 + k, 6 + k});
                sum = ir.CreateFAdd(sum, ir.CreateFMul(a, b));
            }
            return sum;
        });
}

// Products, with an instruction or without.
struct WithInstruction {
    BOOST_HANA_DEFINE_STRUCT(WithInstruction, (Choice, instruction));
};

std::unique_ptr<Space> products(const Op &op) {
    return make_template<WithInstruction>(
               "products", "", [](const Op &) { return true; },
               [](const Op &, const Machine &) {
                   return WithInstruction{Choice("none", {"none", "right", "endless"})};
               },
               [](const Op &op, const Machine &m, const WithInstruction &p) {
                   Schedule s(op, m);
                   auto c = s.stage("C");
                   auto [jo, ji] = c.split("j", 4);
                   auto [ko, ki] = c.split("k", 2);
                   c.reorder({"i", jo, ko, ji, ki}).accumulate_in("registers", jo);
                   if (p.instruction.is("none")) return s;
                   s.place_in("B", "L2", "C", "i").layout({"j/4", "k/2", "j%4", "k%2"});
                   c.tensorize(ji, dot2(p.instruction.is("endless")));
                   return s;
               })
        .make_space(op, Machine::host());
}

} // namespace

TEST_CASE("a compiler that hangs costs one candidate, also with one thread") {
    const Op op = ops::matmul(Float(32), 16, 16, 16);
    const auto space = products(op);
    for (const int threads : {1, 64}) {
        INFO(threads);
        LocalRunnerOptions options;
        options.measurer.threads = threads;
        options.build_timeout = 3;
        const CpuTarget target = CpuTarget::host();
        LocalRunner runner(*space, target, {}, options);
        std::vector<Candidate> candidates;
        for (const uint32_t instruction : {0, 2, 1}) candidates.push_back(make_candidate(*space, {instruction}));
        runner.submit(candidates);
        for (const bool hangs : {false, true, false}) {
            const std::optional<MeasureResult> measure_result = runner.next(1);
            REQUIRE(measure_result);
            CHECK(measure_result->measured.outcome == (hangs ? Outcome::Unbuildable : Outcome::Ok));
            CHECK(measure_result->measured.reason.starts_with(hangs ? "the compiler did not end in 3." : ""));
        }
        const std::vector<Measured> compared = runner.compare(candidates, 0.01, nullptr);
        CHECK(compared.at(0).outcome == Outcome::Ok);
        CHECK(compared.at(1).outcome == Outcome::Unbuildable);
        CHECK(compared.at(2).outcome == Outcome::Ok);
    }
}

TEST_CASE("an exception of the callback that may stop a build becomes the reason of its failure") {
    const Op op = ops::matmul(Float(32), 16, 16, 16);
    const auto space = products(op);
    const CpuTarget target = CpuTarget::host();
    Candidate endless = make_candidate(*space, {2});
    build_candidate(*space, target, {}, endless, [](double) -> bool { throw UserError("asked too often"); });
    CHECK(endless.outcome == Outcome::Unbuildable);
    CHECK_EQ(endless.reason, "asked too often");
}

TEST_CASE("neither an interruption nor a budget waits for a compiler that hangs, which is then forgotten") {
    const Op op = ops::matmul(Float(32), 16, 16, 16);
    const auto space = products(op);
    for (const bool interrupted : {true, false}) {
        for (const int threads : {1, 64}) {
            INFO((interrupted ? "interrupted, " : "budget, "), threads, " threads");
            TuneOptions options;
            options.space = space.get();
            options.trials = 1;
            options.threads = threads;
            options.database = interrupted ? fresh_file("builds.db") : "";
            if (interrupted)
                // Then there already is a best schedule.
                tune(op, Machine::host(), CpuTarget::host(), options);
            std::atomic<bool> interrupt = false, over = false;
            const int before = hanging, left_before = abandoned_compilers();
            std::thread interrupter([&] {
                while (hanging == before && !over) std::this_thread::sleep_for(std::chrono::milliseconds(10));
                interrupt = interrupted;
            });
            options.trials = 3;
            options.build_timeout = 600;
            options.final_seconds = 0.01;
            options.seconds = interrupted ? 0 : 2;
            options.interrupt = &interrupt;
            TuneReport report;
            const Record best = tune(op, Machine::host(), CpuTarget::host(), options, &report);
            over = true;
            interrupter.join();
            CHECK(best.outcome == Outcome::Ok);
            CHECK(report.interrupted == interrupted);
            CHECK(hanging == before + 1);
            CHECK(abandoned_compilers() == left_before + 1);
            CHECK(report.measured <= 2);
            for (const Record &r : report.records) CHECK(r.outcome == Outcome::Ok);
            CHECK(report.seconds < 60);
        }
    }
}
