// Maps ops of the registry to functions of a peer: images and moves.
#include "bench/contest.h"

#include "dsl/types.h"

namespace kumiko::bench {

std::vector<int64_t> Contest::integers(const char *name) const {
    return case_.parameters.at(name).get<std::vector<int64_t>>();
}

std::vector<int64_t> Contest::extents(size_t input) const {
    std::vector<int64_t> shape;
    for (const Axis &a : op_.inputs().at(input).axes) shape.push_back(*Halide::Internal::as_const_int(a.extent()));
    return shape;
}

std::optional<Peer::Result> Contest::ask_images(Peer &peer, void *out, const PeerOptions &options) const {
    const std::string &op = case_.op;
    const bool pools = op == "max_pool" || op == "average_pool", norms = op == "batch_norm" || op == "group_norm";
    if (!pools && !norms && op != "resize_nearest" && op != "resize_bilinear") return std::nullopt;
    if (!floats()) return Peer::Result();
    const auto to = static_cast<float *>(out);
    const int64_t n = integer("n"), c = integer("c"), h = integer("h"), w = integer("w");
    const bool last = case_.parameters.at("layout") == "nhwc";
    if (pools) {
        const PoolCase s{op == "max_pool" ? "max" : "mean",
                         n,
                         c,
                         h,
                         w,
                         integer("kh"),
                         integer("kw"),
                         integer("stride"),
                         integer("padding"),
                         last};
        return peer.pool(s, in(0), to, options);
    }
    if (norms) {
        ImageNormCase s{op == "batch_norm" ? "batch" : "group", n, c, h, w};
        s.groups = op == "group_norm" ? integer("groups") : 1;
        s.epsilon = case_.parameters.at("eps").get<float>();
        s.channels_last = last;
        if (op == "group_norm") return peer.image_norm(s, in(0), nullptr, nullptr, in(1), in(2), to, options);
        return peer.image_norm(s, in(0), in(1), in(2), in(3), in(4), to, options);
    }
    const std::string coordinates = case_.parameters.at("coordinates").get<std::string>();
    return peer.resize(
        {op == "resize_nearest" ? "nearest" : "bilinear", coordinates, n, c, h, w, integer("oh"), integer("ow"), last},
        in(0), to, options);
}

std::optional<Peer::Result> Contest::ask_moves(Peer &peer, void *out, const PeerOptions &options) const {
    const std::string &op = case_.op;
    const auto to = static_cast<float *>(out);
    const auto real = [&](const char *name) { return case_.parameters.at(name).get<float>(); };
    // A list with one value per axis; an empty one means the same value for all.
    const auto filled = [&](const char *name, int64_t otherwise) {
        std::vector<int64_t> list = integers(name);
        if (list.empty()) list.assign(op_.inputs()[0].axes.size(), otherwise);
        return list;
    };
    const bool floating = case_.parameters.contains("type") && case_.parameters.at("type") == "f32";
    if (op == "gather" || op == "embedding") {
        const auto index = reinterpret_cast<const int32_t *>(inputs_[1].data());
        return floating ? peer.gather({extents(1), integer("n"), integer("w")}, in(0), index, to, options)
                        : Peer::Result();
    }
    if (op == "one_hot") {
        const auto index = reinterpret_cast<const int32_t *>(inputs_[0].data());
        return floating ? peer.one_hot({integer("m"), integer("n"), real("on"), real("off")}, index, to, options)
                        : Peer::Result();
    }
    if (op == "quantise" || op == "dequantise") {
        const auto from = dtype_of(op_.inputs()[0].type), result = dtype_of(output_type());
        if (!from || !result || op_.inputs().size() > 1) return Peer::Result();
        return peer.quantise({integer("n"), *from, *result, real("scale"), static_cast<int>(integer("zero_point"))},
                             inputs_[0].data(), out, options);
    }
    if (!floats()) return std::nullopt;
    if (op == "permute") return peer.transpose({integers("shape"), integers("order")}, in(0), to, options);
    if (op == "pad")
        return peer.pad({integers("shape"), filled("before", 0), filled("after", 0), real("value")}, in(0), to,
                        options);
    if (op == "slice")
        return peer.slice({integers("shape"), integers("extents"), filled("begin", 0), filled("step", 1)}, in(0), to,
                          options);
    if (op == "concat") {
        ConcatCase s;
        std::vector<const float *> parts;
        for (size_t i = 0; i < inputs_.size(); i++) s.shapes.push_back(extents(i)), parts.push_back(in(i));
        const int64_t axis = integer("axis");
        s.axis = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(s.shapes[0].size()) : axis);
        return peer.concat(s, parts, to, options);
    }
    if (op == "cumulative_sum") {
        CumulativeSumCase s{integers("shape"), integer("axis"), flag("exclusive")};
        s.axis += s.axis < 0 ? static_cast<int64_t>(s.shape.size()) : 0;
        return peer.cumulative_sum(s, in(0), to, options);
    }
    return std::nullopt;
}

} // namespace kumiko::bench
