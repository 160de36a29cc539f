// Operators of ONNX as formulas of tensors.
#pragma once

#include "dsl/op.h"
#include "dsl/tensor.h"
#include "graph/ir/graph.h"
#include "support/error.h"

#include <functional>
#include <memory>

namespace kumiko::graph {

using Indices = std::vector<Expr>;
using Extents = std::vector<int64_t>;
// The order in which the axes of a value are stored: for each stored axis, from the outermost on,
// the axis of the value. Empty: the order of the value, row-major.
using AxisOrder = std::vector<size_t>;

// The product of the extents ≥ 0 of the axes from `begin` to before `end`. INT64_MAX if it is
// larger.
int64_t elements_of(const Extents &extents, size_t begin, size_t end);
int64_t elements_of(const Extents &extents); // of all axes

// Elements as an expression of their indices. Views are not stored, so reshapes, transposes and
// elementwise operators compose. Indices are i32 expressions from 0 to extent − 1.
struct View {
    // A tensor that is padded with a constant.
    struct Padding {
        Tensor inner;
        Extents before; // elements before each axis
        Expr number;    // a constant
    };

    Type type; // elements are of stored_type(type)
    Extents extents;
    std::function<Element(const Indices &)> at;
    std::shared_ptr<const Padding> padding = nullptr; // if the view is one

    size_t rank() const { return extents.size(); }
    int64_t elements() const;
};

// A tensor that holds a value in some order of its axes.
struct StoredValue {
    StoredValue(const Tensor &tensor, const AxisOrder &order = {});
    Tensor tensor;
    std::vector<size_t> places; // of each axis of the value: the axis of the tensor
    Type type() const { return tensor.type(); }
    Extents extents() const; // of the value
    const Axis &axis(size_t d) const { return tensor.axes()[places[d]]; }
    Element at(const Indices &indices) const; // of the value
};

// A result of an operator: elements that the op computes, or a value that is known already.
struct Result {
    Result(View view) : view(std::move(view)) {}
    Result(Buffer<> value) : value(std::move(value)) {}
    std::optional<View> view;
    std::optional<Buffer<>> value;
};
using Results = std::vector<Result>;

// The inputs of an op that computes one or several nodes, and the names in its formulas.
class OpScope {
public:
    // The input "x<n>" of the op for a value of the graph; the same tensor each time.
    Tensor input(const std::string &value, Type type, const std::vector<Axis> &axes);
    // The name of a further input, reduction axis, stage: "x2", "r0", "<name>1".
    std::string next_input() const { return "x" + std::to_string(inputs_.size()); }
    std::string next_loop() { return "r" + std::to_string(loops_++); }
    std::string next_stage(const std::string &name) { return name + std::to_string(stages_++); }
    // A check before the op runs: each index in a value must be from −extent to extent − 1. There
    // is one extent for all indices, or one for each column of the last axis.
    struct Check {
        std::string value, text; // of the error
        Extents extents;
    };
    // In which order the values that the op reads and writes are stored.
    std::map<std::string, AxisOrder> orders;
    const AxisOrder &order_of(const std::string &value) const;
    // In which order further stages of that many axes are stored.
    AxisOrder stage_order;

    void add_check(const Check &check) { checks_.push_back(check); }
    const std::vector<Check> &checks() const { return checks_; }

    // The inputs that formulas have read so far, in the order of their first use: the name of the
    // value and the op's tensor.
    const std::vector<std::pair<std::string, Tensor>> &inputs() const { return inputs_; }

private:
    std::vector<std::pair<std::string, Tensor>> inputs_;
    std::vector<Check> checks_;
    int loops_ = 0, stages_ = 0;
};

// The argument of a Formula: a node, the types and shapes of its inputs, and the values of those
// that are constant. It and its scope must outlive the views of its inputs.
class Call {
public:
    struct Argument {
        Type type;
        Extents extents;
        std::optional<Buffer<>> value = {};
        // Made by a node of the same op, or a constant written into the formula; else the argument
        // is an input of the op.
        std::optional<View> view = {};
        bool packed = false; // KnownValue::packed
    };
    // `arguments`: one for each input of the node; nullopt for an optional input that is missing.
    Call(const Node &node, std::vector<std::optional<Argument>> arguments, OpScope &scope);

    const Node &node;
    size_t size() const { return arguments_.size(); }
    bool has(size_t n) const { return n < arguments_.size() && arguments_[n]; }
    // Throws UserError if the input is missing.
    View in(size_t n);
    // The same as a tensor, for formulas that read beyond its borders.
    Tensor tensor(size_t n);
    // Whether it is an input of the op, and not made by a node of the same op.
    bool is_input(size_t n) const { return !argument(n).view; }
    // The same in the order in which it is stored.
    StoredValue stored_input(size_t n);
    Type type(size_t n) const { return argument(n).type; }
    const Extents &extents(size_t n) const { return argument(n).extents; }
    bool wants(size_t output) const { return output < node.outputs.size() && !node.outputs[output].empty(); }

    // The elements of an input that must be known before the kernel is made: shapes, axes, pads.
    // Throws Unsupported if they are not.
    const Buffer<> &value(size_t n) const;
    // The same, or null if they are not known.
    const Buffer<> *known(size_t n) const;
    std::vector<int64_t> integers(size_t n) const;
    std::vector<double> numbers(size_t n) const;
    // The integers of input n if the node has one, else of the attribute: operators moved theirs
    // from attributes to inputs.
    std::vector<int64_t> integers(size_t n, const std::string &attribute,
                                  const std::vector<int64_t> &otherwise = {}) const;

    // Returns `values`, which are strides, pads or other lengths along axes. Throws UserError if
    // they are not `count`, or one is not `least` to INT32_MAX: sums of a few cannot overflow.
    std::vector<int64_t> lengths(const std::string &what, std::vector<int64_t> values, size_t count,
                                 int64_t least) const;

    // Requires the indices in input n to be in range (OpScope::Check): at once if they are known,
    // else before the op runs. Throws UserError for one that is not, and Unsupported if another
    // node of the op makes them.
    void require_indices(size_t n, const Extents &extents);

    // The text of the attribute. Throws UserError if it is not one of `legal`.
    std::string choice(const std::string &attribute, const std::string &otherwise,
                       const std::vector<std::string> &legal) const;

    // The axis counted from 0; −1 is the last one. Throws UserError if it is out of range.
    size_t axis(int64_t axis, size_t rank) const;
    // The same of several, sorted. Throws UserError if one occurs twice.
    std::vector<size_t> axes(const std::vector<int64_t> &axes, size_t rank) const;

    // An axis of `extent` elements. Throws UserError if an axis cannot have that many.
    Axis ranging(const std::string &name, int64_t extent) const;
    // The axes i0, i1, … of these extents.
    std::vector<Axis> ranging(const Extents &extents) const;
    // A reduction axis of its own.
    Axis loop(int64_t extent);
    // Stores a view as a stage of the op, for elements that are read several times.
    View stored(const View &view, const std::string &name);
    // A name for an additional stage of the formula.
    std::string stage_name(const std::string &name) { return scope_.next_stage(name); }
    Tensor stage(const View &view, const std::string &name);

    // The output with this number as a tensor of the op.
    Tensor output(const View &view, size_t n) const;

    [[noreturn]] void fail(const std::string &cause) const;        // UserError
    [[noreturn]] void unsupported(const std::string &cause) const; // Unsupported

private:
    View packed_input(size_t n);
    const Argument &argument(size_t n) const;
    std::vector<std::optional<Argument>> arguments_;
    std::vector<Tensor> tensors_;                    // made by tensor()
    std::vector<std::optional<StoredValue>> stored_; // made by stored_input()
    OpScope &scope_;
};

using Formula = std::function<Results(Call &)>;

// Which elements of its inputs an element of a result depends on. Fusion uses it. The kinds are
// TVM's.
enum class Dependence {
    Pointwise, // on the elements at the same index, or broadcast to it
    Injective, // on one element of each input, at another index
    Other,     // reductions, products, windows, indices from data
};

// One operator. The row is valid from version `since` of the operator set until a row of the same
// operator with a later version.
struct Operator {
    std::string op;
    int since;
    Formula formula;
    std::string domain = ""; // of the operator set; "" is ai.onnx
    Dependence dependence = Dependence::Other;
    // It has quantised tensors. A group with such a node computes products of floats without
    // contraction to fused multiply-adds, so that they round to the same integers on every
    // processor.
    bool quantised = false;
};

// Returns null if the operator has no formula in this version of its domain's operator set. The
// domain "" is ai.onnx.
const Operator *find_operator(const std::string &op, int opset, const std::string &domain = "");

// The error of a node whose operator has no formula.
Unsupported no_formula(const Node &node);

// The operators by family, each in a file of its own.
std::vector<Operator> elementwise_operators(); // Add, Relu, Where; all pointwise
std::vector<Operator> reduction_operators();   // ReduceSum, Softmax, TopK
std::vector<Operator> move_operators();        // Reshape, Slice, Concat; all injective
std::vector<Operator> index_operators();       // Gather, ScatterND, NonZero
std::vector<Operator> product_operators();     // MatMul, Conv, Einsum
std::vector<Operator> window_operators();      // MaxPool, AveragePool
std::vector<Operator> normalization_operators();
std::vector<Operator> quantisation_operators();
std::vector<Operator> image_operators(); // Resize, Upsample (resize.cpp)
std::vector<Operator> recurrent_operators();
std::vector<Operator> sampling_operators();  // reads at computed positions: GridSample, DeformConv
std::vector<Operator> region_operators();    // RoiAlign, MaxRoiPool
std::vector<Operator> signal_operators();    // DFT, STFT, HannWindow
std::vector<Operator> selection_operators(); // NonMaxSuppression, Unique
std::vector<Operator> training_operators();  // Adam, Momentum
std::vector<Operator> control_operators();   // of control_domain; programs run them as steps
std::vector<Operator> string_operators();
// Of the domain ai.onnx.ml, and TfIdfVectorizer of ai.onnx.
std::vector<Operator> machine_learning_operators();

// --- views ---

View view_of(const StoredValue &stored);
View constant_view(Type type, const Extents &extents, const std::function<Expr(const Indices &)> &at);
// The extents that arrays broadcast to. Throws UserError naming the node.
Extents broadcast(const Call &call, const std::vector<Extents> &all);
View broadcast(const View &v, const Extents &extents);
// The elements in row-major order, over other extents with the same number of elements.
View reshaped(const View &v, const Extents &extents);
View transposed(const View &v, const std::vector<size_t> &order);
// f of each element, or of each pair of elements after a broadcast, in another type.
View mapped(const View &v, Type type, const std::function<Element(const Element &)> &f);
View zipped(Call &call, const View &a, const View &b, Type type,
            const std::function<Element(const Element &, const Element &)> &f);
View converted(const View &v, Type type); // by ONNX's rules of Cast
// An image [batch, channels, …] plus an input with a number for each channel, in the view's type.
View with_bias(Call &call, const View &image, size_t input);

// --- elements ---

// Integers wrap, as in ONNX; in formulas, signed overflow of 32 and 64 bits is an error.
Element add(const Element &a, const Element &b);
Element subtract(const Element &a, const Element &b);
Element multiply(const Element &a, const Element &b);
Element absolute(const Element &e);
// The type in which sums and products of a type wrap: unsigned for signed integers of 32 and 64
// bits, else the type itself.
Type wrapping(Type type);
// The type in which `count` products of elements of types a and b are summed to `type`: `type`
// itself if the sum of 8-bit integers cannot overflow it, so that instructions for integer products
// apply; else wrapping(type).
Type summing(Type type, Type a, Type b, int64_t count);
Element number(Type type, double value); // a constant of the type
bool is_floating(Type type);             // f16, bf16, f32 or f64
Buffer<> int64_tensor(const std::vector<int64_t> &values, const Extents &extents);
// The type in which sums of a type are accumulated: f32 for narrower floats.
Type accumulator(Type type);

} // namespace kumiko::graph
