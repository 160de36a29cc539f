// Quantised models: products of integers against exact arithmetic, the same bits from the evaluator
// and from kernels, operators of com.microsoft, and contradictory scales and zero points. One file,
// because the cases share exact arithmetic and random models.
// Links: graph/build
#include "graph/build/compiled_model.h"
#include "support/random.h"
#include "tests/unit/refusal.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace kumiko;
using namespace kumiko::graph;

namespace {

Model model(const std::string &text, int opset = 21) {
    return Model::parse_text(
        fmt::format("<ir_version: 10, opset_import: [\"\" : {}, \"com.microsoft\" : 1]> g {}", opset, text), "m");
}

std::string ops_of(const FixedGraph &graph) {
    std::string text;
    for (const Node &n : graph.nodes) text += (text.empty() ? "" : " ") + n.op;
    return text;
}

// A node for each kernel, joined by "+".
std::string groups_of(const FixedGraph &graph) {
    std::string text;
    for (const Group &g : group_nodes(graph)) {
        text += text.empty() ? "" : ", ";
        for (size_t n = 0; n < g.nodes.size(); n++) text += (n ? "+" : "") + graph.nodes[g.nodes[n]].op;
    }
    return text;
}

FixedGraph simplified(const Model &m, Rounding rounding = Rounding::Close) {
    FixedGraph graph = fix_sizes(m);
    simplify(graph, {.rounding = rounding});
    return graph;
}

const char *onnx_name(Type type) { return type == u8 ? "uint8" : type == i8 ? "int8" : "int32"; }

Buffer<> random_bytes(Type type, const Extents &extents, Random &rng) {
    Buffer<> made(type, extents);
    for (size_t n = 0; n < made.number_of_elements(); n++)
        static_cast<uint8_t *>(made.data())[n] = uint8_t(rng.below(256));
    return made;
}

int byte_of(const Buffer<> &b, size_t n) {
    const auto *bytes = static_cast<const uint8_t *>(b.data());
    return Type(b.type()) == u8 ? int(bytes[n]) : int(static_cast<int8_t>(bytes[n]));
}

std::string list_of(const std::vector<float> &values) { return fmt::format("{}", fmt::join(values, ", ")); }

std::string list_of(const Buffer<> &bytes) {
    std::vector<int> all;
    for (size_t n = 0; n < bytes.number_of_elements(); n++) all.push_back(byte_of(bytes, n));
    return fmt::format("{}", fmt::join(all, ", "));
}

void check_bytes(const Buffer<> &got, const Buffer<> &want) {
    REQUIRE_EQ(got.extents(), want.extents());
    REQUIRE_EQ(Type(got.type()), Type(want.type()));
    CHECK_EQ(std::memcmp(got.data(), want.data(), want.size_in_bytes()), 0);
}

// A product of quantised tensors. The extents of a matrix product are those of a window of one
// element: channels are rows of the weights, pixels rows of the other matrix.
struct Quantised {
    bool window = false, relu = false, biased = false;
    int64_t channels = 1, filters = 1, rows = 1, columns = 1, kernel = 1, pad = 0, stride = 1;
    Type of_x = u8, of_w = i8, of_y = u8;
    int zero_x = 0, zero_w = 0, zero_y = 0;
    float scale_x = 1, scale_y = 1;
    std::vector<float> scale_w, bias;
    Buffer<> w;

    explicit Quantised(Random &rng) {
        const auto pick = [&](std::initializer_list<int64_t> all) { return *(all.begin() + rng.below(all.size())); };
        const auto byte = [&](Type t) { return int(rng.below(256)) - (t == u8 ? 0 : 128); };
        window = rng.below(2) != 0, relu = rng.below(2) != 0, biased = rng.below(2) != 0;
        channels = pick({1, 3, 4, 8, 19, 32}), filters = pick({1, 5, 16, 24, 33}), columns = pick({1, 4, 9});
        if (window) rows = pick({3, 6}), columns = pick({3, 9}), kernel = pick({1, 3}), pad = pick({0, 1});
        if (window) stride = pick({1, 2});
        of_x = rng.below(2) ? u8 : i8, of_w = rng.below(3) ? i8 : u8, of_y = rng.below(2) ? u8 : i8;
        zero_x = byte(of_x), zero_w = of_w == u8 ? byte(u8) : 0, zero_y = byte(of_y);
        if (rng.below(3) == 0) zero_x = of_x == u8 ? 0 : -128;
        scale_x = 0.01f + float(rng.below(100)) / 1000, scale_y = float(1 + rng.below(100)) / 10;
        const size_t scales = rng.below(2) ? size_t(filters) : 1;
        for (size_t n = 0; n < scales; n++) scale_w.push_back(0.003f + float(rng.below(100)) / 3000);
        for (int64_t n = 0; n < filters; n++) bias.push_back(float(int(rng.below(200)) - 100) / 8);
        w = random_bytes(of_w, window ? Extents{filters, channels, kernel, kernel} : Extents{channels, filters}, rng);
    }

    int64_t outputs(int64_t in) const { return (in + 2 * pad - kernel) / stride + 1; }
    Extents input() const { return window ? Extents{1, channels, rows, columns} : Extents{columns, channels}; }
    Extents result() const {
        return window ? Extents{1, filters, outputs(rows), outputs(columns)} : Extents{columns, filters};
    }

    // As a quantiser writes it: integers are dequantised, and the result is quantised.
    std::string text() const {
        const auto shape = [](const Extents &e) { return fmt::format("[{}]", fmt::join(e, ",")); };
        std::string all =
            fmt::format("({}{} x) => ({}{} y) <{}{} w = {{{}}}, float sx = {{{}}}, {} zx = {{{}}}, ", onnx_name(of_x),
                        shape(input()), onnx_name(of_y), shape(result()), onnx_name(of_w), shape(w.extents()),
                        list_of(w), scale_x, onnx_name(of_x), zero_x);
        const std::string axis = scale_w.size() == 1 ? "" : fmt::format("[{}]", scale_w.size());
        all += fmt::format(
            "float{} sw = {{{}}}, {}{} zw = {{{}}}, float sy = {{{}}}, {} zy = {{{}}}, float[{}] b = {{{}}}> {{ ", axis,
            list_of(scale_w), onnx_name(of_w), axis, fmt::join(std::vector<int>(scale_w.size(), zero_w), ", "), scale_y,
            onnx_name(of_y), zero_y, filters, list_of(bias));
        all += fmt::format("dx = DequantizeLinear(x, sx, zx) dw = DequantizeLinear<axis = {}>(w, sw, zw) ",
                           window ? 0 : 1);
        std::string last = "p";
        if (window) {
            all += fmt::format("p = Conv<pads = [{0}, {0}, {0}, {0}], strides = [{1}, {1}]>(dx, dw{2}) ", pad, stride,
                               biased ? ", b" : "");
        } else {
            all += "p = MatMul(dx, dw) ";
            if (biased) all += "q = Add(p, b) ", last = "q";
        }
        if (relu) all += fmt::format("r = Relu({}) ", last), last = "r";
        return all + fmt::format("y = QuantizeLinear({}, sy, zy) }}", last);
    }

    // The sum in i64, one product of f32, half to even, saturated.
    Buffer<> expected(const Buffer<> &x) const {
        Buffer<> made(of_y, result());
        const int64_t high = window ? outputs(rows) : 1, wide = window ? outputs(columns) : columns;
        for (int64_t o = 0; o < filters; o++) {
            const float scale = scale_x * scale_w[scale_w.size() == 1 ? 0 : size_t(o)], factor = scale / scale_y;
            for (int64_t at = 0; at < high * wide; at++) {
                int64_t sum = biased ? std::llrint(double(bias[size_t(o)]) / double(scale)) : 0;
                for (int64_t c = 0; c < channels; c++) {
                    for (int64_t k = 0; k < kernel * kernel; k++) {
                        const int64_t r = at / wide * stride + k / kernel - pad,
                                      q = at % wide * stride + k % kernel - pad;
                        if (window && (r < 0 || r >= rows || q < 0 || q >= columns)) continue;
                        const int64_t from = window ? (c * rows + r) * columns + q : at * channels + c;
                        const int64_t by = window ? (o * channels + c) * kernel * kernel + k : c * filters + o;
                        sum += int64_t(byte_of(x, size_t(from)) - zero_x) * (byte_of(w, size_t(by)) - zero_w);
                    }
                }
                float value = float(int32_t(sum)) * factor;
                if (relu) value = std::max(value, 0.f);
                const float low = of_y == u8 ? 0 : -128;
                const float whole = std::clamp(std::nearbyint(value) + float(zero_y), low, low + 255);
                static_cast<uint8_t *>(made.data())[window ? o * high * wide + at : at * filters + o] =
                    uint8_t(int(whole));
            }
        }
        return made;
    }
};

} // namespace

TEST_CASE("random quantised products are exact sums of integers") {
    Random rng(7);
    int64_t elements = 0, differ = 0;
    for (int round = 0; round < 24; round++) {
        const Quantised q(rng);
        CAPTURE(round);
        CAPTURE(q.text().substr(0, 60));
        const Model m = model(q.text());
        const FixedGraph graph = simplified(m);
        CHECK_NE(ops_of(graph).find(q.window ? "ConvInteger" : "MatMulInteger"), std::string::npos);
        CHECK_EQ(ops_of(graph).find("Dequantize"), std::string::npos);
        // The sums of a tensor whose weights do not fit a byte are a kernel more.
        CHECK_LE(group_nodes(graph).size(), q.of_w == u8 ? 4 : 1);
        const Buffer<> x = random_bytes(q.of_x, q.input(), rng), want = q.expected(x);
        check_bytes(evaluate(to_model(graph), {x})[0], want);
        check_bytes(CompiledModel::compile(m).run({x})[0], want);
        // As it is written, in f32: at most one step away.
        const Buffer<> written = evaluate(m, {x})[0];
        for (size_t n = 0; n < want.number_of_elements(); n++) {
            const int difference = std::abs(byte_of(written, n) - byte_of(want, n));
            CHECK_LE(difference, 1);
            elements++, differ += difference;
        }
    }
    MESSAGE(differ << " of " << elements << " elements differ by one step from the graphs as written");
    CHECK_LE(differ * 50, elements);
}

TEST_CASE("with exact rounding, a graph keeps its own products") {
    Random rng(9);
    const Model m = model(Quantised(rng).text());
    const FixedGraph graph = simplified(m, Rounding::Exact);
    CHECK_EQ(ops_of(graph).find("Integer"), std::string::npos);
    const Buffer<> x = random_bytes(graph.value("x").type, graph.value("x").extents, rng);
    check_bytes(evaluate(to_model(graph), {x})[0], evaluate(m, {x})[0]);
}

TEST_CASE("a residual block is a kernel for each convolution") {
    const Model m = model(
        "(uint8[1, 16, 6, 6] x) => (uint8[1, 16, 6, 6] y, uint8[1, 16, 3, 3] z) "
        "<float s = {0.1}, uint8 k = {3}, int8[16, 16, 1, 1] w = {" +
        list_of([] {
            Random rng(3);
            return random_bytes(i8, {16, 16, 1, 1}, rng);
        }()) +
        "}, float t = {0.02}, int8 o = {0}, float u = {0.3}, uint8 v = {0}> "
        "{ a = DequantizeLinear(x, s, k) b = DequantizeLinear(w, t, o) c = Conv(a, b) d = QuantizeLinear(c, s, k) "
        "e = DequantizeLinear(d, s, k) f = Add(a, e) g = Relu(f) y = QuantizeLinear(g, u, v) "
        "h = DequantizeLinear(y, u, v) i = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(h) "
        "z = QuantizeLinear(i, u, v) }");
    const FixedGraph graph = simplified(m);
    CHECK_EQ(groups_of(graph), "ConvInteger+Add+Cast+Mul+QuantizeLinear+DequantizeLinear+DequantizeLinear+Add+"
                               "Mul+QuantizeLinear, MaxPool");
    Random rng(4);
    const Buffer<> x = random_bytes(u8, {1, 16, 6, 6}, rng);
    const std::vector<Buffer<>> want = evaluate(to_model(graph), {x}), got = CompiledModel::compile(m).run({x});
    for (size_t n = 0; n < want.size(); n++) check_bytes(got[n], want[n]);
}

TEST_CASE("QLinearConv and QLinearMatMul have the same bits as sums of integers") {
    Random rng(5);
    for (int round = 0; round < 8; round++) {
        const Quantised q(rng);
        const auto text = [&] {
            std::string all = q.text();
            std::string node = "y = QLinearMatMul(x, sx, zx, w, sw, zw, sy, zy) }";
            if (q.window)
                node = fmt::format("y = QLinearConv<pads = [{0}, {0}, {0}, {0}], strides = [{1}, {1}]>(x, sx, zx, w, "
                                   "sw, zw, sy, zy) }}",
                                   q.pad, q.stride);
            return all.substr(0, all.find("{ dx")) + "{ " + node;
        }();
        CAPTURE(text.substr(0, 60));
        const Model m = model(text);
        const FixedGraph graph = simplified(m, Rounding::Exact);
        CHECK_NE(ops_of(graph).find("Integer"), std::string::npos);
        const Buffer<> x = random_bytes(q.of_x, q.input(), rng), want = evaluate(m, {x})[0];
        check_bytes(evaluate(to_model(graph), {x})[0], want);
        check_bytes(CompiledModel::compile(m).run({x})[0], want);
    }
}

namespace {

// A graph of images [1, C, H, W] as bytes, with one of three quantisations each, and as f32.
class RandomQuantised {
public:
    explicit RandomQuantised(Random &rng) : rng_(rng) {}

    Model make() {
        bytes_ = {{"x", {1, 3, 5, 4}, 0}};
        reals_ = {{"f", {1, 3, 5, 4}, 0}};
        const int steps = 6 + int(rng_.below(8));
        for (int n = 0; n < steps || bytes_.size() < 2 || reals_.size() < 2; n++) step();
        const Value y = bytes_.back(), z = reals_.back();
        return model("(uint8[1, 3, 5, 4] x, float[1, 3, 5, 4] f) => (uint8[A, B, C, D] " + y.name +
                     ", float[E, F, G, H] " + z.name +
                     ") <float s0 = {0.05}, uint8 z0 = {0}, float s1 = {0.03}, uint8 " +
                     "z1 = {128}, float s2 = {0.11}, uint8 z2 = {9}" + constants_ + "> { " + nodes_ + "}");
    }

private:
    struct Value {
        std::string name;
        Extents extents;
        int form; // quantisation of bytes
    };
    std::string next() { return "v" + std::to_string(made_++); }
    std::string scale(int form) { return fmt::format("s{0}, z{0}", form); }
    Value some(const std::vector<Value> &all) { return rng_.chance(0.6) ? all.back() : rng_.pick(all); }
    std::string add(const std::string &text) {
        const std::string name = next();
        nodes_ += name + " = " + text + " ";
        return name;
    }
    void real(const std::string &name, const Extents &e) { reals_.push_back({name, e, 0}); }
    void byte(const std::string &name, const Extents &e, int form) { bytes_.push_back({name, e, form}); }
    std::string dequantised(const Value &v) {
        return add(fmt::format("DequantizeLinear({}, {})", v.name, scale(v.form)));
    }
    std::string weights(int64_t filters, int64_t channels) {
        const std::string name = next();
        const auto few = [&](const Extents &extents) { // differences are bytes
            const Buffer<> b = random_bytes(i8, extents, rng_);
            auto *bytes = static_cast<int8_t *>(b.data());
            for (size_t n = 0; n < b.number_of_elements(); n++) bytes[n] = int8_t(bytes[n] / 2);
            return b;
        };
        const Buffer<> w = few({filters, channels, 1, 1});
        constants_ += fmt::format(", int8[{}, {}, 1, 1] {} = {{{}}}", filters, channels, name, list_of(w));
        constants_ += fmt::format(", float[{0}] {1}s = {{{2}}}, int8[{0}] {1}z = {{{3}}}", filters, name,
                                  list_of(std::vector<float>(size_t(filters), 0.01f)), list_of(few({filters})));
        return name;
    }
    // A node that moves elements, and the extents of its result.
    std::pair<std::string, Extents> move(const std::string &x, const Extents &e) {
        if (rng_.chance(0.4)) return {add("Transpose<perm = [0, 1, 3, 2]>(" + x + ")"), {e[0], e[1], e[3], e[2]}};
        if (rng_.chance(0.4) && e[2] > 1 && e[3] > 1)
            return {add("MaxPool<kernel_shape = [2, 2]>(" + x + ")"), {e[0], e[1], e[2] - 1, e[3] - 1}};
        return {add(fmt::format("Concat<axis = 2>({0}, {0})", x)), {e[0], e[1], 2 * e[2], e[3]}};
    }

    void step() {
        const Value b = some(bytes_), r = some(reals_);
        const int form = int(rng_.below(3));
        const int64_t filters = rng_.between(1, 3);
        const Extents made = {1, filters, b.extents[2], b.extents[3]};
        switch (rng_.below(10)) {
        case 0:
            byte(add(fmt::format("QuantizeLinear({}, {})", add("Relu(" + r.name + ")"), scale(form))), r.extents, form);
            break;
        case 1: {
            const auto [moved, to] = move(dequantised(b), b.extents);
            real(moved, to);
            if (rng_.chance(0.5)) byte(add(fmt::format("QuantizeLinear({}, {})", moved, scale(b.form))), to, b.form);
            break;
        }
        case 2: {
            const auto [moved, to] = move(add("Abs(" + r.name + ")"), r.extents);
            byte(add(fmt::format("QuantizeLinear({}, {})", moved, scale(form))), to, form);
            break;
        }
        case 3: {
            const std::string x = dequantised(b);
            real(add(fmt::format("Add({}, {})", add("Abs(" + x + ")"), add("Relu(" + x + ")"))), b.extents);
            break;
        }
        case 4:
        case 5: {
            const std::string w = weights(filters, b.extents[1]),
                              real_w = add(fmt::format("DequantizeLinear<axis = 0>({0}, {0}s, {0}z)", w));
            const std::string x = dequantised(b), c = add(fmt::format("Conv({}, {})", x, real_w));
            rng_.chance(0.5) ? real(c, made)
                             : byte(add(fmt::format("QuantizeLinear({}, {})", c, scale(form))), made, form);
            break;
        }
        case 6: {
            const std::string w = weights(filters, b.extents[1]);
            byte(add(fmt::format("QLinearConv({}, {}, {}, {}s, {}z, {})", b.name, scale(b.form), w, w, w, scale(form))),
                 made, form);
            break;
        }
        case 7: {
            const std::string w = weights(filters, b.extents[1]),
                              sums = add(fmt::format("ConvInteger({}, {}, z{}, {}z)", b.name, w, b.form, w));
            real(add(fmt::format("Cast<to = 1>({})", sums)), made);
            break;
        }
        case 8: {
            const int to = rng_.chance(0.7) ? b.form : form;
            byte(add(fmt::format("QuantizeLinear({}, {})", dequantised(b), scale(to))), b.extents, to);
            break;
        }
        default: {
            const std::string x = dequantised(b);
            real(add(fmt::format("Add({}, {})", x, rng_.chance(0.5) ? x : dequantised(b))), b.extents);
        }
        }
    }

    Random &rng_;
    std::string nodes_, constants_;
    std::vector<Value> bytes_, reals_;
    int made_ = 0;
};

} // namespace

TEST_CASE("random quantised graphs have the same values after all rules, and as kernels") {
    std::map<std::string, int> fired;
    for (uint64_t seed = 0; seed < 120; seed++) {
        CAPTURE(seed);
        Random rng(seed);
        const Model m = RandomQuantised(rng).make();
        const FixedGraph before = fix_sizes(m);
        const std::vector<Buffer<>> inputs = {random_bytes(u8, {1, 3, 5, 4}, rng),
                                              random_buffer(f32, {1, 3, 5, 4}, seed + 1, -8, 8)};
        std::vector<std::string> order;
        for (const Rule &r : all_rules()) order.push_back(r.name);
        rng.shuffle(order);
        for (const Rounding rounding : {Rounding::Exact, Rounding::Close}) {
            FixedGraph after = before;
            for (const auto &[name, count] : simplify(after, {.rounding = rounding, .rules = order}).rules)
                fired[name] += count.applied;
            const Model b = to_model(after);
            CHECK_NOTHROW(b.check());
            if (rounding == Rounding::Close) continue;
            const std::vector<Buffer<>> x = evaluate(m, inputs), y = evaluate(b, inputs);
            for (size_t o = 0; o < x.size(); o++) check_bytes(y[o], x[o]);
        }
        if (seed % 8 != 0) continue;
        const FixedGraph close = simplified(m);
        const std::vector<Buffer<>> want = evaluate(to_model(close), inputs),
                                    got = CompiledModel::compile(m).run(inputs);
        for (size_t o = 0; o < want.size(); o++) check_bytes(got[o], want[o]);
    }
    for (const Rule &r : all_rules()) {
        CAPTURE(r.name);
        if (r.before.find("int8") != std::string::npos) CHECK_GT(fired[r.name], 0);
    }
}

TEST_CASE("dynamic quantisation subtracts zero points that are known at run time") {
    Random rng(6);
    const Buffer<> w = random_bytes(i8, {20, 16}, rng), k = random_bytes(i8, {16, 4, 3, 3}, rng);
    const Model m = model("(float[5, 20] x, float[1, 4, 5, 5] i) => (float[5, 16] y, float[1, 16, 5, 5] z) "
                          "<int8[20, 16] w = {" +
                          list_of(w) + "}, int8 o = {0}, float t = {0.02}, int8[16, 4, 3, 3] k = {" + list_of(k) +
                          "}> { q, s, n = DynamicQuantizeLinear(x) p = MatMulInteger(q, w, n, o) c = Cast<to = 1>(p) "
                          "u = Mul(s, t) y = Mul(c, u) r, f, g = DynamicQuantizeLinear(i) "
                          "h = ConvInteger<pads = [1, 1, 1, 1]>(r, k, g) l = Cast<to = 1>(h) z = Mul(l, f) }");
    const FixedGraph graph = simplified(m, Rounding::Exact);
    for (const Node &n : graph.nodes) {
        if (n.op == "MatMulInteger" || n.op == "ConvInteger") CHECK_EQ(n.inputs.size(), 2);
    }
    const std::vector<Buffer<>> inputs = {random_buffer(f32, {5, 20}, 1, -2, 3),
                                          random_buffer(f32, {1, 4, 5, 5}, 2, -1, 2)};
    const std::vector<Buffer<>> want = evaluate(m, inputs), got = CompiledModel::compile(m).run(inputs);
    for (size_t n = 0; n < want.size(); n++) check_bytes(got[n], want[n]);
}

TEST_CASE("operators of com.microsoft are computed by those of ONNX") {
    const std::string scales = "<float s = {0.5}, uint8 z = {7}, float t = {0.25}, uint8 k = {9}, float u = {0.75}, "
                               "uint8 v = {100}, uint8[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}, int32[2] c = {-3, 40}, "
                               "float[2] b = {1, 2}> ";
    const auto same = [&](const std::string &type, const std::string &own, const std::string &others) {
        CAPTURE(own);
        const auto run = [&](const std::string &nodes) {
            const std::string text = "(" + type + "[2, 4] x) => (uint8[M, N] y) " + scales + "{ " + nodes + " }";
            Random rng(8);
            const Buffer<> x =
                type == "uint8" ? random_bytes(u8, {2, 4}, rng) : Buffer<>(random_buffer(f32, {2, 4}, 3, -1, 4));
            return evaluate(model(text), {x})[0];
        };
        check_bytes(run(own), run(others));
    };
    const std::string a = "a = DequantizeLinear(x, s, z) ", end = " y = QuantizeLinear(r, u, v)";
    same("uint8", "y = com.microsoft.QLinearAdd(x, s, z, x, t, k, u, v)",
         a + "d = DequantizeLinear(x, t, k) r = Add(a, d)" + end);
    same("uint8", "y = com.microsoft.QLinearMul(x, s, z, x, t, k, u, v)",
         a + "d = DequantizeLinear(x, t, k) r = Mul(a, d)" + end);
    same("uint8", "y = com.microsoft.QLinearSigmoid(x, s, z, u, v)", a + "r = Sigmoid(a)" + end);
    same("uint8", "y = com.microsoft.QLinearLeakyRelu<alpha = 0.5>(x, s, z, u, v)",
         a + "r = LeakyRelu<alpha = 0.5>(a)" + end);
    same("uint8", "y = com.microsoft.QLinearSoftmax<axis = -1, opset = 13>(x, s, z, t, k)",
         a + "r = Softmax(a) y = QuantizeLinear(r, t, k)");
    same("uint8", "y = com.microsoft.QLinearConcat<axis = 1>(u, v, x, s, z, x, t, k)",
         a + "d = DequantizeLinear(x, t, k) r = Concat<axis = 1>(a, d)" + end);
    same("uint8", "y = com.microsoft.QGemm(x, s, z, w, t, k, c, u, v)",
         a + "d = DequantizeLinear(w, t, k) m = Mul(s, t) i = DequantizeLinear(c, m) r = Gemm(a, d, i)" + end);
    same("uint8", "f = com.microsoft.MatMulIntegerToFloat(x, w, s, t, z, k, b) y = QuantizeLinear(f, u, v)",
         "i = MatMulInteger(x, w, z, k) f = Cast<to = 1>(i) m = Mul(s, t) p = Mul(f, m) r = Add(p, b)" + end);
    same("float", "f = com.microsoft.DynamicQuantizeMatMul(x, w, t, k, b) y = QuantizeLinear(f, u, v)",
         "q, e, g = DynamicQuantizeLinear(x) i = MatMulInteger(q, w, g, k) f = Cast<to = 1>(i) m = Mul(e, t) "
         "p = Mul(f, m) r = Add(p, b)" +
             end);
    CHECK_EQ(unsupported_text([&] {
                 fix_sizes(model("(uint8[2, 4] x) => (uint8[M, N] y) " + scales +
                                 "{ y = com.microsoft.QLinearSoftmax<axis = 0, opset = 11>(x, s, z, t, k) }"));
             }),
             "node QLinearSoftmax of \"y\": opset 11 and axis 0; supported is the last axis, or opset 13");
    CHECK_EQ(refusal([&] {
                 fix_sizes(model("(uint8[2, 4] x) => (uint8[M, N] y) " + scales +
                                 "{ y = com.microsoft.QLinearConcat<axis = 1>(u, v, x, s, z, x) }"));
             }),
             "node QLinearConcat of \"y\" has 6 inputs; legal are the scale and zero point of the result, and a "
             "tensor, scale and zero point of each part");
}

// A layer of 2 units and 1 direction by its definition: before a product, X as a whole and the
// state of each step are rounded to bytes.
struct LstmOfBytes {
    static constexpr int steps = 3, inputs = 4, units = 2, rows = 4 * units;
    std::vector<float> x;
    std::vector<int> w, r; // without zero points, [inputs, rows] and [units, rows]
    std::vector<float> w_scale, r_scale;

    // Products of n numbers with the rows, each rounded once to f32.
    static std::vector<float> products(const float *v, int n, float least, float most, const std::vector<int> &weights,
                                       const std::vector<float> &scales) {
        const float scale = most == least ? 1.f : (most - least) / 255.f, zero = std::nearbyint(-least / scale);
        std::vector<float> all;
        for (int row = 0; row < rows; row++) {
            int sum = 0;
            for (int i = 0; i < n; i++) {
                const float whole = std::clamp(std::nearbyint(v[i] / scale) + zero, 0.f, 255.f);
                sum += (static_cast<int>(whole) - static_cast<int>(zero)) * weights[size_t(i * rows + row)];
            }
            all.push_back(static_cast<float>(sum) * (scale * scales[size_t(row)]));
        }
        return all;
    }
    std::vector<float> operator()() const {
        const auto bounds = [](const float *from, size_t n) {
            return std::pair(std::min(0.f, *std::min_element(from, from + n)),
                             std::max(0.f, *std::max_element(from, from + n)));
        };
        const auto sigmoid = [](float v) { return 1 / (1 + std::exp(-v)); };
        const auto [x_least, x_most] = bounds(x.data(), x.size());
        std::vector<float> h(units, 0), c(units, 0), y;
        for (int t = 0; t < steps; t++) {
            const auto [least, most] = bounds(h.data(), h.size());
            std::vector<float> gates = products(&x[size_t(t * inputs)], inputs, x_least, x_most, w, w_scale);
            const std::vector<float> of_state = products(h.data(), units, least, most, r, r_scale);
            for (size_t n = 0; n < gates.size(); n++) gates[n] += of_state[n];
            for (size_t u = 0; u < units; u++) { // gates i, o, f and c
                c[u] = sigmoid(gates[2 * units + u]) * c[u] + sigmoid(gates[u]) * std::tanh(gates[3 * units + u]);
                h[u] = sigmoid(gates[units + u]) * std::tanh(c[u]);
                y.push_back(h[u]);
            }
        }
        return y;
    }
};

const std::string lstm_weights =
    "<int8[1, 4, 8] w = {1, 2, 3, 4, 5, 6, 7, 8, -1, -2, -3, -4, -5, -6, -7, -8, 9, 8, 7, 6, 5, 4, 3, 2, 0, 1, 0, 1, "
    "0, 1, 0, 1}, int8[1, 2, 8] r = {1, -1, 2, -2, 3, -3, 4, -4, 5, -5, 6, -6, 7, -7, 8, -8}, float[1] s = {0.05}, "
    "int8[1] z = {2}, float[1, 8] t = {0.1, 0.2, 0.3, 0.4, 0.1, 0.2, 0.3, 0.4}, int8[1, 8] k = {0, 0, 0, 0, 0, 0, 0, "
    "0}> ";

TEST_CASE("DynamicQuantizeLSTM rounds its input and states to bytes") {
    const Model m = model("(float[3, 1, 4] x) => (float[A, B, C, D] y) " + lstm_weights +
                          "{ y = com.microsoft.DynamicQuantizeLSTM<hidden_size = 2>(x, w, r, , , , , , s, z, t, k) }");
    Buffer<float> x({3, 1, 4});
    LstmOfBytes want;
    for (int i = 0; i < 12; i++) want.x.push_back(x.data()[i] = 0.37f * static_cast<float>(i % 5) - 0.6f);
    want.w = {1, 2, 3, 4, 5, 6, 7, 8, -1, -2, -3, -4, -5, -6, -7, -8, 9, 8, 7, 6, 5, 4, 3, 2, 0, 1, 0, 1, 0, 1, 0, 1};
    for (int &e : want.w) e -= 2;
    want.r = {1, -1, 2, -2, 3, -3, 4, -4, 5, -5, 6, -6, 7, -7, 8, -8};
    want.w_scale.assign(8, 0.05f);
    want.r_scale = {0.1f, 0.2f, 0.3f, 0.4f, 0.1f, 0.2f, 0.3f, 0.4f};
    const Buffer<float> y = evaluate(m, {x})[0];
    const std::vector<float> expected = want();
    for (size_t i = 0; i < expected.size(); i++) CHECK_LT(std::abs(y.data()[i] - expected[i]), 1e-6f);
    const Buffer<float> compiled = CompiledModel::compile(m).run({x})[0];
    for (size_t i = 0; i < expected.size(); i++) CHECK_LT(std::abs(compiled.data()[i] - expected[i]), 1e-6f);
    CHECK_EQ(ops_of(simplified(m, Rounding::Exact)), "DynamicQuantizeLSTM");
}

TEST_CASE("DynamicQuantizeLSTM without scales, or with weights of other types, is an error") {
    const auto refused = [&](const std::string &inputs) {
        return refusal([&] {
            fix_sizes(model("(float[3, 1, 4] x) => (float[A, B, C, D] y) " + lstm_weights +
                            "{ f = Cast<to = 1>(w) y = com.microsoft.DynamicQuantizeLSTM<hidden_size = 2>(" + inputs +
                            ") }"));
        });
    };
    CHECK_NE(refused("x, w, r, , , , , , s, z, t").find("inputs 10 and 11 are missing"), std::string::npos);
    CHECK_NE(refused("x, f, r, , , , , , s, z, t, k").find("its weights \"f\" are f32; legal are i8 and u8"),
             std::string::npos);
    CHECK_NE(refused("x, w, r, , , , , , s, z, x, k").find("input 10 (\"x\") has the extents [3, 1, 4]"),
             std::string::npos);
}

TEST_CASE("contradictory scales and zero points are errors") {
    const auto refused = [](const std::string &constants, const std::string &node) {
        return refusal([&] {
            fix_sizes(model("(uint8[1, 2, 3, 3] x) => (float[A, B, C, D] y) <" + constants + "> { " + node + " }"));
        });
    };
    const auto ends = [](const std::string &text, const std::string &end) {
        CAPTURE(text);
        CHECK_EQ(text.substr(text.size() - std::min(text.size(), end.size())), end);
        CHECK_NE(text.find("node "), std::string::npos);
    };
    const std::string dequantise = "y = DequantizeLinear(x, s, z)";
    ends(refused("float s = {0}, uint8 z = {0}", dequantise),
         "its scale \"s\" has the element 0; legal are numbers above 0");
    ends(refused("float s = {-1}, uint8 z = {0}", dequantise),
         "its scale \"s\" has the element -1; legal are numbers above 0");
    ends(refused("float s = {inf}, uint8 z = {0}", dequantise),
         "its scale \"s\" has the element inf; legal are numbers above 0");
    ends(refused("float s = {1}, int8 z = {0}", dequantise),
         "its zero point \"z\" is i8; legal is the type of the numbers, u8");
    ends(refused("float[3] s = {1, 2, 3}", "y = DequantizeLinear<axis = 1>(x, s)"),
         "a scale or zero point of other extents than axis 1, which has 2");
    ends(refused("int32[1, 1, 1, 2] i = {1, 2}, float s = {1}, int32 z = {5}",
                 "a = DequantizeLinear(i, s, z) b = Cast<to = 1>(x) y = Add(b, a)"),
         "its zero point \"z\" of i32 is not 0; legal is 0");
    ends(refused("int8[1, 2, 1, 1] w = {1, 2}, uint8 k = {0}", "a = ConvInteger(x, w, k, k) y = Cast<to = 1>(a)"),
         "its zero point \"k\" is u8; legal is the type of the numbers, i8");
    ends(refused("int8[1, 2, 1, 1] w = {1, 2}, float s = {1}, uint8 z = {0}, int8 k = {0}, float t = {0}",
                 "a = QLinearConv(x, s, z, w, s, k, t, z) y = Cast<to = 1>(a)"),
         "its scale \"t\" has the element 0; legal are numbers above 0");
}
