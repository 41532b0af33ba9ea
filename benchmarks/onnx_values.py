"""Networks in ONNX with random weights: values of their cascades beside those of onnx's reference evaluator.

The networks are those of `onnx_networks`: at full size where that takes seconds, else smaller, as the table says. Exits
with status 1 where a value differs by more than MOST of the largest one.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

import einmap
from onnx_networks import alexnet, bert_base, gpt2, llama_block, mixture, mobilenet_v2, resnet, unet

MOST = 1e-4
"""The evaluator adds 32-bit numbers, einmap 64-bit ones."""
NETWORKS: dict[str, Callable[[Path], Path]] = {
    "AlexNet": alexnet,
    "MobileNetV2": mobilenet_v2,
    "ResNet-18": lambda path: resnet(path, [2, 2, 2, 2], False),
    "ResNet-50": lambda path: resnet(path, [3, 4, 6, 3], True),
    "U-Net, 188 x 188, an eighth of the channels": lambda path: unet(path, 188, 8),
    "BERT-base, one of 12 layers": lambda path: bert_base(path, 1),
    "GPT-2, one of 12 layers, 32 tokens": lambda path: gpt2(path, 1, 32),
    "Llama 3, 8 heads for 2 of keys, 32 tokens": lambda path: llama_block(path, 32, n=8, groups=2, e=32),
    "Mixtral, 64 features, 8 experts, 32 tokens": lambda path: mixture(path, 32, 64),
}
"""Who builds each network."""


def with_numbers(path: Path, rng: np.random.Generator) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The model with random weights whose products neither vanish nor grow, and the weights by name."""
    model = onnx.load(path, load_external_data=False)
    weights = {}
    for tensor in model.graph.initializer:
        if tensor.data_location == 1:
            shape = tuple(tensor.dims)
            scale = (2 / max(1, int(np.prod(shape[1:])))) ** 0.5 if len(shape) > 1 else 0.1
            weights[tensor.name] = (scale * rng.standard_normal(shape)).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(weights[tensor.name], tensor.name))
        else:
            weights[tensor.name] = numpy_helper.to_array(tensor)
    return model, weights


def values_of(model: onnx.ModelProto, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Random values for the inputs, with a batch of one; integers are words, segments, or a mask."""
    values = {}
    for given in model.graph.input:
        shape = [size.dim_value or 1 for size in given.type.tensor_type.shape.dim]
        is_float = given.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
        values[given.name] = rng.standard_normal(shape).astype(np.float32) if is_float else rng.integers(0, 2, shape)
    return values


def compared(name: str, path: Path) -> tuple[float, float, float]:
    """The largest difference beside the largest value, and the seconds of both."""
    rng = np.random.default_rng(len(name))
    model, weights = with_numbers(path, rng)
    inputs = values_of(model, rng)
    begin = time.process_time()
    (expected,) = ReferenceEvaluator(model).run(None, inputs)
    middle = time.process_time()
    dimensions = {"batch": 1} if b"batch" in path.read_bytes() else {}
    (found,) = einmap.from_onnx(path, dimensions=dimensions).run({**inputs, **weights}).values()
    end = time.process_time()
    return float(np.abs(found - expected).max() / np.abs(expected).max()), middle - begin, end - middle


def main() -> int:
    """Print the table."""
    failed = False
    folder = Path(tempfile.mkdtemp())
    print(f"{'':44} largest difference     onnx   einmap")
    for number, (name, make) in enumerate(NETWORKS.items()):
        difference, theirs, ours = compared(name, make(folder / f"{number}.onnx"))
        failed |= not difference < MOST
        print(f"{name:44} {difference:18.1e} {theirs:6.1f} s {ours:6.1f} s", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
