// Operators of classical machine learning: of ai.onnx.ml, and vectors of n-gram counts.
#include "dsl/buffer_elements.h"
#include "dsl/halide_passes.h"
#include "dsl/math.h"
#include "dsl/reduction.h"
#include "dsl/types.h"
#include "graph/formulas/formula.h"

#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <memory>

namespace kumiko::graph {

namespace {

constexpr size_t max_terms = 1 << 12; // of a formula that has a term for each constant
constexpr int deepest_tree = 256;     // levels, each of which nests expressions

Made binarizer(Call &c) {
    const View x = c.in(0);
    const double threshold = c.node.number("threshold", 0);
    return {mapped(x, x.type, [=](const Element &e) -> Element {
        const Type t = e.type();
        return select(e > number(t, threshold), number(t, 1), number(t, 0));
    })};
}

Made array_feature_extractor(Call &c) {
    View x = c.in(0);
    const View index = reshaped(c.in(1), {View{c.type(1), c.extents(1), {}}.elements()});
    if (x.rank() == 0) c.fail("a tensor without axes");
    if (x.rank() == 1) x = reshaped(x, {1, x.extents[0]});
    const int64_t extent = x.extents.back();
    if (extent == 0 || index.extents[0] == 0) c.fail("a last axis, or indices, without elements");
    Extents extents = x.extents;
    extents.back() = index.extents[0];
    return {View{x.type, extents, [=](const Indices &i) -> Element {
                     Indices at = i;
                     at.back() = Halide::clamp(cast(i32, index.at({i.back()})), 0, static_cast<int>(extent - 1));
                     return x.at(at);
                 }}};
}

// --- trees ---

std::vector<double> doubles(const Call &c, const std::string &attribute) {
    const auto tensor = c.node.tensor(attribute);
    std::vector<double> all;
    if (tensor)
        for_each_element(tensor->raw_buffer(), [&](const std::vector<int64_t> &, const uint8_t *p) {
            all.push_back(read_element(tensor->type(), p));
        });
    return all;
}

struct Trees {
    std::vector<int64_t> features, true_ids, false_ids, true_leaves, false_leaves, missing, targets, roots;
    std::vector<double> splits, modes, weights;
    std::vector<std::vector<double>> members; // by node
};

Trees trees_of(const Call &c) {
    Trees t;
    t.features = c.node.integers("nodes_featureids"), t.true_ids = c.node.integers("nodes_truenodeids");
    t.false_ids = c.node.integers("nodes_falsenodeids"), t.true_leaves = c.node.integers("nodes_trueleafs");
    t.false_leaves = c.node.integers("nodes_falseleafs"), t.roots = c.node.integers("tree_roots");
    t.targets = c.node.integers("leaf_targetids"), t.weights = doubles(c, "leaf_weights");
    t.splits = doubles(c, "nodes_splits"), t.modes = doubles(c, "nodes_modes");
    const size_t nodes = t.splits.size();
    t.missing = c.node.integers("nodes_missing_value_tracks_true", std::vector<int64_t>(nodes, 0));
    for (const auto *all : {&t.features, &t.true_ids, &t.false_ids, &t.true_leaves, &t.false_leaves, &t.missing}) {
        if (all->size() != nodes) c.fail("its lists of nodes have different lengths");
    }
    if (t.modes.size() != nodes || t.targets.size() != t.weights.size())
        c.fail("its lists of nodes or of leaves have different lengths");
    const size_t terms = nodes + t.weights.size() + t.roots.size();
    if (terms > max_terms)
        c.unsupported(fmt::format("trees of {} nodes and leaves; supported are {}", terms, max_terms));
    // The members of each node that tests for them end with NaN.
    const std::vector<double> members = doubles(c, "membership_values");
    if (members.size() > max_terms)
        c.unsupported(fmt::format("{} membership_values; supported are {}", members.size(), max_terms));
    t.members.resize(nodes);
    size_t next = 0;
    for (size_t n = 0; n < nodes; n++) {
        if (t.modes[n] != 6) continue;
        for (; next < members.size() && !std::isnan(members[next]); next++) t.members[n].push_back(members[next]);
        if (next++ >= members.size()) c.fail("a node tests for members, and membership_values has none for it");
    }
    return t;
}

Made tree_ensemble(Call &c) {
    const View x = c.in(0);
    const Trees trees = trees_of(c);
    const int64_t targets = c.node.integer("n_targets", 1), aggregate = c.node.integer("aggregate_function", 1);
    if (x.rank() != 2 || targets < 1) c.fail("its input has not two axes, or n_targets is below 1");
    if (c.node.integer("post_transform", 0) != 0) c.unsupported("a post_transform; supported is none");
    if (aggregate < 0 || aggregate > 3)
        c.fail(fmt::format("aggregate_function is {}; legal are 0 (average), 1 (sum), 2 (minimum), 3 (maximum)",
                           aggregate));
    const Type type = x.type, t = accumulator(type);
    const bool extreme = aggregate >= 2;
    // The value of a target that no tree reaches: 0, or the end of the type's range.
    const double end = type == f64   ? std::numeric_limits<double>::max()
                       : type == f16 ? 65504
                                     : std::numeric_limits<float>::max();
    const Element none = number(t, aggregate == 2 ? end : aggregate == 3 ? -end : 0);
    const size_t nodes = trees.splits.size();
    for (const int64_t id : trees.targets) {
        if (id < 0 || id >= targets) c.fail(fmt::format("the target {}; legal are 0 to {}", id, targets - 1));
    }
    // Each node has one parent.
    const auto seen = std::make_shared<std::vector<bool>>();
    return {
        View{type, {x.extents[0], targets}, [=, &c](const Indices &i) -> Element {
                 seen->assign(nodes, false);
                 const auto leaf = [&](int64_t id) -> Element {
                     if (id < 0 || size_t(id) >= trees.weights.size())
                         c.fail(fmt::format("a node leads to leaf {}", id));
                     const Element own = Element(i[1] == static_cast<int>(trees.targets[size_t(id)]));
                     return select(own, number(t, trees.weights[size_t(id)]), none);
                 };
                 const std::function<Element(int64_t, bool, int)> value = [&](int64_t id, bool is_leaf,
                                                                              int level) -> Element {
                     if (is_leaf) return leaf(id);
                     const auto n = static_cast<size_t>(id);
                     if (id < 0 || n >= nodes || (*seen)[n])
                         c.fail(fmt::format("a node leads to node {}, which does not exist or has another parent", id));
                     if (level > deepest_tree)
                         c.unsupported(fmt::format("a tree of more than {} levels", deepest_tree));
                     (*seen)[n] = true;
                     if (trees.features[n] < 0 || trees.features[n] >= x.extents[1])
                         c.fail(fmt::format("node {} reads feature {} of {}", id, trees.features[n], x.extents[1]));
                     const Element e = cast(t, x.at({i[0], static_cast<int>(trees.features[n])}));
                     const Element split = number(t, trees.splits[n]);
                     Element taken = cast(boolean, Expr(0));
                     switch (static_cast<int>(trees.modes[n])) {
                     case 0:
                         taken = e <= split;
                         break;
                     case 1:
                         taken = e < split;
                         break;
                     case 2:
                         taken = e >= split;
                         break;
                     case 3:
                         taken = e > split;
                         break;
                     case 4:
                         taken = e == split;
                         break;
                     case 5:
                         taken = e != split;
                         break;
                     case 6:
                         for (const double m : trees.members[n]) taken = taken || e == number(t, m);
                         break;
                     default:
                         c.fail(fmt::format("node {} has the mode {}; legal are 0 to 6", id, trees.modes[n]));
                     }
                     if (trees.missing[n] != 0) taken = taken || e != e;
                     const Element yes = value(trees.true_ids[n], trees.true_leaves[n] != 0, level + 1);
                     return select(taken, yes, value(trees.false_ids[n], trees.false_leaves[n] != 0, level + 1));
                 };
                 Element total = none;
                 for (const int64_t root : trees.roots) {
                     const auto n = static_cast<size_t>(root);
                     if (root < 0 || n >= nodes) c.fail(fmt::format("the root {}, which is no node", root));
                     // A tree of one leaf is a node that leads to it both ways.
                     const bool alone = trees.true_leaves[n] != 0 && trees.false_leaves[n] != 0 &&
                                        trees.true_ids[n] == trees.false_ids[n];
                     const Element own = alone ? leaf(trees.true_ids[n]) : value(root, false, 1);
                     total = !extreme         ? Element(total + own)
                             : aggregate == 2 ? Element(min(total, own))
                                              : Element(max(total, own));
                 }
                 if (aggregate == 0)
                     total = total / number(t, static_cast<double>(std::max<size_t>(trees.roots.size(), 1)));
                 return cast(type, total);
             }}};
}

// --- n-grams ---

struct Gram {
    std::vector<int64_t> items;
    int64_t output;
};

// Counts how often each n-gram of a pool occurs in a row, with items that are left out between its
// own: as many between any two.
Made tf_idf_vectorizer(Call &c) {
    if (c.node.has("pool_strings")) c.unsupported("n-grams of texts; supported are those of integers");
    const std::string mode = c.choice("mode", "TF", {"TF", "IDF", "TFIDF"});
    const std::vector<int64_t> starts = c.node.integers("ngram_counts"), outputs = c.node.integers("ngram_indexes"),
                               pool = c.node.integers("pool_int64s");
    const int64_t least = c.node.integer("min_gram_length", 1), most = c.node.integer("max_gram_length", 1),
                  skips = c.node.integer("max_skip_count", 0);
    const std::vector<float> weights = c.node.numbers("weights");
    View x = c.in(0);
    if (is_floating(x.type) || x.type == boolean || x.rank() > 2)
        c.fail("its input is not one row of integers, or several");
    if (outputs.empty() || least < 1 || most < least || skips < 0)
        c.fail("no ngram_indexes, or lengths of n-grams or a max_skip_count below what is legal");
    int64_t width = 0;
    for (const int64_t o : outputs) {
        if (o < 0 || o >= INT32_MAX) c.fail(fmt::format("the index {} of an n-gram", o));
        width = std::max(width, o + 1);
    }
    if (!weights.empty() && weights.size() != outputs.size())
        c.fail(fmt::format("{} weights of {} n-grams", weights.size(), outputs.size()));
    std::map<std::vector<int64_t>, int64_t> grams; // of equal ones, the last counts
    size_t number_of = 0, terms = 0;
    for (size_t length = 1; length <= starts.size(); length++) {
        const int64_t begin = starts[length - 1], end = length < starts.size() ? starts[length] : int64_t(pool.size());
        if (begin < 0 || begin > end || end > int64_t(pool.size()) || (end - begin) % int64_t(length))
            c.fail("ngram_counts do not divide the pool into n-grams of 1, 2, … items");
        for (int64_t at = begin; at < end; at += int64_t(length), number_of++) {
            if (number_of >= outputs.size()) c.fail("fewer ngram_indexes than n-grams");
            if (int64_t(length) < least || int64_t(length) > most) continue;
            grams[{pool.begin() + at, pool.begin() + at + int64_t(length)}] = outputs[number_of];
            terms += length * size_t(length > 1 ? skips + 1 : 1);
        }
    }
    if (terms > max_terms)
        c.unsupported(
            fmt::format("n-grams of {} items, with those that are left out; supported are {}", terms, max_terms));
    const bool rows = x.rank() == 2;
    const int64_t row = x.rank() == 0 ? 1 : x.extents.back();
    x = reshaped(x, {rows ? x.extents[0] : 1, row});
    const Axis loop = c.loop(row);
    const View counts = c.stored(
        {f32,
         {x.extents[0], width},
         [=](const Indices &i) -> Element {
             Element total = number(f32, 0);
             for (const auto &[items, output] : grams) {
                 const auto length = static_cast<int64_t>(items.size());
                 for (int64_t step = 1; step <= (length > 1 ? skips + 1 : 1) && (length - 1) * step < row; step++) {
                     Expr meets =
                         i[1] == static_cast<int>(output) && loop < static_cast<int>(row - (length - 1) * step);
                     for (int64_t n = 0; n < length; n++) {
                         const Expr at = Halide::min(loop + static_cast<int>(n * step), static_cast<int>(row - 1));
                         meets = meets &&
                                 cast(i64, x.at({i[0], at})) == Halide::Internal::make_const(i64, items[size_t(n)]);
                     }
                     total = total + select(Element(meets), number(f32, 1), number(f32, 0));
                 }
             }
             return sum(total, loop);
         }},
        "counts");
    const View made = {
        f32, counts.extents, [=](const Indices &i) -> Element {
            const Element count = counts.at(i);
            if (mode == "TF") return count;
            Element weight = number(f32, 1);
            for (size_t n = 0; n < weights.size(); n++)
                weight = select(Element(i[1] == static_cast<int>(outputs[n])), number(f32, weights[n]), weight);
            return mode == "IDF" ? select(count > number(f32, 0), weight, number(f32, 0)) : weight * count;
        }};
    return {rows ? made : reshaped(made, {width})};
}

} // namespace

std::vector<Operator> machine_learning_operators() {
    const std::string domain = "ai.onnx.ml";
    return {
        {"Binarizer", 1, binarizer, domain},
        {"ArrayFeatureExtractor", 1, array_feature_extractor, domain},
        {"TreeEnsemble", 5, tree_ensemble, domain},
        {"TfIdfVectorizer", 9, tf_idf_vectorizer},
    };
}

} // namespace kumiko::graph
