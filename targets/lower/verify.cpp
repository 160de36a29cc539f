#include "dsl/float_casts.h"
#include "support/error.h"
#include "targets/lower/lowering.h"

#include <sstream>

namespace kumiko {

using namespace Halide::Internal;

namespace {

class Verifier : public IRVisitor {
public:
    Verifier(const Lowering &l, NestForm form) : l_(l), form_(form), bounds_(l.facts.bounds()) {
        for (const std::string &size : l.nest.sizes) defined_.insert(size);
        for (const TensorArgument &t : l.nest.tensors) buffers_.insert(t.name);
    }

private:
    using IRVisitor::visit;
    const Lowering &l_;
    const NestForm form_;
    Bounds bounds_;
    std::multiset<std::string> defined_;
    std::set<std::string> buffers_;
    // Loops with a constant number of iterations, so that each is known to run.
    std::set<std::string> counted_;
    bool predicated_ = false;

    [[noreturn]] void fail(const std::string &why) const {
        throw InternalError("the nest of " + l_.nest.name + " is not sound: " + why);
    }

    void visit(const Variable *op) override {
        if (!defined_.count(op->name)) fail("variable " + op->name + " is not defined");
    }
    void visit(const For *op) override {
        op->min.accept(this);
        op->extent.accept(this);
        if (op->for_type != ForType::Serial && op->for_type != ForType::Parallel &&
            op->for_type != ForType::Vectorized && op->for_type != ForType::Unrolled) {
            fail("loop " + op->name + " has an unknown kind");
        }
        if (op->for_type == ForType::Vectorized && form_ >= NestForm::NoVectorLoops)
            fail("loop " + op->name + " over lanes was not expanded");
        if (op->for_type == ForType::Unrolled && form_ >= NestForm::NoUnrolledLoops)
            fail("loop " + op->name + " over copies was not expanded");
        if (defined_.count(op->name)) fail("two nested loops are named " + op->name);
        defined_.insert(op->name);
        bounds_.push(op->name, Interval(op->min, simplify(op->min + op->extent - 1)));
        const bool counted = as_const_int(op->min) && as_const_int(op->extent) && *as_const_int(op->extent) > 0;
        if (counted) counted_.insert(op->name);
        const bool before = predicated_;
        predicated_ = predicated_ || !counted; // the body may not run
        op->body.accept(this);
        predicated_ = before;
        if (counted) counted_.erase(op->name);
        bounds_.pop(op->name);
        defined_.erase(defined_.find(op->name));
    }
    void visit(const LetStmt *op) override {
        op->value.accept(this);
        defined_.insert(op->name);
        op->body.accept(this);
        defined_.erase(defined_.find(op->name));
    }
    void visit(const Let *op) override {
        op->value.accept(this);
        defined_.insert(op->name);
        op->body.accept(this);
        defined_.erase(defined_.find(op->name));
    }
    void visit(const Allocate *op) override {
        for (const Expr &e : op->extents) e.accept(this);
        if (!buffers_.insert(op->name).second) fail("two nested buffers are named " + op->name);
        op->body.accept(this);
        buffers_.erase(op->name);
    }
    void visit(const Load *op) override {
        check("load of", op->name, op->index, is_const_one(op->predicate));
        IRVisitor::visit(op);
    }
    void visit(const Store *op) override {
        check("store to", op->name, op->index, is_const_one(op->predicate));
        if (op->index.type().is_vector() && op->index.as<Broadcast>())
            fail("all lanes of a vector store to one element of " + op->name);
        IRVisitor::visit(op);
    }
    void visit(const IfThenElse *op) override {
        op->condition.accept(this);
        const bool before = predicated_;
        predicated_ = true;
        op->then_case.accept(this);
        if (op->else_case.defined()) op->else_case.accept(this);
        predicated_ = before;
    }
    void visit(const Provide *op) override {
        if (form_ >= NestForm::Flat) fail("the store to " + op->name + " is still by index");
        IRVisitor::visit(op);
    }
    void visit(const Call *op) override {
        if (op->call_type == Call::Image && form_ >= NestForm::Flat)
            fail("the load of " + op->name + " is still by index");
        const bool before = predicated_;
        predicated_ = predicated_ || op->is_intrinsic(Call::if_then_else);
        IRVisitor::visit(op);
        predicated_ = before;
    }
    void visit(const Select *op) override { IRVisitor::visit(op); }

    // Rejects an unconditional access whose offset, with constant bounds, leaves a buffer of
    // constant size for some iteration.
    void check(const char *what, const std::string &name, const Expr &index, bool unconditional) {
        if (!buffers_.count(name)) fail(std::string(what) + " " + name + ", which is not a buffer in scope");
        if (!unconditional || predicated_) return;
        const Storage &s = l_.storage.at(name);
        if (s.copies > 1) return;
        int64_t size = 1;
        for (size_t d = 0; d < s.region.extent.size(); d++) {
            const auto k = as_const_int(s.region.extent[d]);
            if (!k) return;
            size *= std::max<int64_t>(*k, 1);
        }
        if (s.external) {
            int64_t last = 1;
            for (size_t d = 0; d < s.strides.size(); d++) {
                const auto k = as_const_int(s.region.extent[d]), stride = as_const_int(s.strides[d]);
                if (!k || !stride) return;
                last += (*k - 1) * *stride;
            }
            size = last;
        } else if (!s.layout.empty()) {
            return; // blocks round the size up
        }
        if (size > INT32_MAX) return;
        if (!tight(index)) return; // Halide's analysis does not support loaded vectors
        FloatCasts casts(bounds_);
        const Expr hidden = casts.hide(index);
        const Interval i = find_constant_bounds(hidden, casts.scope());
        const auto lo = i.has_lower_bound() ? as_const_int(i.min) : std::nullopt;
        const auto hi = i.has_upper_bound() ? as_const_int(i.max) : std::nullopt;
        if ((lo && *lo < 0) || (hi && *hi >= size)) {
            std::ostringstream text;
            text << index;
            fail(std::string(what) + " " + name + " at " + text.str() + " may leave its " + std::to_string(size) +
                 " elements");
        }
    }

    // Whether the interval of e is exact: a sum of variables with constant factors in which each
    // variable occurs once and belongs to a loop with that many iterations.
    bool tight(const Expr &e) const {
        struct Visitor : IRVisitor {
            using IRVisitor::visit;
            const std::set<std::string> *counted;
            bool affine = true;
            std::set<std::string> seen;
            void visit(const Variable *v) override {
                affine = affine && counted->count(v->name) && seen.insert(v->name).second;
            }
            void visit(const Div *) override { affine = false; }
            void visit(const Mod *) override { affine = false; }
            void visit(const Min *) override { affine = false; }
            void visit(const Max *) override { affine = false; }
            void visit(const Select *) override { affine = false; }
            void visit(const Load *) override { affine = false; }
            void visit(const Call *) override { affine = false; }
        } v;
        v.counted = &counted_;
        e.accept(&v);
        return v.affine;
    }
};

} // namespace

void verify(const Lowering &l, NestForm form) {
    Verifier v(l, form);
    l.nest.body.accept(&v);
}

} // namespace kumiko
