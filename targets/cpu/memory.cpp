// Loads and stores. Each carries the alias scope of its array and the list of all others, so that
// LLVM may reorder them. Dense vector accesses to internal arrays carry the alignment that their
// index proves.
//
// One file for loads and stores, which choose among the same kinds of access.
#include "targets/cpu/lane_runs.h"
#include "targets/cpu/narrow_index.h"
#include "targets/cpu/statements.h"

#include "support/error.h"

#include <bit>
#include <llvm/IR/Constants.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/PatternMatch.h>

#include <numeric>

namespace kumiko::cpu {

using namespace Halide::Internal;

namespace {

bool always(const Expr &predicate) { return !predicate.defined() || is_const_one(predicate); }

const Ramp *dense_ramp(const Expr &index) {
    const auto *r = index.as<Ramp>();
    return r && is_const_one(r->stride) && r->base.type().is_scalar() ? r : nullptr;
}

int bytes_of(Type t) { return std::max(1, t.bits() / 8); }

llvm::Align alignment_at(unsigned align, int lane, Type t) {
    return llvm::commonAlignment(llvm::Align(align), uint64_t(lane) * bytes_of(t));
}

// Whether some lanes of an index are clamped, as at the border of an array, and none is loaded from
// memory.
bool is_clamped(const Expr &index) {
    struct Find : IRVisitor {
        using IRVisitor::visit;
        bool clamps = false, loads = false;
        static bool differs(const Expr &e) { return e.type().is_vector() && !e.as<Broadcast>(); }
        void visit(const Min *op) override {
            clamps = clamps || differs(op->a) || differs(op->b);
            IRVisitor::visit(op);
        }
        void visit(const Max *op) override {
            clamps = clamps || differs(op->a) || differs(op->b);
            IRVisitor::visit(op);
        }
        void visit(const Load *) override { loads = true; }
    } find;
    index.accept(&find);
    return find.clamps && !find.loads;
}

bool is_empty(llvm::Value *mask) {
    const auto *constant = llvm::dyn_cast<llvm::Constant>(mask);
    return constant && constant->isNullValue();
}

} // namespace

void Accesses::tag(Value *access, const std::string &name) {
    auto found = alias_.find(name);
    auto *instruction = llvm::dyn_cast<llvm::Instruction>(access);
    if (found == alias_.end() || !instruction) {
        return;
    }
    instruction->setMetadata(llvm::LLVMContext::MD_alias_scope, found->second.first);
    if (found->second.second) {
        instruction->setMetadata(llvm::LLVMContext::MD_noalias, found->second.second);
    }
}

Value *Accesses::element(Value *pointer, Type t, Value *index) {
    return ir_.CreateInBoundsGEP(memory_type(t.element_of()), pointer, index);
}

Value *Accesses::to_memory(Value *v, Type t) { return t.is_bool() ? ir_.CreateZExt(v, memory_type(t)) : v; }

Value *Accesses::from_memory(Value *v, Type t) {
    return t.is_bool() ? ir_.CreateICmpNE(v, llvm::Constant::getNullValue(v->getType())) : v;
}

// The largest power of two, in bytes, that provably divides the address of the first element.
unsigned Accesses::access_alignment(const Array &array, Type t, const Expr &first, const ModulusRemainder &stated) {
    unsigned bytes = bytes_of(t);
    if (array.alignment <= bytes) {
        return std::max(1u, array.alignment);
    }
    auto divides = [&](const ModulusRemainder &m) -> int64_t { // divides all values; 0: only zero
        return std::gcd(m.modulus, m.remainder);
    };
    auto power = [&](int64_t v) -> int64_t { return v == 0 ? array.alignment : (v & -v) * int64_t(bytes); };
    int64_t best =
        std::max(power(divides(modulus_remainder(narrow_index(first), alignments_))), power(divides(stated)));
    return unsigned(std::min<int64_t>(best, array.alignment));
}

// LLVM 19 reads beyond the mask if it has to split a masked vector that is not as wide as a
// register. So masked accesses are made one register at a time; the last one is as wide as the next
// power of two, with the extra lanes disabled. Calls each(first lane, number of lanes, width of the
// access, its mask).
template<typename F>
void Accesses::for_each_register(Type t, Value *mask, F each) {
    for (int first = 0; first < t.lanes(); first += native_lanes(t)) {
        int count = std::min(native_lanes(t), t.lanes() - first), width = 2;
        while (width < count) {
            width *= 2;
        }
        each(first, count, width, widened(slice_mask(mask, first, count), width));
    }
}

// Hides from LLVM which object a pointer belongs to. For an object of known size LLVM replaces a
// masked load by a load of all lanes, and executes short branches that only load and compute
// speculatively. Both read elements that may be unwritten.
Value *Accesses::of_unknown_size(Value *pointer) {
    auto *type = llvm::FunctionType::get(pointer->getType(), {pointer->getType()}, false);
    llvm::CallInst *same = ir_.CreateCall(llvm::InlineAsm::get(type, "", "=r,0", false), {pointer});
    same->setDoesNotAccessMemory();
    same->setDoesNotThrow();
    same->addFnAttr(llvm::Attribute::WillReturn);
    return same;
}

// The runs of a mask that are accessed without it; nothing if the mask is used. A load as wide as a
// preceding store is forwarded from it immediately; a masked load has to wait for the store, and on
// some processors any load has to wait for a masked one. Where each instruction has a mask, only
// one access without it costs less.
std::optional<std::vector<LaneRun>> Accesses::runs_without_mask(Type t, Value *mask) {
    auto runs = runs_of(mask);
    if (!runs || !has_lane_masks()) return runs;
    const int count = runs->size() == 1 ? runs->front().count : 0;
    return count * bytes_of(t) >= 4 && count <= native_lanes(t) ? runs : std::nullopt;
}

Value *Accesses::load_dense(const Array &array, const std::string &name, Type t, Value *base, Value *mask,
                            unsigned align) {
    if (const auto runs = mask ? runs_without_mask(t, mask) : std::nullopt; runs && runs->size() == 1) {
        const auto [first, count] = runs->front();
        Value *v = load_dense(array, name, t.with_lanes(count), ir_.CreateNSWAdd(base, i64(first)), nullptr,
                              unsigned(alignment_at(align, first, t).value()));
        std::vector<int> taken(t.lanes(), count); // zeros
        std::iota(taken.begin() + first, taken.begin() + first + count, 0);
        if (!is_vector(v)) v = ir_.CreateVectorSplat(1, v);
        return ir_.CreateShuffleVector(v, llvm::Constant::getNullValue(v->getType()), taken);
    }
    if (mask) {
        Value *const pointer = array.on_stack ? of_unknown_size(array.pointer) : array.pointer;
        if (lane_by_lane(t, mask, false))
            return from_memory(load_lane_by_lane(name, t, element(pointer, t, base), nullptr, mask), t);
        std::vector<Value *> parts;
        for_each_register(t, mask, [&](int first, int count, int width, Value *part_of_mask) {
            llvm::Type *part = memory_type(t.with_lanes(width));
            if (is_empty(part_of_mask)) {
                parts.push_back(slice(llvm::Constant::getNullValue(part), 0, count));
                return;
            }
            Value *address = element(pointer, t, ir_.CreateNSWAdd(base, i64(first)));
            Value *v = ir_.CreateMaskedLoad(part, address, alignment_at(align, first, t), part_of_mask,
                                            llvm::Constant::getNullValue(part));
            tag(v, name);
            parts.push_back(slice(v, 0, count));
        });
        return from_memory(concat(parts), t);
    }
    // Where the alignment allows it, LLVM loads four bytes for an f16 and whole registers for a
    // vector of 31, or of two bf16, and computes on what lies beyond.
    constexpr int whole = 16; // bytes
    const bool odd = t == Halide::Float(16) || !std::has_single_bit(unsigned(t.lanes())) ||
                     (t.is_vector() && t.lanes() * t.bytes() < whole);
    if (odd) align = bytes_of(t);
    const bool elsewhere = branch_ && branch_ != array.branch;
    // Without a broadcast instruction, LLVM 19 turns a 4-byte load from the stack that fills a
    // vector into a 16-byte load whose memory operand has a wrong offset, and so reorders it with
    // stores to the same array.
    const bool widened =
        t.is_scalar() && t.bits() == 32 && options_.target.architecture() == "x86_64" && !options_.target.has("avx");
    Value *const pointer =
        array.on_stack && (odd || elsewhere || widened) ? of_unknown_size(array.pointer) : array.pointer;
    Value *v = ir_.CreateAlignedLoad(memory_type(t), element(pointer, t, base), llvm::Align(align));
    tag(v, name);
    return from_memory(v, t);
}

void Accesses::store_dense(const Array &array, const std::string &name, Type t, Value *base, Value *v, Value *mask,
                           unsigned align) {
    // Store in address order: LLVM splits wide stores in any order, which is slower if each vector
    // covers parts of two cache lines.
    const int native = native_lanes(t);
    if (!mask && lanes(v) > native && lanes(v) % native == 0 && !array.on_stack) {
        for (int first = 0; first < lanes(v); first += native)
            store_dense(array, name, t.with_lanes(native), ir_.CreateNSWAdd(base, i64(first)), slice(v, first, native),
                        nullptr, unsigned(alignment_at(align, first, t).value()));
        return;
    }
    v = to_memory(v, t);
    if (!mask) {
        // An element that is loaded under a branch and stored again has one address.
        const bool elsewhere = array.on_stack && t.is_scalar() && branch_ && branch_ != array.branch;
        Value *const pointer = elsewhere ? of_unknown_size(array.pointer) : array.pointer;
        llvm::StoreInst *stored = ir_.CreateAlignedStore(v, element(pointer, t, base), llvm::Align(align));
        tag(stored, name);
        const int bytes = lanes(v) * bytes_of(t);
        if (array.streamed && lanes(v) <= native && bytes >= 16 && std::has_single_bit(unsigned(bytes)) &&
            align >= unsigned(bytes)) {
            stored->setMetadata(llvm::LLVMContext::MD_nontemporal,
                                llvm::MDNode::get(context_, {llvm::ConstantAsMetadata::get(ir_.getInt32(1))}));
            non_temporal_.insert(name);
        }
        return;
    }
    if (const auto runs = runs_without_mask(t, mask)) {
        for (const LaneRun &run : *runs) {
            Value *address = element(array.pointer, t, ir_.CreateNSWAdd(base, i64(run.first)));
            tag(ir_.CreateAlignedStore(slice(v, run.first, run.count), address, alignment_at(align, run.first, t)),
                name);
        }
        return;
    }
    if (lane_by_lane(t, mask, false))
        return store_lane_by_lane(name, t, element(array.pointer, t, base), nullptr, v, mask);
    for_each_register(t, mask, [&](int first, int count, int width, Value *part_of_mask) {
        if (is_empty(part_of_mask)) return;
        Value *address = element(array.pointer, t, ir_.CreateNSWAdd(base, i64(first)));
        Value *part = widened(slice(v, first, count), width);
        tag(ir_.CreateMaskedStore(part, address, alignment_at(align, first, t), part_of_mask), name);
    });
}

// Splits a vector index into an i64 that all lanes share and per-lane offsets (null if all are
// zero), so that gathers address from a scalar base.
std::pair<Value *, Value *> Expressions::base_and_offsets(const Expr &e) {
    if (e.type().is_scalar()) {
        return {index(e), nullptr};
    }
    if (const auto *b = e.as<Broadcast>(); b && b->value.type().is_scalar()) {
        return {index(b->value), nullptr};
    }
    if (const auto *r = e.as<Ramp>(); r && r->base.type().is_scalar()) {
        Value *base = index(r->base);
        return {base, ramp(i64(0), index(r->stride), r->lanes, true)};
    }
    auto combine = [&](const Expr &ea, const Expr &eb, bool subtract) -> std::pair<Value *, Value *> {
        auto [a, ao] = base_and_offsets(ea);
        auto [b, bo] = base_and_offsets(eb);
        Value *base = subtract ? ir_.CreateNSWSub(a, b) : ir_.CreateNSWAdd(a, b);
        if (!bo) {
            return {base, ao};
        }
        if (!ao) {
            return {base, subtract ? ir_.CreateNeg(bo) : bo};
        }
        return {base, subtract ? ir_.CreateNSWSub(ao, bo) : ir_.CreateNSWAdd(ao, bo)};
    };
    if (const auto *op = e.as<Add>()) {
        return combine(op->a, op->b, false);
    }
    if (const auto *op = e.as<Sub>()) {
        return combine(op->a, op->b, true);
    }
    if (Value *offsets = constant_offsets(e)) return {i64(0), offsets};
    if (const auto *op = e.as<Mul>()) {
        if (const auto factor = as_const_int(op->b)) {
            auto [base, offsets] = base_and_offsets(op->a);
            if (offsets) offsets = ir_.CreateNSWMul(offsets, broadcast(i64(*factor), e.type().lanes()));
            return {ir_.CreateNSWMul(base, i64(*factor)), offsets};
        }
    }
    return {i64(0), index(e)};
}

// A load whose predicate has terms that are the same for all lanes, such as "the row is inside the
// image". These terms become a branch around a load under the other terms. Null without such terms.
Value *Expressions::load_under_branch(const Load *op) {
    std::vector<Expr> terms;
    split_into_ands(op->predicate, terms);
    Expr shared, own;
    for (const Expr &e : terms) {
        const auto *b = e.as<Broadcast>();
        const Expr scalar = e.type().is_scalar() ? e : b && b->value.type().is_scalar() ? b->value : Expr();
        Expr &side = scalar.defined() ? shared : own;
        const Expr &term = scalar.defined() ? scalar : e;
        side = side.defined() ? side && term : term;
    }
    if (!shared.defined()) return nullptr;
    if (!own.defined()) own = const_true(op->type.lanes());
    return if_then_else(shared, Load::make(op->type, op->name, op->index, op->image, op->param, own, op->alignment),
                        make_zero(op->type));
}

Value *Expressions::load_constant_stride(const Array &array, const Load *op, Value *mask) {
    constexpr int64_t most = 4; // elements of a wider stride are gathered
    const auto *r = op->index.as<Ramp>();
    const auto *stride = r ? r->stride.as<IntImm>() : nullptr;
    if (!stride || !r->base.type().is_scalar() || (mask && !lanes_on(mask))) return nullptr;
    const Type t = op->type;
    if (stride->value >= 2 && stride->value <= most) {
        const auto found = reaches_.find(op);
        return load_strided(array, op->name, t, index(r->base), stride->value, mask,
                            found == reaches_.end() ? std::nullopt : std::optional(found->second));
    }
    if (stride->value < -most || stride->value > -1 || mask) return nullptr;
    // Loaded from the last lane's address up, then reversed.
    const int64_t s = -stride->value;
    Value *first = ir_.CreateNSWSub(index(r->base), i64((t.lanes() - 1) * s));
    Value *v = s == 1 ? load_dense(array, op->name, t, first, nullptr, bytes_of(t))
                      : load_strided(array, op->name, t, first, s, nullptr, {});
    std::vector<int> reversed;
    for (int i = t.lanes(); i-- > 0;) {
        reversed.push_back(i);
    }
    return lanes_of(v, reversed);
}

// Lanes at constant offsets are loaded together; others one by one or by a gather.
Value *Expressions::gather(const Array &array, const Load *op, Value *mask) {
    const Type t = op->type;
    auto [base, offsets] = base_and_offsets(op->index);
    if (offsets) {
        if (Value *near = load_near(array, op->name, t, base, offsets, mask)) return near;
        if (Value *v = load_from_registers(array, op->name, t, base, offsets, mask)) return v;
    }
    Value *address = element(array.pointer, t, base);
    if (!offsets) {
        offsets = llvm::Constant::getNullValue(with_lanes(ir_.getInt64Ty(), t.lanes()));
    }
    if (lane_by_lane(t, mask, true) && (mask || is_clamped(op->index)))
        return from_memory(load_lane_by_lane(op->name, t, address, offsets, mask), t);
    const CpuTarget &target = options_.target;
    const bool by_lanes = t.bits() < 32 ? target.architecture() == "x86_64" || target.architecture() == "aarch64"
                                        : t.bits() == 32 && !target.has_fast_gather();
    if (!mask && by_lanes) {
        // For narrow types there is no instruction, and LLVM would compute addresses in vectors and
        // take these apart.
        Value *v = llvm::PoisonValue::get(memory_type(t));
        for (int lane = 0; lane < t.lanes(); lane++) {
            llvm::Type *one = memory_type(t.element_of());
            Value *place = ir_.CreateInBoundsGEP(one, address, ir_.CreateExtractElement(offsets, uint64_t(lane)));
            Value *loaded = ir_.CreateAlignedLoad(one, place, llvm::Align(bytes_of(t)));
            tag(loaded, op->name);
            v = ir_.CreateInsertElement(v, loaded, uint64_t(lane));
        }
        return from_memory(v, t);
    }
    Value *addresses = ir_.CreateInBoundsGEP(memory_type(t.element_of()), address, offsets);
    Value *v = ir_.CreateMaskedGather(memory_type(t), addresses, llvm::Align(bytes_of(t)), mask,
                                      llvm::Constant::getNullValue(memory_type(t)));
    tag(v, op->name);
    return from_memory(v, t);
}

Value *Expressions::load(const Load *op) {
    const Array *found = arrays_.find(op->name);
    if (!found) {
        throw InternalError("kernel " + kernel_ + ": load from unknown array " + op->name);
    }
    if (const auto column = transposed_.find(op); column != transposed_.end()) {
        return column->second;
    }
    const Array &array = *found;
    Type t = op->type;
    if (array.in_registers) {
        Value *v = load_register(array, op->name, t, op->index);
        if (array.deinterleaved && !deinterleaved_) v = lanes_of(v, deinterleaved_lanes());
        return always(op->predicate)
                   ? v
                   : ir_.CreateSelect(condition(op->predicate), v, llvm::Constant::getNullValue(type(t)));
    }
    if (t.is_scalar()) {
        if (always(op->predicate)) {
            return load_dense(array, op->name, t, index(op->index), nullptr,
                              access_alignment(array, t, op->index, op->alignment));
        }
        // If the predicate is false: zero, without an access to memory.
        return if_then_else(op->predicate, Load::make(t, op->name, op->index, {}, {}, const_true(), op->alignment),
                            make_zero(t));
    }
    if (const auto *r = op->index.as<Ramp>(); r && r->base.type().is_vector()) {
        Expr flat = flatten_nested_ramps(Expr(op));
        const auto *same = flat.as<Load>();
        if (!same || !same->index.same_as(op->index)) {
            return value(flat);
        }
    }
    Value *mask = always(op->predicate) ? nullptr : condition(op->predicate);
    if (mask && !is_vector(mask)) {
        mask = broadcast(mask, t.lanes());
    }
    if (mask && lane_by_lane(t, mask, false)) {
        if (const auto known = called_.find(op); known != called_.end()) return known->second;
        if (Value *v = load_under_branch(op)) {
            if (stores_) called_[op] = v;
            return v;
        }
    }
    if (const Ramp *r = dense_ramp(op->index)) {
        Value *v =
            load_dense(array, op->name, t, index(r->base), mask, access_alignment(array, t, r->base, op->alignment));
        if (stores_ && mask && lane_by_lane(t, mask, false)) called_[op] = v;
        return v;
    }
    if (const auto *b = op->index.as<Broadcast>(); b && !mask && b->value.type().is_scalar()) {
        Type scalar = t.element_of();
        return broadcast(load_dense(array, op->name, scalar, index(b->value), nullptr, bytes_of(scalar)), t.lanes());
    }
    if (Value *v = load_constant_stride(array, op, mask)) return v;
    return gather(array, op, mask);
}

void Statements::store(const Store *op) {
    ScopedValue<bool> stores(stores_, true);
    ScopedValue<Called> called(called_, {});
    const Array *found = arrays_.find(op->name);
    if (!found) {
        throw InternalError("kernel " + kernel_ + ": store to unknown array " + op->name);
    }
    const Array &array = *found;
    Type t = op->value.type();
    if (array.in_registers) {
        deinterleaved_ = array.deinterleaved;
        Value *v = value(op->value);
        deinterleaved_ = false;
        if (!always(op->predicate)) {
            Value *mask = condition(op->predicate);
            v = ir_.CreateSelect(mask, v, load_register(array, op->name, t, op->index));
        }
        store_register(array, op->name, t, op->index, v);
        return;
    }
    if (t.is_scalar()) {
        if (always(op->predicate)) {
            Value *v = value(op->value);
            store_dense(array, op->name, t, index(op->index), v, nullptr,
                        access_alignment(array, t, op->index, op->alignment));
            return;
        }
        llvm::BasicBlock *then = block("store"), *after = block("stored");
        ir_.CreateCondBr(condition(op->predicate), then, after);
        ir_.SetInsertPoint(then);
        Value *v = value(op->value);
        store_dense(array, op->name, t, index(op->index), v, nullptr, bytes_of(t));
        ir_.CreateBr(after);
        ir_.SetInsertPoint(after);
        return;
    }
    Value *v = value(op->value);
    Value *mask = always(op->predicate) ? nullptr : condition(op->predicate);
    if (mask && !is_vector(mask)) {
        mask = broadcast(mask, t.lanes());
    }
    if (const Ramp *r = dense_ramp(op->index)) {
        store_dense(array, op->name, t, index(r->base), v, mask, access_alignment(array, t, r->base, op->alignment));
        return;
    }
    auto [base, offsets] = base_and_offsets(op->index);
    if (!offsets) {
        throw InternalError("kernel " + kernel_ + ": a vector is stored to one element of " + op->name);
    }
    Value *address = element(array.pointer, t, base);
    if (const auto *r = op->index.as<Ramp>(); r && r->base.type().is_vector() && !mask) {
        // Rows of a nested ramp, each dense when the inner ramp is.
        const auto *inner = r->base.as<Ramp>();
        const auto *step = r->stride.as<Broadcast>();
        if (inner && step && is_const_one(inner->stride) && inner->base.type().is_scalar()) {
            Value *first = index(inner->base), *stride = index(step->value);
            for (int i = 0; i < r->lanes; i++) {
                Value *at = ir_.CreateNSWAdd(first, ir_.CreateNSWMul(stride, i64(i)));
                store_dense(array, op->name, t.with_lanes(inner->lanes), at, slice(v, i * inner->lanes, inner->lanes),
                            nullptr, bytes_of(t));
            }
            return;
        }
    }
    if (lane_by_lane(t, mask, true)) return store_lane_by_lane(op->name, t, address, offsets, to_memory(v, t), mask);
    Value *addresses = ir_.CreateInBoundsGEP(memory_type(t.element_of()), address, offsets);
    tag(ir_.CreateMaskedScatter(to_memory(v, t), addresses, llvm::Align(bytes_of(t)), mask), op->name);
}

} // namespace kumiko::cpu
