// Statements and serial loops.
#include "targets/cpu/statements.h"

#include "support/error.h"

#include <llvm/IR/Constants.h>

namespace kumiko::cpu {

using namespace Halide::Internal;

void Statements::if_else(const IfThenElse *op) {
    Value *test = condition(op->condition);
    if (auto *known = llvm::dyn_cast<llvm::ConstantInt>(test)) {
        if (known->isOne()) {
            statement(op->then_case);
        } else if (op->else_case.defined()) {
            statement(op->else_case);
        }
        return;
    }
    llvm::BasicBlock *then = block("if"), *after = block("end_if");
    llvm::BasicBlock *otherwise = op->else_case.defined() ? block("else") : after;
    ir_.CreateCondBr(test, then, otherwise);
    const int around = std::exchange(branch_, ++branches_);
    ir_.SetInsertPoint(then);
    statement(op->then_case);
    ir_.CreateBr(after);
    if (op->else_case.defined()) {
        branch_ = ++branches_;
        ir_.SetInsertPoint(otherwise);
        statement(op->else_case);
        ir_.CreateBr(after);
    }
    branch_ = around;
    after->moveAfter(ir_.GetInsertBlock());
    ir_.SetInsertPoint(after);
}

void Statements::serial_loop(const For *op) {
    if (const TileGroup g = tile_loop(op); !g.products.empty()) return multiply_in_loop(op, g, load_sums(g));
    loop(op, {}, [&](const Carried &) {
        statement(op->body);
        return Carried();
    });
}

// if (extent > 0) { i = min; do body while (++i < min + extent) }
Statements::Carried Statements::loop(const For *op, Carried carried,
                                     const std::function<Carried(const Carried &)> &body) {
    Value *min = index(op->min), *extent = index(op->extent);
    bool nonnegative = is_nonnegative(op->min);
    auto *known = llvm::dyn_cast<llvm::ConstantInt>(extent);
    if (known && known->getSExtValue() <= 0) {
        return carried;
    }
    if (known && known->isOne()) {
        ScopedBinding<Symbol> bound(symbols_, op->name, bind_index(min, Int(32), nonnegative, {}));
        ScopedBinding<ModulusRemainder> aligned(alignments_, op->name, modulus_remainder(op->min, alignments_));
        return body(carried);
    }
    Value *end = ir_.CreateNSWAdd(min, extent);
    llvm::BasicBlock *inside = block("for." + op->name), *after = block("end." + op->name);
    llvm::BasicBlock *before = ir_.GetInsertBlock();
    if (known) {
        ir_.CreateBr(inside);
    } else {
        ir_.CreateCondBr(ir_.CreateICmpSGT(extent, i64(0)), inside, after);
    }
    ir_.SetInsertPoint(inside);
    llvm::PHINode *i = ir_.CreatePHI(ir_.getInt64Ty(), 2, op->name);
    i->addIncoming(min, before);
    Carried here;
    for (Value *v : carried) {
        here.push_back(ir_.CreatePHI(v->getType(), 2));
        llvm::cast<llvm::PHINode>(here.back())->addIncoming(v, before);
    }
    Carried next;
    {
        ScopedBinding<Symbol> bound(symbols_, op->name, bind_index(i, Int(32), nonnegative, {}));
        ScopedBinding<ModulusRemainder> aligned(alignments_, op->name, ModulusRemainder());
        const int around = std::exchange(branch_, 0);
        next = body(here);
        branch_ = around;
    }
    Value *step = ir_.CreateAdd(i, i64(1), "", nonnegative, true);
    llvm::BasicBlock *last = ir_.GetInsertBlock();
    i->addIncoming(step, last);
    for (size_t n = 0; n < next.size(); n++) llvm::cast<llvm::PHINode>(here[n])->addIncoming(next[n], last);
    ir_.CreateCondBr(ir_.CreateICmpSLT(step, end), inside, after);
    after->moveAfter(last);
    ir_.SetInsertPoint(after);
    if (known) return next;
    for (size_t n = 0; n < next.size(); n++) { // the initial value if there was no iteration
        auto *either = ir_.CreatePHI(next[n]->getType(), 2);
        either->addIncoming(carried[n], before);
        either->addIncoming(next[n], last);
        next[n] = either;
    }
    return next;
}

// Emits statements in order; the loads of consecutive stores may share the rows that they read, and
// products of tiles their operands.
void Statements::statements(const std::vector<Stmt> &all) {
    for (size_t i = 0; i < all.size();) {
        if (const size_t done = cleared_tiles(all, i)) {
            i += done;
            continue;
        }
        if (const TileGroup tiles = tile_group(all, i); tiles.products.size() > 1) {
            store_sums(tiles, multiply_tiles(tiles, load_sums(tiles)));
            i += tiles.products.size();
            continue;
        }
        std::vector<const Store *> run;
        for (size_t k = i; k < all.size() && all[k].as<Store>() && !all[k].as<Store>()->value.type().is_scalar(); k++)
            run.push_back(all[k].as<Store>());
        if (run.empty()) {
            const Stmt &one = all[i++];
            one.as<Store>() ? store(one.as<Store>()) : statement(one);
            continue;
        }
        transpose_loads(run);
        find_reaches(run);
        const auto by_rows = stores_by_rows(run);
        std::set<const Store *> waiting;
        for (const auto &[last, columns] : by_rows) waiting.insert(columns.begin(), columns.end());
        for (const Store *store : run) {
            if (const auto columns = by_rows.find(store); columns != by_rows.end())
                store_columns(columns->second);
            else if (!waiting.count(store))
                this->store(store);
        }
        transposed_.clear();
        reaches_.clear();
        i += run.size();
    }
}

std::vector<Stmt> Statements::statements_of(const Stmt &s) {
    std::vector<Stmt> all, waiting = {s};
    while (!waiting.empty()) {
        const Stmt next = waiting.back();
        waiting.pop_back();
        if (const auto *op = next.as<Block>())
            waiting.insert(waiting.end(), {op->rest, op->first});
        else
            all.push_back(next);
    }
    return all;
}

void Statements::statement(const Stmt &s) {
    if (!s.defined()) {
        return;
    }
    switch (s.node_type()) {
    case IRNodeType::Block:
        return statements(statements_of(s));
    case IRNodeType::LetStmt: {
        const auto *op = s.as<LetStmt>();
        Symbol symbol = bind(op->value);
        ScopedBinding<ModulusRemainder> aligned(alignments_, op->name, symbol.alignment);
        ScopedBinding<Symbol> bound(symbols_, op->name, symbol);
        statement(op->body);
        return;
    }
    case IRNodeType::IfThenElse:
        return if_else(s.as<IfThenElse>());
    case IRNodeType::For: {
        const auto *op = s.as<For>();
        if (op->for_type == ForType::Parallel) {
            return parallel_loop(op);
        }
        if (op->for_type != ForType::Serial) {
            throw InternalError("kernel " + kernel_ + ": loop " + op->name + " is neither serial nor parallel");
        }
        return serial_loop(op);
    }
    case IRNodeType::Store:
        return statements({s});
    case IRNodeType::Allocate:
        return allocate(s.as<Allocate>());
    case IRNodeType::Free:
        return;
    case IRNodeType::Evaluate:
        value(s.as<Evaluate>()->value);
        return;
    case IRNodeType::ProducerConsumer:
        return statement(s.as<ProducerConsumer>()->body);
    default:
        throw Unsupported("kernel " + kernel_ + ": a statement node that code generation does not know");
    }
}

} // namespace kumiko::cpu
