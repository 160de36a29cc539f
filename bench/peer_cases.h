// The work that a peer is asked to do, in plain numbers without any type of the compiler. All
// arrays are row-major and dense.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kumiko::bench {

enum class Dtype { F32, F64, F16, BF16, U8, S8, S32 };
size_t bytes_of(Dtype type);

// Applied to a sum before it is stored: + bias (one value per column or filter), + residual (with
// the shape of the result), then the function. All float32; only for float32 results.
struct Epilogue {
    const float *bias = nullptr, *residual = nullptr;
    std::string activation; // as of Peer::elementwise; "": none

    bool none() const { return !bias && !residual && activation.empty(); }
};

// C[m,n] = A[m,k] B[k,n], for each of `batch`. u8 and s8 are summed in s32, bf16 and f16 in
// float32.
struct MatmulCase {
    int64_t m, n, k;
    Dtype a = Dtype::F32, b = Dtype::F32, c = Dtype::F32;
    bool transpose_a = false, transpose_b = false; // A is stored [k,m]; B is stored [n,k]
    int64_t batch = 0;                             // outermost axis of all three; 0: none
    bool shared_b = false;                         // B has no batch axis
    Epilogue epilogue = {};

    bool all(Dtype type) const { return a == type && b == type && c == type; }
    double flops() const {
        return 2.0 * static_cast<double>(batch ? batch : 1) * static_cast<double>(m) * static_cast<double>(n) *
               static_cast<double>(k);
    }
};

// dst[n,f,oh,ow] = sum over c,r,s of src[n,g*C/G+c,...] * weights[f,c,r,s]; src is NCHW, weights
// are [F,C/G,R,S].
struct ConvCase {
    int64_t n, c, h, w, filters, r, s;
    int64_t stride = 1, pad = 0, dilation = 1, groups = 1;
    Dtype src = Dtype::F32, weights = Dtype::F32, dst = Dtype::F32;
    Epilogue epilogue = {};

    bool floats() const { return src == Dtype::F32 && weights == Dtype::F32 && dst == Dtype::F32; }
    int64_t out_h() const { return (h + 2 * pad - dilation * (r - 1) - 1) / stride + 1; }
    int64_t out_w() const { return (w + 2 * pad - dilation * (s - 1) - 1) / stride + 1; }
    // Includes operations on padding, as is usual.
    double flops() const {
        return 2.0 * static_cast<double>(n * filters * out_h() * out_w()) * static_cast<double>(c / groups * r * s);
    }
};

// Along the columns of a float32 matrix. function: softmax, log_softmax, layer_norm (with scale and
// shift), rms_norm (with scale).
struct RowsCase {
    std::string function;
    int64_t rows, columns;
    float epsilon = 1e-5f;
    double bytes() const { return 8.0 * static_cast<double>(rows) * static_cast<double>(columns); }
};

// dst(i, j) = function(a(i, j), b(i, j)), or b(j) for all rows. function: add, sub, mul, div, max,
// min.
struct BinaryCase {
    std::string function;
    int64_t rows, columns;
    bool row = false; // b is one row
};

// kind: sum, mean, max, min; axes are ascending
struct ReduceCase {
    std::string kind;
    std::vector<int64_t> shape, axes;
};

// kind: max, or mean including the padding zeros; over windows of float32 images, NCHW or NHWC.
struct PoolCase {
    std::string kind;
    int64_t n, c, h, w, kh, kw;
    int64_t stride = 1, pad = 0;
    bool channels_last = false;

    int64_t out_h() const { return (h + 2 * pad - kh) / stride + 1; }
    int64_t out_w() const { return (w + 2 * pad - kw) / stride + 1; }
    bool whole() const { return kh == h && kw == w && pad == 0; } // one window is the image
};

// Resizes float32 images. kind: nearest, where a tie goes to the later pixel (asymmetric: the pixel
// that contains the corner), or bilinear. coordinates: half_pixel, align_corners, asymmetric.
struct ResizeCase {
    std::string kind, coordinates;
    int64_t n, c, h, w, out_h, out_w;
    bool channels_last = false;
};

// Normalises float32 images. kind: batch, with given means and variances; group, with those of
// `groups` groups of channels.
struct ImageNormCase {
    std::string kind;
    int64_t n, c, h, w;
    int64_t groups = 1;
    float epsilon = 1e-5f;
    bool channels_last = false;
};

// dst(i, …) = table(index(i), …): float32 rows selected by s32 indices, each from 0 to rows - 1
struct GatherCase {
    std::vector<int64_t> indices; // shape of index
    int64_t rows, columns;
};

// dst(i, j) = j == index(i) ? on : off, of float32
struct OneHotCase {
    int64_t count, classes;
    float on = 1, off = 0;
};

// A float32 array padded with `value`; lists have one number per axis.
struct PadCase {
    std::vector<int64_t> shape, before, after;
    float value = 0;
};

// dst(i, …) = src(begin + i * step, …), float32; lists have one number per axis.
struct SliceCase {
    std::vector<int64_t> shape, extents, begin, step;
};

// Concatenates float32 arrays along an axis.
struct ConcatCase {
    std::vector<std::vector<int64_t>> shapes;
    size_t axis;
    std::vector<int64_t> result() const {
        std::vector<int64_t> shape = shapes[0];
        for (size_t i = 1; i < shapes.size(); i++) shape[axis] += shapes[i][axis];
        return shape;
    }
};

// Running sums of float32 along an axis; exclusive: without the element itself.
struct CumulativeSumCase {
    std::vector<int64_t> shape;
    int64_t axis;
    bool exclusive = false;
};

// To bytes: round(x / scale) + zero_point, saturated; or from bytes: (q - zero_point) * scale. One
// of the types is F32.
struct QuantiseCase {
    int64_t count;
    Dtype from, to;
    float scale;
    int zero_point = 0;
};

// dst(i[order[0]], i[order[1]], …) = src(i[0], i[1], …), of float32
struct TransposeCase {
    std::vector<int64_t> shape, order;
};

// dst = softmax(scale * Q K^T) V for each of `heads` heads: Q[b,heads,s,d], K[b,groups,t,d],
// V[b,groups,t,v]. causal: the last query reads all keys, the one before all but the last, and so
// on.
struct AttentionCase {
    int64_t b, heads, groups, s, t, d, v;
    double scale;
    bool causal = false;
};

// kind: rnn, gru or lstm, as ops/recurrent.h says: dst[t,b,u] from src[t,b,i], weights of the input
// [gates,u,i] and of the state [gates,u,u], bias [gates,u], and first states [b,u], the second of
// lstm.
struct RecurrentCase {
    std::string kind;
    int64_t t, b, i, u;
    bool reverse = false, reset_after = false;
    int64_t gates() const { return kind == "lstm" ? 4 : kind == "gru" ? 3 : 1; }
};

} // namespace kumiko::bench
