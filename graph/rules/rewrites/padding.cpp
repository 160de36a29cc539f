// Padding by a node of its own before a window.
#include "graph/rules/constants.h"
#include "graph/rules/rules.h"
#include "graph/rules/views.h"

#include <cstring>
#include <numeric>

namespace kumiko::graph {

namespace {

// How many zeros a Pad adds before and after each axis; nothing if it adds others or removes some.
std::optional<std::pair<Extents, Extents>> zeros_of(const Rewriter &g, const Node &n) {
    if (!n.domain.empty() || n.op != "Pad" || n.text("mode", "constant") != "constant") return {};
    if (n.has_input(2)) {
        const Buffer<> *value = g.constant(n, 2);
        if (!value || value->number_of_elements() != 1) return {};
        const Buffer<> zero = reshaped_copy(*value, {});
        const auto *bytes = static_cast<const uint8_t *>(zero.data());
        for (int b = 0; b < Type(zero.type()).bytes(); b++) {
            if (bytes[b] != 0) return {};
        }
    } else {
        const float value = n.number("value", 0), zero = 0;
        if (std::memcmp(&value, &zero, sizeof value) != 0) return {};
    }
    const size_t rank = g.extents(n.inputs.at(0)).size();
    const auto pads = integers_of(g, n, 1, "pads");
    std::optional<std::vector<int64_t>> axes = integers_of(g, n, 3, "");
    if (!axes) {
        if (n.has_input(3)) return {};
        axes.emplace(rank);
        std::iota(axes->begin(), axes->end(), 0);
    }
    if (!pads || pads->size() != 2 * axes->size()) return {};
    std::pair<Extents, Extents> made{Extents(rank, 0), Extents(rank, 0)};
    for (size_t k = 0; k < axes->size(); k++) {
        const size_t d = size_t((*axes)[k] < 0 ? (*axes)[k] + int64_t(rank) : (*axes)[k]);
        made.first[d] = (*pads)[k], made.second[d] = (*pads)[k + axes->size()];
        if (made.first[d] < 0 || made.second[d] < 0) return {};
    }
    return made;
}

// The axes with more than one element.
std::vector<size_t> long_axes(const Extents &extents) {
    std::vector<size_t> all;
    for (size_t d = 0; d < extents.size(); d++) {
        if (extents[d] != 1) all.push_back(d);
    }
    return all;
}

bool pad_in_window(Rewriter &g, const Node &n) {
    const bool pool = n.op == "AveragePool";
    if (!n.domain.empty() || (n.op != "Conv" && !pool)) return false;
    const Node *before = g.producer(n.inputs[0]), *view = nullptr;
    if (before && is_view(g, *before) && g.only_reader(n.inputs[0]) == &n) {
        view = before;
        before = g.producer(view->inputs[0]);
    }
    auto zeros = before ? zeros_of(g, *before) : std::nullopt;
    if (!zeros) return false;
    Extents image = g.extents(before->inputs[0]);
    if (view) { // that adds or removes axes of one element
        const Extents from = g.extents(view->inputs[0]), to = g.extents(n.inputs[0]), unpadded = image;
        const std::vector<size_t> a = long_axes(from), b = long_axes(to);
        std::pair<Extents, Extents> moved{Extents(to.size(), 0), Extents(to.size(), 0)};
        image = to;
        if (a.size() != b.size()) return false;
        for (size_t k = 0; k < a.size(); k++) {
            if (from[a[k]] != to[b[k]]) return false;
            moved.first[b[k]] = zeros->first[a[k]], moved.second[b[k]] = zeros->second[a[k]];
            image[b[k]] = unpadded[a[k]];
        }
        zeros = moved;
    }
    if (zeros->first.size() < 3) return false;
    const auto &[first, last] = *zeros;
    if (first[0] || first[1] || last[0] || last[1]) return false;
    const std::string automatic = n.text("auto_pad", "NOTSET");
    if (automatic != "NOTSET" && automatic != "VALID") return false;
    const size_t dims = first.size() - 2;
    std::vector<int64_t> pads = n.integers("pads", std::vector<int64_t>(2 * dims, 0));
    if (automatic == "VALID") pads.assign(2 * dims, 0);
    Node made = n;
    if (pool) {
        const bool padded = std::accumulate(pads.begin(), pads.end(), int64_t(0)) != 0;
        if (n.opset < 7 || n.integer("ceil_mode", 0) != 0 || (padded && n.integer("count_include_pad", 0) == 0))
            return false;
        made.attributes["count_include_pad"].value = int64_t(1);
    }
    for (size_t d = 0; d < dims; d++) pads[d] += first[2 + d], pads[dims + d] += last[2 + d];
    if (pool) { // other programs refuse windows in the padding alone
        const std::vector<int64_t> kernel = n.integers("kernel_shape");
        for (size_t d = 0; d < dims; d++) {
            if (pads[d] >= kernel[d] || pads[dims + d] >= kernel[d]) return false;
        }
    }
    made.inputs[0] = before->inputs[0];
    made.attributes.erase("auto_pad");
    made.attributes["pads"].value = pads;
    if (!view) {
        g.substitute(n, made);
        return true;
    }
    made.inputs[0] = g.new_name(n.inputs[0] + "/unpadded");
    g.substitute({&n, view}, {{&n, make_reshape(g, *view, before->inputs[0], made.inputs[0], image)}, {&n, made}});
    return true;
}

} // namespace

std::vector<Rule> padding_rules() {
    return {
        {"pad_in_window",
         "A Conv, or an AveragePool that counts its padding or has none, reads a Pad with zeros around the image, "
         "directly or through a view that adds or removes axes of one element.",
         "The padding becomes the window's.", Rounding::Exact, "ONNX Runtime: PadFusion",
         "(float[1, 1, 3, 3] x) => (float[1, 1, 4, 4] y) <int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}, "
         "float[1, 1, 2, 2] w = {1, 2, 3, 4}> { a = Pad(x, p) y = Conv(a, w) }",
         "(float[1, 1, 3, 3] x) => (float[1, 1, 4, 4] y) <float[1, 1, 2, 2] w = {1, 2, 3, 4}> "
         "{ y = Conv<pads = [1, 1, 1, 1]>(x, w) }",
         pad_in_window},
    };
}

} // namespace kumiko::graph
