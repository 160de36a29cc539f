// Lesson 8: sizes known only at run time.
//
// A Size is bound when the kernel is called, from the shapes of its arrays. The kernel works for
// any size. specialize() generates further code for some sizes, in which the condition is known to
// hold and tails vanish.
#include "driver/kumiko.h"

#include <iostream>

using namespace kumiko;

int main() {
    Size M("M");
    Axis i("i", M), j("j", 64), k("k", 96);
    Tensor A = input("A", f32, {i, k}), B = input("B", f32, {k, j});
    Op op("matmul", {A, B}, {compute("C", {i, j}, sum(A(i, k) * B(k, j), k))});

    Schedule s(op);
    auto C = s.stage("C");
    auto [io, ii] = C.split("i", 14);
    auto [jo, ji] = C.split("j", 8);
    C.reorder({io, jo, "k", ii, ji}).vectorize(ji).accumulate_in("registers", jo);

    Schedule one_row(op);
    one_row.stage("C").reorder({"i", "k", "j"}).vectorize("j", 16);

    s.specialize(M % 14 == 0).specialize(M == 1, one_row);
    std::cout << s.nest();

    Kernel f = compile(s, Target::host()); // M is read from the arrays
    for (int m : {1, 5, 14, 28, 100}) {
        Buffer<float> a = random({m, 96}), b = random({96, 64}), c({m, 64});
        f(a, b, c);
        check_close(c, interpret(op, a, b));
    }
    std::cout << "right for every M\n";
}
