// Allocations. An accumulator array is split into pieces that the accesses of its innermost loops
// cover whole. Each piece is a stack slot of at most one machine vector, which LLVM's scalar
// replacement keeps in a register. Outside of these loops, where sums begin and end, an access may
// cover some lanes of a piece: the last columns of a product whose instruction takes whole vectors.
// If an index is not constant, the array stays one block of memory and the compiler warns by name.
#include "targets/cpu/statements.h"

#include "support/error.h"
#include "targets/cpu/workspace.h"

#include <llvm/IR/Constants.h>

#include <climits>

namespace kumiko::cpu {

using namespace Halide::Internal;

namespace {

// The elements that a constant index names, lane by lane; nullopt if it is not constant.
std::optional<std::vector<int64_t>> constant_lanes(const Expr &e) {
    int n = e.type().lanes();
    if (const auto *c = e.as<IntImm>()) {
        return std::vector<int64_t>{c->value};
    } else if (const auto *op = e.as<Broadcast>()) {
        if (auto inner = constant_lanes(op->value)) {
            std::vector<int64_t> all;
            for (int i = 0; i < op->lanes; i++) {
                all.insert(all.end(), inner->begin(), inner->end());
            }
            return all;
        }
    } else if (const auto *op = e.as<Ramp>()) {
        auto base = constant_lanes(op->base), stride = constant_lanes(op->stride);
        if (base && stride) {
            std::vector<int64_t> all;
            for (int i = 0; i < op->lanes; i++) {
                for (size_t k = 0; k < base->size(); k++) {
                    all.push_back((*base)[k] + i * (*stride)[k]);
                }
            }
            return all;
        }
    } else if (const auto *op = e.as<Cast>(); op && op->type.is_int() && op->type.bits() >= 32) {
        return constant_lanes(op->value);
    } else {
        auto both = [&](const Expr &ea, const Expr &eb, auto join) -> std::optional<std::vector<int64_t>> {
            auto a = constant_lanes(ea), b = constant_lanes(eb);
            if (!a || !b) {
                return std::nullopt;
            }
            for (int i = 0; i < n; i++) {
                (*a)[i] = join((*a)[i], (*b)[i]);
            }
            return a;
        };
        if (const auto *op = e.as<Add>()) {
            return both(op->a, op->b, [](int64_t a, int64_t b) { return a + b; });
        } else if (const auto *op = e.as<Sub>()) {
            return both(op->a, op->b, [](int64_t a, int64_t b) { return a - b; });
        } else if (const auto *op = e.as<Mul>()) {
            return both(op->a, op->b, [](int64_t a, int64_t b) { return a * b; });
        }
    }
    return std::nullopt;
}

// Collects every access to one array, and whether all are constant and outside parallel loops.
class FindAccesses : public IRVisitor {
public:
    FindAccesses(const std::string &name) : name(name) {}
    std::string name;
    bool constant = true;
    struct Access {
        std::vector<int64_t> lanes;
        int depth; // number of enclosing loops
    };
    std::vector<Access> accesses;

private:
    using IRVisitor::visit;
    int parallel_ = 0, depth_ = 0;

    void access(const Expr &index) {
        auto lanes = constant_lanes(index);
        if (!lanes || parallel_) {
            constant = false;
        } else {
            accesses.push_back({std::move(*lanes), depth_});
        }
    }
    void visit(const Load *op) override {
        if (op->name == name) {
            access(op->index);
        }
        IRVisitor::visit(op);
    }
    void visit(const Store *op) override {
        if (op->name == name) {
            access(op->index);
        }
        IRVisitor::visit(op);
    }
    void visit(const For *op) override {
        bool parallel = op->for_type == ForType::Parallel;
        parallel_ += parallel, depth_++;
        IRVisitor::visit(op);
        parallel_ -= parallel, depth_--;
    }
    void visit(const Variable *op) override {
        if (op->name == name) { // its address is taken
            constant = false;
        }
    }
};

} // namespace

bool Accesses::split_into_pieces(const Allocate *op, Array &array) {
    FindAccesses found(op->name);
    op->body.accept(&found);
    int64_t size = op->constant_allocation_size();
    if (!found.constant) {
        return false;
    }
    struct Run {
        int64_t first, end;
        int depth;
    };
    std::vector<Run> runs; // consecutive lanes
    for (const auto &[lanes, depth] : found.accesses) {
        for (size_t i = 0; i < lanes.size(); i++) {
            if (lanes[i] < 0 || lanes[i] >= size) return false;
            if (i == 0 || lanes[i] != lanes[i - 1] + 1) runs.push_back({lanes[i], lanes[i], depth});
            runs.back().end = lanes[i] + 1;
        }
    }
    // Each cut, with the innermost loop depth of an access that begins or ends there.
    std::map<int64_t, int> cuts{{0, INT_MAX}, {size, INT_MAX}};
    for (const Run &r : runs) {
        for (const int64_t cut : {r.first, r.end}) cuts[cut] = std::max(cuts[cut], r.depth);
    }
    const int native = native_lanes(op->type);
    // An access of at most one register removes the cuts inside it that come from less deep loops,
    // or all of them if there are no loops.
    for (const Run &r : runs) {
        if (r.end - r.first > native) continue;
        std::erase_if(cuts, [&](const auto &c) {
            return c.first > r.first && c.first < r.end && (c.second < r.depth || r.depth == 0);
        });
    }
    const auto met = [&](int64_t first, int64_t end) {
        return std::any_of(runs.begin(), runs.end(), [&](const Run &r) { return r.first < end && first < r.end; });
    };
    for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) {
        const int64_t end = std::next(cut)->first;
        for (int64_t first = cut->first; first < end; first += native) {
            const int64_t count = std::min<int64_t>(native, end - first);
            if (!met(first, first + count)) continue;
            llvm::Type *t = type(op->type.with_lanes(int(count)));
            array.pieces[first] = {stack_slot(t, 64, "registers." + op->name), count};
        }
    }
    array.in_registers = true;
    array.deinterleaved = is_deinterleaved(op);
    if (int registers = options_.target.vector_registers(); int(array.pieces.size()) > registers) {
        warnings.push_back(
            fmt::format("kernel {}: {} takes {} vector registers and {} has {}, so part of it goes to memory", kernel_,
                        op->name, array.pieces.size(), options_.target.name, registers));
    }
    return true;
}

namespace {

// Splits the lanes of an access at the pieces: calls each(piece, position in `lanes` of the first
// one in the piece, number of lanes, offset of the first one in the piece).
template<typename F>
void for_each_piece(const Array &array, const std::vector<int64_t> &lanes, F each) {
    for (size_t i = 0; i < lanes.size();) {
        auto piece = std::prev(array.pieces.upper_bound(lanes[i]));
        size_t count = 1;
        while (i + count < lanes.size() && lanes[i + count] == lanes[i + count - 1] + 1 &&
               lanes[i + count] < piece->first + piece->second.second) {
            count++;
        }
        each(piece, i, count, int(lanes[i] - piece->first));
        i += count;
    }
}

} // namespace

Value *Accesses::load_register(const Array &array, const std::string &name, Type t, const Expr &e) {
    std::vector<Value *> parts;
    for_each_piece(array, *constant_lanes(e), [&](auto piece, size_t, size_t count, int within) {
        llvm::Type *slot = type(array.type.with_lanes(int(piece->second.second)));
        Value *v = ir_.CreateAlignedLoad(slot, piece->second.first, llvm::Align(64));
        tag(v, name);
        parts.push_back(is_vector(v) ? slice(v, within, int(count)) : v);
    });
    return concat(parts);
}

void Accesses::store_register(const Array &array, const std::string &name, Type t, const Expr &e, Value *v) {
    for_each_piece(array, *constant_lanes(e), [&](auto piece, size_t first, size_t count, int within) {
        const auto &[slot, lanes] = piece->second;
        Value *part = is_vector(v) ? slice(v, int(first), int(count)) : v;
        if (int64_t(count) < lanes) { // the other lanes keep their values
            Value *whole = ir_.CreateAlignedLoad(type(array.type.with_lanes(int(lanes))), slot, llvm::Align(64));
            tag(whole, name);
            std::vector<int> own, taken;
            for (int l = 0; l < lanes; l++) {
                const int of_part = l - within;
                const bool replaced = of_part >= 0 && of_part < int(count);
                own.push_back(l < int(count) ? l : -1);
                taken.push_back(replaced ? int(lanes) + of_part : l);
            }
            part = is_vector(part) ? ir_.CreateShuffleVector(part, own) : broadcast(part, int(lanes));
            part = ir_.CreateShuffleVector(whole, part, taken);
        }
        tag(ir_.CreateAlignedStore(part, slot, llvm::Align(64)), name);
    });
}

void Statements::allocate(const Allocate *op) {
    Array array;
    array.type = op->type;
    array.alignment = 64;
    int64_t bytes = std::max(1, op->type.bits() / 8);
    if (!is_workspace(op)) {
        for (const Expr &extent : op->extents) {
            if (!Halide::Internal::is_const(extent)) {
                throw InternalError("kernel " + kernel_ + ": stack array " + op->name + " has no constant size");
            }
        }
        // 0 if an axis is empty.
        int64_t size = op->extents.empty() ? 1 : op->constant_allocation_size();
        array.elements = size;
        bool wants_registers = op->memory_type == Halide::MemoryType::Register;
        if (!wants_registers || !split_into_pieces(op, array)) {
            llvm::Type *t =
                llvm::ArrayType::get(memory_type(op->type.element_of()), size * op->type.lanes() + op->padding);
            array.pointer = stack_slot(t, 64, (wants_registers ? "registers." : "stack.") + op->name);
            array.on_stack = true;
            array.branch = branch_;
        }
        ScopedBinding<Array> bound(arrays_, op->name, array);
        statement(op->body);
        return;
    }
    if (options_.model_threads) {
        array.pointer = ir_.CreateConstInBoundsGEP1_64(ir_.getInt8Ty(), workspace_, uint64_t(workspace_used_));
        const int64_t own = workspace_bytes(op);
        workspace_used_ += own;
        {
            ScopedBinding<Array> bound(arrays_, op->name, array);
            statement(op->body);
        }
        workspace_used_ -= own;
        return;
    }
    Value *size = i64(bytes * op->type.lanes());
    for (const Expr &extent : op->extents) {
        size = ir_.CreateNSWMul(size, index(extent));
    }
    size = ir_.CreateNSWAdd(size, i64(op->padding * bytes));
    llvm::Type *pointer = llvm::PointerType::getUnqual(context_);
    llvm::Function *allocate_hook = hook("malloc", pointer, {ir_.getInt64Ty()});
    allocate_hook->addRetAttr(llvm::Attribute::NoAlias);
    Value *p = ir_.CreateCall(allocate_hook, {size});
    fail_unless(ir_.CreateICmpNE(p, llvm::Constant::getNullValue(pointer)), out_of_memory,
                kernel_ + ": no memory for workspace " + op->name);
    array.pointer = p;
    workspaces_.push_back({p});
    {
        ScopedBinding<Array> bound(arrays_, op->name, array);
        statement(op->body);
    }
    workspaces_.pop_back();
    ir_.CreateCall(hook("free", ir_.getVoidTy(), {pointer}), {p});
}

} // namespace kumiko::cpu
