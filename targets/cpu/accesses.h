// Private to targets/cpu: loads and stores at addresses that are computed.
#pragma once

#include "dsl/halide_passes.h"
#include "targets/cpu/lane_runs.h"
#include "targets/cpu/math_functions.h"

#include <map>
#include <set>
#include <tuple>

namespace kumiko::cpu {

using Halide::Internal::ModulusRemainder;
using Halide::Internal::Scope;

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
    int64_t elements = 0; // of a dense array; 0 if not constant
};

// Accesses to arrays by address, of the kinds among which load() and store() choose.
class Accesses : protected MathFunctions {
protected:
    using MathFunctions::MathFunctions;

    // ---- Elements and dense vectors (memory.cpp)
    // Consecutive elements from `base` on, under a mask if it is not null.
    Value *load_dense(const Array &array, const std::string &name, Type type, Value *base, Value *mask, unsigned align);
    // Stores consecutive elements from `base` on, under a mask if it is not null.
    void store_dense(const Array &array, const std::string &name, Type type, Value *base, Value *v, Value *mask,
                     unsigned align);
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

    // ---- Accumulators (allocation.cpp)
    // Gives an accumulator array stack slots; false if some access is not constant.
    bool split_into_pieces(const Halide::Internal::Allocate *op, Array &array);
    // A load from an accumulator array that is split into slots.
    Value *load_register(const Array &array, const std::string &name, Type type, const Expr &index);
    // A store to such an array.
    void store_register(const Array &array, const std::string &name, Type type, const Expr &index, Value *v);

    // ---- Strided loads (strided.cpp)
    struct Reach { // elements that may be read beside one load, counted from its base
        int64_t first, last;
    };
    // Every stride-th element, by dense loads and shuffles.
    Value *load_strided(const Array &array, const std::string &name, Type type, Value *base, int64_t stride,
                        Value *mask, std::optional<Reach> reach);

    // ---- Lanes at small constant offsets from each other (near.cpp)
    // Both return null for other offsets.
    Value *constant_offsets(const Expr &index);
    // One or two dense loads that cover all lanes, and shuffles.
    Value *load_near(const Array &array, const std::string &name, Type type, Value *base, Value *offsets, Value *mask);

    // Bytes at any index of a small array (lookup.cpp); null for other loads.
    Value *load_from_registers(const Array &array, const std::string &name, Type type, Value *base, Value *offsets,
                               Value *mask);

    // ---- Accesses that the target can only make one lane at a time (lane_by_lane.cpp)
    // A null `offsets` means consecutive lanes.
    bool lane_by_lane(Type type, Value *mask, bool gathers) const;
    Value *load_lane_by_lane(const std::string &name, Type type, Value *first, Value *offsets, Value *mask);
    void store_lane_by_lane(const std::string &name, Type type, Value *first, Value *offsets, Value *v, Value *mask);

    Scope<ModulusRemainder> alignments_;
    Scope<Array> arrays_;
    // Array → alias.scope, noalias.
    std::map<std::string, std::pair<llvm::MDNode *, llvm::MDNode *>> alias_;
    // Number of the innermost branch that encloses the current statement inside its innermost loop;
    // 0 if there is none. branches_: how many numbers are taken.
    int branch_ = 0, branches_ = 0;
    // The current value is stored to an array whose lanes have the order of strided loads.
    bool deinterleaved_ = false;
    std::set<std::string> non_temporal_; // arrays that some non-temporal stores write

private:
    std::optional<std::vector<LaneRun>> runs_without_mask(Type t, Value *mask);
    // The pointer, with the size of its object hidden from LLVM.
    Value *of_unknown_size(Value *pointer);
    // Calls each(first lane, number of lanes, width, mask) for every register of a masked access.
    template<typename F>
    void for_each_register(Type t, Value *mask, F each);
    // A dense vector whose loads stay inside the reach.
    Value *load_within(const Array &array, const std::string &name, Type type, Value *base, int64_t from,
                       const Reach &reach, const std::vector<bool> &on, bool &zeros);
    // Whether the array's lanes are stored in the order of deinterleaved_lanes() (lane_order.cpp).
    bool is_deinterleaved(const Halide::Internal::Allocate *op) const;
    // Emits a loop over the enabled lanes.
    void for_each_lane(int lanes, Value *mask, const std::function<void(Value *lane)> &access);
    // The function that gives the offset of a lane.
    std::function<Value *(Value *)> offset_of_lane(Value *offsets);
    // A stack slot of the function for this purpose and type.
    Value *lane_slot(const std::string &role, llvm::Type *type);
    std::map<std::tuple<llvm::Function *, std::string, llvm::Type *>, Value *> lane_slots_;
};

} // namespace kumiko::cpu
