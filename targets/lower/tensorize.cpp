// Replaces the blocks that tensorize named by their instruction: a store of a call
// kumiko.inst.<name> with whole registers.
//
// The primitive proved that the block matches the instruction. It is proved again here on the flat
// form, including addresses, because only now all storage is known. A partial tail is computed
// whole if the memory that its lanes beyond the end read and write exists and is not otherwise
// used: accumulators and copies that are stored in whole vectors. Otherwise a copy of the block
// runs its last non-reduction loop as vector lanes inside the other loops; each element still takes
// its steps in order. If the block was one of tiles in memory and the machine has equivalent
// dot-product instructions, those process whole vectors of it.
#include "dsl/reads.h"
#include "schedules/storage.h"
#include "schedules/tensor_match.h"
#include "support/error.h"
#include "targets/lower/extern_calls.h"
#include "targets/lower/lowering.h"

#include <numeric>

namespace kumiko {

using namespace Halide::Internal;

namespace {

// A read of consecutive elements, spread over the lanes of a register.
Expr register_of(const TensorOperand &o, const std::map<std::string, Expr> &first, const Bounds &bounds) {
    const Load *read = o.read.as<Load>();
    const int lanes = static_cast<int>(o.lanes.size());
    if (!read) return Broadcast::make(o.read, lanes); // a number
    const Expr base = simplify_index(substitute(first, read->index), bounds);
    const auto load = [&](int n) {
        const Expr at = n == 1 ? base : Ramp::make(base, make_one(base.type()), n);
        return Load::make(read->type.with_lanes(n), read->name, at, Halide::Buffer<>(), Halide::Parameter(),
                          const_true(n), ModulusRemainder());
    };
    if (!o.repeated()) {
        bool in_order = true;
        for (int l = 0; l < lanes; l++) in_order = in_order && o.lanes[l] == l;
        return in_order ? load(lanes) : Shuffle::make({load(lanes)}, o.lanes);
    }
    if (o.elements == 1) return Broadcast::make(load(1), lanes);
    bool groups = true;
    for (int l = 0; l < lanes; l++) groups = groups && o.lanes[l] == l % o.elements;
    const int bits = o.elements * read->type.bits();
    if (groups && (bits == 16 || bits == 32 || bits == 64)) {
        const Expr word = Reinterpret::make(UInt(bits), load(o.elements));
        return Reinterpret::make(read->type.with_lanes(lanes), Broadcast::make(word, lanes / o.elements));
    }
    return Shuffle::make({load(o.elements)}, o.lanes);
}

class ReadsOf : public IRVisitor {
public:
    std::vector<const Load *> all;

private:
    using IRVisitor::visit;
    void visit(const Load *op) override {
        all.push_back(op);
        IRVisitor::visit(op);
    }
};

class ReplaceBlocks : public IRMutator {
public:
    explicit ReplaceBlocks(Lowering &l) : l_(l), bounds_(l.facts.bounds()) {}
    std::map<std::string, int> replaced; // by stage

private:
    using IRMutator::visit;
    Lowering &l_;
    Bounds bounds_;

    Stmt visit(const For *op) override {
        bounds_.push(op->name, Interval(op->min, simplify(op->min + op->extent - 1)));
        Stmt result;
        if (const auto found = l_.tensorized.find(op->name); found != l_.tensorized.end())
            result = block(op, found->second);
        if (!result.defined()) result = IRMutator::visit(op);
        bounds_.pop(op->name);
        return result;
    }

    // For each operand, the address of its first element and its row stride in bytes.
    Stmt on_memory(const TensorUse &use, const TensorMatch &m, const std::map<std::string, Expr> &first) const {
        std::vector<Expr> args;
        for (const TensorOperand &o : m.operands) {
            const Load *read = o.read.as<Load>();
            const Expr at = simplify_index(substitute(first, read->index), bounds_);
            const Expr element = Load::make(read->type, read->name, at, Halide::Buffer<>(), Halide::Parameter(),
                                            const_true(), ModulusRemainder());
            args.push_back(Call::make(Halide::Handle(), address_call_name, {element}, Call::PureExtern));
            args.push_back(simplify(cast<int64_t>(o.row) * Expr(int64_t(read->type.bytes()))));
        }
        return Evaluate::make(Call::make(Int(32), "kumiko.inst." + use.instruction.name, args, Call::Extern));
    }

    // True if `lane.extent` lanes from the first one on, which is stored, stay in the same whole
    // block of storage. The loops are in scope.
    bool holds_lanes(const std::string &name, const Expr &address, const BlockLoop &lane,
                     const std::vector<BlockLoop> &loops) const {
        const Storage &s = l_.storage.at(name);
        if (s.external && s.layout.empty()) return false;
        const Expr index = simplify_index(address, bounds_);
        const auto stride = slope_of(index, lane.variable);
        if (!stride || *stride <= 0) return false;
        const int64_t block = lane.extent * *stride;
        int64_t size = 1; // modulo a block
        for (const Expr &e : storage_extents(s.layout, s.axes, s.region.extent)) {
            const ModulusRemainder n = modulus_remainder(simplify(e));
            size = size * std::gcd(n.modulus, n.remainder) % block;
        }
        bool whole = size == 0;
        std::map<std::string, Expr> at;
        const std::function<void(size_t)> each_step = [&](size_t depth) {
            if (depth < loops.size()) {
                // Of a loop over lanes only the first iteration is tested.
                const int64_t steps = loops[depth].reduction ? loops[depth].extent : 1;
                for (int64_t n = 0; n < steps; n++) {
                    at[loops[depth].variable] = static_cast<int>(n);
                    each_step(depth + 1);
                }
                return;
            }
            const ModulusRemainder first = modulus_remainder(simplify_index(substitute(at, index), bounds_));
            whole = whole && first.modulus % block == 0 && first.remainder % block < *stride;
        };
        if (whole) each_step(0);
        return whole;
    }

    // A block that lacks only lanes, computed with all of them. Undefined if it lacks more, if a
    // lane would access memory that is not stored, or if another statement reads what it writes
    // there.
    Stmt widened(const Store *store, std::vector<BlockLoop> loops, int64_t wanted, const TensorUse &use) {
        int64_t steps = 1;
        BlockLoop *lane = nullptr;
        for (BlockLoop &l : loops) {
            if (l.reduction)
                steps *= l.extent;
            else if (lane)
                return Stmt();
            else
                lane = &l;
        }
        // No other statement reads its extra lanes.
        const bool accumulates = l_.storage.at(store->name).covers_lanes;
        if (!lane || wanted % steps || use.instruction.in_memory || !accumulates) return Stmt();
        lane->extent = wanted / steps;
        const TensorMatch m = match(store, loops, use);
        if (!m.difference.empty()) return Stmt();
        ReadsOf reads;
        store->value.accept(&reads);
        for (const BlockLoop &l : loops) bounds_.push(l.variable, Interval(0, static_cast<int>(l.extent - 1)));
        bool there = holds_lanes(store->name, store->index, *lane, loops);
        for (const Load *read : reads.all) {
            const bool scalar = !expr_uses_var(read->index, lane->variable);
            there = there && (scalar || holds_lanes(read->name, read->index, *lane, loops));
        }
        for (const BlockLoop &l : loops) bounds_.pop(l.variable);
        if (there) replaced[use.stage]++;
        return there ? instruction(store, m, loops, use) : Stmt();
    }

    // A part of a product of tiles, computed by a register instruction that takes the steps of one
    // group for all lanes at once. Undefined if the machine has none, or if the lanes or a group
    // are partial.
    Stmt by_registers(const For *outer, const TensorUse &use) {
        std::vector<const For *> around;
        const For *lanes = nullptr, *group = nullptr;
        Stmt body = outer;
        for (const For *loop = outer; loop; loop = body.as<For>()) {
            (use.reductions.count(loop->name) ? group : lanes) = loop;
            around.push_back(loop);
            body = loop->body;
        }
        const auto *store = body.as<Store>();
        if (!store || !lanes || !group || !as_const_int(lanes->extent) || !as_const_int(group->extent)) return Stmt();
        std::vector<BlockLoop> loops;
        for (const For *l : {lanes, group}) {
            loops.push_back({l->name, *as_const_int(l->extent), l == group});
            if (!is_const_zero(l->min)) return Stmt();
            std::erase(around, l);
        }
        if (!std::all_of(around.begin(), around.end(), [](const For *l) { return as_const_int(l->extent); }))
            return Stmt();
        for (const For *l : around) bounds_.push(l->name, Interval(l->min, simplify(l->min + l->extent - 1)));
        Stmt result;
        for (const Instruction *i : l_.state.instructions->available_on(*l_.state.machine)) {
            if (result.defined() || i->in_memory || i->placed || !i->ranges.empty() ||
                i->operations() != 2.0 * static_cast<double>(loops[0].extent * loops[1].extent))
                continue;
            const TensorUse dots{use.stage, *i, {group->name}};
            const TensorMatch m = match(store, loops, dots);
            if (m.difference.empty()) result = instruction(store, m, loops, dots);
        }
        for (const For *l : around) bounds_.pop(l->name);
        // Reduction steps outside of rows: this gives as many independent chains as there are rows.
        std::stable_partition(around.begin(), around.end(),
                              [&](const For *l) { return use.reductions.count(l->name); });
        for (size_t n = around.size(); n-- > 0;) {
            const For *l = around[n];
            const ForType type = use.reductions.count(l->name) ? ForType::Serial : ForType::Unrolled;
            if (result.defined())
                result = For::make(l->name, l->min, l->extent, type, l->partition_policy, l->device_api, result);
        }
        return result;
    }

    // The loops of a partial block; a number of lanes known only at run time is masked. Undefined
    // if they contain anything but a store.
    Stmt partial(const For *outer, const TensorUse &use) {
        if (use.instruction.in_memory) {
            if (const Stmt dots = by_registers(outer, use); dots.defined()) return dots;
        }
        std::vector<const For *> loops;
        Stmt body = outer;
        for (const For *loop = outer; loop; loop = body.as<For>()) {
            loops.push_back(loop);
            body = loop->body;
        }
        const auto *guarded = body.as<IfThenElse>();
        if (!body.as<Store>() && !(guarded && guarded->then_case.as<Store>() && !guarded->else_case.defined()))
            return Stmt();
        size_t lanes = loops.size();
        for (size_t i = 0; i < loops.size(); i++) {
            if (use.reductions.count(loops[i]->name) || is_const_one(loops[i]->extent)) continue;
            if (lanes < i && !as_const_int(loops[lanes]->extent)) return Stmt();
            lanes = i;
        }
        const auto again = [](const For *l, ForType type, const Stmt &inside) {
            return For::make(l->name, l->min, l->extent, type, l->partition_policy, l->device_api, inside);
        };
        if (lanes < loops.size()) {
            const For *l = loops[lanes];
            if (as_const_int(l->extent)) {
                body = again(l, ForType::Vectorized, body);
            } else {
                const Expr most = find_constant_bound(l->extent, Direction::Upper, bounds_);
                if (!most.defined() || !as_const_int(most) || !is_const_zero(l->min)) return Stmt();
                const Expr lane = Variable::make(Int(32), l->name);
                body = For::make(l->name, 0, most, ForType::Vectorized, l->partition_policy, l->device_api,
                                 IfThenElse::make(lane < l->extent, body));
            }
        }
        for (size_t i = loops.size(); i-- > 0;) {
            if (i != lanes)
                body =
                    again(loops[i], use.reductions.count(loops[i]->name) ? ForType::Serial : ForType::Unrolled, body);
        }
        return body;
    }

    TensorMatch match(const Store *store, const std::vector<BlockLoop> &loops, const TensorUse &use) {
        TensorBlock b;
        b.bounds = &bounds_;
        b.loops = loops;
        b.value = store->value;
        b.target = Load::make(store->value.type(), store->name, store->index, Halide::Buffer<>(), Halide::Parameter(),
                              const_true(), ModulusRemainder());
        b.offset = [](const Expr &read) { return read.as<Load>()->index; };
        for (const BlockLoop &l : loops) bounds_.push(l.variable, Interval(0, static_cast<int>(l.extent - 1)));
        const TensorMatch m = match_tensor(use.instruction, b);
        for (const BlockLoop &l : loops) bounds_.pop(l.variable);
        return m;
    }

    Stmt instruction(const Store *store, const TensorMatch &m, const std::vector<BlockLoop> &loops,
                     const TensorUse &use) const {
        std::map<std::string, Expr> first;
        for (const BlockLoop &l : loops) first[l.variable] = 0;
        if (use.instruction.in_memory) return on_memory(use, m, first);
        std::vector<Expr> args;
        for (const TensorOperand &o : m.operands) args.push_back(register_of(o, first, bounds_));
        const Load *accumulator = m.operands.front().read.as<Load>();
        const Expr base = simplify_index(substitute(first, accumulator->index), bounds_);
        const int lanes = static_cast<int>(m.operands.front().lanes.size());
        Expr call = Call::make(args.front().type(), "kumiko.inst." + use.instruction.name, args, Call::PureExtern);
        return Store::make(store->name, call, Ramp::make(base, make_one(base.type()), lanes), Halide::Parameter(),
                           const_true(lanes), ModulusRemainder());
    }

    // Undefined if the loops are not perfectly nested.
    Stmt block(const For *outer, const TensorUse &use) {
        std::vector<BlockLoop> loops;
        Stmt body = outer;
        int64_t points = 1;
        while (const For *loop = body.as<For>()) {
            const auto n = as_const_int(loop->extent);
            if (!n || !is_const_zero(loop->min)) return partial(outer, use);
            loops.push_back({loop->name, *n, use.reductions.count(loop->name) != 0});
            points *= *n;
            body = loop->body;
        }
        const Store *store = body.as<Store>();
        const auto wanted = static_cast<int64_t>(use.instruction.operations() / 2);
        if (!store) return partial(outer, use);
        if (points != wanted) {
            const Stmt all = points < wanted ? widened(store, loops, wanted, use) : Stmt();
            return all.defined() ? all : partial(outer, use);
        }
        const TensorMatch m = match(store, loops, use);
        if (!m.difference.empty()) {
            throw UserError("tensorize of stage " + use.stage + " by " + use.instruction.name +
                            ": the block does not compute what the instruction does: " + m.difference);
        }
        replaced[use.stage]++;
        return instruction(store, m, loops, use);
    }
};

} // namespace

void tensorize_blocks(Lowering &l) {
    if (l.tensorized.empty()) return;
    ReplaceBlocks r(l);
    l.nest.body = r.mutate(l.nest.body);
    for (const auto &[loop, use] : l.tensorized) {
        if (!r.replaced.count(use.stage)) {
            throw UserError("tensorize of stage " + use.stage + " by " + use.instruction.name +
                            ": it has no whole block beside the tails; choose splits that divide the extents, or do "
                            "not mask the block's loops");
        }
    }
}

} // namespace kumiko
