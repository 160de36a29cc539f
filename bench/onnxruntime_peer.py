"""ONNX Runtime as a baseline library: builds graphs on request, runs them and reports the times.

Each request is a line of JSON on the input, each reply a line of JSON on the output, until the
input ends. Arrays are in files that both processes have open. So only the number of runs and the
seconds are sent while something is timed.

    {"do": "hello"}                                    {"version": "1.32.0"}
    {"do": "make", "threads": 1, "nodes": …,
     "inputs": …, "outputs": …, "opsets": …,
     "flush_denormals": false}                         {"id": 0} or {"refused": "why"}
    {"do": "make", "threads": 1, "model": "m.onnx",
     "inputs": …, "outputs": …}                        the same, of a file
    {"do": "run", "id": 0, "times": 100}               {"seconds": 0.012}, of all runs after a
                                                       warm-up run; CPU time of this thread
                                                       with "clock": "processor"
    {"do": "collect", "id": 0}                         {}, and the outputs are in their files
    {"do": "drop", "id": 0}                            {}
"""
import json
import struct
import sys
import time

import numpy
import onnxruntime

# By name: the number that ONNX gives the type, and what an element is here.
TYPES = {
    "f32": (1, numpy.float32), "u8": (2, numpy.uint8), "s8": (3, numpy.int8), "s32": (6, numpy.int32),
    "s64": (7, numpy.int64), "bool": (9, numpy.bool_), "u16": (4, numpy.uint16), "s16": (5, numpy.int16),
    "u32": (12, numpy.uint32), "u64": (13, numpy.uint64), "f16": (10, numpy.float16), "f64": (11, numpy.float64), "bf16": (16, numpy.uint16),
}


# ---- the wire format of ONNX's files: fields of varints, of 32 bits and of bytes
# ------------------

def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def real(field, value):
    return varint(field << 3 | 5) + struct.pack("<f", value)


def piece(field, content):
    if isinstance(content, str):
        content = content.encode()
    return varint(field << 3 | 2) + varint(len(content)) + content


def attribute(name, value):
    body = piece(1, name)
    if isinstance(value, str):
        return body + piece(4, value) + number(20, 3)
    if isinstance(value, float):
        return body + real(2, value) + number(20, 1)
    if isinstance(value, int):
        return body + number(3, value) + number(20, 2)
    return body + b"".join(number(8, v) for v in value) + number(20, 7)


def node(n):
    body = b"".join(piece(1, x) for x in n["inputs"]) + b"".join(piece(2, x) for x in n["outputs"])
    body += piece(4, n["op"]) + b"".join(piece(5, attribute(k, v)) for k, v in n.get("attributes", {}).items())
    return body + piece(7, n.get("domain", ""))


def constant(tensor, array):
    dims = b"".join(number(1, d) for d in tensor["shape"])
    return dims + number(2, TYPES[tensor["type"]][0]) + piece(8, tensor["name"]) + piece(9, array.tobytes())


def value(tensor):
    shape = b"".join(piece(1, number(1, d)) for d in tensor["shape"])
    return piece(1, tensor["name"]) + piece(2, piece(1, number(1, TYPES[tensor["type"]][0]) + piece(2, shape)))


def model(request, arrays):
    graph = b"".join(piece(1, node(n)) for n in request["nodes"]) + piece(2, "kumiko")
    for tensor in request["inputs"]:
        if tensor.get("constant"):
            graph += piece(5, constant(tensor, arrays[tensor["name"]]))
        else:
            graph += piece(11, value(tensor))
    graph += b"".join(piece(12, value(t)) for t in request["outputs"])
    opsets = b"".join(piece(8, piece(1, domain) + number(2, version)) for domain, version in request["opsets"].items())
    return number(1, 10) + opsets + piece(7, graph)


# ---- sessions
# -------------------------------------------------------------------------------------

def aligned(shape, kind):
    size = int(numpy.prod(shape, dtype=numpy.int64)) * numpy.dtype(kind).itemsize
    room = numpy.empty(size + 64, numpy.uint8)
    start = -room.ctypes.data % 64
    return room[start:start + size].view(kind).reshape(shape)


class Made:
    def __init__(self, request):
        self.arrays = {}
        for tensor in request["inputs"]:
            array = aligned(tensor["shape"], TYPES[tensor["type"]][1])
            if "values" in tensor:
                array[...] = tensor["values"]
            else:
                array[...] = numpy.fromfile(tensor["file"], array.dtype, array.size).reshape(array.shape)
            self.arrays[tensor["name"]] = array
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = request["threads"]
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        if request.get("flush_denormals"):
            options.add_session_config_entry("session.set_denormal_as_zero", "1")
        source = request["model"] if "model" in request else model(request, self.arrays)
        self.session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        self.outputs = request["outputs"]
        self.binding = self.session.io_binding()
        for tensor in request["inputs"]:
            if not tensor.get("constant"):
                self.bind(self.binding.bind_input, tensor, self.arrays[tensor["name"]])
        for tensor in request["outputs"]:
            self.arrays[tensor["name"]] = aligned(tensor["shape"], TYPES[tensor["type"]][1])
            self.bind(self.binding.bind_output, tensor, self.arrays[tensor["name"]])
        self.run(0)

    @staticmethod
    def bind(how, tensor, array):
        kind = TYPES[tensor["type"]]
        how(tensor["name"], "cpu", 0, kind[0] if tensor["type"] == "bf16" else kind[1], tensor["shape"],
            array.ctypes.data)

    def run(self, times, clock=time.perf_counter):
        run, binding, options = self.session._sess.run_with_iobinding, self.binding._iobinding, None
        run(binding, options)
        begin = clock()
        for _ in range(times):
            run(binding, options)
        return clock() - begin

    def collect(self):
        for tensor in self.outputs:
            with open(tensor["file"], "r+b") as file:
                file.write(self.arrays[tensor["name"]].tobytes())


def answer(request, made):
    what = request["do"]
    if what == "hello":
        return {"version": onnxruntime.__version__}
    if what == "make":
        try:
            made.append(Made(request))
        except Exception as e:  # of whatever kind: what it does not take is no failure of ours
            return {"refused": str(e)}
        return {"id": len(made) - 1}
    if what == "run":
        clock = time.thread_time if request.get("clock") == "processor" else time.perf_counter
        return {"seconds": made[request["id"]].run(request["times"], clock)}
    if what == "collect":
        made[request["id"]].collect()
    if what == "drop":
        made[request["id"]] = None
    return {}


def main():
    made = []
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line), made)), flush=True)


if __name__ == "__main__":
    main()
