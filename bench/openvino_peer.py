"""OpenVINO as a peer: reads a model and runs it, in the protocol of bench/peer_process.py."""
import time

import openvino

from peer_process import array_of, median_layers, serve, write_outputs


class Made:
    def __init__(self, request):
        self.arrays = {tensor["name"]: array_of(tensor) for tensor in request["inputs"] + request["outputs"]}
        self.request, self.outputs = request, request["outputs"]
        self.model = openvino.Core().read_model(request["model"])
        self.model.reshape({tensor["name"]: tensor["shape"] for tensor in request["inputs"]})
        self.infer = self.make_request(False)
        self.run(0)

    def make_request(self, profile):
        # The same arithmetic as ours: float32, one stream.
        options = {"INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": "1", "PERFORMANCE_HINT": "LATENCY",
                   "INFERENCE_NUM_THREADS": str(self.request["threads"]), "PERF_COUNT": "YES" if profile else "NO"}
        infer = openvino.Core().compile_model(self.model, "CPU", options).create_infer_request()
        for tensor in self.request["inputs"]:
            infer.set_tensor(tensor["name"], openvino.Tensor(self.arrays[tensor["name"]], shared_memory=True))
        for n, tensor in enumerate(self.outputs):  # by position: not all keep their names
            if not tensor.get("bounded"):
                infer.set_output_tensor(n, openvino.Tensor(self.arrays[tensor["name"]], shared_memory=True))
        return infer

    def run(self, times, clock=time.perf_counter):
        # The method in C++ behind InferRequest.infer, whose results are not copied here.
        infer = super(openvino.InferRequest, self.infer).infer
        infer({}, True, False)
        begin = clock()
        for _ in range(times):
            infer({}, True, False)
        return clock() - begin

    def profile(self, times):
        infer, runs = self.make_request(True), []
        for _ in range(times + 1):
            infer.infer()
            layers = []
            for layer in infer.get_profiling_info():
                if layer.real_time:
                    layers.append(([layer.node_name], layer.real_time.total_seconds()))
                elif layers:  # part of the layer before it
                    layers[-1][0].append(layer.node_name)
            runs.append(layers)
        return median_layers(runs[1:])

    def collect(self):
        shapes = {tensor["name"]: tensor["shape"] for tensor in self.outputs}
        for n, tensor in enumerate(self.outputs):
            if tensor.get("bounded"):  # dense in the begin of an array of the largest size
                result = self.infer.get_output_tensor(n).data
                self.arrays[tensor["name"]].reshape(-1)[:result.size] = result.reshape(-1)
                shapes[tensor["name"]] = result.shape
        write_outputs(self.outputs, self.arrays)
        return shapes


if __name__ == "__main__":
    serve(openvino.__version__, Made)
