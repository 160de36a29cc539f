// oneDNN's pooling, resizing and normalisation of images, and moves.
#include "bench/peers_onednn.h"

#include <algorithm>

namespace kumiko::bench {

namespace {

using dnnl::algorithm;
using dnnl::memory;
using Tag = memory::format_tag;
constexpr auto inference = dnnl::prop_kind::forward_inference;

memory::desc images(int64_t n, int64_t c, int64_t h, int64_t w, bool channels_last) {
    return memory::desc({n, c, h, w}, memory::data_type::f32, channels_last ? Tag::nhwc : Tag::nchw);
}

// Row-major, of float32.
memory::desc dense(const memory::dims &shape) {
    memory::dims strides(shape.size(), 1);
    for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
    return memory::desc(shape, memory::data_type::f32, strides);
}

} // namespace

Peer::Result OneDnn::pool(const PoolCase &s, const float *src, float *dst, const PeerOptions &options) {
    return guarded(options, [&] {
        const memory::desc from = images(s.n, s.c, s.h, s.w, s.channels_last),
                           to = images(s.n, s.c, s.out_h(), s.out_w(), s.channels_last);
        const auto behind = [&](int64_t in, int64_t out, int64_t k) {
            return std::max<int64_t>(0, (out - 1) * s.stride + k - in - s.pad);
        };
        const algorithm which = s.kind == "max" ? algorithm::pooling_max : algorithm::pooling_avg_include_padding;
        dnnl::pooling_forward::primitive_desc pd(engine_, inference, which, from, to, {s.stride, s.stride},
                                                 {s.kh, s.kw}, {0, 0}, {s.pad, s.pad},
                                                 {behind(s.h, s.out_h(), s.kh), behind(s.w, s.out_w(), s.kw)});
        return kernel(dnnl::pooling_forward(pd), pd.impl_info_str(), options,
                      {{DNNL_ARG_SRC, wrap(from, src)}, {DNNL_ARG_DST, wrap(to, dst)}});
    });
}

Peer::Result OneDnn::resize(const ResizeCase &s, const float *src, float *dst, const PeerOptions &options) {
    if (s.coordinates != "half_pixel") return {}; // it knows no others
    // If a pixel lies in the middle of two, it may select either.
    const bool whole = s.out_h % s.h == 0 && s.out_w % s.w == 0 && s.out_h / s.h % 2 == 0 && s.out_w / s.w % 2 == 0;
    if (s.kind == "nearest" && !whole) return {};
    return guarded(options, [&] {
        const memory::desc from = images(s.n, s.c, s.h, s.w, s.channels_last),
                           to = images(s.n, s.c, s.out_h, s.out_w, s.channels_last);
        const algorithm which = s.kind == "nearest" ? algorithm::resampling_nearest : algorithm::resampling_linear;
        dnnl::resampling_forward::primitive_desc pd(engine_, inference, which, from, to);
        return kernel(dnnl::resampling_forward(pd), pd.impl_info_str(), options,
                      {{DNNL_ARG_SRC, wrap(from, src)}, {DNNL_ARG_DST, wrap(to, dst)}});
    });
}

Peer::Result OneDnn::image_norm(const ImageNormCase &s, const float *src, const float *mean, const float *variance,
                                const float *scale, const float *shift, float *dst, const PeerOptions &options) {
    if (s.kind != "batch") return {};
    return guarded(options, [&] {
        const memory::desc all = images(s.n, s.c, s.h, s.w, s.channels_last),
                           channel({s.c}, memory::data_type::f32, Tag::a);
        const auto flags = dnnl::normalization_flags::use_global_stats | dnnl::normalization_flags::use_scale |
                           dnnl::normalization_flags::use_shift;
        dnnl::batch_normalization_forward::primitive_desc pd(engine_, inference, all, all, s.epsilon, flags);
        return kernel(dnnl::batch_normalization_forward(pd), pd.impl_info_str(), options,
                      {{DNNL_ARG_SRC, wrap(all, src)},
                       {DNNL_ARG_MEAN, wrap(channel, mean)},
                       {DNNL_ARG_VARIANCE, wrap(channel, variance)},
                       {DNNL_ARG_SCALE, wrap(channel, scale)},
                       {DNNL_ARG_SHIFT, wrap(channel, shift)},
                       {DNNL_ARG_DST, wrap(all, dst)}});
    });
}

// For oneDNN this is a copy of a part.
Peer::Result OneDnn::slice(const SliceCase &s, const float *src, float *dst, const PeerOptions &options) {
    if (std::any_of(s.step.begin(), s.step.end(), [](int64_t step) { return step != 1; })) return {};
    return guarded(options, [&] {
        const memory::desc whole = dense(s.shape), from = whole.submemory_desc(s.extents, s.begin),
                           to = dense(s.extents);
        dnnl::reorder::primitive_desc pd(engine_, from, engine_, to);
        return kernel(dnnl::reorder(pd), pd.impl_info_str(), options,
                      {{DNNL_ARG_FROM, wrap(from, src)}, {DNNL_ARG_TO, wrap(to, dst)}});
    });
}

Peer::Result OneDnn::concat(const ConcatCase &s, const std::vector<const float *> &src, float *dst,
                            const PeerOptions &options) {
    return guarded(options, [&] {
        std::vector<memory::desc> parts;
        for (const auto &shape : s.shapes) parts.push_back(dense(shape));
        const memory::desc to = dense(s.result());
        dnnl::concat::primitive_desc pd(engine_, to, static_cast<int>(s.axis), parts);
        Arguments arguments = {{DNNL_ARG_DST, wrap(to, dst)}};
        for (size_t i = 0; i < src.size(); i++)
            arguments[DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i)] = wrap(parts[i], src[i]);
        return kernel(dnnl::concat(pd), pd.impl_info_str(), options, arguments);
    });
}

// For oneDNN this is a copy to another type.
Peer::Result OneDnn::quantise(const QuantiseCase &s, const void *src, void *dst, const PeerOptions &options) {
    const auto type = [](Dtype t) {
        return t == Dtype::F32  ? memory::data_type::f32
               : t == Dtype::U8 ? memory::data_type::u8
               : t == Dtype::S8 ? memory::data_type::s8
                                : memory::data_type::undef;
    };
    // It adds the zero point before rounding, so that values near a half may become another number.
    if (s.from == Dtype::F32 && s.zero_point) return {};
    if (type(s.from) == memory::data_type::undef || type(s.to) == memory::data_type::undef) return {};
    return guarded(options, [&] {
        const memory::desc from({s.count}, type(s.from), Tag::a), to({s.count}, type(s.to), Tag::a);
        // Which of the two has bytes.
        const int bytes = s.from == Dtype::F32 ? DNNL_ARG_TO : DNNL_ARG_FROM;
        dnnl::primitive_attr attributes;
        attributes.set_scales_mask(bytes, 0);
        if (s.zero_point) attributes.set_zero_points_mask(bytes, 0);
        dnnl::reorder::primitive_desc pd(engine_, from, engine_, to, attributes);
        memory scale({{1}, memory::data_type::f32, Tag::a}, engine_),
            zero({{1}, memory::data_type::s32, Tag::a}, engine_);
        *static_cast<float *>(scale.get_data_handle()) = s.scale;
        *static_cast<int32_t *>(zero.get_data_handle()) = s.zero_point;
        Arguments arguments = {
            {DNNL_ARG_FROM, wrap(from, src)}, {DNNL_ARG_TO, wrap(to, dst)}, {DNNL_ARG_ATTR_SCALES | bytes, scale}};
        if (s.zero_point) arguments[DNNL_ARG_ATTR_ZERO_POINTS | bytes] = zero;
        return kernel(dnnl::reorder(pd), pd.impl_info_str(), options, arguments);
    });
}

} // namespace kumiko::bench
