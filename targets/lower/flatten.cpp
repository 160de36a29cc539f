// Indices become offsets into storage: reads become loads, writes become stores, both counting elements.
//
// Offsets are int32 where the whole buffer has fewer than 2^31 elements or its size is symbolic (targets compute addresses
// in 64 bits, and index arithmetic does not overflow), and int64 where a constant size is larger.
#include "support/error.h"
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

    static bool huge(const Storage &s) {
        double n = 1;
        for (size_t d = 0; d < s.region.extent.size(); d++) {
            const auto k = as_const_int(s.region.extent[d]);
            const auto stride = s.strides.empty() ? std::nullopt : as_const_int(s.strides[d]);
            if (k) n = std::max(n * static_cast<double>(*k), stride ? static_cast<double>(*k) * static_cast<double>(*stride) : 0.0);
        }
        return n >= 2147483648.0;
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
            struct Dimension {
                Expr index, extent;
            };
            std::vector<Dimension> dims;
            if (s.layout.empty()) {
                for (size_t d = 0; d < args.size(); d++) dims.push_back({args[d] - s.region.min[d], s.region.extent[d]});
            } else {
                for (const LayoutTerm &t : s.layout) {
                    const size_t d = std::find(s.axes.begin(), s.axes.end(), t.axis) - s.axes.begin();
                    const Expr i = args[d] - s.region.min[d], block = static_cast<int>(t.block);
                    if (t.part == LayoutTerm::Part::Whole) dims.push_back({i, s.region.extent[d]});
                    else if (t.part == LayoutTerm::Part::Inner) dims.push_back({i % block, block});
                    else dims.push_back({i / block, simplify((s.region.extent[d] + block - 1) / block)});
                }
            }
            Expr stride = wide ? make_const(Int(64), 1) : Expr(1);
            for (size_t d = dims.size(); d-- > 0;) {
                add(index(dims[d].index) * stride);
                stride = simplify(stride * extent(dims[d].extent));
            }
        }
        return sum.defined() ? sum : Expr(0);
    }

    Expr visit(const Call *op) override {
        if (op->call_type != Call::Image) return IRMutator::visit(op);
        std::vector<Expr> args;
        for (const Expr &a : op->args) args.push_back(mutate(a));
        return Load::make(op->type, op->name, offset(op->name, args), Halide::Buffer<>(), Halide::Parameter(), const_true(), ModulusRemainder());
    }

    Stmt visit(const Provide *op) override {
        std::vector<Expr> args;
        for (const Expr &a : op->args) args.push_back(mutate(a));
        return Store::make(op->name, mutate(op->values[0]), offset(op->name, args), Halide::Parameter(), const_true(), ModulusRemainder());
    }
};

} // namespace

void flatten_storage(Lowering &l) { l.nest.body = Flatten(l).mutate(l.nest.body); }

} // namespace kumiko
