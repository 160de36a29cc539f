#include "graph/build/sized_op.h"

#include "dsl/halide_passes.h"
#include "support/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace kumiko::graph {

using namespace Halide::Internal;

namespace {

// What an op consists of, with its expressions mapped in this order.
struct MappedOp {
    using Map = std::function<Expr(const Expr &)>;
    std::vector<Input> inputs, earlier;
    std::vector<Stage> stages;

    MappedOp(const Op &op, const Map &map)
        : inputs(all(op.inputs(), map)), earlier(all(op.earlier(), map)), stages(all(op.stages(), map)) {}

private:
    static Expr of(const Expr &e, const Map &map) { return e.defined() ? map(e) : e; }
    static Axis of(const Axis &a, const Map &map) { return Axis(a.name(), of(a.extent(), map)); }
    static Input of(Input in, const Map &map) {
        in.axes = all(in.axes, map), in.strides = all(in.strides, map);
        return in;
    }
    static Component of(Component c, const Map &map) {
        c.identity = of(c.identity, map), c.term = of(c.term, map), c.combined = of(c.combined, map);
        return c;
    }
    static Stage of(Stage s, const Map &map) {
        s.axes = all(s.axes, map), s.reduction_axes = all(s.reduction_axes, map), s.strides = all(s.strides, map);
        s.value = of(s.value, map), s.components = all(s.components, map);
        return s;
    }
    template<typename T>
    static std::vector<T> all(const std::vector<T> &from, const Map &map) {
        std::vector<T> made;
        for (const T &one : from) made.push_back(of(one, map));
        return made;
    }
};

// Calls a function with each number in expressions, which may replace it. Subexpressions that
// several share are visited once.
class Numbers : public IRMutator {
public:
    using OfInteger = std::function<Expr(Type type, int64_t value)>;
    using OfFloat = std::function<Expr(Type type, double value)>;
    Numbers(OfInteger integer, OfFloat floating) : integer_(std::move(integer)), floating_(std::move(floating)) {}

    using IRMutator::mutate;
    Expr mutate(const Expr &e) override {
        // Equal numbers of different places may be one node.
        if (e.as<IntImm>() || e.as<UIntImm>() || e.as<FloatImm>()) return IRMutator::mutate(e);
        const auto known = done_.find(e.get());
        if (known != done_.end()) return known->second.second;
        const Expr made = IRMutator::mutate(e);
        done_.emplace(e.get(), std::pair(e, made));
        return made;
    }

private:
    using IRMutator::visit;
    Expr visit(const IntImm *op) override { return integer_(op->type, op->value); }
    Expr visit(const UIntImm *op) override { return integer_(op->type, static_cast<int64_t>(op->value)); }
    Expr visit(const FloatImm *op) override { return floating_(op->type, op->value); }

    const OfInteger integer_;
    const OfFloat floating_;
    std::map<const IRNode *, std::pair<Expr, Expr>> done_; // the key's owner, and the result
};

struct SampleNumbers {
    std::vector<int64_t> integers;
    std::vector<double> floats;
    std::string form;              // the op without its expressions
    std::vector<Expr> expressions; // without their numbers
};

SampleNumbers numbers_of(const Op &op) {
    SampleNumbers made;
    Numbers blank(
        [&](Type type, int64_t value) {
            made.integers.push_back(value);
            return Expr(Variable::make(type, "integer"));
        },
        [&](Type type, double value) {
            made.floats.push_back(value);
            return Expr(Variable::make(type, "float"));
        });
    const MappedOp mapped(op, [&](const Expr &e) {
        made.expressions.push_back(blank.mutate(e));
        return e;
    });
    for (const auto *inputs : {&op.inputs(), &op.earlier()}) {
        for (const Input &in : *inputs)
            made.form += fmt::format("{} {} {} {}\n", in.name, type_name(in.type), in.inout, in.axes.size());
    }
    for (const Stage &s : op.stages()) {
        made.form += fmt::format("{} {} {} {} {} {}", s.name, type_name(s.type), int(s.kind), s.reduction_kind,
                                 s.step_axis, s.axes.size());
        for (const auto &distance : s.distances) made.form += fmt::format(" ({})", fmt::join(distance, " "));
        made.form += '\n';
    }
    return made;
}

// What replaces the floats of one place.
Expr float_of(Type type, const std::vector<double> &values, const PolynomialFit &fit, const std::vector<Size> &sizes) {
    const auto equal_bits = [&](double v) { return v == values[0] || (std::isnan(v) && std::isnan(values[0])); };
    if (std::all_of(values.begin(), values.end(), equal_bits)) return FloatImm::make(type, values[0]);
    const auto rounded = [&](double v) { return type == f32 ? double(float(v)) : v; };
    // An integer, or a number divided by one.
    for (const double over : {0.0, 1.0, -1.0}) {
        std::vector<int64_t> integers;
        for (const double v : values) {
            const double integer = over == 0 ? v : std::round(over / v);
            if (std::abs(integer) > INT32_MAX || rounded(over == 0 ? std::round(v) : over / integer) != v) break;
            integers.push_back(static_cast<int64_t>(integer));
        }
        const auto number = integers.size() == values.size() ? fit.through(integers) : std::nullopt;
        if (!number) continue;
        const Expr converted = cast(type, expression_of(*number, sizes, Halide::Int(64)));
        return over == 0 ? converted : FloatImm::make(type, over) / converted;
    }
    throw Unsupported(fmt::format("a float is {} for several sizes, which is no polynomial of them and no quotient by "
                                  "one; legal are integers and means",
                                  fmt::join(values, ", ")));
}

// The expression with numbers in place of sizes.
class AtSizes : public IRMutator {
public:
    explicit AtSizes(const std::map<std::string, int64_t> &values) : values_(values) {}

private:
    using IRMutator::visit;
    Expr visit(const Variable *op) override {
        const auto found = values_.find(op->name);
        return is_size(op) && found != values_.end() ? Expr(int32_t(found->second)) : Expr(op);
    }
    const std::map<std::string, int64_t> &values_;
};

} // namespace

Expr expression_of(const Polynomial &number, const std::vector<Size> &sizes, Type type) {
    Expr sum;
    for (const auto &[exponents, coefficient] : number.terms()) {
        Expr term;
        for (size_t v = 0; v < exponents.size(); v++) {
            const Expr size = cast(type, sizes.at(v));
            for (int n = 0; n < exponents[v]; n++) term = term.defined() ? term * size : size;
        }
        const Expr factor = make_const(type, coefficient);
        term = !term.defined() ? factor : coefficient == 1 ? term : term * factor;
        sum = sum.defined() ? sum + term : term;
    }
    return sum.defined() ? sum : make_const(type, 0);
}

namespace {

// The polynomial as a number of this type, in i64 if the type is wider than i32. Throws Unsupported
// if a part of its sum exceeds i32 at the largest sizes.
Expr number_of(const Polynomial &number, const PolynomialFit &fit, const std::vector<Size> &sizes, Type type) {
    if (type.bits() > 32) return cast(type, expression_of(number, sizes, Halide::Int(64)));
    Polynomial positive;
    for (const auto &[exponents, coefficient] : number.terms()) {
        Polynomial term = std::abs(coefficient);
        for (size_t v = 0; v < exponents.size(); v++) {
            for (int n = 0; n < exponents[v]; n++) term = term * Polynomial::variable(v);
        }
        positive = positive + term;
    }
    if (positive.value(fit.largest()) > INT32_MAX)
        throw Unsupported(fmt::format("a number of its formula reaches {} at the largest sizes; supported are 2^31 - 1",
                                      positive.value(fit.largest())));
    return cast(type, expression_of(number, sizes, Halide::Int(32)));
}

} // namespace

Op sized_op(const std::vector<Op> &samples, const PolynomialFit &fit, const std::vector<Size> &sizes) {
    std::vector<SampleNumbers> numbers;
    for (const Op &op : samples) numbers.push_back(numbers_of(op));
    for (const SampleNumbers &n : numbers) {
        if (n.form != numbers[0].form || n.integers.size() != numbers[0].integers.size() ||
            n.floats.size() != numbers[0].floats.size() ||
            !std::equal(n.expressions.begin(), n.expressions.end(), numbers[0].expressions.begin(),
                        numbers[0].expressions.end(), [](const Expr &a, const Expr &b) { return graph_equal(a, b); }))
            throw Unsupported("its formula has another form for other sizes; legal are operators whose formulas differ "
                              "in numbers only");
    }
    size_t next_integer = 0, next_float = 0;
    Numbers replaced(
        [&](Type type, int64_t value) {
            std::vector<int64_t> values;
            for (const SampleNumbers &n : numbers) values.push_back(n.integers[next_integer]);
            next_integer++;
            const auto number = fit.through(values);
            if (!number)
                throw Unsupported(fmt::format("an integer of its formula is {} for several sizes, which is no "
                                              "polynomial of them; a step of a size may make it one: NAME=LO..HI:STEP",
                                              fmt::join(values, ", ")));
            if (number->constant()) return make_const(type, value);
            return number_of(*number, fit, sizes, type);
        },
        [&](Type type, double) {
            std::vector<double> values;
            for (const SampleNumbers &n : numbers) values.push_back(n.floats[next_float]);
            next_float++;
            return float_of(type, values, fit, sizes);
        });
    const MappedOp mapped(samples.at(0), [&](const Expr &e) { return replaced.mutate(e); });
    return samples[0].with_sizes(mapped.inputs, mapped.earlier, mapped.stages);
}

Op at_sizes(const Op &op, const std::map<std::string, int64_t> &values) {
    AtSizes replace(values);
    const MappedOp mapped(op, [&](const Expr &e) { return simplify(replace.mutate(e)); });
    return op.with_sizes(mapped.inputs, mapped.earlier, mapped.stages);
}

} // namespace kumiko::graph
