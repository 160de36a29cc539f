// Lesson 4: teach it an instruction.
//
// A tensor instruction is declared by what it means, a small op, and by where the elements of its operands lie in its
// registers. tensorize proves that a block of loops means the same, addresses included; then the emitter writes LLVM for it.
// Here: four dot products of two floats each, written with shuffles, products and sums.
#include "driver/kumiko.h"
#include "targets/cpu/emit.h"

#include <iostream>

using namespace kumiko;

Instruction dot2() {
    Axis i("i", 4), k("k", 2);
    Tensor a = input("a", f32, {k}), b = input("b", f32, {i, k});
    Tensor c = compute("c", {i}, sum(a(k) * b(i, k), k));
    return {"mine.dot2",
            "4 dot products of two floats",
            {},
            Op("dot2", {a, b}, {c}),
            {{"c", f32, 4, {1}, true}, {"a", f32, 2, {1}}, {"b", f32, 8, {2, 1}}}};
}

int main() {
    Axis i("i", 10), j("j", 30), k("k", 16);
    Tensor A = input("A", f32, {i, k}), B = input("B", f32, {k, j});
    Op op("matmul", {A, B}, {compute("C", {i, j}, sum(A(i, k) * B(k, j), k))});

    Schedule s(op);
    auto C = s.stage("C");
    auto [jo, ji] = C.split("j", 4);
    auto [ko, ki] = C.split("k", 2);
    C.reorder({"i", jo, ko, ji, ki}).accumulate_in("registers", jo);
    try {
        C.tensorize(ji, dot2()); // B's pairs along k are 30 elements apart
    } catch (const UserError &e) {
        std::cout << e.what() << "\n";
    }
    s.place_in("B", "L2", "C", "i").layout({"j/4", "k/2", "j%4", "k%2"}); // now they lie as the instruction wants them
    C.tensorize(ji, dot2());
    std::cout << s.nest();

    auto emitters = std::make_shared<EmitterRegistry>(EmitterRegistry::builtin());
    emitters->add("mine.dot2", [](llvm::IRBuilder<> &ir, const std::vector<llvm::Value *> &args) {
        llvm::Value *sum = args[0]; // c, then a, then b
        for (int k = 0; k < 2; k++) {
            llvm::Value *a = ir.CreateShuffleVector(args[1], {k, k, k, k});
            llvm::Value *b = ir.CreateShuffleVector(args[2], {k, 2 + k, 4 + k, 6 + k});
            sum = ir.CreateFAdd(sum, ir.CreateFMul(a, b));
        }
        return sum;
    });
    CompileOptions options;
    options.emitters = emitters;
    Kernel f = compile(s, Target::host(), options);

    Buffer<float> a = random({10, 16}), b = random({16, 30}), c({10, 30});
    f(a, b, c);
    check_close(c, interpret(op, a, b));
}
