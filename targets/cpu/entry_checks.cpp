// The entry checks of a kernel: arguments that would make its body read or write out of bounds are
// reported with a code and a text.
#include "targets/cpu/codegen.h"
#include "targets/cpu/object.h"

#include "dsl/buffers.h"
#include "dsl/print.h"
#include "dsl/stage_builder.h"
#include "support/error.h"

#include <llvm/IR/Constants.h>

namespace kumiko::cpu {

using namespace Halide::Internal;

namespace {

// Whether these are two matrices with gaps between their rows, which may be column ranges of one
// larger matrix.
bool may_share_rows(const TensorArgument &a, const TensorArgument &b) {
    for (const TensorArgument *t : {&a, &b}) {
        if (t->extents.size() != 2 || !is_const_one(t->strides[1]) ||
            is_const_zero(simplify(t->strides[0] - t->extents[1])))
            return false;
    }
    return a.type.bytes() == b.type.bytes();
}

} // namespace

// Whether two matrices with equal row strides are disjoint column ranges of one larger matrix:
// modulo the row stride, neither begins inside the other, and neither wraps around.
Value *Codegen::columns_apart(const TensorArgument &a, Value *a_begin, const TensorArgument &b, Value *b_begin) {
    Value *row = index(a.strides[0]), *bytes = i64(std::max(1, a.type.bytes()));
    Value *pitch = ir_.CreateMul(row, bytes);
    Value *usable = ir_.CreateAnd(ir_.CreateICmpEQ(row, index(b.strides[0])), ir_.CreateICmpSGT(row, i64(0)));
    pitch = ir_.CreateSelect(usable, pitch, i64(1));
    Value *ahead = ir_.CreateICmpUGE(b_begin, a_begin);
    Value *distance = ir_.CreateSelect(ahead, ir_.CreateSub(b_begin, a_begin), ir_.CreateSub(a_begin, b_begin));
    Value *rest = ir_.CreateURem(distance, pitch);
    // From a's first column to b's, going up.
    Value *offset =
        ir_.CreateSelect(ir_.CreateOr(ahead, ir_.CreateICmpEQ(rest, i64(0))), rest, ir_.CreateSub(pitch, rest));
    Value *a_width = ir_.CreateMul(index(a.extents[1]), bytes), *b_width = ir_.CreateMul(index(b.extents[1]), bytes);
    Value *beyond = ir_.CreateICmpUGE(offset, a_width);
    return ir_.CreateAnd(usable, ir_.CreateAnd(beyond, ir_.CreateICmpULE(ir_.CreateAdd(offset, b_width), pitch)));
}

// No output may overlap another tensor: the alias metadata promises that to LLVM.
void Codegen::check_overlap(const Nest &nest) {
    size_t n = nest.tensors.size();
    std::vector<Value *> begin(n), end(n);
    for (size_t i = 0; i < n; i++) {
        const TensorArgument &t = nest.tensors[i];
        if (t.strides.size() != t.extents.size()) {
            throw InternalError("kernel " + kernel_ + ": tensor " + t.name + " must have one stride for each extent");
        }
        Value *last = i64(0), *empty = ir_.getFalse();
        for (size_t d = 0; d < t.extents.size(); d++) {
            Value *extent = index(t.extents[d]), *stride = index(t.strides[d]);
            last = ir_.CreateNSWAdd(last, ir_.CreateNSWMul(ir_.CreateNSWSub(extent, i64(1)), stride));
            empty = ir_.CreateOr(empty, ir_.CreateICmpSLE(extent, i64(0)));
        }
        Value *bytes = ir_.CreateNSWMul(ir_.CreateNSWAdd(last, i64(1)), i64(std::max(1, t.type.bits() / 8)));
        begin[i] = ir_.CreatePtrToInt(arrays_.find(t.name)->pointer, ir_.getInt64Ty());
        end[i] = ir_.CreateAdd(begin[i], ir_.CreateSelect(empty, i64(0), bytes));
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            if (!nest.tensors[i].output || i == j || (nest.tensors[j].output && j < i)) {
                continue;
            }
            Value *apart = ir_.CreateOr(ir_.CreateICmpULE(end[i], begin[j]), ir_.CreateICmpULE(end[j], begin[i]));
            if (may_share_rows(nest.tensors[i], nest.tensors[j])) {
                llvm::BasicBlock *before = ir_.GetInsertBlock(), *look = block("columns"), *after = block("known");
                ir_.CreateCondBr(apart, after, look);
                ir_.SetInsertPoint(look);
                Value *columns = columns_apart(nest.tensors[i], begin[i], nest.tensors[j], begin[j]);
                llvm::BasicBlock *looked = ir_.GetInsertBlock();
                ir_.CreateBr(after);
                ir_.SetInsertPoint(after);
                llvm::PHINode *either = ir_.CreatePHI(ir_.getInt1Ty(), 2);
                either->addIncoming(ir_.getTrue(), before);
                either->addIncoming(columns, looked);
                apart = either;
            }
            fail_unless(apart, bad_overlap,
                        fmt::format("{}: output {} overlaps {} in memory", kernel_, nest.tensors[i].name,
                                    nest.tensors[j].name));
        }
    }
}

void Codegen::check_arguments(const Nest &nest) {
    for (const TensorArgument &t : nest.tensors) {
        Value *p = arrays_.find(t.name)->pointer;
        fail_unless(ir_.CreateICmpNE(p, llvm::Constant::getNullValue(p->getType())), null_pointer,
                    fmt::format("{}: tensor {} is a null pointer", kernel_, t.name));
    }
    if (!options_.check_arguments) {
        return;
    }
    for (const std::string &size : nest.sizes) {
        fail_unless(ir_.CreateICmpULE(symbols_.find(size)->index, i64(INT32_MAX)), bad_size,
                    fmt::format("{}: size {} is outside [0, 2147483647]", kernel_, size));
    }
    check_totals(nest);
    for (const Assumption &a : nest.assumptions) {
        fail_unless(condition(a.condition), failed_assumption,
                    fmt::format("{}: the assumption {} does not hold", kernel_, a.text));
    }
    check_strides(nest);
    check_overlap(nest);
}

namespace {

// The products and sums of sizes in extents of tensors and loops, inner ones first.
class FindTotals : public IRVisitor {
public:
    explicit FindTotals(const Nest &nest) : sizes_(nest.sizes.begin(), nest.sizes.end()) {
        for (const TensorArgument &t : nest.tensors) {
            if (!t.packed_from.empty()) continue; // counted in 64 bits
            for (const Expr &e : t.extents) look(e);
        }
        nest.body.accept(this);
    }
    std::vector<Expr> found;

private:
    using IRVisitor::visit;
    std::set<std::string> sizes_;
    bool in_extent_ = false;

    void look(const Expr &e) {
        const bool before = in_extent_;
        in_extent_ = true;
        e.accept(this);
        in_extent_ = before;
    }
    bool of_sizes(const Expr &e) const {
        struct Uses : IRVisitor {
            using IRVisitor::visit;
            const std::set<std::string> *sizes;
            bool only = true;
            void visit(const Variable *v) override { only = only && sizes->count(v->name); }
            void visit(const Call *) override { only = false; }
            void visit(const Load *) override { only = false; }
        } uses;
        uses.sizes = &sizes_;
        e.accept(&uses);
        return uses.only;
    }
    void visit(const For *op) override {
        look(op->extent);
        op->body.accept(this);
    }
    void visit(const Mul *op) override {
        IRVisitor::visit(op);
        found_one(op);
    }
    void visit(const Add *op) override {
        IRVisitor::visit(op);
        found_one(op);
    }
    void found_one(const Expr &e) {
        if (!in_extent_ || e.type() != Int(32) || is_const(e) || !of_sizes(e)) return;
        for (const Expr &known : found) {
            if (equal(known, e)) return;
        }
        found.push_back(e);
    }
};

} // namespace

// Loops count in 32 bits: an extent computed from several sizes (M * N after fusing two loops) or
// rounded up to blocks must fit.
void Codegen::check_totals(const Nest &nest) {
    for (const Expr &e : FindTotals(nest).found) {
        Value *v = index(e);
        Value *fits = ir_.CreateAnd(ir_.CreateICmpSGE(v, i64(INT32_MIN)), ir_.CreateICmpSLE(v, i64(INT32_MAX)));
        const auto *sum = e.as<Add>();
        const auto *size = sum ? sum->a.as<Variable>() : nullptr;
        const auto added = size ? as_const_int(sum->b) : std::nullopt;
        const std::string text =
            added ? fmt::format(
                        "{}: size {} is larger than {}, the most for which {} fits the 32 bits that loops count in",
                        kernel_, size->name, INT32_MAX - *added, to_string(e))
                  : fmt::format("{}: {} is larger than 2147483647, the most that loops count in 32 bits", kernel_,
                                to_string(e));
        fail_unless(fits, bad_size, text);
    }
    for (const TensorArgument &t : nest.tensors) {
        if (!t.packed_from.empty()) continue;
        for (const Expr &e : t.extents) {
            if (is_const(e) || e.as<Variable>()) continue;
            Value *v = index(e);
            Value *fits = ir_.CreateAnd(ir_.CreateICmpSGE(v, i64(0)), ir_.CreateICmpSLE(v, i64(INT32_MAX)));
            fail_unless(fits, bad_size,
                        fmt::format("{}: the extent {} of tensor {} is outside [0, 2147483647]", kernel_, to_string(e),
                                    t.name));
        }
    }
}

// The elements of an output must be distinct: each stride must exceed the reach of the smaller
// ones. With symbolic strides this is tested for up to four dimensions, in every order.
void Codegen::check_strides(const Nest &nest) {
    for (const TensorArgument &t : nest.tensors) {
        if (!t.output) continue;
        std::vector<std::pair<Expr, Expr>> dims; // stride, extent
        bool numbers = true, nothing = false;
        for (size_t d = 0; d < t.strides.size(); d++) {
            const Expr stride = Halide::Internal::simplify(t.strides[d]),
                       extent = Halide::Internal::simplify(t.extents[d]);
            numbers = numbers && is_const(stride) && is_const(extent);
            nothing = nothing || is_const_zero(extent);
            if (!is_const_one(extent)) dims.emplace_back(Halide::cast(Int(64), stride), Halide::cast(Int(64), extent));
        }
        if (nothing) continue;
        if (numbers) {
            std::stable_sort(dims.begin(), dims.end(), [](const auto &a, const auto &b) {
                return *Halide::Internal::as_const_int(Halide::Internal::simplify(a.first)) >
                       *Halide::Internal::as_const_int(Halide::Internal::simplify(b.first));
            });
        }
        const auto apart = [&](const std::vector<std::pair<Expr, Expr>> &dims) {
            Expr ok = dims.empty() ? const_true() : dims.back().first >= 1 || dims.back().second <= 1;
            for (size_t d = 0; d + 1 < dims.size(); d++) {
                ok = ok && (dims[d].second <= 1 || dims[d + 1].second <= 1 ||
                            dims[d].first > dims[d + 1].first * (dims[d + 1].second - 1));
            }
            return ok;
        };
        if (!numbers && dims.size() > 4) continue;
        Expr ok = apart(dims);
        std::vector<size_t> order(dims.size());
        for (size_t d = 0; d < order.size(); d++) order[d] = d;
        while (!numbers && std::next_permutation(order.begin(), order.end())) {
            std::vector<std::pair<Expr, Expr>> permuted;
            for (size_t d : order) permuted.push_back(dims[d]);
            ok = ok || apart(permuted);
        }
        for (const auto &[stride, extent] : dims) { // no elements coincide if there are none
            if (!is_const(extent)) ok = ok || extent <= 0;
        }
        ok = Halide::Internal::simplify(ok);
        if (is_const_one(ok)) continue;
        const std::string text =
            fmt::format("{}: the strides of output {} put different elements in one place", kernel_, t.name);
        if (is_const_zero(ok)) throw UserError(text);
        fail_unless(condition(ok), bad_size, text);
    }
}

} // namespace kumiko::cpu

namespace kumiko {

void SizeLimits::include(const SizeLimits &other) {
    const auto least = [](std::map<std::string, int64_t> &of, const std::map<std::string, int64_t> &more) {
        for (const auto &[name, n] : more) of[name] = of.count(name) ? std::min(of[name], n) : n;
    };
    least(most, other.most);
    least(totals, other.totals);
}

SizeLimits size_limits(const Nest &nest) {
    SizeLimits limits;
    for (const std::string &size : nest.sizes) limits.most[size] = INT32_MAX;
    for (const Expr &e : cpu::FindTotals(nest).found) {
        const std::set<std::string> sizes = variables_of(e);
        if (sizes.size() > 1) {
            limits.totals[to_string(e)] = INT32_MAX;
            continue;
        }
        const std::string &size = *sizes.begin();
        // The total grows with the size, so binary search finds the limit.
        int64_t fits = 0, too_large = INT32_MAX + int64_t(1);
        while (too_large - fits > 1) {
            const int64_t n = (fits + too_large) / 2;
            (evaluate_size(e, {{size, n}}) <= INT32_MAX ? fits : too_large) = n;
        }
        limits.most[size] = std::min(limits.most[size], fits);
    }
    return limits;
}

} // namespace kumiko
