#include "autotune/arrays.h"

#include "autotune/exact.h"
#include "dsl/interpret.h"
#include "support/error.h"

namespace kumiko {

namespace {

std::vector<Buffer<>> make_inputs(const Op &op, const Sizes &sizes) {
    std::vector<Buffer<>> inputs;
    for (const Input &input : op.inputs()) inputs.push_back(make_input(input, sizes));
    return inputs;
}

JudgedArrays exact_arrays(const Op &op, const Sizes &sizes, uint64_t seed, int low, int high) {
    JudgedArrays a{make_inputs(op, sizes), {}, {}, true};
    for (size_t i = 0; i < a.inputs.size(); i++) {
        const Type type = op.inputs()[i].type;
        fill_random_integers(a.inputs[i], seed + i, type.is_uint() ? 0 : low, type.is_bool() ? 1 : high);
    }
    std::vector<Buffer<>> all = a.inputs;
    for (const std::string &name : op.outputs()) {
        a.expected.push_back(make_output(op, name, sizes));
        all.push_back(a.expected.back());
    }
    interpret(op, all, {.sizes = sizes});
    return a;
}

JudgedArrays bounded_arrays(const Op &op, const Sizes &sizes, uint64_t seed) {
    JudgedArrays a{make_inputs(op, sizes), {}, {}, false};
    for (size_t i = 0; i < a.inputs.size(); i++) {
        const Type type = op.inputs()[i].type;
        if (type.is_float())
            fill_random(a.inputs[i], seed + i, -1, 1);
        else
            fill_random_integers(a.inputs[i], seed + i, type.is_uint() ? 0 : -4, type.is_bool() ? 1 : 4);
    }
    Bounded result = interpret_with_bound(op, a.inputs, sizes);
    a.expected = result.values;
    a.bounds = result.bounds;
    return a;
}

} // namespace

// Integers may also be indices, which must lie inside what they index: smaller ones are tried before giving up.
JudgedArrays make_judged_arrays(const Op &op, const Sizes &sizes, uint64_t seed) {
    const std::optional<int> magnitude = exact_input_magnitude(op, sizes);
    if (!magnitude) return bounded_arrays(op, sizes, seed);
    try {
        return exact_arrays(op, sizes, seed, -*magnitude, *magnitude);
    } catch (const UserError &) {
        try {
            return exact_arrays(op, sizes, seed, 0, *magnitude);
        } catch (const UserError &) {
            return exact_arrays(op, sizes, seed, 0, 1);
        }
    }
}

} // namespace kumiko
