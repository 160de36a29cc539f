// Expands unrolled loops to copies of their bodies, in order. The index arithmetic of the body is
// simplified first, with the loop variable in place, so that each copy only folds constants.
//
// Copies may read the same elements: the window of a convolution slides over its image. If
// accumulators fill most registers, a compiler that keeps those elements in registers spills
// accumulators. The copies then take the loop's value from kumiko.opaque and reload.
#include "machine/machine.h"
#include "schedules/linear.h"
#include "support/error.h"
#include "targets/lower/lowering.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace kumiko {

using namespace Halide::Internal;

namespace {

// In one block: Halide's visitors recurse through them.
constexpr int64_t most_statements = 10000;
constexpr int64_t countless = int64_t(1) << 40; // more iterations than any real loop has

// Counts of stores and of all accesses; those in unrolled loops are multiplied by the number of
// iterations.
struct Accesses {
    int64_t stores = 0, all = 0;
};

Accesses accesses(const Stmt &s) {
    struct Count : IRVisitor {
        using IRVisitor::visit;
        Accesses n;
        int64_t times = 1;
        void visit(const Store *op) override {
            n.stores += times;
            n.all += times;
            IRVisitor::visit(op);
        }
        void visit(const Load *op) override {
            n.all += times;
            IRVisitor::visit(op);
        }
        void visit(const For *op) override {
            const int64_t before = times;
            const auto extent = as_const_int(op->extent);
            if (op->for_type == ForType::Unrolled && extent) {
                const int64_t copies = std::max<int64_t>(*extent, 0);
                times = copies != 0 && times > countless / copies ? countless : times * copies;
            }
            IRVisitor::visit(op);
            times = before;
        }
    } count;
    s.accept(&count);
    return count.n;
}

// The indices of a read in the copies of a loop, as strings that are equal exactly if the indices
// are.
std::vector<std::string> places(const Expr &index, const std::string &loop, const std::vector<Expr> &values) {
    if (LinearSum sum; sum.add(index, 1)) {
        const int64_t step = sum.coefficient_of(loop);
        sum.terms.erase(loop);
        std::string around;
        for (const auto &[name, factor] : sum.terms) {
            if (factor != 0) around += name + "*" + std::to_string(factor) + " ";
        }
        std::vector<std::string> all;
        for (const Expr &value : values) {
            const auto n = as_const_int(value);
            if (step != 0 && !n) break;
            all.push_back(around + "+ " + std::to_string(sum.constant + step * n.value_or(0)));
        }
        if (all.size() == values.size()) return all;
    }
    const auto at = [&](size_t i) { return simplify(split_remainders(substitute(loop, values[i], index))); };
    const auto text = [](const Expr &e) {
        std::ostringstream text;
        text << e;
        return text.str();
    };
    const Expr first = at(0);
    const Ramp *ramp = first.as<Ramp>();
    const Expr base = ramp ? ramp->base : first;
    // Most indices move by a constant step, so the first two and the last one determine all.
    const auto step_to = [&](size_t i) -> std::optional<int64_t> {
        const Expr other = at(i);
        const Ramp *r = other.as<Ramp>();
        if (!base.type().is_scalar() || !ramp != !r) return std::nullopt;
        return as_const_int(simplify((r ? r->base : other) - base));
    };
    const auto n = static_cast<int64_t>(values.size());
    const auto step = n > 1 ? step_to(1) : 0, reach = n > 2 ? step_to(values.size() - 1) : step;
    std::vector<std::string> all;
    if (!step || reach != *step * (n > 2 ? n - 1 : 1)) {
        for (size_t i = 0; i < values.size(); i++) all.push_back(text(at(i)));
        return all;
    }
    const Add *sum = base.as<Add>();
    const auto offset = sum ? as_const_int(sum->b) : as_const_int(base);
    const std::string around =
        (ramp ? text(ramp->stride) + "x" + std::to_string(ramp->lanes) + " " : "") + (!offset ? text(base)
                                                                                      : sum   ? text(sum->a)
                                                                                              : "");
    for (int64_t i = 0; i < n; i++) all.push_back(around + " + " + std::to_string(offset.value_or(0) + i * *step));
    return all;
}

// Reads other than accumulators: scalars that are broadcast, each by its indices in the copies, and
// the number of distinct vectors.
struct Elements {
    std::set<std::vector<std::string>> spread;
    std::map<std::string, std::set<Expr, IRDeepCompare>> vectors; // by array: their indices
    int64_t vectors_read() const {
        int64_t n = 0;
        for (const auto &[array, indices] : vectors) n += static_cast<int64_t>(indices.size());
        return n;
    }
};

Elements elements_read(const Stmt &s, const std::set<std::string> &accumulators, const std::string &loop,
                       const std::vector<Expr> &values) {
    struct Find : IRVisitor {
        using IRVisitor::visit;
        const std::set<std::string> *accumulators;
        const std::string *loop;
        const std::vector<Expr> *values;
        Elements found;
        void visit(const Broadcast *op) override {
            const Cast *cast = op->value.as<Cast>();
            const Load *load = (cast ? cast->value : op->value).as<Load>();
            if (!load || !load->type.is_scalar()) return IRVisitor::visit(op);
            std::vector<std::string> at = places(load->index, *loop, *values);
            for (std::string &place : at) place = load->name + place;
            found.spread.insert(std::move(at));
        }
        void visit(const Load *op) override {
            IRVisitor::visit(op);
            if (!op->type.is_vector() || accumulators->count(op->name)) return;
            found.vectors[op->name].insert(op->index);
        }
    } find;
    find.accumulators = &accumulators;
    find.loop = &loop;
    find.values = &values;
    s.accept(&find);
    return std::move(find.found);
}

int64_t times_unrolled(const For *op) {
    const auto extent = as_const_int(op->extent);
    if (!extent) throw InternalError("the unrolled loop " + op->name + " has no constant extent");
    return std::max<int64_t>(*extent, 0);
}

// The values of an unrolled loop's variable.
std::vector<Expr> values_of(const For *op) {
    const int64_t extent = times_unrolled(op);
    const auto min = as_const_int(op->min);
    std::vector<Expr> values;
    for (int64_t i = 0; i < extent; i++)
        values.push_back(min ? Expr(static_cast<int>(*min + i)) : simplify(op->min + static_cast<int>(i)));
    return values;
}

// Expands the unrolled loops that were left.
class Copy : public IRMutator {
    using IRMutator::visit;
    Stmt visit(const For *op) override {
        if (op->for_type != ForType::Unrolled) return IRMutator::visit(op);
        const Stmt body = mutate(op->body);
        std::vector<Stmt> copies;
        for (const Expr &value : values_of(op)) copies.push_back(substitute(op->name, value, body));
        return Block::make(copies);
    }
};

class Unroll : public IRMutator {
    using IRMutator::visit;

    const Machine &machine_;
    const bool keep_;                    // loops whose copies are alike
    int64_t accumulators_ = 0;           // number of live accumulator vectors
    std::set<std::string> in_registers_; // the arrays that hold them

    Stmt visit(const Allocate *op) override {
        const int64_t before = accumulators_;
        // The size of other arrays may exceed Halide's 2^31 - 1.
        if (op->memory_type == Halide::MemoryType::Register) {
            accumulators_ += op->constant_allocation_size() * op->type.bits() / std::max(1, machine_.vector_bits);
            in_registers_.insert(op->name);
        }
        const Stmt s = IRMutator::visit(op);
        accumulators_ = before;
        in_registers_.erase(op->name);
        return s;
    }

    // Whether all copies update the same accumulators.
    bool reduces(const Stmt &body, const std::string &loop) const {
        struct Find : IRVisitor {
            using IRVisitor::visit;
            const std::set<std::string> *arrays;
            const std::string *loop;
            bool moves = false, stores = false;
            void visit(const Store *op) override {
                IRVisitor::visit(op);
                if (!arrays->count(op->name)) return;
                stores = true;
                moves = moves || expr_uses_var(op->index, *loop);
            }
        } find;
        find.arrays = &in_registers_;
        find.loop = &loop;
        body.accept(&find);
        return find.stores && !find.moves;
    }

    // Whether keeping elements shared by the copies would push the accumulators, or the vectors
    // that one copy reads, out of the registers.
    bool crowded(const Stmt &body, const std::string &loop, const std::vector<Expr> &values) const {
        const int64_t registers = machine_.vector_registers;
        const Elements read = elements_read(body, in_registers_, loop, values);
        std::map<std::string, std::set<size_t>> copies; // the copies that read each element
        for (const std::vector<std::string> &places : read.spread) {
            for (size_t i = 0; i < places.size(); i++) copies[places[i]].insert(i);
        }
        const auto shared =
            std::count_if(copies.begin(), copies.end(), [](const auto &c) { return c.second.size() > 1; });
        const int64_t spread = 1; // the element being broadcast
        return shared > 0 && accumulators_ + shared + read.vectors_read() + spread > registers;
    }

    Stmt visit(const For *op) override {
        if (op->for_type != ForType::Unrolled) return IRMutator::visit(op);
        Stmt body = mutate(op->body);
        if (const int64_t n = std::max<int64_t>(accesses(body).stores, 1), copies = times_unrolled(op);
            n * copies > most_statements)
            throw UserError(
                fmt::format("loop {} unrolls {} statements {} times; at most {} are allowed. Unroll less, or place "
                            "less in registers, whose loops are all unrolled",
                            op->name, n, copies, most_statements));
        const std::vector<Expr> values = values_of(op);
        const int64_t registers = machine_.vector_registers;
        const bool many = 2 * accumulators_ > registers && accumulators_ <= registers && reduces(body, op->name);
        const bool keep = keep_ && copies_alike(op, body, machine_.vector_bits);
        const auto kept = [&] {
            return For::make(op->name, op->min, op->extent, op->for_type, op->partition_policy, op->device_api, body);
        };
        if (keep && !many) return kept();
        const Stmt whole = keep_ ? Copy().mutate(body) : body;
        const bool opaque = many && crowded(whole, op->name, values);
        if (keep && !opaque) return kept();
        copied = true;
        std::vector<Stmt> copies;
        for (size_t i = 0; i < values.size(); i++) {
            if (!opaque) {
                copies.push_back(substitute(op->name, values[i], whole));
                continue;
            }
            // One value for all of a copy.
            const std::string name = op->name + ".at" + std::to_string(i);
            copies.push_back(LetStmt::make(name, Call::make(Int(32), "kumiko.opaque", {values[i]}, Call::PureExtern),
                                           substitute(op->name, Variable::make(Int(32), name), whole)));
        }
        return Block::make(copies);
    }

public:
    Unroll(const Machine &machine, bool keep) : machine_(machine), keep_(keep) {}
    bool copied = false;
};

} // namespace

void unroll_loops(Lowering &l) {
    if (l.most_accesses > 0 && accesses(l.nest.body).all > static_cast<int64_t>(l.most_accesses))
        throw UserError("unrolled too far: more than " + std::to_string(l.most_accesses) + " loads and stores");
    simplify_indices(l);
    Unroll unroll(*l.state.machine, l.to_count);
    l.nest.body = unroll.mutate(l.nest.body);
    l.copied = unroll.copied;
}

} // namespace kumiko
