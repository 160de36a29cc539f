// XNNPACK as a peer, in a separate module. Its images are NHWC, so convolutions count as those in
// the peer's own layout.
#include "bench/peers.h"
#include "support/memory.h"

#include <pthreadpool.h>
#include <xnnpack.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>

namespace kumiko::bench {

namespace {

constexpr float lowest = -std::numeric_limits<float>::infinity(), highest = std::numeric_limits<float>::infinity();

// Floats followed by spare room, which it may read.
using Area = std::shared_ptr<float[]>;
Area area(size_t count) {
    const size_t bytes = count * sizeof(float) + XNN_EXTRA_BYTES;
    Area a(static_cast<float *>(allocate_bytes(bytes)), std::free);
    std::memset(a.get(), 0, bytes);
    return a;
}
Area copy_of(const float *from, size_t count) {
    Area a = area(count);
    std::memcpy(a.get(), from, count * sizeof(float));
    return a;
}

class XnnPack : public Peer {
public:
    XnnPack() {
        if (xnn_initialize(nullptr) != xnn_status_success) reason_ = "it does not know this processor";
    }
    std::string name() const override { return "XNNPACK"; }
    // It has no other version number.
    std::string version() const override { return available() ? "of 2022-02-16" : ""; }
    bool available() const override { return reason_.empty(); }
    std::string reason() const override { return reason_; }

    Result matmul(const MatmulCase &s, const void *a, const void *b, void *c, const PeerOptions &options) override {
        if (!s.all(Dtype::F32) || s.batch || s.transpose_a || !options.prepack_weights) return {};
        float low, high;
        if (s.epilogue.residual || !bounds(s.epilogue.activation, low, high)) return {};
        const size_t m = size(s.m), n = size(s.n), k = size(s.k);
        xnn_operator_t op = nullptr;
        if (xnn_create_fully_connected_nc_f32(k, n, k, n, static_cast<const float *>(b), s.epilogue.bias, low, high,
                                              s.transpose_b ? 0 : XNN_FLAG_TRANSPOSE_WEIGHTS,
                                              &op) != xnn_status_success)
            return {};
        const Area from = copy_of(static_cast<const float *>(a), m * k);
        const auto failed =
            xnn_setup_fully_connected_nc_f32(op, m, from.get(), static_cast<float *>(c), pool_of(options));
        return kernel(op, failed, from, options, "weights packed before");
    }

    Result conv2d(const ConvCase &s, const void *src, const void *weights, void *dst,
                  const PeerOptions &options) override {
        if (!s.floats() || !options.own_activations || !options.prepack_weights || s.epilogue.residual) return {};
        float low, high;
        if (!bounds(s.epilogue.activation, low, high)) return {};
        const bool depthwise = s.groups == s.c && s.filters == s.c && s.groups > 1;
        if (s.groups > 1 && !depthwise) return {};
        const Area from = area(size(s.n * s.c * s.h * s.w)),
                   filters = area(size(s.filters * s.c / s.groups * s.r * s.s)),
                   to = area(size(s.n * s.filters * s.out_h() * s.out_w()));
        turn(static_cast<const float *>(src), from.get(), s.n, s.c, s.h * s.w);
        // [F,C,R,S] to [F,R,S,C]; of depthwise ones [C,1,R,S] to [R,S,C].
        if (depthwise)
            turn(static_cast<const float *>(weights), filters.get(), 1, s.c, s.r * s.s);
        else
            turn(static_cast<const float *>(weights), filters.get(), s.filters, s.c, s.r * s.s);
        const auto u = [](int64_t x) { return static_cast<uint32_t>(x); };
        xnn_operator_t op = nullptr;
        if (xnn_create_convolution2d_nhwc_f32(
                u(s.pad), u(s.pad), u(s.pad), u(s.pad), u(s.r), u(s.s), u(s.stride), u(s.stride), u(s.dilation),
                u(s.dilation), u(s.groups), size(s.c / s.groups), size(s.filters / s.groups), size(s.c),
                size(s.filters), filters.get(), s.epilogue.bias, low, high,
                depthwise ? XNN_FLAG_DEPTHWISE_CONVOLUTION : 0, &op) != xnn_status_success)
            return {};
        const auto failed = xnn_setup_convolution2d_nhwc_f32(op, size(s.n), size(s.h), size(s.w), from.get(), to.get(),
                                                             pool_of(options));
        Result result = kernel(op, failed, from, options, "NHWC");
        if (result)
            result->collect = [to, dst, s] {
                turn(to.get(), static_cast<float *>(dst), s.n, s.out_h() * s.out_w(), s.filters);
            };
        return result;
    }

    Result rows(const RowsCase &s, const float *src, const float *, const float *, float *dst,
                const PeerOptions &options) override {
        if (s.function != "softmax") return {};
        xnn_operator_t op = nullptr;
        const size_t columns = size(s.columns);
        if (xnn_create_softmax_nc_f32(columns, columns, columns, 0, &op) != xnn_status_success) return {};
        const Area from = copy_of(src, size(s.rows) * columns);
        const auto failed = xnn_setup_softmax_nc_f32(op, size(s.rows), from.get(), dst, pool_of(options));
        return kernel(op, failed, from, options);
    }

    Result pool(const PoolCase &s, const float *src, float *dst, const PeerOptions &options) override {
        const bool greatest = s.kind == "max";
        const size_t c = size(s.c);
        const Area from = copy_of(src, size(s.n * s.c * s.h * s.w));
        const auto u = [](int64_t x) { return static_cast<uint32_t>(x); };
        xnn_operator_t op = nullptr;
        xnn_status failed;
        if (!greatest && s.whole()) {
            const size_t pixels = size(s.h * s.w);
            if ((s.channels_last
                     ? xnn_create_global_average_pooling_nwc_f32(c, c, c, lowest, highest, 0, &op)
                     : xnn_create_global_average_pooling_ncw_f32(c, lowest, highest, 0, &op)) != xnn_status_success)
                return {};
            failed =
                (s.channels_last ? xnn_setup_global_average_pooling_nwc_f32 : xnn_setup_global_average_pooling_ncw_f32)(
                    op, size(s.n), pixels, from.get(), dst, pool_of(options));
            return kernel(op, failed, from, options);
        }
        // Means do not count padding zeros.
        if (!s.channels_last || (!greatest && s.pad)) return {};
        if ((greatest
                 ? xnn_create_max_pooling2d_nhwc_f32(u(s.pad), u(s.pad), u(s.pad), u(s.pad), u(s.kh), u(s.kw),
                                                     u(s.stride), u(s.stride), 1, 1, c, c, c, lowest, highest, 0, &op)
                 : xnn_create_average_pooling2d_nhwc_f32(0, 0, 0, 0, u(s.kh), u(s.kw), u(s.stride), u(s.stride), c, c,
                                                         c, lowest, highest, 0, &op)) != xnn_status_success)
            return {};
        failed = (greatest ? xnn_setup_max_pooling2d_nhwc_f32 : xnn_setup_average_pooling2d_nhwc_f32)(
            op, size(s.n), size(s.h), size(s.w), from.get(), dst, pool_of(options));
        return kernel(op, failed, from, options);
    }

    Result resize(const ResizeCase &s, const float *src, float *dst, const PeerOptions &options) override {
        if (s.kind != "bilinear" || s.coordinates == "asymmetric") return {};
        const uint32_t flags = s.coordinates == "align_corners" ? XNN_FLAG_ALIGN_CORNERS : 0;
        const size_t c = size(s.c);
        xnn_operator_t op = nullptr;
        if ((s.channels_last ? xnn_create_resize_bilinear2d_nhwc_f32
                             : xnn_create_resize_bilinear2d_nchw_f32)(c, c, c, flags, &op) != xnn_status_success)
            return {};
        const Area from = copy_of(src, size(s.n * s.c * s.h * s.w));
        const auto failed =
            (s.channels_last ? xnn_setup_resize_bilinear2d_nhwc_f32 : xnn_setup_resize_bilinear2d_nchw_f32)(
                op, size(s.n), size(s.h), size(s.w), size(s.out_h), size(s.out_w), from.get(), dst, pool_of(options));
        return kernel(op, failed, from, options);
    }

    Result pad(const PadCase &s, const float *src, float *dst, const PeerOptions &options) override {
        xnn_operator_t op = nullptr;
        if (xnn_create_constant_pad_nd_x32(&s.value, 0, &op) != xnn_status_success) return {};
        const std::vector<size_t> shape(s.shape.begin(), s.shape.end()), before(s.before.begin(), s.before.end()),
            after(s.after.begin(), s.after.end());
        size_t count = 1;
        for (size_t n : shape) count *= n;
        const Area from = copy_of(src, count);
        const auto failed = xnn_setup_constant_pad_nd_x32(op, shape.size(), shape.data(), before.data(), after.data(),
                                                          from.get(), dst, pool_of(options));
        return kernel(op, failed, from, options);
    }

    Result quantise(const QuantiseCase &s, const void *src, void *dst, const PeerOptions &options) override {
        const size_t n = size(s.count);
        const bool is_signed = s.from == Dtype::S8 || s.to == Dtype::S8;
        const auto u8 = static_cast<uint8_t>(s.zero_point);
        const auto s8 = static_cast<int8_t>(s.zero_point);
        xnn_operator_t op = nullptr;
        xnn_status failed;
        Area from;
        if (s.from == Dtype::F32 && (s.to == Dtype::U8 || is_signed)) {
            from = copy_of(static_cast<const float *>(src), n);
            failed = is_signed ? xnn_create_convert_nc_f32_qs8(n, n, n, s.scale, s8, -128, 127, 0, &op)
                               : xnn_create_convert_nc_f32_qu8(n, n, n, s.scale, u8, 0, 255, 0, &op);
            if (failed != xnn_status_success) return {};
            failed =
                is_signed
                    ? xnn_setup_convert_nc_f32_qs8(op, 1, from.get(), static_cast<int8_t *>(dst), pool_of(options))
                    : xnn_setup_convert_nc_f32_qu8(op, 1, from.get(), static_cast<uint8_t *>(dst), pool_of(options));
        } else if (s.to == Dtype::F32 && (s.from == Dtype::U8 || is_signed)) {
            from = area(n / sizeof(float) + 1);
            std::memcpy(from.get(), src, n);
            failed = is_signed ? xnn_create_convert_nc_qs8_f32(n, n, n, s.scale, s8, 0, &op)
                               : xnn_create_convert_nc_qu8_f32(n, n, n, s.scale, u8, 0, &op);
            if (failed != xnn_status_success) return {};
            failed = is_signed ? xnn_setup_convert_nc_qs8_f32(op, 1, reinterpret_cast<const int8_t *>(from.get()),
                                                              static_cast<float *>(dst), pool_of(options))
                               : xnn_setup_convert_nc_qu8_f32(op, 1, reinterpret_cast<const uint8_t *>(from.get()),
                                                              static_cast<float *>(dst), pool_of(options));
        } else {
            return {};
        }
        return kernel(op, failed, from, options);
    }

private:
    std::string reason_;
    std::map<int, pthreadpool_t> pools_; // live as long as the program

    static size_t size(int64_t n) { return static_cast<size_t>(n); }
    pthreadpool_t pool_of(const PeerOptions &options) {
        if (options.threads == 1) return nullptr;
        pthreadpool_t &p = pools_[options.threads];
        if (!p) p = pthreadpool_create(size(options.threads));
        return p;
    }
    // The clamping range for that function; false if it lacks the function.
    static bool bounds(const std::string &activation, float &low, float &high) {
        low = activation.empty() ? lowest : 0;
        high = activation == "relu6" ? 6 : highest;
        return activation.empty() || activation == "relu" || activation == "relu6";
    }
    // Exchanges the last two axes.
    static void turn(const float *from, float *to, int64_t count, int64_t rows, int64_t columns) {
        for (int64_t n = 0; n < count; n++)
            for (int64_t i = 0; i < rows; i++)
                for (int64_t j = 0; j < columns; j++)
                    to[(n * columns + j) * rows + i] = from[(n * rows + i) * columns + j];
    }
    Result kernel(xnn_operator_t op, xnn_status failed, const Area &source, const PeerOptions &options,
                  const std::string &note = "") {
        const std::shared_ptr<xnn_operator> owned(op, xnn_delete_operator);
        if (failed != xnn_status_success) return {};
        PeerKernel out;
        out.work = [owned, source, threads = pool_of(options)] { xnn_run_operator(owned.get(), threads); };
        out.note = note;
        return out;
    }
};

} // namespace

} // namespace kumiko::bench

extern "C" __attribute__((visibility("default"))) kumiko::bench::Peer *kumiko_make_peer() {
    return new kumiko::bench::XnnPack;
}
