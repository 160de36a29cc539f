#include "ops/matmul.h"

#include "ops/elementwise.h"
#include "ops/quantise.h"
#include "support/error.h"

namespace kumiko::ops {

namespace {

// Strides of a matrix with leading dimension `ld`; empty (dense) if it is not defined.
std::vector<Expr> row_strides(const std::vector<Axis> &batch, const Axis &outer, const Expr &ld) {
    if (!ld.defined()) return {};
    std::vector<Expr> strides = {ld, 1};
    if (!batch.empty()) strides.insert(strides.begin(), ld * outer.extent());
    return strides;
}

// An input stored with the axes `outer` and `inner`, after the batch axis, if there is one.
Tensor matrix(const std::string &name, Type t, const std::vector<Axis> &batch, const Axis &outer, const Axis &inner,
              const Expr &ld) {
    std::vector<Axis> axes = batch;
    axes.push_back(outer);
    axes.push_back(inner);
    return input(name, t, axes, {.strides = row_strides(batch, outer, ld)});
}

} // namespace

Op matmul(Type t, const Expr &M, const Expr &N, const Expr &K, const MatmulOptions &o) {
    const Type tb = MatmulOptions::stated(o.b_type) ? o.b_type : t;
    const Type acc = MatmulOptions::stated(o.accumulate) ? o.accumulate : accumulator_type(t);
    const Type out = MatmulOptions::stated(o.output) ? o.output : t.is_float() ? t : acc;
    Axis i("i", M), j("j", N), k("k", K);
    std::vector<Axis> batch;
    if (o.batch.defined()) batch.push_back(Axis("b", o.batch));
    const std::vector<Axis> batch_b = o.shared_b ? std::vector<Axis>() : batch;

    Tensor A = o.transpose_a ? matrix("A", t, batch, k, i, o.lda) : matrix("A", t, batch, i, k, o.lda);
    Tensor B = o.transpose_b ? matrix("B", tb, batch_b, j, k, o.ldb) : matrix("B", tb, batch_b, k, j, o.ldb);
    const auto at = [](const std::vector<Axis> &b, const Axis &y, const Axis &x) {
        std::vector<Expr> index(b.begin(), b.end());
        index.push_back(y);
        index.push_back(x);
        return index;
    };
    const auto widened = [&](const Element &e) { return e.type() == acc ? Expr(e) : cast(acc, e); };
    const Expr a = widened(A.at(o.transpose_a ? at(batch, k, i) : at(batch, i, k)));
    const Expr b = widened(B.at(o.transpose_b ? at(batch_b, j, k) : at(batch_b, k, j)));

    std::vector<Tensor> inputs = {A, B};
    std::vector<Axis> axes = batch;
    axes.push_back(i);
    axes.push_back(j);
    const Type after = type_after(acc, out);
    const auto converted = [&](const Expr &e) { return e.type() == after ? e : cast(after, e); };
    Expr value = converted(sum(a * b, k));
    if (o.bias) {
        Tensor bias = input("bias", o.requantise ? acc : out, {j});
        inputs.push_back(bias);
        value = value + converted(bias(j));
    }
    if (o.residual) {
        Tensor residual = input("residual", out, axes);
        inputs.push_back(residual);
        value = value + converted(residual.at(at(batch, i, j)));
    }
    if (o.zero_point && !o.requantise)
        throw UserError("matmul: zero_point is set without requantise; legal is 0, or requantise");
    if (o.requantise) {
        if (acc != i32)
            throw UserError("matmul requantises sums of i32, not " + type_name(acc) + "; legal are A and B of 8 bits");
        if (o.residual) throw UserError("matmul with requantise takes no residual; legal is one of them");
        Tensor scale = input("scale", f32, {j});
        inputs.push_back(scale);
        value = requantised("matmul", out, value, scale(j), o.zero_point, o.activation);
    } else {
        value = activated(o.activation, value);
    }
    if (value.type() != out) value = cast(out, value);
    return Op("matmul", inputs, {compute("C", axes, value, {.strides = row_strides(batch, i, o.ldc)})});
}

Op gemv(Type t, const Expr &M, const Expr &K) {
    Axis i("i", M), k("k", K);
    const Type acc = accumulator_type(t), out = t.is_float() ? t : acc;
    Tensor A = input("A", t, {i, k}), x = input("x", t, {k});
    const auto widened = [&](const Element &e) { return e.type() == acc ? Expr(e) : cast(acc, e); };
    Expr value = sum(widened(A(i, k)) * widened(x(k)), k);
    if (out != acc) value = cast(out, value);
    return Op("gemv", {A, x}, {compute("y", {i}, value)});
}

Op gemm_strided(Type t, const Expr &M, const Expr &N, const Expr &K) {
    MatmulOptions options;
    options.lda = Size("lda");
    options.ldb = Size("ldb");
    options.ldc = Size("ldc");
    return matmul(t, M, N, K, options);
}

} // namespace kumiko::ops
