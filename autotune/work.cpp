#include "autotune/work.h"

#include "targets/chip/compile.h"

#include <fmt/format.h>

#include <algorithm>

namespace kumiko {

namespace {

// Whether the expression multiplies what it reads, and the narrowest type that it reads.
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
            IRGraphVisitor::visit(op); // not the indices of a tensor
    }
};

double points(const std::vector<Axis> &axes, const Sizes &sizes) {
    double n = 1;
    for (const Axis &axis : axes) n *= static_cast<double>(evaluate_size(axis.extent(), sizes));
    return n;
}

} // namespace

Work count_work(const Op &op, const Sizes &sizes) {
    Work work;
    for (const Input &input : op.inputs()) work.bytes += points(input.axes, sizes) * input.type.bytes();
    for (const Stage &stage : op.stages()) {
        if (op.is_output(stage.name)) work.output_bytes += points(stage.axes, sizes) * stage.type.bytes();
        work.padded = work.padded || stage.kind == Stage::Kind::Padding;
        if (!stage.is_reduction() || stage.reduction_kind != "sum") continue;
        Products products;
        stage.components[0].term.accept(&products);
        if (!products.multiplies) continue;
        work.operations += 2 * points(stage.axes, sizes) * points(stage.reduction_axes, sizes);
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
        seconds = std::max(seconds, work.operations / (rate * (work.padded ? 2.5 : 1.25)));
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
