// Transposes that a product takes in, or that cancel across pointwise nodes.
#include "graph/rules/constants.h"
#include "graph/rules/rules.h"
#include "graph/rules/views.h"

#include <algorithm>
#include <deque>

namespace kumiko::graph {

namespace {

constexpr size_t most_transposed_nodes = 64;

bool is_transpose(const Node *n) { return n && n->domain.empty() && n->op == "Transpose"; }

bool transpose_in_product(Rewriter &g, const Node &n) {
    const bool gemm = n.op == "Gemm";
    if (!n.domain.empty() || (!gemm && n.op != "MatMul") || n.inputs.size() < 2) return false;
    const Type type = g.value(n.outputs[0]).type;
    // Before 11 a Gemm needs a bias.
    if (!gemm && (n.opset < 11 || (type != f32 && type != f64 && type != f16))) return false;
    Node made = n;
    made.op = "Gemm";
    bool changed = false;
    for (size_t i = 0; i < 2; i++) {
        if (g.extents(n.inputs[i]).size() != 2) return false;
        const Node *before = g.producer(n.inputs[i]);
        if (!is_transpose(before) || order_of(g, *before)[0] != 1) continue;
        const std::string attribute = i == 0 ? "transA" : "transB";
        made.inputs[i] = before->inputs[0];
        made.attributes[attribute].value = int64_t(n.integer(attribute, 0) == 0);
        changed = true;
    }
    if (changed) g.substitute(n, made);
    return changed;
}

// Nodes around a Transpose that may work on its input instead.
class Region {
public:
    Region(Rewriter &graph, const Node &transpose)
        : g_(graph), order_(order_of(graph, transpose)), inverse_(order_.size()) {
        for (size_t d = 0; d < order_.size(); d++) inverse_[order_[d]] = d;
        add_value(transpose.outputs[0]);
    }

    // Returns false if no transpose is saved.
    bool apply() {
        if (!grow() || nodes_.empty()) return false;
        std::sort(nodes_.begin(), nodes_.end(), [&](const Node *a, const Node *b) { return g_.precedes(*a, *b); });
        // A Transpose that one pointwise node reads becomes part of that node's kernel; others are
        // copies.
        int saved = 0, copies = 0;
        for (const std::string &v : values_) {
            const bool inside = nodes_set_.count(g_.producer(v)) > 0;
            if (inside && !cancelled(v).empty()) saved++, copies += is_copy(cancelled(v)[0]->outputs[0]);
            if (inside && leaves(v)) saved--, copies -= outside_readers(v) != 1;
            if (!inside && !is_source(v)) saved--, copies -= g_.readers(v).size() != 1;
            if (!inside && is_source(v) && !is_read_outside(v)) saved++, copies += is_copy(v);
        }
        if (saved <= 0 || copies < 0) return false;
        rewrite();
        return true;
    }

private:
    bool has_order(const Node *n, const std::vector<size_t> &order) const {
        return is_transpose(n) && g_.extents(n->inputs[0]).size() == order.size() && order_of(g_, *n) == order;
    }
    bool is_source(const std::string &v) const { return has_order(g_.producer(v), order_); }

    void add_value(const std::string &v) {
        if (values_set_.insert(v).second) values_.push_back(v), todo_.push_back(v);
    }

    void add_node(const Node *n) {
        if (!nodes_set_.insert(n).second) return;
        nodes_.push_back(n);
        add_value(n->outputs[0]);
        for (const std::string &i : n->inputs) {
            if (!i.empty() && !g_.value(i).constant) add_value(i);
        }
    }

    bool grow() {
        while (!todo_.empty()) {
            const std::string v = todo_.front();
            todo_.pop_front();
            if (nodes_.size() > most_transposed_nodes) return false;
            const Node *p = g_.producer(v);
            if (p && commutes(g_, *p)) add_node(p);
            // The readers of what enters the region need not be in it.
            if (!is_source(v) && !nodes_set_.count(p)) continue;
            for (const Node *r : g_.readers(v)) {
                if (commutes(g_, *r)) add_node(r);
            }
        }
        return true;
    }

    // Transposes that undo the order.
    std::vector<const Node *> cancelled(const std::string &v) const {
        std::vector<const Node *> all;
        for (const Node *r : g_.readers(v)) {
            if (has_order(r, inverse_)) all.push_back(r);
        }
        return all;
    }

    bool is_copy(const std::string &transposed) const {
        const Node *reader = g_.only_reading_node(transposed);
        return !reader || !commutes(g_, *reader);
    }

    // Of a value that the region makes; 0 if none of them is pointwise.
    size_t outside_readers(const std::string &v) const {
        if (g_.is_output(v)) return 0;
        size_t count = 0;
        for (const Node *r : g_.readers(v)) {
            if (nodes_set_.count(r) || has_order(r, inverse_)) continue;
            if (!commutes(g_, *r)) return 0;
            count++;
        }
        return count;
    }

    bool is_read_outside(const std::string &v) const {
        if (g_.is_output(v)) return true;
        const std::vector<const Node *> readers = g_.readers(v);
        return std::any_of(readers.begin(), readers.end(), [&](const Node *r) { return !nodes_set_.count(r); });
    }

    // Whether others than the region and transposes that undo the order read the value.
    bool leaves(const std::string &v) const {
        if (g_.is_output(v)) return true;
        const std::vector<const Node *> readers = g_.readers(v);
        return std::any_of(readers.begin(), readers.end(),
                           [&](const Node *r) { return !nodes_set_.count(r) && !has_order(r, inverse_); });
    }

    Node transpose(const Node &like, const std::string &from, const std::string &to, const std::vector<size_t> &order) {
        Node made = make_node(like, "Transpose", {from}, {to});
        made.attributes["perm"].value = std::vector<int64_t>(order.begin(), order.end());
        return made;
    }

    std::string constant_before(const std::string &name) {
        const Buffer<> &b = *g_.value(name).value;
        if (b.number_of_elements() == 1) return name;
        const auto made = before_.find(name);
        if (made != before_.end()) return made->second;
        Extents extents(order_.size() - b.rank(), 1);
        for (const int64_t e : b.extents()) extents.push_back(e);
        return before_[name] =
                   g_.add_constant(name, "transposed", transposed_copy(reshaped_copy(b, extents), inverse_));
    }

    void rewrite() {
        std::vector<const Node *> old(nodes_.begin(), nodes_.end());
        std::vector<NewNode> made;
        for (const Node *n : nodes_) {
            Node copy = *n;
            for (std::string &i : copy.inputs) {
                if (i.empty()) continue;
                if (g_.value(i).constant) {
                    i = constant_before(i);
                    continue;
                }
                const auto known = before_.find(i);
                if (known != before_.end()) {
                    i = known->second;
                    continue;
                }
                std::string from;
                if (is_source(i)) {
                    from = g_.producer(i)->inputs[0];
                } else {
                    from = unique(i);
                    made.push_back({n, transpose(*n, i, from, inverse_)});
                }
                before_[i] = from;
                i = from;
            }
            if (n->op == "Concat") {
                const int64_t axis = n->integer("axis", 1);
                const size_t own = size_t(axis < 0 ? axis + int64_t(order_.size()) : axis);
                copy.attributes["axis"].value = static_cast<int64_t>(order_[own]);
            }
            const std::string &v = n->outputs[0];
            const std::vector<const Node *> undone = cancelled(v);
            const std::string to = undone.empty() ? unique(v) : undone[0]->outputs[0];
            before_[v] = to;
            copy.outputs = {to};
            made.push_back({n, copy});
            for (const Node *t : undone) {
                old.push_back(t);
                if (t != undone[0]) made.push_back({n, make_node(*t, "Identity", {to}, t->outputs)});
            }
            if (leaves(v)) made.push_back({n, transpose(*n, to, v, order_)});
        }
        g_.substitute(old, made);
    }

    std::string unique(const std::string &v) const { return g_.new_name(v + "/transposed"); }

    Rewriter &g_;
    const std::vector<size_t> order_;
    std::vector<size_t> inverse_;
    std::vector<const Node *> nodes_;
    std::set<const Node *> nodes_set_;
    std::vector<std::string> values_; // in the order of the Transpose
    std::set<std::string> values_set_;
    std::deque<std::string> todo_;
    std::map<std::string, std::string> before_; // the same in the order before the Transpose
};

bool cancel_transposes(Rewriter &g, const Node &n) {
    if (!is_transpose(&n) || g.value(n.inputs[0]).constant) return false;
    return Region(g, n).apply();
}

} // namespace

std::vector<Rule> transposes_rules() {
    return {
        {"transpose_in_product", "A MatMul of two matrices, or a Gemm, reads a Transpose.",
         "It becomes a Gemm with transA or transB.", Rounding::Exact, "ONNX Runtime: GemmTransposeFusion",
         "(float[2, 3] x, float[4, 3] w) => (float[2, 4] y) { t = Transpose(w) y = MatMul(x, t) }",
         "(float[2, 3] x, float[4, 3] w) => (float[2, 4] y) { y = Gemm<transB = 1>(x, w) }", transpose_in_product},
        {"cancel_transposes",
         "Connected pointwise nodes and Concats need fewer Transposes, and no more copies, if they work in the order "
         "of "
         "axes before a Transpose.",
         "They work in that order, with their constants transposed.", Rounding::Exact,
         "ONNX Runtime: TransposeOptimizer",
         "(float[1, 2, 3, 4] x) => (float[1, 2, 3, 4] y) <float[2] c = {1, 2}> "
         "{ a = Transpose<perm = [0, 2, 3, 1]>(x) b = Mul(a, c) d = Sigmoid(b) y = Transpose<perm = [0, 3, 1, 2]>(d) }",
         "(float[1, 2, 3, 4] x) => (float[1, 2, 3, 4] y) <float[1, 2, 1, 1] c = {1, 2}> { b = Mul(x, c) y = Sigmoid(b) "
         "}",
         cancel_transposes},
    };
}

} // namespace kumiko::graph
