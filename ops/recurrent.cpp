#include "ops/recurrent.h"

#include "dsl/recurrence.h"
#include "dsl/types.h"
#include "ops/elementwise.h"
#include "support/error.h"

#include <fmt/format.h>

namespace kumiko::ops {

namespace {

// Common to all layers: axes, inputs, and the part of each gate that does not depend on the state.
struct Layer {
    Layer(const char *layer, Type type, const Expr &T, const Expr &B, const Expr &I, const Expr &U, int gates,
          const RecurrentOptions &options)
        : type(type), t("t", T), b("b", B), i("i", I), g("g", gates), u("u", U), k("k", U), steps(T), options(options) {
        if (!type.is_float()) throw UserError(fmt::format("{} takes floats, not {}", layer, type_name(type)));
        of = accumulator_type(type);
        X = input("X", type, {t, b, i});
        W = input("W", type, by_gate({i}));
        R = input("R", type, by_gate({k}));
        bias = input("bias", type, by_gate({}));
        h0 = input("h0", type, {b, u});
        std::vector<Axis> all = {t, b};
        for (const Axis &a : by_gate({})) all.push_back(a);
        const Expr at = options.reverse ? Expr(T - 1 - t) : Expr(t);
        std::vector<Expr> from(all.begin() + 2, all.end()), place(from);
        place.push_back(i);
        // Computed for all steps at once.
        from_input = compute("from_input", all, in(bias.at(from)) + sum(in(X(at, b, i)) * in(W.at(place)), i));
    }

    Type type, of;
    Axis t, b, i, g, u, k;
    Expr steps;
    RecurrentOptions options;
    Tensor X, W, R, bias, h0, from_input;

    Expr in(const Element &e) const { return e.type() == of ? Expr(e) : cast(of, e); }

    // (g, u, …), or (u, …) without gates.
    std::vector<Axis> by_gate(const std::vector<Axis> &more) const {
        std::vector<Axis> axes = {u};
        if (const auto n = Halide::Internal::as_const_int(g.extent()); *n > 1) axes.insert(axes.begin(), g);
        axes.insert(axes.end(), more.begin(), more.end());
        return axes;
    }

    // The state before a step, from the state after the previous one.
    Tensor before(const std::string &name, const Tensor &first, const Earlier &state) const {
        return compute(name, {t, b, u}, select(t == 0, Element(in(first(b, u))), state(t - 1, b, u)));
    }

    Op op(const std::string &name, const Tensor &h, const std::vector<Tensor> &more_inputs = {},
          const std::vector<std::pair<std::string, Tensor>> &more_states = {}) const {
        std::vector<Tensor> inputs = {X, W, R, bias, h0};
        inputs.insert(inputs.end(), more_inputs.begin(), more_inputs.end());
        const Expr at = options.reverse ? Expr(steps - 1 - t) : Expr(t);
        std::vector<Tensor> outputs = {compute("Y", {t, b, u}, cast(type, h(at, b, u)))};
        if (options.states) {
            outputs.push_back(last("Y_h", h));
            for (const auto &[state, tensor] : more_states) outputs.push_back(last(state, tensor));
        }
        return Op(name, inputs, outputs);
    }
    Tensor last(const std::string &name, const Tensor &state) const {
        return compute(name, {b, u}, cast(type, state(steps - 1, b, u)));
    }
};

} // namespace

Op rnn(Type type, const Expr &T, const Expr &B, const Expr &I, const Expr &U, const RecurrentOptions &options) {
    const Layer l("rnn", type, T, B, I, U, 1, options);
    const auto &[t, b, u, k] = std::tie(l.t, l.b, l.u, l.k);
    Tensor h = recurrence("h", l.of, {t, b, u}, 0, [&](const Earlier &h) {
        Tensor before = l.before("h_before", l.h0, h);
        return tanh(l.from_input(t, b, u) + sum(before(t, b, k) * l.in(l.R(u, k)), k));
    });
    return l.op("rnn", h);
}

Op gru(Type type, const Expr &T, const Expr &B, const Expr &I, const Expr &U, const RecurrentOptions &options) {
    const Layer l("gru", type, T, B, I, U, 3, options);
    const auto &[t, b, u, k] = std::tie(l.t, l.b, l.u, l.k);
    const Tensor rbias = input("rbias", type, {u});
    Tensor h = recurrence("h", l.of, {t, b, u}, 0, [&](const Earlier &h) {
        Tensor before = l.before("h_before", l.h0, h);
        // One product for all gates that use the unmodified state.
        Axis of("g", options.reset_after ? 3 : 2);
        Tensor product = compute("product", {t, b, of, u}, sum(before(t, b, k) * l.in(l.R(of, u, k)), k));
        const auto gate = [&](int n) { return sigmoid(l.from_input(t, b, n, u) + product(t, b, n, u)); };
        Tensor reset = compute("reset", {t, b, u}, gate(1));
        Expr state;
        if (options.reset_after) {
            state = reset(t, b, u) * (product(t, b, 2, u) + l.in(rbias(u)));
        } else {
            Tensor kept = compute("kept", {t, b, u}, reset(t, b, u) * before(t, b, u));
            state = sum(kept(t, b, k) * l.in(l.R(2, u, k)), k);
        }
        const Element z = gate(0), n = tanh(l.from_input(t, b, 2, u) + state);
        return (1 - z) * n + z * before(t, b, u);
    });
    return l.op("gru", h, options.reset_after ? std::vector{rbias} : std::vector<Tensor>());
}

Op lstm(Type type, const Expr &T, const Expr &B, const Expr &I, const Expr &U, const RecurrentOptions &options) {
    const Layer l("lstm", type, T, B, I, U, 4, options);
    const auto &[t, b, g, u, k] = std::tie(l.t, l.b, l.g, l.u, l.k);
    const Tensor c0 = input("c0", type, {b, u});
    const auto states = recurrence(
        {"h", "c"}, {l.of, l.of}, {t, b, u}, {0, 0}, [&](const std::vector<Earlier> &s) -> std::vector<Expr> {
            Tensor before = l.before("h_before", l.h0, s[0]);
            Tensor gates =
                compute("gates", {t, b, g, u}, l.from_input(t, b, g, u) + sum(before(t, b, k) * l.in(l.R(g, u, k)), k));
            const Element kept = select(t == 0, Element(l.in(c0(b, u))), s[1](t - 1, b, u));
            const Element c = sigmoid(gates(t, b, 2, u)) * kept + sigmoid(gates(t, b, 0, u)) * tanh(gates(t, b, 3, u));
            return {sigmoid(gates(t, b, 1, u)) * tanh(c), c};
        });
    return l.op("lstm", states[0], {c0}, {{"Y_c", states[1]}});
}

} // namespace kumiko::ops
