#include "bench/own_ops/own_ops.h"

#include "dsl/inout.h"
#include "dsl/interpret.h"
#include "dsl/interpret_element.h"
#include "machine/machine.h"

#include <fmt/format.h>

#include <cmath>
#include <random>

namespace kumiko::bench {

namespace {

Range usual_range(Type type) {
    if (type.is_float()) return {-1, 1};
    if (type.bits() > 8) return {0, 100};
    return type.is_uint() ? Range{0, 256} : Range{-128, 128};
}

double largest(const Buffer<> &buffer) {
    double most = 0;
    std::vector<int64_t> index(buffer.rank(), 0);
    for (size_t n = buffer.number_of_elements(); n > 0; n--) {
        const double e = std::abs(element(buffer.raw_buffer(), index));
        if (std::isfinite(e)) most = std::max(most, e);
        for (size_t d = index.size(); d-- > 0;) {
            if (++index[d] < buffer.extent(d)) break;
            index[d] = 0;
        }
    }
    return most;
}

// Compares elements of one output with interpret_element.
void check_samples(const OwnOp &own, const Op &op, const std::vector<Buffer<>> &inputs, const std::string &output,
                   const Buffer<> &actual, double seconds) {
    std::mt19937 random(7);
    std::vector<int64_t> index(actual.rank());
    const double allowed = own.tolerance.relative * largest(actual) + own.tolerance.absolute;
    do {
        for (size_t d = 0; d < index.size(); d++)
            index[d] = static_cast<int64_t>(random() % static_cast<uint32_t>(actual.extent(d)));
        const double got = element(actual.raw_buffer(), index);
        const double expected = interpret_element(op, inputs, {}, output, index, false).value;
        if (!(std::abs(got - expected) <= allowed) && !(std::isnan(got) && std::isnan(expected)) && got != expected)
            throw UserError(fmt::format("{}: {}({}) is {}, and {} by interpret", own.name, output,
                                        fmt::join(index, ", "), got, expected));
        seconds -= interpret_element_seconds(op, {}, output, index, false);
    } while (seconds > 0 && !index.empty());
}

} // namespace

int64_t Extents::value(const std::string &name) const {
    const auto found = sizes_.find(name);
    if (found == sizes_.end()) throw UserError("the op has no size \"" + name + "\"");
    return found->second;
}

int64_t lanes(const Schedule &s) { return std::max(s.machine().vector_bits / 32, 1); }

void tile_in_registers(StageHandle stage, const std::string &row, int64_t rows, const std::string &column,
                       int64_t columns, int64_t lanes, const std::vector<LoopName> &outer,
                       const std::vector<LoopName> &reductions) {
    stage.split(row, rows);
    stage.split(column, columns);
    std::vector<LoopName> order = outer;
    order.insert(order.end(), reductions.begin(), reductions.end());
    order.insert(order.end(), {row + ".i", column + ".i"});
    stage.reorder(order).vectorize(column + ".i", lanes);
    if (columns > lanes) stage.unroll(column + ".i.o");
    stage.unroll(row + ".i").accumulate_in("registers", outer.back());
}

std::vector<Buffer<>> make_inputs(const OwnOp &own, const Op &op) {
    std::vector<Buffer<>> inputs;
    for (const Input &in : op.inputs()) {
        const Buffer<> b = make_input(in, {});
        const auto stated = own.ranges.find(in.name);
        const Range range = stated == own.ranges.end() ? usual_range(b.type()) : stated->second;
        inputs.push_back(b);
        if (Type(b.type()).is_float())
            fill_random(b, inputs.size(), range.low, range.high);
        else
            fill_random_integers(b, inputs.size(), static_cast<int64_t>(range.low),
                                 static_cast<int64_t>(range.high) - 1);
    }
    return inputs;
}

std::vector<Buffer<>> make_arguments(const Op &op, const std::vector<Buffer<>> &inputs) {
    std::vector<Buffer<>> arguments = with_inouts_copied(op, inputs);
    for (const std::string &out : op.separate_outputs()) {
        arguments.push_back(make_output(op, out, {}));
        fill_unwritten(arguments.back());
    }
    return arguments;
}

void check_outputs(const OwnOp &own, const Op &op, const std::vector<Buffer<>> &inputs,
                   const std::vector<Buffer<>> &outputs, double seconds) {
    if (interpret_seconds(op, {}, false) <= seconds) {
        check_same(own, outputs, interpret(op, with_inouts_copied(op, inputs)));
        return;
    }
    const std::vector<std::string> &names = op.outputs();
    for (size_t o = 0; o < names.size(); o++)
        check_samples(own, op, inputs, names[o], outputs[o], seconds / static_cast<double>(names.size()));
}

void check_same(const OwnOp &own, const std::vector<Buffer<>> &actual, const std::vector<Buffer<>> &expected) {
    for (size_t o = 0; o < actual.size(); o++) check_close(actual[o], expected[o], own.tolerance);
}

const std::vector<OwnOp> &own_ops() {
    static const std::vector<OwnOp> all = [] {
        std::vector<OwnOp> ops;
        for (const auto &part : {reduction_ops, normalisation_ops, loss_ops,   attention_ops, product_ops,
                                 cell_ops,      image_ops,         pixel_ops,  stencil_ops,   convolution_ops,
                                 signal_ops,    recurrence_ops,    gather_ops, embedding_ops, selection_ops,
                                 training_ops,  quantisation_ops,  vision_ops, physics_ops,   finance_ops}) {
            for (OwnOp &own : part()) ops.push_back(std::move(own));
        }
        return ops;
    }();
    return all;
}

} // namespace kumiko::bench
