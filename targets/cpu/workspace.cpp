#include "targets/cpu/workspace.h"

#include "dsl/halide_passes.h"
#include "support/error.h"

#include <fmt/format.h>

#include <algorithm>

namespace kumiko {

using namespace Halide::Internal;

namespace {

class BoundWorkspaces : public IRMutator {
public:
    BoundWorkspaces(const std::string &kernel, const std::map<std::string, std::pair<int64_t, int64_t>> &ranges)
        : kernel_(kernel) {
        for (const auto &[size, range] : ranges)
            ranges_.push(size, Interval(make_const(Int(32), range.first), make_const(Int(32), range.second)));
    }

private:
    using IRMutator::visit;
    const std::string &kernel_;
    Scope<Interval> ranges_; // of loop variables and lets

    Stmt visit(const For *op) override {
        const Interval min = bounds_of_expr_in_scope(op->min, ranges_),
                       extent = bounds_of_expr_in_scope(op->extent, ranges_);
        Interval range = min;
        range.max = min.has_upper_bound() && extent.has_upper_bound() ? simplify(min.max + extent.max - 1)
                                                                      : Interval::pos_inf();
        ScopedBinding<Interval> bound(ranges_, op->name, range);
        return IRMutator::visit(op);
    }
    Stmt visit(const LetStmt *op) override {
        // Extents follow from scalars only.
        const bool index = op->value.type().is_scalar() && op->value.type().is_int();
        ScopedBinding<Interval> bound(ranges_, op->name,
                                      index ? bounds_of_expr_in_scope(op->value, ranges_) : Interval::everything());
        return IRMutator::visit(op);
    }
    Stmt visit(const Allocate *op) override {
        if (!is_workspace(op)) return IRMutator::visit(op);
        std::vector<Expr> extents;
        for (const Expr &extent : op->extents) {
            const Expr most = find_constant_bound(extent, Direction::Upper, ranges_);
            const auto number = most.defined() ? as_const_int(most) : std::nullopt;
            if (!number)
                throw Unsupported(fmt::format("kernel {}: the workspace {} has a size without a bound, and models "
                                              "plan their memory; legal are schedules whose workspaces have sizes "
                                              "that do not depend on data",
                                              kernel_, op->name));
            extents.emplace_back(int32_t(std::max<int64_t>(*number, 0)));
        }
        return Allocate::make(op->name, op->type, op->memory_type, extents, op->condition, mutate(op->body),
                              op->new_expr, op->free_function, op->padding);
    }
};

class Need : public IRVisitor {
public:
    explicit Need(int threads) : threads_(threads) {}
    int64_t most = 0;

private:
    using IRVisitor::visit;
    const int threads_;
    int64_t used_ = 0;

    void visit(const Allocate *op) override {
        const int64_t bytes = is_workspace(op) ? workspace_bytes(op) : 0;
        used_ += bytes;
        most = std::max(most, used_);
        op->body.accept(this);
        used_ -= bytes;
    }
    void visit(const For *op) override {
        if (op->for_type != ForType::Parallel) return IRVisitor::visit(op);
        most = std::max(most, used_ + threads_ * workspace_bytes(op->body, threads_));
    }
};

} // namespace

bool is_workspace(const Allocate *array) {
    return array->memory_type != Halide::MemoryType::Register && array->memory_type != Halide::MemoryType::Stack;
}

int64_t workspace_bytes(const Allocate *workspace) {
    int64_t elements = workspace->type.lanes();
    for (const Expr &extent : workspace->extents) {
        const auto number = as_const_int(extent);
        if (!number) throw InternalError("workspace " + workspace->name + " has no constant size");
        elements *= *number;
    }
    const int64_t bytes = (elements + workspace->padding) * std::max(1, workspace->type.bits() / 8);
    return (bytes + 63) / 64 * 64;
}

int64_t workspace_bytes(const Stmt &body, int threads) {
    Need need(threads);
    body.accept(&need);
    return need.most;
}

void bound_workspaces(Nest &nest, const std::map<std::string, std::pair<int64_t, int64_t>> &ranges) {
    nest.body = BoundWorkspaces(nest.name, ranges).mutate(nest.body);
}

} // namespace kumiko
