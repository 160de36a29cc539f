// Random ops of up to 40 stages through compile(op): every legal op gets a kernel, whose results
// equal the formula's bits.
// Sanitized: --test-case=*fixed*
// Cost: 60
#include "driver/kernel.h"
#include "dsl/interpret.h"
#include "dsl/math.h"
#include "support/random.h"

#include <doctest/doctest.h>

#include <map>

using namespace kumiko;

namespace {

// Unsigned integers wrap, so that sums and products are exact in any order.
class RandomOp {
public:
    explicit RandomOp(uint64_t seed) : random_(seed), name_("any_" + std::to_string(seed)) {}

    Op make() {
        const int64_t n = 1 + draw(3);
        std::vector<Tensor> inputs;
        for (int64_t k = 0; k < n; k++) {
            inputs.push_back(input("X" + std::to_string(k), type(), axes()));
            made_.push_back(inputs.back());
        }
        const int64_t stages = 1 + draw(draw(2) ? 8 : 40);
        std::vector<Tensor> computed;
        for (int64_t k = 0; k < stages; k++) {
            computed.push_back(stage("T" + std::to_string(k)));
            made_.push_back(computed.back());
        }
        // Tensors that nothing reads would not be part of the op: all of them are outputs, and some
        // others.
        std::vector<Tensor> outputs;
        for (const Tensor &t : computed) {
            if (!read_.count(t.name()) || draw(20) == 0) outputs.push_back(t);
        }
        std::vector<Tensor> used;
        for (const Tensor &t : inputs) {
            if (read_.count(t.name())) used.push_back(t);
        }
        return Op(name_, used, outputs);
    }

private:
    Random random_;
    std::string name_;
    std::vector<Tensor> made_;
    std::map<std::string, bool> read_;
    int axes_made_ = 0;

    int64_t draw(int64_t n) { return static_cast<int64_t>(random_.below(static_cast<uint64_t>(n))); }
    Type type() { return std::vector<Type>{UInt(32), UInt(32), UInt(8), UInt(16)}[draw(4)]; }

    // An extent that another tensor has, or a new one.
    int64_t extent() {
        const Tensor *t = made_.empty() || draw(3) == 0 ? nullptr : &made_[draw(made_.size())];
        if (t && t->rank() > 0) {
            if (const auto n = Halide::Internal::as_const_int(t->axes()[draw(t->rank())].extent())) return *n;
        }
        return std::vector<int64_t>{1, 2, 3, 5, 7, 8, 12, 16, 17, 24, 33, 40}[draw(12)];
    }
    std::vector<Axis> axes() {
        std::vector<Axis> result;
        for (int64_t k = draw(6) == 0 ? 0 : 1 + draw(3); k > 0; k--)
            result.emplace_back("a" + std::to_string(axes_made_++), static_cast<int>(extent()));
        return result;
    }

    // An earlier tensor at an index of these axes: its own axes if the extents allow it, otherwise
    // a clamped affine index.
    Expr read(Type type, const std::vector<Axis> &at) {
        const Tensor t =
            draw(3) ? made_[made_.size() - 1 - draw(std::min<size_t>(made_.size(), 3))] : made_[draw(made_.size())];
        read_[t.name()] = true;
        const bool exact = draw(2);
        bool inside = true;
        std::vector<Expr> index;
        for (size_t d = 0; d < t.rank(); d++) {
            const auto n = Halide::Internal::as_const_int(t.axes()[d].extent());
            const Axis *same = nullptr;
            for (size_t a = 0; a < at.size(); a++) {
                const Axis &candidate = at[(a + d) % at.size()];
                if (Halide::Internal::as_const_int(candidate.extent()) == n && (!same || draw(2))) same = &candidate;
            }
            if (same && exact) {
                index.push_back(*same);
            } else if (at.empty()) {
                index.push_back(static_cast<int>(draw(*n)));
            } else {
                const Axis &a = same && draw(2) ? *same : at[draw(at.size())];
                const int shift = static_cast<int>(draw(5)) - 2;
                index.push_back(draw(3) == 0 ? a / 2 + shift : draw(3) == 0 ? a * 2 + shift : a + shift);
                inside = false;
            }
        }
        if (inside) return cast(type, t.at(index));
        return cast(type, draw(2) ? clamped(t).at(index) : zero_padded(t).at(index));
    }

    Tensor stage(const std::string &name) {
        const Type t = type();
        const std::vector<Axis> own = axes();
        std::vector<Axis> all = own, reduced;
        const bool reduction = draw(4) == 0;
        if (reduction) {
            for (int64_t k = 1 + draw(2); k > 0; k--)
                reduced.emplace_back("r" + std::to_string(axes_made_++), static_cast<int>(1 + draw(9)));
            all.insert(all.end(), reduced.begin(), reduced.end());
        }
        Expr e = read(t, all);
        for (int64_t k = draw(4); k > 0; k--) {
            const Expr other = draw(4) ? read(t, all) : Halide::Internal::make_const(t, draw(7));
            switch (draw(6)) {
            case 0:
                e = e + other;
                break;
            case 1:
                e = e - other;
                break;
            case 2:
                e = e * other;
                break;
            case 3:
                e = min(e, other);
                break;
            case 4:
                e = select(e < other, e, other + Halide::Internal::make_const(t, 1));
                break;
            default:
                e = e / max(other, Halide::Internal::make_const(t, 1));
                break;
            }
        }
        if (!reduction) return compute(name, own, e);
        if (!own.empty() && draw(4) == 0) { // a triangle, or a band
            const Expr k = reduced[draw(reduced.size())], i = own[draw(own.size())];
            const Where some = draw(2) ? where(k <= i) : where(i - k < 3 && k - i < 5);
            return compute(name, own, draw(2) ? sum(e, reduced, some) : maximum(e, reduced, some));
        }
        return compute(name, own, draw(2) ? sum(e, reduced) : draw(2) ? maximum(e, reduced) : minimum(e, reduced));
    }
};

struct Totals {
    int64_t stages = 0;
    std::map<std::string, int> taken;
};

void check(uint64_t seed, Totals &totals) {
    CAPTURE(seed);
    std::optional<Op> op;
    try {
        op = RandomOp(seed).make();
    } catch (const UserError &e) { // an op that is not legal
        return;
    }
    const Kernel kernel = compile(*op);
    totals.stages += static_cast<int64_t>(op->stages().size());
    totals.taken[kernel.report().schedule]++;
    for (const PassedOver &p : kernel.report().passed_over) {
        CAPTURE(p.name);
        CAPTURE(p.reason);
        CHECK(!p.internal);
    }
    std::vector<Buffer<>> inputs, arguments;
    for (const Input &in : op->inputs()) {
        inputs.push_back(make_input(in, {}));
        fill_random_integers(inputs.back(), seed + inputs.size(), 0, 9);
    }
    arguments = inputs;
    for (const std::string &out : op->outputs()) {
        arguments.push_back(make_output(*op, out, {}));
        fill_unwritten(arguments.back());
    }
    kernel(arguments);
    const auto expected = interpret(*op, inputs);
    for (size_t o = 0; o < expected.size(); o++) {
        CAPTURE(op->outputs()[o]);
        CHECK_EQ(difference(arguments[inputs.size() + o], expected[o]), "");
    }
}

void check_range(uint64_t from, uint64_t count) {
    Totals totals;
    for (uint64_t seed = from; seed < from + count; seed++) check(seed, totals);
    std::string taken;
    for (const auto &[name, n] : totals.taken) taken += " " + name + " " + std::to_string(n);
    MESSAGE("seeds ", from, " to ", from + count - 1, ": ", totals.stages, " stages; schedules:", taken);
}

} // namespace

TEST_CASE("random ops with fixed seeds") { check_range(1, 20); }
TEST_CASE("random ops") { check_range(1000, 400); }
// Not run by default: --no-skip --test-case=*many*
TEST_CASE("many random ops" * doctest::skip()) { check_range(100000, 20000); }
