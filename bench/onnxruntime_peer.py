"""ONNX Runtime as a peer: builds graphs on request, or reads a model, and runs them.

The protocol is that of bench/peer_process.py. A graph on request has no "model", but "nodes" and
"opsets"; its inputs may be "constant", and "flush_denormals" be true. A further request:

    {"do": "values", "model": "m.onnx", "inputs": …,   {"values": {"relu_3": "0.npy", …}}: each
     "folder": "/tmp/f"}                               value of the graph, of a run without
                                                       optimisations, in a file in the folder
    {"do": "resident"}                                 {"bytes": 123456}: the largest resident
                                                       memory, without what this process had before
                                                       it loaded ONNX Runtime
"""
import json
import os
import struct
import tempfile
import time

import numpy


def memory(field):
    """Bytes of this process, by a field of its status."""
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith(field))


BEFORE = memory("VmRSS")

import onnxruntime

from peer_process import TYPES, array_of, median_layers, serve, write_outputs

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

class Made:
    def __init__(self, request):
        self.arrays = {tensor["name"]: array_of(tensor) for tensor in request["inputs"]}
        self.request = request
        self.source = request["model"] if "model" in request else model(request, self.arrays)
        self.inputs = [tensor for tensor in request["inputs"] if not tensor.get("constant")]
        self.outputs = request["outputs"]
        self.arrays.update((tensor["name"], array_of(tensor)) for tensor in self.outputs)
        # Whether the session writes its results there: not if their sizes depend on data.
        self.into_arrays = not any(tensor.get("bounded") for tensor in self.outputs)
        self.shapes = {tensor["name"]: tensor["shape"] for tensor in self.outputs}
        self.session, self.binding = self.make_session(None)
        try:
            self.run(0)
        except RuntimeError as error:
            if "Invalid rank for output" not in str(error):
                raise
            # The model states another rank than its result has, so the session allocates results.
            self.into_arrays = False
            self.session, self.binding = self.make_session(None)
            self.run(0)

    def make_session(self, profile):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.request["threads"]
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        # Its threads do not spin after a run, while another contestant is timed.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        if self.request.get("flush_denormals"):
            options.add_session_config_entry("session.set_denormal_as_zero", "1")
        if profile:
            options.enable_profiling = True
            options.profile_file_prefix = profile
        session = onnxruntime.InferenceSession(self.source, options, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        for tensor in self.inputs:
            self.bind(binding.bind_input, tensor)
        self.bind_outputs(binding)
        return session, binding

    def bind_outputs(self, binding):
        for tensor in self.outputs:
            if self.into_arrays:
                self.bind(binding.bind_output, tensor)
            else:
                binding.bind_output(tensor["name"], "cpu")

    def bind(self, how, tensor):
        kind = TYPES[tensor["type"]]
        how(tensor["name"], "cpu", 0, kind[0] if tensor["type"] == "bf16" else kind[1], tensor["shape"],
            self.arrays[tensor["name"]].ctypes.data)

    def run(self, times, clock=time.perf_counter):
        if not self.into_arrays:
            return self.run_into_own(times, clock)
        run, binding, options = self.session._sess.run_with_iobinding, self.binding._iobinding, None
        run(binding, options)
        begin = clock()
        for _ in range(times):
            run(binding, options)
        return clock() - begin

    def run_into_own(self, times, clock):
        begin = clock()
        for n in range(times + 1):
            if n == 1:
                begin = clock()
            # Results of the run before would be checked like arrays of ours.
            self.binding.clear_binding_outputs()
            self.bind_outputs(self.binding)
            self.session.run_with_iobinding(self.binding)
        seconds = clock() - begin
        for tensor, result in zip(self.outputs, self.binding.copy_outputs_to_cpu()):
            if tensor.get("bounded"):  # dense in the begin of an array of the largest size
                self.arrays[tensor["name"]].reshape(-1)[:result.size] = result.reshape(-1)
                self.shapes[tensor["name"]] = result.shape
            else:
                self.arrays[tensor["name"]][...] = result.reshape(tensor["shape"])
        return seconds

    def profile(self, times):
        with tempfile.TemporaryDirectory() as folder:
            session, binding = self.make_session(os.path.join(folder, "profile"))
            for _ in range(times + 1):
                if not self.into_arrays:
                    binding.clear_binding_outputs()
                    self.bind_outputs(binding)
                session.run_with_iobinding(binding)
            with open(session.end_profiling()) as file:
                events = json.load(file)
        runs = []  # of (names, seconds); a run's own event follows those of its nodes
        nodes = []
        for event in events:
            name = event.get("name", "")
            if event.get("cat") == "Node" and name.endswith("_kernel_time"):
                nodes.append(([name[:-len("_kernel_time")]], 1e-6 * event["dur"]))
            elif name == "model_run":
                runs.append(nodes)
                nodes = []
        return median_layers(runs[1:] or [nodes])

    def collect(self):
        write_outputs(self.outputs, self.arrays)
        return self.shapes


# ---- all values of a model

def fields(message):
    """Number and content of each field of a message: of bytes, else None."""
    at = 0

    def read_varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = read_varint()
        if key & 7 == 2:
            size = read_varint()
            yield key >> 3, message[at:at + size]
            at += size
        else:
            if key & 7 == 0:
                read_varint()
            else:
                at += 8 if key & 7 == 1 else 4
            yield key >> 3, None


def names_of_values(model):
    """The results of the graph's nodes, and its outputs."""
    made, outputs = {}, []
    for field, graph in fields(memoryview(model)):
        if field != 7:
            continue
        for part, content in fields(graph):
            if part == 1:
                made.update((bytes(name).decode(), None) for f, name in fields(content) if f == 2 and len(name))
            elif part == 12:
                outputs += [bytes(name).decode() for f, name in fields(content) if f == 1]
    return list(made), outputs


def values(request):
    with open(request["model"], "rb") as file:
        content = file.read()
    made, outputs = names_of_values(content)
    # Parts of one message that follow one another are merged.
    content += piece(7, b"".join(piece(12, piece(1, name)) for name in made if name not in set(outputs)))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.model_external_initializers_file_folder_path",
                                     os.path.dirname(request["model"]))
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    # Sequences and types that NumPy does not have are left out.
    names = [o.name for o in session.get_outputs()
             if o.type.startswith("tensor(") and o.type not in ("tensor(bfloat16)", "tensor(string)")
             and "float8" not in o.type and "int4" not in o.type]
    known = {i.name for i in session.get_inputs()}
    arrays = {tensor["name"]: array_of(tensor) for tensor in request["inputs"] if tensor["name"] in known}
    files = {}
    for position, (name, array) in enumerate(zip(names, session.run(names, arrays))):
        files[name] = f"{position}.npy"
        numpy.save(os.path.join(request["folder"], files[name]), array)
    return {"values": files}


if __name__ == "__main__":
    serve(onnxruntime.__version__, Made, {"values": values,
                                             "resident": lambda request: {"bytes": memory("VmHWM") - BEFORE}})
