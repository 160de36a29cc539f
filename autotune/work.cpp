#include "autotune/work.h"

#include "targets/chip/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace kumiko {

namespace {

// Whether the expression multiplies values that it reads, and the narrowest type that it reads.
class Products : public Halide::Internal::IRGraphVisitor {
public:
    bool multiplies = false;
    int bits = 64;

private:
    using Halide::Internal::IRGraphVisitor::visit;
    void visit(const Halide::Internal::Mul *op) override {
        multiplies = true;
        IRGraphVisitor::visit(op);
    }
    void visit(const Halide::Internal::Call *op) override {
        if (op->call_type == Halide::Internal::Call::Image)
            bits = std::min(bits, op->type.bits());
        else
            IRGraphVisitor::visit(op); // skips tensor indices
    }
};

// The tensors that an expression reads in full over all axes of the stage: at indices that are
// distinct axes of equal extents, unconditionally.
class WholeReads : public Halide::Internal::IRGraphVisitor {
public:
    WholeReads(const Op &op, const Stage &stage) : op_(op), stage_(stage) {}
    std::set<std::string> tensors;

private:
    using Halide::Internal::IRGraphVisitor::visit;
    void visit(const Halide::Internal::Select *select) override { include(select->condition); }
    void visit(const Halide::Internal::Call *call) override {
        if (call->is_intrinsic(Halide::Internal::Call::if_then_else)) return include(call->args[0]);
        if (call->call_type != Halide::Internal::Call::Image) return IRGraphVisitor::visit(call);
        const auto made =
            std::find_if(op_.stages().begin(), op_.stages().end(), [&](const Stage &s) { return s.makes(call->name); });
        if (made == op_.stages().end()) return;
        std::set<std::string> used;
        for (size_t i = 0; i < call->args.size(); i++) {
            const auto *variable = call->args[i].as<Halide::Internal::Variable>();
            const Axis *axis = variable ? find_axis(stage_, variable->name) : nullptr;
            if (!axis || !used.insert(axis->name()).second ||
                !Halide::Internal::equal(axis->extent(), made->axes[i].extent()))
                return;
        }
        tensors.insert(call->name);
    }

    const Op &op_;
    const Stage &stage_;
};

// Per stage: whether all its elements are needed. False if unknown.
std::vector<bool> wholly_needed(const Op &op) {
    const std::vector<Stage> &stages = op.stages();
    std::set<std::string> tensors(op.outputs().begin(), op.outputs().end());
    std::vector<bool> needed(stages.size());
    for (size_t n = stages.size(); n-- > 0;) { // readers before producers
        const std::vector<std::string> made = stages[n].tensors();
        needed[n] = std::any_of(made.begin(), made.end(), [&](const std::string &t) { return tensors.count(t) != 0; });
        if (!needed[n] || stages[n].bounded) continue;
        WholeReads reads(op, stages[n]);
        for (const Expr &e : stages[n].expressions()) e.accept(&reads);
        tensors.merge(reads.tensors);
    }
    return needed;
}

double points(const std::vector<Axis> &axes, const Sizes &sizes) {
    double n = 1;
    for (const Axis &axis : axes) n *= static_cast<double>(evaluate_size(axis.extent(), sizes));
    return n;
}

} // namespace

Work count_work(const Op &op, const Sizes &sizes) {
    Work work;
    for (const Input &input : op.inputs()) work.bytes += points(input.axes, sizes) * input.type.bytes();
    const std::vector<bool> needed = wholly_needed(op);
    for (size_t n = 0; n < op.stages().size(); n++) {
        const Stage &stage = op.stages()[n];
        if (op.is_output(stage.name)) work.output_bytes += points(stage.axes, sizes) * stage.type.bytes();
        work.padded = work.padded || stage.kind == Stage::Kind::Padding;
        if (!stage.is_reduction() || stage.reduction_kind != "sum") continue;
        Products products;
        stage.components[0].term.accept(&products);
        if (!products.multiplies) continue;
        const double operations = 2 * points(stage.axes, sizes) * points(stage.reduction_axes, sizes);
        work.operations += operations;
        if (needed[n] && !stage.bounded) work.min_operations += operations;
        work.narrowest_bits = std::min(work.narrowest_bits, products.bits);
    }
    work.bytes += work.output_bytes;
    return work;
}

double least_possible_seconds(const Work &work, const Machine &machine, int threads, double clock_hz) {
    if (clock_hz <= 0 || machine.vector_bits <= 0) return 0;
    const double cycles = clock_hz * threads;
    double seconds = work.output_bytes / (2.0 * machine.vector_bits / 8 * cycles);
    const bool matrix_unit = machine.has("amx_tile") && work.narrowest_bits <= 16;
    if (machine.fmas_per_cycle > 0 && !matrix_unit) {
        const double rate = 2 * machine.fmas_per_cycle * machine.lanes(std::max(8, work.narrowest_bits)) * cycles;
        seconds = std::max(seconds, work.min_operations / (rate * (work.padded ? 2.5 : 1.25)));
    }
    return seconds;
}

namespace {

double chip_bound_seconds(const Work &work, const sim::Config &chip) {
    const auto macs =
        static_cast<double>(work.narrowest_bits <= 16 ? chip.fp16_macs_per_cycle() : chip.fp32_macs_per_cycle());
    const double cycles =
        std::max(work.operations / 2 / macs, work.bytes / static_cast<double>(chip.dram_bytes_per_cycle()));
    return cycles / (chip.clock_ghz * 1e9);
}

} // namespace

double bound_seconds(const Work &work, const Machine &machine, int threads, double clock_hz) {
    if (machine.architecture == "chip") return chip_bound_seconds(work, chip_config(machine.name));
    if (clock_hz <= 0 || machine.vector_bits <= 0 || machine.fmas_per_cycle <= 0) return 0;
    const double cycles = clock_hz * threads;
    const double rate = 2 * machine.fmas_per_cycle * machine.lanes(std::clamp(work.narrowest_bits, 8, 64)) * cycles;
    return std::max(work.operations / rate, work.bytes / (machine.vector_bits / 8.0 * cycles));
}

std::string roofline_text(double bound, double seconds) {
    return bound > seconds ? "above the roofline, an estimate" : fmt::format("{:.2f} of the roofline", bound / seconds);
}

bool measured_by_operations(const Work &work) { return work.operations > 1.5 * work.bytes; }

std::string rate_text(const Work &work, double seconds) {
    if (measured_by_operations(work)) return fmt::format("{:.1f} GFLOP/s", work.operations / seconds * 1e-9);
    return fmt::format("{:.1f} GB/s", work.bytes / seconds * 1e-9);
}

} // namespace kumiko
