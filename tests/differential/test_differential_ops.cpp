// Every operator of the registry, with random parameters, under its default schedule: interpret =
// LLVM = Halide. Ops that only add, multiply, compare and move are exact on small integers, so
// their bits are equal; others stay within the error bound of interpret_with_bound.
#include "driver/default_schedule.h"
#include "driver/kernel.h"
#include "dsl/interpret.h"
#include "ops/registry.h"
#include "support/random.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace kumiko;
using Kind = ops::Parameter::Kind;

namespace {

// No division, function or fraction: exact on small integers.
bool exact(const Op &op) {
    struct Visitor : Halide::Internal::IRGraphVisitor {
        using IRGraphVisitor::visit;
        bool exact = true;
        void visit(const Halide::Internal::Call *c) override {
            exact = exact && c->call_type != Halide::Internal::Call::PureExtern;
            IRGraphVisitor::visit(c);
        }
        void visit(const Halide::Internal::Div *d) override {
            exact = exact && !d->type.is_float();
            IRGraphVisitor::visit(d);
        }
        void visit(const Halide::Internal::FloatImm *f) override {
            exact = exact && (std::isinf(f->value) || f->value == std::floor(f->value));
        }
    } v;
    for (const Stage &s : op.stages()) {
        for (const Expr &e : s.expressions()) e.accept(&v);
    }
    return v.exact;
}

Json drawn(const ops::Parameter &p, Random &r) {
    const auto size = [&] { return r.between(1, 20); };
    switch (p.kind) {
    case Kind::Size:
        return size();
    case Kind::Sizes:
        return std::vector<int64_t>{size(), size(), size()};
    case Kind::Ints: // one number, or one per axis of the drawn sizes
        if (r.chance(0.3)) return Json::array();
        return r.chance(0.5) ? Json(std::vector<int64_t>{r.between(0, 2)})
                             : Json(std::vector<int64_t>{r.between(0, 2), r.between(0, 2), r.between(0, 2)});
    case Kind::Int:
        return r.between(1, 3);
    case Kind::Flag:
        return r.chance(0.5);
    case Kind::Choice:
        return r.pick(p.choices);
    case Kind::Type:
        return r.pick(std::vector<std::string>{"f32", "f32", "f64", "f16", "bf16", "i32", "i8", "u8", "i64"});
    case Kind::Real:
        return 1e-3;
    }
    return nullptr;
}

// nullopt if the parameters do not fit together.
std::optional<Op> drawn_op(const ops::Operator &o, Random &r) {
    Json parameters = Json::object();
    for (const ops::Parameter &p : o.parameters) {
        if (p.required() || r.chance(0.4)) parameters[p.name] = drawn(p, r);
    }
    if (parameters.contains("h")) parameters["h"] = r.between(5, 12), parameters["w"] = r.between(5, 17);
    try {
        return ops::make(o.name, parameters);
    } catch (const UserError &) {
        return std::nullopt;
    }
}

} // namespace

TEST_CASE("interpret = LLVM = Halide for every operator") {
    Random random(20);
    int compared = 0, through_halide = 0;
    for (const ops::Operator &o : ops::registry()) {
        for (int variant = 0, tries = 0; variant < 4 && tries < 40; tries++) {
            const std::optional<Op> op = drawn_op(o, random);
            if (!op) continue;
            variant++;
            const std::string formula = op->to_string();
            CAPTURE(formula);
            Sizes sizes;
            for (const std::string &s : op->sizes()) sizes[s] = 24; // leading dimensions
            std::vector<Buffer<>> inputs;
            for (const Input &in : op->inputs()) {
                inputs.push_back(make_input(in, sizes));
                fill_random_integers(inputs.back(), random(), in.type.is_uint() ? 0 : -2, in.type.is_bool() ? 1 : 2);
            }
            InterpretOptions interpretation;
            interpretation.sizes = sizes;
            const bool same_bits = exact(*op);
            Results expected;
            std::optional<Bounded> bounded;
            try {
                expected = interpret(*op, inputs, interpretation);
                if (!same_bits) bounded = interpret_with_bound(*op, inputs, sizes);
            } catch (const UserError &e) { // an overflow
                MESSAGE(e.what());
                continue;
            }
            const Schedule schedule = default_schedule(*op, Machine::host());
            for (const bool halide : {false, true}) {
                CAPTURE(halide);
                CompileOptions options;
                options.through_halide = halide;
                std::optional<Kernel> kernel;
                try {
                    kernel = compile(schedule, Target::host(), options);
                } catch (const Unsupported &e) {
                    CHECK_MESSAGE(halide, e.what());
                    continue;
                }
                std::vector<Buffer<>> all = inputs;
                for (const Buffer<> &b : expected) {
                    all.emplace_back(b.type(), b.extents());
                    fill_unwritten(all.back());
                }
                (*kernel)(all);
                for (size_t out = 0; out < expected.size(); out++) {
                    const Buffer<> &actual = all[inputs.size() + out];
                    if (same_bits)
                        CHECK(difference(actual, expected[out]) == "");
                    else
                        CHECK_NOTHROW(check_within(actual, bounded->values[out], bounded->bounds[out]));
                }
                compared++;
                through_halide += halide;
            }
        }
    }
    MESSAGE(compared << " kernels compared, " << through_halide << " of them through Halide");
    CHECK(compared > 100);
}
