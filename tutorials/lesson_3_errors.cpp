// Lesson 3: read the errors.
//
// An illegal directive is an error at the line that gives it: the cause, the loops with the place
// marked, and the legal alternatives. The schedule is unchanged, so a program may catch the error
// and try something else.
#include "driver/kumiko.h"
#include "schedules/primitive.h"

#include <iostream>

using namespace kumiko;

int main() {
    Axis n("n", 4), c("c", 8), y("y", 32), x("x", 32);
    Tensor X = input("X", f32, {n, c, y, x});
    Op op("scale", {X}, {compute("Y", {n, c, y, x}, X(n, c, y, x) * 2.f)});
    Schedule s(op);
    try {
        s.stage("Y").vectorize("z", 16); // Y has no such loop
    } catch (const UserError &e) {
        std::cout << e.what() << "\n";
    }
    // A directive that only lacks later ones is pending. It is an error when the schedule is used.
    s.stage("Y").vectorize("y", 16); // y is not the innermost loop
    try {
        compile(s);
    } catch (const UserError &e) {
        std::cout << e.what() << "\n";
    }
    s.stage("Y").reorder({"x", "y"}); // as the message proposes

    // A later directive must not invalidate an earlier one; the message names both lines.
    try {
        s.stage("Y").reorder({"n", "c", "y.v", "x", "y.o"});
    } catch (const UserError &e) {
        std::cout << e.what() << "\n";
    }
    if (s.directives().size() != 2) throw InternalError("a refused directive stayed");

    Buffer<float> in = random({4, 8, 32, 32}), out({4, 8, 32, 32});
    compile(s)(in, out);
    check_close(out, interpret(op, in));
}
