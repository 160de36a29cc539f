// A compiled kernel, callable on host arrays.
//
//   Kernel f = compile(schedule, Target::host());
//   f(a, b, c);                          // inputs, then outputs
//
// A call checks the type, rank, extents, strides and data pointer of every argument against the op,
// then runs the kernel. Kernels are reentrant and cheap to copy.
#pragma once

#include "driver/default_schedule.h"
#include "driver/target.h"
#include "dsl/buffers.h"
#include "schedules/schedule.h"
#include "schedules/summary.h"
#include "targets/lower/pass_report.h"

#include <functional>

namespace kumiko {

class EmitterRegistry;
struct Nest;

// Options of code generation.
struct CompileOptions {
    std::string name;      // symbol of the kernel; empty: the op's name
    bool contract = true;  // allows FMA contraction of a*b+c
    bool verify = true;    // checks the nest before code generation
    bool perf_map = false; // registers the code with perf
    // Generates code with Halide instead of our own generator, for comparison.
    bool through_halide = false;
    // Code emitters of tensor instructions (targets/cpu/emit.h); null: the built-in ones.
    std::shared_ptr<const EmitterRegistry> emitters;
    std::map<std::string, void *> symbols; // functions that the code may call: threads, allocation
    std::function<void(const std::string &pass, const Halide::Internal::Stmt &)> print;
};

// Compile times in milliseconds.
struct CompileReport {
    double lowering = 0, code = 0;
    std::vector<PassReport> passes;
    // compile(op) only: the default schedule that was chosen, and those that did not apply
    // (driver/default_schedule.h).
    std::string schedule = {};
    std::vector<PassedOver> passed_over = {};
    // compile(op) only: alternative loop structures compared with the rules' choice, in that order,
    // with their predicted costs. Empty if the library's schedule of the whole op has no
    // alternative.
    std::vector<ComparedPoint> compared = {};
    // Per stage, producers before consumers: where it is computed, and its loops.
    std::vector<StageSummary> stages = {};
};

// A compiled kernel: a reentrant function of arrays.
class Kernel {
public:
    // Runs the kernel on its arrays: inputs, then outputs.
    template<typename... T>
    void operator()(const Buffer<T> &...buffers) const {
        const halide_buffer_t *raw[] = {buffers.raw_buffer()...};
        call(raw, sizeof...(buffers));
    }
    // The same for a list of arrays. `sizes` binds sizes that no array's shape determines.
    void operator()(const std::vector<Buffer<>> &buffers, const Sizes &sizes = {}) const;
    // The same for Halide's descriptors of `n` arrays. Throws UserError with the actual and the
    // required value if an argument does not fit.
    void call(const halide_buffer_t *const *buffers, size_t n, const Sizes &sizes = {}) const;
    // Runs the kernel on addresses, and checks only null pointers and sizes. `tensors`: in argument
    // order; `sizes`: in the order of op().sizes(). Returns 0, or a code of kumiko_status
    // (runtime/kumiko_runtime.h).
    int call_raw(void *const *tensors, const int64_t *sizes) const;

    // For an `input` that the schedule pre-packs: packs `array` into the one-dimensional array that
    // the kernel takes instead. `sizes` binds sizes that the array's shape does not determine.
    // Throws UserError if the input is not pre-packed.
    Buffer<> pack(const std::string &input, const Buffer<> &array, const Sizes &sizes = {}) const;

    const Op &op() const;
    const Nest &nest() const;            // what was compiled (targets/lower/nest.h)
    const CompileReport &report() const; // times, and the choice of the schedule
    std::string llvm_ir() const;         // as text, after optimisation
    std::string assembly() const;        // as text
    const std::vector<std::string> &warnings() const;

    struct Contents;
    explicit Kernel(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}

private:
    std::shared_ptr<const Contents> contents_;
};

// Compiles a schedule for the target. Throws UserError or Unsupported if it cannot be lowered or
// compiled for that target.
Kernel compile(const Schedule &schedule, const Target &target = Target::host(), const CompileOptions &options = {});
// Compiles the op with its default schedule for the machine (driver/default_schedule.h).
Kernel compile(const Op &op, const Target &target = Target::host(), const CompileOptions &options = {});

} // namespace kumiko
