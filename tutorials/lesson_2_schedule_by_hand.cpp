// Lesson 2: schedule it by hand and look.
//
// A schedule orders the work and never changes the result. Each directive is checked when it is
// given. The nest shows the loops, where each stage is computed, and where it is stored. A schedule
// is data, so it can be saved and replayed.
#include "driver/kumiko.h"

#include <iostream>

using namespace kumiko;

Op group_norm_silu(Expr N, Expr G, Expr C, Expr H, Expr W) {
    Axis n("n", N), g("g", G), c("c", C), y("y", H), x("x", W);
    Tensor X = input("X", f32, {n, g, c, y, x}), scale = input("scale", f32, {g, c});
    Tensor mean = compute("mean", {n, g}, sum(X(n, g, c, y, x), {c, y, x}) / cast<float>(C * H * W));
    Tensor var = compute("var", {n, g}, sum(square(X(n, g, c, y, x) - mean(n, g)), {c, y, x}) / cast<float>(C * H * W));
    Expr z = (X(n, g, c, y, x) - mean(n, g)) * rsqrt(var(n, g) + 1e-5f) * scale(g, c);
    Tensor Y = compute("Y", {n, g, c, y, x}, z / (1.f + exp(-z)));
    return Op("group_norm_silu", {X, scale}, {Y});
}

int main() {
    Op op = group_norm_silu(2, 8, 4, 32, 32);
    Schedule s(op);
    s.stage("mean.sum").parallel("n").vectorize("x", 16); // x is reduced: 16 partial sums
    s.stage("var.sum").parallel("n").vectorize("x", 16);
    s.stage("Y").compute_root().fuse("n", "g", "ng").parallel("ng").vectorize("x", 16);

    std::cout << s.nest();      // loops, where stages are computed and stored
    s.nest().html("nest.html"); // the same, interactive
    Kernel k = compile(s, Target::host());
    std::cout << k.assembly().size() << " characters of assembly, " << k.report().lowering + k.report().code
              << " ms to callable code\n";

    s.save("gn.json");
    Schedule again = Schedule::load(op, "gn.json"); // replays the directives
    if (again.nest() != s.nest()) throw InternalError("a replayed schedule has another nest");

    Buffer<float> x = random({2, 8, 4, 32, 32}), scale = random({8, 4}), y({2, 8, 4, 32, 32});
    k(x, scale, y);
    check_close(y, interpret(op, x, scale));
    std::cout << s.to_cpp();
}
