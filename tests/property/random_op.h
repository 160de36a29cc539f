// Random formulas for the property test: one to four stages over a few small axes, of every type.
//
// Every value carries its possible range, so that drawn formulas are exact: integers neither
// overflow nor exceed what a float represents exactly. Every order of every reduction then gives
// equal bits, with and without FMA contraction. If a range would grow too wide, the value is first
// clamped or taken modulo a small number.
//
// One file, because it is one class, with a function for each kind of stage.
#pragma once

#include "dsl/halide_passes.h"
#include "dsl/inout.h"
#include "dsl/recurrence.h"
#include "dsl/scan.h"
#include "dsl/tuple.h"
#include "machine/instruction.h"
#include "schedules/primitive.h"
#include "support/random.h"

#include <cmath>
#include <deque>
#include <set>

namespace kumiko::property {

struct RandomOp {
    Op op;
    Sizes sizes;
    std::vector<Directive> recipe; // turns a block of the op into the form of a tensor instruction
};

class OpGenerator {
public:
    OpGenerator(uint64_t seed, const Machine &machine)
        : random_(seed), instructions_(InstructionSet::builtin().available_on(machine)) {
        // these multiply tiles, not vectors
        std::erase_if(instructions_, [](const Instruction *i) { return i->in_memory; });
    }

    RandomOp run() {
        symbolic_ = random_.chance(0.25);
        empty_ = random_.chance(0.03);
        if (random_.chance(0.12)) add_inout();
        const int n = static_cast<int>(random_.between(1, 4));
        const bool product = !instructions_.empty() && random_.chance(0.06);
        const bool mix = !product && !inout_ && random_.chance(0.05);
        if (mix) add_mix();
        for (int s = 0; s < n && !mix; s++) {
            if (s == 0 && product)
                add_product();
            else
                add_stage(s);
        }
        std::vector<Tensor> outputs = {tensors_.back().tensor};
        for (const Known &t : tensors_) {
            if (t.stage && t.tensor.name() != outputs[0].name() && random_.chance(0.2)) outputs.push_back(t.tensor);
        }
        for (const auto &[recurrence, tensor] : between_) {
            const bool reached =
                std::any_of(outputs.begin(), outputs.end(), [&](const Tensor &t) { return t.name() == recurrence; });
            if (reached && random_.chance(0.3)) outputs.push_back(tensor);
        }
        if (random_.chance(0.3)) std::swap(outputs.front(), outputs.back());
        if (inout_) outputs.push_back(updated()); // after all stages that read the old values
        // Only inputs that the outputs depend on may be listed.
        for (;;) {
            std::vector<Tensor> inputs;
            for (const Known &t : tensors_) {
                if (!t.stage && !unused_.count(t.tensor.name())) inputs.push_back(t.tensor);
            }
            Op op("random", inputs, outputs);
            bool all = true;
            for (const Input &in : op.inputs()) {
                bool read = false;
                for (const Stage &s : op.stages()) {
                    for (const Expr &e : s.expressions()) read = read || reads(e, in.name);
                }
                if (!read) unused_.insert(in.name), all = false;
            }
            if (!all) continue;
            Sizes used;
            for (const std::string &size : op.sizes()) used[size] = sizes_.at(size);
            return {op, used, op.find_stage("S0") ? recipe_ : std::vector<Directive>{}};
        }
    }

private:
    // A value and its range.
    struct Value {
        Expr e;
        double lo, hi;
        Type type() const { return e.type(); }
    };
    struct Ranged {
        Axis axis;
        int64_t n;
    };
    struct Known {
        Tensor tensor;
        std::vector<int64_t> extents;
        double lo, hi;
        bool stage;
    };

    Random random_;
    std::vector<const Instruction *> instructions_;
    std::vector<Directive> recipe_;
    Sizes sizes_;
    std::deque<Known> tensors_;
    // tensors of a recurrence's steps, by recurrence
    std::vector<std::pair<std::string, Tensor>> between_;
    std::set<std::string> unused_;
    bool symbolic_ = false, empty_ = false;
    int fresh_ = 0;
    std::optional<Known> inout_;

    static bool reads(const Expr &e, const std::string &name) {
        struct Reads : Halide::Internal::IRGraphVisitor {
            using IRGraphVisitor::visit;
            const std::string *name;
            bool found = false;
            void visit(const Halide::Internal::Call *op) override {
                found = found || op->name == *name;
                IRGraphVisitor::visit(op);
            }
        } reads;
        reads.name = &name;
        e.accept(&reads);
        return reads.found;
    }

    // ---- types and ranges

    Type any_type() {
        static const std::vector<Type> types = {f32, f32, f32, f32, f64, f16, bf16, i8,     i16,
                                                i32, i32, i64, u8,  u16, u32, u64,  boolean};
        return random_.pick(types);
    }
    Type number_type() {
        for (;;) {
            const Type t = any_type();
            if (!t.is_bool()) return t;
        }
    }
    static bool wraps(Type t) { return t.is_uint() || (t.is_int() && t.bits() < 32); }
    static double lowest(Type t) {
        if (t == f16) return -2048;
        if (t == bf16) return -256;
        if (t == f32) return -16777216.0;
        if (t == f64) return -9007199254740992.0;
        if (t.is_uint()) return 0;
        if (t.bits() >= 32) return t.bits() == 32 ? -1073741824.0 : -1e18;
        return -std::ldexp(1.0, t.bits() - 1);
    }
    static double highest(Type t) {
        if (t.is_float()) return -lowest(t);
        if (t.is_bool()) return 1;
        if (t.is_uint()) return t.bits() == 64 ? 1.8446744073709552e19 : std::ldexp(1.0, t.bits()) - 1;
        if (t.bits() >= 32) return -lowest(t);
        return std::ldexp(1.0, t.bits() - 1) - 1;
    }
    static bool fits(Type t, double lo, double hi) { return lo >= lowest(t) && hi <= highest(t); }
    // The range after an operation that may wrap.
    static Value ranged(const Expr &e, double lo, double hi) {
        if (!fits(e.type(), lo, hi)) lo = lowest(e.type()), hi = highest(e.type());
        if (e.type() == i64 || e.type() == u64) lo = std::max(lo, -1.7e19), hi = std::min(hi, 1.7e19);
        return {e, lo, hi};
    }
    static Expr number(Type t, double v) { return Halide::Internal::make_const(t, v); }

    Value reduced(const Value &v, int64_t limit) {
        if (v.lo >= -limit && v.hi <= limit) return v;
        const Type t = v.type();
        if ((t.is_int() || t.is_uint()) && random_.chance(0.5)) {
            const int64_t m = random_.between(2, std::min<int64_t>(limit + 1, 7));
            return {v.e % number(t, m), 0, static_cast<double>(m - 1)};
        }
        const int64_t low = t.is_uint() ? 0 : -limit;
        const Expr e = Halide::max(Halide::min(v.e, number(t, limit)), number(t, low));
        return {e, static_cast<double>(low), static_cast<double>(limit)};
    }

    Value to(Type t, Value v) {
        if (v.type() == t) return v;
        if (t.is_bool()) return {v.e != number(v.type(), 0), 0, 1};
        if (!wraps(t) && !fits(t, v.lo, v.hi)) v = reduced(v, 5);
        if (v.type().is_bool() && random_.chance(0.3)) return {Halide::select(v.e, number(t, 2), number(t, 1)), 1, 2};
        const Expr e = cast(t, Element(v.e));
        if (v.type().is_float() && wraps(t))
            return {e, std::clamp(v.lo, lowest(t), highest(t)), std::clamp(v.hi, lowest(t), highest(t))};
        return ranged(e, v.lo, v.hi);
    }

    // ---- axes

    int64_t any_extent() {
        static const std::vector<int64_t> extents = {1,  2,  3,  4,  5,  6,  7,  8,  9,  11, 12, 13,
                                                     15, 16, 17, 19, 23, 24, 29, 31, 32, 33, 37, 40};
        if (empty_ && random_.chance(0.3)) return 0;
        return random_.pick(extents);
    }
    Ranged fresh_axis(const std::string &prefix, int64_t n) {
        const std::string name = prefix + std::to_string(fresh_++);
        if (symbolic_ && random_.chance(0.6)) {
            // One size may serve several axes.
            for (const auto &[size, value] : sizes_) {
                if (random_.chance(0.3)) return {Axis(name, Size(size)), value};
            }
            const std::string size = "N" + std::to_string(sizes_.size());
            sizes_[size] = n;
            return {Axis(name, Size(size)), n};
        }
        return {Axis(name, static_cast<int>(n)), n};
    }

    // ---- reads

    // An index into an axis of n elements that is in bounds for all values of the axes in scope.
    Expr index_within(const std::vector<Ranged> &scope, int64_t n, const Expr &extent, bool may_leave) {
        std::vector<Ranged> some = scope;
        random_.shuffle(some);
        for (const Ranged &r : some) {
            if (random_.chance(0.15)) continue;
            if (may_leave && random_.chance(0.6)) {
                Expr e = r.axis + static_cast<int>(random_.between(-2, 2));
                if (some.size() > 1 && random_.chance(0.5)) {
                    const Ranged &other = some[random_.below(some.size())];
                    if (other.axis.name() != r.axis.name())
                        e = e * static_cast<int>(random_.between(1, 2)) +
                            other.axis * static_cast<int>(random_.between(1, 2));
                }
                return e;
            }
            if (r.n > n) continue;
            if (r.n == n && random_.chance(0.15)) return extent - 1 - r.axis;
            const int64_t stride =
                r.n > 1 && n > 1 && random_.chance(0.3) ? std::min<int64_t>((n - 1) / (r.n - 1), 3) : 1;
            const int64_t room = n - 1 - (r.n - 1) * stride;
            Expr e = stride == 1 ? Expr(r.axis) : r.axis * static_cast<int>(stride);
            if (room > 0 && random_.chance(0.4)) {
                for (const Ranged &o : some) { // a window
                    if (o.axis.name() != r.axis.name() && o.n - 1 <= room && random_.chance(0.5)) return e + o.axis;
                }
                e = e + static_cast<int>(random_.between(0, room));
            }
            return e;
        }
        if (!some.empty() && random_.chance(0.5)) {
            Expr e = some[0].axis;
            if (random_.chance(0.4)) e = e * 2 - 1;
            return Halide::max(Halide::min(e, extent - 1), 0);
        }
        return n ? Expr(static_cast<int>(random_.below(n))) : Expr(0);
    }

    Value read_known(const Known &known, const std::vector<Ranged> &scope) {
        bool empty = false;
        for (int64_t n : known.extents) empty = empty || n == 0;
        Tensor t = known.tensor;
        bool may_leave = false;
        double lo = known.lo, hi = known.hi;
        if (!known.extents.empty()) {
            if (empty || random_.chance(0.2)) {
                t = zero_padded(t);
                lo = std::min(lo, 0.0), hi = std::max(hi, 0.0);
                may_leave = true;
            } else if (random_.chance(0.1)) {
                t = clamped(t);
                may_leave = true;
            }
        }
        std::vector<Expr> at;
        for (size_t d = 0; d < known.extents.size(); d++) {
            if (known.extents[d] > 1 && random_.chance(0.03)) { // a data-dependent index
                const Value data = to(i32, leaf(i32, scope, 0));
                const Expr last = known.tensor.axes()[d].extent() - 1;
                at.push_back(may_leave ? clamp(data.e, -2, last + 2) : clamp(data.e, 0, last));
                continue;
            }
            at.push_back(index_within(scope, known.extents[d], known.tensor.axes()[d].extent(), may_leave));
        }
        return {Expr(t.at(at)), lo, hi};
    }

    // An input of matching shape: each of its axes is indexed by some axes in scope.
    const Known &fresh_input(Type t, const std::vector<Ranged> &scope, std::vector<Expr> &at) {
        std::vector<Ranged> some = scope;
        random_.shuffle(some);
        if (random_.chance(0.5)) { // mostly in order
            some = scope;
        }
        if (!some.empty() && random_.chance(0.4))
            some.erase(some.begin() + random_.between(0, static_cast<int64_t>(some.size())), some.end());
        if (some.size() > 4) some.erase(some.begin() + 4, some.end());
        const std::string name = "A" + std::to_string(fresh_++);
        std::vector<Axis> axes;
        std::vector<int64_t> extents;
        for (size_t d = 0; d < some.size(); d++) {
            const Ranged &r = some[d];
            const Expr n = r.axis.extent();
            Expr extent = n, index = r.axis;
            int64_t value = r.n;
            if (r.n > 0) {
                const int kind = static_cast<int>(random_.between(0, 19));
                if (kind < 3) { // strided, with a window over another axis
                    const int s = static_cast<int>(random_.between(1, 3)), c = static_cast<int>(random_.between(0, 2));
                    index = (s == 1 ? Expr(r.axis) : r.axis * s) + c;
                    extent = (n - 1) * s + c + 1;
                    value = (r.n - 1) * s + c + 1;
                    if (d + 1 < some.size() && some[d + 1].n > 0) {
                        const Ranged &w = some[++d];
                        const int k = static_cast<int>(random_.between(1, 2));
                        index = index + w.axis * k;
                        extent = extent + (w.axis.extent() - 1) * k;
                        value += (w.n - 1) * k;
                    }
                } else if (kind == 3) {
                    index = n - 1 - r.axis;
                } else if (kind == 4) {
                    index = r.axis / 2, extent = (n + 1) / 2, value = (r.n + 1) / 2;
                } else if (kind == 5) {
                    index = r.axis % 3, extent = 3, value = 3;
                }
            }
            extent = Halide::Internal::simplify(extent);
            axes.emplace_back("a" + std::to_string(axes.size()), extent);
            extents.push_back(value);
            at.push_back(index);
        }
        // Stated strides: another order of the axes, gaps between rows and between elements.
        InputOptions options;
        if (!axes.empty() && random_.chance(0.15)) {
            Expr stride = static_cast<int>(random_.between(1, 3));
            options.strides.resize(axes.size());
            std::vector<size_t> order(axes.size());
            for (size_t d = 0; d < order.size(); d++) order[d] = d;
            if (random_.chance(0.5)) random_.shuffle(order);
            for (size_t d : order) {
                options.strides[d] = Halide::Internal::simplify(stride);
                stride = stride * Halide::max(axes[d].extent(), 1) + static_cast<int>(random_.between(0, 2));
            }
        }
        Known k{input(name, t, axes, options), extents, t.is_uint() ? 0.0 : -3.0, t.is_bool() ? 1.0 : 3.0, false};
        tensors_.push_back(k);
        return tensors_.back();
    }

    Value leaf(Type want, const std::vector<Ranged> &scope, int depth) {
        const int kind = static_cast<int>(random_.between(0, 99));
        if (kind < 6) {
            const int64_t c = want.is_bool() ? random_.between(0, 1) : random_.between(want.is_uint() ? 0 : -3, 3);
            return {number(want, c), static_cast<double>(c), static_cast<double>(c)};
        }
        if (kind < 11 && !scope.empty()) {
            const Ranged &r = random_.pick(scope);
            return to(want, {Expr(r.axis), 0, static_cast<double>(std::max<int64_t>(r.n - 1, 0))});
        }
        if (kind < 55 && !tensors_.empty() && depth >= 0) {
            const Known known = tensors_[tensors_.size() - 1 - random_.below(std::min<size_t>(tensors_.size(), 3))];
            return to(want, read_known(known, scope));
        }
        if (!tensors_.empty() && tensors_.size() > 8) return to(want, read_known(tensors_.back(), scope));
        const Type t = random_.chance(0.7) ? want : any_type();
        std::vector<Expr> at;
        const Known k = fresh_input(t, scope, at);
        return to(want, {Expr(k.tensor.at(at)), k.lo, k.hi});
    }

    // ---- expressions

    Value condition(const std::vector<Ranged> &scope, int depth) {
        if (!scope.empty() && random_.chance(0.3)) {
            const Ranged &r = random_.pick(scope);
            const int k = static_cast<int>(random_.between(0, std::max<int64_t>(r.n, 1)));
            return {random_.chance(0.5) ? Expr(r.axis < k) : Expr(r.axis % 2 == k % 2), 0, 1};
        }
        const Type t = number_type();
        const Value a = expression(t, scope, depth - 1), b = expression(t, scope, depth - 1);
        switch (random_.between(0, 5)) {
        case 0:
            return {a.e < b.e, 0, 1};
        case 1:
            return {a.e <= b.e, 0, 1};
        case 2:
            return {a.e == b.e, 0, 1};
        case 3:
            return {a.e != b.e, 0, 1};
        case 4:
            return {a.e > b.e, 0, 1};
        }
        return {a.e >= b.e, 0, 1};
    }

    Value expression(Type t, const std::vector<Ranged> &scope, int depth) {
        if (depth <= 0) return leaf(t, scope, depth);
        if (t.is_bool()) {
            switch (random_.between(0, 4)) {
            case 0:
                return {!expression(t, scope, depth - 1).e, 0, 1};
            case 1:
                return {expression(t, scope, depth - 1).e && expression(t, scope, depth - 1).e, 0, 1};
            case 2:
                return {expression(t, scope, depth - 1).e || expression(t, scope, depth - 1).e, 0, 1};
            }
            return condition(scope, depth);
        }
        const int kind = static_cast<int>(random_.between(0, 19));
        if (kind == 0) return to(t, expression(number_type(), scope, depth - 1));
        Value a = expression(t, scope, depth - 1);
        if (kind == 1) {
            if (t.is_uint()) return a;
            return ranged(abs_of(a.e), std::min(0.0, a.lo), std::max(-a.lo, a.hi));
        }
        if (kind == 2 && t.is_float())
            return {cast(t, Halide::floor(a.e * number(t, 0.5))) + number(t, 0), std::floor(a.lo / 2),
                    std::floor(a.hi / 2)};
        if (kind == 3) {
            const Value c = condition(scope, depth), b = expression(t, scope, depth - 1);
            return {Halide::select(c.e, a.e, b.e), std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
        }
        Value b = expression(t, scope, depth - 1);
        const auto wide = [&](double lo, double hi) { return !wraps(t) && !fits(t, lo, hi); };
        if (kind <= 7) {
            if (wide(a.lo + b.lo, a.hi + b.hi)) a = reduced(a, 40), b = reduced(b, 40);
            return ranged(a.e + b.e, a.lo + b.lo, a.hi + b.hi);
        }
        if (kind <= 10) {
            if (wide(a.lo - b.hi, a.hi - b.lo)) a = reduced(a, 40), b = reduced(b, 40);
            return ranged(a.e - b.e, a.lo - b.hi, a.hi - b.lo);
        }
        if (kind <= 14) {
            const auto corner = [&] {
                const double c[] = {a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi};
                return std::pair(*std::min_element(c, c + 4), *std::max_element(c, c + 4));
            };
            if (wide(corner().first, corner().second)) a = reduced(a, 5), b = reduced(b, 5);
            return ranged(a.e * b.e, corner().first, corner().second);
        }
        if (kind == 15) return {Halide::max(a.e, b.e), std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
        if (kind == 16) return {Halide::min(a.e, b.e), std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
        if (!t.is_float()) {
            const double m = std::max(std::abs(a.lo), std::abs(a.hi));
            if (kind == 17) return ranged(a.e / b.e, t.is_uint() ? 0 : -m - 1, m + 1);
            if (kind == 18) {
                const double n = std::max(std::abs(b.lo), std::abs(b.hi));
                return ranged(a.e % b.e, 0, n);
            }
            return {a.e ^ b.e, lowest(t), highest(t)};
        }
        return {a.e * number(t, 0.5) * number(t, 2), a.lo, a.hi};
    }
    static Expr abs_of(const Expr &e) { return e.type().is_int() ? cast(e.type(), Halide::abs(e)) : Halide::abs(e); }

    // ---- stages

    // The maximum or minimum over an empty axis is infinite, so it is clamped at once.
    static Value extremum(const Expr &e, const Value &v, bool empty) {
        if (!empty) return {e, v.lo, v.hi};
        const int low = e.type().is_uint() ? 0 : -4;
        return {Halide::max(Halide::min(e, number(e.type(), 4)), number(e.type(), low)), static_cast<double>(low), 4};
    }

    // A condition on a reduction axis and another axis, or a constant: which terms exist.
    Where some_terms(const Ranged &k, const std::vector<Ranged> &outer) {
        const Expr other =
            (outer.empty() ? Expr(0) : Expr(random_.pick(outer).axis)) + number(i32, random_.between(-3, 6));
        switch (random_.between(0, 5)) {
        case 0:
            return where(k.axis >= other);
        case 1:
            return where(Expr(k.axis) * 2 < other);
        case 2:
            return where(k.axis <= other && other - k.axis < number(i32, random_.between(1, 5)));
        case 3:
            return where(k.axis + other == number(i32, random_.between(0, 7)));
        default:
            return where(k.axis <= other);
        }
    }

    Value reduction(Type t, const std::vector<Ranged> &outer) {
        std::vector<Ranged> scope = outer;
        AxisList axes(std::vector<Axis>{});
        double n = 1;
        const int rank = random_.chance(0.7) ? 1 : 2;
        for (int r = 0; r < rank; r++) {
            const Ranged k = fresh_axis("r", rank == 2 ? std::min<int64_t>(any_extent(), 9) : any_extent());
            scope.push_back(k);
            axes.push_back(k.axis);
            n *= static_cast<double>(k.n);
        }
        const bool empty = n == 0;
        n = std::max(n, 1.0);
        if (t.is_bool()) {
            const Value v = expression(t, scope, 2);
            const bool any = random_.chance(0.5);
            return {reduce([&](Expr a, Expr b) { return any ? a || b : a && b; },
                           any ? Halide::Internal::const_false() : Halide::Internal::const_true(), v.e, axes,
                           {true, true}),
                    0, 1};
        }
        Value v = expression(t, scope, static_cast<int>(random_.between(1, 3)));
        const auto positive_zero = [&] { // the sign of zero would depend on the order
            if (t.is_float()) v.e = v.e + number(t, 0);
        };
        const bool bounded = random_.chance(0.25);
        Where bound;
        if (bounded) bound = some_terms(scope[outer.size() + random_.below(axes.size())], outer);
        if (bounded && random_.chance(0.3)) { // which terms exist may be data-dependent too
            const Expr data = expression(t, scope, 1).e > number(t, 0);
            bound = where(random_.pick(std::vector<Expr>{data, bound.condition && data, bound.condition || data}));
        }
        switch (random_.between(0, 9)) {
        case 0:
            positive_zero();
            return extremum(bounded ? kumiko::maximum(v.e, axes, bound) : kumiko::maximum(v.e, axes), v,
                            empty || bounded);
        case 1:
            positive_zero();
            return extremum(bounded ? kumiko::minimum(v.e, axes, bound) : kumiko::minimum(v.e, axes), v,
                            empty || bounded);
        case 2:
            return to(t, {kumiko::argmax(v.e, axes), -1, n});
        case 3:
            return to(t, {kumiko::argmin(v.e, axes), -1, n});
        case 4: { // product
            if (!wraps(t)) {
                v = {Halide::select(v.e > number(t, 0), number(t, n <= 6 ? 2 : -1), number(t, 1)), -1, 2};
                return {kumiko::product(v.e, axes), -1, n <= 6 ? 64.0 : 1.0};
            }
            return ranged(bounded ? kumiko::product(v.e, axes, bound) : kumiko::product(v.e, axes), lowest(t),
                          highest(t));
        }
        case 5: { // a non-commutative combiner: order matters
            if (!t.is_uint()) break;
            return {reduce([&](Expr a, Expr b) { return a * number(t, 3) + b; }, number(t, 1), v.e, axes), 0,
                    highest(t)};
        }
        case 7:
            return tuple(t, v, scope, axes, n);
        case 6: {
            if (t.is_float()) break;
            return {reduce([](Expr a, Expr b) { return a ^ b; }, number(t, 0), v.e, axes, {true, true}), lowest(t),
                    highest(t)};
        }
        default:
            break;
        }
        if (!wraps(t) && !fits(t, v.lo * n, v.hi * n)) v = reduced(v, 3);
        if (!wraps(t) && !fits(t, v.lo * n, v.hi * n)) { // bf16 over many elements
            v = {Halide::select(v.e > number(t, 0), number(t, n > 256 ? 0 : 1), number(t, 0)), 0, n > 256 ? 0.0 : 1.0};
        }
        const bool scatters = !outer.empty() && random_.chance(0.2);
        const Ranged at = scatters ? random_.pick(outer) : scope.back();
        if (scatters) { // to an index that may be out of bounds, and does not depend on the axis
            std::vector<Ranged> others = scope;
            std::erase_if(others, [&](const Ranged &r) { return r.axis.name() == at.axis.name(); });
            const Value index = reduced(to(i32, leaf(i32, others, 0)), at.n);
            v.e = Halide::select(index.e == at.axis, v.e, number(t, 0));
        }
        const Expr all = bounded && !scatters ? kumiko::sum(v.e, axes, bound) : kumiko::sum(v.e, axes);
        return ranged(all, std::min(v.lo * n, 0.0), std::max(v.hi * n, 0.0));
    }

    // Reduces several values together: the maximum of pairs, in any order, or digits of both, in
    // the order of the formula.
    Value tuple(Type t, Value v, const std::vector<Ranged> &scope, const AxisList &axes, double n) {
        const Type u = t.is_uint() && random_.chance(0.5) ? (random_.chance(0.5) ? u64 : u8) : number_type();
        Value w = to(u, expression(number_type(), scope, 1));
        const size_t part = random_.below(2);
        if (t.is_uint() && u.is_uint() && random_.chance(0.5)) {
            const auto digits = [&](const Values &a, const Values &b) -> Values {
                return {a[0] * number(t, 3) + b[0], a[1] * number(u, 5) + b[1] + cast(u, Element(a[0]))};
            };
            const Tuple d = reduce(digits, {1, 2}, {v.e, w.e}, axes);
            return to(t, {d[part], 0, highest(part ? u : t)});
        }
        v = reduced(v, 40), w = reduced(w, 40);
        for (Value *x : {&v, &w}) {
            if (x->type().is_float()) x->e = x->e + number(x->type(), 0); // zeros of one sign
        }
        const auto low = [](Type t) { return t.is_uint() ? 0 : -50; };
        const auto greater = [](const Values &a, const Values &b) -> Values {
            return {Halide::max(a[0], b[0]),
                    Halide::select(a[0] > b[0], a[1], b[0] > a[0], b[1], Halide::max(a[1], b[1]))};
        };
        const Tuple g = reduce(greater, {low(t), low(u)}, {v.e, w.e}, axes, {true, true});
        const Value &x = part ? w : v;
        const double lo = low(x.type());
        return to(t, {g[part], n > 0 ? std::min(x.lo, lo) : lo, std::max(x.hi, lo)});
    }

    // A tensor that the op updates in place; stages may read it anywhere before.
    void add_inout() {
        const Type t = any_type();
        std::vector<Axis> axes;
        std::vector<int64_t> extents;
        for (int64_t d = random_.between(1, 3); d > 0; d--) {
            const Ranged r = fresh_axis("u", std::min<int64_t>(any_extent(), 17));
            axes.push_back(r.axis);
            extents.push_back(r.n);
        }
        inout_ = {inout("U", t, axes), extents, t.is_uint() ? 0.0 : -3.0, t.is_bool() ? 1.0 : 3.0, false};
        tensors_.push_back(*inout_);
    }
    Tensor updated() {
        std::vector<Ranged> scope;
        std::vector<Expr> own;
        for (size_t d = 0; d < inout_->extents.size(); d++) {
            scope.push_back({inout_->tensor.axes()[d], inout_->extents[d]});
            own.push_back(scope.back().axis);
        }
        const Type t = inout_->tensor.type();
        const Expr before = inout_->tensor.at(own);
        tensors_.pop_front();                        // no index reads it out of place
        for (size_t n = tensors_.size(); n-- > 0;) { // the last stage's elements, if there is one
            if (!tensors_[n].stage) continue;
            const Value v = to(t, read_known(Known(tensors_[n]), scope));
            tensors_.push_front(*inout_);
            return update(inout_->tensor, t.is_bool() ? before ^ v.e : Halide::max(before, v.e));
        }
        tensors_.push_front(*inout_);
        return update(inout_->tensor, before);
    }

    // A scan along one of the axes.
    Value scanned(Type t, const std::vector<Ranged> &scope) {
        const Ranged along = random_.pick(scope);
        Value v = expression(t, scope, static_cast<int>(random_.between(1, 2)));
        const double n = static_cast<double>(std::max<int64_t>(along.n, 1));
        if (t.is_bool())
            return {scan([](Expr a, Expr b) { return a ^ b; }, Halide::Internal::const_false(), v.e, along.axis), 0, 1};
        if (t.is_uint() && random_.chance(0.3))
            return {scan([&](Expr a, Expr b) { return a * number(t, 3) + b; }, number(t, 1), v.e, along.axis), 0,
                    highest(t)};
        if (wraps(t))
            return ranged(scan([](Expr a, Expr b) { return a + b; }, number(t, 0), v.e, along.axis), lowest(t),
                          highest(t));
        if (random_.chance(0.5)) v = reduced(v, 3);
        if (fits(t, v.lo * n, v.hi * n) && random_.chance(0.7))
            return {scan([](Expr a, Expr b) { return a + b; }, number(t, 0), v.e, along.axis), std::min(v.lo * n, 0.0),
                    std::max(v.hi * n, 0.0)};
        return {scan([](Expr a, Expr b) { return Halide::max(a, b); }, number(t, -2), v.e, along.axis),
                std::min(v.lo, -2.0), std::max(v.hi, -2.0)};
    }

    void add_stage(int s) {
        std::vector<Ranged> scope;
        const bool again = s > 0 && random_.chance(0.5); // over the shape of an earlier stage
        std::vector<const Known *> stages;
        for (const Known &t : tensors_) {
            if (t.stage) stages.push_back(&t);
        }
        if (again && !stages.empty()) {
            const Known *like = random_.pick(stages);
            for (size_t d = 0; d < like->extents.size(); d++)
                scope.push_back({like->tensor.axes()[d], like->extents[d]});
        } else {
            const int rank = static_cast<int>(random_.chance(0.05) ? 0 : random_.between(1, 3));
            int64_t volume = 1;
            for (int d = 0; d < rank; d++) {
                int64_t n = any_extent();
                if (volume * n > 4000) n = std::min<int64_t>(n, 4);
                scope.push_back(fresh_axis("i", n));
                volume *= std::max<int64_t>(scope.back().n, 1);
            }
        }
        const Type t = any_type();
        Value v = [&]() -> Value {
            const double kind = random_.real();
            if (!scope.empty() && random_.chance(0.1)) return scanned(t, scope);
            if (kind < 0.45) return reduction(t, scope);
            if (kind < 0.6) { // a reduction inside a larger expression
                Value r = reduction(t, scope), e = expression(t, scope, 1);
                if (t.is_bool()) return {r.e || e.e, 0, 1};
                if (t.is_float()) r.e = r.e + number(t, 0);
                if (!wraps(t)) r = clipped(r), e = reduced(e, 40);
                return ranged(Halide::max(r.e, e.e), std::max(r.lo, e.lo), std::max(r.hi, e.hi));
            }
            return expression(t, scope, static_cast<int>(random_.between(1, 3)));
        }();
        // A stage reads at least one earlier tensor, so that chains are long.
        if (s > 0 && !stages.empty() && random_.chance(0.7)) {
            const Value w = to(t, read_known(*random_.pick(stages), scope));
            if (t.is_bool())
                v = {v.e ^ w.e, 0, 1};
            else if (!wraps(t)) {
                const Value a = clipped(v), b = reduced(w, 40);
                v = ranged(a.e + b.e, a.lo + b.lo, a.hi + b.hi);
            } else {
                v = ranged(v.e + w.e, lowest(t), highest(t));
            }
        }
        v = clipped(v);
        std::vector<Axis> axes;
        std::vector<int64_t> extents;
        for (const Ranged &r : scope) {
            axes.push_back(r.axis);
            extents.push_back(r.n);
        }
        if (axes.size() > 1 && random_.chance(0.2)) { // stored in another order
            std::swap(axes.front(), axes.back());
            std::swap(extents.front(), extents.back());
        }
        const std::string name = "S" + std::to_string(s);
        if (!axes.empty() && !t.is_bool() && random_.chance(0.1)) return add_recurrence(name, axes, extents, v);
        tensors_.push_back({compute(name, axes, v.e), extents, v.lo, v.hi, true});
    }

    // One or two recurrences whose elements read one to three earlier ones each. Some read through
    // a stage or a reduction of earlier steps along one axis.
    void add_recurrence(const std::string &name, const std::vector<Axis> &axes, const std::vector<int64_t> &extents,
                        const Value &v) {
        const Type t = v.type();
        const int steps = random_.chance(0.4) ? static_cast<int>(random_.between(0, int64_t(axes.size()) - 1)) : -1;
        int parts = 0; // tensors between
        const auto through = [&](const Earlier &earlier) -> Expr {
            std::vector<Expr> at(axes.begin(), axes.end());
            const size_t d = static_cast<size_t>(steps),
                         e = static_cast<size_t>(random_.between(0, int64_t(axes.size()) - 1));
            at[d] = axes[d] - static_cast<int>(random_.between(1, 2));
            Expr read;
            if (e != d && random_.chance(0.8)) {
                const Axis k("k" + std::to_string(fresh_++), axes[e].extent());
                at[e] = random_.chance(0.7) ? Expr(k) : axes[e].extent() - 1 - k;
                const Element before = earlier.at(at);
                read = wraps(t) ? Expr(kumiko::sum(before * number(t, 3), k)) : Expr(maximum(before, k));
                if (!wraps(t)) read = Halide::max(read, number(t, -2)); // of no elements
            } else {
                if (e != d) at[e] = axes[e].extent() - 1 - axes[e];
                read = earlier.at(at);
            }
            if (!random_.chance(0.5)) return read;
            const std::vector<Expr> same(axes.begin(), axes.end());
            between_.emplace_back(name, compute(name + "m" + std::to_string(parts++), axes, read));
            return between_.back().second.at(same);
        };
        const auto index = [&] {
            std::vector<Expr> at(axes.begin(), axes.end());
            const size_t first = static_cast<size_t>(random_.between(0, static_cast<int64_t>(axes.size()) - 1));
            at[first] = axes[first] - static_cast<int>(random_.between(1, 3));
            for (size_t d = first + 1; d < axes.size(); d++) {
                int by = random_.chance(0.5) ? 0 : static_cast<int>(random_.between(-2, 2));
                if (static_cast<int>(d) == steps) by = -std::abs(by);
                if (by != 0) at[d] = axes[d] + by;
            }
            return at;
        };
        const auto value = [&](const std::vector<Earlier> &earlier) {
            Expr e = v.e;
            for (int64_t n = random_.between(1, 3); n > 0; n--) {
                const Earlier &of = random_.pick(earlier);
                const Expr before = steps >= 0 && random_.chance(0.6) ? through(of) : Expr(of.at(index()));
                e = wraps(t) ? e + before * number(t, 3) : Halide::max(e, before);
            }
            return e;
        };
        const Value range =
            wraps(t) ? Value{{}, lowest(t), highest(t)} : Value{{}, std::min(v.lo, 1.0), std::max(v.hi, 1.0)};
        const bool two = random_.chance(0.3);
        const std::vector<std::string> names = two ? std::vector{name, name + "b"} : std::vector{name};
        const std::vector<Tensor> made =
            recurrence(names, std::vector(names.size(), t), axes, std::vector(names.size(), number(t, 1)),
                       [&](const std::vector<Earlier> &earlier) {
                           std::vector<Expr> values;
                           for (size_t n = 0; n < names.size(); n++) values.push_back(value(earlier));
                           return values;
                       });
        for (const Tensor &m : made) tensors_.push_back({m, extents, range.lo, range.hi, true});
    }

    // S0(i, j) = sum of products over k, of a tensor instruction's types, and the directives that
    // tensorize it.
    void add_product() {
        const Instruction &instruction = *random_.pick(instructions_);
        const Stage &meaning = instruction.meaning.stages().front();
        const auto n_of = [](const Axis &a) { return *Halide::Internal::as_const_int(a.extent()); };
        const int64_t wide = n_of(meaning.axes[0]), deep = n_of(meaning.reduction_axes[0]);
        const Ranged i = fresh_axis("i", random_.between(1, 9));
        const Ranged j = fresh_axis("i", random_.chance(0.5) ? wide * random_.between(1, 3) : any_extent());
        const Ranged k = fresh_axis("r", random_.chance(0.5) ? deep * random_.between(1, 8) : any_extent());
        const std::vector<Input> &operands = instruction.meaning.inputs();
        const bool swapped = random_.chance(0.3); // which operand is repeated
        const Type row = operands[swapped].type, column = operands[!swapped].type;
        const auto operand = [&](Type t, const Ranged &a, const Ranged &b) {
            const std::vector<Axis> axes = {{"a0", a.axis.extent()}, {"a1", b.axis.extent()}};
            const double most = t.is_uint() || t.is_int() || t.is_float() ? 3 : 1;
            tensors_.push_back(
                {input("A" + std::to_string(fresh_++), t, axes), {a.n, b.n}, t.is_uint() ? 0.0 : -most, most, false});
            return tensors_.back().tensor;
        };
        const bool transposed = random_.chance(0.5);
        const Tensor A = operand(row, i, k), B = transposed ? operand(column, j, k) : operand(column, k, j);
        const Expr b = transposed ? B(j.axis, k.axis) : B(k.axis, j.axis);
        Expr left = cast(meaning.type, A(i.axis, k.axis)), right = cast(meaning.type, b);
        const bool points = !meaning.type.is_float() && random_.chance(0.4); // zero points
        if (points) {
            left = left - number(meaning.type, static_cast<double>(random_.between(0, 2)));
            if (random_.chance(0.5)) right = number(meaning.type, 1) + right;
        }
        const double most = (points ? 20 : 9) * static_cast<double>(std::max<int64_t>(k.n, 1));
        tensors_.push_back(
            {compute("S0", {i.axis, j.axis}, kumiko::sum(left * right, k.axis)), {i.n, j.n}, -most, most, true});
        if (points) recipe_.push_back({"expand", {{"stage", "S0"}}, {}});
        const std::string stage = points ? "S0.product" : "S0";
        const auto step = [&](const char *primitive, nlohmann::json arguments) {
            recipe_.push_back({primitive, std::move(arguments), {}});
        };
        const std::string in = i.axis.name(), jn = j.axis.name(), kn = k.axis.name(), bn = B.name();
        std::vector<std::string> order = {in, jn + ".o", kn + ".o", jn + ".i", kn + ".i"};
        step("split", {{"stage", stage}, {"loop", jn}, {"factor", wide}});
        step("split", {{"stage", stage}, {"loop", kn}, {"factor", deep}});
        if (random_.chance(0.5)) {
            step("split", {{"stage", stage}, {"loop", in}, {"factor", random_.between(2, 4)}});
            order = {in + ".o", jn + ".o", kn + ".o", in + ".i", jn + ".i", kn + ".i"};
        }
        step("reorder", {{"stage", stage}, {"loops", order}});
        if (order.size() == 6 && random_.chance(0.7)) step("unroll", {{"stage", stage}, {"loop", in + ".i"}});
        if (random_.chance(0.7)) step("accumulate_in", {{"stage", stage}, {"level", "registers"}, {"loop", jn + ".o"}});
        const std::string ja = transposed ? "a0" : "a1", ka = transposed ? "a1" : "a0";
        const std::string w = std::to_string(wide), d = std::to_string(deep);
        const std::vector<std::string> terms = {ja + "/" + w, ka + "/" + d, ja + "%" + w, ka + "%" + d};
        if (random_.chance(0.5)) {
            step("prepack", {{"tensor", bn}, {"terms", terms}});
        } else {
            const std::string loop = random_.chance(0.5) ? order[0] : jn + ".o";
            step("place_in", {{"tensor", bn}, {"level", "L2"}, {"consumer", stage}, {"loop", loop}});
            step("layout", {{"stage", bn + ".L2"}, {"terms", terms}});
        }
        step("tensorize", {{"stage", stage}, {"loop", jn + ".i"}, {"instruction", instruction.name}});
    }

    // S0(i, v) = sum over j of exp(s - max) times V, S1(i) = sum of exp(s - max), and the
    // directives for one pass (online). Elements of a row of s are one number or -inf, so that
    // weights are 0 or 1 and all sums are exact; a row may be all -inf.
    void add_mix() {
        const Ranged i = fresh_axis("i", random_.between(1, 12)), v = fresh_axis("i", random_.between(1, 9));
        const Ranged j = fresh_axis("r", random_.between(empty_ ? 0 : 1, 24));
        const auto operand = [&](const std::vector<Ranged> &ranges) {
            std::vector<Axis> axes;
            std::vector<int64_t> extents;
            for (const Ranged &r : ranges) {
                axes.emplace_back("a" + std::to_string(axes.size()), r.axis.extent());
                extents.push_back(r.n);
            }
            tensors_.push_back({input("A" + std::to_string(fresh_++), f32, axes), extents, -3, 3, false});
            return tensors_.back().tensor;
        };
        const Tensor seen = operand({i, j}), level = operand({i}), V = operand({j, v});
        const Expr none = Halide::Internal::FloatImm::make(f32, -std::numeric_limits<double>::infinity());
        const Expr s = select(seen(i.axis, j.axis) > 0, level(i.axis), none);
        const Tensor top = compute("top", {i.axis}, maximum(s, j.axis));
        const Tensor w = compute("w", {i.axis, j.axis}, exp(s - top(i.axis)));
        const double most = 3 * static_cast<double>(j.n);
        tensors_.push_back({compute("S1", {i.axis}, kumiko::sum(w(i.axis, j.axis), j.axis)), {i.n}, 0, most, true});
        const Expr term = w(i.axis, j.axis) * V(j.axis, v.axis);
        tensors_.push_back({compute("S0", {i.axis, v.axis}, kumiko::sum(term, j.axis)), {i.n, v.n}, -most, most, true});
        const auto step = [&](const char *primitive, nlohmann::json arguments) {
            recipe_.push_back({primitive, std::move(arguments), {}});
        };
        const std::string in = i.axis.name(), jn = j.axis.name(), vn = v.axis.name();
        step("split", {{"stage", "S0"}, {"loop", jn}, {"factor", random_.between(1, 7)}});
        const std::vector<std::string> order = {in, jn + ".o", jn + ".i", vn};
        if (random_.chance(0.7)) step("reorder", {{"stage", "S0"}, {"loops", order}});
        if (random_.chance(0.3)) step("inline_into", {{"stage", "w"}});
        const std::vector<std::string> both = {"S1"}; // if it is an output
        step("online", {{"stage", "S0"}, {"max", "top"}, {"loop", jn + ".o"}, {"sums", both}});
        step("online", {{"stage", "S0"}, {"max", "top"}, {"loop", jn + ".o"}});
    }

    // Keeps values that one stage passes to the next small.
    Value clipped(const Value &v) {
        const Type t = v.type();
        if (t.is_bool() || wraps(t)) return v;
        const int64_t limit = t == bf16 ? 60 : t == f16 ? 400 : 1000;
        return v.lo >= -limit && v.hi <= limit ? v : reduced(v, limit);
    }
};

} // namespace kumiko::property
