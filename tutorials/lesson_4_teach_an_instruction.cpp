// Lesson 4: teach it an instruction.
//
// A tensor instruction is declared by its meaning, a small formula. tensorize proves that a block
// of loops has the same meaning, addresses included; then the emitter generates LLVM IR for it.
// Here: four dot products of two floats each, by shuffles, products and sums.
#include "driver/kumiko.h"
#include "targets/cpu/emit.h"

#include <iostream>

using namespace kumiko;

int main() {
    Instruction dot2("mine.dot2",
                     [](Axis i, Axis k) { // 4 lanes, 2 products each
                         Tensor a = input("a", f32, {k}), b = input("b", f32, {i, k});
                         return accumulate("c", f32, {i}, sum(a(k) * b(i, k), k));
                     },
                     {4, 2});
    dot2.needs(Feature::avx2).emit([](llvm::IRBuilder<> &ir, auto args) { // c, then a, then b
        llvm::Value *sum = args[0];
        for (int k = 0; k < 2; k++) {
            llvm::Value *a = ir.CreateShuffleVector(args[1], {k, k, k, k});
            llvm::Value *b = ir.CreateShuffleVector(args[2], {k, 2 + k, 4 + k, 6 + k});
            sum = ir.CreateFAdd(sum, ir.CreateFMul(a, b));
        }
        return sum;
    });
    if (!dot2.available_on(Machine::host())) return 0;

    Axis i("i", 10), j("j", 30), k("k", 16);
    Tensor A = input("A", f32, {i, k}), B = input("B", f32, {k, j});
    Op op("matmul", {A, B}, {compute("C", {i, j}, sum(A(i, k) * B(k, j), k))});

    Schedule s(op);
    auto C = s.stage("C");
    auto [jo, ji] = C.split("j", 4);
    auto [ko, ki] = C.split("k", 2);
    C.reorder({"i", jo, ko, ji, ki}).accumulate_in("registers", jo);
    try {
        C.tensorize(ji, dot2); // B's pairs along k are 30 elements apart
    } catch (const UserError &e) {
        std::cout << e.what() << "\n";
    }
    // in the instruction's order
    s.place_in("B", "L2", "C", "i").layout({"j/4", "k/2", "j%4", "k%2"});
    C.tensorize(ji, dot2);
    std::cout << s.nest();

    Kernel f = compile(s);

    Buffer<float> a = random({10, 16}), b = random({16, 30}), c({10, 30});
    f(a, b, c);
    check_close(c, interpret(op, a, b));
}
