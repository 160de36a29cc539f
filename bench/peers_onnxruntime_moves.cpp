// ONNX Runtime's moves, pooling and resizing.
#include "bench/peers_onnxruntime.h"

namespace kumiko::bench {

Peer::Result OnnxRuntime::transpose(const TransposeCase &s, const float *src, float *dst, const PeerOptions &options) {
    OnnxGraph g;
    OnnxShape shape;
    for (int64_t axis : s.order) shape.push_back(s.shape[static_cast<size_t>(axis)]);
    const OnnxName y = g.node("Transpose", {g.input(Dtype::F32, s.shape, src)}, {{"perm", s.order}});
    return graph_kernel(g, y, Dtype::F32, shape, dst, options);
}

Peer::Result OnnxRuntime::pool(const PoolCase &s, const float *src, float *dst, const PeerOptions &options) {
    if (s.channels_last) return {}; // its images are NCHW
    OnnxGraph g;
    const OnnxName x = g.input(Dtype::F32, {s.n, s.c, s.h, s.w}, src);
    const bool greatest = s.kind == "max";
    OnnxName y;
    if (s.whole()) {
        y = g.node(greatest ? "GlobalMaxPool" : "GlobalAveragePool", {x});
    } else {
        Json attributes = {
            {"kernel_shape", {s.kh, s.kw}}, {"strides", {s.stride, s.stride}}, {"pads", {s.pad, s.pad, s.pad, s.pad}}};
        if (!greatest) attributes["count_include_pad"] = 1;
        y = g.node(greatest ? "MaxPool" : "AveragePool", {x}, attributes);
    }
    return graph_kernel(g, y, Dtype::F32, {s.n, s.c, s.out_h(), s.out_w()}, dst, options);
}

Peer::Result OnnxRuntime::resize(const ResizeCase &s, const float *src, float *dst, const PeerOptions &options) {
    OnnxGraph g;
    const auto images = [&](int64_t h, int64_t w) {
        return s.channels_last ? OnnxShape{s.n, h, w, s.c} : OnnxShape{s.n, s.c, h, w};
    };
    const OnnxShape shape = images(s.out_h, s.out_w);
    Json attributes = {{"mode", s.kind == "nearest" ? "nearest" : "linear"},
                       {"coordinate_transformation_mode", s.coordinates}};
    if (s.kind == "nearest") attributes["nearest_mode"] = s.coordinates == "asymmetric" ? "floor" : "round_prefer_ceil";
    const OnnxName x = g.input(Dtype::F32, images(s.h, s.w), src);
    return graph_kernel(g, g.node("Resize", {x, "", "", g.list(shape)}, attributes), Dtype::F32, shape, dst, options);
}

Peer::Result OnnxRuntime::gather(const GatherCase &s, const float *table, const int32_t *index, float *dst,
                                 const PeerOptions &options) {
    OnnxGraph g;
    OnnxShape shape = s.indices;
    shape.push_back(s.columns);
    const OnnxName x = g.input(Dtype::F32, {s.rows, s.columns}, table), i = g.input(Dtype::S32, s.indices, index);
    return graph_kernel(g, g.node("Gather", {x, i}, {{"axis", 0}}), Dtype::F32, shape, dst, options);
}

Peer::Result OnnxRuntime::one_hot(const OneHotCase &s, const int32_t *index, float *dst, const PeerOptions &options) {
    OnnxGraph g;
    const OnnxName i = g.input(Dtype::S32, {s.count}, index), classes = g.numbers("s32", s.classes, OnnxShape()),
                   values = g.numbers("f32", {s.off, s.on}, {2});
    return graph_kernel(g, g.node("OneHot", {i, classes, values}, {{"axis", -1}}), Dtype::F32, {s.count, s.classes},
                        dst, options);
}

Peer::Result OnnxRuntime::pad(const PadCase &s, const float *src, float *dst, const PeerOptions &options) {
    OnnxGraph g;
    OnnxShape shape = s.shape, amounts = s.before;
    for (size_t d = 0; d < shape.size(); d++) shape[d] += s.before[d] + s.after[d];
    amounts.insert(amounts.end(), s.after.begin(), s.after.end());
    const OnnxName x = g.input(Dtype::F32, s.shape, src), value = g.numbers("f32", s.value, OnnxShape());
    return graph_kernel(g, g.node("Pad", {x, g.list(amounts), value}, {{"mode", "constant"}}), Dtype::F32, shape, dst,
                        options);
}

Peer::Result OnnxRuntime::slice(const SliceCase &s, const float *src, float *dst, const PeerOptions &options) {
    OnnxGraph g;
    OnnxShape ends, axes;
    for (size_t d = 0; d < s.shape.size(); d++) {
        const int64_t end = s.begin[d] + s.step[d] * s.extents[d];
        ends.push_back(end < 0 ? INT32_MIN : end); // -1 would be the last element
        axes.push_back(static_cast<int64_t>(d));
    }
    const OnnxName x = g.input(Dtype::F32, s.shape, src);
    return graph_kernel(g, g.node("Slice", {x, g.list(s.begin), g.list(ends), g.list(axes), g.list(s.step)}),
                        Dtype::F32, s.extents, dst, options);
}

Peer::Result OnnxRuntime::concat(const ConcatCase &s, const std::vector<const float *> &src, float *dst,
                                 const PeerOptions &options) {
    OnnxGraph g;
    std::vector<OnnxName> parts;
    for (size_t i = 0; i < src.size(); i++) parts.push_back(g.input(Dtype::F32, s.shapes[i], src[i]));
    return graph_kernel(g, g.node("Concat", parts, {{"axis", static_cast<int64_t>(s.axis)}}), Dtype::F32, s.result(),
                        dst, options);
}

Peer::Result OnnxRuntime::cumulative_sum(const CumulativeSumCase &s, const float *src, float *dst,
                                         const PeerOptions &options) {
    OnnxGraph g;
    const OnnxName x = g.input(Dtype::F32, s.shape, src), axis = g.numbers("s64", s.axis, OnnxShape());
    return graph_kernel(g, g.node("CumSum", {x, axis}, {{"exclusive", int(s.exclusive)}}), Dtype::F32, s.shape, dst,
                        options);
}

} // namespace kumiko::bench
