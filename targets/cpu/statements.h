// Private to targets/cpu: statements.
#pragma once

#include "targets/cpu/expressions.h"

namespace kumiko::cpu {

using Halide::Internal::Stmt;

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

// The body of a kernel: loops, tasks of parallel loops, allocations and stores.
class Statements : protected Expressions {
protected:
    using Expressions::Expressions;

    // Emits a statement.
    void statement(const Stmt &s);
    // A fence, after which other threads see non-temporal stores (stream.cpp).
    void fence_streams();

    // With CodegenOptions::model_threads: the block for workspaces, how many of its bytes are in
    // use, and the hooks of the run.
    Value *workspace_ = nullptr, *context_argument_ = nullptr;
    int64_t workspace_used_ = 0;
    bool streaming_ = false; // non-temporal stores are allowed
    int tasks_ = 0;

private:
    // ---- Statements (statements.cpp, parallel.cpp, allocation.cpp)
    // Emits statements that may share rows and tiles.
    void statements(const std::vector<Stmt> &all);
    // The statements of nested blocks, in order.
    static std::vector<Stmt> statements_of(const Stmt &s);
    // An allocation and its body.
    void allocate(const Halide::Internal::Allocate *op);
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

    // ---- Stores (memory.cpp, strided.cpp, transpose.cpp, transpose_stores.cpp)
    void store(const Halide::Internal::Store *op);
    // Finds what may be read beside each strided load of these stores.
    void find_reaches(const std::vector<const Halide::Internal::Store *> &stores);
    // Emits the rows that these stores read by columns; load() then finds the columns.
    void transpose_loads(const std::vector<const Halide::Internal::Store *> &stores);
    // The columns that are stored by rows, by the last store of each list.
    std::map<const Halide::Internal::Store *, std::vector<const Halide::Internal::Store *>>
    stores_by_rows(const std::vector<const Halide::Internal::Store *> &run);
    // Transposes the values and stores them by rows.
    void store_columns(const std::vector<const Halide::Internal::Store *> &columns);

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
};

} // namespace kumiko::cpu
