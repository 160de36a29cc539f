// Operators: the algorithm, without its schedule.
//
// Op turns the tensors that its outputs read into a list of stages, producers before consumers. A
// reduction inside a larger expression becomes a stage of its own, "<tensor>.<kind>" ("mean.sum").
// In a stage, a read of a tensor is a Halide Call node of type Image with the tensor's name; axes
// are int32 variables.
#pragma once

#include "dsl/math.h"
#include "dsl/reduction.h"
#include "dsl/tensor.h"

#include <iosfwd>
#include <set>

namespace kumiko {

// One of the values that a reduction carries. Most reductions carry one; argmax carries the index,
// then the value; a tuple carries as many as it was given (dsl/tuple.h). For a recurrence of
// several values, `term` is the value, and identity and combined are zero.
struct Component {
    // The tensor's name: that of the stage, then "<stage>.value" (argmax) or "<stage>.1".
    std::string tensor;
    Type type;
    Expr identity; // a constant
    Expr term;     // over axes and reduction axes
    Expr combined; // over the variables accumulator(c) and term(c) of all components
};

// One tensor of an op, or several that one reduction computes.
struct Stage {
    enum class Kind {
        Pointwise, // `value`, over the axes
        // Components folded over the reduction axes; in row-major order unless the combiner is
        // commutative.
        Reduction,
        Padding, // pointwise, and may be read at any index
    };
    Kind kind = Kind::Pointwise;
    std::string name;
    Type type;
    std::vector<Axis> axes;
    Expr value;                       // Pointwise, Padding
    std::vector<Axis> reduction_axes; // Reduction
    std::vector<Component> components;
    std::string reduction_kind; // "sum", …
    CombinerProperties properties;
    bool bounded = false; // made with `where`: the single term is select(condition, term, identity)
    // Strides of an output that states them: in elements, one per axis; otherwise empty.
    std::vector<Expr> strides;
    std::string updates; // the inout tensor that it overwrites (dsl/inout.h); otherwise empty
    // For a recurrence (dsl/recurrence.h): the distance vectors of its reads of itself, one per
    // read, one entry per axis: {{0, 1}, {0, 2}} for reads at (i, t - 1) and (i, t - 2). If it
    // takes steps, the last vector is the smallest step distance of the reads of earlier elements.
    // Otherwise empty.
    std::vector<std::vector<int64_t>> distances;
    // For a recurrence that other stages read while it is computed, and for those stages: the axis
    // of the recurrence along which all these reads are of earlier steps. Otherwise empty.
    std::string step_axis;

    bool is_reduction() const { return kind == Kind::Reduction; }
    // The tensors that it computes: one, or one per component.
    std::vector<std::string> tensors() const;
    bool makes(const std::string &tensor) const;
    bool reads_itself() const { return !distances.empty(); }
    bool takes_steps() const { return reads_itself() && !step_axis.empty(); }
    // All expressions of the stage that can read tensors.
    std::vector<Expr> expressions() const;
    // Strides of the array that a caller passes: as stated, otherwise dense and row-major.
    std::vector<Expr> array_strides() const;
};

// A pure or reduction axis; null if there is none.
const Axis *find_axis(const Stage &stage, const std::string &name);

// A read of a tensor in a stage: a Call of type Image with int32 indices.
Expr read_tensor(Type type, const std::string &tensor, const std::vector<Expr> &indices);

// An array that the caller passes.
struct Input {
    std::string name;
    Type type;
    std::vector<Axis> axes;
    // Strides in elements, one per axis, never empty: dense and row-major unless stated.
    std::vector<Expr> strides;
    bool stated_strides = false;
    bool inout = false; // a stage overwrites the array in place
};

// A condition on the sizes, checked when a kernel receives its arrays.
struct Requirement {
    Expr condition;
    std::string text; // "M <= N (stage Y reads X at i of axis a)"
};

// A set of formulas with inputs and outputs, without a schedule. Immutable and cheap to copy.
class Op {
public:
    // Arguments of the op are `inputs` in this order, then `outputs`.
    //
    // Throws UserError if
    // - a tensor that is read is neither a stage nor listed in `inputs`,
    // - two tensors share a name,
    // - a stage reads itself,
    // - an inout tensor may be read after it is overwritten,
    // - an expression uses an axis that it does not range over,
    // - an output is also an input, or may be read outside its axes,
    // - an expression contains something that dsl/legal.h rejects: Halide-only nodes, or
    //   data-dependent indices that may be out of bounds.
    //
    // Throws Unsupported for functions that formulas do not have.
    Op(const std::string &name, const std::vector<Tensor> &inputs, const std::vector<Tensor> &outputs,
       std::source_location where = std::source_location::current());
    // `required` is added to requirements(): conditions on the sizes that the formula assumes,
    // beyond in-bounds reads and 32-bit arithmetic.
    Op(const std::string &name, const std::vector<Tensor> &inputs, const std::vector<Tensor> &outputs,
       const std::vector<Requirement> &required, std::source_location where = std::source_location::current());

    const std::string &name() const;
    const std::vector<Input> &inputs() const;
    // The tensors "T.earlier" that stages read of a recurrence T (dsl/recurrence.h). They are not
    // arguments.
    const std::vector<Input> &earlier() const;
    const std::vector<Stage> &stages() const; // producers before consumers
    const std::vector<std::string> &outputs() const;
    // The outputs that have an array of their own, which the caller passes after the inputs: all
    // except updates.
    const std::vector<std::string> &separate_outputs() const;
    const std::vector<std::string> &sizes() const; // symbolic sizes, in order of first use
    // Conditions on the sizes under which every read is in bounds, without those that are proved,
    // and the conditions in `required`.
    const std::vector<Requirement> &requirements() const;

    // Also finds earlier(); null if there is none.
    const Input *find_input(const std::string &name) const;
    const Stage *find_stage(const std::string &name) const;
    // Throws UserError with a suggestion if there is none.
    const Stage &stage(const std::string &name) const;
    bool is_output(const std::string &tensor) const;

    // The same formula with a leading dimension for each input and output that has two or more axes
    // and no stated strides: the stride of the second-to-last axis is ld<tensor>, a new size, and
    // outer axes step over whole rows.
    Op with_open_rows() const;

    // The same inputs and outputs, computed by other stages; producers come before consumers.
    Op with_stages(const std::vector<Stage> &stages) const;
    // The same formula with other numbers in extents, strides and expressions, which may be
    // expressions of sizes. Throws UserError as the constructor does.
    Op with_sizes(const std::vector<Input> &inputs, const std::vector<Input> &earlier, const std::vector<Stage> &stages,
                  std::source_location where = std::source_location::current()) const;
    // An op that computes only `stage`. The tensors that it reads become inputs; for a padding
    // stage, the tensor that it pads becomes the input. `stage` may be rewritten but must read only
    // tensors of this op. Throws Unsupported for a tensor of 2^31 or more elements.
    Op stage_alone(const Stage &stage) const;
    // An op that computes only the stages of these names. Tensors of other stages that they read
    // become inputs; tensors that other stages read become outputs. Throws Unsupported as
    // stage_alone. Requires an op without inout tensors and recurrences.
    Op part(const std::set<std::string> &stages) const;

    // The formula in mathematical notation, one line per input and stage.
    std::string to_string() const;
    // A stable hash of the formula (names, types, extents, expressions), in hex.
    std::string hash() const;

private:
    struct Contents;
    std::shared_ptr<const Contents> contents_;
};

std::ostream &operator<<(std::ostream &out, const Op &op);

} // namespace kumiko
