// Lesson 7: program the simulated chip.
//
// The chip has no caches. A schedule distributes loops over its units by bind() and copies operands
// into its memories by place_in(). compile_chip() makes a program of instruction words, and the
// simulator runs it: results are exact to the bit, times to the cycle (docs/chip.md). On the
// command line:
//
//   kumiko run add --shape n=65536 --type f16 --target chip:small --report run.html
#include "driver/kumiko.h"
#include "targets/chip/compile.h"

#include <iostream>

using namespace kumiko;

// 2 L1Bs × 2 MABs × 4 PEs share the elements, 4 to a word. A tile is `words` words of each PE.
Schedule distributed(const Op &op, int words) {
    Schedule s(op, machine_named("chip:small"));
    auto C = s.stage("C");
    auto [all_words, lane] = C.split("i", 4);
    auto [of_mabs, pe] = C.split(all_words, 4);
    auto [of_l1bs, mab] = C.split(of_mabs, 2);
    auto [steps, l1b] = C.split(of_l1bs, 2);
    auto [tile, word] = C.split(steps, words);
    C.reorder({tile, l1b, mab, pe, word, lane}).vectorize(lane);
    C.bind(l1b, "L1B").bind(mab, "MAB").bind(pe, "PE");
    s.place_in("A", "LM0", "C", tile).double_buffer(); // loads the next tile meanwhile
    s.place_in("B", "LM1", "C", tile).double_buffer();
    return s;
}

int main() {
    Axis i("i", 65536);
    Tensor A = input("A", f16, {i}), B = input("B", f16, {i});
    Op op("add", {A, B}, {compute("C", {i}, A(i) + B(i))});
    std::cout << distributed(op, 64).nest();

    Buffer<> a = random_buffer(f16, {65536}, 1), b = random_buffer(f16, {65536}, 2), c(f16, {65536});
    uint64_t before = UINT64_MAX;
    for (int words : {8, 64}) { // small tiles wait for latencies, large ones for DRAM
        sim::Run run = compile_chip(distributed(op, words)).run({a, b, c});
        if (!equal_bits(c, interpret(op, {a, b}))) throw InternalError("the chip computes another sum");
        if (run.cycles() >= before) throw InternalError("larger tiles should take fewer cycles");
        before = run.cycles();
        std::cout << words << " words: " << run.cycles() << " cycles, DRAM is busy in " << run.dram_busy_cycles[0]
                  << "\n";
    }
    try {
        compile_chip(distributed(op, 256)); // two tiles exceed LM0
    } catch (const UserError &e) {
        std::cout << e.what() << "\n";
    }
    // The library's schedule needs no directive. The report shows the busy cycles of all units.
    std::cout << compile_chip(default_schedule(op, machine_named("chip:small"))).run({a, b, c}).report();
}
