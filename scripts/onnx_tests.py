#!/usr/bin/env python3
"""Writes the tests of single operators that come with ONNX as files.

    onnx_tests.py FOLDER

makes FOLDER/NAME/model.onnx, input_0.pb, … and output_0.pb, … for each test. A file holds a
TensorProto, SequenceProto or OptionalProto, as the type of the graph's input or output says.
"""
import os
import sys
import warnings


def write(path, message):
    with open(path, "wb") as file:
        file.write(message.SerializeToString())


def message_of(value, info):
    from onnx import OptionalProto, SequenceProto, TensorProto, numpy_helper

    if isinstance(value, (OptionalProto, SequenceProto, TensorProto)):
        return value
    kind = info.type.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.from_list(value, info.name)
    if kind == "optional_type":
        return numpy_helper.from_optional(value, info.name)
    return numpy_helper.from_array(value, info.name)


def main():
    warnings.filterwarnings("ignore")
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
                write(os.path.join(folder, f"{kind}_{n}.pb"), message_of(value, infos[n]))
    print(f"{len(cases)} tests of ONNX's operators in {out}", file=sys.stderr)


if __name__ == "__main__":
    main()
