// Loads whose lanes are at small constant offsets from each other: upsampling by an integer factor,
// where elements repeat in a row, and rows that are clamped at their ends. Instead of a gather, one
// or two dense loads read the range from the first to the last element and are shuffled.
#include "targets/cpu/accesses.h"
#include "targets/cpu/lane_runs.h"

#include <llvm/IR/Constants.h>

#include <algorithm>
#include <bit>

namespace kumiko::cpu {

using namespace Halide::Internal;

namespace {

// The offset of each lane; nullopt if some are not constant.
std::optional<std::vector<int64_t>> constant_lanes(const llvm::Value *offsets, int lanes) {
    const auto *constant = llvm::dyn_cast<llvm::Constant>(offsets);
    if (!constant) return std::nullopt;
    std::vector<int64_t> all;
    for (int i = 0; i < lanes; i++) {
        const auto *lane = llvm::dyn_cast_or_null<llvm::ConstantInt>(constant->getAggregateElement(unsigned(i)));
        if (!lane) return std::nullopt;
        all.push_back(lane->getSExtValue());
    }
    return all;
}

// The value of each lane of a constant index; nullopt if it has variables.
std::optional<std::vector<int64_t>> lanes_of_numbers(const Expr &e) {
    const int lanes = e.type().lanes();
    if (const auto number = as_const_int(e)) return std::vector<int64_t>(size_t(lanes), *number);
    if (const auto *r = e.as<Ramp>(); r && r->base.type().is_scalar()) {
        const auto base = as_const_int(r->base), stride = as_const_int(r->stride);
        if (!base || !stride) return std::nullopt;
        std::vector<int64_t> all;
        for (int i = 0; i < lanes; i++) all.push_back(*base + i * *stride);
        return all;
    }
    const auto each = [&](const Expr &left, const Expr &right, auto apply) -> std::optional<std::vector<int64_t>> {
        auto a = lanes_of_numbers(left);
        const auto b = a ? lanes_of_numbers(right) : std::nullopt;
        if (!b) return std::nullopt;
        for (size_t i = 0; i < a->size(); i++) (*a)[i] = apply((*a)[i], (*b)[i]);
        return a;
    };
    using I = int64_t;
    if (const auto *op = e.as<Add>()) return each(op->a, op->b, [](I a, I b) { return a + b; });
    if (const auto *op = e.as<Sub>()) return each(op->a, op->b, [](I a, I b) { return a - b; });
    if (const auto *op = e.as<Mul>()) return each(op->a, op->b, [](I a, I b) { return a * b; });
    if (const auto *op = e.as<Min>()) return each(op->a, op->b, [](I a, I b) { return std::min(a, b); });
    if (const auto *op = e.as<Max>()) return each(op->a, op->b, [](I a, I b) { return std::max(a, b); });
    if (const auto *op = e.as<Div>()) return each(op->a, op->b, [](I a, I b) { return div_imp(a, b); });
    if (const auto *op = e.as<Mod>()) return each(op->a, op->b, [](I a, I b) { return mod_imp(a, b); });
    return std::nullopt;
}

} // namespace

Value *Accesses::constant_offsets(const Expr &index) {
    if (index.type() != Int(32, index.type().lanes()) && index.type() != Int(64, index.type().lanes())) return nullptr;
    const auto lanes = lanes_of_numbers(index);
    if (!lanes) return nullptr;
    std::vector<llvm::Constant *> all;
    for (const int64_t lane : *lanes) all.push_back(ir_.getInt64(uint64_t(lane)));
    return llvm::ConstantVector::get(all);
}

Value *Accesses::load_near(const Array &array, const std::string &name, Type t, Value *base, Value *offsets,
                           Value *mask) {
    const auto places = constant_lanes(offsets, t.lanes());
    if (!places) return nullptr;
    std::vector<bool> on(places->size(), true);
    if (mask) {
        const auto some = lanes_on(mask);
        if (!some) return nullptr;
        on = *some;
    }
    // A range of lanes, and the first and last element that they read.
    struct Register {
        int begin, count;
        int64_t first = 0, last = -1;
    };
    std::vector<Register> registers;
    const int width = std::min(t.lanes(), std::max(2, native_lanes(t)));
    for (int begin = 0; begin < t.lanes(); begin += width) {
        Register r{begin, std::min(width, t.lanes() - begin)};
        for (int i = begin; i < begin + r.count; i++) {
            if (!on[size_t(i)]) continue;
            const int64_t at = (*places)[size_t(i)];
            const bool none = r.last < r.first;
            r.first = none ? at : std::min(r.first, at), r.last = none ? at : std::max(r.last, at);
        }
        if (r.last - r.first + 1 > 2 * width) return nullptr;
        registers.push_back(r);
    }
    const unsigned align = unsigned(t.element_of().bytes());
    std::vector<Value *> parts;
    for (const Register &r : registers) {
        const Type part = t.with_lanes(r.count);
        if (r.last < r.first) {
            parts.push_back(llvm::Constant::getNullValue(type(part)));
            continue;
        }
        // Read two overlapping pieces, or one.
        const int64_t span = r.last - r.first + 1,
                      piece = std::min<int64_t>(int64_t(std::bit_floor(uint64_t(span))), width);
        const auto dense = [&](int64_t from) {
            return load_dense(array, name, t.with_lanes(int(piece)), ir_.CreateNSWAdd(base, i64(from)), nullptr, align);
        };
        const int64_t second = r.last - piece + 1;
        std::vector<Value *> pieces = {dense(r.first)};
        if (second > r.first) pieces.push_back(dense(second));
        std::vector<int> taken;
        std::vector<llvm::Constant *> wanted;
        for (int i = r.begin; i < r.begin + r.count; i++) {
            const int64_t at = (*places)[size_t(i)] - r.first;
            taken.push_back(!on[size_t(i)] ? -1 : int(at < piece ? at : piece + (*places)[size_t(i)] - second));
            wanted.push_back(ir_.getInt1(on[size_t(i)]));
        }
        Value *v = lanes_of(concat(pieces), taken);
        if (std::find(taken.begin(), taken.end(), -1) != taken.end())
            v = ir_.CreateSelect(llvm::ConstantVector::get(wanted), v, llvm::Constant::getNullValue(type(part)));
        parts.push_back(v);
    }
    return concat(parts);
}

} // namespace kumiko::cpu
