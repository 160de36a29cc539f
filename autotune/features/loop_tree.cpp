#include "autotune/features/loop_tree.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

namespace kumiko {

namespace ir = Halide::Internal;

void BodyWork::add(const BodyWork &other, double times) {
    static constexpr double BodyWork::*const all[] = {
        &BodyWork::multiply_adds,   &BodyWork::adds,           &BodyWork::multiplies,
        &BodyWork::divisions,       &BodyWork::functions,      &BodyWork::conversions,
        &BodyWork::selections,      &BodyWork::shuffles,       &BodyWork::instructions,
        &BodyWork::flops,           &BodyWork::scalar,         &BodyWork::loads,
        &BodyWork::broadcasts,      &BodyWork::masked_loads,   &BodyWork::gathered_lanes,
        &BodyWork::stores,          &BodyWork::masked_stores,  &BodyWork::scattered_lanes,
        &BodyWork::streamed_stores, &BodyWork::register_reads, &BodyWork::register_writes,
        &BodyWork::branches,        &BodyWork::prefetches};
    for (const auto member : all) this->*member += times * other.*member;
}

double BodyWork::arithmetic() const {
    return multiply_adds + adds + multiplies + 5 * divisions + 12 * functions + instructions;
}

namespace {

const std::string instruction_call = "kumiko.inst.";

class TreeReader : public ir::IRVisitor {
public:
    TreeReader(const Nest &nest, const Machine &machine, const Sizes &sizes)
        : scope_(sizes), vector_bits_(std::max(64, machine.vector_bits)),
          instructions_(nest.instructions ? *nest.instructions : InstructionSet::builtin()) {
        tree_.loops.emplace_back();
        tree_.loops[0].name = nest.name;
        values_.push_back(0);
        for (const TensorArgument &t : nest.tensors) {
            double size = 1;
            for (const Expr &extent : t.extents) size *= scope_.value(extent, values_, 1);
            tree_.arrays[t.name] = {t.type.bytes(), size, false, false};
            if (t.streamed) streamed_.push_back(t.name);
        }
        nest.body.accept(this);
    }

    LoopTree take() { return std::move(tree_); }

private:
    using ir::IRVisitor::visit;
    LoopTree tree_;
    AffineScope scope_;
    std::vector<double> values_; // value of each loop variable: the middle of its range
    const int vector_bits_;
    const InstructionSet &instructions_;
    std::vector<std::string> streamed_;
    int current_ = 0;
    double weight_ = 1;
    double registers_now_ = 0;
    // Updates of accumulators in the current body.
    std::map<std::pair<std::string, double>, double> updates_;
    // Loads in the current body: array, lanes and constant, with their affine terms.
    std::map<std::tuple<std::string, int, double>, std::set<std::vector<std::pair<int, double>>>> loaded_;

    LoopNode &node() { return tree_.loops[static_cast<size_t>(current_)]; }

    double slots(Type t) const { return std::max(1.0, static_cast<double>(t.lanes()) * t.bits() / vector_bits_); }
    void count(double BodyWork::*what, Type t, double flops = 0) {
        node().work.*what += weight_ * slots(t);
        node().work.flops += weight_ * flops * t.lanes();
        if (t.lanes() == 1) node().work.scalar += weight_;
    }

    void visit(const ir::For *op) override {
        if (op->for_type == ir::ForType::Unrolled) return copies(op);
        const int parent = current_;
        const double before = weight_, extent = std::max(0.0, scope_.value(op->extent, values_, 1));
        const double first = scope_.value(op->min, values_, 0);
        LoopNode loop;
        loop.name = op->name;
        loop.parent = parent;
        loop.extent = extent;
        loop.runs = node().trips * weight_;
        loop.trips = loop.runs * extent;
        loop.parallel = op->for_type == ir::ForType::Parallel;
        current_ = static_cast<int>(tree_.loops.size());
        tree_.loops[static_cast<size_t>(parent)].children.push_back(current_);
        tree_.loops.push_back(std::move(loop));
        values_.push_back(first + std::floor(std::max(0.0, extent - 1) / 2));
        weight_ = 1;
        auto outer = std::exchange(updates_, {});
        auto outer_loads = std::exchange(loaded_, {});
        scope_.push(op->name, {0, {{current_, 1}}, true});
        op->body.accept(this);
        scope_.pop(op->name);
        settle();
        updates_ = std::move(outer);
        loaded_ = std::move(outer_loads);
        current_ = parent;
        weight_ = before;
    }

    // Counts an unrolled loop as its copies.
    void copies(const ir::For *op) {
        const Affine first = scope_.of(op->min);
        const int64_t extent = *ir::as_const_int(op->extent);
        for (int64_t i = 0; i < extent; i++) {
            Affine value = first;
            value.constant += static_cast<double>(i);
            scope_.push(op->name, value);
            op->body.accept(this);
            scope_.pop(op->name);
        }
    }

    // Converts the body's accumulator updates to its dependence chain.
    void settle() {
        for (const auto &[where, times] : updates_) {
            node().chain = std::max(node().chain, times);
            const ArrayInfo &array = tree_.arrays[where.first];
            node().accumulators += std::max(1.0, array.bytes * 8.0 / vector_bits_);
        }
        updates_.clear();
    }

    void visit(const ir::Allocate *op) override {
        double size = 1;
        for (const Expr &extent : op->extents) size *= scope_.value(extent, values_, 1);
        ArrayInfo info{op->type.bytes(), size, true, op->memory_type == Halide::MemoryType::Register};
        const double bytes = size * info.bytes;
        tree_.arrays[op->name] = info;
        const double held = info.registers ? std::max(1.0, bytes * 8 / vector_bits_) : 0;
        registers_now_ += held;
        tree_.register_slots = std::max(tree_.register_slots, registers_now_);
        if (!info.registers) tree_.workspace += bytes;
        op->body.accept(this);
        registers_now_ -= held;
    }

    void visit(const ir::LetStmt *op) override {
        op->value.accept(this);
        scope_.push(op->name, scope_.of(op->value));
        op->body.accept(this);
        scope_.pop(op->name);
    }
    void visit(const ir::Let *op) override {
        op->value.accept(this);
        scope_.push(op->name, scope_.of(op->value));
        op->body.accept(this);
        scope_.pop(op->name);
    }

    // A condition that holds in the middle of the loops holds almost always; one that does not hold
    // there is a border case.
    void visit(const ir::IfThenElse *op) override {
        const double holds = scope_.value(op->condition, values_, 0.5);
        double share = holds;
        if (holds == 0 || holds == 1) {
            const double rare = 1 / std::max(2.0, node().extent);
            share = holds == 1 ? 1 - (op->else_case.defined() ? rare : 0) : rare;
        }
        node().work.branches += weight_;
        const double before = weight_;
        weight_ = before * share;
        op->then_case.accept(this);
        weight_ = before * (1 - share);
        if (op->else_case.defined()) op->else_case.accept(this);
        weight_ = before;
    }

    static const ir::Ramp *ramp(const Expr &index) { return index.as<ir::Ramp>(); }

    void access(const std::string &name, const Expr &index, Type t, bool store) {
        const ArrayInfo &array = tree_.arrays[name];
        Affine where = scope_.of(index);
        double span = 1, elements = t.lanes();
        if (const auto *r = ramp(index)) {
            const double stride = std::abs(scope_.value(r->stride, values_, 1));
            span = stride * (r->lanes - 1) + 1;
            if (const auto *inner = ramp(r->base))
                span += std::abs(scope_.value(inner->stride, values_, 1)) * inner->lanes;
        } else if (index.as<ir::Broadcast>() || t.lanes() == 1) {
            elements = 1;
        } else {
            where.known = false;
        }
        const auto merge = [&](Access &a) {
            a.lowest = std::min(a.lowest, where.constant);
            a.past = std::max(a.past, where.constant + span);
            if (std::find(a.constants.begin(), a.constants.end(), where.constant) == a.constants.end()) {
                if (a.constants.size() < 64) a.constants.push_back(where.constant);
                a.elements += elements;
            }
            a.times += weight_;
        };
        for (Access &a : node().accesses) {
            if (a.store == store && a.array == name && a.known == where.known && a.index.terms == where.terms) {
                merge(a);
                return;
            }
        }
        Access a{name, store, where.known, where, where.constant, where.constant + span, 0, 0, std::max(1, array.bytes),
                 {}};
        merge(a);
        node().accesses.push_back(std::move(a));
    }

    void visit(const ir::Load *op) override {
        const ArrayInfo &array = tree_.arrays[op->name];
        BodyWork &w = node().work;
        if (array.registers) {
            w.register_reads += weight_ * slots(op->type);
            return;
        }
        const Affine where = scope_.of(op->index);
        // The compiler merges equal loads in one body.
        if (where.known && !loaded_[{op->name, op->type.lanes(), where.constant}].insert(where.terms).second) return;
        const auto *r = ramp(op->index);
        const int lanes = op->type.lanes();
        const double stride = r ? std::abs(scope_.value(r->stride, values_, 1)) : 0;
        if (!ir::is_const_one(op->predicate)) w.masked_loads += weight_ * slots(op->type);
        if (lanes == 1 || op->index.as<ir::Broadcast>())
            w.loads += weight_;
        else if (r && stride <= 4)
            w.loads += weight_ * slots(op->type) * std::max(1.0, stride);
        else
            w.gathered_lanes += weight_ * lanes;
        access(op->name, op->index, op->type, false);
        if (!where.known) op->index.accept(this);
    }

    void visit(const ir::Store *op) override {
        op->value.accept(this);
        const ArrayInfo &array = tree_.arrays[op->name];
        BodyWork &w = node().work;
        const Type t = op->value.type();
        if (array.registers) {
            w.register_writes += weight_ * slots(t);
            const Affine where = scope_.of(op->index);
            if (where.coefficient(current_) == 0) updates_[{op->name, where.constant}] += weight_;
            return;
        }
        const auto *r = ramp(op->index);
        const double stride = r ? std::abs(scope_.value(r->stride, values_, 1)) : 0;
        if (!ir::is_const_one(op->predicate)) w.masked_stores += weight_ * slots(t);
        if (std::find(streamed_.begin(), streamed_.end(), op->name) != streamed_.end())
            w.streamed_stores += weight_ * slots(t);
        if (t.lanes() == 1)
            w.stores += weight_;
        else if (r && stride <= 4)
            w.stores += weight_ * slots(t) * std::max(1.0, stride);
        else
            w.scattered_lanes += weight_ * t.lanes();
        access(op->name, op->index, t, true);
    }

    void visit(const ir::Add *op) override {
        const auto product = [](const Expr &e) { return e.as<ir::Mul>(); };
        const ir::Mul *mul = product(op->a) ? product(op->a) : product(op->b);
        if (mul && op->type.is_float()) {
            count(&BodyWork::multiply_adds, op->type, 2);
            mul->a.accept(this);
            mul->b.accept(this);
            (product(op->a) ? op->b : op->a).accept(this);
            return;
        }
        arithmetic(op, &BodyWork::adds);
    }
    template<typename T>
    void arithmetic(const T *op, double BodyWork::*what) {
        count(what, op->type, 1);
        op->a.accept(this);
        op->b.accept(this);
    }
    void visit(const ir::Sub *op) override { arithmetic(op, &BodyWork::adds); }
    void visit(const ir::Min *op) override { arithmetic(op, &BodyWork::adds); }
    void visit(const ir::Max *op) override { arithmetic(op, &BodyWork::adds); }
    void visit(const ir::Mul *op) override { arithmetic(op, &BodyWork::multiplies); }
    void visit(const ir::Div *op) override { arithmetic(op, &BodyWork::divisions); }
    void visit(const ir::Mod *op) override { arithmetic(op, &BodyWork::divisions); }
    void visit(const ir::Cast *op) override {
        if (op->type.bits() != op->value.type().bits() || op->type.is_float() != op->value.type().is_float())
            count(&BodyWork::conversions, op->type.bits() > op->value.type().bits() ? op->type : op->value.type());
        op->value.accept(this);
    }
    void visit(const ir::Select *op) override {
        count(&BodyWork::selections, op->type);
        ir::IRVisitor::visit(op);
    }
    template<typename T>
    void compare(const T *op) {
        count(&BodyWork::selections, op->a.type());
        op->a.accept(this);
        op->b.accept(this);
    }
    void visit(const ir::LT *op) override { compare(op); }
    void visit(const ir::LE *op) override { compare(op); }
    void visit(const ir::GT *op) override { compare(op); }
    void visit(const ir::GE *op) override { compare(op); }
    void visit(const ir::EQ *op) override { compare(op); }
    void visit(const ir::NE *op) override { compare(op); }
    void visit(const ir::Broadcast *op) override {
        if (!op->value.as<ir::Variable>() && !ir::is_const(op->value)) {
            node().work.broadcasts += weight_ * slots(op->type);
            op->value.accept(this);
        }
    }
    void visit(const ir::Ramp *) override {}
    void visit(const ir::Shuffle *op) override {
        count(&BodyWork::shuffles, op->type);
        ir::IRVisitor::visit(op);
    }
    void visit(const ir::VectorReduce *op) override {
        const double steps = std::log2(std::max(2, op->value.type().lanes() / op->type.lanes()));
        node().work.shuffles += weight_ * steps * slots(op->value.type());
        op->value.accept(this);
    }
    void visit(const ir::Call *op) override {
        if (op->name.starts_with(instruction_call)) {
            node().work.instructions += weight_;
            if (const Instruction *found = instructions_.find(op->name.substr(instruction_call.size())))
                node().work.flops += weight_ * found->operations();
        } else if (op->name == "kumiko.prefetch") {
            node().work.prefetches += weight_;
            return;
        } else if (op->is_tag() || op->name == "kumiko.opaque") {
            // no operation
        } else if (op->name.starts_with("sqrt")) {
            count(&BodyWork::divisions, op->type, 1);
        } else if (op->call_type == ir::Call::PureExtern || op->call_type == ir::Call::Extern) {
            count(&BodyWork::functions, op->type, 8);
        } else {
            count(&BodyWork::adds, op->type, 1);
        }
        ir::IRVisitor::visit(op);
    }
};

} // namespace

LoopTree read_loops(const Nest &nest, const Machine &machine, const Sizes &sizes) {
    return TreeReader(nest, machine, sizes).take();
}

} // namespace kumiko
