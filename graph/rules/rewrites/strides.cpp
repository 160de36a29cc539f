// Pixels that nothing reads.
#include "graph/formulas/windows.h"
#include "graph/rules/constants.h"
#include "graph/rules/rules.h"
#include "graph/rules/views.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace kumiko::graph {

namespace {

using Strides = std::vector<int64_t>; // of the axes after the batch and the channels

Strides window_strides(const Rewriter &g, const Node &window) {
    return window.integers("strides", Strides(g.extents(window.outputs.at(0)).size() - 2, 1));
}

bool is_one(int64_t n) { return n == 1; }

// The strides of a convolution that reads single pixels, from the first one on; empty if it reads
// all pixels or is another node.
Strides strides_between_pixels(const Rewriter &g, const Node &n) {
    if (!n.domain.empty() || n.op != "Conv") return {};
    const Extents &weights = g.extents(n.inputs.at(1));
    const Strides pads = n.integers("pads"), strides = window_strides(g, n);
    if (!std::all_of(weights.begin() + 2, weights.end(), is_one) ||
        std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p != 0; }))
        return {};
    return std::all_of(strides.begin(), strides.end(), is_one) ? Strides() : strides;
}

// Whether larger strides make the node compute fewer pixels of the same values.
bool takes_strides(const Node &n) {
    static const std::set<std::string> windows = {"Conv", "MaxPool", "AveragePool"};
    const std::string automatic = n.text("auto_pad", "NOTSET");
    return n.domain.empty() && windows.count(n.op) && n.named_outputs().size() == 1 && n.integer("ceil_mode", 0) == 0 &&
           (automatic == "NOTSET" || automatic == "VALID");
}

// The nodes before some readers of single pixels that can leave out the other pixels: pointwise
// nodes, and windows where they begin.
class StridedRegion {
public:
    StridedRegion(Rewriter &g, const std::vector<const Node *> &readers, Strides strides)
        : g_(g), readers_(readers), strides_(std::move(strides)), inside_(readers.begin(), readers.end()) {}

    bool same_for_pixels(const std::string &value) const {
        const Extents &e = g_.extents(value);
        return std::all_of(e.rbegin(), e.rbegin() + std::ptrdiff_t(std::min(e.size(), strides_.size())), is_one);
    }
    // Adds what computes the value, if only the region's pointwise nodes and readers read it.
    void add(const std::string &value) {
        const Node *n = g_.producer(value);
        if (!n || inside_.count(n) || g_.is_output(value) || !closed(value)) return;
        if (takes_strides(*n)) {
            inside_.insert(n);
            windows_.insert(n);
        } else if (is_pointwise(*n)) {
            inside_.insert(n);
            for (const std::string &i : n->inputs) {
                if (!i.empty() && !same_for_pixels(i)) add(i);
            }
        }
    }
    bool has_windows() const { return !windows_.empty(); }

    void replace() {
        std::vector<const Node *> old(inside_.begin(), inside_.end());
        std::sort(old.begin(), old.end(), [&](const Node *a, const Node *b) { return g_.precedes(*a, *b); });
        for (const Node *n : old) {
            Node made = *n;
            if (windows_.count(n)) {
                Strides own = window_strides(g_, *n);
                for (size_t d = 0; d < own.size(); d++) {
                    // One pixel is left of an axis that is shorter than its stride.
                    own[d] = std::min<int64_t>(own[d] * strides_[d], INT32_MAX);
                }
                made.attributes["strides"].value = own;
                made.metadata.erase(winograd_key); // another tile may be better
                made.outputs[0] = fewer(n->outputs[0]);
            } else if (std::count(readers_.begin(), readers_.end(), n)) {
                made.inputs[0] = fewer_of(*n, n->inputs[0]);
                made.attributes["strides"].value = Strides(strides_.size(), 1);
            } else {
                for (std::string &i : made.inputs) i = fewer_of(*n, i);
                made.outputs[0] = fewer(n->outputs[0]);
            }
            made_.push_back({n, made});
        }
        g_.substitute(old, made_);
    }

private:
    bool closed(const std::string &value) const {
        const std::vector<const Node *> all = g_.readers(value);
        // A window inside reads all pixels.
        return std::all_of(all.begin(), all.end(),
                           [&](const Node *r) { return inside_.count(r) > 0 && windows_.count(r) == 0; });
    }

    bool is_pointwise(const Node &n) const {
        if (!commutes(g_, n) || (n.op == "Concat" && n.integer("axis", 0) != 1)) return false;
        const Extents &result = g_.extents(n.outputs.at(0));
        // Each input has all pixels, or the same value for all.
        return std::all_of(n.inputs.begin(), n.inputs.end(), [&](const std::string &i) {
            if (i.empty()) return true;
            const Extents &e = g_.extents(i);
            return same_for_pixels(i) ||
                   (e.size() == result.size() && std::equal(e.begin() + 2, e.end(), result.begin() + 2));
        });
    }

    // The name of the fewer pixels of a value.
    const std::string &fewer(const std::string &value) {
        std::string &name = names_[value];
        if (name.empty()) name = g_.new_name(value + "/strided");
        return name;
    }
    // The same of a value that a node reads: of one from outside of the region,
    std::string fewer_of(const Node &reader, const std::string &value) {
        if (value.empty() || names_.count(value)) return value.empty() ? value : fewer(value);
        if (same_for_pixels(value)) return value;
        made_.push_back({&reader, pixels_of(reader, value)});
        return fewer(value);
    }

    // The pixels of a value from outside of the region.
    Node pixels_of(const Node &reader, const std::string &value) {
        const int64_t axes = int64_t(strides_.size());
        if (reader.opset < 10) { // without Slices of steps
            Node pool = make_node(reader, "MaxPool", {value}, {fewer(value)});
            pool.attributes["kernel_shape"].value = Strides(strides_.size(), 1);
            pool.attributes["strides"].value = strides_;
            return pool;
        }
        const Extents &all = g_.extents(value);
        Extents axis(strides_.size());
        std::iota(axis.begin(), axis.end(), 2);
        std::vector<std::string> inputs = {value};
        const auto add = [&](const char *suffix, const Extents &numbers) {
            inputs.push_back(g_.add_constant(value, suffix, int64_tensor(numbers, {axes})));
        };
        add("starts", Extents(strides_.size(), 0));
        add("ends", Extents(all.begin() + 2, all.end()));
        add("axes", axis);
        add("steps", strides_);
        return make_node(reader, "Slice", inputs, {fewer(value)});
    }

    Rewriter &g_;
    const std::vector<const Node *> &readers_;
    const Strides strides_;
    std::set<const Node *> inside_, windows_;
    std::map<std::string, std::string> names_;
    std::vector<NewNode> made_;
};

bool strides_before_readers(Rewriter &g, const Node &n) {
    const Strides strides = strides_between_pixels(g, n);
    if (strides.empty()) return false;
    const std::vector<const Node *> readers = g.readers(n.inputs[0]);
    for (const Node *r : readers) {
        if (strides_between_pixels(g, *r) != strides ||
            std::count(r->inputs.begin(), r->inputs.end(), n.inputs[0]) != 1 || r->inputs[0] != n.inputs[0])
            return false;
    }
    StridedRegion region(g, readers, strides);
    if (!region.same_for_pixels(n.inputs[0])) region.add(n.inputs[0]);
    if (!region.has_windows()) return false;
    region.replace();
    return true;
}

} // namespace

std::vector<Rule> strides_rules() {
    return {
        {"strides_before_readers",
         "All readers of a tensor are Convs of single pixels with the same strides. It is computed by pointwise nodes "
         "and by at least one Conv, MaxPool or AveragePool, which nothing else reads.",
         "The windows take the strides, so that only the pixels that are read are computed. Slices or MaxPools take "
         "these pixels of other tensors.",
         Rounding::Exact, "OpenVINO: StridesOptimization",
         "(float[1, 1, 4, 4] x) => (float[1, 2, 2, 2] y, float[1, 1, 2, 2] z) <float[1, 1, 3, 3] w = {1, 2, 3, 4, 5, "
         "6, "
         "7, 8, 9}, float[2, 1, 1, 1] u = {1, 2}, float[1, 1, 1, 1] v = {3}> { a = Conv<pads = [1, 1, 1, 1]>(x, w) "
         "b = Add(a, x) c = Relu(b) y = Conv<strides = [2, 2]>(c, u) z = Conv<strides = [2, 2]>(c, v) }",
         "(float[1, 1, 4, 4] x) => (float[1, 2, 2, 2] y, float[1, 1, 2, 2] z) <float[1, 1, 3, 3] w = {1, 2, 3, 4, 5, "
         "6, "
         "7, 8, 9}, float[2, 1, 1, 1] u = {1, 2}, float[1, 1, 1, 1] v = {3}, int64[2] s = {0, 0}, int64[2] e = {4, 4}, "
         "int64[2] d = {2, 3}, int64[2] t = {2, 2}> { a = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w) "
         "p = Slice(x, s, e, d, t) b = Add(a, p) c = Relu(b) y = Conv<strides = [1, 1]>(c, u) "
         "z = Conv<strides = [1, 1]>(c, v) }",
         strides_before_readers},
    };
}

} // namespace kumiko::graph
