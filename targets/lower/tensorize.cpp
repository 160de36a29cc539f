// Blocks that tensorize named become their instruction: a store of a call kumiko.inst.<name> with whole registers.
//
// The record proved that the block is the instruction's meaning; here it is proved again on the flat form, addresses included,
// because only now is it known where everything lies. A copy of the block for a partial tail runs its last loop that does not
// reduce as lanes, inside the others: each element still takes its steps in order.
#include "schedules/tensor_match.h"
#include "support/error.h"
#include "targets/lower/extern_calls.h"
#include "targets/lower/lowering.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

// A read of elements that follow each other, spread over the lanes of a register.
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

    // For each operand the address of its first element and the distance of its rows in bytes.
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

    // The loops of a block that is not whole; lanes of which only the run knows how many are masked. Undefined when something but
    // a store stands in them.
    Stmt partial(const For *outer, const TensorUse &use) const {
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
            if (use.reductions.count(loops[i]->name)) continue;
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

    // Undefined when the loops are not perfectly nested.
    Stmt block(const For *outer, const TensorUse &use) {
        TensorBlock b;
        b.bounds = &bounds_;
        std::map<std::string, Expr> first;
        Stmt body = outer;
        int64_t points = 1;
        while (const For *loop = body.as<For>()) {
            const auto n = as_const_int(loop->extent);
            if (!n || !is_const_zero(loop->min)) return partial(outer, use);
            b.loops.push_back({loop->name, *n, use.reductions.count(loop->name) != 0});
            first[loop->name] = 0;
            points *= *n;
            body = loop->body;
        }
        const Store *store = body.as<Store>();
        const double wanted = use.instruction.operations() / 2;
        if (!store || static_cast<double>(points) != wanted) return partial(outer, use);
        b.value = store->value;
        b.target = Load::make(store->value.type(), store->name, store->index, Halide::Buffer<>(), Halide::Parameter(),
                              const_true(), ModulusRemainder());
        b.offset = [](const Expr &read) { return read.as<Load>()->index; };
        for (const BlockLoop &l : b.loops) bounds_.push(l.variable, Interval(0, static_cast<int>(l.extent - 1)));
        const TensorMatch m = match_tensor(use.instruction, b);
        for (const BlockLoop &l : b.loops) bounds_.pop(l.variable);
        if (!m.difference.empty()) {
            throw UserError("tensorize of stage " + use.stage + " by " + use.instruction.name +
                            ": the block is not what the instruction means: " + m.difference);
        }
        if (use.instruction.in_memory) {
            replaced[use.stage]++;
            return on_memory(use, m, first);
        }
        std::vector<Expr> args;
        for (const TensorOperand &o : m.operands) args.push_back(register_of(o, first, bounds_));
        const Load *accumulator = m.operands.front().read.as<Load>();
        const Expr base = simplify_index(substitute(first, accumulator->index), bounds_);
        const int lanes = static_cast<int>(m.operands.front().lanes.size());
        replaced[use.stage]++;
        Expr call = Call::make(args.front().type(), "kumiko.inst." + use.instruction.name, args, Call::PureExtern);
        return Store::make(store->name, call, Ramp::make(base, make_one(base.type()), lanes), Halide::Parameter(),
                           const_true(lanes), ModulusRemainder());
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
                            ": no whole block of it is left once tails are taken off; choose splits that divide, or "
                            "mask no loop of the block");
        }
    }
}

} // namespace kumiko
