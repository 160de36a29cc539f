// Operators of classical machine learning: of ai.onnx.ml, and vectors of n-gram counts.
#include "dsl/buffer_elements.h"
#include "dsl/halide_passes.h"
#include "dsl/math.h"
#include "dsl/narrow_types.h"
#include "dsl/reduction.h"
#include "graph/formulas/formula.h"
#include "graph/ir/strings.h"

#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <map>

namespace kumiko::graph {

namespace {

constexpr size_t max_terms = 1 << 12; // of a formula that has a term for each constant
constexpr int deepest_tree = 256;     // levels, each of which nests expressions

Results binarizer(Call &c) {
    const View x = c.in(0);
    const double threshold = c.node.number("threshold", 0);
    return {mapped(x, x.type, [=](const Element &e) -> Element {
        const Type t = e.type();
        return select(e > number(t, threshold), number(t, 1), number(t, 0));
    })};
}

Results array_feature_extractor(Call &c) {
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

// --- labels ---

// The elements of a list that a LabelEncoder has in an attribute for their type, or as a tensor.
std::optional<Buffer<>> list_of(const Call &c, const std::string &name) {
    const auto copied = [](Type type, const auto &list) {
        Buffer<> b(type, {int64_t(list.size())});
        std::copy(list.begin(), list.end(), static_cast<std::decay_t<decltype(list[0])> *>(b.data()));
        return b;
    };
    const auto strings = c.node.attributes.find(name + "_strings");
    if (strings != c.node.attributes.end()) {
        const auto &list = std::get<std::vector<std::string>>(strings->second.value);
        return string_tensor(list, {int64_t(list.size())});
    }
    if (c.node.has(name + "_int64s")) return copied(i64, c.node.integers(name + "_int64s"));
    if (c.node.has(name + "_floats")) return copied(f32, c.node.numbers(name + "_floats"));
    return c.node.tensor(name + "_tensor");
}

// Keys become the values at the same places; other labels the default of the values' type.
Results label_encoder(Call &c) {
    const auto keys = list_of(c, "keys"), values = list_of(c, "values");
    if (!keys || !values || keys->number_of_elements() != values->number_of_elements())
        c.fail("its keys and values have different numbers of elements, or are missing");
    const size_t count = keys->number_of_elements();
    if (count > max_terms) c.unsupported(fmt::format("{} keys; supported are {}", count, max_terms));
    const Type from = c.type(0), to = values->type();
    if (Type(keys->type()) != from)
        c.fail(fmt::format("its input \"{}\" is {}, and its keys are {}", c.node.inputs[0], type_name(from),
                           type_name(keys->type())));
    const auto elements = [](const Buffer<> &b) {
        std::vector<Expr> all; // as they are stored
        const Type type = stored_type(b.type());
        for_each_element(b.raw_buffer(), [&](const std::vector<int64_t> &, const uint8_t *p) {
            int64_t whole = 0;
            if (type.bits() == 64 && !is_floating(type)) std::memcpy(&whole, p, sizeof whole);
            all.push_back(type.bits() == 64 && !is_floating(type) ? cast(type, Halide::Internal::make_const(i64, whole))
                                                                  : Expr(number(type, read_element(type, p))));
        });
        return all;
    };
    Buffer<> otherwise(stored_type(to), {1});
    if (const auto tensor = c.node.tensor("default_tensor"))
        otherwise = *tensor;
    else if (to == string_type)
        otherwise = string_tensor({c.node.text("default_string", "_Unused")}, {1});
    else
        write_element(to, static_cast<uint8_t *>(otherwise.data()),
                      is_floating(to) ? c.node.number("default_float", -0.f)
                                      : double(c.node.integer("default_int64", -1)));
    if (otherwise.number_of_elements() != 1 || stored_type(otherwise.type()) != stored_type(to))
        c.fail("its default_tensor is not one element of the type of its values");
    const std::vector<Expr> key = elements(*keys), value = elements(*values), rest = elements(otherwise);
    return {mapped(c.in(0), to, [=](const Element &e) -> Element {
        Element made = rest[0];
        for (size_t n = count; n-- > 0;) {
            const Element own = key[n];
            const Element same = is_floating(from) ? Element(e == own || (e != e && own != own)) : e == own;
            made = select(same, Element(value[n]), made);
        }
        return made;
    })};
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

// The values of aggregate_function.
enum class Aggregate { Average, Sum, Minimum, Maximum };

// The value of a target that no tree reaches: 0, or the end of the type's range.
double value_without_trees(Type type, Aggregate aggregate) {
    if (aggregate == Aggregate::Average || aggregate == Aggregate::Sum) return 0;
    const double end = type == f64   ? std::numeric_limits<double>::max()
                       : type == f16 ? 65504
                                     : std::numeric_limits<float>::max();
    return aggregate == Aggregate::Minimum ? end : -end;
}

// Makes the formula of one element [row, target], and checks the trees meanwhile.
class Ensemble {
public:
    Ensemble(const Call &c, const Trees &trees, const View &x, Aggregate aggregate, const Indices &i)
        : c_(c), trees_(trees), x_(x), aggregate_(aggregate), i_(i), type_(accumulator(x.type)),
          none_(number(type_, value_without_trees(x.type, aggregate))), seen_(trees.splits.size(), false) {}

    Element value() {
        Element total = none_;
        for (const int64_t root : trees_.roots) {
            const auto n = static_cast<size_t>(root);
            if (root < 0 || n >= seen_.size()) c_.fail(fmt::format("the root {}, which is no node", root));
            // A tree of one leaf is a node that leads to it both ways.
            const bool alone =
                trees_.true_leaves[n] != 0 && trees_.false_leaves[n] != 0 && trees_.true_ids[n] == trees_.false_ids[n];
            const Element own = alone ? leaf(trees_.true_ids[n]) : node(root, 1);
            total = aggregate_ == Aggregate::Minimum   ? Element(min(total, own))
                    : aggregate_ == Aggregate::Maximum ? Element(max(total, own))
                                                       : Element(total + own);
        }
        if (aggregate_ != Aggregate::Average) return total;
        return total / number(type_, static_cast<double>(std::max<size_t>(trees_.roots.size(), 1)));
    }

private:
    Element leaf(int64_t id) const {
        if (id < 0 || size_t(id) >= trees_.weights.size()) c_.fail(fmt::format("a node leads to leaf {}", id));
        const Element own = Element(i_[1] == static_cast<int>(trees_.targets[size_t(id)]));
        return select(own, number(type_, trees_.weights[size_t(id)]), none_);
    }
    Element node(int64_t id, int level) {
        const auto n = static_cast<size_t>(id);
        if (id < 0 || n >= seen_.size() || seen_[n])
            c_.fail(fmt::format("a node leads to node {}, which does not exist or has another parent", id));
        if (level > deepest_tree) c_.unsupported(fmt::format("a tree of more than {} levels", deepest_tree));
        seen_[n] = true;
        const Element taken = condition(n);
        const auto branch = [&](int64_t to, bool is_leaf) { return is_leaf ? leaf(to) : node(to, level + 1); };
        const Element yes = branch(trees_.true_ids[n], trees_.true_leaves[n] != 0);
        return select(taken, yes, branch(trees_.false_ids[n], trees_.false_leaves[n] != 0));
    }
    // Whether the true branch of a node is taken.
    Element condition(size_t n) const {
        if (trees_.features[n] < 0 || trees_.features[n] >= x_.extents[1])
            c_.fail(fmt::format("node {} reads feature {} of {}", n, trees_.features[n], x_.extents[1]));
        const Element e = cast(type_, x_.at({i_[0], static_cast<int>(trees_.features[n])}));
        const Element split = number(type_, trees_.splits[n]);
        Element taken = cast(boolean, Expr(0));
        switch (static_cast<int>(trees_.modes[n])) {
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
            for (const double m : trees_.members[n]) taken = taken || e == number(type_, m);
            break;
        default:
            c_.fail(fmt::format("node {} has the mode {}; legal are 0 to 6", n, trees_.modes[n]));
        }
        return trees_.missing[n] != 0 ? Element(taken || e != e) : taken;
    }

    const Call &c_;
    const Trees &trees_;
    const View &x_;
    Aggregate aggregate_;
    const Indices &i_;
    Type type_;
    Element none_;
    std::vector<bool> seen_; // by node; each has one parent
};

Results tree_ensemble(Call &c) {
    const View x = c.in(0);
    const Trees trees = trees_of(c);
    const int64_t targets = c.node.integer("n_targets", 1), aggregate = c.node.integer("aggregate_function", 1);
    if (x.rank() != 2 || targets < 1) c.fail("its input has not two axes, or n_targets is below 1");
    if (c.node.integer("post_transform", 0) != 0) c.unsupported("a post_transform; supported is none");
    if (aggregate < 0 || aggregate > 3)
        c.fail(fmt::format("aggregate_function is {}; legal are 0 (average), 1 (sum), 2 (minimum), 3 (maximum)",
                           aggregate));
    for (const int64_t id : trees.targets) {
        if (id < 0 || id >= targets) c.fail(fmt::format("the target {}; legal are 0 to {}", id, targets - 1));
    }
    return {View{x.type, {x.extents[0], targets}, [=, &c](const Indices &i) -> Element {
                     return cast(x.type, Ensemble(c, trees, x, static_cast<Aggregate>(aggregate), i).value());
                 }}};
}

// --- n-grams ---

struct Gram {
    std::vector<int64_t> items;
    int64_t output;
};

// Counts how often each n-gram of a pool occurs in a row. Between neighbouring items, the row may
// have further items, the same number everywhere in the n-gram.
Results tf_idf_vectorizer(Call &c) {
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
        {"LabelEncoder", 2, label_encoder, domain, Dependence::Pointwise},
        {"TreeEnsemble", 5, tree_ensemble, domain},
        {"TfIdfVectorizer", 9, tf_idf_vectorizer},
    };
}

} // namespace kumiko::graph
