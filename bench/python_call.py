"""Prints seconds as JSON: of the imports, from there to a model's first answer, and of a call.

    python_call.py LIBRARY.so ELEMENTS      `run` takes an input and an output of so many f32
"""
import json
import sys
import time

begin = time.perf_counter()
import numpy
import tvm_ffi

imported = time.perf_counter()
run = tvm_ffi.load_module(sys.argv[1]).run
elements = int(sys.argv[2])
x, y = numpy.ones(elements, numpy.float32), numpy.zeros(elements, numpy.float32)
run(x, y)
first = time.perf_counter() - imported


def seconds_of_call(*arguments):
    """The median over rounds of the mean of a round's calls."""
    rounds = []
    for _ in range(31):
        start = time.perf_counter()
        for _ in range(2000):
            run(*arguments)
        rounds.append((time.perf_counter() - start) / 2000)
    return sorted(rounds)[len(rounds) // 2]


print(json.dumps({"import": imported - begin, "first": first, "numpy": seconds_of_call(x, y),
                  "tvm_ffi": seconds_of_call(tvm_ffi.from_dlpack(x), tvm_ffi.from_dlpack(y))}))
