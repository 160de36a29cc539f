// Ops that no library schedule covers completely. Each has plain loops, as a kernel writer would
// write first, and some have a hand schedule.
#pragma once

#include "dsl/buffers.h"
#include "dsl/op.h"
#include "schedules/schedule.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace kumiko::bench {

// The sizes of one op, by name. Throws UserError for an unknown name.
class Extents {
public:
    explicit Extents(Sizes sizes) : sizes_(std::move(sizes)) {}
    Expr operator[](const std::string &name) const { return Expr(static_cast<int>(value(name))); }
    int64_t value(const std::string &name) const;

private:
    Sizes sizes_;
};

// Values that an input is filled with, uniform in [low, high).
struct Range {
    double low, high;
};

struct OwnOp {
    std::string name;
    Sizes sizes;
    std::function<Op(const Extents &)> formula;
    // The body of a C++ function in which sizes are constants and tensors are arrays, with their
    // names. Arrays of bf16 have elements of uint16_t, which from_bf16 and to_bf16 convert. The
    // prelude of bench/own_ops/loops.cpp declares these and the mathematical functions.
    std::string loop;
    std::function<void(Schedule &)> hand = {}; // null if none beats the default schedule
    // Ranges of inputs; see make_inputs for the others. In-place tensors must stay finite if the op
    // is called repeatedly.
    std::map<std::string, Range> ranges = {};
    // Relative to the largest element of an output, and absolute.
    Tolerance tolerance = {1e-4, 1e-6};

    Op op() const { return formula(Extents(sizes)); }
};

// All of them. Names are unique.
const std::vector<OwnOp> &own_ops();

// Random arrays, the same in each run. If the op gives no range, floats are in [-1, 1), 8-bit
// integers have their full range, and other integers are in [0, 100).
std::vector<Buffer<>> make_inputs(const OwnOp &own, const Op &op);

// The arguments of one call: copies of in-place inputs, the other inputs themselves, and new
// outputs, which contain fill_unwritten.
std::vector<Buffer<>> make_arguments(const Op &op, const std::vector<Buffer<>> &inputs);

// Compares outputs, in the order of op.outputs(), with `interpret`: all elements if that takes less
// than `seconds`, otherwise a random sample that takes about that long. `inputs` are those before
// the call. Throws UserError for a difference.
void check_outputs(const OwnOp &own, const Op &op, const std::vector<Buffer<>> &inputs,
                   const std::vector<Buffer<>> &outputs, double seconds);
// Compares all elements. Throws UserError for a difference.
void check_same(const OwnOp &own, const std::vector<Buffer<>> &actual, const std::vector<Buffer<>> &expected);

// Vector lanes of f32 on the machine of the schedule.
int64_t lanes(const Schedule &s);

// Splits the loops `row` and `column` into tiles of `rows` × `columns` that accumulate in
// registers, with vectorized columns. `outer` is the order of row.o, column.o and all other
// non-reduction loops.
void tile_in_registers(StageHandle stage, const std::string &row, int64_t rows, const std::string &column,
                       int64_t columns, int64_t lanes, const std::vector<LoopName> &outer,
                       const std::vector<LoopName> &reductions);

// The ops of each file.
std::vector<OwnOp> reduction_ops();
std::vector<OwnOp> normalisation_ops();
std::vector<OwnOp> loss_ops();
std::vector<OwnOp> attention_ops();
std::vector<OwnOp> product_ops();
std::vector<OwnOp> cell_ops();
std::vector<OwnOp> image_ops();
std::vector<OwnOp> pixel_ops();
std::vector<OwnOp> stencil_ops();
std::vector<OwnOp> convolution_ops();
std::vector<OwnOp> signal_ops();
std::vector<OwnOp> recurrence_ops();
std::vector<OwnOp> gather_ops();
std::vector<OwnOp> embedding_ops();
std::vector<OwnOp> selection_ops();
std::vector<OwnOp> training_ops();
std::vector<OwnOp> quantisation_ops();
std::vector<OwnOp> vision_ops();
std::vector<OwnOp> physics_ops();
std::vector<OwnOp> finance_ops();

} // namespace kumiko::bench
