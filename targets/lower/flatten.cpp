// Converts indices to offsets into storage: reads become loads and writes become stores, both
// counting elements.
//
// Offsets are int32 if the whole buffer has fewer than 2^31 elements or its size is symbolic
// (targets compute addresses in 64 bits, and index arithmetic does not overflow), and int64 if a
// constant size is larger.
#include "dsl/float_casts.h"
#include "schedules/storage.h"
#include "targets/lower/lowering.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

class Flatten : public IRMutator {
public:
    explicit Flatten(Lowering &l) : l_(l) {}

private:
    using IRMutator::visit;
    Lowering &l_;

    // Whether an offset may not fit 32 bits, judged by the constant sizes.
    static bool huge(const Storage &s) {
        double elements = 1, span = 0;
        for (size_t d = 0; d < s.region.extent.size(); d++) {
            const auto extent = as_const_int(s.region.extent[d]);
            const auto stride = s.strides.empty() ? std::nullopt : as_const_int(s.strides[d]);
            if (extent) elements *= static_cast<double>(*extent);
            if (extent && stride) span += static_cast<double>(*extent) * std::abs(static_cast<double>(*stride));
        }
        return (s.strides.empty() ? elements : span) >= 2147483648.0;
    }

    // Sum of index × stride over the storage dimensions.
    Expr offset(const std::string &name, const std::vector<Expr> &args) {
        const Storage &s = l_.storage.at(name);
        const bool wide = huge(s);
        const auto index = [&](const Expr &e) { return wide ? cast(Int(64), e) : e; };
        const auto extent = [&](const Expr &e) { return wide ? cast(Int(64), e) : e; };
        Expr sum;
        const auto add = [&](const Expr &e) { sum = sum.defined() ? sum + e : e; };
        if (s.external) {
            for (size_t d = 0; d < args.size(); d++) add(index(args[d]) * extent(s.strides[d]));
        } else {
            std::vector<Expr> indices;
            for (size_t d = 0; d < args.size(); d++) {
                const Expr e = join_remainders(args[d]) - s.region.min[d];
                const int step = s.region.step_of(d);
                // Exact: only multiples of the step are stored.
                indices.push_back(step == 1 ? e : simplified(simplified(e) / step));
                if (s.ring == d) indices.back() = indices.back() % s.region.extent[d];
            }
            const Expr at = storage_offset(s.layout, s.axes, s.region.extent, indices, wide ? Int(64) : Int(32));
            if (!s.copy.defined()) return join_remainders(at);
            Expr size = extent(1);
            for (const Expr &e : storage_extents(s.layout, s.axes, s.region.extent)) size = size * extent(e);
            return index(s.copy) * simplify(size) + at;
        }
        return sum.defined() ? join_remainders(sum) : Expr(0);
    }

    // The buffer behind a name, which may be a view.
    std::string buffer(const std::string &name) const {
        const Storage &s = l_.storage.at(name);
        return s.buffer.empty() ? name : s.buffer;
    }

    Expr visit(const Call *op) override {
        if (op->name == "kumiko.prefetch") { // the index of an element becomes its offset
            const Expr read = mutate(op->args[1]);
            const Load *load = read.as<Load>();
            return Call::make(Int(32), op->name, {StringImm::make(load->name), load->index, op->args[2], op->args[3]},
                              Call::Intrinsic);
        }
        if (op->call_type != Call::Image) return IRMutator::visit(op);
        std::vector<Expr> args;
        for (const Expr &a : op->args) args.push_back(mutate(a));
        return Load::make(op->type, buffer(op->name), offset(op->name, args), Halide::Buffer<>(), Halide::Parameter(),
                          const_true(), ModulusRemainder());
    }

    Stmt visit(const Provide *op) override {
        std::vector<Expr> args;
        for (const Expr &a : op->args) args.push_back(mutate(a));
        return Store::make(buffer(op->name), mutate(op->values[0]), offset(op->name, args), Halide::Parameter(),
                           const_true(), ModulusRemainder());
    }
};

} // namespace

void flatten_storage(Lowering &l) { l.nest.body = Flatten(l).mutate(l.nest.body); }

} // namespace kumiko
