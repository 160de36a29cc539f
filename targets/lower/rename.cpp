// Gives loops and temporaries unique names that depend only on the nest: the original name, then
// name.1, name.2 in textual order. So a replayed schedule gives an equal nest.
#include "targets/lower/lowering.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

class Rename : public IRMutator {
    using IRMutator::visit;
    std::map<std::string, int> seen_;
    std::map<std::string, std::vector<std::string>> now_; // stack of new names

    // Repeated builds of a stage are distinguished by a suffix 'n, which is removed.
    std::string fresh(const std::string &name) {
        std::string base = name;
        if (const size_t mark = base.find('\''); mark != std::string::npos) {
            const size_t end = base.find_first_not_of("0123456789", mark + 1);
            base.erase(mark, end == std::string::npos ? end : end - mark);
        }
        const int n = seen_[base]++;
        return n ? base + "." + std::to_string(n) : base;
    }

    Expr visit(const Variable *op) override {
        const auto it = now_.find(op->name);
        return it == now_.end() || it->second.empty() ? Expr(op) : Variable::make(op->type, it->second.back());
    }
    Stmt visit(const For *op) override {
        const Expr min = mutate(op->min), extent = mutate(op->extent);
        const std::string name = fresh(op->name);
        now_[op->name].push_back(name);
        Stmt body = mutate(op->body);
        now_[op->name].pop_back();
        return For::make(name, min, extent, op->for_type, op->partition_policy, op->device_api, body);
    }
    Stmt visit(const LetStmt *op) override {
        const Expr value = mutate(op->value);
        const std::string name = fresh(op->name);
        now_[op->name].push_back(name);
        Stmt body = mutate(op->body);
        now_[op->name].pop_back();
        return LetStmt::make(name, value, body);
    }
    Expr visit(const Let *op) override {
        const Expr value = mutate(op->value);
        const std::string name = fresh(op->name);
        now_[op->name].push_back(name);
        Expr body = mutate(op->body);
        now_[op->name].pop_back();
        return Let::make(name, value, body);
    }
};

} // namespace

void rename_loops(Lowering &l) { l.nest.body = Rename().mutate(l.nest.body); }

} // namespace kumiko
