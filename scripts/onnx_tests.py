#!/usr/bin/env python3
"""Writes the tests of single operators that come with ONNX as files.

    onnx_tests.py FOLDER

makes FOLDER/NAME/model.onnx, input_0.pb, … and output_0.pb, … for each test. A value that is no
tensor has no file.
"""
import os
import sys
import warnings


def write(path, message):
    with open(path, "wb") as file:
        file.write(message.SerializeToString())


def main():
    warnings.filterwarnings("ignore")
    from onnx import TensorProto, numpy_helper
    from onnx.backend.test.case.node import collect_testcases

    out = sys.argv[1]
    cases = collect_testcases(None)
    for case in cases:
        folder = os.path.join(out, case.name)
        os.makedirs(folder, exist_ok=True)
        write(os.path.join(folder, "model.onnx"), case.model)
        inputs, outputs = case.data_sets[0]
        for kind, values, infos in (
            ("input", inputs, case.model.graph.input),
            ("output", outputs, case.model.graph.output),
        ):
            for n, value in enumerate(values):
                if value is None or isinstance(value, (list, dict)):
                    continue
                tensor = value if isinstance(value, TensorProto) else numpy_helper.from_array(value, infos[n].name)
                write(os.path.join(folder, f"{kind}_{n}.pb"), tensor)
    print(f"{len(cases)} tests of ONNX's operators in {out}", file=sys.stderr)


if __name__ == "__main__":
    main()
