"""What peers in Python share: the protocol of bench/python_peer.h.

Each request is a line of JSON on the input, each reply a line of JSON on the output, until the
input ends. Arrays are in files that both processes have open. So only the number of runs and the
seconds are sent while something is timed.

    {"do": "hello"}                                    {"version": "1.32.0"}
    {"do": "make", "threads": 1, "model": "m.onnx",
     "inputs": …, "outputs": …}                        {"id": 0} or {"refused": "why"}
    {"do": "run", "id": 0, "times": 100}               {"seconds": 0.012}, of all runs after a
                                                       warm-up run; CPU time of this thread
                                                       with "clock": "processor"
    {"do": "profile", "id": 0, "times": 10}            {"layers": [[["name", …], seconds], …]}:
                                                       of each layer the median
    {"do": "collect", "id": 0}                         {"shapes": {"y": [2, 3], …}}, and the
                                                       outputs are in their files. Those that
                                                       "make" names as "bounded" have at most the
                                                       shape that is asked for
    {"do": "drop", "id": 0}                            {}

A peer may answer further requests.
"""
import json
import sys
import time

import numpy

# By name: the number that ONNX gives the type, and what an element is here.
TYPES = {
    "f32": (1, numpy.float32), "u8": (2, numpy.uint8), "s8": (3, numpy.int8), "s32": (6, numpy.int32),
    "s64": (7, numpy.int64), "bool": (9, numpy.bool_), "u16": (4, numpy.uint16), "s16": (5, numpy.int16),
    "u32": (12, numpy.uint32), "u64": (13, numpy.uint64), "f16": (10, numpy.float16), "f64": (11, numpy.float64),
    "bf16": (16, numpy.uint16),
}


def aligned(shape, kind):
    size = int(numpy.prod(shape, dtype=numpy.int64)) * numpy.dtype(kind).itemsize
    room = numpy.empty(size + 64, numpy.uint8)
    start = -room.ctypes.data % 64
    return room[start:start + size].view(kind).reshape(shape)


def array_of(tensor):
    """The array of an input or output, with the contents of its file."""
    array = aligned(tensor["shape"], TYPES[tensor["type"]][1])
    if "values" in tensor:
        array[...] = tensor["values"]
    elif "file" in tensor:
        array[...] = numpy.fromfile(tensor["file"], array.dtype, array.size).reshape(array.shape)
    return array


def write_outputs(outputs, arrays):
    """Writes the arrays of the outputs, by name, to their files."""
    for tensor in outputs:
        with open(tensor["file"], "r+b") as file:
            file.write(arrays[tensor["name"]].tobytes())


def median_layers(profiles):
    """One list of (names, seconds) from those of several runs: of each layer the median."""
    samples = {}
    for profile in profiles:
        for names, seconds in profile:
            samples.setdefault(tuple(names), []).append(seconds)
    return [[names, float(numpy.median(s)) * len(s) / len(profiles)] for names, s in samples.items()]


def answer(request, made, version, make, further):
    what = request["do"]
    if what == "hello":
        return {"version": version}
    if what == "make":
        try:
            made.append(make(request))
        except Exception as e:  # of whatever kind: what it does not take is no failure of ours
            return {"refused": str(e)}
        return {"id": len(made) - 1}
    if what == "run":
        clock = time.thread_time if request.get("clock") == "processor" else time.perf_counter
        return {"seconds": made[request["id"]].run(request["times"], clock)}
    if what == "profile":
        return {"layers": made[request["id"]].profile(request["times"])}
    if what == "collect":
        return {"shapes": made[request["id"]].collect()}
    if what == "drop":
        made[request["id"]] = None
    if what in further:
        try:
            return further[what](request)
        except Exception as e:  # as for "make"
            return {"refused": str(e)}
    return {}


def serve(version, make, further={}):
    """Answers until the input ends. `make` turns a request into an object with run(times, clock),
    profile(times) and collect(). `further`: functions for other requests, by what they do."""
    made = []
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line), made, version, make, further)), flush=True)
