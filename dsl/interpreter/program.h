// Internal representation of the interpreter. Each stage is compiled to a small flat program over
// registers. A register holds one value (uniform) or a row of up to row_lanes values along one
// loop. An instruction belongs to the innermost loop that it depends on and runs once per iteration
// of it, so index arithmetic and invariant reads are hoisted out of inner loops.
//
// Registers hold integers and bools as int64 (uint64 by its bits). They hold floats as float (f16
// and bf16 rounded after each operation), or as double for f64 and for evaluation in double.
#pragma once

#include "dsl/op.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace kumiko::interpreter {

inline constexpr int64_t row_lanes = 1024;

enum class Domain : uint8_t { Int, Float, Double };

enum class Code : uint8_t {
    Affine, // extra: index into affines; advances along the row by its row coefficient
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Min,
    Max,
    EQ,
    NE,
    LT,
    LE,
    And,
    Or,
    Not,
    Select, // c: condition; values a, b
    Blend,  // a where the mask `extra` holds, otherwise b
    Cast,
    Reinterpret,
    Load, // extra: index into accesses
    Unary,
    Binary, // extra: index into the function tables
    IsNan,
    IsInf,
    IsFinite,
    Abs,
    BitAnd,
    BitOr,
    BitXor,
    BitNot,
    ShiftLeft,
    ShiftRight,
    DivToZero,
    ModToZero,
    LeadingZeros,
    TrailingZeros,
    PopCount,
    Move,
};

struct Register {
    Domain domain;
    Type type;
    bool row = false;
    int level = 0; // 0: constant; l: depends on loop l and possibly on outer loops
};

// An affine function of the loop variables.
struct Affine {
    int64_t constant = 0;
    std::vector<std::pair<int, int64_t>> terms; // (level, coefficient), ascending, no zeros
};

// A predicate: the affines in `conjuncts` are >= 0, and the register, if any, is true.
struct Mask {
    std::vector<int> conjuncts;
    int reg = -1;
    bool row = false;
    int level = 0;
};

struct Instruction {
    Code code;
    Type type; // of the result
    int dst, a = -1, b = -1, c = -1;
    int mask = -1; // lanes outside the mask are neither loaded nor checked
    int extra = -1;
};

// A half-open range of indices of an axis: [begin, end).
struct Range {
    int64_t begin, end;
};

// One array: an input, a materialised stage or an output.
struct Array {
    std::string name;
    Type type;
    std::vector<int64_t> extents, strides;
    uint8_t *data = nullptr;
    double *bound = nullptr; // error bounds, with the same strides; null if exact
    // If memory holds only a part: the index range per axis, and the offset of the first element.
    std::vector<Range> part = {};
    int64_t origin = 0;
    Range held(size_t axis) const { return part.empty() ? Range{0, extents[axis]} : part[axis]; }
};

struct Access {
    int array;
    Affine address; // offset of the affine indices, in elements
    struct Dimension {
        Affine index;
        int reg = -1; // register of a non-affine index
        size_t axis = 0;
    };
    // Dimensions whose index is not affine or cannot be proved in bounds.
    std::vector<Dimension> checked;
    bool gather = false; // at least one index register is a row
};

struct Loop {
    std::string name;
    int64_t extent;
    int64_t begin = 0;
};

struct Program {
    std::string stage;
    std::vector<Loop> loops; // level l is loops[l − 1]
    int row_level = 0;       // level of the loop whose iterations are the lanes
    std::vector<Register> registers;
    struct Constant {
        int reg;
        int64_t i = 0;
        double d = 0;
    };
    std::vector<Constant> constants;
    std::vector<Affine> affines;
    std::vector<Mask> masks;
    std::vector<Access> accesses;
    std::vector<std::vector<Instruction>> code; // by level
    std::vector<int> results;                   // Pointwise: one register
    // Reductions.
    std::vector<int> accumulators, terms, identities;
    int first_reduction_level = 0; // reduction loops start at this level
    // Lanes run along the innermost reduction loop and are folded in order.
    bool fold_lanes = false;
    // Uniform registers for the terms of one lane; code[loops.size() + 1] folds them.
    std::vector<int> fold_terms;
    int fold_code = -1; // Code of a simple fold (acc op term); −1 for a general combiner
};

using UnaryFunction = double (*)(double);
using BinaryFunction = double (*)(double, double);
struct NamedUnary {
    const char *name;
    UnaryFunction f;
    bool monotone;
};
const std::vector<NamedUnary> &unary_functions();
const std::vector<std::pair<const char *, BinaryFunction>> &binary_functions();

struct Context {
    const Op *op;
    std::map<std::string, int64_t> sizes;
    bool in_double = false;
    std::vector<Array> arrays;
    std::map<std::string, int> array_of; // by tensor name
    Domain domain(Type t) const {
        if (!t.is_float()) return Domain::Int;
        return in_double || t.bits() == 64 ? Domain::Double : Domain::Float;
    }
};

// Compiles a stage. `extents`, `reduction_extents`: of stage.axes and stage.reduction_axes.
// `begins`: first index per axis, if not all are 0.
Program compile(const Context &context, const Stage &stage, const std::vector<int64_t> &extents,
                const std::vector<int64_t> &reduction_extents, const std::vector<int64_t> &begins = {});

// Runs the program and stores its results into the arrays `targets` (one per component). `bounds`:
// also propagates error bounds.
void run(const Context &context, const Stage &stage, const Program &program, const std::vector<int> &targets,
         bool bounds);

// Evaluates a group of stages that are computed step by step with a recurrence, or a single stage;
// only the parts that their arrays hold. `targets`: by stage name.
void run_group(const Context &context, const std::vector<const Stage *> &stages,
               const std::map<std::string, std::vector<int>> &targets, bool bounds);
// Adds the "T.earlier" tensors of recurrences to the arrays, as aliases of T.
void share_earlier(Context &context);

// Calls the function of an extern stage. Returns false if one of its inputs is rounded: a kernel
// rounds differently, the function may then return other results, and their bounds are infinite.
bool run_extern(const Context &context, const Stage &stage, const std::vector<int> &targets, bool bounds);

} // namespace kumiko::interpreter
