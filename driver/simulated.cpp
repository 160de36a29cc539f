#include "driver/simulated.h"

namespace kumiko {

SimulatedRun run_simulated(const ChipProgram &program, bool check, const sim::SimulateOptions &options) {
    const Op &op = program.op();
    std::optional<CheckArrays> reference;
    std::vector<Buffer<>> arrays, outputs;
    if (check) {
        reference = make_check_arrays(op);
        arrays = reference->inputs;
    } else {
        uint64_t seed = 1;
        for (const Input &in : op.inputs()) {
            arrays.push_back(make_input(in, {}));
            in.type.is_float() ? fill_random(arrays.back(), seed++, -1, 1)
                               // Row indices, spread over tables.
                               : fill_random_integers(arrays.back(), seed++, 0, 1000);
        }
    }
    for (const std::string &o : op.outputs()) {
        outputs.push_back(make_output(op, o, {}));
        fill_unwritten(outputs.back());
        arrays.push_back(outputs.back());
    }
    sim::Run run = program.run(arrays, options);
    if (reference) reference->check(outputs);
    return {std::move(run), std::move(reference)};
}

} // namespace kumiko
