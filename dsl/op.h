// Operators: what is computed, and nothing of how.
//
// Op turns the tensors that its outputs read into a list of stages, in an order in which each reads only earlier ones.
// A reduction inside a larger expression becomes a stage of its own, "<tensor>.<kind>" ("mean.sum"). In the stages every
// read of a tensor is a Halide call node of type Image whose name is the tensor's; axes are int32 variables.
#pragma once

#include "dsl/math.h"
#include "dsl/reduction.h"
#include "dsl/tensor.h"

#include <iosfwd>

namespace kumiko {

// One of the values that a reduction carries. Most reductions carry one; argmax carries the index, then the value; a tuple as
// many as it was given (dsl/tuple.h). Of a recurrence of several values, `term` is the value;
// identity and combined are zero.
struct Component {
    std::string tensor; // the name under which it is read: the stage's name, then "<stage>.value" (argmax), "<stage>.1"
    Type type;
    Expr identity; // a constant
    Expr term;     // over axes and reduction axes
    Expr combined; // over the variables accumulator(c) and term(c) of all components
};

struct Stage {
    enum class Kind {
        Pointwise, // value over the axes
        Reduction, // components folded over the reduction axes, in row-major order where the combiner is not commutative
        Padding,   // pointwise, but may be read at any index
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
    bool bounded = false;      // by `where`: the one term is select(condition, term, identity)
    std::vector<Expr> strides; // of an output that states them, in elements, one per axis; else empty
    std::string updates;       // the inout tensor whose elements it replaces (dsl/inout.h); else empty
    // Of a recurrence (dsl/recurrence.h): the distances at which it reads itself, one vector for
    // each read, one number for each axis: {{0, 1}, {0, 2}} for reads at (i, t - 1) and (i, t - 2).
    // If it takes steps, the last one is the step that the nearest read of earlier elements goes
    // back. Else empty.
    std::vector<std::vector<int64_t>> distances;
    // Of a recurrence that other stages read while it is computed, and of those stages: the axis of
    // the recurrence along which all these reads are of earlier steps. Else empty.
    std::string step_axis;

    bool is_reduction() const { return kind == Kind::Reduction; }
    std::vector<std::string> tensors() const; // that it computes: one, or one a component
    bool makes(const std::string &tensor) const;
    bool reads_itself() const { return !distances.empty(); }
    bool takes_steps() const { return reads_itself() && !step_axis.empty(); }
    // Every expression of the stage that may read tensors.
    std::vector<Expr> expressions() const;
    // Of the array that a caller passes for it: as stated, or row-major and dense.
    std::vector<Expr> array_strides() const;
};

const Axis *find_axis(const Stage &stage, const std::string &name); // pure or reduction; null when there is none

// A read of a tensor as it stands in the stages: a Call of type Image whose indices are int32.
Expr read_tensor(Type type, const std::string &tensor, const std::vector<Expr> &indices);

struct Input {
    std::string name;
    Type type;
    std::vector<Axis> axes;
    std::vector<Expr> strides; // in elements, one per axis, never empty: row-major and dense unless stated
    bool stated_strides = false;
    bool inout = false; // a stage writes its elements, in the same array, while others read them
};

// What has to hold of the sizes; checked where arrays come in.
struct Requirement {
    Expr condition;
    std::string text; // "M <= N (stage Y reads X at i of axis a)"
};

class Op {
public:
    // `inputs` fixes the order of the arguments, `outputs` follow. Throws UserError when a tensor that is read is
    // neither a stage nor named in `inputs`, when two tensors share a name, when a stage reads itself, when an inout tensor is read
    // where it may be replaced already, when an expression uses an axis that it does not range over, when an output is an input or may be read outside its axes, or when an
    // expression holds what dsl/legal.h refuses: what is Halide's own, and indices read from tensors that may lie outside.
    // Throws Unsupported for functions that formulas do not know.
    Op(const std::string &name, const std::vector<Tensor> &inputs, const std::vector<Tensor> &outputs,
       std::source_location where = std::source_location::current());
    // `required` joins requirements(): what the formula takes for granted of its sizes beyond that reads stay inside, in 32 bits.
    Op(const std::string &name, const std::vector<Tensor> &inputs, const std::vector<Tensor> &outputs,
       const std::vector<Requirement> &required, std::source_location where = std::source_location::current());

    const std::string &name() const;
    const std::vector<Input> &inputs() const;
    // The earlier elements of recurrences that stages read beside the recurrence itself
    // (dsl/recurrence.h), as tensors; no arguments.
    const std::vector<Input> &earlier() const;
    const std::vector<Stage> &stages() const; // producers before consumers
    const std::vector<std::string> &outputs() const;
    // The outputs that have arrays of their own, which the caller passes after the inputs: all but updates.
    const std::vector<std::string> &separate_outputs() const;
    const std::vector<std::string> &sizes() const; // symbolic sizes, in order of first use
    // What has to hold of the sizes so that every read stays inside its tensor, as far as it is not proved; and what was required.
    const std::vector<Requirement> &requirements() const;

    const Input *find_input(const std::string &name) const; // or of earlier(); null when there is none
    const Stage *find_stage(const std::string &name) const;
    const Stage &stage(const std::string &name) const; // throws UserError with a suggestion
    bool is_output(const std::string &tensor) const;

    // The same formula on arrays whose rows may be apart: the axis before the last of each input
    // and output that has two or more axes and states no strides gets the stride ld<tensor>, a new
    // size; outer axes step over whole numbers of rows.
    Op with_open_rows() const;

    // The same inputs and outputs, computed by other stages, each after those that it reads.
    Op with_stages(const std::vector<Stage> &stages) const;
    // The op that computes `stage` alone. The tensors that it reads are its inputs; of padding
    // stages, the tensors that they pad are. `stage` may be rewritten, but reads tensors of this
    // op. Throws Unsupported for a tensor of 2^31 elements and more.
    Op stage_alone(const Stage &stage) const;

    // The formula, as a user would write it on paper; one line per input and stage.
    std::string to_string() const;
    // A stable hash of the formula: names, types, extents, expressions. Hex.
    std::string hash() const;

private:
    struct Contents;
    std::shared_ptr<const Contents> contents_;
};

std::ostream &operator<<(std::ostream &out, const Op &op);

} // namespace kumiko
