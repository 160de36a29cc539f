// Private to targets/cpu: from a Nest to LLVM IR.
//
// A Codegen fills one llvm::Module with the kernels given to add(). Values keep Halide's semantics;
// targets/cpu/README.md says how each case is implemented. Halide's types map to LLVM as follows:
//   bool      i1 in registers, one byte 0 or 1 in memory
//   f16, bf16 their 16 bits as i16, in registers and in memory; arithmetic in f32 (half.cpp)
//   the rest  the LLVM type of the same name
// Index arithmetic is done in i64 without wrap-around (the "index" functions below); value
// arithmetic is done in the value's own type.
//
// The member functions are defined in several files, which the sections below name.
#pragma once

#include "targets/cpu/emit.h"
#include "targets/cpu/options.h"
#include "targets/lower/nest.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <tuple>

namespace kumiko::cpu {

using Halide::Internal::ModulusRemainder;
using Halide::Internal::Scope;
using Halide::Internal::Stmt;
using llvm::Value;

struct Lanes; // math_lanes.h

// The status codes of runtime/kumiko_runtime.h that generated code returns.
enum Status { null_pointer = 1, bad_size = 2, failed_assumption = 3, out_of_memory = 4, bad_overlap = 6 };

// A call whose name has this prefix is a tensor instruction.
inline constexpr std::string_view instruction_prefix = "kumiko.inst.";

// How an instruction is emitted: by its own declaration, or else by the emitter registered under
// its name.
struct Emission {
    const Instruction *declared = nullptr; // null: the schedule has no instruction of that name
    const Emitter *emitter = nullptr;      // null: no emitter is registered
    const TileEmitter *tiles = nullptr;    // null: it does not operate on tiles
    // Whether its own declaration emits it; whether Kumiko's built-in emitter does.
    bool own = false, builtin = false;
};

// An in-memory operand of an instruction: a load of its first element, and its row stride in bytes.
struct TileOperand {
    const Halide::Internal::Load *element;
    Expr row;
};

// c + a · b of tiles.
struct TileProduct {
    static constexpr int rows = 16, row_bytes = 64; // of a tile
    const TileEmitter *emitter;
    TileOperand c, a, b;
};

// Consecutive products and the distinct accumulator tiles that they add to.
struct TileGroup {
    std::vector<TileProduct> products;
    std::vector<TileOperand> sums;
    std::vector<size_t> sum_of; // index in `sums` of each product's accumulator
};

// The value bound to a name of the nest.
struct Symbol {
    Value *value = nullptr; // in the type of the variable
    Value *index = nullptr; // the same as i64, when the variable is a scalar Int(32) or Int(64)
    bool nonnegative = false;
    ModulusRemainder alignment;
};

// One array: a tensor argument or an allocation.
struct Array {
    Value *pointer = nullptr;
    unsigned alignment = 1; // of the pointer, in bytes
    // An accumulator array in registers has one stack slot for each piece that the accesses of
    // inner loops cover whole; `pieces` maps the first element of a piece to its slot.
    bool in_registers = false;
    Type type;
    // First element → slot, number of elements.
    std::map<int64_t, std::pair<Value *, int64_t>> pieces;
    // The lanes are stored in the order that strided loads produce (lane_order.cpp).
    bool deinterleaved = false;
    // Aligned vectors are written with non-temporal stores.
    bool streamed = false;
    // The branch_ number at the allocation.
    int branch = 0;
    // LLVM sees the size, and so knows that loads beyond a mask cannot fault.
    bool on_stack = false;
};

// The code generator of one module. It has more than 40 methods, because every expression and
// statement of a function uses the same builder, loops and scopes; they are grouped by the file
// that defines them.
class Codegen {
public:
    Codegen(llvm::LLVMContext &context, const CodegenOptions &options, const std::string &module_name);

    // Adds the functions NAME and NAME_packed. Throws Unsupported for an unknown node or call.
    void add(const Nest &nest);

    std::unique_ptr<llvm::Module> module;

    // Warnings for the user, for example an accumulator array that exceeds the registers.
    std::vector<std::string> warnings;

private:
    // ---- Expressions
    // The value of an expression, in the type of the expression.
    Value *value(const Expr &e);
    Value *index(const Expr &e); // i64, or a vector of i64
    // The value of a bool, i1 or a vector of i1.
    Value *condition(const Expr &e);
    // The arithmetic operation e on a and b.
    Value *binary(const Expr &e, const Expr &a, const Expr &b);
    // The comparison e of a and b.
    Value *compare(const Expr &e, const Expr &a, const Expr &b);
    // a > b ? a : b for the maximum, with < for the minimum; NaN gives b.
    Value *minmax(Type type, Value *a, Value *b, bool maximum);
    // A select in which each lane of the condition, or the one for all lanes, decides.
    Value *select(Value *condition, Value *a, Value *b);
    Value *shuffle(const Halide::Internal::Shuffle *op);
    // Reduces the lanes of each group as a balanced tree, whose order depends on their number only.
    Value *vector_reduce(const Halide::Internal::VectorReduce *op);
    // base + stride * lane; a nested ramp if base is a vector.
    Value *ramp(Value *base, Value *stride, int lanes, bool no_wrap);
    // Whether the expression is known not to be negative.
    bool is_nonnegative(const Expr &e);

    // ---- Division (division.cpp): Euclidean, x/0 = x%0 = 0
    Value *divide(Type type, Value *a, Value *b, bool nonnegative = false);
    Value *modulo(Type type, Value *a, Value *b, bool nonnegative = false);
    // Quotient and remainder by a divisor that is not constant.
    std::pair<Value *, Value *> divide_floor(Type type, Value *a, Value *b);

    // ---- Casts (casts.cpp, half.cpp)
    // Values of a float, NaN apart.
    struct FloatRange {
        double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
        bool may_be_nan = true;
    };
    static FloatRange range_of_clamped(const Expr &e);
    Value *limited(Value *x, double low, double high, double number, const FloatRange &range);
    // A cast among any two types. A float has the given range.
    Value *cast(Value *v, Type from, Type to, const FloatRange &range);
    Value *cast(Value *v, Type from, Type to) { return cast(v, from, to, {}); }
    // Truncates and saturates; NaN gives 0.
    Value *float_to_int(Value *v, Type from, Type to, const FloatRange &range);
    // Null if op is not a rounding to a type of 8 or 16 bits.
    Value *rounded_to_int(const Halide::Internal::Cast *op);
    Value *widen_half(Value *v, Type from); // f16, bf16 → f32
    // f32 → bf16, to nearest even.
    Value *narrow_to_bfloat(Value *v);
    // The same by the AVX-512 instruction, for 16 or 32 lanes.
    Value *narrow_by_instruction(Value *v);
    Value *narrow_to_half(Value *v, Type to); // f32 → f16, bf16, to nearest even
    Value *round_to_odd(Value *f64);          // f64 → f32 so that a second rounding is harmless
    // An integer rounded once to a 16-bit float.
    Value *int_to_half(Value *v, Type from, Type to);

    // ---- Calls (calls.cpp)
    // A call: an intrinsic, a math function, an instruction, or one of Kumiko's own.
    Value *call(const Halide::Internal::Call *op);
    // An intrinsic of Halide.
    Value *intrinsic(const Halide::Internal::Call *op);
    // |x|; integers give the unsigned type.
    Value *absolute(const Halide::Internal::Call *op);
    // |a - b| of integers, in the unsigned type.
    Value *absolute_difference(const Halide::Internal::Call *op);
    // C's / and %, except that x/0 = 0.
    Value *divide_to_zero(const Halide::Internal::Call *op);
    // An operation on floats without contraction.
    Value *strict(const Halide::Internal::Call *op);
    // A negative amount shifts in the other direction.
    Value *shift(const Halide::Internal::Call *op, bool left);
    // Evaluates only the selected side if the condition is a scalar.
    Value *if_then_else(const Expr &condition, const Expr &a, const Expr &b);
    // kumiko.prefetch(array, index, locality, write).
    Value *prefetch(const Halide::Internal::Call *op);
    // kumiko.opaque(x): x behind a barrier that LLVM cannot see through.
    Value *opaque(const Halide::Internal::Call *op);
    // The address of an operand that an instruction takes in memory.
    Value *address_of(const Halide::Internal::Load *element);
    // How the instruction of this name is emitted.
    Emission emission(const std::string &name) const;
    // A tensor instruction, by its emitter.
    Value *instruction(const Halide::Internal::Call *op);
    // Throws UserError if the target lacks a feature of the instruction.
    void check_instruction(const std::string &name) const;
    Value *extern_call(const Halide::Internal::Call *op); // extern.cpp
    Value *within(const Halide::Internal::Call *op);      // values.cpp

    // ---- Math (math.cpp and math_*.cpp): on f32 scalars and vectors
    // A math function of any float type, by the functions below.
    Value *math(const std::string &function, Type type, std::vector<Value *> args);
    // The same for f32.
    Value *math_f32(const std::string &function, const std::vector<Value *> &args);
    // The value as Lanes, with the target's choice for constants.
    Lanes lanes_for_math(Value *v);
    // The same for f64.
    Value *math_f64(const std::string &function, const std::vector<Value *> &args);
    // math_powers.cpp: null for unsupported exponents.
    Value *constant_power(Value *x, Value *exponent, Type t);
    // math_sin.cpp
    enum class Trigonometric { Sine, Cosine, Tangent };
    Value *trigonometric(Trigonometric function, Value *x);
    Value *trigonometric_f64(const std::string &function, Value *x); // sin or cos
    // math_arcs.cpp: atan, atan2, asin and acos; null for any other function.
    Value *arc_function(const std::string &function, const std::vector<Value *> &args);
    // math_tails.cpp; its head lists the functions.
    std::optional<Value *> tail_function(const std::string &function, Value *x);
    // gelu(x) by a polynomial of the tail.
    Lanes gelu(Lanes x);
    // x sigmoid(z) from a = |x| and z <= 0, with the low part of z if it is given.
    Lanes times_sigmoid(Lanes x, Lanes a, Lanes z, const Lanes *low);
    // gelu by its approximation with tanh.
    Lanes gelu_tanh(Lanes x);
    // The functions below require has_lane_tables().
    // nonpositive: the result is exact for x up to 60 only and arbitrary above.
    Value *exp_by_table(Value *x, bool nonpositive);
    // erf by 32 polynomials.
    Value *erf_by_table(Value *x);
    // gelu by 32 polynomials.
    Value *gelu_by_table(Value *x);
    Lanes scaled_exp_by_table(Lanes x, const Lanes *low); // low: null means 0
    // Applies f to 16 lanes at a time.
    Value *by_registers(Value *x, const std::function<Lanes(Lanes)> &f);
    // A call of the C library for each lane.
    Value *libm(const std::string &function, Type type, const std::vector<Value *> &args);

    // The values of the current store's math calls and of its loads that needed branches. Each
    // value was computed in a block that dominates the current one. An expression is a graph, so a
    // shared subexpression is generated once. Empty between stores, because stores change memory.
    using Called = std::map<Expr, Value *, Halide::Internal::IRDeepCompare>;
    Called called_;
    bool stores_ = false;
    // The math function of a call, generated once for equal calls of a store.
    Value *math_call(const Halide::Internal::Call *op, const std::string &function, Type of);

    // ---- Memory (memory.cpp)
    // A load of any index: dense, strided, near, or a gather.
    Value *load(const Halide::Internal::Load *op);
    // A load behind a branch on the terms of its predicate that all lanes share; null if there are
    // none.
    Value *load_under_branch(const Halide::Internal::Load *op);
    void store(const Halide::Internal::Store *op);
    // Number of the innermost branch that encloses the current statement inside its innermost loop;
    // 0 if there is none. branches_: how many numbers are taken.
    int branch_ = 0, branches_ = 0;
    // The pointer, with the size of its object hidden from LLVM.
    Value *of_unknown_size(Value *pointer);
    // Consecutive elements from `base` on, under a mask if it is not null.
    Value *load_dense(const Array &array, const std::string &name, Type type, Value *base, Value *mask, unsigned align);
    // Stores consecutive elements from `base` on, under a mask if it is not null.
    void store_dense(const Array &array, const std::string &name, Type type, Value *base, Value *v, Value *mask,
                     unsigned align);
    // A load from an accumulator array that is split into slots.
    Value *load_register(const Array &array, const std::string &name, Type type, const Expr &index);
    // A store to such an array.
    void store_register(const Array &array, const std::string &name, Type type, const Expr &index, Value *v);
    // An index as one i64 for all lanes and an offset per lane; null if all offsets are 0.
    std::pair<Value *, Value *> base_and_offsets(const Expr &index);
    // The address of an element.
    Value *element(Value *pointer, Type type, Value *index);
    // The largest power of two, in bytes, that provably divides the address.
    unsigned access_alignment(const Array &array, Type type, const Expr &index, const ModulusRemainder &stated);
    // Adds the alias metadata of the array to an access.
    void tag(Value *access, const std::string &name);
    // A value in the type that memory has for it.
    Value *to_memory(Value *v, Type type);
    // The reverse.
    Value *from_memory(Value *v, Type type);

    // ---- Strided loads (strided.cpp)
    struct Reach { // elements that may be read beside one load, counted from its base
        int64_t first, last;
    };
    // A load whose index is a ramp of a small constant stride, by load_strided; null for others.
    Value *load_constant_stride(const Array &array, const Halide::Internal::Load *op, Value *mask);
    // Every stride-th element, by dense loads and shuffles.
    Value *load_strided(const Array &array, const std::string &name, Type type, Value *base, int64_t stride,
                        Value *mask, std::optional<Reach> reach);
    // A dense vector whose loads stay inside the reach.
    Value *load_within(const Array &array, const std::string &name, Type type, Value *base, int64_t from,
                       const Reach &reach, const std::vector<bool> &on, bool &zeros);
    // Finds what may be read beside each strided load of these stores.
    void find_reaches(const std::vector<const Halide::Internal::Store *> &stores);

    // ---- Accesses that the target can only make one lane at a time (lane_by_lane.cpp)
    // A null `offsets` means consecutive lanes.
    bool lane_by_lane(Type type, Value *mask, bool gathers) const;
    // Emits a loop over the enabled lanes.
    void for_each_lane(int lanes, Value *mask, const std::function<void(Value *lane)> &access);
    // The function that gives the offset of a lane.
    std::function<Value *(Value *)> offset_of_lane(Value *offsets);
    // A stack slot of the function for this purpose and type.
    Value *lane_slot(const std::string &role, llvm::Type *type);
    std::map<std::tuple<llvm::Function *, std::string, llvm::Type *>, Value *> lane_slots_;
    Value *load_lane_by_lane(const std::string &name, Type type, Value *first, Value *offsets, Value *mask);
    void store_lane_by_lane(const std::string &name, Type type, Value *first, Value *offsets, Value *v, Value *mask);

    // ---- Lanes at small constant offsets from each other (near.cpp)
    // Both return null for other offsets.
    Value *constant_offsets(const Expr &index);
    // One or two dense loads that cover all lanes, and shuffles.
    Value *load_near(const Array &array, const std::string &name, Type type, Value *base, Value *offsets, Value *mask);

    // Whether the array's lanes are stored in the order of deinterleaved_lanes() (lane_order.cpp).
    bool is_deinterleaved(const Halide::Internal::Allocate *op) const;
    // The lane order that strided loads produce.
    static std::vector<int> deinterleaved_lanes();

    // ---- Transposes (transpose.cpp)
    // Emits the rows that these stores read by columns; load() then finds the columns.
    void transpose_loads(const std::vector<const Halide::Internal::Store *> &stores);
    // Column k of the rows, for each k.
    std::vector<Value *> transposed(const std::vector<Value *> &rows);

    // ---- Stores by rows (transpose_stores.cpp)
    std::map<const Halide::Internal::Store *, std::vector<const Halide::Internal::Store *>>
    // The columns that are stored by rows, by the last store of each list.
    stores_by_rows(const std::vector<const Halide::Internal::Store *> &run);
    // Transposes the values and stores them by rows.
    void store_columns(const std::vector<const Halide::Internal::Store *> &columns);

    // ---- Allocations (allocation.cpp)
    // An allocation and its body.
    void allocate(const Halide::Internal::Allocate *op);
    // Gives an accumulator array stack slots; false if some access is not constant.
    bool split_into_pieces(const Halide::Internal::Allocate *op, Array &array);

    // ---- Statements (statements.cpp, parallel.cpp)
    // Emits a statement.
    void statement(const Stmt &s);
    // Emits statements that may share rows and tiles.
    void statements(const std::vector<Stmt> &all);
    // The statements of nested blocks, in order.
    static std::vector<Stmt> statements_of(const Stmt &s);
    // Emits a loop.
    void serial_loop(const Halide::Internal::For *op);
    // A loop with loop-carried values: `body` maps the values of one iteration to those of the
    // next. Returns the final values.
    using Carried = std::vector<Value *>;
    Carried loop(const Halide::Internal::For *op, Carried first, const std::function<Carried(const Carried &)> &body);
    // Emits the body as a task, and a call of parallel_for.
    void parallel_loop(const Halide::Internal::For *op);
    // A name that the body of a parallel loop uses and does not define: an array's pointer, or a
    // symbol, in its index form if it has one.
    struct Captured {
        std::string name;
        Value *value;
        bool is_array, is_index;
    };
    std::vector<Captured> captured_by(const Halide::Internal::For *op) const;
    // Declares int32 task(closure, index), or task(closure, index, workspace) for a worker.
    llvm::Function *declare_task(const std::string &loop, bool worker);
    // The function of a worker, whose iterations need so many bytes of workspaces.
    llvm::Function *worker_task(llvm::Function *iteration, llvm::StructType *closure_type, int64_t bytes);
    // Emits the loop's body as the task, which has its own tables of names and workspaces.
    void define_task(llvm::Function *task, const Halide::Internal::For *op, const std::vector<Captured> &captured,
                     llvm::StructType *closure_type);
    // Emits a branch.
    void if_else(const Halide::Internal::IfThenElse *op);
    // The value of a let, as a symbol.
    Symbol bind(const Expr &e);
    // A symbol for a loop variable or a size.
    Symbol bind_index(Value *i64, Type type, bool nonnegative, ModulusRemainder alignment);

    // ---- Products of tiles (tiles.cpp)
    // The product that a statement is, if it is one of tiles.
    std::optional<TileProduct> tile_product(const Stmt &s) const;
    // The products at the beginning of these statements, as many as the registers hold.
    TileGroup tile_group(const std::vector<Stmt> &all, size_t first) const;
    // Loads the accumulators of a group.
    std::vector<Value *> load_sums(const TileGroup &g);
    // Adds the products of a group to its accumulators.
    std::vector<Value *> multiply_tiles(const TileGroup &g, std::vector<Value *> sums);
    // Stores the accumulators of a group.
    void store_sums(const TileGroup &g, const std::vector<Value *> &sums);
    // The products of a loop that contains nothing else; empty for other loops.
    TileGroup tile_loop(const Halide::Internal::For *op) const;
    // The loop with its accumulators in registers.
    void multiply_in_loop(const Halide::Internal::For *op, const TileGroup &g, const std::vector<Value *> &sums);
    // Whether the stores write zeros to all rows of all accumulators, and nothing else.
    bool clears(const std::vector<const Halide::Internal::Store *> &stores, const TileGroup &g) const;
    // Emits products whose accumulators are cleared first; returns the number of statements
    // covered.
    size_t cleared_tiles(const std::vector<Stmt> &all, size_t first);

    // ---- Streams (stream.cpp)
    // The body, twice if outputs may be streamed: with non-temporal stores and without.
    void body(const Nest &nest);
    // A fence, after which other threads see non-temporal stores.
    void fence_streams();

    // ---- Kernels (kernel.cpp)
    // One alias scope for each array.
    void declare_scopes(const Nest &nest);
    // The entry checks of options.h.
    void check_arguments(const Nest &nest);
    // Checks that products of sizes fit the 32 bits in which loops count.
    void check_totals(const Nest &nest);
    // Checks that the elements of an output are distinct.
    void check_strides(const Nest &nest);
    // Checks that outputs overlap no other tensor.
    void check_overlap(const Nest &nest);
    // Whether two matrices are disjoint column ranges of one larger matrix.
    Value *columns_apart(const TensorArgument &a, Value *a_begin, const TensorArgument &b, Value *b_begin);
    // Returns `code` with a text unless the condition holds.
    void fail_unless(Value *ok, int code, const std::string &text);
    // The same for a code that is computed.
    void fail_unless(Value *ok, Value *code, const std::string &text);
    // Returns from the kernel, and frees its workspaces.
    void return_code(Value *code);
    // NAME_elements, for a kernel that pre-packs.
    void elements_function(const Nest &nest);
    // NAME_packed.
    void packed_entry(const Nest &nest, llvm::Function *kernel);
    void set_attributes(llvm::Function *function);
    // Emits into this function from now on.
    void begin_function(llvm::Function *function);
    // A function of the runtime, declared.
    llvm::Function *hook(const std::string &name, llvm::Type *result, std::vector<llvm::Type *> args);

    // ---- Helpers (codegen.cpp)
    llvm::Type *type(Type t) const;        // in registers
    llvm::Type *memory_type(Type t) const; // in memory, with lanes
    llvm::Type *with_lanes(llvm::Type *t, int lanes) const;
    Value *constant(Type t, int64_t v) const;
    Value *i64(int64_t v) const;
    Value *broadcast(Value *scalar, int lanes);
    // Lanes [first, first + lanes).
    Value *slice(Value *v, int first, int lanes);
    // The same of a mask, term by term of a conjunction.
    Value *slice_mask(Value *mask, int first, int count);
    Value *concat(std::vector<Value *> parts);
    // The given lanes of a value.
    Value *lanes_of(Value *v, const std::vector<int> &lanes);
    // The value followed by lanes of zeros.
    Value *widened(Value *v, int width);
    template<typename F>
    // Calls each(first lane, number of lanes, width, mask) for every register of a masked access.
    void for_each_register(Type t, Value *mask, F each);
    // An allocation at the begin of the function.
    Value *stack_slot(llvm::Type *t, unsigned align, const std::string &name);
    // A new basic block.
    llvm::BasicBlock *block(const std::string &name);
    bool is_vector(Value *v) const { return v->getType()->isVectorTy(); }
    // The number of lanes of a value.
    int lanes(Value *v) const;
    // The number of lanes of a vector register.
    int native_lanes(Type t) const;
    bool has_fma() const;
    bool has_f16_conversion() const;
    bool has_f16_arithmetic() const;
    bool has_lane_masks() const;  // masked accesses cost no more than others
    bool has_lane_tables() const; // one instruction takes each lane from any of two registers of 16

    llvm::LLVMContext &context_;
    const CodegenOptions &options_;
    std::shared_ptr<const EmitterRegistry> emitters_;
    llvm::IRBuilder<> ir_;
    llvm::Function *function_ = nullptr;
    std::string kernel_;
    std::shared_ptr<const InstructionSet> instructions_; // of the kernel's schedule
    int tasks_ = 0;

    Scope<Symbol> symbols_;
    Scope<ModulusRemainder> alignments_;
    Scope<Array> arrays_;
    // Live heap blocks, freed on every exit. `exit` is a block that frees the workspace; `code`
    // carries the status code to the return.
    struct Workspace {
        Value *pointer;
        llvm::BasicBlock *exit = nullptr;
        llvm::PHINode *code = nullptr;
    };
    std::vector<Workspace> workspaces_;
    // With CodegenOptions::model_threads: the block for workspaces, how many of its bytes are in
    // use, and the hooks of the run.
    Value *workspace_ = nullptr, *context_argument_ = nullptr;
    int64_t workspace_used_ = 0;
    // Array → alias.scope, noalias.
    std::map<std::string, std::pair<llvm::MDNode *, llvm::MDNode *>> alias_;
    // Loads whose values are already available as columns of transposed rows.
    std::map<const Halide::Internal::Load *, Value *> transposed_;
    // What may be read beside each strided load.
    std::map<const Halide::Internal::Load *, Reach> reaches_;
    // The current value is stored to an array whose lanes have the order of strided loads.
    bool deinterleaved_ = false;
    bool streaming_ = false;             // non-temporal stores are allowed
    std::set<std::string> non_temporal_; // arrays that some of them write
};

} // namespace kumiko::cpu
