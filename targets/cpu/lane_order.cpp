// Accumulators whose lanes are stored in another order during a reduction.
//
// A register of eight lanes consists of two halves, and shuffles that cross them are more
// expensive. Selecting every second element of two registers a and b is one cheap shuffle if the
// result may have the order a0 a2 b0 b2 | a4 a6 b4 b6. If everything that is added to an
// accumulator is strided so or uniform across lanes, the accumulator keeps that order and is
// permuted once, where it is read.
#include "targets/cpu/accesses.h"
#include "targets/cpu/zero_lanes.h"

namespace kumiko::cpu {

using namespace Halide::Internal;

namespace {

constexpr int width = 8;

bool is_dense(const Expr &index) {
    const auto *r = index.as<Ramp>();
    const auto first = r ? as_const_int(r->base) : std::nullopt;
    return first && *first % width == 0 && is_const_one(r->stride) && r->lanes == width;
}

// Examines all accesses to one array: `own` if they permit any lane order, `strided` if some
// profit.
class FindOrder : public IRVisitor {
public:
    explicit FindOrder(const std::string &name) : name_(name) {}
    bool own = true, strided = false;

private:
    using IRVisitor::visit;
    const std::string &name_;

    // Whether each lane of e depends only on the lanes of the same number.
    bool by_lanes(const Expr &e) {
        const auto both = [&](const auto *op) { return by_lanes(op->a) && by_lanes(op->b); };
        if (const auto *b = e.as<Broadcast>()) return b->value.type().is_scalar();
        if (e.type().lanes() != width || e.type().bits() != 32) return false;
        if (const auto *op = e.as<Add>()) return both(op);
        if (const auto *op = e.as<Sub>()) return both(op);
        if (const auto *op = e.as<Mul>()) return both(op);
        if (const auto *op = e.as<Min>()) return both(op);
        if (const auto *op = e.as<Max>()) return both(op);
        if (const auto *op = e.as<Cast>()) return by_lanes(op->value);
        if (const auto *op = e.as<Call>(); op && op->is_intrinsic(Call::if_then_else) && op->args.size() == 3)
            return op->args[0].type().is_scalar() && by_lanes(op->args[1]) && by_lanes(op->args[2]);
        if (const auto *op = e.as<Select>()) {
            const Expr loaded = loaded_or_zero(op);
            return loaded.defined() && by_lanes(loaded);
        }
        const auto *load = e.as<Load>();
        if (!load) return false;
        if (load->name == name_) return is_dense(load->index) && is_const_one(load->predicate);
        const auto *r = load->index.as<Ramp>();
        const bool second = r && r->base.type().is_scalar() && is_const(r->stride, 2) && is_constant(load->predicate);
        strided = strided || second;
        return second;
    }
    void visit(const Store *op) override {
        IRVisitor::visit(op);
        if (op->name != name_) return;
        own = own && is_dense(op->index) && is_const_one(op->predicate) && by_lanes(op->value);
    }
    void visit(const Load *op) override {
        if (op->name == name_) own = own && is_dense(op->index);
        IRVisitor::visit(op);
    }
};

} // namespace

// The source of each lane. The permutation is its own inverse.
std::vector<int> Vectors::deinterleaved_lanes() { return {0, 1, 4, 5, 2, 3, 6, 7}; }

bool Accesses::is_deinterleaved(const Allocate *op) const {
    if (options_.target.architecture() != "x86_64" || options_.target.vector_bits != 256 || op->type.bits() != 32)
        return false;
    FindOrder find(op->name);
    op->body.accept(&find);
    return find.own && find.strided;
}

} // namespace kumiko::cpu
