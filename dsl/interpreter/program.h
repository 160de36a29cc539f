// The interpreter's inside. Each stage becomes a small flat program over registers, where a register holds one value
// (uniform) or a row of up to row_lanes values along one loop. Every instruction belongs to the innermost loop on which it
// depends and runs once for each of its iterations, so index arithmetic and invariant reads leave the inner loops.
//
// Registers hold integers and bools as int64 (uint64 by its bits), floats as float (f16 and bf16 rounded after each
// operation) or, for f64 and when everything is evaluated in double, as double.
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
    Affine, // extra: index into affines; along the row it advances by its row coefficient
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
    Select, // c: condition, a, b
    Blend,  // a where the mask `extra` holds, else b
    Cast,
    Reinterpret,
    Load, // extra: index into accesses
    Unary,
    Binary, // extra: index into the tables of functions
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
    int level = 0; // 0: constant; l: depends on the l-th loop and perhaps on those around it
};

// A linear function of the loop variables.
struct Affine {
    int64_t constant = 0;
    std::vector<std::pair<int, int64_t>> terms; // (level, coefficient), ascending, no zeros
};

// Where something is evaluated at all: the affines in `conjuncts` are >= 0, and the register, if any, is true.
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
    int mask = -1; // lanes outside are neither read from memory nor checked
    int extra = -1;
};

// Indices of an axis: `begin` and up to, without, `end`.
struct Range {
    int64_t begin, end;
};

// One array: an input, a materialised stage or an output.
struct Array {
    std::string name;
    Type type;
    std::vector<int64_t> extents, strides;
    uint8_t *data = nullptr;
    double *bound = nullptr; // with the same strides; null when exact
    // Where memory holds a part alone: which indices of each axis, and the offset of the first element that is held.
    std::vector<Range> part = {};
    int64_t origin = 0;
    Range held(size_t axis) const { return part.empty() ? Range{0, extents[axis]} : part[axis]; }
};

struct Access {
    int array;
    Affine address; // of the affine indices, in elements
    struct Dimension {
        Affine index;
        int reg = -1; // an index that is not affine
        size_t axis = 0;
    };
    std::vector<Dimension> checked; // those that cannot be proved inside, and those in registers
    bool gather = false;            // some index register is a row
};

struct Loop {
    std::string name;
    int64_t extent;
    int64_t begin = 0;
};

struct Program {
    std::string stage;
    std::vector<Loop> loops; // level l is loops[l − 1]
    int row_level = 0;       // the loop whose iterations are lanes
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
    int first_reduction_level = 0; // loops from here on are the reduction's
    bool fold_lanes = false;       // lanes run along the innermost reduction loop: fold them in order
    std::vector<int> fold_terms;   // the uniform registers that take one lane's terms; code[loops.size() + 1] folds
    int fold_code = -1;            // Code of a simple fold (acc op term), −1 for a general one
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

// Extents are those of stage.axes and stage.reduction_axes. `begins`: the first index of each axis, where not all are 0.
Program compile(const Context &context, const Stage &stage, const std::vector<int64_t> &extents,
                const std::vector<int64_t> &reduction_extents, const std::vector<int64_t> &begins = {});

// Runs the program and stores its results into the arrays `targets` (one a component). `bounds`: carry error bounds too.
void run(const Context &context, const Stage &stage, const Program &program, const std::vector<int> &targets,
         bool bounds);

// Evaluates stages that take the steps of a recurrence together, or one stage: whole, or the part
// of which the arrays hold the elements. `targets`: by the names of stages.
void run_group(const Context &context, const std::vector<const Stage *> &stages,
               const std::map<std::string, std::vector<int>> &targets, bool bounds);
// Adds the earlier elements of recurrences to the arrays, in the memory of those.
void share_earlier(Context &context);

// Calls the function of an extern stage. Returns false if the function took rounded values. A
// kernel rounds differently, so the function may return other results there, and their bounds are
// infinite.
bool run_extern(const Context &context, const Stage &stage, const std::vector<int> &targets, bool bounds);

} // namespace kumiko::interpreter
