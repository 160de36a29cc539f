#include "graph/build/prepare.h"

#include "driver/default_schedule.h"
#include "dsl/halide_passes.h"
#include "runtime/kumiko_runtime.h"
#include "support/error.h"
#include "targets/cpu/jit.h"
#include "targets/lower/lower.h"

#include <cstring>
#include <fmt/format.h>

namespace kumiko::graph {

namespace {

// A schedule whose operands the caller packs; nothing if the library has none for the op.
std::optional<Schedule> packing_schedule(const Op &op, const Machine &machine) {
    try {
        return default_schedule(op, machine, PackedBy::Caller);
    } catch (const PlacedError &) { // no schedule that packs, or none that fits
        return std::nullopt;
    }
}

class Preparation {
public:
    Preparation(Program &program, const Target &target) : program_(program), target_(target) {}

    Schedule schedule(size_t kernel, bool pack) {
        const Op &op = program_.kernels[kernel];
        if (pack && reads_constants(kernel)) {
            if (const auto packing = packing_schedule(op, target_.machine)) {
                if (use_packed(kernel, *packing)) return *packing;
            }
        }
        return default_schedule(op, target_.machine);
    }

    // Numbers the constants that steps read.
    void finish() {
        std::map<size_t, size_t> kept; // old number → new one
        std::vector<Buffer<>> constants;
        for (Step &step : program_.steps) {
            for (Location &l : step.arguments) {
                if (l.kind != Location::Kind::Constant) continue;
                const auto [at, fresh] = kept.emplace(l.index, constants.size());
                if (fresh) constants.push_back(program_.constants[l.index]);
                l.index = at->second;
            }
        }
        program_.constants = std::move(constants);
    }

private:
    bool reads_constants(size_t kernel) const {
        for (const Step &step : program_.steps) {
            if (step.kind != Step::Kind::Call || step.kernel != kernel) continue;
            for (const Location &l : step.arguments) {
                if (l.kind == Location::Kind::Constant) return true;
            }
        }
        return false;
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
        for (const Step &step : program_.steps) {
            if (step.kind != Step::Kind::Call || step.kernel != kernel) continue;
            for (const size_t n : inputs) {
                if (step.arguments[n].kind != Location::Kind::Constant) return false;
            }
        }
        const JitModule code(packs);
        std::map<std::pair<size_t, size_t>, size_t> packed; // {pack, constant} → packed constant
        for (Step &step : program_.steps) {
            if (step.kind != Step::Kind::Call || step.kernel != kernel) continue;
            for (size_t p = 0; p < packs.size(); p++) {
                Location &l = step.arguments[inputs[p]];
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
    const Target &target_;
};

} // namespace

std::vector<Schedule> prepare(Program &program, const Target &target, const PrepareOptions &options) {
    Preparation preparation(program, target);
    std::vector<Schedule> schedules;
    for (size_t n = 0; n < program.kernels.size(); n++) {
        if (options.progress) options.progress(n, program.kernels.size());
        schedules.push_back(preparation.schedule(n, options.pack));
    }
    preparation.finish();
    if (options.progress) options.progress(program.kernels.size(), program.kernels.size());
    return schedules;
}

} // namespace kumiko::graph
