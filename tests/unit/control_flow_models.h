// Models with control flow: text of ONNX, and random ones whose results are small whole numbers, so
// that any order of operations gives the same bits.
#pragma once

#include "tests/unit/graph_model.h"

#include <fmt/format.h>
#include <random>
#include <string>
#include <vector>

namespace kumiko::control_flow {

using graph::model;

inline std::string branch(const std::string &result, const std::string &condition, const std::string &yes,
                          const std::string &no) {
    return fmt::format("{} = If <then_branch = t {}, else_branch = e {}> ({}) ", result, yes, no, condition);
}

// A graph of text with inputs x and y (float[2, 3]), c (bool) and n (int64, 0 to 4).
class RandomControlFlow {
public:
    explicit RandomControlFlow(uint32_t seed) : draw_(seed + 1) {}

    graph::Model make() {
        std::vector<std::string> values = {"x", "y"};
        const std::string body = statements(values, 3, 5);
        return model("(float[2, 3] x, float[2, 3] y, bool c, int64 n) => (float[2, 3] " + values.back() +
                         ", float[2, 3] " + values[values.size() / 2] + ")",
                     body, "float k = {1}, int64 three = {3}, int64[1] zeroth = {0}");
    }

private:
    unsigned below(unsigned n) { return unsigned(draw_() >> 8) % n; }
    std::string fresh(const std::string &kind) { return kind + std::to_string(names_++); }
    const std::string &any(const std::vector<std::string> &values) { return values[below(unsigned(values.size()))]; }

    // Adds statements that define further values.
    std::string statements(std::vector<std::string> &values, int depth, unsigned count) {
        std::string text;
        for (unsigned n = 0; n < count; n++) {
            const unsigned kind = below(depth > 0 ? 9 : 5);
            const std::string a = any(values), b = any(values), made = fresh("v");
            static const char *const pairs[] = {"Sub", "Max", "Min"};
            if (kind < 3)
                text += fmt::format("{} = {}({}, {}) ", made, pairs[kind], a, b);
            else if (kind == 3)
                text += fmt::format("{} = Neg({}) ", made, a);
            else if (kind == 4)
                text += fmt::format("{0}s = ReduceMax<keepdims = 1>({1}) {0} = Sub({2}, {0}s) ", made, a, b);
            else if (kind < 7)
                text += branches(values, made, depth);
            else if (kind == 7)
                text += loop(values, made, depth);
            else
                text += scan(values, made, depth);
            values.push_back(made);
        }
        return text;
    }

    // A graph that returns `results` values of its own or of the enclosing graphs.
    std::string inner(std::vector<std::string> values, int depth, const std::string &inputs, const std::string &before,
                      unsigned results, const std::string &first) {
        const std::string body = statements(values, depth, 1 + below(3));
        std::string outputs = first, copies;
        for (unsigned n = 0; n < results; n++) {
            const std::string name = fresh("r");
            outputs += (outputs.empty() ? "float[2, 3] " : ", float[2, 3] ") + name;
            copies += fmt::format("{} = Identity({}) ", name, n == 0 ? values.back() : any(values));
        }
        return fmt::format("({}) => ({}) {{ {}{}{} }}", inputs, outputs, before, body, copies);
    }

    std::string condition(const std::vector<std::string> &values, const std::string &name) {
        if (below(2)) return fmt::format("{} = Identity(c) ", name);
        return fmt::format("{0}m = ReduceMax<keepdims = 0>({1}) {0} = Less({0}m, k) ", name, any(values));
    }

    std::string branches(const std::vector<std::string> &values, const std::string &made, int depth) {
        const std::string cond = fresh("q"), second = fresh("u");
        const std::string yes = inner(values, depth - 1, "", "", 2, ""), no = inner(values, depth - 1, "", "", 2, "");
        return condition(values, cond) + branch(made + ", " + second, cond, yes, no);
    }

    std::string loop(const std::vector<std::string> &values, const std::string &made, int depth) {
        const std::string i = fresh("i"), go = fresh("g"), on = fresh("o"), p = fresh("s"), q = fresh("s");
        std::vector<std::string> known = values;
        known.push_back(p), known.push_back(q);
        std::string before = fmt::format("{0}f = Cast<to = 1>({0}) {1}i = Sub({1}, {0}f) ", i, p);
        known.push_back(p + "i");
        std::string first = "bool " + on;
        switch (below(3)) {
        case 0:
            before += fmt::format("{} = Identity({}) ", on, go);
            break;
        case 1:
            before += fmt::format("{0}m = ReduceMax<keepdims = 0>({1}) {0} = Less({0}m, k) ", on, q);
            break;
        default:
            before += fmt::format("{0} = Less({1}, n) ", on, i);
        }
        const bool rows = below(2) && before.find("Identity") != std::string::npos;
        const std::string body =
            inner(known, depth - 1, fmt::format("int64 {}, bool {}, float[2, 3] {}, float[2, 3] {}", i, go, p, q),
                  before, rows ? 3 : 2, first);
        const std::string count = rows || below(2) ? "three" : "n", cond = below(2) || rows ? "" : "c";
        const std::string results = rows ? fmt::format("{0}p, {0}q, {0}a", made) : fmt::format("{0}p, {0}q", made);
        std::string text = fmt::format("{} = Loop <body = l {}> ({}, {}, {}, {}) ", results, body, count, cond,
                                       any(values), any(values));
        if (rows)
            return text + fmt::format("{0}t = ReduceMax<keepdims = 0>({0}a, zeroth) {0} = Sub({0}t, {0}q) ", made);
        return text + fmt::format("{0} = Sub({0}p, {0}q) ", made);
    }

    // A Scan over the rows of a value.
    std::string scan(const std::vector<std::string> &values, const std::string &made, int depth) {
        (void)depth;
        const std::string s = fresh("s"), r = fresh("w"), t = fresh("t"), o = fresh("z");
        return fmt::format(
            "{0}i = ReduceMax<keepdims = 0>({1}, zeroth) {0}f, {0} = Scan <num_scan_inputs = 1, "
            "scan_input_directions = [{6}], scan_output_directions = [{7}], body = b (float[3] {2}, float[3] {3}) => "
            "(float[3] {4}, float[3] {5}) {{ {4} = Sub({3}, {2}) {5} = Max({2}, {3}) }}> ({0}i, {8}) ",
            made, any(values), s, r, t, o, below(2), below(2), any(values));
    }

    std::minstd_rand draw_;
    int names_ = 0;
};

inline graph::Model random_model(uint32_t seed) { return RandomControlFlow(seed).make(); }

// Small whole numbers; of n, 0 to 4.
inline Buffer<> input_of(Type type, const std::vector<int64_t> &extents, uint32_t seed) {
    Buffer<> b(type, extents);
    std::minstd_rand draw(seed * 7 + 1);
    for (size_t i = 0; i < b.number_of_elements(); i++) {
        const int value = int((draw() >> 8) % 9) - 4;
        if (type == f32) static_cast<float *>(b.data())[i] = float(value);
        if (type == i64) static_cast<int64_t *>(b.data())[i] = std::abs(value);
        if (type == boolean) static_cast<uint8_t *>(b.data())[i] = value > 0;
    }
    return b;
}

} // namespace kumiko::control_flow
