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
// The member functions are defined in codegen.cpp (shared helpers), expressions.cpp, division.cpp,
// casts.cpp, half.cpp, calls.cpp, math_*.cpp, memory.cpp, lane_by_lane.cpp, strided.cpp,
// transpose.cpp, transpose_stores.cpp, stream.cpp, allocation.cpp, statements.cpp, parallel.cpp,
// tiles.cpp, values.cpp and kernel.cpp.
#pragma once

#include "targets/cpu/emit.h"
#include "targets/cpu/options.h"
#include "targets/lower/nest.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>
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
    Value *value(const Expr &e);
    Value *index(const Expr &e); // i64, or a vector of i64
    Value *condition(const Expr &e);
    Value *binary(const Expr &e, const Expr &a, const Expr &b);
    Value *compare(const Expr &e, const Expr &a, const Expr &b);
    Value *minmax(Type type, Value *a, Value *b, bool maximum);
    Value *select(Value *condition, Value *a, Value *b);
    Value *shuffle(const Halide::Internal::Shuffle *op);
    Value *vector_reduce(const Halide::Internal::VectorReduce *op);
    Value *ramp(Value *base, Value *stride, int lanes, bool no_wrap);
    bool is_nonnegative(const Expr &e);

    // ---- Division (division.cpp): Euclidean, x/0 = x%0 = 0
    Value *divide(Type type, Value *a, Value *b, bool nonnegative = false);
    Value *modulo(Type type, Value *a, Value *b, bool nonnegative = false);
    std::pair<Value *, Value *> divide_floor(Type type, Value *a, Value *b);

    // ---- Casts (casts.cpp, half.cpp)
    Value *cast(Value *v, Type from, Type to);
    Value *float_to_int(Value *v, Type from, Type to);
    // Null if op is not a rounding to a type of 8 or 16 bits.
    Value *rounded_to_int(const Halide::Internal::Cast *op);
    Value *widen_half(Value *v, Type from); // f16, bf16 → f32
    Value *narrow_to_bfloat(Value *v);
    Value *narrow_by_instruction(Value *v);
    Value *narrow_to_half(Value *v, Type to); // f32 → f16, bf16, to nearest even
    Value *round_to_odd(Value *f64);          // f64 → f32 so that a second rounding is harmless
    Value *int_to_half(Value *v, Type from, Type to);

    // ---- Calls (calls.cpp)
    Value *call(const Halide::Internal::Call *op);
    Value *intrinsic(const Halide::Internal::Call *op);
    Value *absolute(const Halide::Internal::Call *op);
    Value *absolute_difference(const Halide::Internal::Call *op);
    Value *divide_to_zero(const Halide::Internal::Call *op);
    Value *strict(const Halide::Internal::Call *op);
    Value *shift(const Halide::Internal::Call *op, bool left);
    Value *if_then_else(const Expr &condition, const Expr &a, const Expr &b);
    Value *prefetch(const Halide::Internal::Call *op);
    Value *opaque(const Halide::Internal::Call *op);
    Value *address_of(const Halide::Internal::Load *element);
    Emission emission(const std::string &name) const;
    Value *instruction(const Halide::Internal::Call *op);
    void check_instruction(const std::string &name) const;
    Value *extern_call(const Halide::Internal::Call *op); // extern.cpp
    Value *within(const Halide::Internal::Call *op);      // values.cpp

    // ---- Math (math.cpp and math_*.cpp): on f32 scalars and vectors
    Value *math(const std::string &function, Type type, std::vector<Value *> args);
    Value *math_f32(const std::string &function, const std::vector<Value *> &args);
    Lanes lanes_for_math(Value *v);
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
    Lanes gelu(Lanes x);
    Lanes times_sigmoid(Lanes x, Lanes a, Lanes z, const Lanes *low);
    Lanes gelu_tanh(Lanes x);
    // The functions below require has_lane_tables().
    // nonpositive: the result is exact for x up to 60 only and arbitrary above.
    Value *exp_by_table(Value *x, bool nonpositive);
    Value *erf_by_table(Value *x);
    Value *gelu_by_table(Value *x);
    Lanes scaled_exp_by_table(Lanes x, const Lanes *low); // low: null means 0
    // Applies f to 16 lanes at a time.
    Value *by_registers(Value *x, const std::function<Lanes(Lanes)> &f);
    Value *libm(const std::string &function, Type type, const std::vector<Value *> &args);

    // The values of the current store's math calls and of its loads that needed branches. Each
    // value was computed in a block that dominates the current one. An expression is a graph, so a
    // shared subexpression is generated once. Empty between stores, because stores change memory.
    using Called = std::map<Expr, Value *, Halide::Internal::IRDeepCompare>;
    Called called_;
    bool stores_ = false;
    Value *math_call(const Halide::Internal::Call *op, const std::string &function, Type of);

    // ---- Memory (memory.cpp)
    Value *load(const Halide::Internal::Load *op);
    Value *load_under_branch(const Halide::Internal::Load *op);
    void store(const Halide::Internal::Store *op);
    // Number of the innermost branch that encloses the current statement inside its innermost loop;
    // 0 if there is none. branches_: how many numbers are taken.
    int branch_ = 0, branches_ = 0;
    Value *of_unknown_size(Value *pointer);
    Value *load_dense(const Array &array, const std::string &name, Type type, Value *base, Value *mask, unsigned align);
    void store_dense(const Array &array, const std::string &name, Type type, Value *base, Value *v, Value *mask,
                     unsigned align);
    Value *load_register(const Array &array, const std::string &name, Type type, const Expr &index);
    void store_register(const Array &array, const std::string &name, Type type, const Expr &index, Value *v);
    std::pair<Value *, Value *> base_and_offsets(const Expr &index);
    Value *element(Value *pointer, Type type, Value *index);
    unsigned access_alignment(const Array &array, Type type, const Expr &index, const ModulusRemainder &stated);
    void tag(Value *access, const std::string &name);
    Value *to_memory(Value *v, Type type);
    Value *from_memory(Value *v, Type type);

    // ---- Strided loads (strided.cpp)
    struct Reach { // elements that may be read beside one load, counted from its base
        int64_t first, last;
    };
    Value *load_strided(const Array &array, const std::string &name, Type type, Value *base, int64_t stride,
                        Value *mask, std::optional<Reach> reach);
    Value *load_within(const Array &array, const std::string &name, Type type, Value *base, int64_t from,
                       const Reach &reach, const std::vector<bool> &on, bool &zeros);
    void find_reaches(const std::vector<const Halide::Internal::Store *> &stores);

    // ---- Accesses that the target can only make one lane at a time (lane_by_lane.cpp)
    // A null `offsets` means consecutive lanes.
    bool lane_by_lane(Type type, Value *mask, bool gathers) const;
    void for_each_lane(int lanes, Value *mask, const std::function<void(Value *lane)> &access);
    std::function<Value *(Value *)> offset_of_lane(Value *offsets);
    Value *lane_slot(const std::string &role, llvm::Type *type);
    std::map<std::tuple<llvm::Function *, std::string, llvm::Type *>, Value *> lane_slots_;
    Value *load_lane_by_lane(const std::string &name, Type type, Value *first, Value *offsets, Value *mask);
    void store_lane_by_lane(const std::string &name, Type type, Value *first, Value *offsets, Value *v, Value *mask);

    // ---- Lanes at small constant offsets from each other (near.cpp); null if not constant or not
    // near
    Value *constant_offsets(const Expr &index);
    Value *load_near(const Array &array, const std::string &name, Type type, Value *base, Value *offsets, Value *mask);

    bool is_deinterleaved(const Halide::Internal::Allocate *op) const; // lane_order.cpp
    static std::vector<int> deinterleaved_lanes();

    // ---- Transposes (transpose.cpp)
    void transpose_loads(const std::vector<const Halide::Internal::Store *> &stores);
    std::vector<Value *> transposed(const std::vector<Value *> &rows);

    // ---- Stores by rows (transpose_stores.cpp)
    std::map<const Halide::Internal::Store *, std::vector<const Halide::Internal::Store *>>
    stores_by_rows(const std::vector<const Halide::Internal::Store *> &run);
    void store_columns(const std::vector<const Halide::Internal::Store *> &columns);

    // ---- Allocations (allocation.cpp)
    void allocate(const Halide::Internal::Allocate *op);
    bool split_into_pieces(const Halide::Internal::Allocate *op, Array &array);

    // ---- Statements (statements.cpp, parallel.cpp)
    void statement(const Stmt &s);
    void statements(const std::vector<Stmt> &all);
    static std::vector<Stmt> statements_of(const Stmt &s);
    void serial_loop(const Halide::Internal::For *op);
    // A loop with loop-carried values: `body` maps the values of one iteration to those of the
    // next. Returns the final values.
    using Carried = std::vector<Value *>;
    Carried loop(const Halide::Internal::For *op, Carried first, const std::function<Carried(const Carried &)> &body);
    void parallel_loop(const Halide::Internal::For *op);
    void if_else(const Halide::Internal::IfThenElse *op);
    Symbol bind(const Expr &e);
    Symbol bind_index(Value *i64, Type type, bool nonnegative, ModulusRemainder alignment);

    // ---- Products of tiles (tiles.cpp)
    std::optional<TileProduct> tile_product(const Stmt &s) const;
    TileGroup tile_group(const std::vector<Stmt> &all, size_t first) const;
    std::vector<Value *> load_sums(const TileGroup &g);
    std::vector<Value *> multiply_tiles(const TileGroup &g, std::vector<Value *> sums);
    void store_sums(const TileGroup &g, const std::vector<Value *> &sums);
    TileGroup tile_loop(const Halide::Internal::For *op) const;
    void multiply_in_loop(const Halide::Internal::For *op, const TileGroup &g, const std::vector<Value *> &sums);
    bool clears(const std::vector<const Halide::Internal::Store *> &stores, const TileGroup &g) const;
    size_t cleared_tiles(const std::vector<Stmt> &all, size_t first);

    // ---- Streams (stream.cpp)
    void body(const Nest &nest);
    void fence_streams();

    // ---- Kernels (kernel.cpp)
    void declare_scopes(const Nest &nest);
    void check_arguments(const Nest &nest);
    void check_totals(const Nest &nest);
    void check_strides(const Nest &nest);
    void check_overlap(const Nest &nest);
    Value *columns_apart(const TensorArgument &a, Value *a_begin, const TensorArgument &b, Value *b_begin);
    void fail_unless(Value *ok, int code, const std::string &text);
    void fail_unless(Value *ok, Value *code, const std::string &text);
    void return_code(Value *code);
    void elements_function(const Nest &nest);
    void packed_entry(const Nest &nest, llvm::Function *kernel);
    void set_attributes(llvm::Function *function);
    void begin_function(llvm::Function *function);
    llvm::Function *hook(const std::string &name, llvm::Type *result, std::vector<llvm::Type *> args);

    // ---- Helpers (codegen.cpp)
    llvm::Type *type(Type t) const;        // in registers
    llvm::Type *memory_type(Type t) const; // in memory, with lanes
    llvm::Type *with_lanes(llvm::Type *t, int lanes) const;
    Value *constant(Type t, int64_t v) const;
    Value *i64(int64_t v) const;
    Value *broadcast(Value *scalar, int lanes);
    Value *slice(Value *v, int first, int lanes);
    Value *slice_mask(Value *mask, int first, int count);
    Value *concat(std::vector<Value *> parts);
    Value *lanes_of(Value *v, const std::vector<int> &lanes);
    Value *widened(Value *v, int width);
    template<typename F>
    void for_each_register(Type t, Value *mask, F each);
    Value *stack_slot(llvm::Type *t, unsigned align, const std::string &name);
    llvm::BasicBlock *block(const std::string &name);
    bool is_vector(Value *v) const { return v->getType()->isVectorTy(); }
    int lanes(Value *v) const;
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
