#include "bench/simulated.h"

#include "driver/expected.h"

namespace kumiko::bench {

sim::Run simulated(const ChipProgram &program, bool check) {
    const Op &op = program.op();
    std::vector<Buffer<>> arrays;
    std::optional<CheckArrays> reference;
    if (check) {
        reference = make_check_arrays(op, {});
        arrays = reference->inputs;
    } else {
        uint64_t seed = 1;
        for (const Input &in : op.inputs()) {
            arrays.push_back(make_input(in, {}));
            in.type.is_float() ? fill_random(arrays.back(), seed++, -1, 1)
                               : fill_random_integers(arrays.back(), seed++, 0, 1000);
        }
    }
    arrays.push_back(make_output(op, op.outputs().front(), {}));
    fill_unwritten(arrays.back());
    sim::Run run = program.run(arrays);
    if (reference) reference->check({arrays.back()});
    return run;
}

} // namespace kumiko::bench
