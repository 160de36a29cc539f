#include "graph/build/prepare.h"

#include "driver/default_schedule.h"
#include "dsl/halide_passes.h"
#include "runtime/kumiko_runtime.h"
#include "schedules/library/copies_ahead.h"
#include "schedules/library/table.h"
#include "support/error.h"
#include "support/json.h"
#include "targets/cpu/jit.h"
#include "targets/lower/lower.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace kumiko::graph {

namespace {

class Preparation {
public:
    Preparation(Program &program, const Target &target, const PrepareOptions &options)
        : program_(program), machine_(target.machine), options_(options) {
        for_each_step(program.steps, [&](Step &step) {
            if (step.kind == Step::Kind::Call) calls_[step.kernel].push_back(&step);
        });
    }

    PreparedKernel choose(size_t kernel) {
        if (options_.pack && reads_constants(kernel)) {
            for (const bool tuned : {true, false}) {
                const auto packing = packing_kernel(kernel, tuned);
                if (packing && use_packed(kernel, packing->schedule)) return *packing;
            }
        }
        const Op &op = program_.kernels[kernel];
        const auto tuned = tuned_kernel(op, PackedBy::Kernel);
        PreparedKernel made = tuned ? *tuned : default_kernel(op, PackedBy::Kernel);
        if (!options_.pack) return made;
        const auto ahead = library::with_copies_ahead(
            made.schedule, [&](const std::string &input) { return is_constant(kernel, input); });
        if (ahead && use_packed(kernel, *ahead)) {
            made.schedule = *ahead, made.packed = true;
            made.from.schedule = Json(ahead->to_json());
        }
        return made;
    }

    // Numbers the constants that steps read.
    void finish() {
        std::map<size_t, size_t> kept; // old number → new one
        std::vector<Buffer<>> constants;
        for_each_step(program_.steps, [&](Step &step) {
            for_each_location(step, [&](Location &l) {
                if (l.kind != Location::Kind::Constant) return;
                const auto [at, fresh] = kept.emplace(l.index, constants.size());
                if (fresh) constants.push_back(program_.constants[l.index]);
                l.index = at->second;
            });
        });
        program_.constants = std::move(constants);
    }

private:
    std::optional<PreparedKernel> tuned_kernel(const Op &op, PackedBy by) const {
        if (!options_.source) return std::nullopt;
        const auto found = options_.source(op, machine_, by);
        if (!found) return std::nullopt;
        return PreparedKernel{Schedule::from_json(op, machine_, *found->schedule), by == PackedBy::Caller, *found};
    }

    PreparedKernel default_kernel(const Op &op, PackedBy by) const {
        const Schedule schedule = default_schedule(op, machine_, by);
        return {schedule, by == PackedBy::Caller, {Json(schedule.to_json()), nullptr, 0, "", "default"}};
    }

    // A schedule whose operands the caller packs; nullopt if the op has none.
    std::optional<PreparedKernel> packing_kernel(size_t kernel, bool tuned) const {
        const Op &op = program_.kernels[kernel];
        try {
            if (tuned) return tuned_kernel(op, PackedBy::Caller);
            if (!library::pays_to_pack_ahead(op, machine_)) return std::nullopt;
            return default_kernel(op, PackedBy::Caller);
        } catch (const PlacedError &) { // no schedule that packs, or none that fits
            return std::nullopt;
        }
    }

    bool reads_constants(size_t kernel) const {
        const std::vector<Step *> &calls = calls_.at(kernel);
        return std::any_of(calls.begin(), calls.end(), [](const Step *step) {
            return std::any_of(step->arguments.begin(), step->arguments.end(),
                               [](const Location &l) { return l.kind == Location::Kind::Constant; });
        });
    }

    // Whether the input is a constant in all steps.
    bool is_constant(size_t kernel, const std::string &input) const {
        const std::vector<Input> &inputs = program_.kernels[kernel].inputs();
        const size_t n = static_cast<size_t>(
            std::find_if(inputs.begin(), inputs.end(), [&](const Input &i) { return i.name == input; }) -
            inputs.begin());
        const std::vector<Step *> &calls = calls_.at(kernel);
        return std::all_of(calls.begin(), calls.end(), [n](const Step *step) {
            const Location &l = step->arguments.at(n);
            return l.kind == Location::Kind::Constant && l.stride == 0;
        });
    }

    // Packs the constants of all steps of the kernel. Returns false, and changes nothing, if an
    // operand to pack is no constant in one of them.
    bool use_packed(size_t kernel, const Schedule &schedule) {
        std::vector<Nest> packs;
        try {
            packs = lower(schedule).packs;
        } catch (const PlacedError &) {
            return false;
        }
        const Op &op = program_.kernels[kernel];
        std::vector<size_t> inputs; // of the op, that the packs read
        for (const Nest &pack : packs) {
            size_t n = 0;
            while (op.inputs().at(n).name != pack.tensors[1].packed_from) n++;
            inputs.push_back(n);
        }
        if (packs.empty()) return false;
        for (const Nest &pack : packs) {
            if (!pack.sizes.empty()) return false; // its form depends on sizes
        }
        for (const Step *step : calls_.at(kernel)) {
            for (const size_t n : inputs) {
                const Location &l = step->arguments[n];
                if (l.kind != Location::Kind::Constant || l.stride != 0) return false;
            }
        }
        const JitModule code(packs);
        std::map<std::pair<size_t, size_t>, size_t> packed; // {pack, constant} → packed constant
        for (Step *step : calls_.at(kernel)) {
            for (size_t p = 0; p < packs.size(); p++) {
                Location &l = step->arguments[inputs[p]];
                const auto [at, fresh] = packed.emplace(std::pair(p, l.index), program_.constants.size());
                if (fresh) program_.constants.push_back(run_pack(code, packs[p], program_.constants[l.index]));
                l.index = at->second;
            }
        }
        return true;
    }

    static Buffer<> run_pack(const JitModule &code, const Nest &pack, const Buffer<> &array) {
        const auto elements = Halide::Internal::as_const_int(Halide::Internal::simplify(pack.tensors[1].extents[0]));
        if (!elements) throw InternalError("the packed form of a constant has a size that is not known");
        const Buffer<> plain = array.copy();
        Buffer<> made(pack.tensors[1].type, {*elements});
        std::memset(made.data(), 0, made.size_in_bytes());
        void *tensors[] = {plain.data(), made.data()};
        if (const int status = code.packed(pack.name)(tensors, nullptr))
            throw InternalError(fmt::format("packing a constant failed with code {}: {}", status, kumiko_error()));
        return made;
    }

    Program &program_;
    const Machine machine_;
    const PrepareOptions &options_;
    std::map<size_t, std::vector<Step *>> calls_; // of each kernel
};

} // namespace

std::vector<PreparedKernel> prepare(Program &program, const Target &target, const PrepareOptions &options) {
    Preparation preparation(program, target, options);
    std::vector<PreparedKernel> kernels;
    for (size_t n = 0; n < program.kernels.size(); n++) {
        if (options.progress) options.progress(n, program.kernels.size());
        kernels.push_back(preparation.choose(n));
    }
    if (options.progress) options.progress(program.kernels.size(), program.kernels.size());
    preparation.finish();
    return kernels;
}

} // namespace kumiko::graph
