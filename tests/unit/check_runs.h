// Runs scheduled kernels on small integers, which are exact in every order. The bits must equal the
// interpreter's, and the schedule must replay.
#pragma once

#include "driver/kernel.h"
#include "dsl/inout.h"
#include "dsl/interpret.h"
#include "support/error.h"
#include "targets/lower/lower.h"
#include "tests/unit/refusal.h"

#include <doctest/doctest.h>
#include <sstream>

namespace kumiko {

inline std::string body_of(const Schedule &s) {
    std::ostringstream text;
    text << lower(s).body;
    return text.str();
}

inline void check_runs(const Schedule &s, const Sizes &sizes = {}, const CompileOptions &options = {}) {
    INFO(s.nest());
    const Op &op = s.op();
    const Schedule again = Schedule::from_json(op, s.machine(), s.to_json(), s.state().instructions);
    CHECK(again.nest() == s.nest());
    CHECK(body_of(again) == body_of(s));
    CHECK(again.to_cpp() == s.to_cpp());
    const Kernel k = compile(s, Target::host(), options);
    std::vector<Buffer<>> args, expected;
    for (const Input &in : op.inputs()) {
        Buffer<> b = make_input(in, sizes);
        fill_random_integers(b, args.size() + 1, -4, 4);
        args.push_back(b);
        expected.push_back(b);
    }
    expected = with_inouts_copied(op, expected);
    for (const std::string &out : op.separate_outputs()) {
        args.push_back(make_output(op, out, sizes));
        fill_unwritten(args.back());
        expected.push_back(make_output(op, out, sizes));
    }
    interpret(op, expected);
    for (size_t t = 0; t < op.inputs().size(); t++) {
        if (!k.nest().tensors[t].packed_from.empty()) args[t] = k.pack(op.inputs()[t].name, args[t], sizes);
    }
    k(args);
    const std::vector<Buffer<>> actual = output_arrays(op, args), meant = output_arrays(op, expected);
    for (size_t o = 0; o < actual.size(); o++) CHECK(difference(actual[o], meant[o]) == "");
}

} // namespace kumiko
