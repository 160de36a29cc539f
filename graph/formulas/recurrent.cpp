// Recurrent layers: RNN, GRU and LSTM, of which each direction is one recurrence over the steps,
// and the products with the input are computed for all steps before; linear attention.
#include "dsl/math.h"
#include "dsl/recurrence.h"
#include "dsl/reduction.h"
#include "dsl/types.h"
#include "graph/formulas/scales.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace kumiko::graph {

namespace {

using Activation = std::function<Element(const Element &)>;

// A function that a layer may apply, with the values of alpha and beta where a node gives none.
struct ActivationKind {
    std::string name; // in small letters
    int parameters;   // how many of alpha and beta it has
    double alpha, beta;
    Element (*f)(const Element &x, const Element &alpha, const Element &beta);
};

const std::vector<ActivationKind> &activation_kinds() {
    using E = const Element &;
    static const std::vector<ActivationKind> all = {
        {"affine", 2, 1, 0, [](E x, E a, E b) -> Element { return a * x + b; }},
        {"relu", 0, 0, 0, [](E x, E, E) -> Element { return max(x, number(x.type(), 0)); }},
        {"leakyrelu", 1, 0.01f, 0, [](E x, E a, E) -> Element { return select(x < number(x.type(), 0), a * x, x); }},
        {"thresholdedrelu", 1, 1, 0, [](E x, E a, E) -> Element { return select(x >= a, x, number(x.type(), 0)); }},
        {"tanh", 0, 0, 0, [](E x, E, E) -> Element { return tanh(x); }},
        {"scaledtanh", 2, 1, 1, [](E x, E a, E b) -> Element { return a * tanh(Element(b * x)); }},
        {"sigmoid", 0, 0, 0, [](E x, E, E) -> Element { return sigmoid(x); }},
        {"hardsigmoid", 2, 0.2f, 0.5,
         [](E x, E a, E b) -> Element {
             return max(number(x.type(), 0), min(number(x.type(), 1), Element(a * x + b)));
         }},
        {"elu", 1, 1, 0, [](E x, E a, E) -> Element { return select(x < number(x.type(), 0), a * expm1(x), x); }},
        {"softsign", 0, 0, 0, [](E x, E, E) -> Element { return x / (number(x.type(), 1) + abs(x)); }},
        {"softplus", 0, 0, 0, [](E x, E, E) -> Element { return softplus(x); }},
    };
    return all;
}

const ActivationKind &activation_kind(const Call &c, const std::string &name) {
    std::string small = name;
    for (char &l : small) l = static_cast<char>(std::tolower(static_cast<unsigned char>(l)));
    std::vector<std::string> names;
    for (const ActivationKind &kind : activation_kinds()) {
        if (kind.name == small) return kind;
        names.push_back(kind.name);
    }
    c.fail(fmt::format("the activation \"{}\"; legal are {}", name, fmt::join(names, ", ")));
}

// The activation functions of a node; the forward direction comes first. Each function that has
// alpha or beta takes the next value of the attribute. The clip bounds the inputs of the first
// `clipped` functions of each direction: those of the gates, as in ONNX Runtime.
std::vector<Activation> activations(const Call &c, const std::vector<std::string> &defaults, size_t directions,
                                    size_t clipped) {
    const size_t each = defaults.size();
    std::vector<std::string> names;
    for (size_t d = 0; d < directions; d++) names.insert(names.end(), defaults.begin(), defaults.end());
    if (const auto given = c.node.attributes.find("activations"); given != c.node.attributes.end()) {
        const auto *texts = std::get_if<std::vector<std::string>>(&given->second.value);
        // Some exporters write the default for two directions where there is one.
        if (!texts || (texts->size() != each * directions && texts->size() != 2 * each))
            c.fail(
                fmt::format("activations are not {} texts, which is {} for each direction", each * directions, each));
        names.assign(texts->begin(), texts->begin() + static_cast<int64_t>(each * directions));
    }
    const std::vector<float> alphas = c.node.numbers("activation_alpha"), betas = c.node.numbers("activation_beta");
    size_t alphas_used = 0, betas_used = 0;
    const float limit = c.node.number("clip", 0);
    std::vector<Activation> all;
    for (size_t n = 0; n < names.size(); n++) {
        const ActivationKind &kind = activation_kind(c, names[n]);
        const bool clips = c.node.has("clip") && n % each < clipped;
        double alpha = kind.alpha, beta = kind.beta;
        if (kind.parameters >= 1 && alphas_used < alphas.size()) alpha = alphas[alphas_used++];
        if (kind.parameters >= 2 && betas_used < betas.size()) beta = betas[betas_used++];
        all.push_back([=, f = kind.f](const Element &x) {
            const Type t = x.type();
            const Element bounded = clips ? max(min(x, number(t, limit)), number(t, -limit)) : x;
            return f(bounded, number(t, alpha), number(t, beta));
        });
    }
    return all;
}

// What the three kinds of layers share. The weights of a quantised layer are bytes, [directions,
// inputs, gates · hidden] and not [directions, gates · hidden, inputs]; inputs 8 to 11 are their
// scales and zero points. X and the states are then rounded to bytes before a product.
class Layer {
public:
    Layer(Call &c, int gates, const std::vector<std::string> &default_activations, bool quantised = false)
        : c(c), gates(gates), quantised(quantised) {
        const std::string direction = c.choice("direction", "forward", {"forward", "reverse", "bidirectional"});
        directions = direction == "bidirectional" ? 2 : 1;
        first_is_reverse = direction == "reverse";
        batch_first = c.node.integer("layout", 0) != 0;
        const Extents x = c.extents(0), w = c.extents(1), r = c.extents(2);
        if (x.size() != 3 || w.size() != 3 || r.size() != 3)
            c.fail(
                fmt::format("inputs X, W and R of {}, {} and {} axes; legal are 3 each", x.size(), w.size(), r.size()));
        steps = x[batch_first ? 1 : 0], batch = x[batch_first ? 0 : 1], inputs = x[2], hidden = r[quantised ? 1 : 2];
        if (c.node.integer("hidden_size", hidden) != hidden)
            c.fail(fmt::format("hidden_size is {}, and R has rows of {}", c.node.integer("hidden_size", 0), hidden));
        require_weights(1, inputs);
        require_weights(2, hidden);
        if (c.has(3)) require(3, {directions, 2 * gates * hidden});
        if (c.has(4)) require(4, {batch});
        if (c.has(5)) require(5, state_extents());
        type = c.type(0), in = accumulator(type);
        if (quantised) {
            require_bytes(1, 8), require_bytes(2, 10);
            const DynamicBytes made = dynamic_bytes(c, c.in(0));
            x_bytes = DynamicBytes{c.stored(made.bytes, "bytes"), made.scale, made.zero};
        }
        if (!is_floating(type)) c.fail("a layer of integers; legal are floats");
        functions = activations(c, default_activations, static_cast<size_t>(directions), 2);
        per_direction = default_activations.size();
    }

    Call &c;
    int gates;
    bool quantised;
    std::optional<DynamicBytes> x_bytes; // X of a quantised layer
    int64_t directions, steps, batch, inputs, hidden;
    bool first_is_reverse, batch_first;
    Type type, in;
    std::vector<Activation> functions;
    size_t per_direction;

    void require(size_t input, const Extents &extents) const {
        if (c.extents(input) != extents)
            c.fail(fmt::format("input {} (\"{}\") has the extents [{}]; those of X and R want [{}]", input,
                               c.node.inputs[input], fmt::join(c.extents(input), ", "), fmt::join(extents, ", ")));
    }
    void require_weights(size_t n, int64_t columns) const {
        const int64_t rows = gates * hidden;
        require(n, quantised ? Extents{directions, columns, rows} : Extents{directions, rows, columns});
    }
    // Bytes in input n; their scale, of each direction or each row of it, and zero point.
    void require_bytes(size_t n, size_t scale) const {
        if (c.type(n) != i8 && c.type(n) != u8)
            c.fail(
                fmt::format("its weights \"{}\" are {}; legal are i8 and u8", c.node.inputs[n], type_name(c.type(n))));
        if (!c.has(scale) || !c.has(scale + 1))
            c.fail(fmt::format("inputs {} and {} are missing; they are the scale and zero point of the weights \"{}\"",
                               scale, scale + 1, c.node.inputs[n]));
        require_scale(c, scale), require_zero_point(c, scale + 1, n);
        for (const size_t at : {scale, scale + 1}) {
            if (c.extents(at) != Extents{directions}) require(at, {directions, gates * hidden});
        }
    }
    Extents state_extents() const {
        return batch_first ? Extents{batch, directions, hidden} : Extents{directions, batch, hidden};
    }
    bool reverse(int64_t direction) const { return first_is_reverse || direction == 1; }
    const Activation &function(int64_t direction, size_t n) const {
        return functions[static_cast<size_t>(direction) * per_direction + n];
    }
    Element read(const View &v, const Indices &at) const { return cast(in, v.at(at)); }

    // How many steps a sequence has. Sequences longer than the input end with it.
    Element length(const Expr &b) const {
        return Element(Halide::clamp(cast(i32, c.in(4).at({b})), 0, static_cast<int>(steps)));
    }
    // The position in the input of a step, which is its own inverse.
    Expr place(int64_t direction, const Expr &t, const Expr &b) const {
        if (!reverse(direction)) return t;
        if (!c.has(4)) return static_cast<int>(steps - 1) - t;
        const Expr n = length(b);
        return Halide::clamp(Halide::select(t < n, n - 1 - t, t), 0, static_cast<int>(std::max<int64_t>(steps - 1, 0)));
    }

    // An initial state: input n, or zeros.
    Element initial(size_t n, int64_t direction, const Expr &b, const Expr &u) const {
        if (!c.has(n)) return number(in, 0);
        const Expr d = static_cast<int>(direction);
        return read(c.in(n), batch_first ? Indices{b, d, u} : Indices{d, b, u});
    }

    // An element of each step, row of the batch, and row of the weights.
    using Gates = std::function<Element(const Expr &t, const Expr &b, const Expr &row)>;
    // The row of the weights for a gate and unit.
    Expr row_of(int gate, const Expr &u) const { return static_cast<int>(gate * hidden) + u; }
    Axis gate_rows(int64_t count) const { return c.ranging("row", count * hidden); }

    // An element of a weight: of a quantised layer the whole number without its zero point.
    Element weight(size_t n, int64_t direction, const Expr &row, const Expr &column) const {
        const Expr d = static_cast<int>(direction);
        if (!quantised) return read(c.in(n), {d, row, column});
        const Element whole = cast(i32, c.in(n).at({d, column, row}));
        const size_t zero = zero_point_of(n);
        return has_no_zero_point(c, zero) ? whole : whole - cast(i32, of_row(zero, direction, row));
    }
    size_t zero_point_of(size_t weights) const { return weights == 1 ? 9 : 11; }
    Element weight_scale(size_t n, int64_t direction, const Expr &row) const {
        return cast(f32, of_row(zero_point_of(n) - 1, direction, row));
    }
    // An element for a row of weights, of an input with one for each direction or for each row.
    Element of_row(size_t n, int64_t direction, const Expr &row) const {
        const Expr d = static_cast<int>(direction);
        return c.in(n).rank() == 1 ? c.in(n).at({d}) : c.in(n).at({d, row});
    }

    // The part of the gates that does not depend on the state: products with the input, and biases.
    // These are those of W, and for the first `with_r` gates also those of R. Gates and units are
    // one axis, and steps are in the order of the input, which makes this a product of matrices.
    Gates from_input(int64_t direction, int with_r) const {
        const Axis i = c.loop(inputs);
        const Expr d = static_cast<int>(direction);
        const int rows = static_cast<int>(gates * hidden), rows_with_r = static_cast<int>(with_r * hidden);
        const View parts = {
            in, {steps, batch, gates * hidden}, [=, this](const Indices &indices) {
                const Expr at = indices[0], b = indices[1], row = indices[2];
                const Indices of_x = batch_first ? Indices{b, at, i} : Indices{at, b, i};
                Element e = product_with_input(direction, row, of_x, i);
                if (c.has(3)) {
                    const View bias = c.in(3);
                    e = e + read(bias, {d, row});
                    const Element own = read(bias, {d, row + rows});
                    e = e + (rows_with_r == rows ? own : select(Element(row < rows_with_r), own, number(in, 0)));
                }
                return e;
            }};
        const View stored = c.stored(parts, named("from_input", direction));
        return [=, this](const Expr &t, const Expr &b, const Expr &row) {
            return stored.at({place(direction, t, b), b, row});
        };
    }
    // The sum over i of elements of X times those of a row of W.
    Element product_with_input(int64_t direction, const Expr &row, const Indices &of_x, const Axis &i) const {
        if (!quantised) return sum(read(c.in(0), of_x) * weight(1, direction, row, i), i);
        const Element x = cast(i32, x_bytes->bytes.at(of_x)) - cast(i32, x_bytes->zero.at({}));
        const Element total = sum(x * weight(1, direction, row, i), i);
        return cast(in, total) * (x_bytes->scale.at({}) * weight_scale(1, direction, row));
    }
    // A bias of R.
    Element state_bias(int64_t direction, int gate, const Expr &u) const {
        if (!c.has(3)) return number(in, 0);
        return read(c.in(3), {static_cast<int>(direction), static_cast<int>((gates + gate) * hidden) + u});
    }
    // The sum of state elements times those of a row of R.
    Element product(int64_t direction, const Expr &row, const std::function<Element(const Axis &)> &state) const {
        const Axis k = c.loop(hidden);
        return sum(state(k) * weight(2, direction, row, k), k);
    }
    // The same of the state before a step.
    Element product(int64_t direction, const Axis &t, const Expr &b, const Axis &row, const Tensor &before) const {
        if (!quantised) return product(direction, row, [&](const Axis &k) -> Element { return before(t, b, k); });
        const auto bound = [&](bool most) -> Element {
            const Axis all_b = c.loop(batch), all_u = c.loop(hidden);
            const Element e = before(t, all_b, all_u);
            return most ? max(Element(maximum(e, {all_b, all_u})), 0.f) : min(Element(minimum(e, {all_b, all_u})), 0.f);
        };
        const Tensor most = compute(named("most", direction), {t}, bound(true)),
                     least = compute(named("least", direction), {t}, bound(false)),
                     scale = compute(named("scale", direction), {t}, dynamic_scale(least(t), most(t))),
                     zero = compute(named("zero", direction), {t}, dynamic_zero_point(least(t), scale(t)));
        const Axis own_b = batch_axis(), own_u = unit_axis("u");
        const Tensor bytes = compute(named("state_bytes", direction), {t, own_b, own_u},
                                     nearest_byte(before(t, own_b, own_u), scale(t), zero(t)));
        // Multiplied out, so that a tensor instruction may multiply the bytes.
        const Axis k = c.loop(hidden), of_columns = c.loop(hidden), all_rows("row", row.extent());
        const Expr d = static_cast<int>(direction);
        const Tensor columns = compute(named("columns", direction), {all_rows},
                                       sum(weight(2, direction, all_rows, of_columns), of_columns));
        Element total =
            sum(cast(i32, bytes(t, b, k)) * cast(i32, c.in(2).at({d, k, row})), k) - cast(i32, zero(t)) * columns(row);
        if (!has_no_zero_point(c, zero_point_of(2))) {
            const Axis of_rows = c.loop(hidden);
            total = total -
                    cast(i32, of_row(zero_point_of(2), direction, row)) * sum(cast(i32, bytes(t, b, of_rows)), of_rows);
        }
        return cast(in, total) * (scale(t) * weight_scale(2, direction, row));
    }
    // The state before a step.
    Tensor before(const std::string &name, int64_t direction, size_t input, const Earlier &state) const {
        const Axis t = step_axis(), b = batch_axis(), u = unit_axis("u");
        return compute(named(name, direction), {t, b, u},
                       select(Element(t == 0), initial(input, direction, b, u), state(t - 1, b, u)));
    }
    // The state after a step: beyond a sequence's end, what it was before.
    Element after(const Expr &t, const Expr &b, const Element &next, const Element &before) const {
        return c.has(4) ? select(Element(t < Expr(length(b))), next, before) : next;
    }

    Axis step_axis() const { return c.ranging("t", steps); }
    Axis batch_axis() const { return c.ranging("b", batch); }
    Axis unit_axis(const std::string &name) const { return c.ranging(name, hidden); }
    static std::string named(const std::string &name, int64_t direction) {
        return name + (direction == 1 ? "_back" : "");
    }

    // Y of the hidden states of each direction, over [t, b, u].
    View sequence(const std::vector<Tensor> &states) const {
        const Extents extents =
            batch_first ? Extents{batch, steps, directions, hidden} : Extents{steps, directions, batch, hidden};
        return {type, extents, [this_ = *this, states](const Indices &i) -> Element {
                    const bool first = this_.batch_first;
                    const Expr t = i[first ? 1 : 0], d = i[first ? 2 : 1], b = i[first ? 0 : 2], u = i[3];
                    std::optional<Element> made;
                    for (size_t n = states.size(); n-- > 0;) {
                        const Element e = states[n](this_.place(static_cast<int64_t>(n), t, b), b, u);
                        made = made ? select(Element(d == static_cast<int>(n)), e, *made) : e;
                    }
                    if (this_.c.has(4)) made = select(Element(t < Expr(this_.length(b))), *made, number(this_.in, 0));
                    return cast(this_.type, *made);
                }};
    }
    // The state after the last step; without steps, the initial one, which is `input`.
    View last(const std::vector<Tensor> &states, size_t input) const {
        return {type, state_extents(), [this_ = *this, states, input](const Indices &i) -> Element {
                    const bool first = this_.batch_first;
                    const Expr d = i[first ? 1 : 0], b = i[first ? 0 : 1], u = i[2];
                    std::optional<Element> made;
                    for (size_t n = states.size(); n-- > 0;) {
                        const Element e = this_.steps > 0 ? states[n](static_cast<int>(this_.steps - 1), b, u)
                                                          : this_.initial(input, static_cast<int64_t>(n), b, u);
                        made = made ? select(Element(d == static_cast<int>(n)), e, *made) : e;
                    }
                    return cast(this_.type, *made);
                }};
    }
};

Results rnn(Call &c) {
    const Layer l(c, 1, {"Tanh"});
    std::vector<Tensor> states;
    for (int64_t d = 0; d < l.directions; d++) {
        const Axis t = l.step_axis(), b = l.batch_axis(), u = l.unit_axis("u");
        const Layer::Gates from_input = l.from_input(d, 1);
        states.push_back(recurrence(Layer::named("h", d), l.in, {t, b, u}, number(l.in, 0), [&](const Earlier &h) {
            const Tensor before = l.before("h_before", d, 5, h);
            const Element sums = from_input(t, b, u) + l.product(d, t, b, u, before);
            return l.after(t, b, l.function(d, 0)(sums), before(t, b, u));
        }));
    }
    return {l.sequence(states), l.last(states, 5)};
}

Results gru(Call &c) {
    const Layer l(c, 3, {"Sigmoid", "Tanh"});
    const bool reset_after = c.node.integer("linear_before_reset", 0) != 0;
    std::vector<Tensor> states;
    for (int64_t d = 0; d < l.directions; d++) {
        const Axis t = l.step_axis(), b = l.batch_axis(), u = l.unit_axis("u");
        const Layer::Gates from_input = l.from_input(d, reset_after ? 2 : 3);
        states.push_back(recurrence(Layer::named("h", d), l.in, {t, b, u}, number(l.in, 0), [&](const Earlier &h) {
            const Tensor before = l.before("h_before", d, 5, h);
            // One product for all gates that read the state as it is.
            const Axis row = l.gate_rows(reset_after ? 3 : 2);
            const Tensor products = compute(Layer::named("products", d), {t, b, row}, l.product(d, t, b, row, before));
            const auto gate = [&](int n) {
                const Expr of_gate = l.row_of(n, u);
                return l.function(d, 0)(Element(from_input(t, b, of_gate) + products(t, b, of_gate)));
            };
            const Tensor reset = compute(Layer::named("reset", d), {t, b, u}, gate(1));
            Element state = number(l.in, 0);
            if (reset_after) {
                state = reset(t, b, u) * (products(t, b, l.row_of(2, u)) + l.state_bias(d, 2, u));
            } else {
                const Tensor kept = compute(Layer::named("kept", d), {t, b, u}, reset(t, b, u) * before(t, b, u));
                state = l.product(d, l.row_of(2, u), [&](const Axis &k) -> Element { return kept(t, b, k); });
            }
            const Element z = gate(0), n = l.function(d, 1)(Element(from_input(t, b, l.row_of(2, u)) + state));
            const Element next = (number(l.in, 1) - z) * n + z * before(t, b, u);
            return l.after(t, b, next, before(t, b, u));
        }));
    }
    return {l.sequence(states), l.last(states, 5)};
}

// Gates i, o, f and c.
Results lstm(Call &c, bool quantised) {
    const Layer l(c, 4, {"Sigmoid", "Tanh", "Tanh"}, quantised);
    const bool coupled = c.node.integer("input_forget", 0) != 0; // f = 1 − i
    if (c.has(6)) l.require(6, l.state_extents());
    if (c.has(7)) l.require(7, {l.directions, 3 * l.hidden});
    std::vector<Tensor> hidden, cells;
    for (int64_t d = 0; d < l.directions; d++) {
        const Axis t = l.step_axis(), b = l.batch_axis(), u = l.unit_axis("u"), row = l.gate_rows(4);
        const Layer::Gates from_input = l.from_input(d, 4);
        const auto states =
            recurrence({Layer::named("h", d), Layer::named("c", d)}, {l.in, l.in}, {t, b, u},
                       {number(l.in, 0), number(l.in, 0)}, [&](const std::vector<Earlier> &s) -> std::vector<Expr> {
                           const Tensor before = l.before("h_before", d, 5, s[0]);
                           const Tensor gates = compute(Layer::named("gates", d), {t, b, row},
                                                        from_input(t, b, row) + l.product(d, t, b, row, before));
                           const Element kept = select(Element(t == 0), l.initial(6, d, b, u), s[1](t - 1, b, u));
                           const auto gate = [&](int n, int peephole, const Element &cell) -> Element {
                               const Element e = gates(t, b, l.row_of(n, u));
                               if (!c.has(7)) return l.function(d, 0)(e);
                               const Expr at = static_cast<int>(peephole * l.hidden) + u;
                               return l.function(d, 0)(Element(e + l.read(c.in(7), {static_cast<int>(d), at}) * cell));
                           };
                           const Element enters = gate(0, 0, kept);
                           const Element stays = coupled ? Element(number(l.in, 1) - enters) : gate(2, 2, kept);
                           const Element cell = stays * kept + enters * l.function(d, 1)(gates(t, b, l.row_of(3, u)));
                           const Element next = gate(1, 1, cell) * l.function(d, 2)(cell);
                           return {l.after(t, b, next, before(t, b, u)), l.after(t, b, cell, kept)};
                       });
        hidden.push_back(states[0]), cells.push_back(states[1]);
    }
    return {l.sequence(hidden), l.last(hidden, 5), l.last(cells, 6)};
}

// Attention by a state [keys, values] of each head, which each step scales, corrects and adds to.
// Computed in f32, or f64.
Results linear_attention(Call &c) {
    const std::string rule = c.choice("update_rule", "gated_delta", {"linear", "gated", "delta", "gated_delta"});
    const bool gated = rule == "gated" || rule == "gated_delta", delta = rule == "delta" || rule == "gated_delta";
    const int64_t heads = c.node.integer("q_num_heads", 0), own = c.node.integer("kv_num_heads", 0);
    const View q = c.in(0), k = c.in(1), v = c.in(2);
    if (own < 1 || heads < 1 || heads % own || q.rank() != 3 || k.rank() != 3 || v.rank() != 3)
        c.fail("its inputs have not 3 axes, or q_num_heads is no positive multiple of kv_num_heads");
    const int64_t batches = q.extents[0], steps = q.extents[1], keys = q.extents[2] / heads,
                  values = v.extents[2] / own;
    const Extents state_extents = {batches, own, keys, values};
    if (q.extents[2] != heads * keys || k.extents != Extents{batches, steps, own * keys} ||
        v.extents != Extents{batches, steps, own * values} || (c.has(3) && c.extents(3) != state_extents))
        c.fail("its queries, keys, values and state do not fit each other");
    if (gated != c.has(4) || delta != c.has(5))
        c.fail(
            fmt::format("the rule \"{}\" with{} a decay and with{} a beta; a decay belongs to gated rules and a beta "
                        "to delta rules",
                        rule, c.has(4) ? "" : "out", c.has(5) ? "" : "out"));
    const bool by_key = gated && c.extents(4) == Extents{batches, steps, own * keys};
    if (gated && !by_key && c.extents(4) != Extents{batches, steps, own})
        c.fail(fmt::format("a decay of the extents [{}]; legal are [{}, {}, {}] and [{}, {}, {}]",
                           fmt::join(c.extents(4), ", "), batches, steps, own, batches, steps, own * keys));
    const bool one_beta = delta && c.extents(5) == Extents{batches, steps, 1};
    if (delta && !one_beta && c.extents(5) != Extents{batches, steps, own})
        c.fail(fmt::format("a beta of the extents [{}]; legal are [{}, {}, {}] and [{}, {}, 1]",
                           fmt::join(c.extents(5), ", "), batches, steps, own, batches, steps));
    const double given = c.node.number("scale", 0),
                 scale = given == 0 ? 1 / std::sqrt(static_cast<double>(keys)) : given;
    const Type type = q.type, in = accumulator(type), state_type = c.has(3) ? c.type(3) : type;
    const auto read = [in](const View &from, const Indices &at) { return Element(cast(in, from.at(at))); };
    const auto initial = [=, &c](const Indices &at) { return c.has(3) ? read(c.in(3), at) : number(in, 0); };
    const auto packed = [](const Expr &head, int64_t size, const Expr &at) -> Expr {
        return head * static_cast<int>(size) + at;
    };
    const Axis t = c.ranging("t", steps), b = c.ranging("b", batches), h = c.ranging("h", own),
               d = c.ranging("d", keys), m = c.ranging("m", values), e = c.loop(keys);
    const Tensor state = recurrence("state", in, {t, b, h, d, m}, number(in, 0), [&](const Earlier &earlier) {
        Element before = select(Element(t == 0), initial({b, h, d, m}), earlier(t - 1, b, h, d, m));
        if (gated) before = before * exp(read(c.in(4), {b, t, by_key ? packed(h, keys, d) : Expr(h)}));
        const Tensor kept = compute("kept", {t, b, h, d, m}, before);
        Element value = read(v, {b, t, packed(h, values, m)});
        if (delta) {
            const Tensor retrieved =
                compute("retrieved", {t, b, h, m}, sum(kept(t, b, h, e, m) * read(k, {b, t, packed(h, keys, e)}), e));
            value = read(c.in(5), {b, t, one_beta ? Expr(0) : Expr(h)}) * (value - retrieved(t, b, h, m));
        }
        return kept(t, b, h, d, m) + read(k, {b, t, packed(h, keys, d)}) * value;
    });
    const Axis key = c.loop(keys);
    const View made = {type, {batches, steps, heads * values}, [=](const Indices &i) -> Element {
                           const Expr head = i[2] / static_cast<int>(values), at = i[2] % static_cast<int>(values);
                           const Expr shared = head / static_cast<int>(heads / own);
                           const Element total =
                               sum(read(q, {i[0], i[1], packed(head, keys, key)}) * state(i[1], i[0], shared, key, at),
                                   key);
                           return cast(type, total * number(in, scale));
                       }};
    const View last = {state_type, state_extents, [=](const Indices &i) -> Element {
                           const Element e =
                               steps > 0 ? state(static_cast<int>(steps - 1), i[0], i[1], i[2], i[3]) : initial(i);
                           return cast(state_type, e);
                       }};
    return {made, last};
}

} // namespace

std::vector<Operator> recurrent_operators() {
    return {
        {"RNN", 1, rnn},
        {"GRU", 1, gru},
        {"LSTM", 1, [](Call &c) { return lstm(c, false); }},
        {"DynamicQuantizeLSTM", 1, [](Call &c) { return lstm(c, true); }, "com.microsoft", Dependence::Other, true},
        {"LinearAttention", 27, linear_attention},
    };
}

} // namespace kumiko::graph
