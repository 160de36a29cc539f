#include "ops/reorder.h"

#include "support/error.h"

namespace kumiko::ops {

Op transpose(Type t, const Expr &M, const Expr &N) {
    Axis i("i", M), j("j", N);
    Tensor X = input("X", t, {i, j});
    return Op("transpose", {X}, {compute("Y", {j, i}, X(i, j))});
}

namespace {

void need_rows(const char *op, const Expr &N) {
    if (const auto n = Halide::Internal::as_const_int(N); n && *n < 1)
        throw UserError(std::string(op) + ": its table has n = " + std::to_string(*n) + " rows; at least 1 is needed");
}

} // namespace

Op gather(Type t, const Expr &M, const Expr &N, const Expr &W) {
    need_rows("gather", N);
    Axis i("i", M), j("j", W), row("row", N);
    Tensor X = input("X", t, {row, j}), index = input("index", Int(32), {i});
    return Op("gather", {X, index}, {compute("Y", {i, j}, X(clamp(index(i), 0, N - 1), j))});
}

Op embedding(Type t, const Expr &B, const Expr &S, const Expr &N, const Expr &W) {
    need_rows("embedding", N);
    Axis b("b", B), s("s", S), j("j", W), row("row", N);
    Tensor table = input("table", t, {row, j}), token = input("token", Int(32), {b, s});
    return Op("embedding", {table, token}, {compute("Y", {b, s, j}, table(clamp(token(b, s), 0, N - 1), j))});
}

} // namespace kumiko::ops
