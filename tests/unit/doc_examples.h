// Checks the examples of a page, which scripts/doc_examples.py turns into test cases.
#pragma once

#include "driver/expected.h"
#include "driver/kumiko.h"
#include "tests/unit/check_runs.h"

namespace kumiko {

// Every symbolic size of an example is 12.
inline Sizes sizes_of_example(const Op &op) {
    Sizes sizes;
    for (const std::string &name : op.sizes()) sizes[name] = 12;
    return sizes;
}

// `make` returns an op whose operations are exact on small integers.
template<typename F>
void check_example(F make) {
    const Op op = make();
    check_runs(default_schedule(op, Machine::host()), sizes_of_example(op));
}

// `make` returns an op whose operations round.
template<typename F>
void check_rounded_example(F make) {
    const Op op = make();
    const Sizes sizes = sizes_of_example(op);
    const CheckArrays reference = make_check_arrays(op, sizes);
    std::vector<Buffer<>> arrays = with_inouts_copied(op, reference.inputs);
    for (const std::string &output : op.separate_outputs()) {
        arrays.push_back(make_output(op, output, sizes));
        fill_unwritten(arrays.back());
    }
    compile(op)(arrays, sizes);
    reference.check(output_arrays(op, arrays));
}

// `make` throws an error with this message, after the place in the page if the error has one.
template<typename F>
void check_error_example(F make, const std::string &message) {
    const std::string text = refusal(make), marker = ": error: ";
    const size_t place = text.find(marker);
    CHECK(text.substr(place == std::string::npos ? 0 : place + marker.size()) == message);
}

} // namespace kumiko
