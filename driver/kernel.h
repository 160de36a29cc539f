// A compiled kernel, callable on host arrays.
//
//   Kernel f = compile(schedule, Target::host());
//   f(a, b, c);                          // inputs, then outputs
//
// A call checks every argument's type, rank, extents, strides and null pointers against the op, then runs. Kernels are
// reentrant and cheap to copy.
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

struct CompileOptions {
    std::string name;            // the kernel's symbol; the op's name when empty
    bool contract = true;        // let a*b+c round once
    bool verify = true;          // check the nest before generating code from it
    bool perf_map = false;       // name the code for perf
    bool through_halide = false; // generate code with Halide instead of our own generator: a second opinion
    std::shared_ptr<const EmitterRegistry>
        emitters;                          // of tensor instructions (targets/cpu/emit.h); the built-in ones when null
    std::map<std::string, void *> symbols; // functions that the code may call: threads, allocation
    std::function<void(const std::string &pass, const Halide::Internal::Stmt &)> print;
};

// How long the way to callable code took, in milliseconds.
struct CompileReport {
    double lowering = 0, code = 0;
    std::vector<PassReport> passes;
    // Of compile(op): the default schedule that was taken, and those that did not apply
    // (driver/default_schedule.h).
    std::string schedule = {};
    std::vector<PassedOver> passed_over = {};
    // Of compile(op): other loops that were compared with those of the rules, and their expected
    // costs, in that order. Empty where the library's schedule of the whole op has no alternative.
    std::vector<ComparedPoint> compared = {};
    // Where each stage is computed and what its loops are, producers before consumers.
    std::vector<StageSummary> stages = {};
};

class Kernel {
public:
    template<typename... T>
    void operator()(const Buffer<T> &...buffers) const {
        const halide_buffer_t *raw[] = {buffers.raw_buffer()...};
        call(raw, sizeof...(buffers));
    }
    // `sizes` binds sizes that no array's shape says.
    void operator()(const std::vector<Buffer<>> &buffers, const Sizes &sizes = {}) const;
    // Throws UserError when the arguments do not fit, naming what is and what must be.
    void call(const halide_buffer_t *const *buffers, size_t n, const Sizes &sizes = {}) const;
    // Unchecked but for null pointers and sizes: pointers in the order of the arguments, sizes in the order of op().sizes().
    int call_raw(void *const *tensors, const int64_t *sizes) const;

    // Where the schedule prepacks `input`: the array that the kernel takes in its place, one-dimensional, packed from `array`.
    // `sizes` binds sizes that the array's shape does not say. Throws UserError for an input that is not prepacked.
    Buffer<> pack(const std::string &input, const Buffer<> &array, const Sizes &sizes = {}) const;

    const Op &op() const;
    const Nest &nest() const; // targets/lower/nest.h
    const CompileReport &report() const;
    std::string llvm_ir() const;
    std::string assembly() const;
    const std::vector<std::string> &warnings() const;

    struct Contents;
    explicit Kernel(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}

private:
    std::shared_ptr<const Contents> contents_;
};

Kernel compile(const Schedule &schedule, const Target &target = Target::host(), const CompileOptions &options = {});
// With a schedule of the library that fits the op, with its default parameters for the machine.
Kernel compile(const Op &op, const Target &target = Target::host(), const CompileOptions &options = {});

} // namespace kumiko
